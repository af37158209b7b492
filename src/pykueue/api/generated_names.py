"""The random suffixes of generated names, in the alphabet of Kubernetes: no vowels, so no words."""

import secrets

ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
SUFFIX_LENGTH = 5
_LONGEST_PREFIX = 63 - SUFFIX_LENGTH


def random_suffix() -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(SUFFIX_LENGTH))


def generate(prefix: str) -> str:
    """The name of an object with this `generateName`."""
    return prefix[:_LONGEST_PREFIX] + random_suffix()
