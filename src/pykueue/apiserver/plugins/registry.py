"""The plugins that apply to every writer, in the order of Kubernetes."""

from pykueue.api.scheme import Scheme
from pykueue.apiserver.admission import AdmissionPlugin, MutatingPlugin
from pykueue.apiserver.plugins.mutating_policies import MutatingPolicies
from pykueue.apiserver.plugins.object_limits import ObjectLimits
from pykueue.apiserver.plugins.pod_security import PodSecurityAdmission
from pykueue.apiserver.plugins.resource_quota import QuotaUsage, ResourceQuotas
from pykueue.apiserver.plugins.unenforced_kinds import UnenforcedKinds
from pykueue.apiserver.plugins.validating_policies import ValidatingPolicies
from pykueue.apiserver.plugins.webhooks import MutatingWebhooks, ValidatingWebhooks, WebhookSource
from pykueue.apiserver.security.authorizer import Authorizer
from pykueue.apiserver.store.store import Store


class Plugins:
    """`mutating` change writes; `of_writes` check them, `of_deletions` check deletions."""

    def __init__(self, store: Store, scheme: Scheme, usage: QuotaUsage, authorizer: Authorizer | None) -> None:
        self._validating_policies = validating_policies = ValidatingPolicies(store, scheme, authorizer)
        self._mutating_policies = MutatingPolicies(store, scheme, authorizer)
        self.webhooks = WebhookSource(store, scheme)
        validating_webhooks = ValidatingWebhooks(self.webhooks, authorizer)
        self.mutating: list[MutatingPlugin] = [
            self._mutating_policies,
            MutatingWebhooks(self.webhooks, authorizer),
        ]
        self.of_deletions: list[AdmissionPlugin] = [validating_policies, validating_webhooks]
        self.of_writes: list[AdmissionPlugin] = [
            PodSecurityAdmission(),
            UnenforcedKinds(),
            ObjectLimits(store),
            validating_policies,
            validating_webhooks,
            ResourceQuotas(usage),
        ]

    def have_user_rules(self) -> bool:
        """Whether users have defined policies or webhooks, which may concern any write."""
        return not (self._validating_policies.is_empty and self._mutating_policies.is_empty and self.webhooks.is_empty)
