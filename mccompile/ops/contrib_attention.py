"""Attention as onnxruntime's optimiser and exporters of language models write it (com.microsoft), in plain operators.

    MultiHeadAttention(q[B, S, N H], k[B, L, N H], v)
        is  Softmax(MatMul(heads(q), heads(k)^T) * scale + masks) times heads(v), heads side by side again

The products, the softmax and the masks become one kernel again where that is faster (passes/recognize). Of
halves, scores are floats, and the result is rounded once; keys and values for later calls are halves again.
"""

from __future__ import annotations

import math
from dataclasses import field

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.dims import span, varies
from mccompile.ops.expansion import CONTRIB, Expansion
from mccompile.ops.frontend import Import
from mccompile.ops.matmul import MatMul
from mccompile.ops.registry import FrontEnd, compositions
from mccompile.ops.sampling import Case, Draw

_LOWEST = float(np.finfo(np.float32).min)
"""What is added to scores of keys behind a query: those of others may be 10,000 less, which padding takes off."""


@dataclass
class Heads:
    """Attention under construction: ``queries`` are the last of as many ``keys`` or more; what ``masks`` name is
    added to scores [B, N, S, L], in the type that these are computed in."""

    e: Expansion
    batch: int
    queries: int
    keys: int
    dtype: np.dtype
    masks: list[str] = field(default_factory=list)

    def split(self, x: str, heads: int, width: int, suffix: str) -> str:
        """[B, S, N H], of H = ``width``, as [B, N, S, H]."""
        apart = self.e.reshaped(x, [self.batch, -1, heads, width], f"{suffix}.apart")
        return self.e.add("Transpose", [apart], f"{suffix}.heads", perm=(0, 2, 1, 3))

    def number(self, value: float, suffix: str) -> str:
        limit = float(np.finfo(self.dtype).min)
        return self.e.constant(np.array(max(value, limit), self.dtype), suffix)

    def mask_where(self, condition: str, value: float, suffix: str) -> None:
        """Add ``value`` to scores where ``condition`` does not hold."""
        parts = [condition, self.number(0.0, f"{suffix}.kept"), self.number(value, f"{suffix}.masked")]
        self.masks.append(self.e.add("Where", parts, suffix))

    def mask_future(self, window: int = -1, past: int | None = None) -> None:
        """No query reads keys behind its own, nor those ``window`` or more before. The own key of the first is the
        one behind the ``past``, which are all but the queries' if it is not given; the last reads all in any case."""
        if self.queries == 1 and window <= 0:
            return
        first = self.keys - self.queries if past is None else past
        if varies((self.queries, self.keys)):
            self._mask_counted_future(window, first)
            return
        row = np.arange(self.queries)[:, None] + first
        row[-1:] = self.keys - 1
        column = np.arange(self.keys)
        kept = (column <= row) & ((column > row - window) if window > 0 else True)
        mask = np.where(kept, 0.0, max(_LOWEST, float(np.finfo(self.dtype).min))).astype(self.dtype)
        self.masks.append(self.e.constant(mask, "future"))

    def _mask_counted_future(self, window: int, first: int) -> None:
        """The same, where the numbers of queries or keys are known at run time only."""
        e = self.e
        if first + self.queries == self.keys:
            ends = e.counted(first, self.keys, "rows")
        else:
            but_last = e.counted(first, first + self.queries - 1, "but_last")
            ends = e.add("Concat", [but_last, e.ints([self.keys - 1], "last_row")], "rows_to_last", axis=0)
        row = e.add("Unsqueeze", [ends, e.ints([1], "rows.axis")], "row")
        column = e.counted(0, self.keys, "every_column")
        kept = e.add("LessOrEqual", [column, row], "not_behind")
        if window > 0:
            before = e.add("Sub", [row, e.number(window, "window")], "before")
            kept = e.add("And", [kept, e.add("Greater", [column, before], "in_window")], "kept")
        self.mask_where(kept, _LOWEST, "future")

    def mask_behind(self, begin: str, window: int = -1) -> None:
        """As `mask_future`, where the first query of each sample stands at a place of its own, ``begin`` [B]."""
        e = self.e
        first = e.reshaped(begin, [self.batch, 1, 1, 1], "first_row")
        steps = e.add("Unsqueeze", [e.counted(0, self.queries, "steps_on"), e.ints([1], "rows.axis")], "steps_down")
        row, column = e.add("Add", [first, steps], "row"), e.counted(0, self.keys, "every_column")
        kept = e.add("LessOrEqual", [column, row], "not_behind")
        if window > 0:
            before = e.add("Sub", [row, e.number(window, "window")], "before")
            kept = e.add("And", [kept, e.add("Greater", [column, before], "in_window")], "kept")
        self.mask_where(kept, _LOWEST, "future")

    def mask_padding(self, i: int) -> None:
        """Input ``i``, if present, says which keys count: [B, L] or [B, S, L] by numbers above 0, [B] how many, [2 B]
        from where, too."""
        e = self.e
        value = float(e.n.attr("mask_filter_value", -10000.0))
        if e.n.optional(i) is None:
            return
        shape = e.n.input(i).shape
        b, length = self.batch, self.keys
        if shape in ((b, length), (b, self.queries, length)):
            axes = (b, 1, 1, length) if len(shape) == 2 else (b, 1, *shape[1:])
            none = e.constant(np.zeros((), e.n.input(i).dtype.numpy), "padding.none")
            counts = e.add("Greater", [e.reshaped(e.name(i), axes, "padding"), none], "counts")
            self.mask_where(counts, value, "padded")
            return
        if shape not in ((b,), (2 * b,)):
            raise e.n.error(f"a mask {e.n.input(i).type} is not supported for {b} samples of {length} keys")
        column = e.cast(e.counted(0, length, "column"), e.n.input(i).dtype.name, "columns")
        both = shape == (2 * b,)
        ends = e.sliced(e.name(i), 0, 0, b, "ends") if both else e.name(i)
        below = e.add("Less", [column, e.reshaped(ends, [b, 1, 1, 1], "end")], "before_end")
        if both:
            starts = e.reshaped(e.sliced(e.name(i), 0, b, 2 * b, "starts"), [b, 1, 1, 1], "start")
            below = e.add("And", [below, e.add("GreaterOrEqual", [column, starts], "from_start")], "between")
        self.mask_where(below, value, "padded")

    def result(
        self, q: str, k: str, v: str, scale: float, softcap: float = 0.0, heads_first: bool = False
    ) -> str:
        """[B, S, N H'] of queries, keys and values [B, N, .., ..], all as they are computed; with ``heads_first`` one
        query is [B, N, heads, H]."""
        e = self.e
        turned = e.add("Transpose", [k], "keys_turned", perm=(0, 1, 3, 2))
        scores = e.add("MatMul", [q, turned], "product")
        if scale != 1:
            scores = e.add("Mul", [scores, self.number(scale, "scale")], "scaled")
        if softcap:
            cap = self.number(softcap, "softcap")
            scores = e.add("Mul", [e.add("Tanh", [e.add("Div", [scores, cap], "over")], "curve"), cap], "capped")
        for i, mask in enumerate(self.masks):
            scores = e.add("Add", [scores, mask], f"masked{i}")
        weights = e.add("Softmax", [scores], "weights", axis=-1)
        summed = e.add("MatMul", [weights, v], "summed")
        together = summed if heads_first else e.add("Transpose", [summed], "together", perm=(0, 2, 1, 3))
        return e.reshaped(together, [self.batch, self.queries, -1], "joined")


def _scale(n: Import, size: int) -> float:
    given = float(n.attr("scale", 0.0))
    return given or 1 / math.sqrt(size)


def _refuse(n: Import, *inputs: tuple[int, str]) -> None:
    for i, what in inputs:
        if n.optional(i) is not None:
            raise n.error(f"input {i} ({what}) is not supported", "export the model without it")


def _with_past(h: Heads, past: str, x: str, suffix: str) -> str:
    """Keys or values behind those of calls before."""
    return h.e.add("Concat", [past, x], f"{suffix}.all", axis=2)


def _attention(n: Import) -> None:
    """Attention: queries, keys and values are products of one input."""
    e, heads = Expansion(n), n.required("num_heads", int)
    mask, past, more = 3, 4, 5
    _refuse(n, (6, "past_sequence_length"))
    if n.attr("do_rotary", 0) or n.attr("past_present_share_buffer", 0):
        raise n.error("rotary positions, or a shared buffer of keys, are not supported in Attention")
    batch, length, _ = n.input(0).shape
    total = n.input(1).shape[1]
    sizes: tuple[int, ...] = n.attr("qkv_hidden_sizes", (), int) or (total // 3,) * 3
    if sum(sizes) != total or any(size % heads for size in sizes):
        raise n.error(f"hidden sizes {list(sizes)} do not fit weights {n.input(1).type} and {heads} heads")
    product = _projected(e)
    before = 0 if n.optional(past) is None else n.input(past).shape[3]
    h = Heads(e, batch, length, before + length, n.input(0).dtype.compute.numpy)
    parts, start = [], 0
    for name, size in zip("qkv", sizes, strict=True):
        part = e.sliced(product, 2, start, start + size, name)
        parts.append(h.split(part, heads, size // heads, name))
        start += size
    q, k, v = parts
    if before:
        which = [e.constant(np.array(i), f"which{i}") for i in (0, 1)]
        both = e.wide(past)
        old = [e.add("Gather", [both, at], f"past{i}", axis=0) for i, at in enumerate(which)]
        k, v = (_with_past(h, o, x, name) for o, x, name in zip(old, (k, v), "kv", strict=True))
    h.mask_padding(mask)
    if n.flag("unidirectional"):
        h.mask_future()
    if n.optional(more) is not None:
        h.masks.append(e.wide(more))
    e.bind_stored(0, h.result(q, k, v, _scale(n, sizes[0] // heads)))
    if any(n.node.outputs[1:]):  # one tensor: there is none where values are longer than keys, or shorter
        axis = [e.ints([0], "first")]
        present = [e.add("Unsqueeze", [x, *axis], f"{name}.one") for x, name in ((k, "k"), (v, "v"))]
        e.bind_stored(1, e.add("Concat", present, "present", axis=0))
    e.finish()


def _projected(e: Expansion) -> str:
    """Input 0 times the weights, input 1, plus the bias, input 2, as that is computed."""
    n, x = e.n, e.n.input(0)
    body = ex.apply("add", ex.acc(x.dtype), ex.var(0, x.dtype))
    bias = {} if n.optional(2) is None else {"extras": [n.input(2)], "post": {0: body}}
    return e.product(MatMul(), [x, n.input(1)], "product_qkv", **bias)


def _computed(e: Expansion, q: str, k: str, v: str) -> tuple[str, str, str]:
    """Queries, keys and values of the operator's type as scores are made of them."""
    return e.computed(q, "q"), e.computed(k, "k"), e.computed(v, "v")


def _multi_head(n: Import) -> None:
    """MultiHeadAttention: queries, keys and values apart; packed together, [B, S, N, 3, H]; keys and values packed,
    [B, L, N, 2, H]; or keys and values by heads, [B, N, L, H]."""
    e, heads = Expansion(n), n.required("num_heads", int)
    _refuse(n, (8, "past_sequence_length"), (9, "cache_indirection"))
    shapes = [None if n.optional(i) is None else n.input(i).shape for i in range(3)]
    first = n.input(0).shape
    batch, queries = first[:2]
    h = Heads(e, batch, queries, queries, n.input(0).dtype.compute.numpy)
    wide = n.optional(3) is not None  # what a bias is added to is not rounded behind it
    given = e.wide if wide else e.name
    packed = len(first) == 5
    size = first[-1] if packed else first[2] // heads
    source = 0 if packed else 1 if shapes[1] is not None and len(shapes[1]) == 5 else -1
    if source >= 0:
        width = n.input(source).shape[3]
        found = [_unpacked(e, source, i, name) for i, name in zip(range(width), "qkv"[3 - width :], strict=True)]
        q = found[0] if packed else h.split(e.name(0), heads, size, "q")
        k, v = found[-2:]
        length, value = n.input(source).shape[1], size
        if wide:
            raise n.error("a bias of packed keys and values is not supported")
    else:
        if shapes[1] is None or shapes[2] is None or len(shapes[1]) != len(shapes[2]):
            raise n.error("keys and values are needed, in one form")
        by_heads = len(shapes[1]) == 4
        length = shapes[1][2 if by_heads else 1]
        value = shapes[2][3] if by_heads else shapes[2][2] // heads
        names = [given(i) for i in range(3)]
        if wide:
            names = _biased(e, names, size * heads, value * heads, by_heads)
        q = h.split(names[0], heads, size, "q")
        k = names[1] if by_heads else h.split(names[1], heads, size, "k")
        v = names[2] if by_heads else h.split(names[2], heads, value, "v")
    past = 0 if n.optional(6) is None else n.input(6).shape[2]
    if n.optional(6) is not None:
        k, v = (_with_past(h, given(i), x, name) for i, x, name in ((6, k, "k"), (7, v, "v")))
    h.keys = past + length
    h.mask_padding(4)
    if n.optional(5) is not None:
        h.masks.append(e.wide(5))
    if n.flag("unidirectional"):
        h.mask_future(past=past)
    for i, x in ((1, k), (2, v)):
        (e.bind_stored if wide else e.bind)(i, x)
    if not wide:
        q, k, v = _computed(e, q, k, v)
    e.bind_stored(0, h.result(q, k, v, _scale(n, size)))
    e.finish()


def _unpacked(e: Expansion, i: int, part: int, name: str) -> str:
    """[B, N, S, H], a part of input ``i``, [B, S, N, parts, H]."""
    one = e.add("Gather", [e.name(i), e.constant(np.array(part), f"{name}.part")], f"{name}.alone", axis=3)
    return e.add("Transpose", [one], f"{name}.heads", perm=(0, 2, 1, 3))


def _biased(e: Expansion, names: list[str], size: int, value: int, by_heads: bool) -> list[str]:
    """Queries, keys and values plus their parts of the bias, input 3; keys and values by heads have none."""
    bias, starts = e.wide(3), [0, size, 2 * size, 2 * size + value]
    sums = []
    for i, name in enumerate(names[:1] if by_heads else names):
        part = e.sliced(bias, 0, starts[i], starts[i + 1], f"bias{i}")
        sums.append(e.add("Add", [name, part], f"biased{i}"))
    return [*sums, *names[len(sums) :]]


def _group_query(n: Import) -> None:
    """GroupQueryAttention: several heads of queries share one of keys and values; keys of calls before are ``past``.

    All samples have as many keys, those of this call behind all of the past: by the operator's rule one sample has,
    so that its lengths may be computed when the program runs; those of several have to be known. Or the past is a
    buffer that holds all there will ever be (``total_sequence_length`` is its length, or present is as long), in
    which ``seqlens_k`` says where the new keys of each sample go.
    """
    e, heads, shared = Expansion(n), n.required("num_heads", int), n.required("kv_num_heads", int)
    _refuse(n, (11, "head_sink"), (12, "k_scale"), (13, "v_scale"), (14, "q_norm_weight"), (15, "k_norm_weight"),
            (16, "query_seqlens"))  # fmt: skip
    for name in ("smooth_softmax", "qk_output", "kv_cache_bit_width", "sliding_window_cache"):
        if n.attr(name, 0) not in (0, -1):
            raise n.error(f"attribute {name!r} is not supported in GroupQueryAttention")
    if n.attr("causal", 1) != 1:
        raise n.error("attention to the future is not supported in GroupQueryAttention")
    batch, queries, width = n.input(0).shape
    packed = n.optional(1) is None
    size = width // (heads + 2 * shared) if packed else width // heads
    past = 0 if n.optional(3) is None else n.input(3).shape[2]
    if heads % shared:
        raise n.error(f"{heads} heads of queries do not share {shared} of keys")
    total = _total(n, past, past + queries)
    buffer = total == (past,)
    ends = (past + queries - 1,) if batch == 1 and not n.has_numbers(5) else () if buffer else n.ints(5, "seqlens_k")
    if not buffer and (total != (past + queries,) or set(ends) != {past + queries - 1}):
        raise n.error(
            f"{total[0]} keys, of which samples have {[end + 1 for end in ends]}, are not {past} and {queries} more",
            "lengths that differ from what past_key and query hold are not supported",
        )
    h = Heads(e, batch, queries, past + (0 if buffer else queries), n.input(0).dtype.compute.numpy)
    begin = _first_place(e, batch, queries) if buffer else ""
    if packed:
        cuts = [0, heads * size, (heads + shared) * size, width]
        names = [e.sliced(e.name(0), 2, cuts[i], cuts[i + 1], f"part{i}") for i in range(3)]
    else:
        names = [e.name(i) for i in range(3)]
    q, k, v = (h.split(x, c, size, name) for x, c, name in zip(names, (heads, shared, shared), "qkv", strict=True))
    if n.flag("do_rotary"):
        before = past - queries if buffer else past
        stated = n.optional(9) is not None
        places = _stated_places(e, before, queries, batch) if stated else _places(e, begin, past, queries, batch)
        turned = 2 * n.input(7).shape[-1]  # the first elements of a head, or all of them
        how = {"interleaved": int(n.flag("rotary_interleaved")), "rotary_embedding_dim": turned}
        rows = _rows(e, 7, 8, places)
        q, k = (e.stored(e.add("RotaryEmbedding", [e.computed(x, name), *rows], f"{name}.turned", **how), name)
                for x, name in ((q, "q"), (k, "k")))  # fmt: skip
    if buffer:
        k, v = (e.add("TensorScatter", [e.name(i), x, begin], f"{name}.all", axis=2)
                for i, x, name in ((3, k, "k"), (4, v, "v")))  # fmt: skip
        h.mask_behind(begin, n.attr("local_window_size", -1))
    elif past:
        k, v = (_with_past(h, e.name(i), x, name) for i, x, name in ((3, k, "k"), (4, v, "v")))
    if not buffer:
        h.mask_future(n.attr("local_window_size", -1))
    by_samples = len(h.masks) * buffer
    if n.optional(10) is not None:
        h.masks.append(e.wide(10))
    cap = float(n.attr("softcap", 0.0))
    e.bind(1, k)
    e.bind(2, v)
    q, k, v = _computed(e, q, k, v)
    if queries == 1 and len(h.masks) == by_samples:  # heads that share keys are rows of one product
        grouped = e.reshaped(q, [batch, shared, heads // shared, size], "grouped")
        e.bind_stored(0, h.result(grouped, k, v, _scale(n, size), cap, heads_first=True))
    else:
        shape = (batch, shared, heads // shared, size)
        spread = [_repeated(e, x, shape, name) for x, name in ((k, "k"), (v, "v"))]
        e.bind_stored(0, h.result(q, spread[0], spread[1], _scale(n, size), cap))
    e.finish()


def _total(n: Import, past: int, longer: int) -> tuple[int, ...]:
    """How many keys there are. Those of one sample may be told when the program runs: where the model states that
    keys for later calls are as many as those of calls before, these are a buffer, else they are ``longer`` by all
    that are new."""
    if n.input(0).shape[0] != 1 or n.has_numbers(6):
        return n.ints(6, "total_sequence_length")
    stated = n.declared(1)
    return (past if past and stated is not None and stated[2:3] == (past,) else longer,)


def _first_place(e: Expansion, batch: int, queries: int) -> str:
    """Where the new keys of each sample [batch] go: input 5 says at which place its last one is. Prompts that are
    shorter than others are followed by what does not count: all begin at 0."""
    last = e.cast(e.reshaped(e.name(5), [batch], "last"), "i64", "last_place")
    return e.add("Max", [e.add("Sub", [last, e.number(queries - 1, "more")], "first"), e.number(0, "none")], "begin")


def _places(e: Expansion, begin: str, past: int, queries: int, batch: int) -> str:
    """The places of new keys and queries: behind those of calls before, or from ``begin`` on."""
    if not begin:
        return _repeated_places(e, past, queries, batch)
    steps = e.counted(0, queries, "steps")
    return e.add("Add", [e.reshaped(begin, [batch, 1], "begins"), steps], "places")


def _stated_places(e: Expansion, before: int, queries: int, batch: int) -> str:
    """Input 9, [B, S]; of a first prompt, which has nothing ``before`` it, by the operator's rule its first element
    alone, from which on the queries of all samples count."""
    if queries == batch == 1 or span(before)[0] > 0:
        return e.name(9)
    flat = e.reshaped(e.name(9), [-1], "stated.flat")
    first = e.reshaped(e.sliced(flat, 0, 0, 1, "stated.first"), [1, 1], "stated.begin")
    counted = e.add("Add", [first, _repeated_places(e, 0, queries, batch)], "stated.counted")
    if before == 0:
        return counted
    prompt = e.add("Equal", [e.number(before, "stated.before"), e.number(0, "stated.none")], "stated.prompt")
    return e.add("Where", [prompt, counted, e.name(9)], "stated.places")


def _repeated_places(e: Expansion, first: int, count: int, batch: int) -> str:
    """The places of ``count`` elements, the same for each sample: [batch, count]."""
    once = e.counted(first, first + count, "steps")
    return e.add("Expand", [once, e.ints([batch, count], "places.shape")], "every_step")


def _rows(e: Expansion, cosines: int, sines: int, places: str) -> list[str]:
    """The last operands of RotaryEmbedding: tables, and ``places`` in them; of halves the rows at the places, as
    floats: tables are as long as the longest text."""
    if e.n.input(cosines).dtype.name != "f16":
        return [e.name(cosines), e.name(sines), places]
    found = [e.add("Gather", [e.name(i), places], f"rows{i}", axis=0) for i in (cosines, sines)]
    return [e.computed(x, f"rows{i}", i) for x, i in zip(found, (cosines, sines), strict=True)]


def _repeated(e: Expansion, x: str, shape: tuple[int, int, int, int], name: str) -> str:
    """[B, N, L, H] with every head as many times in a row as the third number of ``shape``, [B, N, times, H]."""
    batch, heads, times, size = shape
    if times == 1:
        return x
    one = e.reshaped(x, [batch, heads, 1, -1, size], f"{name}.one")
    many = e.add("Expand", [one, e.ints([1, 1, times, 1, 1], f"{name}.shape")], f"{name}.many")
    return e.reshaped(many, [batch, heads * times, -1, size], f"{name}.repeated")


def _rotary(n: Import) -> None:
    """RotaryEmbedding of com.microsoft: its positions are [B, S], or the first one for all."""
    e, shape = Expansion(n), n.input(0).shape
    if n.attr("is_packed_batching", 0) or n.attr("scale", 1.0) != 1:
        raise n.error("packed batches, or a scale, are not supported in RotaryEmbedding")
    batch, length = shape[0], shape[-2] if len(shape) == 4 else shape[1]
    places = e.name(1)
    if n.input(1).shape != (batch, length):
        steps = _repeated_places(e, 0, length, batch)
        places = e.add("Add", [e.reshaped(places, [1, 1], "begin"), steps], "places")
    heads, size = n.attr("num_heads", 0), n.attr("rotary_embedding_dim", 0)
    if len(shape) == 3 and not heads:
        heads = shape[2] // (2 * n.input(2).shape[1])
    attrs = {"interleaved": int(n.flag("interleaved")), "rotary_embedding_dim": size}
    if len(shape) == 3:
        attrs["num_heads"] = heads
    e.last_stored("RotaryEmbedding", [e.wide(0), *_rows(e, 2, 3, places)], "turned", **attrs)
    e.finish()


# -- samples ---------------------------------------------------------------------------------------------------------
def _mask(d: Draw, batch: int, length: int) -> np.ndarray | None:
    kept = d.array((batch, length), "i32", 0, 1)
    kept[:, 0] = 1
    return kept if d.bool() else None


def _sample_attention(d: Draw) -> Case:
    heads, size, batch, length, width = d.int(1, 2), d.choice([2, 4]), d.int(1, 2), d.int(1, 5), 6
    total = 3 * heads * size
    given = [d.array((batch, length, width)), d.array((width, total), "f32", -1, 1), d.array((total,))]
    mask = _mask(d, batch, length)
    if mask is not None and d.bool():
        mask = d.array((batch,), "i32", 1, length)
    attrs = {"num_heads": heads, "unidirectional": d.int(0, 1)}
    return Case([*given, mask], attrs, frozenset({1, 2}))


def _sample_multi_head(d: Draw) -> Case:
    heads, size, batch, length, more = d.int(1, 3), d.choice([2, 4]), d.int(1, 2), d.int(1, 5), d.int(1, 6)
    given = [d.array((batch, m, heads * size)) for m in (length, more, more)]
    bias = d.array((3 * heads * size,)) if d.bool() else None
    extra = d.array((1, heads, length, more)) if d.bool() else None
    attrs: dict[str, object] = {"num_heads": heads}
    if d.bool():
        attrs["scale"] = 0.5
    return Case([*given, bias, _mask(d, batch, more), extra], attrs)


def _sample_group_query(d: Draw) -> Case:
    shared, times, size, batch = d.int(1, 2), d.int(1, 2), 16, d.int(1, 2)
    length, past = d.choice([(4, 0), (1, 5), (3, 0)])
    heads, total = shared * times, length + past
    given = [d.array((batch, length, c * size)) for c in (heads, shared, shared)]
    old = [d.array((batch, shared, past, size)) if past else None for _ in range(2)]
    ends = [np.full((batch,), total - 1, np.int32), np.array(total, np.int32)]
    attrs: dict[str, object] = {"num_heads": heads, "kv_num_heads": shared}
    rotary = []
    if d.bool():
        attrs |= {"do_rotary": 1, "rotary_interleaved": d.int(0, 1)}
        angles = d.array((total + 2, size // 2), "f32", -3, 3)
        rotary = [np.cos(angles), np.sin(angles)]
    if d.bool():
        attrs["local_window_size"] = 3
    return Case([*given, *old, *ends, *rotary], attrs, frozenset({5, 6, 7, 8}), outputs=3)


def _sample_rotary(d: Draw) -> Case:
    heads, size, batch, length = d.int(1, 3), 8, d.int(1, 2), d.int(1, 4)
    angles = d.array((9, size // 2), "f32", -3, 3)
    places = d.array((batch, length), "i64", 0, 8) if d.bool() else d.array((1,), "i64", 0, 4)
    shape = (batch, length, heads * size) if d.bool() else (batch, heads, length, size)
    attrs = {"interleaved": d.int(0, 1)}
    return Case([d.array(shape), places, np.cos(angles), np.sin(angles)], attrs, frozenset({2, 3}))


_SUMS = {"f32": 1e-5, "f16": 8e-3}
FRONT_ENDS = compositions(
    FrontEnd("Attention", _attention, _sample_attention, _SUMS, CONTRIB),
    FrontEnd("MultiHeadAttention", _multi_head, _sample_multi_head, _SUMS, CONTRIB),
    FrontEnd("GroupQueryAttention", _group_query, _sample_group_query, _SUMS, CONTRIB),
    FrontEnd("RotaryEmbedding", _rotary, _sample_rotary, _SUMS, CONTRIB),
)
