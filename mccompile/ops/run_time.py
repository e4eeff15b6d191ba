"""Front ends for nodes whose arguments are computed at run time, and are not few (`ops.readings`)."""

from __future__ import annotations

from collections.abc import Callable

from mccompile._dataclass import dataclass
from mccompile.ops.frontend import Import


@dataclass(frozen=True)
class RunTime:
    """``convert`` takes the place of the operator's front end where one of its inputs ``arguments`` is not known; if
    ``undecided``, also where its front end raises UndecidedError of extents, which are numbers of the run."""

    convert: Callable[[Import], None]
    arguments: tuple[int, ...] = (1,)
    undecided: bool = False

    def offered(self, n: Import) -> bool:
        """Whether it may take the place of a front end that cannot decide: of arguments that the node has."""
        return self.undecided and any(n.optional(i) is not None for i in self.arguments)

    def wanted(self, n: Import) -> bool:
        return any(n.optional(i) is not None and not n.has_numbers(i) for i in self.arguments)
