"""The type of the variable `request` of admission policies: an AdmissionRequest."""

from pykueue.api.cel import types
from pykueue.api.cel.environment import Structs
from pykueue.api.cel.types import BOOL, DYN, STRING

REQUEST = types.struct("kubernetes.AdmissionRequest")
_KIND = types.struct("kubernetes.GroupVersionKind")
_RESOURCE = types.struct("kubernetes.GroupVersionResource")
_USER_INFO = types.struct("kubernetes.UserInfo")
_TEXTS = types.list_of(STRING)

STRUCTS: Structs = {
    REQUEST.name: {
        "kind": _KIND,
        "resource": _RESOURCE,
        "subResource": STRING,
        "requestKind": _KIND,
        "requestResource": _RESOURCE,
        "requestSubResource": STRING,
        "name": STRING,
        "namespace": STRING,
        "operation": STRING,
        "userInfo": _USER_INFO,
        "dryRun": BOOL,
        "options": DYN,
    },
    _KIND.name: {"group": STRING, "version": STRING, "kind": STRING},
    _RESOURCE.name: {"group": STRING, "version": STRING, "resource": STRING},
    _USER_INFO.name: {
        "username": STRING,
        "uid": STRING,
        "groups": _TEXTS,
        "extra": types.map_of(STRING, _TEXTS),
    },
}
