"""Whether a user is a controller or an administrator, whom some rules for users do not bind.

Controllers of others run with service accounts of their own namespaces, and have their rights in
all namespaces, by a ClusterRoleBinding: only an administrator can give them. A service account of
the object's namespace is no more than the users of that namespace, who can get its tokens. Nor is
one of another namespace that has its rights by a RoleBinding: whoever administers two namespaces
can write that.
"""

from pykueue.api.scheme import Kind
from pykueue.apiserver.calls import UserInfo
from pykueue.apiserver.security.authorizer import Authorizer
from pykueue.kube.delegation import AccessRequest

_SYSTEM = "system:"
_SERVICE_ACCOUNT = "system:serviceaccount:"
_WRITING_VERBS = ("create", "update", "patch", "delete")


def is_trusted(user: UserInfo, kind: Kind, namespace: str, authorizer: Authorizer | None) -> bool:
    """Without an authorizer every right counts as one in all namespaces."""
    if "system:masters" in user.groups:
        return True
    if user.name.startswith(_SERVICE_ACCOUNT):
        own = user.name.removeprefix(_SERVICE_ACCOUNT).partition(":")[0]
        return own != namespace and may_write_everywhere(user, kind, authorizer)
    return user.name.startswith(_SYSTEM) and user.name != "system:anonymous"


def may_write_everywhere(user: UserInfo, kind: Kind, authorizer: Authorizer | None) -> bool:
    requests = (AccessRequest(verb=verb, group=kind.group, resource=kind.plural) for verb in _WRITING_VERBS)
    return authorizer is None or any(authorizer.allows(user, request) for request in requests)
