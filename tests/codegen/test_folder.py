"""Files are written into a folder all or none, whenever the process is killed, and users' files are never lost."""

from __future__ import annotations

import functools
import os
import random
import resource
import signal
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from mccompile.codegen import folder
from mccompile.codegen.folder import LAST, write_folder
from mccompile.ir.errors import CompileError, UsageError


def files(what: str) -> dict[str, bytes]:
    """Those of a compilation: a source, a header in a folder, and a report that names both."""
    return {
        "net.c": f"/* mccompile {what} */\n".encode() * 100,
        "src/net.h": f"/* mccompile: {what} */\n".encode(),
        LAST: f'{{"files": {{"net.c": 1, "src/net.h": 1}}, "what": "{what}"}}'.encode(),
    }


def found(out: Path) -> dict[str, bytes]:
    return {str(p.relative_to(out)): p.read_bytes() for p in out.rglob("*") if p.is_file()}


USERS = {"notes.txt": b"mine", "build/net.o": b"built", "src/more.c": b"mine, too"}


@pytest.fixture
def out(tmp_path: Path) -> Path:
    write_folder(tmp_path / "out", files("old"))
    for name, data in USERS.items():
        (tmp_path / "out" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "out" / name).write_bytes(data)
    return tmp_path / "out"


@pytest.fixture(params=["exchange", "one by one"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param != "exchange":
        monkeypatch.setattr(folder, "_exchanged", lambda out, changed: False)
    return str(request.param)


def _begin(run: Callable[[], None]) -> int:
    """Run in a process of its own, whose number this is."""
    child = os.fork()
    if child == 0:
        try:
            run()
        except CompileError:
            os._exit(1)
        except BaseException:
            os._exit(99)
        os._exit(0)
    return child


def _ended(child: int) -> int:
    """The exit code of a process, below 0 if a signal ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _killed_at(step: int, run: Callable[[], None]) -> bool:
    """Run in a process that is killed when it is about to touch the file system for the ``step``-th time; whether
    it was."""

    def killed() -> None:
        left = [step]

        def hook(event: str, args: object) -> None:
            touches = event.startswith(("os.", "open", "shutil.", "tempfile.", "ctypes."))
            if touches and event != "os.kill":
                left[0] -= 1
                if left[0] < 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        run()

    code = _ended(_begin(killed))
    assert code in (0, -signal.SIGKILL)
    return code != 0


def test_a_folder_is_whole_or_untouched_whenever_the_process_is_killed(
    out: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = {**files("old"), **USERS}, {**files("new"), **USERS}
    states, step = [], 0
    while _killed_at(step, lambda: write_folder(out, files("new"))):
        got = found(out)
        assert {name: got.get(name) for name in USERS} == USERS, step
        if way == "exchange" or LAST in got:
            inside = {name: data for name, data in got.items() if not name.startswith((".", folder.WHILE_REPLACED))}
            assert inside in (old, new), step
        states.append(got)
        write_folder(out, files("old"))
        step += 1
    assert step > 10
    assert found(out) == new or any(".mccompile-" in name for name in found(out))
    if way == "exchange":
        assert old in states
        assert new in states
    monkeypatch.setattr(folder, "LEFT_ALONE", -1.0)
    write_folder(out, files("old"))
    (out / folder.WHILE_REPLACED).unlink(missing_ok=True)
    assert found(out) == old
    assert way != "exchange" or [p.name for p in out.parent.iterdir()] == ["out"]


def test_two_at_once_leave_one_of_both(out: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    holds = folder._holds

    def slowly(real: Path, name: str, data: bytes) -> bool:
        time.sleep(random.random() / 1000)
        return holds(real, name, data)

    monkeypatch.setattr(folder, "_holds", slowly)

    def some(what: str, seed: int) -> Callable[[], None]:
        def run() -> None:
            random.seed(seed)
            for _ in range(3):
                write_folder(out, files(what))

        return run

    for i in range(20):
        children = [_begin(some("one", i)), _begin(some("two", -1 - i))]
        if way == "exchange":
            for _ in range(20):
                assert (out / "net.c").read_bytes() in [files(what)["net.c"] for what in ("old", "one", "two")]
        assert [_ended(child) for child in children] == [0, 0]
        assert found(out) in ({**files("one"), **USERS}, {**files("two"), **USERS})


def test_two_that_make_a_folder_at_once_leave_one_of_both(tmp_path: Path) -> None:
    for i in range(20):
        made = tmp_path / str(i)
        children = [_begin(functools.partial(write_folder, made, files(what))) for what in ("one", "two")]
        assert [_ended(child) for child in children] == [0, 0]
        assert found(made) in (files("one"), files("two"))
        assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_a_full_disk_leaves_all_as_it_is(out: Path, way: str) -> None:
    def full() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        write_folder(out, files("new"))

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    assert _ended(_begin(full)) == 1
    assert found(out) == {**files("old"), **USERS}


def test_links_are_replaced_and_never_followed(out: Path, way: str, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "net.h").write_bytes(files("new")["src/net.h"])
    (outside / "net.c").write_text("somebody's")
    (out / "src" / "more.c").unlink()
    (out / "src" / "net.h").unlink()
    (out / "src").rmdir()
    (out / "src").symlink_to(outside)
    (out / "net.c").unlink()
    (out / "net.c").symlink_to(outside / "net.c")
    write_folder(out, files("new"))
    assert (outside / "net.c").read_text() == "somebody's"
    assert not (out / "src").is_symlink()
    assert not (out / "net.c").is_symlink()
    assert (out / "src" / "net.h").read_bytes() == files("new")["src/net.h"]


def test_a_link_to_the_folder_is_where_the_user_wants_it(out: Path, way: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(out)
    write_folder(tmp_path / "link", files("new"))
    assert (tmp_path / "link").is_symlink()
    assert found(out) == {**files("new"), **USERS}


@pytest.mark.parametrize("name", ["net.c", "CMakeLists.txt"])
def test_files_of_others_are_not_replaced(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("int main(void);")
    with pytest.raises(UsageError, match=f"{name} is not of mccompile"):
        write_folder(tmp_path, {**files("new"), "CMakeLists.txt": b"# mccompile"})
    assert found(tmp_path) == {name: b"int main(void);"}


def test_a_folder_of_a_files_name_is_refused_before_anything_is_replaced(out: Path) -> None:
    (out / "net.c").unlink()
    (out / "net.c").mkdir()
    with pytest.raises(UsageError, match=r"net\.c is a folder"):
        write_folder(out, files("new"))
    assert (out / LAST).read_bytes() == files("old")[LAST]


def test_what_is_equal_is_not_touched(out: Path, way: str) -> None:
    os.utime(out / "net.c", (1000, 1000))
    write_folder(out, {**files("new"), "net.c": files("old")["net.c"]})
    assert (out / "net.c").stat().st_mtime == 1000
    assert found(out) == {**files("new"), **USERS, "net.c": files("old")["net.c"]}


def test_what_is_there_is_compared_piece_by_piece(tmp_path: Path) -> None:
    old = bytes(range(256)) * 2**14
    for last in (b"a", b"b"):  # the same size, and other bytes at the very end
        new = {LAST: b'{"files": {"net.mcb": 1}}', "net.mcb": old + last}
        write_folder(tmp_path / "out", new)
        assert (tmp_path / "out" / "net.mcb").read_bytes() == old + last
    os.utime(tmp_path / "out" / "net.mcb", (1000, 1000))
    tracemalloc.start()
    write_folder(tmp_path / "out", new)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (tmp_path / "out" / "net.mcb").stat().st_mtime == 1000
    assert peak < len(old)
