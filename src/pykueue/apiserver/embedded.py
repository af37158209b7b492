"""The embedded API as one unit: store, verbs, access control, custom kinds, and HTTP listener.

`pykueue up` starts it; tests start it in process. All of its files are in one directory:

    store.db …   the store (see `store`)
    pki/         certificate authority, serving certificate, key of service account tokens
    tokens.csv   users and their bearer tokens
    kubeconfig   the credentials of the administrator
"""

import datetime as dt
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

from pykueue.api.scheme import Scheme, Settings
from pykueue.apiserver import bootstrap
from pykueue.apiserver.calls import ADMIN, UserInfo
from pykueue.apiserver.controllers.cluster_role_aggregation import ClusterRoleAggregation
from pykueue.apiserver.core import Core
from pykueue.apiserver.definitions.controller import DefinitionController
from pykueue.apiserver.http import pod_subresources, reviews, service_accounts
from pykueue.apiserver.http.app import Application
from pykueue.apiserver.http.escalation import Escalation
from pykueue.apiserver.http.listener import Listener
from pykueue.apiserver.local_client import LocalClient
from pykueue.apiserver.security import certificates, files, kubeconfig, tokens
from pykueue.apiserver.security.authorizer import Authorizer
from pykueue.apiserver.store.rows import StoreKey
from pykueue.apiserver.store.sqlite import SqliteLog
from pykueue.apiserver.store.store import Store

_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - local addresses


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPaths:
    """The data directory and the address of the embedded API. Port 0 takes any free port."""

    directory: Path
    host: str = "127.0.0.1"
    port: int = 0
    names: tuple[str, ...] = ()
    """Names and addresses by which other machines reach the API; kubeconfigs have the first."""

    @property
    def tokens(self) -> Path:
        return self.directory / "tokens.csv"

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "kubeconfig"

    @property
    def certificates(self) -> Path:
        return self.directory / "pki"


class EmbeddedApi:
    def __init__(self, paths: ServerPaths, scheme: Scheme, settings: Settings | None = None) -> None:
        self.paths = paths
        self.scheme = scheme
        files.private_directory(paths.directory)
        self.core = Core(Store(SqliteLog(paths.directory)), scheme, settings=settings)
        self.authorizer = Authorizer()
        self._tokens = tokens.Tokens(paths.tokens)
        key = service_accounts.signing_key(files.private_directory(paths.certificates) / "service-accounts.key")
        self._accounts = service_accounts.ServiceAccounts(key, self._uid_of_account)
        self.application = Application(
            scheme=scheme, verbs=self.core, authorizer=self.authorizer, authenticate=self.authenticate
        )
        self.hooks = self.application.hooks
        self.access: kubeconfig.ClusterCredentials | None = None
        self._listener = Listener(self.application)
        self._definitions = DefinitionController(self.core, scheme, self.application.kinds_changed)
        self._aggregation = ClusterRoleAggregation(self.core, scheme, self.authorizer)
        self._namespace_defaults: bootstrap.NamespaceDefaults | None = None

    def client(self, user: UserInfo = ADMIN) -> LocalClient:
        """A client without HTTP, for components of this process."""
        return LocalClient(self.core, self.scheme, user=user, shows_managers=False)

    def authenticate(self, token: str) -> UserInfo | None:
        """The user or service account of a token; None if the token is not valid."""
        return self._tokens.user(token) or self._accounts.user(token)

    def _uid_of_account(self, namespace: str, name: str) -> str:
        stored = self.core.store.get(StoreKey("", "serviceaccounts", namespace, name))
        return stored.meta.uid if stored else ""

    async def start(self) -> kubeconfig.ClusterCredentials:
        """Return the administrator's credentials when clients can connect."""
        paths = self.paths
        self._add_hooks()
        await self.core.start()
        await self.authorizer.watch(self.core, self.scheme)
        await self._definitions.start()
        pki = certificates.ensure(paths.certificates, (*paths.names, *_names(paths.host)), dt.datetime.now(dt.UTC))
        admin = tokens.ensure(paths.tokens, tokens.ADMIN_NAME, (tokens.MASTERS,))
        port = await self._listener.start(paths.host, paths.port, _tls(pki))
        await bootstrap.ensure(self.core, self.scheme, port)
        self._namespace_defaults = bootstrap.NamespaceDefaults(self.core, self.scheme, pki.authority.read_text())
        await self._namespace_defaults.start()
        await self._aggregation.start()
        host = paths.names[0] if paths.names else _WILDCARDS.get(paths.host, paths.host)
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.application.address = address
        self.access = kubeconfig.ClusterCredentials(
            server=f"https://{address}", authority=pki.authority.read_bytes(), user=admin.user, token=admin.token
        )
        kubeconfig.write(paths.kubeconfig, self.access)
        return self.access

    async def stop(self) -> None:
        await self._listener.stop()
        for controller in (self._aggregation, self._namespace_defaults, self._definitions):
            if controller is not None:
                await controller.stop()
        await self.core.stop()

    def _add_hooks(self) -> None:
        application = self.application
        for group in reviews.groups(self.authorizer, self.authenticate):
            application.hooks.add_group(group)
        for resource, handler in pod_subresources.refusals():
            application.hooks.add_subresource("", resource, handler)
        binding = pod_subresources.PodBinding(self.core, self.scheme)
        application.hooks.add_subresource("", pod_subresources.BINDING, binding.create)
        application.hooks.add_subresource("", service_accounts.TOKEN, self._accounts.request)
        application.guards.append(Escalation(self.authorizer, application.resources).guard)


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
    context.set_alpn_protocols(["http/1.1"])
    return context
