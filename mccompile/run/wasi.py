"""`python -m mccompile.run.wasi PROGRAM`: a WebAssembly program on this process's input and output.

The run-time is the package wasmtime, which brings no command of its own.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

FOUND = find_spec("wasmtime") is not None
COMMAND = (sys.executable, "-m", "mccompile.run.wasi")


def run(program: Path) -> int:
    """Run a program to its end: its exit status."""
    import wasmtime

    engine = wasmtime.Engine()
    store, linker = wasmtime.Store(engine), wasmtime.Linker(engine)
    linker.define_wasi()
    config = wasmtime.WasiConfig()
    config.inherit_stdin()
    config.inherit_stdout()
    config.inherit_stderr()
    store.set_wasi(config)
    instance = linker.instantiate(store, wasmtime.Module.from_file(engine, str(program)))
    start = instance.exports(store)["_start"]
    assert isinstance(start, wasmtime.Func)
    try:
        start(store)
    except wasmtime.ExitTrap as end:
        return int(end.code)
    return 0


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1])))
