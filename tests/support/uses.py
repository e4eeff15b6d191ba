"""What kernels ask for is what their C mentions."""

from __future__ import annotations

import re

from mccompile.codegen.facts import ModelFacts
from mccompile.codegen.helpers import helpers_of
from mccompile.codegen.uses import HEADER_OF, RUNTIME
from mccompile.targets.target import resolve


def words_of(text: str) -> set[str]:
    """The words of C beside its comments; those of functions only where they are called."""
    code = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    return set(re.findall(r"\b(?:mcc_\w+|MCC_\w+|[A-Z]+)\b|\b\w+(?=\()", code))


def check_uses(facts: ModelFacts) -> None:
    """Raises AssertionError unless kernels asked for the helpers and the library's names of their C, and no more."""
    known = helpers_of(resolve(facts.target)).keys() | HEADER_OF.keys()
    tables = [text for _, text in facts.tables]
    mentioned = words_of("\n".join([*(k.text for k in facts.kernels), *tables])) & known
    asked = facts.uses - RUNTIME
    assert asked == mentioned, f"unasked: {mentioned - asked}, unused: {asked - mentioned}"
