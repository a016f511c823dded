"""Dot and matrix instructions in the machine code of kernels, held against what the ops of the specs need."""

from __future__ import annotations

import os
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from codegen import programs
from codegen.errors import InputOutputError, KernelRejected, Location, Problem
from codegen.kernels.architectures import Architecture, architecture
from codegen.kernels.model import Need

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from codegen.kernels.compile import CodeObject
    from codegen.kernels.loader import LoadedFamily

_LINE = re.compile(
    r"^(?:[0-9a-f]+ )?<(?P<symbol>[^>]+)>:$"
    r"|\bv_(?:dual_)?(?P<instruction>(?:dot\d|s?mfmac?_|s?wmmac?_)\w*?)(?:_e32|_e64|_dpp8?|_e64_dpp8?|_sdwa)?(?=\s)",
    re.MULTILINE,
)
"""A label, or an instruction without its encoding's name. Of two in one (`v_dual_... :: v_dual_...`), each counts."""


@dataclass(frozen=True, slots=True)
class ObjectInstructions:
    """How often each dot and matrix instruction is in the kernels of one code object."""

    family: str
    architecture: Architecture
    kernels: Mapping[str, Mapping[str, int]]
    """Symbol to instruction (`v_dot4_i32_i8`) to how often the code has it, however often it runs."""


def read_instructions(
    objects: Iterable[CodeObject], disassembler: Path, *, jobs: int | None = None
) -> tuple[ObjectInstructions, ...]:
    """The instructions of each code object, in that order, as llvm-objdump shows them; `jobs` of it run at a time.

    Raises:
        InputOutputError: llvm-objdump does not start, does not end, or cannot read a code object.
    """
    with ThreadPoolExecutor(jobs or os.cpu_count()) as pool:
        return tuple(pool.map(lambda each: _read(each, disassembler), objects))


def count_instructions(disassembly: str) -> dict[str, dict[str, int]]:
    """Symbol to instruction to how often what follows its label has it, for each label of llvm-objdump's text."""
    counts: dict[str, Counter[str]] = {}
    current: Counter[str] = Counter()
    for found in _LINE.finditer(disassembly):
        if found["symbol"]:
            current = counts.setdefault(found["symbol"], Counter())
        else:
            current[f"v_{found['instruction']}"] += 1
    return {symbol: dict(sorted(count.items())) for symbol, count in counts.items()}


def needing(families: Iterable[LoadedFamily]) -> frozenset[str]:
    """Names of the families with an op that needs instructions."""
    return frozenset(loaded.name for loaded in families if any(op.needs for op in loaded.family.ops))


def check_instructions(found: Iterable[ObjectInstructions], families: Iterable[LoadedFamily]) -> None:
    """Hold the kernels of code objects against what their ops need.

    Raises:
        KernelRejected: kernels lack instructions that their architecture has. Every finding names the kernel, the
            architecture, the instructions and the op's line in the spec.
    """
    by_name = {loaded.name: loaded for loaded in families}
    problems = []
    for each in found:
        loaded = by_name[each.family]
        for kernel in loaded.kernels:
            wanted = _wanted(kernel.op.needs, each.architecture)
            there = each.kernels.get(kernel.symbol, {})
            if wanted and not any(fnmatchcase(name, pattern) for name in there for pattern in wanted):
                text = f"{kernel.symbol} on {each.architecture.name} has no {' or '.join(wanted)}"
                problems.append(Problem(text, Location.in_text(loaded.file, loaded.text, kernel.line)))
    if problems:
        raise KernelRejected(
            problems,
            remedy="look at the conditions that choose builtins in the headers; if the kernel is right all the same, "
            "correct `needs` in the spec, or the table codegen/kernels/architectures.py",
        )


def _wanted(need: Need | None, on: Architecture) -> tuple[str, ...]:
    """Patterns of the instructions of which a kernel must have one on an architecture; none where nothing is needed."""
    match need:
        case None:
            return ()
        case Need.DOT4:
            return tuple(filter(None, (on.dot4, on.matrix)))
        case Need.MATRIX:
            return tuple(filter(None, (on.matrix or on.dot4,)))
        case Need.HALVES:
            return tuple(filter(None, (on.halves,)))


def _read(code: CodeObject, disassembler: Path) -> ObjectInstructions:
    try:
        done = programs.run([disassembler, "--disassemble", "--no-show-raw-insn", code.path.absolute()])
    except programs.TookTooLong as cause:
        raise programs.hangs(str(disassembler), cause) from cause
    except OSError as cause:
        raise InputOutputError(
            f"{disassembler}: {cause.strerror or cause}", remedy="correct the ROCm that it belongs to, or its rights"
        ) from cause
    if done.returncode != 0:
        said = programs.complains(done).strip().partition("\n")[0]
        raise InputOutputError(
            f"{disassembler} cannot read {code.path}: {said or f'it exited with {done.returncode}'}",
            remedy="compile the kernels again, with the ROCm that the program is from",
        )
    return ObjectInstructions(code.family, architecture(code.architecture), count_instructions(programs.says(done)))
