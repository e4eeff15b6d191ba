"""The errors a user can meet: each says where, which rule was broken, and what to do."""

from __future__ import annotations


class CompileError(Exception):
    """The model cannot be compiled. Exit code 1.

    Args:
        rule: what is required or unsupported, in the field's terms.
        where: file, node index and name, operator, shapes; empty if the whole model is meant.
        hint: what the user can do about it; empty if nothing is known.
    """

    exit_code = 1

    def __init__(self, rule: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(rule)
        self.rule = rule
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        parts = [f"{self.where}: {self.rule}" if self.where else self.rule]
        if self.hint:
            parts.append(f"  hint: {self.hint}")
        return "\n".join(parts)


class UsageError(CompileError):
    """The command or call itself is wrong (an unknown option value, a missing file). Exit code 2."""

    exit_code = 2


class InternalError(Exception):
    """An invariant of the compiler does not hold: always our bug, never the user's."""
