"""What a kernel spec may say: one family of ops that share a template, a file and a way to launch.

A family renders `templates/hip/<family>.hip.j2` into `<family>.hip`. Each op is instantiated for every combination of
its types and every variant; the symbol is `<op>_<type>..._<variant>` (an empty variant adds nothing).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from codegen.kernels.dtypes import DType, Kind, expand
from codegen.spec.model import Model, Reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from codegen.kernels.blocks import Block

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9]*(_[a-z0-9]+)*$")]


Architectures = Annotated[str, Field(pattern=r"^(gfx[0-9a-f]+|sm)$")]
"""How the names of some architectures begin: `gfx9`, `gfx90a`; `sm` is HIP on NVIDIA."""


def _names(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


def _known(names: tuple[str, ...]) -> tuple[str, ...]:
    expand(names)
    return names


AnyTypes = Annotated[tuple[str, ...], BeforeValidator(_names), AfterValidator(_known)]
Types = Annotated[AnyTypes, Field(min_length=1)]


class Budget(Model):
    """The most that a kernel may use, on any architecture; spills are never allowed."""

    vgprs: Annotated[int, Field(ge=1, le=512)]
    """Vector registers per lane, accumulation registers included. More are allowed where they cost no wave."""
    lds: Annotated[int, Field(ge=0, le=65536)]
    """Bytes of statically allocated LDS per block."""


class Variant(Model):
    """One way in which a family's ops are instantiated: a memory layout, a row length, a head size."""

    name: Annotated[str, Field(pattern=r"^([a-z0-9]+(_[a-z0-9]+)*)?$")]
    """Ends the symbol; empty for the family's plain form."""
    about: str
    constants: dict[Name, int] = Field(default_factory=dict)
    """Compile-time numbers of the variant, by name."""
    budget: Budget | None = None
    """Of its kernels, where it is not the family's."""


class Hole(Model):
    """Types for which the op is not made although the CPU backend has it, and why."""

    types: Types
    reason: Reason


class Unasked(Model):
    """Types whose kernels the Rust backend never asks for, and why they are made all the same."""

    types: Types
    reason: Reason


class Contract(Model):
    """What a result may differ by from Candle's CPU backend."""

    ulps: Annotated[int, Field(ge=0)]
    """Units in the last place of the result's type; 0 is bit-exact (any NaN equals any NaN)."""
    note: str = ""
    """What the number leaves open: NaN, overflow, order of summation."""


class Need(StrEnum):
    """What kernels must be made of where an architecture has it (`codegen.kernels.instructions`)."""

    DOT4 = "dot4"
    """Sums of four products of signed bytes; instructions for matrices will do as well."""
    MATRIX = "matrix"
    """Products of matrices of signed bytes; `dot4` where there are no such instructions."""
    HALVES = "halves"
    """Products of matrices of 16-bit floats."""


class Op(Model):
    """One operation of a family."""

    name: Name
    about: str
    types: dict[Name, Types]
    """Role (`dtype`, `src`, `ids`) to the types it takes; the kernels are their product."""
    distinct: bool = False
    """Whether combinations of equal types are left out of the product."""
    expressions: dict[str, str] = Field(default_factory=dict)
    """C++ text by type or kind of type (`f8e4m3`, `float`, `any`), for families whose ops differ in an expression."""
    parameters: tuple[Name, ...] = ()
    """Numbers that each launch gives to the expression, in the type that values are computed in."""
    variants: tuple[str, ...] | None = None
    """The family's variants that the op has; all of them if not given."""
    cpu: AnyTypes
    """Types for which Candle's CPU backend has the op; none for an op that only GPUs have."""
    holes: tuple[Hole, ...] = ()
    unasked: tuple[Unasked, ...] = ()
    """By the type of the op's first role."""
    serves: tuple[Name, ...] = ()
    """More of Candle's ops that these kernels compute: conv1d is conv2d of one row."""
    part_of: Name | None = None
    """The op of Candle of which these kernels are one way or one step; none if they are named for it."""
    needs: Need | None = None
    """Instructions that each of its kernels must have."""
    contract: Contract | None = None
    """If it differs from the family's."""

    def case(self, element: DType) -> str:
        """Which of the expressions is an element type's: its own, its kind's or any's. Raises KeyError without one."""
        for case in (element.name, element.kind.value, "any"):
            if case in self.expressions:
                return case
        raise KeyError(element.name)

    @model_validator(mode="after")
    def _complete(self) -> Op:
        if self.expressions and "any" not in self.expressions:
            first = next(iter(self.types.values()))
            for element in expand(first):
                if element.kind is not Kind.BITS and not {element.name, element.kind.value} & self.expressions.keys():
                    raise ValueError(f"{self.name} takes {element} but has no expression for {element.kind.value}")
        return self

    @model_validator(mode="after")
    def _unasked_are_made(self) -> Op:
        made = set(expand(next(iter(self.types.values()))))
        for unasked in self.unasked:
            if strange := set(expand(unasked.types)) - made:
                raise ValueError(f"{self.name} has no {min(map(str, strange))} that could be left unasked")
        return self


class Family(Model):
    """A file `specs/kernels/<family>.yaml`."""

    family: Name
    about: str
    source: str
    """Where Candle defines what these ops compute."""
    launch: dict[Name, int]
    """Launch geometry and tile sizes: numbers that host and kernels share."""
    tuned: dict[Architectures, dict[Name, int]] = Field(default_factory=dict)
    """Those of them that differ on some architectures."""
    variants: tuple[Variant, ...] = (Variant(name="", about="The only form."),)
    blocks: bool = False
    """Whether ops are instantiated for each of GGML's block formats (specs/blocks.yaml), in place of variants."""
    budget: Budget
    contract: Contract
    ops: Annotated[tuple[Op, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _consistent(self) -> Family:
        names = [op.name for op in self.ops]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"op {twice[0]} is listed twice")
        if self.blocks and "variants" in self.model_fields_set:
            raise ValueError("a family of block formats has no variants of its own")
        variants = {variant.name for variant in self.variants}
        for op in self.ops:
            if strange := set(op.variants or ()) - variants:
                raise ValueError(f"{op.name} has no variant '{min(strange)}': this family has {sorted(variants)}")
        for architectures, numbers in self.tuned.items():
            if strange := numbers.keys() - self.launch.keys():
                raise ValueError(f"{architectures} tunes '{min(strange)}', which `launch` does not have")
        return self

    def with_formats(self, formats: Iterable[Block]) -> Family:
        """The family with a variant for each block format."""
        made = tuple(
            Variant(name=block.name, about=f"{block.elements} elements in {block.bytes} bytes.") for block in formats
        )
        return self.model_copy(update={"variants": made})

    def numbers(self, architecture: str) -> dict[str, int]:
        """The launch numbers on an architecture: what the longest name that it begins with says, or the usual."""
        matching = sorted((prefix for prefix in self.tuned if architecture.startswith(prefix)), key=len)
        return self.launch | {name: number for prefix in matching for name, number in self.tuned[prefix].items()}

    def tuned_numbers(self) -> tuple[str, ...]:
        """Names of the numbers that are not the same on all architectures, sorted."""
        return tuple(sorted({name for numbers in self.tuned.values() for name in numbers}))


@dataclass(frozen=True, slots=True)
class Kernel:
    """One `extern "C"` function of a family's source."""

    symbol: str
    op: Op
    types: Mapping[str, DType]
    """Role to element type."""
    variant: Variant
    line: int
    """Of the op in its spec, counting from 1."""

    @property
    def type(self) -> DType:
        """The type of the op's first role."""
        return next(iter(self.types.values()))

    @property
    def case(self) -> str:
        """Which of the op's expressions is `type`'s."""
        return self.op.case(self.type)

    @property
    def expression(self) -> str:
        """The op's C++ text for `type`."""
        return self.op.expressions[self.case]

    def constant(self, name: str) -> int:
        """A compile-time number of the variant."""
        return self.variant.constants[name]


def kernels_of(family: Family, lines: Mapping[str, int]) -> tuple[Kernel, ...]:
    """Every kernel of a family, in the spec's order; `lines` has the line of each op."""
    made = []
    for op in family.ops:
        of_op = [v for v in family.variants if op.variants is None or v.name in op.variants]
        for types in itertools.product(*(expand(names) for names in op.types.values())):
            if op.distinct and len(set(types)) < len(types):
                continue
            roles = dict(zip(op.types, types, strict=True))
            for variant in of_op:
                parts = (op.name, *(t.name for t in types), variant.name)
                symbol = "_".join(part for part in parts if part)
                made.append(Kernel(symbol, op, roles, variant, lines[op.name]))
    return tuple(made)
