"""What a network takes of a device: bars of flash and RAM in parts, against what there is.

Worked example: weights of 26,068 bytes, 4,572 of code and 1,012 of the runtime are 31,652 of `--flash 64K`: 48 %.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mccompile._dataclass import dataclass


@dataclass(frozen=True)
class Part:
    """A part of a bar: its name, its bytes, its class of colour, its share of the bar."""

    name: str
    nbytes: int
    kind: str
    share: float


@dataclass(frozen=True)
class Bar:
    """A memory of the device; ``note`` says what is not in the bar, which is as long as its parts without a limit."""

    name: str
    option: str
    parts: tuple[Part, ...]
    limit: int | None
    note: str

    @property
    def total(self) -> int:
        return sum(p.nbytes for p in self.parts)

    @property
    def fits(self) -> bool:
        return self.limit is None or self.total <= self.limit

    @property
    def limit_share(self) -> float:
        """Where the limit stands, as a part of the bar."""
        return min(1.0, self.limit / max(self.total, 1)) if self.limit is not None else 1.0


def budget(report: Mapping[str, Any]) -> list[Bar]:
    """The bars of flash and RAM."""
    limits = report.get("limits") or {}
    code = report.get("code")
    flash = [("weights", report["blob_bytes"], "weights")]
    ram = [("arena", report["memory"]["arena_bytes"] - report["memory"]["state_bytes"], "arena")]
    ram += [("state", report["memory"]["state_bytes"], "state")]
    if code:
        flash += [("code", code["text_bytes"], "code"), ("tables", code["constants_bytes"], "tables")]
        flash += [("runtime", code["runtime_bytes"], "runtime")]
        if code["stack"]:
            ram.append(("stack", code["stack"]["bytes"], "stack"))
    outside = ", ".join((code or {}).get("stack", {}).get("outside", ())[:4]) if code and code["stack"] else ""
    library = f"functions of the C library ({outside}) come on top" if outside else ""
    unknown = "" if code else "code and stack are not known"
    return [
        _bar("Flash", "--flash", flash, limits.get("flash"), unknown or library),
        _bar("RAM", "--ram", ram, limits.get("ram"), unknown or library),
    ]


def _bar(name: str, option: str, parts: list[tuple[str, int, str]], limit: int | None, note: str) -> Bar:
    own = [(what, size, kind) for what, size, kind in parts if size]
    whole = max(sum(size for _, size, _ in own), limit or 0, 1)
    return Bar(name, option, tuple(Part(w, s, k, s / whole) for w, s, k in own), limit, note)
