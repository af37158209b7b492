"""The random ends of names, in the alphabet of Kubernetes (no vowels, so no words)."""

import secrets

ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


def random_suffix() -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(5))
