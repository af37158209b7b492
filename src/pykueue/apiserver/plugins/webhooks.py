"""Mutating and validating webhooks: servers that are asked about a write, over HTTPS.

The plugins run inside the write and find the answers in its `ReviewSession`; `WebhookCaller` gets
the answers that are missing, and tries the write again.
"""

import asyncio
import copy
import itertools
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from pykueue.api import entropy, errors, objects, reserved_keys, resources, selectors
from pykueue.api.cel.errors import EvaluationError
from pykueue.api.errors import ApiError
from pykueue.api.policy_expressions import Evaluation, MatchConditions
from pykueue.api.rules import reading
from pykueue.api.scheme import AdmissionRequest, Kind, Lookup, Object, Scheme
from pykueue.apiserver import versions
from pykueue.apiserver.admission import Mutator
from pykueue.apiserver.calls import DeleteCall, PatchBody, ResourceTarget, WriteCall
from pykueue.apiserver.patches import json_patch
from pykueue.apiserver.plugins import admission_rules, webhook_reviews
from pykueue.apiserver.plugins.admission_attributes import Attributes
from pykueue.apiserver.plugins.admission_policies import authorizer_values
from pykueue.apiserver.plugins.admission_rules import Matcher
from pykueue.apiserver.plugins.webhook_reviews import AnswerError, Webhook
from pykueue.apiserver.review_session import PendingReview, PendingReviewsError, ReviewAnswer, ReviewSession
from pykueue.apiserver.security.authorizer import Authorizer
from pykueue.apiserver.store.rows import StoreChange
from pykueue.apiserver.store.store import Store
from pykueue.kube.webhook_client import WebhookCallError, WebhookClient, WebhookEndpoint

log = logging.getLogger(__name__)

_MOST_TRIES = 100
_REQUEST_SECONDS = 60.0
_WITHOUT_MUTATION = ("scale", "binding")

Call = TypeVar("Call", WriteCall, DeleteCall)
Outcome = TypeVar("Outcome")
Body = TypeVar("Body", Object, PatchBody)


class WebhookSource:
    """The webhooks of all configurations, sorted by the name of the configuration."""

    def __init__(self, store: Store, scheme: Scheme) -> None:
        self._store = store
        self._scheme = scheme
        self._webhooks: dict[str, list[Webhook]] | None = None
        store.listeners.append(self._on_changes)

    def _on_changes(self, changes: Sequence[StoreChange]) -> None:
        for change in changes:
            if change.now.key.group == admission_rules.GROUP:
                self._webhooks = None

    @property
    def is_empty(self) -> bool:
        return not self._current()

    def of(self, plural: str) -> list[Webhook]:
        return self._current().get(plural, [])

    def _current(self) -> dict[str, list[Webhook]]:
        if self._webhooks is None:
            plurals = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
            webhooks = {plural: list(self._read(plural)) for plural in plurals}
            self._webhooks = {plural: listed for plural, listed in webhooks.items() if listed}
        return self._webhooks

    def _read(self, plural: str) -> Iterator[Webhook]:
        for stored in sorted(self._store.select(admission_rules.GROUP, plural), key=lambda stored: stored.key.name):
            for index, spec in enumerate(stored.shared_or_decoded().get("webhooks") or ()):
                if spec.get("rules"):
                    yield Webhook(
                        configuration=stored.key.name,
                        index=index,
                        spec=spec,
                        matcher=Matcher(spec, self._scheme, rules="rules"),
                        conditions=_conditions(spec),
                        is_mutating=plural.startswith("mutating"),
                    )


def _conditions(spec: Object) -> MatchConditions:
    """The conditions of a webhook. Older versions of this server stored them unchecked."""
    try:
        return MatchConditions.of(spec.get("matchConditions") or (), has_params=False)
    except (EvaluationError, KeyError, TypeError) as error:
        return MatchConditions(expressions=(), fault=f"the matchConditions are not valid: {error}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Dispatcher:
    source: WebhookSource
    authorizer: Authorizer | None

    def matching(self, plural: str, attributes: Attributes) -> list[Webhook]:
        """The webhooks with rules for this resource and operation."""
        if admission_rules.is_exempt(attributes.kind):
            return []
        of_resource = (attributes.kind, attributes.subresource, attributes.operation)
        return [webhook for webhook in self.source.of(plural) if webhook.matcher.may_match(*of_resource)]

    def answer(
        self, webhook: Webhook, attributes: Attributes, lookup: Lookup, session: ReviewSession
    ) -> tuple[Kind, ReviewAnswer | PendingReview] | None:
        """The answer about this request; None if the webhook is not to be asked."""
        kind = webhook.matcher.matched_kind(attributes, lookup)
        if kind is None or not self._meets_conditions(webhook, attributes, kind):
            return None
        webhook.check_dry_run(attributes)
        return kind, session.answer(webhook, webhook.key, webhook_reviews.request_of(attributes, kind))

    def _meets_conditions(self, webhook: Webhook, attributes: Attributes, kind: Kind) -> bool:
        if not webhook.conditions.expressions and not webhook.conditions.fault:
            return True
        obj, old = attributes.in_version(kind)
        values = {
            "object": obj,
            "oldObject": old,
            "request": attributes.request(kind),
            "namespaceObject": None,
            **authorizer_values(attributes, self.authorizer),
        }
        evaluation = Evaluation(values=values, variables={})
        try:
            return webhook.conditions.match(evaluation)
        except EvaluationError as error:
            if webhook.fails_open:
                return False
            kind = attributes.kind
            raise errors.forbidden(kind.group, kind.plural, attributes.name, str(error)) from None


def _check(webhook: Webhook, answer: ReviewAnswer, session: ReviewSession) -> bool:
    """Whether the webhook allows the write; False if it failed and that is to be ignored."""
    session.warnings += webhook_reviews.warnings_of(answer)
    for key, value in itertools.islice(reading.mapping(answer.response.get("auditAnnotations")).items(), 10):
        log.info("audit %s/%.256r: %.256r", webhook.name, key, value)
    refusal = webhook_reviews.refusal_of(webhook, answer)
    if refusal is None:
        return True
    if answer.failure and webhook.fails_open:
        log.warning("failed calling webhook %s, failing open: %s", webhook.name, answer.failure)
        return False
    refusal.warnings = tuple(session.warnings)
    raise refusal


class MutatingWebhooks:
    """The mutating admission plugin."""

    def __init__(self, source: WebhookSource, authorizer: Authorizer | None) -> None:
        self._dispatcher = _Dispatcher(source=source, authorizer=authorizer)

    def mutators(self, kind: Kind, request: AdmissionRequest, call: WriteCall) -> Sequence[Mutator]:
        if call.reviews is None or request.subresource in _WITHOUT_MUTATION:
            return ()
        attributes = Attributes.of(kind, request, call)
        webhooks = self._dispatcher.matching("mutatingwebhookconfigurations", attributes)
        return [_WebhookMutator(webhook=webhook, dispatcher=self._dispatcher) for webhook in webhooks]


@dataclass(frozen=True, slots=True, kw_only=True)
class _WebhookMutator:
    webhook: Webhook
    dispatcher: _Dispatcher

    @property
    def is_reinvocable(self) -> bool:
        return bool(self.webhook.spec.get("reinvocationPolicy") == "IfNeeded")

    def mutate(self, kind: Kind, request: AdmissionRequest, call: WriteCall) -> Object | None:
        assert call.reviews is not None
        attributes = Attributes.of(kind, request, call)
        asked_about = self.dispatcher.answer(self.webhook, attributes, request.lookup, call.reviews)
        if asked_about is None:
            return None
        version, answer = asked_about
        if isinstance(answer, PendingReview):
            raise PendingReviewsError([answer])
        if not _check(self.webhook, answer, call.reviews) or not answer.response.get("patch"):
            return None
        obj, _ = attributes.in_version(version)
        try:
            patched = json_patch.apply(obj, webhook_reviews.operations_of(answer.response))
        except ApiError as error:
            message = f'the patch of admission webhook "{self.webhook.name}" does not apply: {error.message}'
            raise ApiError(500, "InternalError", f"Internal error occurred: {message}") from None
        if not isinstance(patched, dict) or not isinstance(patched.get("metadata"), dict):
            message = f'the patch of admission webhook "{self.webhook.name}" leaves no object'
            raise ApiError(500, "InternalError", f"Internal error occurred: {message}")
        return versions.to_storage(version, patched)


class ValidatingWebhooks:
    """The validating admission plugin. It asks all webhooks at the same time."""

    def __init__(self, source: WebhookSource, authorizer: Authorizer | None) -> None:
        self._dispatcher = _Dispatcher(source=source, authorizer=authorizer)

    def validate(self, kind: Kind, request: AdmissionRequest, call: WriteCall) -> list[str]:
        session = call.reviews
        if session is None:
            return []
        attributes = Attributes.of(kind, request, call)
        pending, answers = [], []
        plurals = ["validatingwebhookconfigurations"]
        if attributes.operation == "DELETE":
            plurals.insert(0, "mutatingwebhookconfigurations")
        for webhook in (hook for plural in plurals for hook in self._dispatcher.matching(plural, attributes)):
            asked_about = self._dispatcher.answer(webhook, attributes, request.lookup, session)
            if asked_about is None:
                continue
            if isinstance(asked_about[1], PendingReview):
                pending.append(asked_about[1])
            else:
                answers.append((webhook, asked_about[1]))
        if pending:
            raise PendingReviewsError(pending)
        for webhook, answer in answers:
            _check(webhook, answer, session)
        return session.warnings


class WebhookCaller:
    def __init__(self, source: WebhookSource, lookup: Lookup) -> None:
        self._source = source
        self._lookup = lookup
        self._client = WebhookClient()

    async def write(
        self,
        verb: Callable[[ResourceTarget, Body, WriteCall], Outcome],
        target: ResourceTarget,
        body: Body,
        call: WriteCall,
    ) -> Outcome:
        """As `run`, for a verb that changes its body: each try gets a copy."""
        if self._source.is_empty:
            return verb(target, body, call)
        return await self.run(lambda call: verb(target, copy.deepcopy(body), call), call)

    async def run(self, attempt: Callable[[Call], Outcome], call: Call) -> Outcome:
        """Try until no webhook has to be asked. A write without webhooks is tried at once."""
        if self._source.is_empty:
            return attempt(call)
        session = ReviewSession()
        call = msgspec.structs.replace(call, reviews=session)
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                for _ in range(_MOST_TRIES):
                    session.begin()
                    try:
                        return attempt(call)
                    except PendingReviewsError as error:
                        await self._answer(error.reviews, session)
        except TimeoutError:
            raise ApiError(504, "Timeout", "Timeout: request did not complete within requested timeout") from None
        raise ApiError(409, "Conflict", "the object changed whenever webhooks had answered; please try again")

    async def _answer(self, reviews: Sequence[PendingReview], session: ReviewSession) -> None:
        answers = await asyncio.gather(*(self._call(review.webhook, review.request) for review in reviews))
        session.answers |= {review.key: answer for review, answer in zip(reviews, answers, strict=True)}

    async def _call(self, webhook: Webhook, request: Object) -> ReviewAnswer:
        uid = entropy.new_uid()
        try:
            endpoint = self._endpoint(webhook.spec.get("clientConfig") or {})
            if endpoint is None:
                return ReviewAnswer(response={"uid": uid, "allowed": True})
            review = webhook_reviews.review_of(webhook, request, uid)
            answer = await self._client.post(endpoint, review, webhook.timeout_seconds)
        except WebhookCallError as error:
            return ReviewAnswer(failure=f"failed to call webhook: {error}")
        try:
            return ReviewAnswer(response=webhook_reviews.checked_response(webhook, answer, uid))
        except AnswerError as error:
            return ReviewAnswer(failure=f"received invalid webhook response: {error}")

    def _endpoint(self, client: Object) -> WebhookEndpoint | None:
        """None if a component of pykueue is asked: this API applies its rules to every write."""
        authority = str(client.get("caBundle") or "")
        if url := client.get("url"):
            return WebhookEndpoint(url=str(url), authority=authority)
        service = client.get("service") or {}
        name, namespace, port = service.get("name", ""), service.get("namespace", ""), int(service.get("port") or 443)
        path = str(service.get("path") or "/")
        address = self._pod_of_service(name, namespace, port)
        if address is None:
            return None
        return WebhookEndpoint(url=f"https://{name}.{namespace}.svc:{port}{path}", authority=authority, address=address)

    def _pod_of_service(self, name: str, namespace: str, port: int) -> tuple[str, int] | None:
        """The address of a ready pod of the service: pods are processes of this machine.

        None for the pod of a component, which runs inside pykueue and does not listen.
        """
        service = self._lookup.get(resources.SERVICE, namespace, name)
        if service is None:
            raise WebhookCallError(f'service "{name}" not found')
        spec = objects.spec(service)
        ports = [entry for entry in spec.get("ports") or () if entry.get("port") == port]
        if not ports:
            raise WebhookCallError(f'no service port {port} found for service "{name}"')
        selector = spec.get("selector") or {}
        for pod in self._lookup.list(resources.POD, namespace) if selector else ():
            address = objects.status(pod).get("podIP")
            if address and _is_ready(pod) and selectors.selects({"matchLabels": selector}, objects.labels(pod)):
                if namespace == resources.KUEUE_NAMESPACE and reserved_keys.COMPONENT in objects.annotations(pod):
                    return None
                return str(address), _target_port(ports[0], pod)
        raise WebhookCallError(f'no endpoints available for service "{name}"')


def _is_ready(pod: Object) -> bool:
    conditions = objects.nested_list(pod, "status", "conditions")
    return any(condition.get("type") == "Ready" and condition.get("status") == "True" for condition in conditions)


def _target_port(entry: Object, pod: Object) -> int:
    target = entry.get("targetPort", entry["port"])
    if isinstance(target, int):
        return target
    for container in objects.nested_list(pod, "spec", "containers"):
        for port in container.get("ports") or ():
            if port.get("name") == target:
                return int(port["containerPort"])
    raise WebhookCallError(f"no container of pod {objects.name(pod)} has a port named {target}")
