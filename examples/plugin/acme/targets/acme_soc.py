"""Our own chip: a Cortex-M3 whose flash is slow to read data from."""

from __future__ import annotations

from dataclasses import replace

from mccompile.targets.cortex_m3 import TARGET as CORTEX_M3

TARGET = replace(
    CORTEX_M3,
    name="acme-soc",
    summary="Acme's chip: Cortex-M3, slow flash",
    flags=(*CORTEX_M3.flags, "-mslow-flash-data"),
)
