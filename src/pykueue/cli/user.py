"""`pykueue user`: users of the embedded API, each with rights in some namespaces.

The commands need a running `pykueue up` on the same data directory. They write the hash of the
token into its token file, which it reads again, and create and delete role bindings through its
API.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pykueue.api import objects
from pykueue.api.rules.builtin.rbac import GROUP
from pykueue.api.scheme import Object, Resource
from pykueue.cli import output as outputs
from pykueue.cli.data_directory import select
from pykueue.cli.up import isolation_of

if TYPE_CHECKING:
    from pykueue.apiserver.paths import ServerPaths
    from pykueue.kube.client import Client

ROLE_BINDING = Resource(GROUP, "v1", "rolebindings", "RoleBinding", namespaced=True)
CLUSTER_ROLE_BINDING = Resource(GROUP, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)

DEFAULT_ROLES = ("edit", "kueue-batch-user-role")

_DATA_DIR = click.option(
    "--data-dir",
    type=click.Path(path_type=Path),
    help="The data directory of the running `pykueue up`. Default: as for `pykueue up`.",
)


@click.group()
def user() -> None:
    """Manage the users of the embedded API."""


@user.command()
@click.argument("name")
@click.option(
    "--namespace", "-n", required=True, help="A namespace that the user may use; created if it does not exist."
)
@click.option(
    "--role",
    "roles",
    multiple=True,
    default=DEFAULT_ROLES,
    show_default=True,
    help="A ClusterRole to bind; may be repeated.",
)
@click.option(
    "--kubeconfig", type=click.Path(path_type=Path), help="The kubeconfig file to write. Default: NAME.kubeconfig."
)
@_DATA_DIR
@outputs.with_report_output
def add(
    *,
    name: str,
    namespace: str,
    roles: tuple[str, ...],
    kubeconfig: Path | None,
    data_dir: Path | None,
    output: str,
) -> None:
    """Add a user with rights in a namespace.

    The user's kubeconfig is written to a file. Added again, a user gets rights in one more
    namespace and keeps the others.
    """
    from pykueue.apiserver.security import kubeconfig as files
    from pykueue.apiserver.security import tokens

    paths = _paths(data_dir)
    _check_name(name)
    namespaces = _run(_bind(paths.kubeconfig, name, namespace, roles))
    queues = _run(_queues(paths.kubeconfig, namespace))
    target = (kubeconfig or Path(f"{name}.kubeconfig")).resolve()
    token = tokens.issue(paths.tokens, name, current=files.read_token(target))
    admin = files.read(paths.kubeconfig)
    access = files.ClusterCredentials(
        server=admin.server, authority=admin.authority, user=name, token=token, namespace=namespace
    )
    files.write(target, access)
    lines = [f"{name} may use namespace {namespace} ({', '.join(roles)})"]
    if others := [other for other in namespaces if other != namespace]:
        lines.append(f"  as before also {', '.join(others)}; `pykueue user remove {name}` ends all of them")
    lines.append(f"  export KUBECONFIG={target}")
    if not queues:
        lines.append(
            f"The namespace has no queue yet: pykueue create localqueue NAME --clusterqueue QUEUE -n {namespace}"
        )
    if isolation := isolation_of(paths.directory):
        lines.append(isolation.sentence())
    report = {"name": name, "namespaces": namespaces, "roles": list(roles), "kubeconfig": str(target)}
    outputs.show_report(report | {"queues": queues}, lines, output)


@user.command(name="list")
@_DATA_DIR
@outputs.with_report_output
def list_users(*, data_dir: Path | None, output: str) -> None:
    """List the users that have a token."""
    from pykueue.apiserver.security import tokens

    entries = {entry.user: entry for entry in tokens.read(_paths(data_dir).tokens)}.values()
    if output == "json":
        outputs.show_json([{"name": entry.user, "groups": list(entry.groups)} for entry in entries])
        return
    for entry in entries:
        outputs.echo(f"{entry.user}\t{','.join(entry.groups)}".rstrip())


@user.command()
@click.argument("name")
@_DATA_DIR
@outputs.with_report_output
def remove(*, name: str, data_dir: Path | None, output: str) -> None:
    """Remove a user.

    The user's tokens and role bindings are removed, and the tokens that the user requested for
    service accounts are no longer valid. Objects and running jobs of the user stay.
    """
    from pykueue.apiserver.security import tokens

    paths = _paths(data_dir)
    _check_name(name)
    had_token = tokens.remove(paths.tokens, name)
    try:
        unbound = _run(_unbind(paths.kubeconfig, name))
    except click.ClickException as error:
        state = "the tokens are removed, the role bindings are not" if had_token else "nothing was removed"
        raise click.ClickException(f"{error.message} ({state}; repeat the command)") from None
    if not had_token and not unbound:
        raise click.ClickException(f"there is no user {name}; `pykueue user list` shows all")
    lines = [f"{name} removed", *(f"  {binding} deleted" for binding in unbound)]
    outputs.show_report({"name": name, "bindings": unbound}, lines, output)


def _check_name(name: str) -> None:
    from pykueue.apiserver.security import tokens

    if name == tokens.ADMIN_NAME or name.startswith("system:"):
        raise click.ClickException(f"{name} is reserved for the system; choose another name")
    if not name or not name.isprintable() or name != name.strip() or set(name) & set("/%"):
        raise click.ClickException(
            f"{name!r} cannot be the name of a user; use letters, digits and signs other than / and %"
        )


def _paths(data_dir: Path | None) -> "ServerPaths":
    from pykueue.apiserver.paths import ServerPaths

    paths = ServerPaths(directory=select(data_dir).path)
    if not paths.kubeconfig.exists():
        raise click.ClickException(f"there is no cluster in {paths.directory}; start one with pykueue up")
    return paths


def _run(coroutine: Coroutine[Any, Any, list[str]]) -> list[str]:
    from pykueue.api.errors import ApiError

    try:
        return asyncio.run(coroutine)
    except ApiError as error:
        raise click.ClickException(error.message) from None
    except OSError:
        raise click.ClickException("the cluster does not answer; start it with pykueue up") from None


@contextlib.asynccontextmanager
async def _client(kubeconfig: Path) -> AsyncIterator["Client"]:
    from pykueue.kube import access
    from pykueue.kube.http_client import HttpClient

    client = HttpClient(await access.from_kubeconfig(kubeconfig))
    try:
        yield client
    finally:
        await client.close()


async def _bind(kubeconfig: Path, name: str, namespace: str, roles: tuple[str, ...]) -> list[str]:
    """Bind the roles; return all namespaces in which the user is bound."""
    from pykueue.api.resources import NAMESPACE
    from pykueue.kube.client import PatchType, WriteOptions

    options = WriteOptions(field_manager="pykueue-user", force=True)
    async with _client(kubeconfig) as client:
        obj = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        await client.patch(NAMESPACE, namespace, "", obj, patch_type=PatchType.APPLY, options=options)
        for role in roles:
            binding = _binding(name, namespace, role)
            binding_name = binding["metadata"]["name"]
            await client.patch(
                ROLE_BINDING, binding_name, namespace, binding, patch_type=PatchType.APPLY, options=options
            )
        present = (await client.list(ROLE_BINDING)).items
    return sorted({objects.namespace(binding) for binding in present if _binds(binding, name)})


async def _queues(kubeconfig: Path, namespace: str) -> list[str]:
    """The names of the LocalQueues of a namespace."""
    from pykueue.api.resources import LOCAL_QUEUE

    async with _client(kubeconfig) as client:
        return [objects.name(queue) for queue in (await client.list(LOCAL_QUEUE, namespace)).items]


async def _unbind(kubeconfig: Path, name: str) -> list[str]:
    """Remove the user from all bindings; delete those of nobody else. Return what was changed."""
    changed = []
    async with _client(kubeconfig) as client:
        for resource in (ROLE_BINDING, CLUSTER_ROLE_BINDING):
            for binding in (await client.list(resource)).items:
                if not _binds(binding, name):
                    continue
                others = [subject for subject in binding["subjects"] if not _is_user(subject, name)]
                key = (objects.name(binding), objects.namespace(binding))
                if others:
                    version = {"resourceVersion": binding["metadata"]["resourceVersion"]}
                    await client.patch(resource, *key, {"metadata": version, "subjects": others})
                else:
                    await client.delete(resource, *key)
                where = f" of namespace {key[1]}" if key[1] else ""
                changed.append(f"{resource.kind} {key[0]}{where}")
    return changed


def _binds(binding: Object, name: str) -> bool:
    return any(_is_user(subject, name) for subject in binding.get("subjects") or ())


def _is_user(subject: Object, name: str) -> bool:
    return subject.get("kind") == "User" and subject.get("name") == name


def _binding(name: str, namespace: str, role: str) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": f"{name}:{role}", "namespace": namespace},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": GROUP, "kind": "User", "name": name}],
    }
