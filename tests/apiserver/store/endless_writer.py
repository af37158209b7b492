"""Writes to a data directory until it is killed, and prints every acknowledged write.

Run by the durability tests: `python endless_writer.py DIRECTORY SEED`. A line has the revision,
the name and the value of a write.
"""

import asyncio
import random
import sys
from pathlib import Path

from pykueue.api.errors import ApiError
from pykueue.api.scheme import Kind, Scheme
from pykueue.apiserver.core import Core
from pykueue.apiserver.local_client import LocalClient
from pykueue.apiserver.store.sqlite import SqliteLog
from pykueue.apiserver.store.store import Store

SCHEME = Scheme(
    [
        Kind(group="", version="v1", kind="Namespace", plural="namespaces", namespaced=False),
        Kind(group="", version="v1", kind="ConfigMap", plural="configmaps", namespaced=True, has_status=False),
    ]
)
NAMESPACES, CONFIG_MAPS = (kind.resource for kind in SCHEME)
NAMES = [f"n{number}" for number in range(20)]
WRITERS = 8


async def write_forever(client, choice):
    while True:
        name, value = choice.choice(NAMES), str(choice.random())
        try:
            if choice.random() < 0.1:
                await client.delete(CONFIG_MAPS, name, "default")
                continue
            patch = {"data": {"value": value, "padding": "x" * choice.randrange(4000)}}
            written = await client.patch(CONFIG_MAPS, name, "default", patch)
        except ApiError as error:
            if error.code != 404:
                raise
            obj = {"metadata": {"name": name, "namespace": "default"}, "data": {"value": value}}
            try:
                written = await client.create(CONFIG_MAPS, obj)
            except ApiError as conflict:
                if conflict.code != 409:
                    raise
                continue
        sys.stdout.write(f"{written['metadata']['resourceVersion']} {name} {value}\n")
        sys.stdout.flush()


async def main(directory, seed):
    core = Core(Store(SqliteLog(Path(directory)), history_changes=500), SCHEME)
    await core.start()
    client = LocalClient(core, SCHEME)
    if not (await client.list(NAMESPACES)).items:
        await client.create(NAMESPACES, {"metadata": {"name": "default"}})
    await asyncio.gather(*(write_forever(client, random.Random(f"{seed}/{number}")) for number in range(WRITERS)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
