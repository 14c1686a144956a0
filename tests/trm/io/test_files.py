import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from trm.io.files import (
    alone,
    check_place,
    make_folder,
    read_object,
    removing_empty_folders,
    replacing,
    write_json,
    writing,
)


def write(file: Path, text: str) -> None:
    with replacing(file) as part:
        part.write_text(text)


def test_a_file_is_the_old_one_until_the_new_one_is_whole(tmp_path):
    file = tmp_path / "cell.json"
    write_json(file, {"right": 1})

    def broken() -> None:
        with replacing(file) as part:
            part.write_text("{")
            assert file.read_text() == '{"right": 1}\n'
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="disk is full"):
        broken()
    assert file.read_text() == '{"right": 1}\n'
    assert list(tmp_path.iterdir()) == [file]
    with pytest.raises(ValueError, match=r"there is no folder .*nowhere; make it"):
        write(tmp_path / "nowhere/file", "new")


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="a folder that takes no file")
@pytest.mark.parametrize("file", ["/proc/x.png", "/proc/../proc/x.svg"])
def test_a_file_that_cannot_be_written_is_named_as_it_was_given(file):
    with pytest.raises(OSError, match=re.escape(f"'{file}'")):
        write(Path(file), "new")


def test_a_file_for_which_there_is_no_room_is_named_and_stays(tmp_path):
    resource = pytest.importorskip("resource")
    file, limits = tmp_path / "grid.json", resource.getrlimit(resource.RLIMIT_FSIZE)
    file.write_text("before")
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large") as error, writing(file) as stream:
            stream.write("x" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert error.value.filename == str(file)
    assert [one.name for one in tmp_path.iterdir()] == ["grid.json"]
    assert file.read_text() == "before"


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="a folder that takes no file")
@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("prove", "--output", "/proc/xx"), "--output /proc/xx"),
        (("prove", "--smt", "/proc/x.smt2"), "--smt /proc/x.smt2"),
        (("render", "1x2", "--output", "/proc/x.png"), "--output /proc/x.png"),
        (("inspect", "--export", "/proc/x.html"), "--export /proc/x.html"),
        (("convert", "lattice", "/proc/x", "--to", "trm"), "OUT /proc/x"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_place_that_cannot_be_written_is_refused_first(command, monkeypatch, words, option):
    monkeypatch.setattr("trm.checkpoints.loading.load_solver", None)  # would fail if called
    ran = command(*words, code=2)
    assert ran.err.startswith(f"trm {words[0]}: {option}")
    assert len(ran.err.splitlines()) == 1


def test_the_place_of_a_file_is_checked_before_the_work_for_it(tmp_path):
    for good in (tmp_path / "new", Path(os.devnull)):
        check_place(good, "--smt")
    bad = {tmp_path: "is a folder", tmp_path / "none/x": "there is no folder"}
    bad[tmp_path / ("x" * 300)] = "[Nn]ame too long; choose another"
    for file, reason in bad.items():
        with pytest.raises(ValueError, match=f"^--smt {re.escape(str(file))}.* {reason}"):
            check_place(file, "--smt")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name == "nt", reason="Windows has other permissions")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_a_replaced_file_keeps_its_permissions(tmp_path, mode):
    file = tmp_path / "secret"
    file.touch()
    file.chmod(mode)
    with replacing(file) as part:
        assert stat.S_IMODE(part.stat().st_mode) == mode  # while it is written, too
        part.write_text("new")
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == ("new", mode)
    write(tmp_path / "new", "text")
    (tmp_path / "other").touch()
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "other").stat().st_mode


@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_and_its_target_is_written(tmp_path, there):
    (tmp_path / "below").mkdir()
    target, link = tmp_path / "below/target", tmp_path / "link"
    if there:
        target.write_text("old")
    link.symlink_to(target)
    write(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert sorted(tmp_path.rglob("*")) == [target.parent, target, link]


@pytest.mark.skipif(os.name == "nt", reason="devices of POSIX")
def test_devices_are_not_replaced_and_old_temporary_files_go(tmp_path):
    link = tmp_path / "link"
    link.symlink_to(os.devnull)
    for file in (Path(os.devnull), link, tmp_path):
        with pytest.raises(ValueError, match="is no file that could be replaced"):
            write(file, "text")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
    dead, living = tmp_path / ".best.ckpt.17", tmp_path / ".best.ckpt.18"
    dead.touch()
    living.touch()
    os.utime(dead, (0, 0))  # longer ago than any write takes
    write(tmp_path / "best.ckpt", "new")
    assert {*tmp_path.iterdir()} == {tmp_path / "best.ckpt", living, link}


def try_alone(file: Path) -> None:
    with alone(file):
        pass


def test_one_process_at_a_time_works_towards_a_file(tmp_path):
    file, link = tmp_path / "answers.csv", tmp_path / "link"
    link.symlink_to(file)
    with alone(file):
        for name in (file, link):
            with pytest.raises(ValueError, match="another process is at work on"):
                try_alone(name)
    (tmp_path / ".answers.csv.lock").touch()  # as a killed process leaves it
    try_alone(file)
    assert list(tmp_path.iterdir()) == [link]


def test_json_that_is_nested_too_deeply_is_no_object(tmp_path):
    file = tmp_path / "grid.json"
    file.write_text('{"models": ' + "[" * 100_000 + "]" * 100_000 + "}")
    assert read_object(file) is None


def test_an_error_leaves_no_empty_folders(tmp_path):
    (tmp_path / "mine").mkdir()

    def refused(name: str, file: str = "") -> None:
        with removing_empty_folders():
            make_folder(tmp_path / name)
            if file:
                (tmp_path / name / file).touch()
            raise ValueError("refused")

    for name in ("new/deep", "mine", "mine/below"):
        with pytest.raises(ValueError, match="refused"):
            refused(name)
    assert list(tmp_path.rglob("*")) == [tmp_path / "mine"]
    with pytest.raises(ValueError, match="refused"):
        refused("new/deep", "kept")
    assert (tmp_path / "new/deep/kept").exists()
    with removing_empty_folders():
        make_folder(tmp_path / "empty")
    assert (tmp_path / "empty").is_dir()


def test_all_texts_are_written_and_read_as_utf8(repository):
    """The locale decides otherwise; binary files have no encoding."""
    calls = re.compile(r"(?:\.open|\.write_text|\.read_text|\bopen)\((?!.*encoding).*\)")
    of_bytes = re.compile(
        r'"[rwa]b\+?"|(?:gzip|zipfile|Image|os|pickle)\.open|def |write_text\(\w+'
    )
    left = [
        f"{file.relative_to(repository)}: {line.strip()}"
        for package in ("canvas", "augment", "trm", "benchmarks")
        for file in (repository / package).rglob("*.py")
        for line in file.read_text(encoding="utf-8").splitlines()
        if calls.search(line) and not of_bytes.search(line)
    ]
    assert left == []


def test_sources_without_an_installation_have_versions_too():
    code = """
import importlib.metadata as metadata
found = metadata.version
def version(name):
    if name == "canvas-trm":
        raise metadata.PackageNotFoundError(name)
    return found(name)
metadata.version = version
from trm.io.files import versions
print(versions()["canvas-trm"], sorted(versions()))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names = "['canvas-trm', 'lightning', 'numpy', 'python', 'torch']"
    assert ran.stdout.strip() == f"0+unknown {names}"
