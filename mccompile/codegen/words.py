"""Epilogues over sixteen channels as C: sums of 32 bits in four words vectors, results that become a vector of bytes.

    mcc_add_words(mcc_mulhi_words(p0, mcc_load_words(&e1[c])), mcc_all_words(-8160))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mccompile._dataclass import dataclass
from mccompile.codegen.binding import KernelContext
from mccompile.codegen.c_expr import Emitter, literal
from mccompile.codegen.code import Code, bare, closed
from mccompile.ir import expr as ex
from mccompile.ir.errors import InternalError
from mccompile.ir.types import DType
from mccompile.kernels.integers import begun_with
from mccompile.kernels.model.words import SATURATED, no_words


class WordEmitter(Emitter):
    """An expression over words vectors; ``leaf`` gives that of a variable."""

    def ctype(self, dtype: DType) -> str:
        return self.uses.use("mcc_words")

    def _text(self, e: ex.Expr) -> Code:
        if isinstance(e, ex.Num):
            return self.uses.say("mcc_all_words({0})", literal(e.value, e.dtype))
        return super()._text(e)

    def _apply(self, fn: str, operands: tuple[ex.Expr, ...]) -> Code:
        if fn == "asr" and isinstance(operands[1], ex.Num):
            value, bits = bare(self._walk(operands[0])), literal(operands[1].value, operands[1].dtype)
            return self.uses.say("mcc_asr_words({0}, {1})", value, bits)
        return self.uses.say(f"mcc_{fn}_words({{0}}, {{1}})", *(bare(self._walk(o)) for o in operands))


@dataclass(frozen=True)
class Words:
    """The words of a template that computes sixteen channels at a time."""

    context: KernelContext

    @property
    def begun(self) -> int:
        """The extra operand that sums begin with; -1: operand 2 says it."""
        return getattr(self.context.p, "begun", -1)

    def begin(self, number: int, channel: str) -> Code:
        """What sums of words ``number`` of the channels from ``channel`` on begin with."""
        return self._loaded(f"e{self.begun}" if self.begun >= 0 else "x2", number, channel)

    def bytes(self, name: str, sums: Sequence[str], channel: str) -> str:
        """Statements that declare ``name`` as the results for four vectors of sums, from channel ``channel`` on."""
        (body,) = (b for r, b in self.context.call.post if r == 0)
        body = begun_with(body, self.begun) if self.begun >= 0 else body
        if reason := no_words(body):
            raise InternalError(f"the template of {self.context.call.kernel} has no words: {reason}")
        assert isinstance(body, ex.Apply)
        lines, found = [], []
        for number, value in enumerate(sums):
            emitter = WordEmitter(self._leaf(value, number, channel), self.context.uses, prefix=f"t{number}_")
            result = emitter.emit(body.operands[0])
            lines += [*emitter.lines, f"const mcc_words r{number} = {result};"]
            found.append(f"r{number}")
        narrowed = self.context.uses.use(f"mcc_narrow_{SATURATED[body.fn]}")
        return "\n".join([*lines, f"const mcc_bytes {name} = {narrowed}({', '.join(found)});"])

    def _leaf(self, value: str, number: int, channel: str) -> Callable[[int], str]:
        def leaf(i: int) -> str:
            if i == ex.ACC:
                return value
            if not self.context.e[i].varies(1):
                return self.context.uses.say("mcc_all_words({0})", f"e{i}[0]")
            return self._loaded(f"e{i}", number, channel)

        return leaf

    def _loaded(self, name: str, number: int, channel: str) -> Code:
        place = self.context.offset((channel, 1), (4 * number, 1))
        return closed(self.context.uses.say("mcc_load_words(&{0}[{1}])", name, place))
