"""Whether a user is a controller or an administrator, whom some rules for users do not bind.

Controllers of others run with service accounts of their own namespaces. A service account of the
object's namespace is no more than the users of that namespace, who can get its tokens.
"""

from pykueue.apiserver.calls import UserInfo

_SYSTEM = "system:"
_SERVICE_ACCOUNT = "system:serviceaccount:"


def is_trusted(user: UserInfo, namespace: str) -> bool:
    if "system:masters" in user.groups:
        return True
    if user.name.startswith(_SERVICE_ACCOUNT):
        return user.name.removeprefix(_SERVICE_ACCOUNT).partition(":")[0] != namespace
    return user.name.startswith(_SYSTEM) and user.name != "system:anonymous"
