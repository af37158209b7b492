"""What is kept of a damaged database, and that nothing is thrown away."""

import pytest
from click.testing import CliRunner

from pykueue.apiserver.store.log import StoreDamagedError, StoreError
from pykueue.apiserver.store.rows import Row, StoreKey
from pykueue.apiserver.store.salvage import salvage
from pykueue.apiserver.store.sqlite import SqliteLog
from pykueue.apiserver.store.store import Store
from pykueue.cli.main import cli


def fill(directory, rows=200):
    log = SqliteLog(directory)
    data = b'{"metadata":{"uid":"%d","name":"n"},"data":"' + b"x" * 500 + b'"}'
    log.commit(
        [
            Row(revision, StoreKey("", "pods", "d", f"p{revision}"), 0, False, data % revision)
            for revision in range(1, rows + 1)
        ],
        [],
        0,
    )
    log.close()
    return directory / "store.db"


def damage(database):
    content = bytearray(database.read_bytes())
    place = content.index(b'"uid":"150"') + 100
    content[place] ^= 1
    database.write_bytes(content)


def test_the_readable_prefix_is_kept(tmp_path):
    damage(fill(tmp_path))
    with pytest.raises(StoreDamagedError):
        Store(SqliteLog(tmp_path))
    result = salvage(tmp_path)
    assert (result.objects, result.fault) == (149, "the row of revision 150 fails its checksum")
    store = Store(log := SqliteLog(tmp_path))
    assert len(store.select("", "pods")) == 149
    log.close()


def test_versions_never_repeat(tmp_path):
    damage(fill(tmp_path))
    salvage(tmp_path)
    store = Store(log := SqliteLog(tmp_path))
    assert store.revision > 200
    assert store.floor == store.revision
    log.close()


def test_the_damaged_file_is_kept(tmp_path):
    database = fill(tmp_path)
    damage(database)
    before = database.read_bytes()
    assert salvage(tmp_path).moved_to.read_bytes() == before


def test_a_file_that_is_no_database(tmp_path):
    (tmp_path / "store.db").write_bytes(b"nonsense" * 1000)
    result = salvage(tmp_path)
    assert (result.objects, result.fault) == (0, "file is not a database")


def test_nothing_to_salvage(tmp_path):
    with pytest.raises(StoreError, match="There is no database"):
        salvage(tmp_path)


def test_the_command_says_what_it_did(tmp_path):
    damage(fill(tmp_path))
    result = CliRunner().invoke(cli, ["salvage", str(tmp_path)])
    assert result.exit_code == 0
    assert "Kept 149 objects (149 versions)." in result.output
