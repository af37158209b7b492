"""Files beneath a directory: names are one component, and no link is followed."""

import os

import pytest

from pykueue.cluster import paths
from pykueue.cluster.paths import UnsafePathError

NOT_NAMES = ["", ".", "..", "a/b", "/a", "../a", "a\0b", "a" * 256, "\udcff" * 300]


@pytest.mark.parametrize("name", NOT_NAMES)
def test_a_name_is_one_component(tmp_path, name):
    with pytest.raises(UnsafePathError):
        paths.inside(tmp_path, name)
    with pytest.raises(UnsafePathError):
        paths.make_directory(tmp_path, "a", name)


@pytest.mark.parametrize("relative", ["/etc/passwd", "../x", "a/../../x", "a/..", "a\0b", "x/" * 3000])
def test_a_relative_path_stays_beneath(tmp_path, relative):
    with pytest.raises(UnsafePathError):
        paths.write_file(tmp_path, relative, b"x", 0o600)
    with pytest.raises(UnsafePathError):
        paths.beneath(tmp_path, relative, create=True)
    assert list(tmp_path.iterdir()) == []


def test_a_link_in_place_of_a_file_is_replaced(tmp_path):
    outside, volume = tmp_path / "outside", tmp_path / "volume"
    outside.write_text("secret")
    volume.mkdir()
    (volume / "key").symlink_to(outside)
    paths.write_file(volume, "key", b"new", 0o644)
    assert (outside.read_text(), (volume / "key").read_text()) == ("secret", "new")
    assert not (volume / "key").is_symlink()


def test_a_hard_link_to_another_file_is_replaced(tmp_path):
    outside, volume = tmp_path / "outside", tmp_path / "volume"
    outside.write_text("secret")
    volume.mkdir()
    (volume / "key").hardlink_to(outside)
    paths.write_file(volume, "key", b"new", 0o777)
    assert outside.read_text() == "secret"
    assert outside.stat().st_mode & 0o777 != 0o777


def test_a_link_in_place_of_a_directory_is_refused(tmp_path):
    outside, volume = tmp_path / "outside", tmp_path / "volume"
    outside.mkdir()
    volume.mkdir()
    (volume / "sub").symlink_to(outside)
    with pytest.raises(UnsafePathError):
        paths.write_file(volume, "sub/key", b"new", 0o644)
    for relative in ("sub", "sub/deeper"):
        with pytest.raises(UnsafePathError):
            paths.beneath(volume, relative, create=True)
    assert list(outside.iterdir()) == []


def test_a_pipe_in_place_of_a_file_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "key")
    paths.write_file(tmp_path, "key", b"new", 0o644)
    assert (tmp_path / "key").read_bytes() == b"new"


def test_a_directory_in_place_of_a_file_is_refused(tmp_path):
    (tmp_path / "key").mkdir()
    with pytest.raises(UnsafePathError):
        paths.write_file(tmp_path, "key", b"new", 0o644)
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


def test_an_unchanged_file_stays(tmp_path):
    paths.write_file(tmp_path, "a/key", b"same", 0o440)
    before = (tmp_path / "a" / "key").stat().st_ino
    paths.write_file(tmp_path, "a/key", b"same", 0o440)
    assert (tmp_path / "a" / "key").stat().st_ino == before


def test_a_key_is_a_file_name_for_any_texts():
    keys = {paths.key("ns", "group"), paths.key("ns", "../../store"), paths.key("ns-", "group"), paths.key("nsgroup")}
    assert len(keys) == 4
    assert all(key.isalnum() and len(key) == 32 for key in keys)


@pytest.mark.parametrize("text", ["relative", "/a/../etc", "/a\0", ""])
def test_a_path_of_the_host_is_absolute(text):
    with pytest.raises(UnsafePathError):
        paths.of_host(text)


def test_a_hostile_tree_is_removed_without_following_links(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("stays")
    root = tmp_path / "root"
    for name in ("a/b/c", "a/x", "empty"):
        (root / name).mkdir(parents=True)
    (root / "a" / "link").symlink_to(outside)
    (root / "a" / "b" / "up").symlink_to("../../..")
    (root / "a" / "b" / "file").write_text("x")
    os.mkfifo(root / "a" / "pipe")
    (root / "a" / "x").chmod(0)
    (root / "a" / "b").chmod(0o500)
    paths.remove_tree(root)
    assert not root.exists()
    assert (outside / "file").read_text() == "stays"
    (tmp_path / "to-outside").symlink_to(outside)
    paths.remove_tree(tmp_path / "to-outside")
    paths.remove_tree(tmp_path / "absent")
    assert (outside / "file").read_text() == "stays"


@pytest.mark.parametrize("write", [paths.write_file, lambda *arguments: paths.make_directory(*arguments[:2])])
def test_the_root_itself_may_not_be_a_link(tmp_path, write):
    (tmp_path / "outside").mkdir()
    (tmp_path / "root").symlink_to(tmp_path / "outside")
    with pytest.raises(OSError, match="root"):
        write(tmp_path / "root", "file", b"x", 0o600)
    assert list((tmp_path / "outside").iterdir()) == []
