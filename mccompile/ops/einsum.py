"""Einsum: rewritten, one operand after the other, into transposes, matrix products and sums."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.dims import require_same
from mccompile.ir.graph import Value
from mccompile.ops.folding import Folding, product_bytes
from mccompile.ops.frontend import Import
from mccompile.ops.map import Map
from mccompile.ops.matmul import MatMul
from mccompile.ops.reduce import Reduce
from mccompile.ops.registry import onnx_op
from mccompile.ops.sampling import Case, Draw
from mccompile.ops.slice import Slice
from mccompile.ops.transpose import Transpose

Labels = tuple[str, ...]
"""One label per axis: a letter, or "0", "1", ... for the axes of an ellipsis, counted from the last one."""


@dataclass(frozen=True)
class _Term:
    """A tensor whose axes have labels, no label twice."""

    value: Value
    labels: Labels

    def extent(self, label: str) -> int:
        return self.value.shape[self.labels.index(label)]


def _labels(n: Import, text: str, rank: int) -> Labels:
    """The labels of an operand of ``rank`` axes."""
    before, dots, after = text.partition("...")
    if not all(c.isalpha() for c in before + after):
        raise n.error(f"{text!r} in the equation is not made of letters and at most one ellipsis")
    hidden = rank - len(before) - len(after)
    if hidden < 0 or (hidden and not dots):
        raise n.error(f"{text!r} in the equation does not fit an operand of rank {rank}")
    found = (*before, *map(str, reversed(range(hidden))), *after)
    return found


def _diagonal(n: Import, x: Value, labels: Labels) -> _Term:
    """An operand as a term: of axes with one label only the diagonal counts.

    ii of [n, n] is every (n + 1)-th of its n n elements.
    """
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            other = labels.index(label, first + 1)
            extent = x.shape[first]
            if not require_same(x.shape[other : other + 1], (extent,)):
                raise n.error(f"label {label!r} of the equation has extents {extent} and {x.shape[other]}")
            rest = [a for a in range(len(labels)) if a not in (first, other)]
            x = n.inner(Transpose((*rest, first, other)), [x], "pairs")
            lead = x.shape[:-2]
            flat = n.reshape(x, (*lead, extent * extent), "squares")
            op = Slice((0,) * len(flat.shape), (*(1 for _ in lead), extent + 1), (*lead, extent))
            x, labels = n.inner(op, [flat], "diagonal"), (*(labels[a] for a in rest), label)
    return _Term(x, labels)


def _output(n: Import, text: str | None, operands: Sequence[Labels]) -> Labels:
    """The labels of the result; without an arrow: the ellipsis, then what occurs once, in alphabetical order."""
    every = [label for labels in operands for label in labels]
    hidden = sorted({label for label in every if label.isdigit()}, key=int, reverse=True)
    if text is None:
        return (*hidden, *sorted(label for label in set(every) if label.isalpha() and every.count(label) == 1))
    found = _labels(n, text, len(text) - 3 + len(hidden) if "..." in text else len(text))
    if len(set(found)) != len(found):
        raise n.error(f"{text!r} in the equation: a label that occurs twice in the result is not supported")
    unknown = sorted(set(found) - set(every))
    if unknown:
        raise n.error(f"labels {unknown} of the equation's result occur in no operand")
    return found


def _sum_out(n: Import, term: _Term, wanted: Iterable[str]) -> _Term:
    """The term with the axes summed whose labels are not wanted."""
    kept = tuple(label for label in term.labels if label in set(wanted))
    if kept == term.labels:
        return term
    axes = tuple(a for a, label in enumerate(term.labels) if label not in kept)
    total = n.inner(Reduce("sum", axes), [term.value], "sum")
    return _Term(n.reshape(total, tuple(term.extent(label) for label in kept), "summed"), kept)


def _ordered(n: Import, term: _Term, labels: Labels) -> _Term:
    """The term with its axes in another order."""
    if labels == term.labels:
        return term
    perm = tuple(term.labels.index(label) for label in labels)
    return _Term(n.inner(Transpose(perm), [term.value], "ordered"), labels)


def _matrix(n: Import, term: _Term, batch: Labels, rows: Labels, columns: Labels) -> tuple[Value, bool]:
    """The term as [batch..., rows, columns], or (True) with the last two the other way round if it lies so."""
    swapped = term.labels == batch + columns + rows and bool(rows) and bool(columns)
    first, second = (columns, rows) if swapped else (rows, columns)
    given = _ordered(n, term, batch + first + second)
    shape = [term.extent(label) for label in batch]
    shape += [math.prod(term.extent(label) for label in group) for group in (first, second)]
    return n.reshape(given.value, tuple(shape), "matrix"), swapped


def _contract(n: Import, a: _Term, b: _Term, wanted: set[str]) -> _Term:
    """The product of two terms, summed over the labels that both have and nobody wants any more."""
    shared = [label for label in a.labels if label in b.labels]
    for label in shared:
        one, other = a.extent(label), b.extent(label)
        if 1 not in (one, other) and not require_same((one,), (other,)):
            raise n.error(f"label {label!r} of the equation has extents {one} and {other}")
    # Broadcast along a summed label: the sum of the longer one comes first.
    uneven = {label for label in shared if label not in wanted and a.extent(label) != b.extent(label)}
    a = _sum_out(n, a, set(a.labels) - {label for label in uneven if a.extent(label) > 1})
    b = _sum_out(n, b, set(b.labels) - {label for label in uneven if b.extent(label) > 1})
    a, b = (_drop_ones(n, t, uneven) for t in (a, b))
    batch = tuple(label for label in a.labels if label in b.labels and label in wanted)
    summed = tuple(label for label in a.labels if label in b.labels and label not in wanted)
    rows = tuple(label for label in a.labels if label not in batch + summed)
    columns = tuple(label for label in b.labels if label not in batch + summed)
    left, left_swapped = _matrix(n, a, batch, rows, summed)
    right, right_swapped = _matrix(n, b, batch, summed, columns)
    if summed:
        product = n.inner(MatMul(left_swapped, right_swapped), [left, right], "product")
    else:
        body = ex.apply("mul", ex.var(0, left.dtype), ex.var(1, right.dtype))
        product = n.inner(Map(body, "f16" if left.dtype.name == "f16" else ""), [left, right], "product")
    shape = product.shape[: len(batch)] + tuple(a.extent(x) for x in rows) + tuple(b.extent(x) for x in columns)
    return _Term(n.reshape(product, shape, "term"), batch + rows + columns)


def _drop_ones(n: Import, term: _Term, labels: set[str]) -> _Term:
    """The term without those of its axes; they have extent 1."""
    kept = tuple(label for label in term.labels if label not in labels)
    return _Term(n.reshape(term.value, tuple(term.extent(label) for label in kept), "dropped"), kept)


EQUATIONS = (
    "ij->ji", "ij->i", "ij,jk->ik", "ij,jk", "bij,bjk->bik", "bij,bkj->bik", "bhid,bhjd->bhij", "bhij,bhjd->bihd",
    "i,j->ij", "ij,ij->ij", "ij,ij->", "ij,j->i", "...ij,jk->...ik", "b...j,kj->bk...", "ij,jk,kl->il",
    "nctv,kvw->nctkw", "ij,jk->ki", "bid,bjd->bji", "abc,cd->", "...i,...i->...", "ji,jk->ik", "ib,jb->bij",
    "ii->i", "ii", "iji,j->ij", "...ii->...i",
)  # fmt: skip


def _sample(d: Draw) -> Case:
    equation = d.choice(EQUATIONS)
    extents = {c: d.int(1, 5) for c in equation if c.isalpha()}
    hidden = d.shape(d.int(0, 2), 1, 3)
    operands = []
    for text in equation.partition("->")[0].split(","):
        before, dots, after = text.partition("...")
        own = d.broadcastable(hidden) if dots else ()
        operands.append(d.array([*(extents[c] for c in before), *own, *(extents[c] for c in after)]))
    constant = frozenset({len(operands) - 1}) if len(operands) > 1 and d.bool() else frozenset()
    return Case(operands, {"equation": equation}, constant)


@onnx_op("Einsum", sample=_sample, tolerance={"f32": 3e-6, "f16": 4e-3}, folding=Folding(product_bytes))
def import_einsum(n: Import) -> None:
    """Operands from left to right, each joined with the product so far."""
    given, arrow, result = n.required("equation", str).replace(" ", "").partition("->")
    texts = given.split(",")
    values = [n.input(i) for i in range(len(n.inputs))]
    if len(texts) != len(values):
        raise n.error(f"the equation has {len(texts)} operands, the node {len(values)}")
    named = [_labels(n, text, len(v.shape)) for v, text in zip(values, texts, strict=True)]
    output = _output(n, result if arrow else None, named)
    terms = [_diagonal(n, v, labels) for v, labels in zip(values, named, strict=True)]
    if _in_steps(terms, output):
        terms = [_Term(n.computed(t.value), t.labels) for t in terms]
    wanted = [set(output).union(*(t.labels for t in terms[i + 1 :])) for i in range(len(terms))]
    total = _sum_out(n, terms[0], wanted[0])
    for i, term in enumerate(terms[1:], 1):
        alone = _sum_out(n, term, wanted[i] | set(total.labels))
        total = _contract(n, total, alone, wanted[i])
    total = _sum_out(n, total, output)
    n.bind(0, n.stored(_ordered(n, total, output).value))


def _in_steps(terms: Sequence[_Term], output: Labels) -> bool:
    """Whether there are results on the way to that of the node, which halves might not hold."""
    if len(terms) != 2:
        return len(terms) > 2
    a, b = terms
    uneven = any(a.extent(label) != b.extent(label) for label in set(a.labels) & set(b.labels))
    return uneven or not set(a.labels) ^ set(b.labels) <= set(output)
