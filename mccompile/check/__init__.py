"""Builds generated C with the system's compiler, runs it, and compares it with a reference.

`mccompile.check(model)` calls `mccompile.api.functions.check`.
"""

from mccompile._callable import make_callable

make_callable(__name__)
