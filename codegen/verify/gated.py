"""Examples that stand behind `required-features`: which of them a step builds, and why it leaves out the others.

The features are the same for every release, and asked of the manifests at hand: which of them a release has, and which
of its examples they reach. `cargo metadata` would say as much, but for its need of a tree that cargo may write into.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from codegen.verify.steps import Step

    Manifests = Mapping[str, Mapping[str, Any]]
    """By the name of the crate."""

EXAMPLE_FEATURES = ("candle-datasets", "depth_anything_v2", "pdf2image", "pyo3", "rubato", "symphonia", "tekken")
"""Features of candle-examples whose crates build everywhere. No release lacks all; 0.9.1 has no `tekken`."""

_CUDA = "needs CUDA's toolkit"
_MACOS = "needs macOS"
_ALSA = "needs ALSA's headers, for sound that is played or recorded"
NOT_BUILT = {
    "accelerate": _MACOS,
    "buildtime-download": "downloads a model when it is built",
    "cuda": _CUDA,
    "cudnn": _CUDA,
    "cutile": _CUDA,
    "encodec": _ALSA,
    "flash-attn": _CUDA,
    "metal": _MACOS,
    "microphone": _ALSA,
    "mimi": _ALSA,
    "mkl": "needs Intel's MKL",
    "nccl": _CUDA,
    "onnx": "needs protoc",
    "rocm": "rocm is off",
    "snac": _ALSA,
}
"""Features that stay off, each with the reason that is given for an example that needs it."""
UNKNOWN = "nobody has said yet whether that feature builds (codegen/verify/gated.py)"

_KINDS = ("bin", "example", "test", "bench")


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An example, or another target, that a step with `--all-targets` does not build."""

    crate: str
    target: str
    features: tuple[str, ...]
    """Those that it requires and does not get."""
    reason: str

    def __str__(self) -> str:
        return f"{self.crate} {self.target} is left out: it requires {', '.join(self.features)} ({self.reason})"


def fitted(step: Step, manifests: Manifests) -> Step:
    """The step with those of its optional features that one of its crates has in this tree."""
    declared = {name for crate in step.crates for name in _declared(manifests.get(crate, {}))}
    present = tuple(name for name in step.optional_features if name in declared)
    return replace(
        step,
        features=(*step.features, *present),
        baseline_features=(*step.baseline_features, *present),
        optional_features=(),
    )


def left_out(step: Step, manifests: Manifests) -> tuple[LeftOut, ...]:
    """What a fitted step with `--all-targets` does not build of its crates; nothing for another step."""
    if "--all-targets" not in step.options:
        return ()
    return tuple(each for crate in step.crates for each in _left_out_of(crate, manifests.get(crate, {}), step.features))


def _left_out_of(crate: str, manifest: Mapping[str, Any], features: tuple[str, ...]) -> Iterator[LeftOut]:
    enabled = _enabled(manifest, features)
    for target in (each for kind in _KINDS for each in manifest.get(kind, ())):
        missing = tuple(name for name in target.get("required-features", ()) if name not in enabled)
        if missing:
            reason = next((NOT_BUILT[name] for name in missing if name in NOT_BUILT), UNKNOWN)
            yield LeftOut(crate, str(target.get("name")), missing, reason)


def _declared(manifest: Mapping[str, Any]) -> frozenset[str]:
    """The crate's features; an optional dependency is one, unless some feature calls it `dep:NAME`."""
    features = manifest.get("features", {})
    named = {entry.removeprefix("dep:") for entries in features.values() for entry in entries if entry[:4] == "dep:"}
    optional = (
        name
        for name, entry in manifest.get("dependencies", {}).items()
        if isinstance(entry, dict) and entry.get("optional") and name not in named
    )
    return frozenset((*features, *optional))


def _enabled(manifest: Mapping[str, Any], features: tuple[str, ...]) -> frozenset[str]:
    """These features, and the crate's own ones that they bring along."""
    entries, enabled = manifest.get("features", {}), set(features)
    waiting = list(features)
    while waiting:
        new = set(entries.get(waiting.pop(), ())) - enabled
        enabled |= new
        waiting += new
    return frozenset(enabled)
