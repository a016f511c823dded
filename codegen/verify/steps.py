"""The list of verification steps, as data. `codegen.verify.run` carries them out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING

from codegen.errors import UsageError
from codegen.spec.kinds import DEFAULT_RUNTIME, Runtime
from codegen.spec.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Collection

FEATURE = "rocm"
LINTS = ("--", "--cap-lints", "warn", "--warn", "clippy::undocumented_unsafe_blocks")
"""clippy denies some lints that old releases break; lints in generated lines are found among the warnings.

Each unsafe block that we generate has a SAFETY line, so the lint that wants one is added.
"""
UG = "ug"
"""The feature of kernels that the crate ug describes, from 0.9.2 to 0.11.0; before, they need no feature."""
OPTIONAL = ("rocm-miopen", "rocm-rccl", "rocm-rocrand")
"""Features of libraries that are used only if a program asks for them. Each has a file of tests of its name."""
OWN_PRODUCTS = (("CANDLE_ROCM_BLAS", "own"),)
"""Matrices are multiplied by our own kernels, as where rocBLAS has none for the GPU."""
MULTIPLYING = ("conv_tests", "grad_tests", "matmul_tests", "rocm_matrix", "tensor_tests")
"""Files of tests that ask for products of matrices: Candle's own, and the one that compares with the CPU."""
NO_ROCM_TESTS = ("--skip", "::rocm")
"""Deselects what `test_device!` makes for ROCm; `rocm-tests` runs it."""
NOT_MODELLED = ("model", "AMD's runtime can be given a model of one GPU only")
BY_CARGO = ("model", "cargo starts the program, with an older C library than AMD's runtime has")
LIBRARIES = ("candle-core", "candle-nn", "candle-transformers")
EXAMPLES = (*LIBRARIES, "candle-examples")


class Target(StrEnum):
    """What the steps that need a device run on."""

    AUTO = "auto"
    EMULATOR = "emulator"
    AMD = "amd"
    NVIDIA = "nvidia"
    MODEL = "model"


class PassCriterion(StrEnum):
    """When a step has passed."""

    BUILDS = "builds"
    """cargo succeeds, and no warning is new compared with the unpatched tree."""
    LINT = "lint"
    """As `builds`, and no lint points into generated lines (Candle's own lints are not ours to judge)."""
    TESTS = "tests"
    """cargo builds test programs, and `codegen.verify.evidence` finds nothing amiss with what their tests did."""
    RUNS = "runs"
    """The program ends with exit code 0, and the device was used."""


@dataclass(frozen=True, slots=True)
class Step:
    """One cargo command on the patched tree."""

    id: str
    title: str
    subcommand: str
    crates: tuple[str, ...]
    criterion: PassCriterion
    phase: int
    """Lowest phase that must be there."""
    features: tuple[str, ...] = ()
    where_there: tuple[str, ...] = ()
    """Features that are on, too, in releases that have them: `codegen.verify.feature_examples.fitted` looks."""
    options: tuple[str, ...] = ()
    baseline_features: tuple[str, ...] = ()
    """Features of the same command on the unpatched tree, for the comparison."""
    gated: bool = False
    """About the examples behind features: `codegen.verify.feature_examples.fitted` adds those that the release has."""
    cuda_stub: bool = False
    """On a tree whose candle-kernels build script is stubbed, so that no nvcc is needed."""
    device: bool = False
    """Needs a HIP device to run on."""
    filters: tuple[str, ...] = ()
    """Given to libtest, behind `--`."""
    programs: tuple[str, ...] = ()
    """Programs it needs besides cargo."""
    variables: tuple[tuple[str, str], ...] = ()
    """Set while it runs on the device."""
    python: bool = False
    """Builds a Python package, which pytest then tests."""
    phased: bool = False
    """Runs Candle's tests on ROCm, some of which wait for a later phase."""
    not_on: tuple[tuple[str, str], ...] = ()
    """Devices on which it cannot run, each with the reason."""
    slow: bool = False
    """Left out by `--quick`."""
    runtime: Runtime | None = None
    """Only with this runtime; with both when absent."""
    by_hand: str = ""
    """Why `make test` does not run it; empty for a step that it runs."""

    def arguments(self, *, baseline: bool = False) -> tuple[str, ...]:
        """The cargo command line; `baseline` for the unpatched tree."""
        features = self.baseline_features if baseline else self.features
        packages = tuple(word for crate in self.crates for word in ("-p", crate))
        selected = ("--features", ",".join(features)) if features else ()
        lints = LINTS if self.criterion is PassCriterion.LINT else ()
        filters = ("--", *self.filters) if self.filters else ()
        return (self.subcommand, *packages, *self.options, *selected, *lints, *filters)

    def building(self) -> tuple[str, ...]:
        """The command line that builds the tests of the step and runs none."""
        own = replace(self, filters=()).arguments()
        return (own[0], "--no-run", *own[1:]) if self.subcommand == "test" else own

    @property
    def is_whole(self) -> bool:
        """Whether the step is about all test programs of its crates."""
        return bool({"--tests", "--all-targets"} & {*self.options})

    def has_program(self, kind: str, name: str) -> bool:
        """Whether the tests of a target are among those that the options choose; `kind` as in `crate_targets.Target`,
        which knows whether it has tests."""
        return self.is_whole or self.names(kind, name) or (kind == "lib" and "--lib" in self.options)

    def names(self, kind: str, name: str) -> bool:
        """Whether a target is named in the options."""
        return (f"--{kind}", name) in pairwise(self.options)

    def takes(self, test: str) -> bool:
        """Whether the filters let a test run; libtest skips those whose names contain the word behind `--skip`."""
        return not any(word in test for word in self.filters if word != "--skip")


STEPS: tuple[Step, ...] = (
    Step("check-off", "check, rocm off", "check", LIBRARIES, PassCriterion.BUILDS, phase=0),
    Step("check-on", "check, rocm on", "check", LIBRARIES, PassCriterion.BUILDS, phase=0, features=(FEATURE,)),
    Step(
        "pyo3-off", "check candle-pyo3, rocm off", "check", ("candle-pyo3",), PassCriterion.BUILDS, phase=1, slow=True
    ),
    Step(
        "pyo3-on",
        "check candle-pyo3, rocm on",
        "check",
        ("candle-pyo3",),
        PassCriterion.BUILDS,
        phase=1,
        features=(FEATURE,),
        slow=True,
    ),
    Step("clippy-off", "clippy on generated lines, rocm off", "clippy", LIBRARIES, PassCriterion.LINT, phase=1),
    Step(
        "clippy-on",
        "clippy on generated lines, rocm on",
        "clippy",
        LIBRARIES,
        PassCriterion.LINT,
        phase=1,
        features=(FEATURE,),
        where_there=(UG,),
    ),
    Step(
        "doc-on",
        "cargo doc of candle-core, rocm on",
        "doc",
        ("candle-core",),
        PassCriterion.BUILDS,
        phase=3,
        features=(FEATURE,),
        options=("--no-deps",),
    ),
    Step(
        "all-targets-off",
        "clippy --all-targets of core, nn, transformers, examples, rocm off",
        "clippy",
        EXAMPLES,
        PassCriterion.LINT,
        phase=1,
        options=("--all-targets",),
        slow=True,
    ),
    Step(
        "all-targets-on",
        "clippy --all-targets of core, nn, transformers, examples, rocm on",
        "clippy",
        EXAMPLES,
        PassCriterion.LINT,
        phase=1,
        features=(FEATURE,),
        options=("--all-targets",),
        slow=True,
    ),
    Step(
        "gated-examples-off",
        "clippy of the examples behind features, rocm off",
        "clippy",
        ("candle-examples",),
        PassCriterion.LINT,
        phase=1,
        options=("--tests",),
        gated=True,
        slow=True,
    ),
    Step(
        "gated-examples-on",
        "clippy of the examples behind features, and of tests that run them, rocm on",
        "clippy",
        ("candle-examples",),
        PassCriterion.LINT,
        phase=1,
        features=(FEATURE,),
        options=("--tests",),
        gated=True,
        slow=True,
    ),
    Step(
        "cuda",
        "CUDA oracle: check, cuda on",
        "check",
        ("candle-core", "candle-nn"),
        PassCriterion.BUILDS,
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
        PassCriterion.BUILDS,
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
        PassCriterion.TESTS,
        phase=1,
        options=("--tests", "--no-fail-fast"),
        slow=True,
    ),
    Step(
        "cpu-tests-on",
        "CPU tests of candle-core, rocm on",
        "test",
        ("candle-core",),
        PassCriterion.TESTS,
        phase=1,
        features=(FEATURE,),
        options=("--tests", "--no-fail-fast"),
        filters=NO_ROCM_TESTS,
        slow=True,
    ),
    Step(
        "smoke",
        "smoke program on the device",
        "run",
        ("candle-core",),
        PassCriterion.RUNS,
        phase=0,
        features=(FEATURE,),
        options=("--example", "rocm_smoke"),
        device=True,
        programs=("hipcc",),
        not_on=(("nvidia", "hipcc compiles the smoke program's kernel for AMD GPUs"), BY_CARGO),
        runtime=Runtime.ROCM_RS,
        by_hand="its kernel is compiled by hipcc, and runs on AMD GPUs only",
    ),
    Step(
        "smoke-tensors",
        "smoke program of the dynamic runtime on the device",
        "run",
        ("candle-core",),
        PassCriterion.RUNS,
        phase=3,
        features=(FEATURE,),
        options=("--example", "rocm_smoke"),
        device=True,
        not_on=(BY_CARGO,),
        runtime=Runtime.DYNAMIC,
    ),
    Step(
        "rocm-basic",
        "rocm_basic tests on the device",
        "test",
        ("candle-core",),
        PassCriterion.TESTS,
        phase=1,
        features=(FEATURE,),
        options=("--test", "rocm_basic"),
        device=True,
    ),
    Step(
        "rocm-tests",
        "all tests of candle-core, on the device and on the CPU",
        "test",
        ("candle-core",),
        PassCriterion.TESTS,
        phase=3,
        features=(FEATURE,),
        where_there=(UG,),
        options=("--tests", "--no-fail-fast"),
        device=True,
        phased=True,
        slow=True,
    ),
    Step(
        "rocm-own-products-tests",
        "tests of candle-core that multiply matrices, with our own kernels instead of rocBLAS",
        "test",
        ("candle-core",),
        PassCriterion.TESTS,
        phase=3,
        features=(FEATURE,),
        options=tuple(word for name in MULTIPLYING for word in ("--test", name)),
        device=True,
        variables=OWN_PRODUCTS,
        slow=True,
    ),
    Step(
        "clippy-providers-on",
        "clippy on generated lines of candle-core and candle-nn, rocm and optional libraries on",
        "clippy",
        ("candle-core", "candle-nn"),
        PassCriterion.LINT,
        phase=3,
        features=(FEATURE, *OPTIONAL),
        options=("--tests", "--examples"),
        slow=True,
    ),
    Step(
        "rocm-providers-tests",
        "tests of optional libraries on the device",
        "test",
        ("candle-core",),
        PassCriterion.TESTS,
        phase=3,
        features=(FEATURE, *OPTIONAL),
        options=tuple(word for name in OPTIONAL for word in ("--test", name.replace("-", "_"))),
        device=True,
        not_on=(("nvidia", "HIP on NVIDIA has no MIOpen and no rocRAND"),),
        slow=True,
    ),
    Step(
        "rocm-parallel-tests",
        "a model in parts, on several GPUs",
        "test",
        ("candle-nn",),
        PassCriterion.TESTS,
        phase=5,
        features=(FEATURE, *OPTIONAL),
        options=("--test", "rocm_llama_parallel"),
        device=True,
        not_on=(("nvidia", "HIP on NVIDIA has no MIOpen and no rocRAND"), NOT_MODELLED),
        slow=True,
    ),
    Step(
        "rocm-nn-tests",
        "all tests of candle-nn, on the device and on the CPU",
        "test",
        ("candle-nn",),
        PassCriterion.TESTS,
        phase=5,
        features=(FEATURE,),
        options=("--tests", "--no-fail-fast"),
        device=True,
        phased=True,
        slow=True,
    ),
    Step(
        "python-tests-off",
        "tests of candle-pyo3 in Python, rocm off",
        "build",
        ("candle-pyo3",),
        PassCriterion.TESTS,
        phase=6,
        python=True,
        slow=True,
    ),
    Step(
        "rocm-python-tests",
        "tests of candle-pyo3 in Python, on the device",
        "build",
        ("candle-pyo3",),
        PassCriterion.TESTS,
        phase=6,
        features=(FEATURE,),
        device=True,
        not_on=(("model", "this machine's Python has an older C library than AMD's runtime"),),
        python=True,
        slow=True,
    ),
    Step(
        "rocm-models-tests",
        "all tests of candle-transformers, on the device and on the CPU",
        "test",
        ("candle-transformers",),
        PassCriterion.TESTS,
        phase=7,
        features=(FEATURE,),
        options=("--tests", "--no-fail-fast"),
        device=True,
        slow=True,
    ),
    Step(
        "rocm-examples-tests",
        "example programs on the device, compared with the CPU",
        "test",
        ("candle-examples",),
        PassCriterion.TESTS,
        phase=7,
        features=(FEATURE, "candle-datasets"),
        options=("--test", "rocm_examples", "--no-fail-fast"),
        device=True,
        not_on=(BY_CARGO,),
        slow=True,
    ),
)


def choose_steps(
    phase: int,
    *,
    runtime: Runtime = DEFAULT_RUNTIME,
    quick: bool = False,
    only: Collection[str] = (),
    packages: Collection[str] = (),
) -> tuple[Step, ...]:
    """The steps that apply when all phases up to `phase` are in the tree, in order.

    With `packages`, each step for these crates only, and no step that is about others.

    Raises UsageError when `only` names a step that does not exist or belongs to a later phase, or `packages` a crate
    that no step is about.
    """
    applicable = tuple(step for step in STEPS if step.phase <= phase and step.runtime in (None, runtime))
    if packages:
        _refuse_unknown_packages(applicable, packages)
        narrowed = (replace(step, crates=tuple(c for c in step.crates if c in packages)) for step in applicable)
        applicable = tuple(step for step in narrowed if step.crates)
    unknown = [name for name in only if name not in {step.id for step in applicable}]
    if unknown:
        names = [step.id for step in applicable]
        nearest = did_you_mean(unknown[0], names)
        raise UsageError(
            f"no step `{unknown[0]}` for phase {phase}{nearest}", remedy=f"choose among {', '.join(names)}"
        )
    if only:
        return tuple(step for step in applicable if step.id in only)
    return tuple(step for step in applicable if not (quick and step.slow))


def _refuse_unknown_packages(steps: Collection[Step], packages: Collection[str]) -> None:
    known = {crate for step in steps for crate in step.crates}
    unknown = [name for name in packages if name not in known]
    if unknown:
        nearest = did_you_mean(unknown[0], known)
        raise UsageError(f"no step is about `{unknown[0]}`{nearest}", remedy=f"choose among {', '.join(sorted(known))}")
