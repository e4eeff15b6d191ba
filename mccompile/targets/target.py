"""What a target is, and how a name (or the machine this runs on) becomes one."""

from __future__ import annotations

import difflib
import platform
import struct
from dataclasses import replace
from pathlib import Path

from mccompile._dataclass import dataclass
from mccompile.ir.errors import UsageError
from mccompile.plugins import modules, registry
from mccompile.targets.machine import SCALAR, Capability, Machine

POINTER_BYTES = struct.calcsize("P")
"""Of this process, which a network is loaded into."""
NARROWER = {"aarch64": "armv8l", "arm64": "armv8l", "x86_64": "i686", "AMD64": "x86", "riscv64": "riscv32"}
"""What machines are to processes of 32 bits, as kernels of 32 bits call them."""
STRICT_WARNINGS = (
    "-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wdouble-promotion -Wshadow -Wvla -Wundef "
    "-Wcast-qual -Wcast-align=strict -Wstrict-prototypes -Wmissing-prototypes -Werror"
).split()
"""The warnings generated C is clean under, with gcc; `strict_warnings` gives those of other compilers."""


@dataclass(frozen=True)
class Target:
    """An instruction set as the kernels see it, and where its programs run.

    Attributes:
        machine: the core that its kernels are made for.
        capabilities: what its instructions can do that others cannot.
        broadcasts: registers that a tile needs for the scalars its rows are multiplied by; 0: one for each row.
        denormals: vectors keep numbers below 2^-126; False: they are zero.
        align: what arena and blob are aligned to, in bytes.
        flags: C flags that the generated code must be compiled with, beside ``-std=c99``.
        requires: preprocessor macros that must be defined, or the generated file refuses to compile.
        isa: which `_lib/vector_<isa>.c.j2` has primitives in the words of the instruction set; "" if none has.
        machines: what ``platform.machine()`` says where its programs may run; none: everywhere.
        features: words that /proc/cpuinfo must have there.
        triple: where they do not run, ``<triple>-gcc`` compiles for it ("": nothing does),
        clang: or, where gcc 12 does not make its vectors, clang from this release on, told the triple; 0: gcc does.
        link: flags of a program that is to be run so,
        emulator: this command runs what it compiled,
        packages: and these packages of Debian and Ubuntu have both.
        hosted: programs run under an operating system; False: they are all that runs on a microcontroller.
        board: the board of `run/` that an emulator has with such a core, for programs that are not hosted.
        compact: code is to be small (the level is Os): no target says so of itself.
        unshared: code is written out for each call, however alike they are (the level is O3): no target says so.
        spare_memory: there is plenty of memory; Winograd, halos, copies and code that is written out may spend it.
        requant: how sums of products become 8 bits again: in "float", or "fixed" point, where floats are slower; no
            target says "tflite" of itself.
        integer: the arithmetic of integer products, by the instruction they are made of: "mla" one product at a time,
            "smlad" two of 16 bits, "mve" and "madd" a vector of them, "smlal" a vector of widening ones.
        prefers: the type that 8-bit values have inside a network, where the choice is ours: "i8" or "u8".
    """

    name: str
    summary: str
    machine: Machine = SCALAR
    capabilities: frozenset[Capability] = frozenset()
    broadcasts: int = 1
    denormals: bool = True
    align: int = 16
    flags: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    isa: str = ""
    machines: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    triple: str = ""
    clang: int = 0
    link: tuple[str, ...] = ("-static",)
    emulator: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    hosted: bool = True
    board: str = ""
    compact: bool = False
    unshared: bool = False
    spare_memory: bool = False
    requant: str = "float"
    integer: str = "mla"
    prefers: str = "i8"

    @property
    def lanes(self) -> int:
        """Floats in a vector register; 0 for scalar C."""
        return self.machine.lanes()

    @property
    def vector_bytes(self) -> int:
        return self.machine.vector_bytes

    @property
    def cached(self) -> bool:
        """Whether there is a cache between core and memory: then it matters which elements are neighbours."""
        return self.machine.l1 > 0

    def can(self, capability: str) -> bool:
        """Whether a template may use what the `Capability` of a name stands for."""
        return Capability[capability] in self.capabilities

    @property
    def fuses(self) -> bool:
        """Whether compilers may make one instruction of a product and a sum, which rounds once."""
        return bool(self.vector_bytes) and not self.machine.slow_fma

    @property
    def traps_are_unseen(self) -> bool:
        """Whether gcc is told that nothing watches the exceptions of floats, as clang assumes.

        Results are the same, but it makes vectors of no loop that compares or chooses floats before it is told:
        opentrack_localizer for ``generic`` takes 0.66 of the time, BlazeFace for AVX-512 0.91. On microcontrollers
        there are no such vectors, and code of floats in software gets up to 5 % longer.
        """
        return self.hosted and "-ftrapping-math" not in self.flags

    @property
    def c_flags(self) -> tuple[str, ...]:
        """All flags of a release build, without warnings."""
        contract = "-ffp-contract=fast" if self.fuses else "-ffp-contract=off"
        free = ("-fno-trapping-math",) if self.traps_are_unseen else ()
        return ("-std=c99", "-O3" if self.spare_memory else "-O2", contract, *free, *self.flags)

    @property
    def optimisation(self) -> str:
        """The level that builds are measured with; the generated code is right at any."""
        return next(flag for flag in self.c_flags if flag.startswith("-O"))

    @property
    def required_flags(self) -> tuple[str, ...]:
        """All but the level: language, rounding of products and sums, that nothing sees traps, instruction set."""
        return tuple(flag for flag in self.c_flags if flag != self.optimisation)


def rounding_as(target: Target, requant: str) -> Target:
    """The target with sums rounded as ``--requant`` says: "exact" its own way, "tflite" TensorFlow Lite's."""
    return target if requant == "exact" else replace(target, requant=requant)


def strict_warnings(compiler: str) -> list[str]:
    """`STRICT_WARNINGS` as a compiler spells them: a name with "clang" in it means clang, all others gcc.

    clang's plain -Wcast-align is gcc's strict one, which clang 14 does not know by that name.
    """
    if "clang" not in compiler:
        return list(STRICT_WARNINGS)
    return ["-Wcast-align" if flag == "-Wcast-align=strict" else flag for flag in STRICT_WARNINGS]


def at_level(target: Target, opt_level: str) -> Target:
    """The target as kernels are chosen for it at an optimisation level."""
    return replace(target, compact=opt_level == "Os", unshared=opt_level == "O3")


@registry
def targets() -> dict[str, Target]:
    """Every target by name."""
    found = {}
    for module in modules("targets"):
        target = getattr(module, "TARGET", None)
        if target is not None:
            found[target.name] = target
    return found


def resolve(name: str) -> Target:
    """The target of a name; ``native`` is the best one this machine runs. UsageError for unknown names."""
    if name == "native":
        return _native()
    if name not in targets():
        near = _near(name)
        meant = f"did you mean {' or '.join(near)}? " if near else ""
        known = f"known targets: native, {', '.join(sorted(targets()))}"
        raise UsageError(f"unknown target {name!r}", hint=f"{meant}{known}")
    return targets()[name]


def _near(name: str) -> list[str]:
    """Targets that are called so elsewhere, as arm64 and avx2 are, or are spelled nearly so."""
    word = name.lower()
    said = [t.name for t in targets().values() if word in (t.isa, *(m.lower() for m in t.machines))]
    said = said or [t.name for t in targets().values() if word in t.summary.lower()]
    return (said or difflib.get_close_matches(word, targets(), 3, cutoff=0.75))[:3]


def _native() -> Target:
    """The widest vectors that this machine surely has, and of equally wide ones those that ask for most features."""
    mine = [t for t in targets().values() if t.machines and runs_here(t.name)]
    return max(mine, key=lambda t: (t.vector_bytes, len(t.features)), default=targets()["generic"])


def runs_here(name: str) -> bool:
    """False where this machine lacks, or may lack, instructions of a target: they would end the process."""
    target = targets().get(name)
    if target is None or (target.hosted and not target.machines):
        return True
    return _machine() in target.machines and set(target.features) <= _features()


def _machine() -> str:
    """What this machine is to programs such as this one: a kernel of 64 bits runs those of 32 bits, too."""
    machine = platform.machine()
    return NARROWER.get(machine, machine) if POINTER_BYTES == 4 else machine


def _features() -> set[str]:
    cpuinfo, vector = Path("/proc/cpuinfo"), Path("/proc/sys/abi/sve_default_vector_length")
    found = words_of(cpuinfo.read_text()) if cpuinfo.exists() else set()
    return found | ({f"sve{8 * int(vector.read_text())}"} if vector.exists() else set())


def words_of(cpuinfo: str) -> set[str]:
    """The words of /proc/cpuinfo; RISC-V has its extensions in one: letters, and longer names behind these. What a
    64-bit kernel for Arm calls asimd is to 32-bit programs NEON with VFPv4.

    >>> sorted(words_of("isa : rv64imv_zicsr_zvl256b") - {":", "isa"})
    ['i', 'm', 'rv64imv_zicsr_zvl256b', 'v', 'zicsr', 'zvl256b']
    """
    words = set(cpuinfo.split())
    words |= {"neon", "vfpv4"} if "asimd" in words else set()
    for isa in [w for w in words if w.startswith("rv64")]:
        letters, *longer = isa.removeprefix("rv64").split("_")
        words |= {*letters, *longer}
    return words
