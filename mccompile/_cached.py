"""`cached`: a property that is computed once, for objects that are made by the hundred thousand.

It is `functools.cached_property` without the lock that Python 3.11 takes around the first look-up, which costs three
times what most of these properties do. What it found lies in the object and goes with it: objects that have one do
not change.

>>> class Square:
...     side = 3
...     @cached
...     def area(self):
...         return self.side**2
>>> square = Square()
>>> square.area, vars(square)
(9, {'area': 9})
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["cached"]

if TYPE_CHECKING:
    from functools import cached_property as cached
else:

    class cached:  # noqa: N801 - it is read as `property` is
        """See the module. Attributes of the object itself come before it, so that it is asked once."""

        def __init__(self, compute):
            self.compute = compute
            self.name = compute.__name__
            self.__doc__ = compute.__doc__

        def __get__(self, item, owner=None):
            if item is None:
                return self
            found = item.__dict__[self.name] = self.compute(item)
            return found
