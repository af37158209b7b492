"""The embedded API as one thing to start and stop: data, core, security, user-defined kinds, and the listener.

`pykueue up` starts it; tests may start it in process. Everything it needs is in one directory:

    data.db …    the store (see `store`)
    pki/         certificate authority, serving certificate, key of service account tokens
    tokens.csv   users and their bearer tokens
    kubeconfig   how the administrator gets in
"""

import datetime as dt
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

from pykueue.api.scheme import Scheme, Settings
from pykueue.apiserver import bootstrap
from pykueue.apiserver.calls import ADMIN, User
from pykueue.apiserver.core import Core
from pykueue.apiserver.definitions.controller import DefinitionController
from pykueue.apiserver.http import pods, reviews, service_accounts
from pykueue.apiserver.http.app import Application
from pykueue.apiserver.http.escalation import Escalation
from pykueue.apiserver.http.listener import Listener
from pykueue.apiserver.local_client import LocalClient
from pykueue.apiserver.security import certificates, files, kubeconfig, tokens
from pykueue.apiserver.security.aggregation import Aggregation
from pykueue.apiserver.security.authorizer import Authorizer
from pykueue.apiserver.store.rows import Key
from pykueue.apiserver.store.sqlite import SqliteLog
from pykueue.apiserver.store.store import Store

_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - where to call one that listens everywhere


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPaths:
    """Where the embedded API keeps its data and listens; port 0 takes any free one."""

    directory: Path
    host: str = "127.0.0.1"
    port: int = 0

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
    def __init__(self, place: ServerPaths, scheme: Scheme, settings: Settings | None = None) -> None:
        self.place = place
        self.scheme = scheme
        files.private_directory(place.directory)
        self.core = Core(Store(SqliteLog(place.directory)), scheme, settings=settings)
        self.authorizer = Authorizer()
        self._tokens = tokens.Tokens(place.tokens)
        key = service_accounts.signing_key(files.private_directory(place.certificates) / "service-accounts.key")
        self._accounts = service_accounts.ServiceAccounts(key, self._uid_of_account)
        self.application = Application(
            scheme=scheme, verbs=self.core, authorizer=self.authorizer, authenticate=self.authenticate
        )
        self.hooks = self.application.hooks
        self.access: kubeconfig.Access | None = None
        self._listener = Listener(self.application)
        self._keeper = DefinitionController(self.core, scheme, self.application.kinds_changed)
        self._aggregation = Aggregation(self.core, scheme, self.authorizer)
        self._gifts: bootstrap.NamespaceDefaults | None = None

    def client(self, user: User = ADMIN) -> LocalClient:
        """The same API without HTTP, for parts that live in this process."""
        return LocalClient(self.core, self.scheme, user=user, shows_managers=False)

    def authenticate(self, token: str) -> User | None:
        """Whose token it is: a user's or a service account's."""
        return self._tokens.user(token) or self._accounts.user(token)

    def _uid_of_account(self, namespace: str, name: str) -> str:
        stored = self.core.store.get(Key("", "serviceaccounts", namespace, name))
        return str(stored.decode()["metadata"]["uid"]) if stored else ""

    async def start(self) -> kubeconfig.Access:
        """Returns when every client may connect, with the administrator's way in."""
        place = self.place
        self._add_hooks()
        await self.core.start()
        await self.authorizer.follow(self.core, self.scheme)
        await self._keeper.start()
        made = certificates.ensure(place.certificates, _names(place.host), dt.datetime.now(dt.UTC))
        admin = tokens.ensure(place.tokens, tokens.ADMIN_NAME, (tokens.MASTERS,))
        port = await self._listener.start(place.host, place.port, _tls(made))
        await bootstrap.ensure(self.core, self.scheme, port)
        self._gifts = bootstrap.NamespaceDefaults(self.core, self.scheme, made.authority.read_text())
        await self._gifts.start()
        await self._aggregation.start()
        host = _WILDCARDS.get(place.host, place.host)
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.application.address = address
        self.access = kubeconfig.Access(
            server=f"https://{address}", authority=made.authority.read_bytes(), user=admin.user, token=admin.token
        )
        kubeconfig.write(place.kubeconfig, self.access)
        return self.access

    async def stop(self) -> None:
        await self._listener.stop()
        for part in (self._aggregation, self._gifts, self._keeper):
            if part is not None:
                await part.stop()
        await self.core.stop()

    def _add_hooks(self) -> None:
        application = self.application
        for group in reviews.groups(self.authorizer, self.authenticate):
            application.hooks.add_group(group)
        for resource, handler in pods.refusals():
            application.hooks.add_subresource("", resource, handler)
        application.hooks.add_subresource("", service_accounts.TOKEN, self._accounts.request)
        application.guards.append(Escalation(self.authorizer, application.resources).guard)


def _names(host: str) -> tuple[str, ...]:
    """The names by which others may reach us: all of this machine's, if we listen everywhere."""
    if host not in _WILDCARDS:
        return (host,)
    name = socket.gethostname()
    try:
        addresses = {str(each[4][0]) for each in socket.getaddrinfo(name, None)}
    except OSError:
        addresses = set()
    return (name, *sorted(addresses))


def _tls(made: certificates.Certificates) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(made.serving, made.serving_key)
    context.set_alpn_protocols(["http/1.1"])
    return context
