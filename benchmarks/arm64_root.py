"""onnxruntime for 64-bit Arm on a machine that is none: Debian's Python and wheels of PyPI, unpacked into a folder.

    build/arm64/root/usr/bin/python3.11      of Debian's packages for arm64, by an apt with folders of its own
    build/arm64/root/proc/cpuinfo            of the core that is emulated: onnxruntime asks which it is, and would
                                             find that of the machine (and end with a signal: it reads x86 as Arm)
    build/arm64/site/onnxruntime             of the wheel for Arm, of the release installed here

Nothing is installed: dpkg does not know of these packages, and the system's apt not of the folders. QEMU's emulator
of programs (qemu-user) is told the root by -L: paths that are there are taken from there.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

PYTHON = "3.11"
PACKAGES = (f"python{PYTHON}-minimal", f"libpython{PYTHON}-stdlib", "libstdc++6")
PLATFORMS = ("manylinux_2_28_aarch64", "manylinux_2_27_aarch64", "manylinux2014_aarch64", "manylinux_2_17_aarch64")

APT = """APT::Architecture "arm64";
APT::Architectures {{ "arm64"; }};
Dir::State "{at}/state";
Dir::State::status "{at}/status";
Dir::Cache "{at}/cache";
"""

CPUINFO = """processor\t: 0
BogoMIPS\t: 50.00
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 cpuid
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x0
CPU part\t: 0xd03
CPU revision\t: 4

"""
"""A Cortex-A53, as Linux tells of it."""


def python(at: Path) -> list[str]:
    """The command of a Python for Arm that has onnxruntime, behind the arguments of the emulator; made in the folder
    ``at`` when it is first asked for. CalledProcessError if packages cannot be had."""
    root, site = at / "root", at / "site"
    if not (site / "onnxruntime").is_dir():
        _unpack_debian(at, root)
        _unpack_wheels(at, site)
    return ["-L", str(root), "-E", f"PYTHONPATH={site}", str(root / "usr" / "bin" / f"python{PYTHON}")]


def _unpack_debian(at: Path, root: Path) -> None:
    for folder in ("state/lists/partial", "cache/archives/partial", "root/proc", "root/sys/devices/system/cpu"):
        (at / folder).mkdir(parents=True, exist_ok=True)
    (at / "status").touch()
    (at / "apt.conf").write_text(APT.format(at=at))
    environment = {**os.environ, "APT_CONFIG": str(at / "apt.conf")}
    wanted = ["install", "-y", "--download-only", "--no-install-recommends", *PACKAGES]
    for arguments in (["update"], wanted):
        subprocess.run(["apt-get", "-qq", *arguments], check=True, env=environment, stdout=subprocess.DEVNULL)
    for package in sorted((at / "cache" / "archives").glob("*.deb")):
        subprocess.run(["dpkg", "-x", str(package), str(root)], check=True)
    (root / "proc" / "cpuinfo").write_text(CPUINFO)
    for name in ("possible", "present", "online"):
        (root / "sys" / "devices" / "system" / "cpu" / name).write_text("0\n")


def _unpack_wheels(at: Path, site: Path) -> None:
    wheels = at / "wheels"
    wanted = [f"onnxruntime=={version('onnxruntime')}", "numpy", "packaging", "flatbuffers", "protobuf"]
    platforms = [word for name in PLATFORMS for word in ("--platform", name)]
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    told = ["--no-deps", "--only-binary=:all:", *platforms, "--python-version", PYTHON, "--dest", str(wheels)]
    subprocess.run([*pip, "download", *told, *wanted], check=True)
    for wheel in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
