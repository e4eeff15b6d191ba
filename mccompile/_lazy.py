"""Dataclasses whose methods are written when the first instance is made.

`dataclasses.dataclass` writes and compiles up to six functions for each class. A compilation imports some 200 classes
of operators, variants and passes, of which it makes a tenth; their functions took a third of a second.

>>> @dataclass(frozen=True)
... class Point:
...     x: int
...     y: int = 0
>>> Point.__init__.__qualname__
'_Later.stub.<locals>.__init__'
>>> Point(1), Point.__init__.__qualname__
(Point(x=1, y=0), 'Point.__init__')
"""

from __future__ import annotations

import dataclasses
from threading import RLock
from typing import TYPE_CHECKING, Any

_FIELDS = "__dataclass_fields__"
"""What `dataclasses` asks a class for, and its subclasses for those of their bases."""
_writing = RLock()

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(**options: Any) -> Any:
        """As `dataclasses.dataclass`, for classes without an ``__init__`` of their own."""

        def decorated(cls: type) -> type:
            later = _Later(cls, options)
            setattr(cls, _FIELDS, later)
            cls.__init__ = later.stub()
            return cls

        return decorated


class _Later:
    """Stands for the fields of a class; whoever asks for them gets them made."""

    def __init__(self, cls: type, options: dict[str, Any]) -> None:
        self.cls = cls
        self.options = options

    def __get__(self, instance: object, owner: type) -> Any:
        self.write()
        return getattr(owner, _FIELDS)

    def stub(self) -> Any:
        """The ``__init__`` of the class until then."""

        def __init__(instance: object, *args: Any, **named: Any) -> None:  # noqa: N807
            self.write()
            self.cls.__init__(instance, *args, **named)  # type: ignore[misc]

        return __init__

    def write(self) -> None:
        """Make the class the dataclass that it is said to be, its bases first: they are asked for their fields."""
        with _writing:
            if self.cls.__dict__.get(_FIELDS) is self:
                delattr(self.cls, _FIELDS)
                del self.cls.__init__
                dataclasses.dataclass(**self.options)(self.cls)
