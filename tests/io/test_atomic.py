"""Files are whole or absent."""

import errno
import os

import pytest

from dpbayes.errors import ParameterError
from dpbayes.io.atomic import atomic_path, check_writable


def test_a_complete_file_replaces_the_old_one(tmp_path):
    target = tmp_path / "out.html"
    target.write_text("old")
    with atomic_path(target) as temporary:
        assert temporary.parent == tmp_path
        assert temporary.suffix == ".html"
        temporary.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert os.listdir(tmp_path) == ["out.html"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("started", [False, True])
def test_an_interrupted_write_leaves_nothing(tmp_path, error, started):
    with pytest.raises(error), atomic_path(tmp_path / "out.nc") as temporary:  # noqa: PT012
        if started:
            temporary.write_text("half")
        raise error
    assert os.listdir(tmp_path) == []


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    link = tmp_path / "out.nc"
    link.symlink_to(tmp_path / "real" / "out.nc")
    with atomic_path(link) as temporary:
        temporary.write_text("x")
    assert link.is_symlink()
    assert (tmp_path / "real" / "out.nc").read_text() == "x"


def test_writable(tmp_path):
    assert check_writable(tmp_path / "out.nc", "--save") == tmp_path / "out.nc"
    with pytest.raises(ParameterError, match="--save must lie in an existing folder"):
        check_writable(tmp_path / "no" / "out.nc", "--save")
    with pytest.raises(ParameterError, match="--save must be a file, got the folder"):
        check_writable(tmp_path, "--save")


def test_folder_that_cannot_be_written(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(ParameterError, match=r"in a folder that can be written, got .*out\.nc'"):
        check_writable(tmp_path / "out.nc", "--save")


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs a folder that takes no files")
def test_folder_that_takes_no_files_from_anybody():
    with pytest.raises(ParameterError, match=r"got '/proc/o\.html': choose another"):
        check_writable("/proc/o.html", "--report")
    with (
        pytest.raises(OSError, match=r"cannot write here: .*: '/proc/o\.html'"),
        atomic_path("/proc/o.html") as temporary,
    ):
        temporary.write_text("x")


def test_checking_leaves_nothing(tmp_path):
    (tmp_path / "out.nc").write_text("old")
    check_writable(tmp_path / "out.nc", "--save")
    assert os.listdir(tmp_path) == ["out.nc"]
    assert (tmp_path / "out.nc").read_text() == "old"


def test_a_block_inside_a_block_writes_the_same_temporary_file(tmp_path):
    with atomic_path(tmp_path / "out.html") as outer:
        with atomic_path(outer) as inner:
            assert inner == outer
            inner.write_text("x")
        assert os.listdir(tmp_path) == [outer.name]
    assert os.listdir(tmp_path) == ["out.html"]
