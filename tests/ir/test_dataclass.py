"""`mccompile._dataclass` makes the classes that the standard library's decorator makes."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import field
from typing import Any, ClassVar

import pytest

from mccompile._dataclass import dataclass as ours

Decorator = Callable[..., Any]


def _classes(dataclass: Decorator) -> dict[str, type]:
    """Classes of all forms that there are in the package."""

    @dataclass(frozen=True)
    class Empty:
        """Nothing."""

    @dataclass(frozen=True)
    class Point:
        count: ClassVar[int] = 7
        x: int
        y: tuple[int, ...] = ()

    @dataclass(frozen=True)
    class Named(Point):
        z: str = "z"
        note: str = field(default="", compare=False, repr=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "sum", self.x + len(self.y))

    @dataclass
    class Open:
        items: list[int] = field(default_factory=list)
        made: dict[str, int] = field(default_factory=dict, init=False)

    @dataclass(eq=False)
    class Single:
        x: int = 0

    @dataclass(frozen=True, repr=False)
    class Shown:
        x: int = 0

        def __str__(self) -> str:
            return "shown"

    @dataclass(frozen=True, kw_only=True)
    class Words:
        x: int
        y: int = 2

    @dataclass(frozen=True)
    class Own:
        x: int

        def __hash__(self) -> int:
            return 5

        def __eq__(self, other: object) -> bool:
            return True

    return {c.__name__: c for c in (Empty, Point, Named, Open, Single, Shown, Words, Own)}


OURS, THEIRS = _classes(ours), _classes(dataclasses.dataclass)
CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("Empty", (), {}), ("Empty", (1,), {}), ("Point", (1,), {}), ("Point", (1, (2, 3)), {}), ("Point", (), {"x": 4}),
    ("Point", (), {}), ("Point", (1, (), 3), {}), ("Point", (), {"other": 1}), ("Point", (float("nan"),), {}),
    ("Named", (1, (2,), "a", "b"), {}), ("Named", (1,), {"note": "c"}), ("Named", (1,), {"note": "d"}),
    ("Open", (), {}), ("Open", ([1],), {}), ("Open", ([], {}), {}), ("Single", (), {}), ("Single", (3,), {}),
    ("Shown", (), {}), ("Words", (), {"x": 1}), ("Words", (1,), {}), ("Words", (), {"y": 1}), ("Own", (1,), {}),
]  # fmt: skip


def _tried(what: Callable[[], Any]) -> Any:
    """What it answers, or the error that it raises."""
    try:
        return what()
    except Exception as e:
        return type(e), str(e)


def _without_place(value: Any) -> Any:
    """A text without where its object is."""
    return value.partition(" object at ")[0] if isinstance(value, str) else value


@pytest.mark.parametrize(("name", "values", "named"), CALLS)
def test_objects_are_made_and_shown_alike(name: str, values: Any, named: Any) -> None:
    a, b = (_tried(lambda c=c: c[name](*values, **named)) for c in (OURS, THEIRS))
    assert isinstance(a, tuple) == isinstance(b, tuple)
    if isinstance(a, tuple):
        assert (a[0], a[1].replace("_classes.<locals>.", "")) == (b[0], b[1].replace("_classes.<locals>.", ""))
        return
    assert vars(a) == vars(b) or values != values
    for what in (repr, str, dataclasses.asdict, lambda x: [f.name for f in dataclasses.fields(x)]):
        assert _without_place(_tried(lambda x=a, w=what: w(x))) == _without_place(_tried(lambda x=b, w=what: w(x)))
    if name != "Single":  # whose hash is where it is
        assert _tried(lambda: hash(a)) == _tried(lambda: hash(b))
    for change in (lambda x: setattr(x, "x", 2), lambda x: setattr(x, "new", 2), lambda x: delattr(x, "x"),
                   lambda x: dataclasses.replace(x, x=9).x):  # fmt: skip
        assert _tried(lambda x=a, c=change: c(x)) == _tried(lambda x=b, c=change: c(x))


def test_what_is_equal_is_equal_alike() -> None:
    """Fields are compared as tuples are; the standard library compares them one by one from Python 3.13 on, so that
    there an object with a NaN is not even equal to itself."""
    made: list[list[Any]] = [[], []]
    for name, values, named in CALLS:
        if sys.version_info >= (3, 13) and any(v != v for v in (*values, *named.values())):
            continue
        if not isinstance(_tried(lambda c=THEIRS[name], v=values, n=named: c(*v, **n)), tuple):
            for objects, classes in zip(made, (OURS, THEIRS), strict=True):
                objects.append(classes[name](*values, **named))
    one, other = ([[x == copy.copy(y) for y in objects] for x in objects] for objects in made)
    assert one == other
    assert any(map(any, one))


def test_matching_by_position_works() -> None:
    match OURS["Point"](1, (2,)):
        case object(x=x, y=y):
            assert (x, y) == (1, (2,))
    assert vars(OURS["Named"])["__match_args__"] == vars(THEIRS["Named"])["__match_args__"]


@ours(frozen=True)
class Kept:
    x: int


def test_objects_can_be_kept_and_copied() -> None:
    assert pickle.loads(pickle.dumps(Kept(3))) == Kept(3) == copy.deepcopy(Kept(3))


def test_the_standard_library_may_derive_further_classes() -> None:
    """As plugins do: operators are frozen, and so are those derived from them."""

    @dataclasses.dataclass(frozen=True)
    class Further(Kept):
        y: int = 1

    made = Further(1, 2)
    assert repr(made).endswith("Further(x=1, y=2)")
    assert made == Further(1, 2) != Further(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.x = 3  # type: ignore[misc]
    with pytest.raises(TypeError, match="cannot inherit non-frozen dataclass from a frozen one"):
        dataclasses.dataclass(type("Other", (Kept,), {}))


def test_an_initializer_is_written_for_the_first_object_alone() -> None:
    @ours
    class Late:
        x: int = 1

    before = Late.__init__
    assert Late().x == 1
    after = Late.__init__
    assert after is not before
    assert Late(2).x == 2
    assert Late.__init__ is after


def test_importing_the_package_writes_few_initializers() -> None:
    text = (
        "import mccompile.driver, mccompile.plugins as p, dataclasses, sys\n"
        "for floor in p.FLOORS: p.modules(floor)\n"
        "own = [m for m in list(sys.modules.values()) if m.__name__.startswith('mccompile.')]\n"
        "classes = {c for m in own for c in vars(m).values() if isinstance(c, type)}\n"
        "found = [c for c in classes if dataclasses.is_dataclass(c)]\n"
        "print(len(found), sum(c.__init__.__name__ == '__init__' for c in found))"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    all_of_them, written = map(int, done.stdout.split())
    assert all_of_them > 300
    assert written < all_of_them / 5
