"""Who used what, and how long jobs waited: a record of Workloads that outlives them.

A line is written when a Workload loses its quota (it finished, was evicted or deleted), and one
with the user when a job is created. The lines are in two files of bounded size in the data
directory: when the newer one is full, it replaces the older one. `pykueue history` reads the
record at `/history`, where users see the namespaces whose Workloads they may list.
"""

import asyncio
import contextlib
import logging
import sys
import time
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from pykueue.api import conditions, labels, objects, resources
from pykueue.api.scheme import Object
from pykueue.apiserver.calls import UserInfo
from pykueue.apiserver.embedded import EmbeddedApi
from pykueue.apiserver.http.messages import HttpRequest, HttpResponse
from pykueue.dashboard import rows
from pykueue.kube.delegation import AccessRequest
from pykueue.kube.informer import Change, Informer
from pykueue.kube.supervisor import Supervisor

log = logging.getLogger(__name__)

PATH = "/history"
FILE = "history.jsonl"
LARGEST_BYTES = 16 * 2**20
"""Of each of the two files; a line has about 400 bytes."""
MOST_USERS = 50_000
"""Jobs whose users are in memory, the newest."""
_COPIED_FIELDS = (
    "uid",
    "namespace",
    "name",
    "jobKind",
    "job",
    "user",
    "queue",
    "clusterQueue",
    "priority",
    "created",
    "pods",
)
_FIELD = {name: index for index, name in enumerate(rows.WORKLOAD_FIELDS)}


class AccountingFile:
    """The lines on disk.

    A line that cannot be read, such as the last one after a crash, is skipped.
    """

    def __init__(self, path: Path, *, largest_bytes: int = LARGEST_BYTES) -> None:
        self._path = path
        self._older = path.with_suffix(".1.jsonl")
        self._largest_bytes = largest_bytes

    def add(self, line: dict[str, Any]) -> None:
        """Append a line. A full disk loses it, and nothing else."""
        try:
            with contextlib.suppress(FileNotFoundError):
                if self._path.stat().st_size >= self._largest_bytes:
                    self._path.replace(self._older)
            with self._path.open("ab") as file:
                file.write(msgspec.json.encode(line) + b"\n")
        except OSError as error:
            log.warning("the accounting record %s cannot be written: %s", self._path, error)

    def stamp(self) -> tuple[object, ...]:
        """Another one whenever a line has been added."""
        stamps: list[object] = []
        for path in (self._older, self._path):
            with contextlib.suppress(OSError):
                status = path.stat()
                stamps += (status.st_ino, status.st_size)
        return tuple(stamps)

    def lines(self) -> Iterator[tuple["_LineHead", bytes]]:
        for path in (self._older, self._path):
            with contextlib.suppress(OSError), path.open("rb") as file:
                for line in file:
                    with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
                        yield _LINE_HEAD.decode(line), line.rstrip()


class _LineHead(msgspec.Struct, rename="camel"):
    """The fields that tell what a line is about: a Workload (`uid`), or the user of a job."""

    uid: str = ""
    namespace: str = ""
    job_uid: str = ""
    user: str = ""


_LINE_HEAD = msgspec.json.Decoder(_LineHead)


class JobUsers:
    """The user that created a job, by the uid of the job."""

    def __init__(self, record: AccountingFile) -> None:
        self._record = record
        self._names: dict[str, str] = {}
        for head, _ in record.lines():
            if head.job_uid:
                self._remember(head.job_uid, head.user)

    def created(self, obj: Object, user: str) -> None:
        """Called with every object that is created; jobs in a queue and without owner count."""
        metadata = obj["metadata"]
        if labels.QUEUE_NAME in (metadata.get("labels") or {}) and not metadata.get("ownerReferences"):
            self._remember(metadata["uid"], user)
            self._record.add({"jobUid": metadata["uid"], "user": user})

    def user_of(self, workload: Object) -> str | None:
        """The user that created the job of a Workload, None if it is not known."""
        names = (self._names.get(owner["uid"]) for owner in objects.owner_references(workload))
        return next(filter(None, names), None)

    def _remember(self, uid: str, user: str) -> None:
        self._names[uid] = sys.intern(user)
        if len(self._names) > MOST_USERS:
            del self._names[next(iter(self._names))]


class _Lines(list[tuple[str, bytes]]):
    """The namespace and the text of each line; a list that can be referenced weakly."""


class _Body(list[bytes]):
    """The parts of an answer. They keep the lines, which all answers that are being sent share."""

    lines: _Lines


class Accounting:
    """A component of `pykueue up`."""

    def __init__(self, api: EmbeddedApi, directory: Path) -> None:
        self._api = api
        self._record = AccountingFile(directory / FILE)
        self._users = JobUsers(self._record)
        self._reading = asyncio.Lock()
        self._changes = 0
        """How many changes of Workloads were seen."""
        self._answered: weakref.WeakValueDictionary[tuple[object, ...], _Lines] = weakref.WeakValueDictionary()
        """Lines of answers that are being sent, by what they depend on.

        Clients may read slowly.
        """
        self._supervisor = Supervisor()
        self._workloads = Informer(api.client(), resources.WORKLOAD)
        self._workloads.add_handler(self._changed)

    async def start(self) -> None:
        self._api.core.context.creation_listeners.append(self._users.created)
        self._api.hooks.add_page(PATH, self._serve)
        self._supervisor.start("accounting", self._workloads.run)

    async def stop(self) -> None:
        await self._supervisor.stop()

    def _changed(self, change: Change) -> None:
        obj, old = change.object, change.old
        self._changes += 1
        is_finished = conditions.is_true(obj, "Finished")
        if change.type == "DELETED":
            if not is_finished:
                self._write(obj, rows.workload(obj), time.time(), "deleted")
        elif old is None:
            return
        elif is_finished and not conditions.is_true(old, "Finished"):
            row = rows.workload(obj)
            last = row if row[_FIELD["admitted"]] else rows.workload(old)
            self._write(obj, last, row[_FIELD["finished"]], row[_FIELD["state"]])
        elif conditions.is_true(old, "Admitted") and not conditions.is_true(obj, "Admitted"):
            self._write(obj, rows.workload(old), time.time(), "evicted")

    def _write(self, obj: Object, row: rows.Row, end: float, outcome: str) -> None:
        self._record.add(self._line(obj, row) | {"end": end, "outcome": outcome})

    def _line(self, obj: Object, row: rows.Row) -> dict[str, Any]:
        line = {name: row[_FIELD[name]] for name in _COPIED_FIELDS}
        return line | {
            "user": self._users.user_of(obj) or line["user"],
            "start": row[_FIELD["admitted"]],
            "requests": row[_FIELD["requests"]],
        }

    async def _serve(self, request: HttpRequest) -> HttpResponse:
        """All lines, and one for each Workload that has not finished, of readable namespaces.

        They are read in a thread, for one request at a time: the record may be large.
        """
        async with self._reading:
            key = (self._changes, *self._record.stamp())
            lines = self._answered.get(key)
            if lines is None:
                lines = await asyncio.to_thread(self._all_lines, list(self._workloads.items()))
                self._answered[key] = lines
        is_readable = {namespace: self._may_list(request.user, namespace) for namespace in {line[0] for line in lines}}
        body = _Body([b'{"items":['])
        body.lines = lines
        for namespace, text in lines:
            if is_readable[namespace]:
                body += (b",", text) if len(body) > 1 else (text,)
        body.append(b"]}")
        return HttpResponse(body=body)

    def _may_list(self, user: UserInfo, namespace: str) -> bool:
        access = AccessRequest(verb="list", group=resources.KUEUE_GROUP, resource="workloads", namespace=namespace)
        return self._api.authorizer.allows(user, access)

    def _all_lines(self, workloads: Sequence[Object]) -> _Lines:
        lines = _Lines((head.namespace, text) for head, text in self._record.lines() if head.uid)
        for obj in workloads:
            if not conditions.is_true(obj, "Finished"):
                row = rows.workload(obj)
                line = self._line(obj, row) | {"outcome": row[_FIELD["state"]]}
                lines.append((line["namespace"], msgspec.json.encode(line)))
        return lines
