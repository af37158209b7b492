"""What only the durable log can get wrong: damage, a second process, a full disk."""

import os
import shutil
import subprocess
import sys

import pytest

from pykueue.apiserver.store import sqlite
from pykueue.apiserver.store.log import StoreDamagedError, StoreError, StoreInUseError
from pykueue.apiserver.store.rows import Row, StoreKey
from pykueue.apiserver.store.sqlite import SqliteLog


def row(revision, *, previous=0, data=b'{"metadata":{}}'):
    return Row(revision, StoreKey("", "pods", "default", f"pod-{revision}"), previous, False, data)


def filled(directory, rows=50):
    log = SqliteLog(directory)
    log.commit(
        [row(revision, data=b'{"metadata":{"name":"%d"}}' % revision * 20) for revision in range(1, rows)], [], 0
    )
    log.close()
    return directory / "store.db"


def loaded(directory):
    log = SqliteLog(directory)
    try:
        return list(log.load())
    finally:
        log.close()


def test_a_second_process_is_refused_with_the_name_of_the_first(tmp_path):
    log = SqliteLog(tmp_path)
    script = "import sys, pathlib; from pykueue.apiserver.store.sqlite import SqliteLog; SqliteLog(pathlib.Path(sys.argv[1]))"
    second = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=False)
    assert f"is in use by process {os.getpid()} " in second.stderr
    log.close()


def test_a_commit_of_many_rows_is_few_statements(tmp_path):
    """A busy event loop makes the thread of the log wait for the interpreter in each one."""
    log = SqliteLog(tmp_path)
    statements = []
    log._connection.set_trace_callback(statements.append)
    log.commit([row(revision) for revision in range(1, 2000)], [], 0)
    assert len(statements) < 50
    statements.clear()
    log.commit([row(2000)], range(1, 1500), 1600)
    assert len(statements) < 50
    statements.clear()
    log.commit([row(revision) for revision in range(2001, 2041)], [], 1600)
    assert len(statements) == 1
    assert [kept.revision for kept in log.load()] == list(range(1500, 2041))
    log.close()


def test_the_lock_goes_with_the_log(tmp_path):
    SqliteLog(tmp_path).close()
    SqliteLog(tmp_path).close()


def test_two_logs_in_one_process_exclude_each_other(tmp_path):
    log = SqliteLog(tmp_path)
    with pytest.raises(StoreInUseError):
        SqliteLog(tmp_path)
    log.close()


def test_files_are_for_their_owner_only(tmp_path):
    database = filled(tmp_path / "data")
    assert oct(database.stat().st_mode)[-3:] == "600"


def test_two_rows_cannot_follow_the_same_revision(tmp_path):
    log = SqliteLog(tmp_path)
    log.commit([row(1)], [], 0)
    with pytest.raises(StoreError, match="nothing of it was kept"):
        log.commit([Row(2, row(1).key, 0, False, b"{}")], [], 0)
    assert [loaded_row.revision for loaded_row in log.load()] == [1]
    log.close()


@pytest.mark.parametrize("size_bytes", [0, 100, 4096, 9000])
def test_a_truncated_database_is_refused(tmp_path, size_bytes):
    database = filled(tmp_path)
    os.truncate(database, size_bytes)
    with pytest.raises(StoreDamagedError, match="pykueue salvage"):
        loaded(tmp_path)


def test_a_missing_database_is_not_replaced_by_an_empty_one(tmp_path):
    filled(tmp_path).unlink()
    with pytest.raises(StoreDamagedError, match="gone or empty"):
        loaded(tmp_path)
    assert not (tmp_path / "store.db").exists()


def test_a_foreign_file_is_refused(tmp_path):
    (tmp_path / "store.db").write_bytes(b"not a database at all" * 400)
    with pytest.raises(StoreDamagedError):
        loaded(tmp_path)


def test_no_flipped_bit_passes_unnoticed(tmp_path):
    """With any flipped bit, the log is refused or reads as it was written."""
    database = filled(tmp_path / "data")
    before = loaded(tmp_path / "data")
    size = database.stat().st_size
    for position in range(0, size, max(size // 97, 1)):
        copy = tmp_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(tmp_path / "data", copy)
        content = bytearray((copy / "store.db").read_bytes())
        content[position] ^= 0x10
        (copy / "store.db").write_bytes(content)
        try:
            assert loaded(copy) == before, f"byte {position}"
        except StoreError:
            continue


def test_a_full_disk_is_named_and_nothing_acknowledged_is_lost(tmp_path):
    log = SqliteLog(tmp_path)
    log.commit([row(1)], [], 0)
    pages = log._connection.execute("PRAGMA page_count").fetchone()[0]
    log._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreError, match="No space is left"):
        log.commit([row(2, data=b"x" * 100_000)], [], 0)
    assert [loaded_row.revision for loaded_row in log.load()] == [1]
    log._connection.execute("PRAGMA max_page_count = 100000")
    log.commit([row(2)], [], 0)
    assert [loaded_row.revision for loaded_row in log.load()] == [1, 2]
    log.close()


def test_a_first_start_that_was_killed_is_repeated(tmp_path):
    sqlite.connect(tmp_path / "store.db").close()  # a file with a header, and no tables yet
    assert (tmp_path / "store.db").stat().st_size > 0
    assert loaded(tmp_path) == []
    assert len(filled_rows(tmp_path)) == 49


def filled_rows(directory):
    filled(directory)
    return loaded(directory)


def test_tables_that_are_gone_are_damage(tmp_path):
    database = filled(tmp_path)
    database.unlink()
    sqlite.connect(database).close()
    with pytest.raises(StoreDamagedError, match="it has no tables"):
        SqliteLog(tmp_path)
