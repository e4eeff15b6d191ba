"""Models that are generated together: what they share."""

from __future__ import annotations

from collections.abc import Sequence

from mccompile._dataclass import dataclass
from mccompile.codegen.facts import Arena, ModelFacts
from mccompile.codegen.library import Library


@dataclass(frozen=True)
class SharedArena:
    """A union of the arenas that several models have in one memory."""

    type: str
    field: str
    members: tuple[tuple[ModelFacts, Arena], ...]

    @property
    def place(self) -> str:
        """The macro that stands before its definition in an application: that of every arena in it."""
        return self.members[0][1].place


@dataclass(frozen=True)
class Project:
    """Models that share their kernels, which are in a ``library`` then, and their arenas if ``shared`` is not empty;
    or one model."""

    name: str
    models: tuple[ModelFacts, ...]
    library: Library | None
    shared: tuple[SharedArena, ...]

    @property
    def is_one_model(self) -> bool:
        """Whether there is nothing beside a model of the same name."""
        return [m.name for m in self.models] == [self.name]

    @property
    def header(self) -> str:
        """What an application includes."""
        return f"{self.name}.h"

    @property
    def guard(self) -> str:
        return f"{self.name.upper()}_H"

    def arena_of(self, m: ModelFacts, a: Arena) -> str:
        """What an application passes to ``<model>_init`` for one of its arenas."""
        if self.shared:
            found = next(s for s in self.shared if s.field == a.field)
            return f"&{found.field}.{m.name}"
        return f"&{a.field}_of_{m.name}"

    def arena_arguments(self, m: ModelFacts) -> str:
        return ", ".join(self.arena_of(m, a) for a in m.arenas)


def make_project(name: str, models: Sequence[ModelFacts], library: Library, share_arena: bool) -> Project:
    """The facts of a project; with ``share_arena`` the models lie over one another in each memory."""
    fields = dict.fromkeys(a.field for m in models for a in m.arenas) if share_arena else ()
    shared = tuple(
        SharedArena(f"{name}_{field}", field, tuple((m, a) for m in models for a in m.arenas if a.field == field))
        for field in fields
    )
    return Project(name, tuple(models), library, shared)
