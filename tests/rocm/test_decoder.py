"""amdgpu/isa decodes the machine code of every kernel as llvm-objdump does: place, length and text of instructions."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import pytest
from rocm_toolchain import architectures, real_disassembler, real_toolchain

from codegen import programs
from codegen.amdgpu.topology import CARDS
from codegen.kernels.compile import compile_kernels
from codegen.kernels.loader import load_families
from codegen.kernels.render import render_sources
from codegen.paths import repository_root
from rocm.rocblas import KINDS, fallback

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

LANES = {"gfx90a": 64, "gfx942": 64, "gfx1100": 32, "gfx1151": 32, "gfx1201": 32}
"""Of a wave, for the architectures whose instruction sets there are."""
WANTED = [name for name in architectures() if name in LANES]
THEIRS = re.compile(r"^\s+(?P<text>\S.*?)\s*// (?P<place>[0-9A-F]+): (?P<words>(?:[0-9A-F]{8} ?)+)", re.MULTILINE)
LEAST = 500_000
"""Instructions of an architecture; there were 790 thousand and more."""
LEAST_OF_ROCBLAS = 2000
"""Instructions of one of its objects."""


class Decoded(NamedTuple):
    """An instruction."""

    bytes: int
    text: str


def theirs(code: Path) -> dict[int, Decoded]:
    """By place, as llvm-objdump has it."""
    text = programs.says(programs.run([real_disassembler(), "--disassemble", code]))
    found = THEIRS.finditer(text)
    return {int(one["place"], 16): Decoded(4 * len(one["words"].split()), one["text"]) for one in found}


def ours(code: Path, architecture: str) -> dict[int, Decoded]:
    program = repository_root() / "build/amdgpu/release/disassemble"
    if not program.exists():
        pytest.skip("the decoder is not built (make amdgpu)")
    command = [str(program), architecture, str(LANES[architecture]), str(code)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    parts = (line.split(" ", 2) for line in lines)
    return {int(place, 16): Decoded(int(length), text) for place, length, text in parts}


def differences(expected: Mapping[int, Decoded], found: Mapping[int, Decoded]) -> list[str]:
    return [
        f"{place:#x}: {wanted.text} ({wanted.bytes} bytes), and not {found.get(place)}"
        for place, wanted in expected.items()
        if found.get(place) != wanted
    ]


def without_labels(found: Mapping[int, Decoded]) -> dict[int, Decoded]:
    """The same, but for where branches go to: objects have names for that."""
    is_branch = re.compile(r"s_(cbranch\w*|branch) ")
    return {
        place: Decoded(one.bytes, one.text.split()[0]) if is_branch.match(one.text) else one
        for place, one in found.items()
    }


@pytest.mark.parametrize("architecture", CARDS)
@pytest.mark.parametrize("kind", KINDS)
def test_instructions_of_rocblas_are_decoded_as_llvm_does(architecture: str, kind: str) -> None:
    code = fallback(kind, architecture)

    expected = without_labels(theirs(code))

    assert len(expected) > LEAST_OF_ROCBLAS
    assert differences(expected, without_labels(ours(code, architecture)))[:20] == []


@pytest.mark.parametrize("architecture", WANTED)
def test_every_instruction_of_every_kernel_is_decoded_as_llvm_does(architecture: str) -> None:
    objects = compile_kernels(render_sources(load_families()), [architecture], real_toolchain())
    names: Counter[str] = Counter()
    wrong = []

    for code in objects:
        expected = theirs(code.path)
        wrong += [f"{code.path.name} {line}" for line in differences(expected, ours(code.path, architecture))]
        names.update(found.text.split()[0] for found in expected.values())

    assert wrong[:20] == []
    print(f"{architecture}: {names.total()} instructions, {len(names)} mnemonics, all as llvm-objdump has them")
    assert names.total() > LEAST
