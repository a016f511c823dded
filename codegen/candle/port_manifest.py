"""The feature `rocm` of a crate, beside its feature `cuda`: what that turns on, in ROCm's names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from codegen.candle import toml_text
from codegen.candle.manifest import extend_feature
from codegen.candle.program import WITH_FEATURE, dependencies, table_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from codegen.candle.program import Dependency

CUDA, ROCM = "cuda", "rocm"
CUDA_ONLY = {
    "cudarc": "what programs use of it is in candle_core::rocm::driver",
    "candle-kernels": "Candle's own kernels in PTX are no part of ROCm's public face",
    "candle-flash-attn": "candle_core::rocm::flash_attn has its functions",
    "candle-flash-attn-v3": "candle_core::rocm::flash_attn has its functions, but for those of FlashAttention 3 alone",
    "candle-flash-attn-build": "it calls nvcc",
    "cudaforge": "it calls nvcc",
    "bindgen_cuda": "it calls nvcc",
    "nvml-wrapper": "it asks NVIDIA's driver; RocmDevice has free_memory and total_memory",
}
"""Crates that are of use for CUDA alone, and what there is instead."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What the manifest says of CUDA in one place, and what becomes of it."""

    line: int
    what: str
    outcome: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class PortedManifest:
    """The manifest with the feature."""

    text: str
    entries: tuple[Entry, ...]
    default_cuda: bool
    """Whether the features that are on by default turn CUDA on."""


def port_manifest(text: str, path: str, workspace: Mapping[str, Any], own: set[str]) -> PortedManifest:
    """The manifest `text` at `path`; `own` are the packages of the same workspace, which are ported as well.

    Raises:
        NotACandleTree: the manifest is not TOML.
        Conflict: its features are written in a form that is not edited here.
    """
    manifest = toml_text.load(text, path)
    if "package" not in manifest:
        return PortedManifest(text, (), default_cuda=False)
    found = tuple(dependencies(manifest, workspace))
    features = table_of(manifest, "features")
    wanted: list[str] = []
    entries: list[Entry] = []
    line = toml_text.line_of_key(text, CUDA)
    for entry in _entries(features.get(CUDA)):
        mirrored, note = _mirrored(entry, found, features, own)
        wanted += [mirrored] if mirrored else []
        what = f"feature {CUDA}: {entry}"
        entries.append(Entry(line, what, "mirrored" if mirrored else "by hand", f"as {mirrored}" if mirrored else note))
    for each in found:  # the feature of Candle's crates, whatever turns CUDA on
        name = f"{each.key}{'?' if each.wanted.get('optional') else ''}/{ROCM}"
        if each.package in WITH_FEATURE and not any(entry.replace("?", "") == f"{each.key}/{ROCM}" for entry in wanted):
            wanted.append(name)
        entries += _always(text, each)
    entries += _implied(text, features)
    changed = extend_feature(text, ROCM, wanted, file=path)
    return PortedManifest(changed, tuple(entries), default_cuda=CUDA in _reached("default", features))


def _entries(value: object) -> tuple[str, ...]:
    return tuple(str(each) for each in value) if isinstance(value, list) else ()


def _mirrored(entry: str, found: tuple[Dependency, ...], features: Mapping[str, Any], own: set[str]) -> tuple[str, str]:
    """The entry for ROCm, or why there is none."""
    by_key = {each.key: each for each in found}
    crate, _, feature = entry.partition("/")
    if not feature:
        name = entry.removeprefix("dep:")
        known = by_key.get(name)
        package = known.package if known is not None else name
        if package in CUDA_ONLY:
            return "", CUDA_ONLY[package]
        if known is None and CUDA in _reached(entry, features):
            return "", "it turns CUDA on"
        if CUDA in package:
            return "", "its name says that it is for CUDA"
        return entry, ""
    known = by_key.get(crate.removesuffix("?"))
    package = known.package if known is not None else crate
    if feature == CUDA and (package in WITH_FEATURE or package in own):
        return f"{crate}/{ROCM}", ""
    if feature == CUDA:
        return "", f"{package} has no feature {ROCM} that is known: port it, too, or it computes without a GPU"
    if CUDA in feature or feature in ("cudnn", "nccl", "cutile"):
        return "", f"{package} has no such feature for ROCm"
    return entry, ""


def _always(text: str, each: Dependency) -> Iterator[Entry]:
    """CUDA that no feature of the crate turns on."""
    on = _entries(each.wanted.get("features"))
    line = toml_text.line_of_key(text, each.key)
    if CUDA in on and each.package in WITH_FEATURE:
        note = f"CUDA is always on: a build for ROCm needs nvcc, until `{CUDA}` is a feature of this crate"
        yield Entry(line, f"dependency {each.key}, with {CUDA}", "by hand", note)
    if each.package in CUDA_ONLY and each.wanted.get("optional") is not True:
        yield Entry(line, f"dependency {each.key}", "by hand", f"it is always there; {CUDA_ONLY[each.package]}")


def _implied(text: str, features: Mapping[str, Any]) -> Iterator[Entry]:
    """Other features that turn CUDA on."""
    for name in features:
        if name not in (CUDA, "default") and CUDA in _reached(name, features):
            yield Entry(toml_text.line_of_key(text, name), f"feature {name}", "by hand", "it turns CUDA on")


def _reached(name: str, features: Mapping[str, Any]) -> set[str]:
    """The features that one turns on, itself among them."""
    reached, waiting = set(), [name]
    while waiting:
        each = waiting.pop()
        if each not in reached:
            reached.add(each)
            waiting += [entry for entry in _entries(features.get(each)) if entry in features]
    return reached
