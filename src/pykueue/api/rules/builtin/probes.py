"""Validation of probes and lifecycle hooks."""

from collections.abc import Iterator
from typing import Any

from pykueue.api.errors import FieldError
from pykueue.api.rules import faults, reading, syntax
from pykueue.api.scheme import Object

PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_SECONDS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_PROBE_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
_HOOK_HANDLERS = ("exec", "httpGet", "tcpSocket", "sleep")
_SIGNALS = (
    frozenset(
        [
            "SIGABRT",
            "SIGALRM",
            "SIGBUS",
            "SIGCHLD",
            "SIGCLD",
            "SIGCONT",
            "SIGFPE",
            "SIGHUP",
            "SIGILL",
            "SIGINT",
            "SIGIO",
            "SIGIOT",
            "SIGKILL",
            "SIGPIPE",
            "SIGPOLL",
            "SIGPROF",
            "SIGPWR",
            "SIGQUIT",
            "SIGSEGV",
            "SIGSTKFLT",
            "SIGSTOP",
            "SIGSYS",
            "SIGTERM",
            "SIGTRAP",
            "SIGTSTP",
            "SIGTTIN",
            "SIGTTOU",
            "SIGURG",
            "SIGUSR1",
            "SIGUSR2",
            "SIGVTALRM",
            "SIGWINCH",
            "SIGXCPU",
            "SIGXFSZ",
            "SIGRTMIN",
            "SIGRTMAX",
        ]
    )
    | {f"SIGRTMIN+{number}" for number in range(1, 16)}
    | {f"SIGRTMAX-{number}" for number in range(1, 15)}
)


def check_container(path: str, container: Object, grace_seconds: int, os_name: str) -> Iterator[FieldError]:
    """The lifecycle and the probes of a container that may have them."""
    lifecycle = reading.mapping(container.get("lifecycle"))
    for name in ("postStart", "preStop"):
        if isinstance(lifecycle.get(name), dict):
            here = f"{path}.lifecycle.{name}"
            yield from _check_handler(here, lifecycle[name], _HOOK_HANDLERS, grace_seconds)
    if (signal := lifecycle.get("stopSignal")) is not None:
        here = f"{path}.lifecycle.stopSignal"
        choices = sorted(_SIGNALS) if os_name == "linux" else ["SIGKILL", "SIGTERM"]
        if not os_name:
            yield faults.forbidden(here, "may not be set for containers with empty `spec.os.name`")
        elif signal not in choices:
            yield faults.not_supported(here, signal, choices)
    for name in PROBES:
        if isinstance(container.get(name), dict):
            yield from _check_probe(f"{path}.{name}", container[name], grace_seconds)


def check_without(path: str, container: Object, names: tuple[str, ...], detail: str) -> Iterator[FieldError]:
    """Refuse the fields that this type of container may not have."""
    for name in names:
        if container.get(name) is not None:
            yield faults.forbidden(f"{path}.{name}", detail)


def _check_probe(path: str, probe: Object, grace_seconds: int) -> Iterator[FieldError]:
    yield from _check_handler(path, probe, _PROBE_HANDLERS, grace_seconds)
    for name in _SECONDS:
        if (value := reading.integer(probe.get(name))) < 0:
            yield faults.invalid(f"{path}.{name}", value, faults.NEGATIVE)
    grace = probe.get("terminationGracePeriodSeconds")
    here = f"{path}.terminationGracePeriodSeconds"
    if grace is not None and reading.integer(grace) <= 0:
        yield faults.invalid(here, grace, "must be greater than 0")
    if path.endswith("readinessProbe"):
        if grace is not None:
            yield faults.invalid(here, grace, "must not be set for readinessProbes")
    elif (successes := reading.integer(probe.get("successThreshold"), 1)) != 1:
        yield faults.invalid(f"{path}.successThreshold", successes, "must be 1")


def _check_handler(path: str, handler: Object, types: tuple[str, ...], grace_seconds: int) -> Iterator[FieldError]:
    names = [name for name in types if handler.get(name) is not None]
    if not names:
        yield faults.required(path, "must specify a handler type")
        return
    yield from _check_action(f"{path}.{names[0]}", names[0], reading.mapping(handler[names[0]]), grace_seconds)
    for name in names[1:]:
        yield faults.forbidden(f"{path}.{name}", "may not specify more than 1 handler type")


def _check_action(path: str, name: str, action: Object, grace_seconds: int) -> Iterator[FieldError]:
    if name == "exec":
        if not reading.sequence(action.get("command")):
            yield faults.required(f"{path}.command")
    elif name == "sleep":
        if not 0 <= (seconds := reading.integer(action.get("seconds"))) <= grace_seconds:
            detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace_seconds})"
            yield faults.invalid(path, seconds, detail)
    else:
        if name == "httpGet" and not action.get("path"):
            yield faults.required(f"{path}.path")
        yield from check_port(f"{path}.port", action.get("port", 0))
        if name == "httpGet":
            yield from _check_http(path, action)


def _check_http(path: str, action: Object) -> Iterator[FieldError]:
    if (scheme := action.get("scheme", "HTTP")) not in ("HTTP", "HTTPS"):
        yield faults.not_supported(f"{path}.scheme", scheme, ("HTTP", "HTTPS"))
    for header in reading.mappings(action.get("httpHeaders")):
        name = reading.text(header.get("name"))
        for explanation in syntax.http_header_name(name):
            yield faults.invalid(f"{path}.httpHeaders", name, explanation)


def check_port(path: str, port: Any) -> Iterator[FieldError]:
    """A port by number or name."""
    if isinstance(port, str):
        yield from (faults.invalid(path, port, explanation) for explanation in syntax.port_name(port))
    elif not 1 <= reading.integer(port) <= 65535:
        yield faults.invalid(path, port, syntax.outside(1, 65535))
