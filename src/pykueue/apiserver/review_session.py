"""The reviews of webhooks for one request.

A write decides and stores in one step without `await`; a webhook answers later. So a write that
needs an answer raises `PendingReviewsError`, and is tried again when the answer is there. Answers
belong to the exact content of a review: if the object has changed meanwhile, the webhook is asked
about the new one. What is reviewed is therefore what is stored.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from pykueue.api.scheme import Object

_IDENTITY = ("name", "uid", "creationTimestamp")


class PendingReview(msgspec.Struct, frozen=True, kw_only=True):
    webhook: Any
    request: Object
    """The AdmissionRequest, without its uid."""
    key: str


class ReviewAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The `response` of an AdmissionReview, or why there is none."""

    response: Object = {}
    failure: str = ""


class PendingReviewsError(Exception):
    """A write that needs these answers first."""

    def __init__(self, reviews: Sequence[PendingReview]) -> None:
        super().__init__("webhooks have to answer first")
        self.reviews = reviews


@dataclass(slots=True)
class ReviewSession:
    answers: dict[str, ReviewAnswer] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    """The warnings of webhooks in the present try."""
    _identity: Object = field(default_factory=dict)

    def begin(self) -> None:
        self.warnings.clear()

    def answer(self, webhook: Any, webhook_key: str, request: Object) -> ReviewAnswer | PendingReview:
        digest = hashlib.sha256(msgspec.json.encode(request, order="sorted")).hexdigest()
        key = f"{webhook_key} {digest}"
        return self.answers.get(key) or PendingReview(webhook=webhook, request=request, key=key)

    def keep_identity(self, metadata: Object) -> None:
        """A new object has the same generated name, uid and time in every try."""
        if self._identity:
            metadata.update(self._identity)
        else:
            self._identity = {name: metadata[name] for name in _IDENTITY if name in metadata}
