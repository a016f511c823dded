"""The list of verification steps, as data. `codegen.verify.run` carries them out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from codegen.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection

FEATURE = "rocm"
CAP_LINTS = ("--", "--cap-lints", "warn")
"""clippy denies some lints that old releases break; lints in generated lines are found among the warnings."""
LIBRARIES = ("candle-core", "candle-nn", "candle-transformers")


class Target(StrEnum):
    """What the steps that need a device run on."""

    AUTO = "auto"
    EMULATOR = "emulator"
    AMD = "amd"
    NVIDIA = "nvidia"


class Judge(StrEnum):
    """When a step has passed."""

    BUILDS = "builds"
    """cargo succeeds, and no warning is new compared with the unpatched tree."""
    LINT = "lint"
    """cargo succeeds, and no lint points into generated lines (Candle's own lints are not ours to judge)."""
    TESTS = "tests"
    """cargo succeeds, at least one test ran, and none failed."""
    RUNS = "runs"
    """The program ends with exit code 0."""


@dataclass(frozen=True, slots=True)
class Step:
    """One cargo command on the patched tree."""

    id: str
    title: str
    subcommand: str
    crates: tuple[str, ...]
    judge: Judge
    phase: int
    """Lowest phase that must be there."""
    features: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    baseline_features: tuple[str, ...] = ()
    """Features of the same command on the unpatched tree, for the comparison."""
    cuda_stub: bool = False
    """On a tree whose candle-kernels build script is stubbed, so that no nvcc is needed."""
    device: bool = False
    """Needs a HIP device to run on."""
    programs: tuple[str, ...] = ()
    """Programs it needs besides cargo."""
    slow: bool = False
    """Left out by `--quick`."""

    def arguments(self, *, baseline: bool = False) -> tuple[str, ...]:
        """The cargo command line; `baseline` for the unpatched tree."""
        features = self.baseline_features if baseline else self.features
        packages = tuple(word for crate in self.crates for word in ("-p", crate))
        selected = ("--features", ",".join(features)) if features else ()
        capped = CAP_LINTS if self.judge is Judge.LINT else ()
        return (self.subcommand, *packages, *self.options, *selected, *capped)


STEPS: tuple[Step, ...] = (
    Step("check-off", "check, rocm off", "check", LIBRARIES, Judge.BUILDS, phase=0),
    Step("check-on", "check, rocm on", "check", LIBRARIES, Judge.BUILDS, phase=0, features=(FEATURE,)),
    Step("pyo3-off", "check candle-pyo3, rocm off", "check", ("candle-pyo3",), Judge.BUILDS, phase=1, slow=True),
    Step(
        "pyo3-on",
        "check candle-pyo3, rocm on",
        "check",
        ("candle-pyo3",),
        Judge.BUILDS,
        phase=1,
        features=(FEATURE,),
        slow=True,
    ),
    Step("clippy-off", "clippy on generated lines, rocm off", "clippy", LIBRARIES, Judge.LINT, phase=1),
    Step(
        "clippy-on", "clippy on generated lines, rocm on", "clippy", LIBRARIES, Judge.LINT, phase=1, features=(FEATURE,)
    ),
    Step(
        "all-targets-on",
        "check --all-targets of core, nn, examples, rocm on",
        "check",
        ("candle-core", "candle-nn", "candle-examples"),
        Judge.BUILDS,
        phase=1,
        features=(FEATURE,),
        options=("--all-targets",),
        slow=True,
    ),
    Step(
        "cuda",
        "CUDA oracle: check, cuda on",
        "check",
        ("candle-core", "candle-nn"),
        Judge.BUILDS,
        phase=1,
        features=("cuda",),
        baseline_features=("cuda",),
        cuda_stub=True,
    ),
    Step(
        "cuda-and-rocm",
        "CUDA oracle: check, cuda and rocm on",
        "check",
        ("candle-core", "candle-nn"),
        Judge.BUILDS,
        phase=1,
        features=("cuda", FEATURE),
        baseline_features=("cuda",),
        cuda_stub=True,
    ),
    Step(
        "cpu-tests-off",
        "CPU tests of candle-core, rocm off",
        "test",
        ("candle-core",),
        Judge.TESTS,
        phase=1,
        options=("--tests", "--no-fail-fast"),
        slow=True,
    ),
    Step(
        "cpu-tests-on",
        "CPU tests of candle-core, rocm on",
        "test",
        ("candle-core",),
        Judge.TESTS,
        phase=1,
        features=(FEATURE,),
        options=("--tests", "--no-fail-fast"),
        slow=True,
    ),
    Step(
        "smoke",
        "smoke program on the device",
        "run",
        ("candle-core",),
        Judge.RUNS,
        phase=0,
        features=(FEATURE,),
        options=("--example", "rocm_smoke"),
        device=True,
        programs=("hipcc",),
    ),
    Step(
        "rocm-basic",
        "rocm_basic tests on the device",
        "test",
        ("candle-core",),
        Judge.TESTS,
        phase=1,
        features=(FEATURE,),
        options=("--test", "rocm_basic"),
        device=True,
    ),
)


def choose_steps(phase: int, *, quick: bool = False, only: Collection[str] = ()) -> tuple[Step, ...]:
    """The steps that apply when all phases up to `phase` are in the tree, in order.

    Raises UsageError when `only` names a step that does not exist or belongs to a later phase.
    """
    applicable = tuple(step for step in STEPS if step.phase <= phase)
    unknown = [name for name in only if name not in {step.id for step in applicable}]
    if unknown:
        names = ", ".join(step.id for step in applicable)
        raise UsageError(f"no step `{unknown[0]}` for phase {phase}", remedy=f"choose among {names}")
    if only:
        return tuple(step for step in applicable if step.id in only)
    return tuple(step for step in applicable if not (quick and step.slow))
