"""Current objects, recent history, and the only way to change them.

Writes decide on the event loop against `head`, the newest version, committed or not. Readers see
the committed state, which advances when the log has committed a batch. Writes that arrive during
a commit form the next batch and share one fsync. If a commit fails, that batch and all later
writes, which may depend on it, are rolled back.

An object whose last change is older than the history is at rest, and compressed. That happens a
few at a time, with the commits of others.
"""

import asyncio
import bisect
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from pykueue.api.scheme import Object
from pykueue.apiserver.store.log import Log, StoreError
from pykueue.apiserver.store.rows import Row, StoreChange, Stored, StoreKey, encode

logger = logging.getLogger(__name__)

Listener = Callable[[Sequence[StoreChange]], None]

HISTORY_CHANGES = 8_000
HISTORY_BYTES = 16 * 2**20
_COMPRESSED_PER_CHANGE = 2


class _Collection:
    """The objects of one resource, sorted by namespace and name.

    Each namespace has a list of its own: to insert into one list of all would move half of it.
    """

    __slots__ = ("_by_namespace", "_namespaces", "objects")

    def __init__(self) -> None:
        self.objects: dict[StoreKey, Stored] = {}
        self._by_namespace: dict[str, list[StoreKey]] = {}
        self._namespaces: list[str] = []

    def set(self, stored: Stored) -> None:
        key = stored.key
        present = self.objects.get(key)
        if present is not None:
            key = stored.key = present.key  # all versions share one
        elif key.namespace in self._by_namespace:
            bisect.insort(self._by_namespace[key.namespace], key)
        else:
            self._by_namespace[key.namespace] = [key]
            bisect.insort(self._namespaces, key.namespace)
        self.objects[key] = stored

    def remove(self, key: StoreKey) -> None:
        if self.objects.pop(key, None) is None:
            return
        keys = self._by_namespace[key.namespace]
        del keys[bisect.bisect_left(keys, key)]
        if not keys:
            del self._by_namespace[key.namespace]
            del self._namespaces[bisect.bisect_left(self._namespaces, key.namespace)]

    def within(self, namespace: str) -> list[Stored]:
        """The objects of a namespace, or of all without one."""
        namespaces = [namespace] if namespace else self._namespaces
        return [self.objects[key] for name in namespaces for key in self._by_namespace.get(name, ())]

    def count(self, namespace: str) -> int:
        return len(self._by_namespace.get(namespace, ())) if namespace else len(self.objects)


class _Batch:
    __slots__ = ("_waiters", "changes", "rows")

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.changes: list[StoreChange] = []
        self._waiters: list[asyncio.Future[None]] = []

    def waiter(self) -> asyncio.Future[None]:
        """Done when the batch is committed; StoreError if it was rolled back."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        return waiter

    def end(self, error: StoreError | None = None) -> None:
        for waiter in self._waiters:
            if waiter.done():
                continue  # cancelled
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error)


class Store:
    def __init__(self, log: Log, *, history_changes: int = HISTORY_CHANGES, history_bytes: int = HISTORY_BYTES) -> None:
        self.revision = 0
        self.floor = log.floor
        self.listeners: list[Listener] = []
        self._log = log
        self._history_changes = history_changes
        self._history_bytes = history_bytes
        self._collections: dict[tuple[str, str], _Collection] = {}
        self._history: list[StoreChange] = []
        self._history_size = 0
        self._tombstones: dict[StoreKey, int] = {}
        self._dead: list[int] = []
        self._resting: deque[Stored] = deque()
        """Objects at rest that are not compressed yet."""
        self._written = 0
        self._uncommitted: dict[StoreKey, StoreChange] = {}
        self._filling: _Batch | None = None
        self._committing: _Batch | None = None
        self._writer: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, "store") if log.may_block else None
        try:
            self._load()
        except BaseException:
            log.close()
            raise

    def _load(self) -> None:
        for row in self._log.load():
            before = self.get(row.key)
            change = StoreChange(before, Stored.of(row.key, row.revision, row.data), row.is_deleted)
            self.revision = row.revision
            self._apply(change)
            if row.revision > self.floor:
                self._append_history(change)
        self.revision = max(self.revision, self.floor)
        self._written = self.revision
        self._trim()

    # Reading

    def get(self, key: StoreKey) -> Stored | None:
        collection = self._collections.get((key.group, key.plural))
        return collection.objects.get(key) if collection else None

    def head(self, key: StoreKey) -> Stored | None:
        """The newest version, committed or not. A write must start from it."""
        change = self._uncommitted.get(key)
        if change is None:
            return self.get(key)
        return None if change.is_deleted else change.now

    def select(self, group: str, plural: str, namespace: str = "") -> list[Stored]:
        collection = self._collections.get((group, plural))
        return collection.within(namespace) if collection else []

    def count(self, group: str, plural: str, namespace: str = "") -> int:
        collection = self._collections.get((group, plural))
        return collection.count(namespace) if collection else 0

    def unsorted(self, group: str, plural: str) -> Iterable[Stored]:
        """The objects in any order. Nothing may be written before all are taken."""
        collection = self._collections.get((group, plural))
        return collection.objects.values() if collection else ()

    def uncommitted(self) -> list[StoreKey]:
        """The keys that the log has not committed yet; `head` has their newest versions."""
        return list(self._uncommitted)

    def heads(self, group: str, plural: str, namespace: str = "") -> list[Stored]:
        """The newest versions, committed or not. A write that counts objects must use them."""
        newest = {stored.key: stored for stored in self.select(group, plural, namespace)}
        for key, change in self._uncommitted.items():
            if (key.group, key.plural) != (group, plural) or (namespace and key.namespace != namespace):
                continue
            newest.pop(key, None)
            if not change.is_deleted:
                newest[key] = change.now
        return list(newest.values())

    def select_at(self, revision: int, group: str, plural: str, namespace: str = "") -> list[Stored]:
        """The objects at an old revision, which is not below `floor`."""
        current = {stored.key: stored for stored in self.select(group, plural, namespace)}
        for change in reversed(self.changes_after(revision)):
            key = change.now.key
            if (key.group, key.plural) != (group, plural) or (namespace and key.namespace != namespace):
                continue
            if change.before is None:
                current.pop(key, None)
            else:
                current[key] = change.before
        return [current[key] for key in sorted(current)]

    def changes_after(self, revision: int) -> list[StoreChange]:
        start = bisect.bisect_right(self._history, revision, key=lambda change: change.revision)
        return self._history[start:]

    def collections(self) -> list[tuple[str, str]]:
        return [name for name, collection in self._collections.items() if collection.objects]

    # Writing

    def put(self, key: StoreKey, obj: Object, *, limit: int = 0) -> Stored | None:
        """Write a version of the object and set its resourceVersion.

        Await `settled` before the result is shown to a client. Returns None and writes nothing if
        the object is larger than the limit.
        """
        obj["metadata"]["resourceVersion"] = str(self._written + 1)
        data = encode(obj)
        return None if limit and len(data) > limit else self._write(key, data, is_deleted=False)

    def remove(self, key: StoreKey, obj: Object) -> Stored:
        """Write the deletion of the object. Watchers get `obj` with the DELETED event."""
        obj["metadata"]["resourceVersion"] = str(self._written + 1)
        return self._write(key, encode(obj), is_deleted=True)

    async def settled(self, revision: int) -> None:
        """Return when the revision is durable and visible; StoreError if it was rolled back."""
        for batch in (self._committing, self._filling):
            if batch is not None and batch.rows[0].revision <= revision <= batch.rows[-1].revision:
                await batch.waiter()

    async def close(self) -> None:
        """Wait for pending commits, then close the log."""
        if self._writer is not None:
            await self._writer
        if self._thread:
            self._thread.shutdown()
        self._log.close()

    def _write(self, key: StoreKey, data: bytes, *, is_deleted: bool) -> Stored:
        self._written += 1
        now = Stored.of(key, self._written, data)
        last = self._uncommitted.get(key)
        if last is not None:
            before, previous = None if last.is_deleted else last.now, last.revision
        else:
            before = self.get(key)
            previous = before.revision if before else self._tombstones.get(key, 0)
        change = StoreChange(before, now, is_deleted)
        if self._filling is None:
            self._filling = _Batch()
        self._filling.rows.append(Row(now.revision, key, previous, is_deleted, data))
        self._filling.changes.append(change)
        self._uncommitted[key] = change
        if self._writer is None:
            self._writer = asyncio.create_task(self._write_batches())
        return now

    async def _write_batches(self) -> None:
        try:
            while self._filling is not None:
                batch, self._filling = self._filling, None
                self._committing = batch
                try:
                    await self._commit(batch)
                except StoreError as error:
                    self._roll_back(batch, error)
                except Exception as error:
                    logger.exception("a batch of %d writes failed", len(batch.rows))
                    self._roll_back(batch, StoreError(f"The write failed, nothing of it was kept: {error}"))
                else:
                    self._publish(batch)
                finally:
                    self._committing = None
        finally:
            self._writer = None

    async def _commit(self, batch: _Batch) -> None:
        dead, floor = self._dead, self.floor
        if self._thread is None:
            self._log.commit(batch.rows, dead, floor)
        else:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._thread, self._log.commit, batch.rows, dead, floor)
        self._dead = self._dead[len(dead) :]

    def _publish(self, batch: _Batch) -> None:
        for change in batch.changes:
            key = change.now.key
            if key.plural == "events":
                change.now.compress()
            self._apply(change)
            self._append_history(change)
            if self._uncommitted.get(key) is change:
                del self._uncommitted[key]
        self.revision = batch.changes[-1].revision
        self._trim()
        self._compress_resting(_COMPRESSED_PER_CHANGE * len(batch.changes))
        batch.end()
        for listener in self.listeners:
            try:
                listener(batch.changes)
            except Exception:  # the other listeners must still get committed changes
                logger.exception("a listener failed on revisions up to %d", self.revision)

    def _roll_back(self, batch: _Batch, error: StoreError) -> None:
        """Discard the uncommitted revisions. No reader has seen them."""
        self._uncommitted.clear()
        self._written = self.revision
        batch.end(error)
        if self._filling is not None:
            self._filling.end(error)
            self._filling = None

    # History

    def _apply(self, change: StoreChange) -> None:
        key = change.now.key
        if change.before is not None:
            change.before.drop_shared()
        collection = self._collections.get((key.group, key.plural))
        if collection is None:
            collection = self._collections[key.group, key.plural] = _Collection()
        if change.is_deleted:
            collection.remove(key)
            self._tombstones[key] = change.revision
        else:
            collection.set(change.now)
            self._tombstones.pop(key, None)

    def _append_history(self, change: StoreChange) -> None:
        self._history.append(change)
        self._history_size += change.now.size

    def _trim(self) -> None:
        """Drop the oldest quarter of a too long history, and mark its old rows as dead."""
        if len(self._history) <= self._history_changes and self._history_size <= self._history_bytes:
            return
        quarter = (len(self._history) + 3) // 4
        dropped, self._history = self._history[:quarter], self._history[quarter:]
        for change in dropped:
            self._history_size -= change.now.size
            self._resting.append(change.now)
            if change.before is not None:
                self._dead.append(change.before.revision)
            if change.is_deleted:
                self._dead.append(change.revision)
                if self._tombstones.get(change.now.key) == change.revision:
                    del self._tombstones[change.now.key]
        self.floor = dropped[-1].revision

    def _compress_resting(self, count: int) -> None:
        for _ in range(min(count, len(self._resting))):
            stored = self._resting.popleft()
            if self.get(stored.key) is stored:
                stored.compress()
