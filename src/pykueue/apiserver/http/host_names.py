"""The name in a Host header, for listeners that refuse requests to other names."""

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def host_name(header: str) -> str:
    """The name without the port, in lower case."""
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return header.partition(":")[0].lower()
