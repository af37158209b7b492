"""The embedded API as one unit: store, verbs, access control, custom kinds, and HTTP listener.

`pykueue up` starts it; tests start it in process. All of its files are in one directory:

    store.db …   the store (see `store`)
    pki/         certificate authority, serving certificate, key of service account tokens
    tokens.csv   users and the hashes of their bearer tokens
    kubeconfig   the credentials of the administrator
"""

import datetime as dt
import socket
import ssl

from pykueue.api.scheme import Scheme, Settings
from pykueue.apiserver import bootstrap
from pykueue.apiserver.calls import ADMIN, UserInfo
from pykueue.apiserver.context import StoreLookup
from pykueue.apiserver.controllers.cluster_role_aggregation import ClusterRoleAggregation
from pykueue.apiserver.core import Core
from pykueue.apiserver.definitions.controller import DefinitionController
from pykueue.apiserver.http import evictions, host_names, pod_subresources, reviews, service_accounts
from pykueue.apiserver.http.app import Application
from pykueue.apiserver.http.listener import Listener
from pykueue.apiserver.local_client import LocalClient
from pykueue.apiserver.paths import ServerPaths
from pykueue.apiserver.plugins.escalation import Escalation
from pykueue.apiserver.plugins.token_secrets import TokenSecrets
from pykueue.apiserver.plugins.wrapped_components import WrappedComponents
from pykueue.apiserver.security import certificates, files, kubeconfig, tokens
from pykueue.apiserver.security.authorizer import Authorizer
from pykueue.apiserver.store.rows import Stored, StoreKey
from pykueue.apiserver.store.sqlite import SqliteLog
from pykueue.apiserver.store.store import Store

_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - local addresses


class EmbeddedApi:
    def __init__(self, paths: ServerPaths, scheme: Scheme, settings: Settings | None = None) -> None:
        self.paths = paths
        self.scheme = scheme
        files.private_directory(paths.directory)
        self.authorizer = Authorizer()
        self.core = Core(Store(SqliteLog(paths.directory)), scheme, settings=settings, authorizer=self.authorizer)
        self._tokens = tokens.Tokens(paths.tokens)
        key = service_accounts.signing_key(files.private_directory(paths.certificates) / "service-accounts.key")
        self._accounts = service_accounts.ServiceAccounts(key, self._core_object, self._tokens.has_uid)
        self.application = Application(
            scheme=scheme, verbs=self.core, authorizer=self.authorizer, authenticate=self.authenticate
        )
        self.hooks = self.application.hooks
        self.access: kubeconfig.ClusterCredentials | None = None
        self._host_names = host_names.LOOPBACK
        self._listener = Listener(self.application, is_own_host=self._is_own_host)
        self._definitions = DefinitionController(self.core, scheme, self.application.kinds_changed)
        self._aggregation = ClusterRoleAggregation(self.core, scheme, self.authorizer)
        self._namespace_defaults: bootstrap.NamespaceDefaults | None = None

    def client(self, user: UserInfo = ADMIN) -> LocalClient:
        """A client without HTTP, for components of this process."""
        return LocalClient(self.core, self.scheme, user=user, shows_managers=False, is_trusted=user is ADMIN)

    def authenticate(self, token: str) -> UserInfo | None:
        """The user or service account of a token; None if the token is not valid for this API."""
        result = self._authenticate_for(token, service_accounts.API_AUDIENCES)
        return result[0] if result else None

    def _authenticate_for(self, token: str, audiences: tuple[str, ...]) -> service_accounts.Authenticated | None:
        """The user, and those of the audiences that the token is for. A user's is for this API."""
        if user := self._tokens.user(token):
            accepted = tuple(audience for audience in audiences if audience in service_accounts.API_AUDIENCES)
            return (user, accepted) if accepted else None
        return self._accounts.user(token, audiences)

    def _is_own_host(self, path: str, host: str) -> bool:
        """Whether a request names this server. Only pages without a token care."""
        if path not in self.hooks.public_pages:
            return True
        return host_names.host_name(host) in self._host_names

    def _authority(self) -> bytes:
        return self.access.authority if self.access is not None else b""

    def _core_object(self, plural: str, namespace: str, name: str) -> Stored | None:
        return self.core.store.get(StoreKey("", plural, namespace, name))

    async def start(self, *, is_open: bool = True) -> kubeconfig.ClusterCredentials:
        """Return the administrator's credentials when clients can connect.

        If it is not open, clients that connect wait for `open`: they are never answered by a
        server that has no controllers, logs or metrics yet.
        """
        paths = self.paths
        self._add_hooks()
        await self.core.start()
        await self.authorizer.watch(self.core, self.scheme)
        await self._definitions.start()
        pki = certificates.ensure(paths.certificates, (*paths.names, *_names(paths.host)), dt.datetime.now(dt.UTC))
        self._host_names |= {name.lower() for name in (*paths.names, *_names(paths.host))}
        tokens.hash_clear_tokens(paths.tokens)
        admin_token = tokens.issue(
            paths.tokens, tokens.ADMIN_NAME, (tokens.MASTERS,), current=kubeconfig.read_token(paths.kubeconfig)
        )
        port = await self._listener.start(paths.host, paths.port, _tls(pki), is_open=is_open)
        await bootstrap.ensure(self.core, self.scheme, port)
        self._namespace_defaults = bootstrap.NamespaceDefaults(self.core, self.scheme, pki.authority.read_text())
        await self._namespace_defaults.start()
        await self._aggregation.start()
        host = paths.names[0] if paths.names else _WILDCARDS.get(paths.host, paths.host)
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.application.address = address
        self.access = kubeconfig.ClusterCredentials(
            server=f"https://{address}", authority=pki.authority.read_bytes(), user=tokens.ADMIN_NAME, token=admin_token
        )
        kubeconfig.write(paths.kubeconfig, self.access)
        return self.access

    def open(self) -> None:
        """Answer the clients that wait, and all others from now on."""
        self._listener.open()

    async def stop(self) -> None:
        await self._listener.stop()
        for controller in (self._aggregation, self._namespace_defaults, self._definitions):
            if controller is not None:
                await controller.stop()
        await self.core.stop()

    def _add_hooks(self) -> None:
        application = self.application
        for group in reviews.groups(self.authorizer, self._authenticate_for):
            application.hooks.add_group(group)
        for resource, handler in pod_subresources.refusals():
            application.hooks.add_subresource("", resource, handler)
        binding = pod_subresources.PodBinding(self.core, self.scheme)
        application.hooks.add_subresource("", pod_subresources.BINDING, binding.create)
        eviction = evictions.PodEviction(self.core, self.scheme, StoreLookup(self.core.store, self.scheme))
        application.hooks.add_subresource("", evictions.EVICTION, eviction.create)
        application.hooks.add_subresource("", service_accounts.TOKEN, self._accounts.request)
        filling = TokenSecrets(self._accounts.secret_token, self.authorizer, self._authority)
        self.core.context.mutating_plugins.append(filling)
        self.core.context.plugins[:0] = [Escalation(self.authorizer), WrappedComponents(self.authorizer)]


def _names(host: str) -> tuple[str, ...]:
    """The host names of the serving certificate: all of this machine for a wildcard address."""
    if host not in _WILDCARDS:
        return (host,)
    name = socket.gethostname()
    try:
        addresses = {str(info[4][0]) for info in socket.getaddrinfo(name, None)}
    except OSError:
        addresses = set()
    return (name, *sorted(addresses))


def _tls(pki: certificates.Certificates) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(pki.serving, pki.serving_key)
    context.set_alpn_protocols(["h2", "http/1.1"])
    context.num_tickets = 0  # clients of Kubernetes do not resume sessions
    return context
