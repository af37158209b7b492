"""Checks that no reader has changed an object that all watchers in this process share."""


def changed_by_a_reader(store):
    """Keys of objects whose shared copy differs from the stored object."""
    every = (stored for group, plural in store.collections() for stored in store.select(group, plural))
    return [str(stored.key) for stored in every if stored.shared() != stored.decode_unmanaged()]
