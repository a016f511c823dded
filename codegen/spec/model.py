"""What a spec may say. Pydantic models: frozen, unknown keys refused, JSON schema for editors.

`specs/candle.yaml` is a `CandleSpec` (what a backend site looks like, on any release), and each
`specs/phases/N-name.yaml` a `PhaseSpec` (what that phase adds, and which sites are its own). A tree may have a
`candle-rocm.yaml` of its own, a `TreeSpec`; its models are in tree_model.py.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from codegen.spec.kinds import Difference, Early, Gating, Runtime, SiteKind, Verb

VERSION = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?")


def _version(value: str) -> str:
    if not VERSION.fullmatch(value):
        raise ValueError(f"'{value}' is not a version such as 0.9.1 or 0.9.2-alpha.1")
    return value


def _regex(value: str) -> str:
    try:
        re.compile(value)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"'{value}' is not a regular expression: {error}") from error
    return value


def as_tuple(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


Version = Annotated[str, AfterValidator(_version)]
Regex = Annotated[str, AfterValidator(_regex)]
Reason = Annotated[str, Field(min_length=10)]
Id = Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*\.[a-z0-9]+(-[a-z0-9]+)*$")]
Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
OneOrMore = Annotated[tuple[str, ...], BeforeValidator(as_tuple)]


class Model(BaseModel):
    """Base of all spec models."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=False)


class VersionRange(Model):
    """Releases a spec entry applies to; both ends inclusive, both optional."""

    since: Version | None = None
    until: Version | None = None


class RuntimeChoice(Model):
    """A way to reach ROCm's libraries that a spec entry is for."""

    runtime: Runtime | None = None
    """Only with this runtime; both when absent."""

    def is_for(self, runtime: Runtime) -> bool:
        """Whether the entry counts with this runtime."""
        return self.runtime in (None, runtime)


class Selector(Model):
    """Which sites a rule speaks about. All keys given must match; a list matches if one of its members does."""

    kind: Annotated[tuple[SiteKind, ...], BeforeValidator(as_tuple)] = ()
    crate: OneOrMore = ()
    path: OneOrMore = ()
    """Globs over the file's path in the tree; `**` crosses folders."""
    item: OneOrMore = ()
    """Globs over the enclosing item, such as `Storage::same_device` or `tests::*`."""
    enum: OneOrMore = ()
    """Backend enums named by the site's patterns."""
    name: OneOrMore = ()
    """Globs over the construct's own name, such as `as_cuda_device` or `test_device`."""
    gate: OneOrMore = ()
    """Globs over the `cfg` predicate that switches the site (its own or an enclosing item's), such as
    `feature = "cuda"`."""
    text: Regex | None = None
    """Searched for in the site's own text."""
    metal_only: bool = False
    """True selects sites that name Metal and not CUDA, and only those; by default they are not selected."""
    exhaustive: bool | None = None
    """Selects by whether rustc demands an arm as soon as the enum gains a variant."""


class SiteRule(VersionRange):
    """What happens at the selected sites, and why."""

    id: Id
    sites: Selector
    verb: Verb
    reason: Reason | None = None
    """Required for `leave` and `override`: where CUDA's answer is wrong for ROCm, say why."""
    early: Early = Early.MIRROR
    lands_in: int | None = None
    """Phase that writes it, when earlier than the phase it belongs to by theme."""
    gating: Gating | None = None
    """Only with this gating; both when absent."""
    fallback: bool = False
    """Asked last, after the rules of all phases: for sites that a release yet unknown may add."""
    ungated: bool = False
    """Also with gating cfg what is mirrored is there in every build: others rely on it, or it asks for the feature."""
    replace: dict[str, str] = {}
    """Literal corrections of the mirrored text, applied after the renaming."""


class Rule(SiteRule):
    """A rule of a phase."""

    template: str | None = None
    """Below `templates/`; required for `override`, refused elsewhere."""


class FileRule(VersionRange, RuntimeChoice):
    """A new file of the patched Candle."""

    id: Id
    path: str
    template: str | None = None
    """Below `templates/`. Where its name does not end in `.j2`, the file is taken as it stands, behind a header."""
    mirror: str | None = None
    """A Candle file to copy and rename instead of a template."""
    gating: Gating | None = None
    """Only with this gating; both when absent."""
    lands_in: int | None = None
    declares: OneOrMore = ()
    """Libraries of the API table. The file is rendered after the others, from the names `api::NAME` that they use."""


class CopyRule(VersionRange):
    """Files of this repository that the patched Candle gets as they are."""

    id: Id
    path: str
    """The folder of the patched Candle, or the file where `source` is one."""
    source: str
    """A folder of this repository, with everything below it but Rust sources, or a file."""


class ModuleRule(VersionRange, RuntimeChoice):
    """A module declaration that has no CUDA sibling."""

    id: Id
    path: str
    """The Candle file that declares it."""
    declaration: str
    """Attributes and `mod name;`, as they shall stand there."""
    gating: Gating | None = None
    """Only with this gating; both when absent."""


class StatementRule(VersionRange):
    """A statement in a function of Candle that names no backend. A tree without that place goes without it."""

    id: Id
    path: Annotated[OneOrMore, Field(min_length=1)]
    """The Candle files that have the function."""
    function: str
    """Its item, such as `Content::tensor`."""
    before: str
    """How the statement begins that it stands before; no other one of the function begins so."""
    tails: OneOrMore = ()
    """Where it does the work of what follows: digests of the texts that may follow, to the end of the block."""
    statement: str
    """With its attributes, as it shall stand there."""
    reason: Reason


class PhaseTests(VersionRange):
    """Candle's own tests that cannot pass on ROCm without a phase; where it is missing, each has to fail."""

    id: Id
    crate: str = "candle-core"
    names: Annotated[tuple[str, ...], Field(min_length=1)]
    """As libtest prints them: `qmm_cuda::rocm`."""
    reason: Reason


class CpuDifference(VersionRange):
    """Operations that differ from Candle's CPU backend: rocm_matrix fails if they do not."""

    id: Id
    operations: OneOrMore
    """Cases of rocm_matrix/operations.rs, below the folder of phase 3."""
    types: OneOrMore
    """Variants of Candle's `DType`; those that a release lacks do not count there."""
    kind: Difference
    reason: Reason


class CargoDependency(RuntimeChoice):
    """An optional dependency, declared in the workspace and inherited by one crate."""

    id: Id
    crate: str
    name: str
    version: str
    default_features: bool = True
    features: OneOrMore = ()


class CargoFeature(RuntimeChoice):
    """A Cargo feature derived from its CUDA sibling in each crate that has a ROCm story."""

    id: Id
    name: str
    mirrors: str
    """The CUDA feature whose `crate/feature` entries are renamed."""
    extra: dict[str, OneOrMore] = {}
    """Further entries per crate, such as the optional dependency itself."""


class CargoTarget(RuntimeChoice):
    """An `[[example]]` or other target that must be declared because it needs the feature."""

    id: Id
    crate: str
    kind: str = "example"
    name: str
    required_features: OneOrMore


class CargoConfig(RuntimeChoice):
    """A key of the tree's `.cargo/config.toml`."""

    id: Id
    table: str
    key: str
    value: str
    reason: Reason


class CargoSpec(Model):
    """Everything a phase does to manifests and cargo configuration."""

    dependencies: tuple[CargoDependency, ...] = ()
    features: tuple[CargoFeature, ...] = ()
    targets: tuple[CargoTarget, ...] = ()
    config: tuple[CargoConfig, ...] = ()


class PhaseSpec(Model):
    """One `specs/phases/N-name.yaml`."""

    phase: Annotated[int, Field(ge=0, le=7)]
    name: str
    summary: str
    requires: tuple[int, ...] = ()
    applied: bool = True
    """False while the phase is only scanned for: its sites are shown as `phase N, not applied`."""
    folder: str | None = None
    """Below `templates/`: files that the phase adds to Candle, each at the path that it gets there (folders.py)."""
    cargo: CargoSpec = CargoSpec()
    rules: tuple[Rule, ...] = ()
    modules: tuple[ModuleRule, ...] = ()
    statements: tuple[StatementRule, ...] = ()
    files: tuple[FileRule, ...] = ()
    copies: tuple[CopyRule, ...] = ()
    tests: tuple[PhaseTests, ...] = ()
    differences: tuple[CpuDifference, ...] = ()


class Pin(Model):
    """A dependency that a release builds with in an older version than cargo takes, which came out later."""

    crate: str
    version: Version
    reason: Reason


class Release(Model):
    """A Candle release that all oracles were run on."""

    version: Version
    exhaustive_matches: int
    """E0004 errors that rustc reports in candle-core when every backend enum gains one variant."""
    pins: tuple[Pin, ...] = ()
    """What scratch trees of the release are built with."""


class Crate(Model):
    """A crate of the Candle workspace."""

    name: str
    rocm: bool
    reason: Reason | None = None


class BackendEnum(Model):
    """An enum with one variant per backend."""

    name: str
    crate: str
    phase: int


class Choice(Model):
    """An enum of Candle whose variants choose what is computed; one that nothing answers is an unknown site."""

    enum: str
    file: str
    """Where Candle declares it."""
    family: str | None = None
    """The kernels that answer, one operation for each variant: `GeluErf` is `gelu_erf`. Without it, the variants are
    element types, those of `DType`."""
    named_by: str | None = None
    """The trait of the operations, whose `NAME` chooses the kernel when the program runs; without it, a match over the
    variants does, which has to know all of them."""
    plain: OneOrMore = ()
    """The variants are block formats, those of specs/blocks.yaml, but for these element types of `DType`."""


class CudaKernel(Model):
    """CUDA kernels that Candle's Rust names: what does their work on ROCm, or why nothing does."""

    symbol: Annotated[OneOrMore, Field(min_length=1)]
    """`<block>` stands for a format of specs/blocks.yaml in any of CUDA's spellings (`q4_K`, `q4_k`, `q4k`), and `*`
    for what Rust fills in when the program runs."""
    by: OneOrMore = ()
    """Operations of kernels, as `family.operation`."""
    reason: Reason | None = None
    """Why nothing of ours does the work."""

    @model_validator(mode="after")
    def _answered(self) -> CudaKernel:
        if bool(self.by) == (self.reason is not None):
            raise ValueError("say what does the work (`by`), or the reason why nothing does")
        return self


class Foreign(Model):
    """Files that are one backend's own and hold no dispatch over backends."""

    path: OneOrMore
    reason: Reason


class CudaLibrary(Model):
    """Cargo features that switch a library which only CUDA has."""

    feature: OneOrMore
    """Globs over the feature's name."""
    reason: Reason


class CandleSpec(Model):
    """`specs/candle.yaml`."""

    releases: tuple[Release, ...]
    crates: tuple[Crate, ...]
    enums: tuple[BackendEnum, ...]
    variants: dict[str, tuple[Name, ...]] = {}
    """How releases spell a variant of those enums; the key is how all rules, templates and messages do."""
    choices: tuple[Choice, ...] = ()
    cuda_kernels: tuple[CudaKernel, ...] = ()
    """For quantized tensors, and of `candle_kernels::ffi`; one that no entry names is an unknown site."""
    cuda_libraries: tuple[CudaLibrary, ...] = ()
    foreign: tuple[Foreign, ...]
    protected: tuple[str, ...] = ()
    """Identifiers that contain `cuda` and must never be renamed (another crate's names)."""

    def pins_of(self, release: str) -> tuple[Pin, ...]:
        """The pins of a tree whose candle-core has this version; none for a release that is not listed."""
        return next((each.pins for each in self.releases if each.version == release), ())


class Specs(Model):
    """All specs together, phases in ascending order."""

    candle: CandleSpec
    phases: tuple[PhaseSpec, ...]
