"""`dataclass` as of the standard library, with methods that are made when they are first needed.

The standard library writes the text of six methods for each class and compiles it, which takes 0.4 ms: for the 500
classes of this package, most of which a compilation never makes an object of, half of the time that importing it
takes. (One core of an EPYC Zen 4, Python 3.11.) Here it finds the fields and nothing else. `__init__` is written when
the first object is made; the other methods go through the fields, so that all classes have the same.

    @dataclass(frozen=True)
    class Pad:
        before: int                 >>> Pad(1) == Pad(1, 0), Pad(1)
        after: int = 0              (True, Pad(before=1, after=0))

For users, `dataclasses.fields`, `replace` and `asdict`, and classes that are derived by the standard library's own
decorator (plugins), it is a dataclass like any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    import dataclasses
    import operator
    from collections.abc import Callable, Iterator
    from contextlib import contextmanager
    from typing import Any

    _NEW = object()
    """The default of an argument that a function makes a value for."""

    def dataclass(
        cls: type | None = None, /, *, frozen: bool = False, eq: bool = True, repr: bool = True,
        kw_only: bool = False, **more: bool,
    ) -> Any:  # fmt: skip
        """See the module. ``more``: options that few classes have; they are made by the standard library."""

        def made(cls: type) -> type:
            if more:
                return dataclasses.dataclass(cls, frozen=frozen, eq=eq, repr=repr, kw_only=kw_only, **more)
            _find_fields(cls, kw_only)
            own = vars(cls)
            found = dataclasses.fields(cls)
            if "__init__" not in own:
                cls.__init__ = _written_later(cls, frozen)
            if repr and "__repr__" not in own:
                cls.__repr__ = _repr
            if eq:
                _add_equality(cls, tuple(f.name for f in found if f.compare), frozen)
            if frozen:
                names = frozenset(f.name for f in found)
                cls.__setattr__, cls.__delattr__ = _guards(cls, names)
            cls.__dataclass_params__.frozen = frozen
            return cls

        return made if cls is None else made(cls)

    def _find_fields(cls: type, kw_only: bool) -> None:
        if cls.__doc__ is None:
            cls.__doc__ = cls.__name__  # or it would be a signature, which takes longer than all else
        with _thawed(cls):
            dataclasses.dataclass(cls, init=False, repr=False, eq=False, kw_only=kw_only)

    @contextmanager
    def _thawed(cls: type) -> Iterator[None]:
        """The bases as if they were not frozen: the standard library wants a class to be like them."""
        bases = [vars(base).get("__dataclass_params__") for base in cls.__mro__[1:]]
        frozen = [params for params in bases if params is not None and params.frozen]
        for params in frozen:
            params.frozen = False
        try:
            yield
        finally:
            for params in frozen:
                params.frozen = True

    def _written_later(cls: type, frozen: bool) -> Callable[..., None]:
        def write(self: Any, *values: Any, **named: Any) -> None:
            cls.__init__ = _initializer(cls, frozen)
            cls.__init__(self, *values, **named)

        return write

    def _initializer(cls: type, frozen: bool) -> Callable[..., None]:
        """For `Pad`: ``def __init__(self, before, after=_default_after): _put(self, 'before', before); ...``."""
        known = {"_put": object.__setattr__, "_NEW": _NEW}
        positional, named, body = ["self"], [], []
        for f in dataclasses.fields(cls):
            name = given = f.name
            argument = name
            if f.default is not dataclasses.MISSING:
                known[f"_default_{name}"] = f.default
                argument += f"=_default_{name}"
            elif f.default_factory is not dataclasses.MISSING:
                known[f"_make_{name}"] = f.default_factory
                argument += "=_NEW"
                given = f"_make_{name}() if {name} is _NEW else {name}" if f.init else f"_make_{name}()"
            if f.init:
                (named if f.kw_only else positional).append(argument)
            if f.init or given != name:
                body.append(f"_put(self, {name!r}, {given})" if frozen else f"self.{name} = {given}")
        if hasattr(cls, "__post_init__"):
            body.append("self.__post_init__()")
        arguments = ", ".join([*positional, *(["*", *named] if named else [])])
        exec("\n    ".join([f"def __init__({arguments}):", *(body or ["pass"])]), known)
        known["__init__"].__qualname__ = f"{cls.__qualname__}.__init__"
        return known["__init__"]

    def _repr(self: Any) -> str:
        shown = (f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self) if f.repr)
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def _add_equality(cls: type, names: tuple[str, ...], frozen: bool) -> None:
        """Objects of the class itself are equal if their fields are, as tuples are (a NaN equals itself, with Python
        3.13, too); where they cannot change, they have a hash of them. What the class defines itself stays."""
        values = _reader(names)

        def equal(self: Any, other: object) -> bool:
            return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

        def hashed(self: Any) -> int:
            return hash(values(self))

        own = vars(cls)
        has_hash = "__hash__" in own and not (own["__hash__"] is None and "__eq__" in own)
        if "__eq__" not in own:
            cls.__eq__ = equal
        if not has_hash:
            cls.__hash__ = hashed if frozen else None

    def _reader(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
        """The values of fields as a tuple."""
        if len(names) > 1:
            return operator.attrgetter(*names)
        if not names:
            return lambda item: ()
        get = operator.attrgetter(names[0])
        return lambda item: (get(item),)

    def _guards(cls: type, names: frozenset[str]) -> tuple[Callable[..., None], Callable[..., None]]:
        """What refuses to set and to delete fields of objects of the class, and of classes derived from it; all else
        of a derived class is its own."""

        def set_field(self: Any, name: str, value: object) -> None:
            if type(self) is cls or name in names:
                raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
            super(cls, self).__setattr__(name, value)

        def delete_field(self: Any, name: str) -> None:
            if type(self) is cls or name in names:
                raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
            super(cls, self).__delattr__(name)

        return set_field, delete_field
