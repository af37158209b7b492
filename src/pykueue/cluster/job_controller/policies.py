"""podFailurePolicy and successPolicy: which rule matches, and the message of the condition."""

from dataclasses import dataclass

from pykueue.api import objects
from pykueue.api.scheme import Object
from pykueue.cluster import pods
from pykueue.cluster.job_controller import indexes
from pykueue.cluster.job_controller.job_view import JobView


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleMatch:
    """The rule that matched a failed pod.

    `action` is Ignore, Count, FailIndex or FailJob, and "" when no rule matched. Only FailJob has
    a `message`.
    """

    action: str = ""
    message: str = ""

    @property
    def counts(self) -> bool:
        return self.action != "Ignore"


def match_failure(job: JobView, pod: Object) -> RuleMatch:
    for number, rule in enumerate(job.failure_rules):
        if cause := _cause(rule, pod):
            action = str(rule["action"])
            message = f"{cause} matching {action} rule at index {number}" if action == "FailJob" else ""
            return RuleMatch(action=action, message=message)
    return RuleMatch()


def _cause(rule: Object, pod: Object) -> str:
    key = f"{objects.namespace(pod)}/{objects.name(pod)}"
    if rule.get("onExitCodes"):
        container = _container_by_exit_code(rule["onExitCodes"], pod)
        if container is None:
            return ""
        code = container["state"]["terminated"]["exitCode"]
        return f"Container {container['name']} for pod {key} failed with exit code {code}"
    if rule.get("onPodConditions"):
        patterns = {(pattern["type"], pattern.get("status", "True")) for pattern in rule["onPodConditions"]}
        for condition in objects.nested_list(pod, "status", "conditions"):
            if (condition["type"], condition["status"]) in patterns:
                return f"Pod {key} has condition {condition['type']}"
    return ""


def _container_by_exit_code(requirement: Object, pod: Object) -> Object | None:
    for container in pods.container_statuses(pod):
        terminated = objects.nested(container, "state", "terminated")
        if not terminated or not terminated.get("exitCode"):
            continue
        if requirement.get("containerName") not in (None, container["name"]):
            continue
        if (terminated["exitCode"] in requirement["values"]) == (requirement["operator"] == "In"):
            return dict(container)
    return None


def match_success(job: JobView, succeeded: indexes.Indexes) -> str | None:
    """The message of the first success rule that is met, or None."""
    rules = objects.nested_list(job.spec, "successPolicy", "rules")
    for number, rule in enumerate(rules):
        if succeeded and _is_met(rule, succeeded, job.completions or 0):
            return f"Matched rules at index {number}"
    return None


def _is_met(rule: Object, succeeded: indexes.Indexes, completions: int) -> bool:
    count = rule.get("succeededCount")
    if rule.get("succeededIndexes") is None:
        return count is not None and len(succeeded) >= count
    required = indexes.parse(rule["succeededIndexes"], completions)
    reached = len(required & succeeded)
    return bool(required) and (reached == len(required) or (count is not None and reached >= count))
