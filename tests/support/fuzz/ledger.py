"""What was tried and what came of it, kept so that the next run goes on from there."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Ledger:
    """``next``: for each attack, its next seed; ``counts``: outcomes by kind."""

    path: Path
    next: dict[str, int] = field(default_factory=dict)
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Ledger:
        if not path.is_file():
            return cls(path)
        found = json.loads(path.read_text())
        counts = {name: Counter(c) for name, c in found["counts"].items()}
        return cls(path, found["next"], counts, found["seconds"])

    def seed(self, attack: str, first: int) -> int:
        return self.next.setdefault(attack, first)

    def note(self, attack: str, kind: str, seconds: float) -> None:
        self.next[attack] += 1
        self.counts.setdefault(attack, Counter())[kind] += 1
        self.seconds[attack] = self.seconds.get(attack, 0.0) + seconds

    def write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        whole = {
            "next": self.next,
            "counts": {name: dict(sorted(c.items())) for name, c in sorted(self.counts.items())},
            "seconds": {name: round(s) for name, s in sorted(self.seconds.items())},
        }
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(whole, indent=1) + "\n")
        new.replace(self.path)
