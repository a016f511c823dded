"""What the `candle-rocm.yaml` of a tree may say: the language of the phases, as far as a stranger may speak it.

The file comes with a tree, so it is somebody else's. Nothing in it is run: a text that an override writes is plain
text, what a selector searches for is plain text too, and a glob is matched in linear time.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from codegen.spec.model import (
    BackendEnum,
    Crate,
    CudaLibrary,
    Foreign,
    Model,
    Reason,
    Selector,
    SiteRule,
    as_tuple,
)

LONGEST_GLOB = 200
LONGEST_TEXT = 16 << 10
MOST_STARS = 8
MOST_ENTRIES = 500
TO_FILL_IN = "FILL IN"
"""A reason that begins with these words is one that a person has still to write."""


class TreeGlob(str):
    """A glob out of a tree: `codegen.plan.select` matches it without going back."""

    __slots__ = ()


def _glob(value: str) -> TreeGlob:
    if len(re.findall(r"\*+", value)) > MOST_STARS:
        raise ValueError(f"a glob of a tree has at most {MOST_STARS} stars")
    return TreeGlob(value)


def _literal(value: str) -> str:
    """The regular expression that finds the text as it stands."""
    return re.escape(value)


Glob = Annotated[str, Field(max_length=LONGEST_GLOB), AfterValidator(_glob)]
Globs = Annotated[tuple[Glob, ...], BeforeValidator(as_tuple)]


class TreeSelector(Selector):
    """Which sites a rule of a tree speaks about. All keys given must match; a list matches if one member does."""

    path: Globs = ()
    """Globs over the file's path in the tree; `**` crosses folders."""
    item: Globs = ()
    """Globs over the enclosing item, such as `Storage::same_device` or `tests::*`."""
    name: Globs = ()
    """Globs over the construct's own name, such as `as_cuda_device`; of an element type, its variant."""
    gate: Globs = ()
    """Globs over the `cfg` predicate that switches the site, such as `feature = "cuda"`."""
    text: Annotated[str, Field(max_length=LONGEST_GLOB), AfterValidator(_literal)] | None = None
    """Plain text that the site's own text has; no regular expression."""


class TreeRule(SiteRule):
    """What happens at sites of this tree."""

    sites: TreeSelector
    phase: Annotated[int, Field(ge=0, le=7)] | None = None
    """The phase that writes it; required, but for `leave` and where `instead_of` names a rule that has one."""
    text: Annotated[str, Field(max_length=LONGEST_TEXT)] | None = None
    """Required for `override`, refused elsewhere: what is written, as it stands."""
    instead_of: str | None = None
    """A rule of candle-rocm's own that decides these sites otherwise. Without it, candle-rocm's rules come first."""


class TreeForeign(Foreign):
    """Files that are one backend's own and hold no dispatch over backends."""

    path: Globs


class TreeCudaLibrary(CudaLibrary):
    """Cargo features that switch a library which only CUDA has."""

    feature: Globs


class ExtraBackend(Model):
    """A backend of this tree beside Candle's: a variant of its enums, to which ROCm stands as CUDA and Metal do."""

    name: Annotated[str, Field(pattern=r"^[A-Z][A-Za-z0-9]*$", max_length=60)]
    """The variant, such as `Vulkan`."""
    reason: Reason
    """Why ROCm needs nothing where this backend is named and CUDA is not: those places are not looked at."""


class TreeSpec(Model):
    """The `candle-rocm.yaml` of a tree."""

    crates: Annotated[tuple[Crate, ...], Field(max_length=MOST_ENTRIES)] = ()
    """Crates of the workspace that Candle does not have, with a ROCm story or without."""
    enums: Annotated[tuple[BackendEnum, ...], Field(max_length=MOST_ENTRIES)] = ()
    """Further enums with one variant per backend."""
    backends: Annotated[tuple[ExtraBackend, ...], Field(max_length=MOST_ENTRIES)] = ()
    cuda_libraries: Annotated[tuple[TreeCudaLibrary, ...], Field(max_length=MOST_ENTRIES)] = ()
    foreign: Annotated[tuple[TreeForeign, ...], Field(max_length=MOST_ENTRIES)] = ()
    protected: Annotated[tuple[str, ...], Field(max_length=MOST_ENTRIES)] = ()
    """Further identifiers that must never be renamed."""
    rules: Annotated[tuple[TreeRule, ...], Field(max_length=MOST_ENTRIES)] = ()
