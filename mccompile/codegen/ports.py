"""Inputs and outputs of a network as its files print them."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.codegen.c_expr import literal
from mccompile.codegen.extents import c_number, shape_text
from mccompile.codegen.names import MAX_STRING_BYTES, comment, rust_string, string_literal, unique_identifiers
from mccompile.importer.labels import Legend
from mccompile.interface.tensors import Interface, Quantisation
from mccompile.ir.dims import bound, symbols, varies
from mccompile.ir.program import Program
from mccompile.ir.types import DTYPES, I64
from mccompile.ir.views import Buffer


@dataclass(frozen=True)
class Port:
    """An input or output, or state, which both are: its C name, its arena member, and its ONNX type: ``shape`` and
    ``count`` are bounds where ``extents`` are known at run time only, of which ``dims`` are the C; ``counted`` if a
    kernel counts one of them. State that grows lies in ``shape``, of which it fills a part.

    One of the caller has no member: its address is a field of the network's struct.
    """

    name: str
    id: str
    region: str
    member: str
    c: str
    dtype: str
    shape: tuple[int, ...]
    count: int
    offset: int
    role: str
    space: str
    extents: tuple[int, ...] = ()
    dims: tuple[str, ...] = ()
    counted: bool = False
    quantisation: Quantisation | None = None
    format: str = ""
    legend: Legend | None = None

    @property
    def labels(self) -> list[str]:
        """The labels that numbers or columns stand for, as literals in C."""
        known = () if self.legend is None else self.legend.labels
        return [str(literal(n, I64)) if isinstance(n, int) else f'"{string_literal(str(n))}"' for n in known]

    def label_table(self, name: str) -> str:
        """The declaration of the table of labels: rows of text with its end, or numbers."""
        texts = [n for n in (() if self.legend is None else self.legend.labels) if not isinstance(n, int)]
        longest = max((len(str(n).encode()[:MAX_STRING_BYTES]) + 1 for n in texts), default=0)
        rows = f"{name}[{len(self.labels)}]"
        return f"char {rows}[{longest}]" if texts else f"int64_t {rows}"

    @property
    def format_comment(self) -> str:
        return comment(self.format)

    @property
    def scale(self) -> str:
        """The scale of quantised elements as a literal in C."""
        assert self.quantisation is not None
        return _float(self.quantisation.scale) + "f"

    @property
    def zero_point(self) -> str:
        """The zero point of quantised elements as an expression in C."""
        assert self.quantisation is not None
        zero = self.quantisation.zero_point
        return f"({zero})" if zero < 0 else str(zero)

    @property
    def of_caller(self) -> bool:
        return self.space == "caller"

    @property
    def field(self) -> str:
        """The field of the network's struct that holds the address, if the caller says where it is."""
        return f"{self.role}_{self.id}"

    @property
    def pointer(self) -> str:
        """The type of its address: of inputs of the caller nothing is written."""
        return f"{'const ' if self.role == 'input' else ''}{self.c} *"

    @property
    def address(self) -> str:
        """Its address by a pointer to the network's struct."""
        return f"net->{self.field}" if self.of_caller else f"net->{self.arena}->{self.member}.v"

    @property
    def arena(self) -> str:
        """The field of the network's struct that points to the memory it lies in."""
        return f"arena_{self.region}" if self.region else "arena"

    @property
    def comment(self) -> str:
        return comment(self.name)

    @property
    def c_string(self) -> str:
        return string_literal(self.name)

    @property
    def rust_string(self) -> str:
        return rust_string(self.name)

    @property
    def bytes(self) -> str:
        return f"{self.count}u * sizeof({self.c})"

    @property
    def nbytes(self) -> int:
        return self.count * DTYPES[self.dtype].nbytes

    @property
    def zero(self) -> str:
        """What state begins with."""
        return {"float": "0.0f", "double": "0.0"}.get(self.c, "0")

    @property
    def shape_text(self) -> str:
        return self.dtype + shape_text(self.extents)

    @property
    def varies(self) -> bool:
        """Whether an extent is known at run time only."""
        return varies(self.extents)

    @property
    def dtype_macro(self) -> str:
        return f"MCC_{self.dtype.upper()}"


def _float(x: float) -> str:
    """The shortest text that reads back as the same f32, with a point or an exponent."""
    return str(np.float32(x))


def _port(
    b: Buffer, id_: str, ids: dict[str, str], offset: int, interface: Interface, places: Mapping[str, str],
    counts: Container[str],
) -> Port:
    given = interface.formats.get(b.name)
    type_, member = b.type, "" if b.space == "caller" else ids[b.name]
    room = b.room or tuple(map(bound, type_.shape))
    return Port(
        b.name, id_, b.region, member, type_.dtype.c, type_.dtype.name, room, math.prod(room), offset, b.role,
        b.space, type_.shape, tuple(c_number(e, places) for e in type_.shape),
        any(s.name in counts for s in symbols(*type_.shape)), interface.quantised.get(b.name),
        "" if given is None else given[0].text, interface.legends.get(b.name) if b.role == "output" else None,
    )  # fmt: skip


def ports_over(ports: Sequence[Port], others: Sequence[Port]) -> list[list[Port]]:
    """For each port those of ``others`` that have a byte of an arena with it, in their order.

    Those that begin before its end are looked at from the last on, as far back as the largest may reach.
    """
    found: list[list[Port]] = []
    places = sorted((p.region, p.offset, i) for i, p in enumerate(others) if not p.of_caller)
    largest = max((p.nbytes for p in others), default=0)
    for port in ports:
        first = bisect_left(places, (port.region, port.offset - largest))
        stop = bisect_left(places, (port.region, port.offset + port.nbytes))
        near = sorted(i for _, offset, i in places[first:stop] if offset + others[i].nbytes > port.offset)
        found.append([] if port.of_caller else [others[i] for i in near])
    return found


def _own_names(role: str, buffers: Sequence[Buffer], places: Iterable[str]) -> dict[str, str]:
    """What inputs or outputs are called in C, so that each function has a name of its own: with an extent input_x
    beside an input x of the caller there would be two `net_set_input_x`, and with an input x whose extents vary
    beside one x_dims two `net_input_x_dims`."""
    own = unique_identifiers(b.name for b in buffers)
    taken = [f"{own[b.name]}_dims" for b in buffers if varies(b.type.shape)]
    if any(b.space == "caller" for b in buffers):
        taken += [name.removeprefix(f"{role}_") for name in places if name.startswith(f"{role}_")]
    return unique_identifiers((b.name for b in buffers), taken)


def ports(
    program: Program, role: str, ids: dict[str, str], interface: Interface, places: Mapping[str, str]
) -> list[Port]:
    """The inputs or the outputs that are no state, or with role "state" what is kept from run to run, in graph order;
    ``places`` are the C of what stands for extents."""
    module = program.module
    held = [b for b in module.role("input") if b in module.held]
    buffers = held if role == "state" else [b for b in module.role(role) if b not in module.held]
    own = _own_names(role, buffers, places)
    made = [_port(b, own[b.name], ids, program.offsets[b], interface, places, module.counts) for b in buffers]
    return [replace(port, role=role) for port in made]
