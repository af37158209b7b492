"""The copies of stored objects that all watchers in this process share: whoever changes one deceives the others."""


def changed_by_a_reader(store):
    """Keys of objects whose shared copy is no longer what is stored."""
    every = (stored for group, plural in store.collections() for stored in store.select(group, plural))
    return [str(stored.key) for stored in every if stored.shared() != stored.decode_unmanaged()]
