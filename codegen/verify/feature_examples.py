"""Examples that stand behind `required-features`: which of them the gated steps build, and why others are left out.

The features are the same for every release, and asked of the manifests at hand: which of them a release has, and which
of its examples they reach. `cargo metadata` would say as much, but for its need of a tree that cargo may write into.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codegen.verify.steps import Step

    Manifests = Mapping[str, Mapping[str, Any]]
    """By the name of the crate."""

EXAMPLE_FEATURES = ("candle-datasets", "pdf2image", "rubato", "symphonia", "tekken")
"""Features of candle-examples, on where examples need them. What they bring takes cargo more than a minute."""

_CUDA = "needs CUDA's toolkit"
_MACOS = "needs macOS"
_ALSA = "needs ALSA's headers, for sound that is played or recorded"
NOT_BUILT = {
    "accelerate": _MACOS,
    "buildtime-download": "downloads a model when it is built",
    "cuda": _CUDA,
    "cudnn": _CUDA,
    "cutile": _CUDA,
    "depth_anything_v2": "0.11.1's example does not fit the enterpolation that it asks for",
    "encodec": _ALSA,
    "flash-attn": _CUDA,
    "metal": _MACOS,
    "microphone": _ALSA,
    "mimi": _ALSA,
    "mkl": "needs Intel's MKL",
    "nccl": _CUDA,
    "onnx": "needs protoc",
    "pyo3": "needs a Python to link, and 0.11.1's example does not fit the pyo3 that it asks for",
    "rocm": "rocm is off",
    "snac": _ALSA,
}
"""Features that stay off, each with the reason that is given for an example that needs it."""
BROKEN = {
    "voxtral": (
        "tekken",
        "up to 0.10.2 it does not compile: it does not say so, and uses an older rubato than it asks for",
    ),
}
"""Examples of Candle that do not compile, patched or not, where they do not require a feature; and why."""
ELSEWHERE = "gated-examples-on and gated-examples-off build it"
UNKNOWN = "nobody has said yet whether that feature builds (codegen/verify/feature_examples.py)"

_KINDS = ("bin", "example", "test", "bench")


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An example, or another target, that a step about all of them does not build."""

    crate: str
    target: str
    features: tuple[str, ...]
    """Those that it requires and does not get."""
    reason: str

    def __str__(self) -> str:
        return f"{self.crate} {self.target} is left out: it requires {', '.join(self.features)} ({self.reason})"


def fitted(step: Step, manifests: Manifests) -> Step:
    """A step with the features that this tree has, and a gated one with the examples that require them."""
    own = [manifests.get(crate, {}) for crate in step.crates]
    declared = {name for manifest in own for name in _declared(manifest)}
    there = tuple(name for name in step.where_there if name in declared)
    if there:
        step = replace(step, features=(*step.features, *there))
    if not step.gated:
        return step
    present = tuple(name for name in EXAMPLE_FEATURES if name in declared)
    examples = _reached(own, present)
    # What no example needs stays off: rubato, in 0.10.2, is for examples that are left out, and does not compile.
    for name in present:
        fewer = tuple(other for other in present if other != name)
        if _reached(own, fewer) == examples:
            present = fewer
    return replace(
        step,
        features=(*step.features, *present),
        baseline_features=(*step.baseline_features, *present),
        options=(*step.options, *(word for name in examples for word in ("--example", name))),
    )


def left_out(step: Step, manifests: Manifests) -> tuple[LeftOut, ...]:
    """What a fitted step about all targets does not build of its crates; nothing for another step."""
    if not step.gated and "--all-targets" not in step.options:
        return ()
    return tuple(each for crate in step.crates for each in _left_out_of(crate, manifests.get(crate, {}), step.features))


def _reached(manifests: Sequence[Mapping[str, Any]], features: tuple[str, ...]) -> tuple[str, ...]:
    """The examples that require some of these features and no others."""
    return tuple(
        str(target["name"])
        for manifest in manifests
        for target in manifest.get("example", ())
        if (required := set(target.get("required-features", ()))) and required <= _enabled(manifest, features)
        if not _is_broken(target)
    )


def _left_out_of(crate: str, manifest: Mapping[str, Any], features: tuple[str, ...]) -> Iterator[LeftOut]:
    enabled = _enabled(manifest, features)
    for target in (each for kind in _KINDS for each in manifest.get(kind, ())):
        missing = tuple(name for name in target.get("required-features", ()) if name not in enabled)
        if _is_broken(target):
            feature, reason = BROKEN[target["name"]]
            yield LeftOut(crate, target["name"], (feature,), reason)
        elif missing:
            yield LeftOut(crate, str(target.get("name")), missing, _reason(missing))


def _is_broken(target: Mapping[str, Any]) -> bool:
    name = target.get("name")
    return name in BROKEN and BROKEN[name][0] not in target.get("required-features", ())


def _reason(missing: tuple[str, ...]) -> str:
    known = next((NOT_BUILT[name] for name in missing if name in NOT_BUILT), None)
    return known or (ELSEWHERE if set(missing) <= set(EXAMPLE_FEATURES) else UNKNOWN)


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
