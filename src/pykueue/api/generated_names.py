"""Generated names: a prefix and a random suffix in the alphabet of Kubernetes, without vowels."""

from pykueue.api import entropy

ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5
_LONGEST_PREFIX = 63 - _SUFFIX_LENGTH


def random_suffix() -> str:
    return entropy.token(ALPHABET, _SUFFIX_LENGTH)


def generate(prefix: str) -> str:
    """A name for an object with `generateName`."""
    return prefix[:_LONGEST_PREFIX] + random_suffix()
