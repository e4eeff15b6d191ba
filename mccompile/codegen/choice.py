"""One network compiled for several targets, of which a program takes one when it runs: ``--targets``.

What an application sees is a `ModelFacts` like any other, so that examples, tests and packages need not know. Its
header and its C file pass each function on to the program of the target that was taken. Of these *parts*

    digits           digits_x86_64_v2           digits_x86_64_v3         C files, each with flags of its own
    digits_arena  =  digits_x86_64_v2_arena  |  digits_x86_64_v3_arena   a union: as large as the largest
    digits.mcb    =  header, (blob of v2), (blob of v3)                  a blob whose payload are theirs

Parts whose weights lie alike share one blob: with x86-64-v4 and x86-64-v4-vnni a float network has two, not three.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from mccompile.codegen.blob import ID_BYTES, Blob, BlobTensor, read_blob, write_blob
from mccompile.codegen.facts import Arena, ModelFacts, Part
from mccompile.codegen.names import USUAL, identifier
from mccompile.codegen.pieces import Pieces
from mccompile.targets.processor import family, questions
from mccompile.targets.target import Target


def part_name(name: str, target: Target) -> str:
    """The prefix of a network's C for one of its targets.

    >>> from mccompile.targets.target import targets
    >>> part_name("digits", targets()["x86-64-v3"])
    'digits_x86_64_v3'
    """
    return f"{name}_{identifier(target.name)}"


def make_choice(name: str, made: Sequence[ModelFacts], targets: Sequence[Target]) -> ModelFacts:
    """The facts of the network that is one of ``made``, which are for ``targets`` and aligned alike."""
    made, blob, places = _one_blob(name, made)
    rows = zip(made, targets, places, strict=True)
    parts = tuple(Part(identifier(t.name), m, place, family(t), questions(t)) for m, t, place in rows)
    first, align = made[0], max(m.align for m in made)
    outer = read_blob(bytes(blob))
    size = max(m.arena_bytes for m in made)
    macro = f"{name.upper()}_ARENA_BYTES"
    arena = Arena(f"{name}_arena", "arena", "a", macro, f"{name}_arena_size", size, "", [])
    return replace(
        first,
        name=name,
        target=" or ".join(t.name for t in targets),
        c_flags="-std=c99",
        requires=(),
        align=align,
        arena_bytes=size,
        weights_bytes=len(outer.payload),
        arenas=[arena],
        kernels=[],
        kernels_header="",
        headers=tuple(sorted({h for m in made for h in m.headers})),
        indent=USUAL.indent,
        checked=any(m.checked for m in made),
        id_bytes=_bytes_text(outer.program_id),
        blob=blob,
        parts=parts,
    )


def _one_blob(name: str, made: Sequence[ModelFacts]) -> tuple[list[ModelFacts], Pieces, list[int]]:
    """The facts with ids of shared blobs; the blob of all; where in its payload that of each begins."""
    blobs = [read_blob(bytes(m.blob)) for m in made]
    payload, sections, at = bytearray(), [], {}
    done: list[ModelFacts] = []
    align = max(m.align for m in made)
    for m, own in zip(made, blobs, strict=True):
        alike = [i for i, other in enumerate(blobs) if _same_weights(own, other)]
        program_id = own.program_id if len(alike) == 1 else _joint_id([blobs[i].program_id for i in alike])
        data = bytes(write_blob(own.payload, own.tensors, program_id, own.align))
        done.append(replace(m, blob=Pieces((data,)), id_bytes=_bytes_text(program_id)))
        if program_id not in at:
            payload += bytes(-len(payload) % align)
            at[program_id] = len(payload)
            title = "+".join(made[i].target for i in alike)
            sections.append(BlobTensor(title, "u8", (len(data),), len(payload), len(data)))
            payload += data
    payload += bytes(-len(payload) % 8)
    ids = [read_blob(bytes(m.blob)).program_id for m in done]
    return done, write_blob(bytes(payload), sections, _joint_id(ids), align), [at[i] for i in ids]


def _same_weights(a: Blob, b: Blob) -> bool:
    return (a.payload, a.tensors, a.align) == (b.payload, b.tensors, b.align)


def _joint_id(ids: Sequence[bytes]) -> bytes:
    return hashlib.sha256(b"".join(ids)).digest()[:ID_BYTES]


def _bytes_text(program_id: bytes) -> str:
    return ", ".join(f"0x{b:02x}" for b in program_id)
