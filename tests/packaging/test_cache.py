"""The cache of what tests build: equal C is built once, and it does not grow without end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mccompile.driver import Options
from mccompile.ops.registry import front_ends
from mccompile.run.build import build_library
from mccompile.run.cache import adding, find, prune
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
    assert built == [1, 1, 2, 3]


def test_others_may_read_what_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a cache that users share: the modes are those of the umask, not those of a temporary file."""
    monkeypatch.setenv("MCC_CACHE", str(tmp_path / "cache"))
    (tmp_path / "f.c").write_text("int f(void) { return 1; }\n")
    library = build_library([tmp_path / "f.c"], [], tmp_path)
    assert library.stat().st_mode & 0o044 == 0o044
    with adding(tmp_path / "cache" / "x.json") as staged:
        staged.write_text("{}")
    assert {p.name for p in (tmp_path / "cache").iterdir()} == {library.name, "x.json"}


def test_what_is_used_is_kept(tmp_path: Path) -> None:
    for name in ("old", "used", "new"):
        (tmp_path / name).write_bytes(bytes(100))
        os.utime(tmp_path / name, (1000, 1000 if name != "new" else 2000))
    assert find(tmp_path / "used")
    assert not find(tmp_path / "absent")
    prune(tmp_path, 250)
    assert [p.name for p in tmp_path.iterdir()] == ["used"]
