"""`pykueue user`: users of the embedded API, each with rights in one namespace.

The commands need a running `pykueue up` on the same data directory. They write the token into its
token file, which it reads again, and create the role bindings through its API.
"""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pykueue.cli import output as outputs
from pykueue.cli.up import default_data_dir, isolation_of

if TYPE_CHECKING:
    from pykueue.apiserver.embedded import ServerPaths

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
    "--namespace", "-n", required=True, help="The namespace that the user may use; created if it does not exist."
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
def add(*, name: str, namespace: str, roles: tuple[str, ...], kubeconfig: Path | None, data_dir: Path | None) -> None:
    """Add a user with rights in one namespace.

    The user's kubeconfig is written to a file.
    """
    from pykueue.apiserver.security import kubeconfig as files
    from pykueue.apiserver.security import tokens

    paths = _paths(data_dir)
    if name == tokens.ADMIN_NAME or name.startswith("system:"):
        raise click.ClickException(f"{name} is reserved for the system; choose another name")
    _run(_bind(paths.kubeconfig, name, namespace, roles))
    entry = tokens.ensure(paths.tokens, name)
    admin = files.read(paths.kubeconfig)
    target = (kubeconfig or Path(f"{name}.kubeconfig")).resolve()
    access = files.ClusterCredentials(
        server=admin.server, authority=admin.authority, user=name, token=entry.token, namespace=namespace
    )
    files.write(target, access)
    click.echo(f"{name} may use namespace {namespace} ({', '.join(roles)})")
    click.echo(f"  export KUBECONFIG={target}")
    if isolation := isolation_of(paths.directory):
        click.echo(isolation.sentence())


@user.command(name="list")
@_DATA_DIR
@outputs.with_report_output
def list_users(*, data_dir: Path | None, output: str) -> None:
    """List the users that have a token."""
    from pykueue.apiserver.security import tokens

    entries = tokens.read(_paths(data_dir).tokens)
    if output == "json":
        outputs.show_json([{"name": entry.user, "groups": list(entry.groups)} for entry in entries])
        return
    for entry in entries:
        click.echo(f"{entry.user}\t{','.join(entry.groups)}".rstrip())


@user.command()
@click.argument("name")
@_DATA_DIR
def remove(*, name: str, data_dir: Path | None) -> None:
    """Remove a user.

    The user's token is removed, so that the kubeconfig no longer works.
    """
    from pykueue.apiserver.security import tokens

    if not tokens.remove(_paths(data_dir).tokens, name):
        raise click.ClickException(f"there is no user {name}; `pykueue user list` shows all")
    click.echo(f"{name} removed")


def _paths(data_dir: Path | None) -> "ServerPaths":
    from pykueue.apiserver.embedded import ServerPaths

    paths = ServerPaths(directory=(data_dir or default_data_dir()).expanduser().resolve())
    if not paths.kubeconfig.exists():
        raise click.ClickException(f"there is no cluster in {paths.directory}; start one with pykueue up")
    return paths


def _run(coroutine: Coroutine[Any, Any, None]) -> None:
    import aiohttp

    from pykueue.api.errors import ApiError

    try:
        asyncio.run(coroutine)
    except ApiError as error:
        raise click.ClickException(error.message) from None
    except aiohttp.ClientConnectionError:
        raise click.ClickException("the cluster does not answer; start it with pykueue up") from None


async def _bind(kubeconfig: Path, name: str, namespace: str, roles: tuple[str, ...]) -> None:
    from pykueue.api.resources import NAMESPACE
    from pykueue.api.scheme import Resource
    from pykueue.apiserver.security.roles import GROUP
    from pykueue.kube import access
    from pykueue.kube.client import PatchType, WriteOptions
    from pykueue.kube.http_client import HttpClient

    bindings = Resource(GROUP, "v1", "rolebindings", "RoleBinding", namespaced=True)
    client = HttpClient(await access.from_kubeconfig(kubeconfig))
    options = WriteOptions(field_manager="pykueue-user", force=True)
    try:
        obj = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        await client.patch(NAMESPACE, namespace, "", obj, patch_type=PatchType.APPLY, options=options)
        for role in roles:
            binding = _binding(name, namespace, role)
            binding_name = binding["metadata"]["name"]
            await client.patch(bindings, binding_name, namespace, binding, patch_type=PatchType.APPLY, options=options)
    finally:
        await client.close()


def _binding(name: str, namespace: str, role: str) -> dict[str, Any]:
    from pykueue.apiserver.security.roles import GROUP

    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": f"{name}:{role}", "namespace": namespace},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": GROUP, "kind": "User", "name": name}],
    }
