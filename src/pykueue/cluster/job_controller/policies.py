"""podFailurePolicy and successPolicy: which rule matches, and in which words the job then ends."""

from dataclasses import dataclass

from pykueue.api import objects
from pykueue.api.scheme import Object
from pykueue.cluster.job_controller import indexes
from pykueue.cluster.job_controller.job_view import JobView


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleMatch:
    """`action` is Ignore, Count, FailIndex or FailJob; "" when no rule matched. `message` only for FailJob."""

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
        wanted = {(pattern["type"], pattern.get("status", "True")) for pattern in rule["onPodConditions"]}
        for found in pod.get("status", {}).get("conditions") or ():
            if (found["type"], found["status"]) in wanted:
                return f"Pod {key} has condition {found['type']}"
    return ""


def _container_by_exit_code(requirement: Object, pod: Object) -> Object | None:
    status = pod.get("status", {})
    for container in [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]:
        terminated = (container.get("state") or {}).get("terminated")
        if not terminated or not terminated.get("exitCode"):
            continue
        if requirement.get("containerName") not in (None, container["name"]):
            continue
        if (terminated["exitCode"] in requirement["values"]) == (requirement["operator"] == "In"):
            return dict(container)
    return None


def match_success(job: JobView, succeeded: indexes.Indexes) -> str | None:
    """The message of the success rule that is met, if any."""
    rules = (job.spec.get("successPolicy") or {}).get("rules") or ()
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
