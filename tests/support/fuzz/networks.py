"""Drawn networks of a profile, one seed after the other: drawn, judged, compiled, run; a failure is made smaller."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.support.compose.network import Refused
from tests.support.fuzz import kept
from tests.support.fuzz.attempt import FAULTS, Verdict, attempt, expectations
from tests.support.fuzz.family import Family
from tests.support.fuzz.isolated import isolated
from tests.support.fuzz.profiles import family
from tests.support.fuzz.setting import Setting, extents_of, setting_of
from tests.support.fuzz.shrink import shrunk

SECONDS = 240
"""What one network may take from its drawing to its verdict; on a busy machine most take 3."""

MOST_MIB = 4096

Outcome = tuple[str, str]
"""A kind, ``drawn`` for what came to no network that can be judged, and a text."""


def network_of(seed: int, profile: str, emulated: bool = False) -> tuple[Family, Setting]:
    name = f"{profile} {seed}"
    net = family(seed, profile, extents_of(name))
    return net, setting_of(name, net, emulated)


def tried(seed: int, profile: str, emulated: bool = False) -> Outcome:
    """The outcome of a seed in a process of its own."""

    def call(say: Callable[[str], None]) -> list[str]:
        try:
            net, setting = network_of(seed, profile, emulated)
            expected = expectations(net, setting, seed)
        except Refused as e:
            return ["none", str(e)[:200]]
        say(setting.label)
        verdict = attempt(net, setting, expected)
        return [verdict.kind, f"{setting.label}\n{verdict.text}" if verdict.kind != "ok" else ""]

    ended = isolated(call, SECONDS)
    if ended.answer is None and not ended.last:  # onnxruntime aborts, or the shaken network has other shapes
        return "none", ended.by
    if ended.answer is None:
        return ("slow" if ended.by == "SIGALRM" else "crash"), f"{ended.last}\n{ended.by}"
    if ended.mib > MOST_MIB:
        return "memory", f"{ended.last}\n{ended.mib} MiB"
    kind, text = ended.answer
    return kind, text


def verdict_of(net: Family, setting: Setting, seed: int) -> Verdict:
    """In a process of its own."""

    def call(say: Callable[[str], None]) -> list[str]:
        expected = expectations(net, setting, seed)
        say("judged")
        verdict = attempt(net, setting, expected)
        return [verdict.kind, verdict.text]

    ended = isolated(call, SECONDS)
    if ended.answer is not None:
        return Verdict(*ended.answer)
    return Verdict("crash" if ended.last else "none", ended.by)


def keep(seed: int, profile: str, kind: str, folder: Path, emulated: bool = False, most: int = 60) -> str:
    """Make a failure smaller and write it into ``folder``; what a reader wants to know of it."""
    net, setting = network_of(seed, profile, emulated)
    net, setting = shrunk(net, setting, lambda n, s: verdict_of(n, s, seed).kind == kind, most)
    verdict = verdict_of(net, setting, seed)
    text = f"{profile} {seed}: {verdict.kind}\n{setting.label}\n{net.text()}\n\n{verdict.text}"
    kept.write(folder, net, setting, f"{profile} {seed}: {verdict.kind}", text)
    return text


__all__ = ["FAULTS", "keep", "network_of", "tried", "verdict_of"]
