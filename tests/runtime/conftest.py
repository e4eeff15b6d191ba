"""Fixtures of the runtime's tests: a sample blob and the numbers that mcc.h defines."""

from __future__ import annotations

import re

import pytest

from mccompile.codegen.blob import blob_id, write_blob
from tests.runtime.support import ALIGN, RUNTIME, sample_tensors


@pytest.fixture(scope="session")
def payload() -> bytes:
    return bytes((i * 37 + 11) & 0xFF for i in range(37))


@pytest.fixture(scope="session")
def program_id(payload: bytes) -> bytes:
    return blob_id("program @t {}", sample_tensors(), len(payload), ALIGN)


@pytest.fixture(scope="session")
def blob(payload: bytes, program_id: bytes) -> bytes:
    return bytes(write_blob(payload, sample_tensors(), program_id, ALIGN))


@pytest.fixture(scope="session")
def header_numbers() -> dict[str, int]:
    """Every enumerator and plain number that mcc.h defines."""
    text = (RUNTIME / "mcc.h").read_text(encoding="utf-8")
    found = re.findall(r"^#define (MCC_\w+) (0x[0-9A-F]+|\d+)u?\b", text, re.MULTILINE)
    found += re.findall(r"^ +(MCC_\w+) = (\d+)", text, re.MULTILINE)
    return {name: int(number, 0) for name, number in found}
