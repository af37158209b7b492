"""The random suffixes of generated names, in the alphabet of Kubernetes: no vowels, so no words."""

import secrets

ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
SUFFIX_LENGTH = 5


def random_suffix() -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(SUFFIX_LENGTH))
