"""Candle's element types as one release declares them: those that kernels compute with, and those that are only stored.

Which types there are comes from the release's `enum DType`; what kernels know comes from codegen/kernels/dtypes.py,
handed in by name so that this layer stays below the kernels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen.syntax.signatures import parse_trait
from codegen.syntax.variants import enum_variants

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

DTYPE = "candle-core/src/dtype.rs"

RUST_PATHS: Mapping[str, str] = {"bf16": "half::bf16", "f16": "half::f16", "f8e4m3": "float8::F8E4M3"}
"""Where Candle takes an element's Rust type from, if not from the language itself (candle-core/src/dtype.rs)."""


@dataclass(frozen=True, slots=True)
class ElementType:
    """An element type that the release and the kernels have."""

    variant: str
    """Of `DType`, `CpuStorage` and the backend's own storage: `BF16`."""
    name: str
    """What Candle's `DType::as_str` says, and the kernels' type: `bf16`."""
    rust: str
    """The Rust type of one element: `half::bf16`."""


@dataclass(frozen=True, slots=True)
class ElementTypes:
    """All element types of a release, in Candle's order."""

    computed: tuple[ElementType, ...]
    storage_only: tuple[str, ...]
    """Variants of `DType` that Candle only stores, loads and moves, such as `F6E2M3`."""
    unused_index: bool
    """Whether the largest number of an index type stands for no element; `IntDType` is bounded then (0.9.2-alpha.1)."""


def element_types(read: Callable[[str], bytes], kernel_types: Collection[str]) -> ElementTypes:
    """The element types of a Candle tree; `read` gives the pristine bytes of a path in it.

    Raises UnknownSite when the tree has no `enum DType` or no `trait IntDType` where all releases had it.
    """
    source = read(DTYPE)
    variants = enum_variants(source, "DType", path=DTYPE)
    known = tuple(variant for variant in variants if variant.lower() in kernel_types)
    return ElementTypes(
        computed=tuple(ElementType(v, v.lower(), RUST_PATHS.get(v.lower(), v.lower())) for v in known),
        storage_only=tuple(variant for variant in variants if variant not in known),
        unused_index="Bounded" in parse_trait(source, "IntDType", path=DTYPE).bounds,
    )
