"""The random ends of names, in the alphabet of Kubernetes (no vowels, so no words)."""

from pykueue.api import entropy

ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


def random_suffix() -> str:
    return entropy.token(ALPHABET, 5)
