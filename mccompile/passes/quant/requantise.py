"""Scales sums of integers to 8 bits by one multiplication: of floats, or of integers where the target asks for it.

Worked example: a convolution's epilogue that scales by 0.004, clips, divides by 0.5 and adds the zero point 3::

    post0{ u8((rne((relu((f32(acc) * 0.004)) / 0.5)) + 3.0)) }
    post0{ u8(max((rne((f32(acc) * 0.008)) + 3.0), 3.0)) }                                      floats
    post0{ sat_u8(max(asr((mulhi(acc, i32(1099511628)) + i32(56)), i32(4)), i32(3))) }        integers

`analysis/fixed_point.py` finds the integers and proves that every sum the weights allow is rounded right. There, what
depends on one byte is a table of 256, and what depends on two is tried on all 65,536 pairs; one of which may be a
constant of many elements. What can be none of these stays as it is, and a remark says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.ranges import Range, anything, held, of_expression
from mccompile.ir.scalar import Array, uniform
from mccompile.ir.types import BOOL, F32, I32, DType, broadcast_shapes
from mccompile.kernels.model.lanes import lookup_pays
from mccompile.passes.analysis.byte_pairs import (
    ATOM,
    BYTES,
    cut_off,
    is_of_elements,
    right,
    sum_in_floats,
    sum_in_integers,
    with_atoms,
)
from mccompile.passes.analysis.byte_tables import every, simplest
from mccompile.passes.analysis.fixed_point import EVERY, Channels, Fixed, Steps, fit, parts
from mccompile.passes.analysis.forms import Form, form_of
from mccompile.passes.analysis.sums import beside, sum_range, terms
from mccompile.passes.analysis.tflite import Reach, of_pair, of_sum, output_of
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.rewriter import Rewriter
from mccompile.targets.target import Target

ROUNDS = True
"""The other side of a tie may be taken."""

_SUM = 2000
"""The variable that stands for the sum of integers."""

_TABLES = 4
"""Tables, at most, of a byte whose channels differ: an image has so many."""
_MOST_CHANNELS = 2**16
"""Channels, at most, whose steps are tried, in 40 us and 4 KB each: of a tensor, each element is one."""


def run(graph: Graph, remarks: Remarks, target: Target) -> int:
    """Scale sums of integers to 8 bits by one multiplication, proven to round alike. Changes sides of ties."""
    r = Rewriter(graph)
    changes = 0
    for node in r.nodes():
        body = node.op.elementwise if not node.post else node.post.get(0)
        if body is None or len(node.results) != 1 or (node.pre and node.op.elementwise is not None):
            continue
        work = _Work(graph, node, remarks, target)
        proven = work.rewritten(body)
        if proven != body and _spans(node, proven, work):
            _store(r, node, proven, work)
            changes += 1
    r.finish()
    return changes


def _spans(node: Node, body: ex.Expr, work: _Work) -> bool:
    """Whether the operands that a body reads still make up the shape of a map's result: a byte that turned out to be
    one number for all is read no more."""
    if node.op.elementwise is None or node.post:
        return True
    shape: tuple[int, ...] = ()
    for i in ex.variables(body):
        shape = broadcast_shapes(shape, work.operands[i].shape)
    return shape == node.result.shape


def _store(r: Rewriter, node: Node, body: ex.Expr, work: _Work) -> None:
    """Give a node its new body, and the operands that this reads."""
    if node.op.elementwise is None or node.post:
        node.post = {0: body}
        r.give_extras(node, work.operands)
        return
    order = sorted(i for i in ex.variables(body) if i >= 0)
    whole = ex.substitute(body, lambda v: v if v.index < 0 else ex.var(order.index(v.index), v.dtype))
    node.op = node.op.with_elementwise(whole)
    r.rewire(node, [work.operands[i] for i in order])


@dataclass
class _Work:
    """The expression of one node on its way; ``operands`` are its variables, to which constants are added."""

    graph: Graph
    node: Node
    remarks: Remarks
    target: Target
    operands: list[Value] = field(init=False)
    done: dict[ex.Expr, ex.Expr] = field(default_factory=dict)

    def __post_init__(self) -> None:
        maps = self.node.op.elementwise is not None and not self.node.post
        self.operands = [v for v in self.node.operands if v is not None] if maps else list(self.node.extras)

    @property
    def fixed(self) -> bool:
        return self.target.requant != "float"

    @property
    def tflite(self) -> bool:
        return self.target.requant == "tflite"

    @property
    def what(self) -> str:
        return f"rounded {self.node.where} by {'integers' if self.fixed else 'one multiplication'}"

    def rewritten(self, e: ex.Expr) -> ex.Expr:
        """The expression with every rounding to 8 bits in it by integers, from the innermost on."""
        if e not in self.done:
            inner = ex.with_operands(e, self.rewritten)
            rounds = isinstance(inner, ex.Convert) and inner.dtype.name in BYTES and inner.operand.dtype.is_float
            self.done[e] = self._proven(inner) if rounds else inner
        return self.done[e]

    def _proven(self, e: ex.Expr) -> ex.Expr:
        """One rounding to 8 bits by integers; as it is where that cannot be."""
        atoms: dict[ex.Expr, ex.Var] = {}
        abstract = with_atoms(e, lambda i: self._constant(i) is not None, atoms)
        bytes_ = list(atoms)
        free = [i for i in ex.variables(abstract) if i < ATOM and self._constant(i) is None]
        single = bytes_[0] if len(bytes_) == 1 else self._common(e) if bytes_ and not free else None
        if single is not None and not free:
            function = ex.replaced(e, single, ex.Var(single.dtype, ATOM))
            if not self._per_channel(function):
                return self._table(function, single, e)
        alone = len(bytes_) == 1 and not free
        if alone and (known := self._constant_bytes(abstract)) is not None:
            bytes_.append(known)
            found = self._by_pairs(ex.replaced(abstract, known, ex.Var(known.dtype, ATOM + 1)), bytes_)
            if isinstance(found, str):
                found = self._by_sum(abstract)
        elif alone or (free == [ex.ACC] and not bytes_):
            found = self._by_sum(abstract)
        elif not self.fixed:
            found = self._by_pairs(abstract, bytes_) if len(bytes_) == 2 and not free else e
            if isinstance(found, str):
                return e  # in floats nothing is lost
        elif len(bytes_) == 2 and not free:
            found = self._by_pairs(abstract, bytes_)
        else:
            found = "it reads more than a sum or two bytes"
        if isinstance(found, str):
            self.remarks.miss(self.what, found)
            return e
        return ex.substitute(found, lambda v: bytes_[v.index - ATOM] if v.index >= ATOM else v)

    def _common(self, e: ex.Expr) -> ex.Expr | None:
        """The largest byte that all of an expression depends on through nothing else: of x * u8(erf(x)), x."""
        for byte in ex.distinct(e):
            if byte != e and byte.dtype.name in BYTES:
                rest = ex.replaced(e, byte, ex.num(0, byte.dtype))
                if rest != e and all(self._constant(i) is not None for i in ex.variables(rest)):
                    return byte
        return None

    # -- constants ---------------------------------------------------------------------------------------------
    def _constant(self, i: int) -> Array | None:
        """The elements of variable ``i`` along the channels, or one for all; None if they are computed."""
        if i < 0 or i >= ATOM:
            return None
        array = self.graph.constants.get(self.operands[i])
        if not isinstance(array, np.ndarray):
            return None
        return array.reshape(-1) if array.size > 1 else array.reshape(())

    def _constant_bytes(self, e: ex.Expr) -> ex.Var | None:
        """The operand of constant bytes that is the other of a pair, if nothing else of an expression has several
        elements."""
        varying = [i for i in ex.variables(e) if (a := self._constant(i)) is not None and a.size > 1]
        if len(varying) != 1:
            return None
        x = self.operands[varying[0]]
        return ex.var(varying[0], x.dtype) if is_of_elements(x.type, self.target) else None

    def _per_channel(self, e: ex.Expr) -> bool:
        return any((a := self._constant(i)) is not None and a.size > 1 for i in ex.variables(e) if i >= 0)

    def _channel_shape(self) -> tuple[int, ...] | str:
        """The shape of constants that vary along the channels, for all of them must have the same."""
        shapes = {
            v.shape for i in range(len(self.operands))
            if (v := self.operands[i]).type.count > 1 and v in self.graph.constants and self._is_read(i)
        }  # fmt: skip
        trimmed = {_trimmed(s) for s in shapes}
        if len(trimmed) > 1:
            return "its constants vary along several axes"
        return next(iter(trimmed), ())

    def _is_read(self, i: int) -> bool:
        body = self.node.op.elementwise if not self.node.post else self.node.post[0]
        return body is not None and i in ex.variables(body)

    def _operand(self, array: Array, shape: tuple[int, ...], name: str, dtype: DType = I32) -> ex.Expr:
        """Numbers of 32 bits as an expression: one number, or one more operand."""
        if uniform(array):
            return ex.num(array.reshape(-1)[0], dtype)
        elements = array.astype(dtype.numpy).reshape(shape)
        self.operands.append(self.graph.constant(f"{self.node.result.name}.{name}", elements))
        return ex.var(len(self.operands) - 1, dtype)

    # -- one sum -----------------------------------------------------------------------------------------------
    def _by_sum(self, e: ex.Expr) -> ex.Expr | str:
        assert isinstance(e, ex.Convert)
        shape = self._channel_shape()
        if isinstance(shape, str):
            return shape
        form = _whole(form_of(e.operand, self._constant))
        if isinstance(form, str):
            return form
        if len(form.terms) != 1:
            return f"it has {len(form.terms)} sums"
        ((given, scale),) = form.terms.items()
        if given.dtype != I32:
            return f"its sum is {given.dtype}"
        core = _inside(e, given)
        if core is None:
            return "its sum is a product of what is summed"
        reach, axis = sum_range(self.graph, self.node)
        channels = int(np.prod(shape)) if shape else 1
        (sums, *_) = self.node.own_types()
        reach = held(beside(reach, axis, shape, self.node.result.type.rank), sums.dtype)
        whole = of_expression(core, lambda i: reach if i == ex.ACC else self._range(i, e))
        count = max(whole.low.size, channels)
        low, high = (np.broadcast_to(end, count).astype(np.int64) for end in (whole.low, whole.high))
        steps = Steps(self._values(e, core), low, high, self._rounded_last(e.operand))
        if self.tflite and steps.cut_alike():
            found_ = self._as_tflite(e, core, Reach(low, high), steps.ends, shape)
            if not isinstance(found_, str):
                return found_
            self.remarks.miss(f"rounded {self.node.where} as TensorFlow Lite does", found_)
        if not self.fixed:
            return self._in_floats(e, core, form, steps, shape)
        if count > _MOST_CHANNELS:
            return f"it has {count:,} channels, and {_MOST_CHANNELS:,} at most are tried"
        found = fit(np.asarray(scale, np.float64), np.asarray(form.offset, np.float64), steps)
        if (isinstance(found, str) or found[1]) and (tables := self._by_tables(e, shape)) is not None:
            return tables
        if isinstance(found, str):
            return found
        fixed, differing = found
        total = int((high - low + 1).sum())
        self.remarks.hit(f"{self.what}: {differing} of {total} sums on the other side of a tie")
        return self._printed(fixed, ex.convert(core, I32), e.dtype, shape)

    def _as_tflite(
        self, e: ex.Convert, core: ex.Expr, reach: Reach, cut: tuple[int, int], shape: tuple[int, ...]
    ) -> ex.Expr | str:
        """One sum as TensorFlow Lite's kernel of its operator scales it."""
        out = output_of(e.operand, self._constant)
        if out is None or ex.ACC not in ex.variables(core) or not self.node.op.multilinear:
            return "it is no product, sum or mean that is quantised"
        form = _whole(form_of(out.inner, self._constant))
        if isinstance(form, str):
            return form
        count = 0 if len(self.node.op.multilinear) > 1 else terms(self.node)
        wide = ex.convert(core, I32)
        known = any(v in self.graph.constants for v in self.node.operands)
        found = of_sum(
            self.node, wide, out, form, reach, cut, count, known, lambda a, name: self._operand(a, shape, name)
        )
        return found if isinstance(found, str) else self._told(cut_off(found, *cut, e.dtype))

    def _told(self, e: ex.Expr) -> ex.Expr:
        self.remarks.hit(f"rounded {self.node.where} as TensorFlow Lite does")
        return e

    def _range(self, i: int, e: ex.Expr) -> Range:
        if i >= ATOM:
            return anything(next(v.dtype for v in ex.distinct(e) if isinstance(v, ex.Var) and v.index == i))
        array = self._constant(i)
        assert array is not None
        flat = array.reshape(-1).astype(np.float64)
        return Range(flat, flat)

    def _values(self, e: ex.Expr, core: ex.Expr) -> Callable[[Array, Channels], Array]:
        """The expression as a function of its sum, and of the channels of sums."""
        total = ex.Var(core.dtype, _SUM)
        body = ex.replaced(e, core, total)

        def value(a: Array, of: Channels) -> Array:
            def read(i: int) -> Array:
                if i == _SUM:
                    low, high = core.dtype.ends  # of bytes, what bytes reach
                    return np.asarray(np.minimum(np.maximum(a, low), high)).astype(core.dtype.numpy)
                known = self._constant(i)
                assert known is not None
                return known if known.size == 1 else known[of]

            return np.broadcast_to(ex.evaluate(body, read).astype(np.int64), a.shape)

        return value

    def _printed(self, g: Fixed, core: ex.Expr, dtype: DType, shape: tuple[int, ...]) -> ex.Expr:
        begun = self._begun(core, g.start, shape)
        raised = ex.apply("mul", begun, ex.num(2**g.up, I32)) if g.up else begun
        product = ex.apply("mulhi", raised, self._operand(g.m, shape, "multiplier"))
        total = ex.apply("add", product, self._operand(g.c, shape, "offset"))
        return cut_off(ex.apply("asr", total, ex.num(g.s, I32)), g.low, g.high, dtype)

    def _in_floats(self, e: ex.Convert, core: ex.Expr, form: Form, f: Steps, shape: tuple[int, ...]) -> ex.Expr | str:
        """One product, rounded and cut off: what engines make of scales that are merged at compile time."""
        if e.operand.dtype != F32 or not f.ties:
            return "it is not rounded to a whole number in f32"
        (scale,) = form.terms.values()
        most = float(np.finfo(np.float32).max)
        if not ((np.asarray(scale) > 0).all() and (np.asarray(scale) <= most).all()):
            return "a scale is no positive number of 32 bits"
        if not (np.abs(form.offset) <= most).all():
            return "what is added is no number of 32 bits"
        info = np.iinfo(e.dtype.numpy.name)
        zero = np.rint(form.offset)
        if not uniform(zero):  # beside one far beyond the type, the others would keep few bits behind the point
            zero = np.rint(_median(np.minimum(np.maximum(zero, info.min - 256), info.max + 256)))
        product = ex.apply("mul", ex.convert(core, F32), self._operand(np.asarray(scale), shape, "factor", F32))
        rest = np.asarray(form.offset - zero)
        if rest.any():
            product = ex.apply("add", product, self._operand(rest, shape, "rest", F32))
        rounded: ex.Expr = ex.apply("rne", product)
        if zero.any():
            rounded = ex.apply("add", rounded, ex.num(zero.reshape(-1)[0], F32))
        low, high = f.channel_ends
        falls, rises = (np.rint(scale * end + form.offset) for end in (f.low, f.high))
        if not (low > np.maximum(falls, info.min)).any():  # channels end apart where their bytes do
            low = low.min(keepdims=True)
        if not (high < np.minimum(rises, info.max)).any():
            high = high.max(keepdims=True)
        if (low > info.min).any():
            rounded = ex.apply("max", rounded, self._operand(low, shape, "least", F32))
        if (high < info.max).any():
            rounded = ex.apply("min", rounded, self._operand(high, shape, "most", F32))
        return ex.convert(rounded, e.dtype)

    def _rounded_last(self, e: ex.Expr) -> bool:
        """Whether floats are rounded once, with nothing but whole numbers and what they are cut off at behind it. A
        conversion alone, as of pixels that are clipped to 0..255, drops what is behind the point."""
        match e:
            case ex.Apply(fn="rne"):
                return True
            case ex.Apply(fn="relu", operands=(a,)):
                return self._rounded_last(a)
            case ex.Apply(fn="add" | "sub" | "max" | "min" as fn, operands=(a, b)):
                whole = fn in ("max", "min") or any(map(self._is_whole, (a, b)))
                return whole and any(self._rounded_last(x) and self._is_known(y) for x, y in ((a, b), (b, a)))
        return False

    def _is_known(self, e: ex.Expr) -> bool:
        return all(self._constant(i) is not None for i in ex.variables(e))

    def _is_whole(self, e: ex.Expr) -> bool:
        if not self._is_known(e):
            return False
        numbers = ex.evaluate(e, lambda i: np.asarray(self._constant(i)))
        return bool((numbers == np.rint(numbers)).all())

    def _begun(self, core: ex.Expr, start: Array, shape: tuple[int, ...]) -> ex.Expr:
        """A sum with more to begin with: one operand with what it begins with already."""
        if not start.any():
            return core
        match core:
            case ex.Apply(fn="add", operands=(ex.Var(index=ex.ACC) as sum_, ex.Var(index=i))) if (
                own := self._constant(i)
            ) is not None:
                return ex.apply("add", sum_, self._operand(own.astype(np.int64) + start, shape, "start"))
        return ex.apply("add", core, self._operand(start, shape, "start"))

    # -- bytes -------------------------------------------------------------------------------------------------
    def _table(self, e: ex.Expr, byte: ex.Expr, old: ex.Expr) -> ex.Expr:
        """A function of one byte: itself, cut off, or a table, where floats are cheap of what takes longer."""
        elements = np.broadcast_to(self._of_bytes(e, every(byte)), (256,))
        found = simplest(byte, elements)
        table = isinstance(found, ex.Lookup) and found != byte
        if table and not self.fixed and not lookup_pays(old, byte, self.target):
            return old
        self.remarks.hit(f"made a function of a byte in {self.node.where} a table")
        return found

    def _of_bytes(self, e: ex.Expr, numbers: Array, of: Channels = EVERY) -> Array:
        """The elements that an expression of one byte makes of numbers, of some of the channels."""

        def read(i: int) -> Array:
            known = numbers if i >= ATOM else np.asarray(self._constant(i))
            return known if i >= ATOM or known.size == 1 else known[of]

        return ex.evaluate(e, read).astype(e.dtype.numpy)

    def _by_tables(self, e: ex.Expr, shape: tuple[int, ...]) -> ex.Expr | None:
        """A function of one byte with a table for each of a few channels, which is the expression on ties, too: of a
        mean of 127.5, all numbers are on ties. None of a sum, and of more channels."""
        atom = next((v for v in ex.distinct(e) if isinstance(v, ex.Var) and v.index >= ATOM), None)
        if atom is None:
            return None
        found_: list[Array] = []
        for of in parts(max(int(np.prod(shape)), 1)):
            found_.append(self._of_bytes(e, every(atom)[:, None], of))  # [256, channels]
            if np.unique(found_[-1], axis=1).shape[1] > _TABLES:
                return None
        tables, which = np.unique(np.concatenate(found_, axis=1), axis=1, return_inverse=True)
        if tables.shape[1] > _TABLES:
            return None
        found = simplest(atom, tables[:, 0])
        for i in range(1, tables.shape[1]):
            chosen = self._operand(which.reshape(-1) == i, shape, f"channels{i}", BOOL)
            found = ex.apply("select", chosen, simplest(atom, tables[:, i]), found)
        self.remarks.hit(f"made a function of a byte in {self.node.where} a table for each channel")
        return found

    def _by_pairs(self, e: ex.Expr, bytes_: list[ex.Expr]) -> ex.Expr | str:
        assert isinstance(e, ex.Convert)
        if len(bytes_) != 2:
            return f"it reads {len(bytes_)} bytes"
        if self._per_channel(e):
            return "a scale of its bytes varies"
        form = form_of(e.operand, self._constant)
        if isinstance(form, str):
            return form
        wide = next((core.dtype for core in form.terms if core.dtype != I32), None)
        if wide is not None and self.fixed:
            return f"its sum is {wide}"
        axes = [every(b) for b in bytes_]
        grid = dict(zip((ATOM, ATOM + 1), np.meshgrid(*axes, indexing="ij"), strict=True))

        def read(i: int) -> Array:
            return grid[i] if i >= ATOM else np.asarray(self._constant(i))

        wanted = ex.evaluate(e, read).astype(np.int64)
        cores = {core: ex.evaluate(core, read).astype(np.int64) for core in form.terms}
        ties = self._rounded_last(e.operand)
        if self.tflite:
            found = self._pair_as_tflite(e, cores, wanted)
            if not isinstance(found, str):
                return found
            self.remarks.miss(f"rounded {self.node.where} as TensorFlow Lite does", found)
        if not self.fixed:
            leaves = {ATOM + k for k, b in enumerate(bytes_) if isinstance(b, ex.Var)}
            merged = sum_in_floats(form, cores, wanted, e.dtype, read, leaves, ties)
            if merged is not None:
                self.remarks.hit(f"rounded {self.node.where} by a multiplication of each byte")
            return merged or "two multiplications are not right for all pairs"
        if len(cores) == 1:
            return self._product(form, *cores.popitem(), wanted, e.dtype, ties)
        return sum_in_integers(form, cores, wanted, e.dtype, ties) or "no multiplication is right for all pairs"

    def _pair_as_tflite(self, e: ex.Convert, cores: Mapping[ex.Expr, Array], wanted: Array) -> ex.Expr | str:
        """A sum, difference or product of two bytes as TensorFlow Lite's kernel scales it."""
        out = output_of(e.operand, self._constant)
        form = "it is not quantised with one scale" if out is None else _whole(form_of(out.inner, self._constant))
        if out is None or isinstance(form, str):
            return str(form)
        reaches = {core: Reach(a.min(keepdims=True)[0], a.max(keepdims=True)[0]) for core, a in cores.items()}
        found = of_pair(out, form, reaches, lambda a, name: self._operand(a, (), name))
        ends = int(wanted.min()), int(wanted.max())
        return found if isinstance(found, str) else self._told(cut_off(found, *ends, e.dtype))

    def _product(
        self, form: Form, core: ex.Expr, reach: Array, wanted: Array, dtype: DType, ties: bool
    ) -> ex.Expr | str:
        """A rounded product of two bytes: the multiplication of their product, tried on all pairs."""
        scale, offset, low, high = float(form.terms[core]), float(form.offset), int(wanted.min()), int(wanted.max())

        def value(a: Array, _: Channels) -> Array:
            return np.asarray(np.clip(np.rint(a * scale + offset), low, high)).astype(np.int64)

        steps = Steps(value, np.array([reach.min()]), np.array([reach.max()]))
        found = fit(np.asarray(scale), np.asarray(offset), steps)
        if isinstance(found, str):
            return found
        got = found[0].evaluate(reach)
        if not right(got, wanted, reach * scale + offset, ties):
            return "no multiplication is right for all pairs"
        return self._printed(found[0], core, dtype, ())


def _whole(form: Form | str) -> Form | str:
    """A form, if the expression is that, cut off at its ends at most."""
    return "a part of its sum is cut off" if isinstance(form, Form) and form.apart else form


def _inside(e: ex.Expr, core: ex.Expr) -> ex.Expr | None:
    """A sum as it stands in an expression, wherever it does: bytes are widened for the form, to floats beside that.
    None of one that the form alone has: a product of two bytes."""
    widened = isinstance(core, ex.Convert) and core.operand.dtype.nbytes < core.dtype.nbytes
    found = core.args[0] if widened else core
    return found if found in ex.distinct(e) else None


def _trimmed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape without the axes of extent 1 in front: it broadcasts alike."""
    while shape and shape[0] == 1:
        shape = shape[1:]
    return shape


def _median(numbers: Array) -> float:
    """`np.median`, which loads masked arrays to look for NaN: 20 ms of each process.

    >>> _median(np.array([5.0, 1.0, 2.0, 4.0])), _median(np.array([1.0, np.nan, 2.0]))
    (3.0, nan)
    """
    ordered = np.sort(numbers, axis=None)  # NaN last
    low, high, last = (float(ordered[i]) for i in ((ordered.size - 1) // 2, ordered.size // 2, -1))
    return last if np.isnan(last) else (low + high) / 2
