"""Names as KubeRay gives them: too long ones lose their beginning, so that the random end stays."""

_LONGEST_PREFIX = 50
_LONGEST_LABEL = 63


def head_prefix(cluster: str) -> str:
    return shortened(f"{cluster}-head-".lower(), _LONGEST_PREFIX)


def worker_prefix(cluster: str, group: str) -> str:
    return shortened(f"{cluster}-worker-{group}-".lower(), _LONGEST_PREFIX)


def label(text: str) -> str:
    return shortened(text, _LONGEST_LABEL)


def shortened(text: str, longest: int) -> str:
    """The last characters; what then begins with a digit or a sign begins with `r`."""
    kept = text[-longest:]
    return kept if kept[0].isalpha() else f"r{kept[1:]}"


def head_service(cluster: str) -> str:
    return f"{cluster}-head-svc"
