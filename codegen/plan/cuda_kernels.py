"""CUDA's kernels for quantized tensors and experts, held against what specs/candle.yaml says does their work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen.errors import Problem
from codegen.kernels.blocks import load_blocks
from codegen.syntax.kernel_symbols import kernel_symbols, names_kernels

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codegen.candle.tree import CandleTree
    from codegen.spec.loaded import LoadedSpecs
    from codegen.spec.model import CudaKernel
    from codegen.syntax.kernel_symbols import KernelSymbol
    from codegen.syntax.source import Source

QUANTIZED = "candle-core/src/quantized/"
"""Candle's files that are all about quantized tensors: every CUDA kernel that they name counts."""
BLOCK = "<block>"
REMEDY = "say under `cuda_kernels` in specs/candle.yaml which operations do the work of a CUDA kernel"


def may_name_kernels(path: str, text: bytes) -> bool:
    """Whether a file is worth being parsed for its kernels."""
    return names_kernels(text, every=path.startswith(QUANTIZED))


def kernels_named(source: Source) -> tuple[KernelSymbol, ...]:
    """The kernels that a file names; see `kernel_symbols`."""
    return kernel_symbols(source, every=source.path.startswith(QUANTIZED))


@dataclass(frozen=True, slots=True)
class KernelBook:
    """The entries under `cuda_kernels`, by the symbols that they stand for."""

    names: tuple[tuple[str, CudaKernel], ...]
    formats: frozenset[str]

    @classmethod
    def of(cls, entries: Iterable[CudaKernel]) -> KernelBook:
        """The entries with the formats that specs/blocks.yaml lists."""
        names = tuple((name, entry) for entry in entries for name in entry.symbol)
        formats = [block.name for block in load_blocks()] if any(BLOCK in name for name, _ in names) else []
        return cls(names, frozenset(formats))

    def entry_of(self, symbol: str) -> CudaKernel | None:
        """The entry that names a symbol, None where none does; the symbol is empty where it cannot be read."""
        return next((entry for name, entry in self.names if stands_for(name, symbol, self.formats)), None)


def stands_for(name: str, symbol: str, formats: Iterable[str]) -> bool:
    """Whether a name of the specs stands for a symbol: `get_rows_<block>` for `get_rows_q4_K`."""
    front, block, back = name.partition(BLOCK)
    if not block or not (symbol.startswith(front) and symbol.endswith(back)):
        return name == symbol
    spelled = symbol[len(front) : len(symbol) - len(back)]
    bare = spelled.replace("_", "").lower()
    return spelled == spelled.strip("_") and any(bare == known.replace("_", "") for known in formats)


def unaccounted(symbol: str) -> str:
    """What is wrong at a kernel that no entry names."""
    if not symbol:
        return "a CUDA kernel is named here in a way that candle-rocm cannot read"
    return f"no entry under `cuda_kernels` in specs/candle.yaml names the CUDA kernel {symbol}"


def missing_kernels(tree: CandleTree, specs: LoadedSpecs, named: int) -> tuple[Problem, ...]:
    """What is wrong with a tree in whose Rust the scan finds none of CUDA's kernels, though the specs name some."""
    if named or not specs.candle.cuda_kernels or "candle-core" not in {crate.path for crate in tree.crates}:
        return ()
    where = f"in {QUANTIZED}, or of candle_kernels::QUANTIZED"
    return (Problem(f"Candle {tree.release} names no CUDA kernel for quantized tensors {where} (renamed, or moved?)"),)
