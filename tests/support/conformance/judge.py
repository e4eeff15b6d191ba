"""What becomes of cases of the backend suite: compiled, many in one C file, run, compared by the suite's own rule.

    test_reshape_reordered_all_dims   as is: refused, shape must be a constant     with constants: ok
"""

from __future__ import annotations

import re
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from onnx.backend.test.runner import Runner

from mccompile import backend
from mccompile.driver import Options, compile_program, import_graph
from mccompile.ir.dims import varies
from mccompile.ir.errors import CompileError
from mccompile.onnxio.proto import value_from_proto
from mccompile.ops.sampling import Case
from mccompile.run.memory import guarded_bytes
from mccompile.run.values import gather, spread, stored
from mccompile.targets.target import resolve, strict_warnings
from tests.support.children import in_children
from tests.support.compose.run import Setting
from tests.support.conformance.cases import SuiteCase
from tests.support.opcases import Built, CaseLibrary
from tests.support.sanitized import UNWRITTEN, is_sanitized, native_tools, sanitized_network

SECONDS = 300
"""What one case may run."""

ENDED = "the program ended:"

MOST_FIXED = 8
"""Inputs of a case that may be made constants, one after the other."""

KINDS = OK, CONSTANTS, REFUSED, WRONG, BROKEN = "as is", "with constants", "refused", "wrong", "broken"
"""What becomes of a case, the best first."""


@dataclass(frozen=True)
class Verdict:
    """What became of a case.

    Attributes:
        kind: OK; CONSTANTS: right once ``fixed`` inputs are constants; REFUSED; WRONG; or BROKEN: a traceback, C that
            does not compile, a crash.
        why: the reason of a refusal, also of the model as it is where it is right with constants; what is wrong.
        fixed: inputs that were made constants because an error asked for it.
    """

    name: str
    kind: str
    why: str = ""
    fixed: tuple[str, ...] = ()


@dataclass
class _Attempt:
    """A case and one of its data sets on the way: ``fixed`` as `Verdict.fixed`, ``asked`` why they had to be."""

    case: SuiteCase
    inputs: list[Any]
    outputs: list[Any]
    names: list[str]
    fixed: dict[str, Any] = field(default_factory=dict)
    asked: str = ""
    built: Built | None = None

    def verdict(self, kind: str, why: str = "") -> Verdict:
        if kind == OK and self.fixed:
            return Verdict(self.case.name, CONSTANTS, self.asked, tuple(self.fixed))
        return Verdict(self.case.name, kind, why or self.asked, tuple(self.fixed))


def examine(cases: Sequence[SuiteCase], setting: Setting) -> list[Verdict]:
    """What becomes of each case: each compiled, all built by one call of the C compiler, each run."""
    found: dict[str, Verdict] = {}
    with tempfile.TemporaryDirectory(prefix="mccompile-suite-") as name:
        attempts = []
        for case in cases:
            for attempt in _attempts(case):
                try:
                    _compile(attempt, setting, Path(name), f"case{len(attempts)}")
                    attempts.append(attempt)
                except CompileError as e:
                    found[case.name] = attempt.verdict(REFUSED, str(e))
                except Exception:
                    found[case.name] = attempt.verdict(BROKEN, traceback.format_exc(limit=-3))
        for attempt, verdict in zip(attempts, _built_and_run(attempts, setting, Path(name)), strict=True):
            before = found.get(case_name := attempt.case.name)
            found[case_name] = verdict if before is None or before.kind in (OK, CONSTANTS) else before
    return [found[case.name] for case in cases]


def worse(verdicts: Sequence[Verdict], known: Mapping[str, str]) -> list[Verdict]:
    """The verdicts that are worse than the kind that is known of their case; a case that is not listed was right as
    it is. Better is fine: what is known is written anew then.

        known {'test_dft_inverse': 'wrong'}: test_dft_inverse wrong, test_relu as is    -> []
                                             test_dft_inverse broken, test_relu refused -> both
    """
    return [v for v in verdicts if KINDS.index(v.kind) > KINDS.index(known.get(v.name, OK))]


def _attempts(case: SuiteCase) -> list[_Attempt]:
    """One for each data set of a case."""
    known = {i.name for i in case.model.graph.initializer}
    names = [v.name for v in case.model.graph.input if v.name not in known]
    return [_Attempt(case, inputs, outputs, names) for inputs, outputs in case.data]


def _compile(a: _Attempt, setting: Setting, folder: Path, name: str) -> None:
    """Compile a case as it is, and with those inputs as constants that errors ask for. Raises the last error."""
    path = folder / f"{name}.onnx"
    path.write_bytes(a.case.model.SerializeToString())
    given = spread(a.names, a.inputs)
    missing = _absent(a)
    options = Options(target=setting.target, name=name, input_shapes=_open_shapes(a, given))
    while True:
        try:
            left = {k: v for k, v in options.input_shapes.items() if k not in a.fixed}
            c = import_graph(path, replace(options, constants={**missing, **a.fixed}, input_shapes=left))
            a.built = Built(0, Case([]), [], c, compile_program(c))
            return
        except CompileError as e:
            wanted = [n for n in _asked_for(str(e), list(given)) if n not in a.fixed]
            if not wanted or len(a.fixed) + len(wanted) > MOST_FIXED:
                raise
            a.asked = a.asked or str(e)
            a.fixed = {**a.fixed, **{n: given[n] for n in wanted}}


def _open_shapes(a: _Attempt, given: Mapping[str, Any]) -> dict[str, Sequence[int]]:
    """The shapes of inputs whose extents the model leaves open, and of the tensors of sequences."""
    known = {v.name: v.type for v in a.case.model.graph.input}
    shapes = {}
    for name, array in given.items():
        kind = known.get(name)
        fixed = kind is not None and kind.WhichOneof("value") == "tensor_type" and kind.tensor_type.HasField("shape")
        if not fixed or any(not d.HasField("dim_value") for d in kind.tensor_type.shape.dim):
            shapes[name] = array.shape
    return shapes


def _absent(a: _Attempt) -> dict[str, None]:
    """The optional inputs that a case does not give, a part of its shapes."""
    kinds = {v.name: v.type.WhichOneof("value") for v in a.case.model.graph.input}
    pairs = zip(a.names, a.inputs, strict=True)
    return {name: None for name, value in pairs if value is None and kinds[name] == "optional_type"}


def _asked_for(message: str, inputs: Sequence[str]) -> list[str]:
    """The inputs that an error says must be constants: those it names, or behind an inner value all small ones."""
    found = re.findall(r"--constant (\S+)=VALUE", message)
    for name in re.findall(r"%(\S+) is computed at run time", message):
        found.append(name)
    return [name for name in dict.fromkeys(found) if name in inputs]


def _built_and_run(attempts: list[_Attempt], setting: Setting, folder: Path) -> list[Verdict]:
    if not attempts:
        return []
    sanitized = is_sanitized(setting.flags)  # gcc warns of conversions in what it puts in itself
    warnings = () if sanitized else strict_warnings(setting.compiler)
    flags = [*resolve(setting.target).c_flags, *setting.flags, *warnings]
    folder = Path(tempfile.mkdtemp(dir=folder))  # a path of its own: a loaded library is known by its path
    built = [a.built for a in attempts if a.built is not None]
    tools = native_tools(setting.compiler) if sanitized else None
    library = CaseLibrary(folder, built, flags, (setting.compiler,), tools, guarded_bytes)
    try:
        library.build()
    except CompileError as e:
        if len(attempts) == 1:
            return [attempts[0].verdict(BROKEN, str(e))]
        half = len(attempts) // 2
        parts = attempts[:half], attempts[half:]
        return [v for part in parts for v in _built_and_run(part, setting, folder)]
    answers = in_children([partial(_fault, library, a, setting) for a in attempts], SECONDS)
    return [
        a.verdict(BROKEN if ended or what.startswith(ENDED) else WRONG if what else OK, what)
        for a, (what, ended) in zip(attempts, answers, strict=True)
    ]


def _fault(library: CaseLibrary, a: _Attempt, setting: Setting) -> str:
    """Empty if a case's outputs are those expected by the rule of the official runner, else what differs, or what
    ended its program."""
    assert a.built is not None
    with np.errstate(all="ignore"):
        try:
            counted = any(varies(v.shape) for v in a.built.compilation.graph.outputs)
            got = _by_backend(a, setting) if counted else _run(library, a)
        except CompileError as e:
            if library.tools is not None:
                library.again()
            return f"{ENDED} {e}"
        try:
            assert len(got) == len(a.outputs), f"{len(got)} outputs instead of {len(a.outputs)}"
            for mine, wanted in zip(got, a.outputs, strict=True):
                # The rule takes the tensors of a sequence for sequences themselves, which have no shape and type.
                items = (mine, wanted) if isinstance(wanted, list) else ([mine], [wanted])
                Runner.assert_similar_outputs(items[1], items[0], a.case.rtol, a.case.atol)
        except AssertionError as e:
            return " ".join(str(e).split())[:300]
    return ""


def _run(library: CaseLibrary, a: _Attempt) -> list[Any]:
    """The outputs of a case of the library."""
    assert a.built is not None
    given = spread(a.names, a.inputs)
    arrays = library.run(a.built, {k: stored(v) for k, v in given.items() if k not in a.fixed}, UNWRITTEN)
    named = dict(zip([p.name for p in a.built.facts.outputs], arrays, strict=True))
    return gather([value_from_proto(v) for v in a.case.model.graph.output], named)


def _by_backend(a: _Attempt, setting: Setting) -> list[Any]:
    """The outputs of a case whose extents are known only when it has run: a library has room for the largest."""
    assert a.built is not None
    options = a.built.compilation.options
    flags, compiler = setting.flags, setting.compiler
    network = partial(sanitized_network, flags=flags, compiler=compiler) if is_sanitized(flags) else backend.Network
    with mock.patch.object(backend, "Network", network):
        rep = backend.prepare(
            a.case.model, target=options.target, constants=a.fixed, input_shapes=options.input_shapes
        )
        return list(rep.run([v for n, v in zip(a.names, a.inputs, strict=True) if n not in a.fixed]))
