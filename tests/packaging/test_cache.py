"""The cache of what tests build: equal C is built once, and it does not grow without end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mccompile.driver import Options
from mccompile.ir.errors import CompileError
from mccompile.ops.registry import front_ends
from mccompile.run.build import build_library
from mccompile.run.cache import cached, prune
from mccompile.targets.target import resolve
from tests.support.opcases import CaseLibrary, compile_case


def test_the_oldest_go_first(tmp_path: Path) -> None:
    for age in range(10):
        path = tmp_path / f"{age}.so"
        path.write_bytes(bytes(100))
        os.utime(path, (1_000_000 - age, 1_000_000 - age))
    prune(tmp_path, 1000)
    assert len(list(tmp_path.iterdir())) == 10
    prune(tmp_path, 900)
    assert sorted(p.stem for p in tmp_path.iterdir()) == ["0", "1", "2", "3"]


def test_equal_c_is_built_once_and_other_flags_are_not_equal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCC_CACHE", str(tmp_path / "cache"))
    built = []
    for name, seed, flag in (("a", 0, "-O1"), ("b", 0, "-O1"), ("c", 1, "-O1"), ("d", 0, "-O0")):
        folder = tmp_path / name
        folder.mkdir()
        case = compile_case(front_ends()["", "Relu"], seed, folder, Options(target="generic"), "net")
        CaseLibrary(folder, [case], [*resolve("generic").c_flags, flag]).build()
        built.append(len(list((tmp_path / "cache").iterdir())))
    assert built == [2, 2, 4, 6]  # each with its digest


def test_others_may_read_what_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a cache that users share: the modes are those of the umask, not those of a temporary file."""
    monkeypatch.setenv("MCC_CACHE", str(tmp_path / "cache"))
    (tmp_path / "f.c").write_text("int f(void) { return 1; }\n")
    library = build_library([tmp_path / "f.c"], [], tmp_path)
    assert library.stat().st_mode & 0o044 == 0o044
    other = cached("x.json", lambda path: path.write_text("{}"))
    names = {library.name, other.name}
    assert {p.name for p in (tmp_path / "cache").iterdir()} == names | {f"{name}.sha256" for name in names}


def test_the_cache_may_be_named_from_where_one_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The C compiler runs elsewhere."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MCC_CACHE", "cache")
    (tmp_path / "f.c").write_text("int f(void) { return 1; }\n")
    assert build_library([tmp_path / "f.c"], [], tmp_path).parent == tmp_path / "cache"


def test_what_is_used_is_kept(cache: Path) -> None:
    for name in ("old", "used", "new"):
        cached(name, lambda path: path.write_bytes(bytes(100)))
        for path in cache.glob(f"{name}*"):
            os.utime(path, (1000, 1000 if name != "new" else 2000))
    cached("used", _never)
    prune(cache, 350)
    assert sorted(p.name for p in cache.iterdir()) == ["used", "used.sha256"]


def test_what_is_used_while_another_prunes_is_kept(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look at all ages and the removal: what is about to be linked does not go."""
    for name in ("old", "used"):
        cached(name, lambda path: path.write_bytes(bytes(100)))
        for path in cache.glob(f"{name}*"):
            os.utime(path, (1000, 1000))
    seen = [(path.stat(), path) for path in sorted(cache.iterdir())]
    cached("used", _never)
    monkeypatch.setattr("mccompile.run.cache._files", lambda folder: iter(seen))
    prune(cache, 100)
    assert sorted(p.name for p in cache.iterdir()) == ["used", "used.sha256"]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MCC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def _never(path: Path) -> None:
    raise AssertionError(f"{path} was made again")


def _ours(path: Path) -> None:
    path.write_text("ours")


@pytest.mark.parametrize("what", ["changed", "cut", "unsealed", "writable", "link", "owner", "sealed by others"])
def test_what_others_may_have_put_there_is_made_again(what: str, cache: Path, tmp_path: Path) -> None:
    path = cached("f", _ours)
    seal = path.with_name("f.sha256")
    if what == "changed":
        path.write_text("evil")
    elif what == "cut":
        path.write_text("")
    elif what == "unsealed":
        seal.unlink()
    elif what == "writable":
        path.chmod(0o666)
    elif what == "link":
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
    else:
        if os.geteuid() != 0:
            pytest.skip("only root can give files away")
        os.chown(path if what == "owner" else seal, 12345, -1)
    made: list[Path] = []
    assert cached("f", lambda path: (made.append(path), _ours(path))) == path
    assert made, what
    assert path.read_text() == "ours"
    assert not path.is_symlink()
    assert cached("f", _never) == path


def test_users_of_one_folder_have_each_their_own(cache: Path) -> None:
    cache.mkdir()
    cache.chmod(0o1777)
    (cache / "f").write_text("somebody else's")
    path = cached("f", _ours)
    assert path == cache / f"user-{os.geteuid()}" / "f"
    assert path.read_text() == "ours"


@pytest.mark.parametrize("planted", [False, True])
def test_a_folder_in_which_others_can_replace_files_is_refused(planted: bool, cache: Path) -> None:
    cache.mkdir()
    cache.chmod(0o1777 if planted else 0o777)
    if planted:
        (cache / f"user-{os.geteuid()}").mkdir()
        (cache / f"user-{os.geteuid()}").chmod(0o777)
    with pytest.raises(CompileError, match="others can change") as error:
        cached("f", _ours)
    assert "chmod go-w" in (error.value.hint or "")
    assert not list(cache.rglob("f"))
