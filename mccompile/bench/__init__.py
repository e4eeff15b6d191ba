"""Measures compiled networks on this machine: whole, layer by layer, and against its peak.

`mccompile.bench(model)` calls `mccompile.api.functions.bench`.
"""

from mccompile._callable import make_callable

make_callable(__name__)
