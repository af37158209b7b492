"""Schemas by name."""

from pykueue.api.scheme import Schema


def named(name: str) -> Schema:
    assert name == "PodTemplateSpec"
    return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def of_kind(_kind: str) -> Schema:
    return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
