"""Drawn networks of a profile, one seed after the other: drawn, judged, compiled, run; a failure is made smaller."""

from __future__ import annotations

from pathlib import Path

from tests.support.compose.definite import Refused
from tests.support.fuzz import kept, tooled
from tests.support.fuzz.attempt import FAULTS, Verdict, agreed, attempt, expectations, rounds_halves, rounds_sums
from tests.support.fuzz.family import Family
from tests.support.fuzz.guarded import Outcome, Work, outcomes
from tests.support.fuzz.isolated import Say
from tests.support.fuzz.profiles import PROFILES, family
from tests.support.fuzz.setting import QUICK, Setting, extents_of, setting_of, two_of
from tests.support.fuzz.shrink import shrunk

MANY = 64
"""Draws of noise, where a network that rounds sums of what is rounded, or to f16, seems to be wrong."""

NAMES = (*PROFILES, tooled.NAME)
"""What draws networks: each profile, and what tools make of such."""

SECONDS = 240
"""What one network may take from its drawing to its verdict; on a busy machine most take 3."""


def drawn(seed: int, profile: str, name: str) -> tuple[Family, bool]:
    """The network of a seed, with extents by ``name``, and whether it is for wide vectors."""
    if profile == tooled.NAME:
        return tooled.tooled(seed)
    return family(seed, profile, extents_of(name), two_of(name)), PROFILES[profile].wide


def network_of(seed: int, profile: str, emulated: bool = False) -> tuple[Family, Setting]:
    name = f"{profile} {seed}"
    net, wide = drawn(seed, profile, name)
    return net, setting_of(name, net, emulated, wide)


def attack(seed: int, profile: str, emulated: bool = False) -> Work:
    """The network of a seed: drawn, judged, compiled, run."""

    def work(say: Say, folder: Path) -> Outcome:
        try:
            net, setting = network_of(seed, profile, emulated)
            expected = expectations(net, setting, seed)
        except Refused as e:
            return "none", str(e)[:200]
        say(setting.label)
        verdict = attempt(net, setting, expected, folder, alone=True)
        if verdict.kind == "wrong" and (rounds_sums(net) or rounds_halves(net)):  # few draws find few of the ties
            expected = expectations(net, setting, seed, MANY)
            verdict = attempt(net, setting, expected, folder / "again", alone=True)
        return verdict.kind, f"{setting.label}\n{verdict.text}" if verdict.kind != "ok" else verdict.text

    return work


def confirmed(seed: int, profile: str, emulated: bool, kind: str, text: str) -> Outcome:
    """What the sanitizers say of a network that ended the process of its seed, if a quick compiler built it."""
    if kind != "crash":
        return kind, text
    net, setting = network_of(seed, profile, emulated)
    if setting.compiler != QUICK:
        return kind, text
    verdict = agreed(Verdict(kind, text), verdict_of(net, setting.surely, seed))
    return verdict.kind, verdict.text


def verdict_of(net: Family, setting: Setting, seed: int) -> Verdict:
    """In a process of its own."""

    def work(say: Say, folder: Path) -> Outcome:
        expected = expectations(net, setting, seed)
        say("judged")
        verdict = attempt(net, setting, expected, folder, alone=True)
        return verdict.kind, verdict.text

    return Verdict(*next(outcomes([work], SECONDS)))


def keep(seed: int, profile: str, emulated: bool, kind: str, folder: Path, most: int = 60) -> str:
    """Make a failure smaller and write it into ``folder``; what a reader wants to know of it."""
    net, setting = network_of(seed, profile, emulated)
    net, setting = shrunk(net, setting, lambda n, s: verdict_of(n, s, seed).kind == kind, most)
    verdict = verdict_of(net, setting, seed)
    text = f"{profile} {seed}: {verdict.kind}\n{setting.label}\n{net.text()}\n\n{verdict.text}"
    kept.write(folder, net, setting, f"{profile} {seed}: {verdict.kind}", text)
    return text


__all__ = ["FAULTS", "attack", "confirmed", "keep", "network_of", "verdict_of"]
