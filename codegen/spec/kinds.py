"""The words that specs choose from. Plain enums: what only needs a word need not load the models."""

from __future__ import annotations

from enum import StrEnum

BACKENDS = ("Cpu", "Cuda", "Metal")
"""The variants of Candle's own backend enums, as rules, templates and messages spell them."""


class SiteKind(StrEnum):
    """What a backend site is, syntactically. One row of the table that `candle-rocm scan` prints."""

    ENUM = "enum"
    MATCH = "match"
    MATCH_STR = "match-str"
    IF_LET = "if-let"
    MATCHES = "matches!"
    CONDITION = "condition"
    CFG_MACRO = "cfg!"
    CALL = "call"
    FN = "fn"
    FWD = "fwd"
    STATIC = "static"
    USE = "use"
    MOD = "mod"
    MACRO_ARG = "macro-arg"
    MACRO_RULES = "macro-rules"
    STATEMENT = "statement"
    CFG_ITEM = "cfg-item"
    CARGO_FEATURE = "cargo-feature"
    TEXT = "text"
    """A token that no construct claims."""
    ELEMENT_TYPE = "element-type"
    """A variant of `DType` that no kernel computes with: on ROCm it is stored, loaded and moved, and that is all."""
    OPERATION = "operation"
    """A variant that chooses what is computed, such as `ReduceOp::ArgMax`, and that nothing of ours answers."""
    CUDA_KERNEL = "cuda-kernel"
    """The name of a CUDA kernel for quantized tensors or experts whose work nothing of ours does."""
    FILE = "file"
    """A whole file that is one backend's own."""
    PY_DEF = "py-def"
    """Python: a function or class named, or decorated, for a backend."""
    PY_ASSIGN = "py-assign"
    PY_IMPORT = "py-import"
    PY_CHOICE = "py-choice"
    """Python: one of several alike, such as `TypeVar("Device", CPU, CUDA)`."""
    PY_CONDITION = "py-condition"
    PY_STATEMENT = "py-statement"
    """Python: a call by itself."""
    PY_TEXT = "py-text"
    """Python: a token outside comments and docstrings that no construct claims."""


class Verb(StrEnum):
    """How the ROCm form of a site is made."""

    MIRROR = "mirror"
    """Copy the CUDA text, rename it, insert it after the original."""
    SWAP = "swap"
    """A function named for CUDA becomes its Cuda<->Rocm swap; the original learns the ROCm variant first."""
    FOREIGN = "foreign"
    """Inside code of another backend: derive the ROCm arm from the Metal arm where the match is exhaustive."""
    OR_IN = "or-in"
    """Widen a condition, an or-pattern or an item's `cfg`: `is_cuda()` becomes `is_cuda() || is_rocm()`."""
    CHAIN = "chain"
    """Add an `else if` because the consequence itself names CUDA; `cuda_if_available` asks for ROCm next."""
    OVERRIDE = "override"
    """CUDA's answer is wrong for ROCm: the template says what stands there instead."""
    LEAVE = "leave"
    """Nothing to do, for the reason given."""


class Early(StrEnum):
    """What stands at a site between the phase whose variant makes rustc demand an arm and the site's own phase."""

    MIRROR = "mirror"
    STAND_IN = "stand-in"
    """An arm that returns a typed error naming the operation and the phase that brings it."""


class Difference(StrEnum):
    """How an operation of the ROCm backend differs from Candle's CPU backend; the words are those of rocm_matrix."""

    NOT_ASKED = "NotAsked"
    """The CPU must not be asked: it would end the process, or never answer."""
    MORE = "More"
    """ROCm gives a result where the CPU refuses."""
    WRONG = "Wrong"
    """The CPU's result is wrong, or much coarser than its type."""


class Gating(StrEnum):
    """How generated branches are switched off when the `rocm` feature is."""

    DUMMY = "dummy"
    CFG = "cfg"


class Runtime(StrEnum):
    """How generated code reaches ROCm's libraries."""

    ROCM_RS = "rocm-rs"
    """Through rocm-rs's declarations and our own; the build script links the libraries."""
    DYNAMIC = "dynamic"
    """Through libloading when the program runs: one binary for machines with and without ROCm."""


DEFAULT_RUNTIME = Runtime.DYNAMIC
"""Needs nothing when a program is built, from whatever folder it is built."""
