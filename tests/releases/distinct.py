"""The distinct texts that are generated for all releases, and the cheapest runs of `verify` that try each of them.

A plan is made for each release, gating and runtime. Files of the same path and text count once, in whatever plans they
are. A text needs a step that compiles and lints it, with the feature on and off if it says `feature = "rocm"`, one that
compiles it for CUDA if it says `feature = "cuda"`, and, where it is a test, a step that runs it.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from codegen.candle.tree import open_tree
from codegen.plan.build import plan_tree
from codegen.spec.kinds import DEFAULT_RUNTIME, Gating, Runtime
from codegen.spec.loader import load_specs
from codegen.verify.chosen_tests import UNIT_TESTS, programs_of, with_programs
from codegen.verify.crate_targets import View
from codegen.verify.feature_examples import fitted
from codegen.verify.patched_tree import Subject
from codegen.verify.reach import Reader, is_evidence
from codegen.verify.scratch import member_manifests
from codegen.verify.steps import FEATURE, STEPS, PassCriterion
from codegen.verify.test_walk import MAKES_TEST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from codegen.verify.steps import Step

GATE = b'feature = "rocm"'
GATE_LINE = b"#[cfg(" + GATE + b")]"
CUDA_GATE = b'feature = "cuda"'
LINTED = frozenset(crate for step in STEPS if step.criterion is PassCriterion.LINT for crate in step.crates)
UNTRIED = {
    "candle-examples/examples/voxtral/*": "does not compile in Candle itself up to 0.10.2 (verify/feature_examples.py)",
    "*.pyi": "stubs are for type checkers: no program reads them",
}
"""Texts that no step reaches on some release, each with its reason; README and docs call them untried."""
ROOT = "candle-core/src/lib.rs"
"""Has `feature = "cuda"` on declarations of CUDA's own modules only, and a text for each gating and runtime."""
SECONDS = {"check": 15, "clippy": 15, "doc": 20, "test": 800, "run": 150, "build": 150}
"""About how many seconds of one core a step takes for candle-core, what it depends on being built."""
OF_ONE_PROGRAM = 80
OF_UNIT_TESTS = 250
"""The same for one of candle-core's test programs, and for that of its unit tests."""
WEIGHT = {"candle-core": 1.0, "candle-nn": 1.3, "candle-transformers": 3.0, "candle-examples": 8.0, "candle-pyo3": 1.8}
"""How much longer it takes for another crate, candle-core included."""


class Choice(NamedTuple):
    """What a plan is made for."""

    release: str
    gating: str
    runtime: str


class Run(NamedTuple):
    """One step of `candle-rocm verify`, for all its crates or for one, or for one of its test programs."""

    release: str
    gating: str
    runtime: str
    step: str
    package: str = ""
    program: str = ""

    @property
    def choice(self) -> Choice:
        """What the plan is made for."""
        return Choice(self.release, self.gating, self.runtime)

    def __str__(self) -> str:
        return " ".join(filter(None, self))


class Need(NamedTuple):
    """One thing to be done with one text."""

    what: str
    """`compiled` (linted too, where a step lints that crate), `run`, or `read` for what is no Rust."""
    path: str
    digest: str
    feature: str = ""
    """`on` or `off` where it matters; `cuda` for the lines that only CUDA builds have."""


@dataclass(frozen=True)
class Planned:
    """One plan: its texts, and what each run does with them."""

    choice: Choice
    texts: Mapping[str, bytes]
    done: Mapping[Run, frozenset[Need]]


def choices() -> list[Choice]:
    """Every release in both gatings and with both runtimes."""
    tried = [release.version for release in load_specs().candle.releases]
    return [Choice(name, gating.value, runtime.value) for name in tried for gating in Gating for runtime in Runtime]


@cache
def planned(choice: Choice) -> Planned:
    """The texts of a plan, and what all steps there could be do with them."""
    tree = open_tree(choice.release)
    plan = plan_tree(tree, load_specs(), gating=Gating(choice.gating), runtime=Runtime(choice.runtime))
    subject = Subject.of_plan(tree.root, plan)
    texts = {change.path: change.after for change in plan.changes}
    reader = Reader(View(subject.root, subject.patched))
    manifests = member_manifests(subject.root, subject.patched)
    done = {}
    for step in STEPS:
        if step.runtime not in (None, Runtime(choice.runtime)):
            continue
        whole = tuple(crate for crate in step.crates if crate in manifests)
        for crates in {(crate,) for crate in whole} | {whole}:
            run = Run(*choice, step.id, "" if crates == whole else crates[0])
            done[run] = frozenset(_needs(reader, fitted(replace(step, crates=crates), manifests), texts))
        # One program is enough for the texts of its own; that the device's sources are right takes all tests.
        if step.is_whole and is_evidence(step) and len(whole) == 1:
            for program in programs_of(step, reader.view):
                one = _needs(reader, fitted(with_programs(step, [program]), manifests), texts)
                done[Run(*choice, step.id, *whole, program)] = frozenset(need for need in one if _is_of_a_test(need))
    return Planned(choice, texts, done)


def needs(plan: Planned) -> frozenset[Need]:
    """All that can be done with the texts of a plan."""
    return frozenset(need for found in plan.done.values() for need in found)


def untouched(plan: Planned) -> tuple[str, ...]:
    """Paths of a plan with which no step does anything."""
    return tuple(sorted(set(plan.texts) - {need.path for need in needs(plan)}))


def is_untried(path: str) -> bool:
    """Whether it is written down that no step reaches the file."""
    return any(fnmatchcase(path, glob) for glob in UNTRIED)


def cost(run: Run) -> float:
    """About how many seconds of one core it takes."""
    step = next(each for each in STEPS if each.id == run.step)
    crates = (run.package,) if run.package else step.crates
    part = 0.5 if "--test" in step.options else 1.0
    seconds = part * SECONDS[step.subcommand]
    if run.program:
        seconds = OF_UNIT_TESTS if run.program == UNIT_TESTS else OF_ONE_PROGRAM
    return seconds * max(WEIGHT[crate] for crate in crates)


def cover(
    wanted: Iterable[Need],
    offered: Mapping[Run, frozenset[Need]],
    fixed: Iterable[Run],
    price: Callable[[Run], float] = cost,
) -> tuple[Run, ...]:
    """Runs that together do all that is wanted, with as little as a greedy choice finds; without the `fixed` ones,
    which are made in any case."""
    left = set(wanted) - {need for run in fixed for need in offered.get(run, ())}
    chosen: list[Run] = []
    while left:
        best = max(offered, key=lambda run: (len(offered[run] & left) / price(run), _usual(run), str(run)))
        assert offered[best] & left, "every need is offered by some run"
        chosen.append(best)
        left -= offered[best]
    # What was chosen first may have become needless.
    for run in sorted(chosen, key=price, reverse=True):
        others = {need for each in (*fixed, *chosen) if each != run for need in offered.get(each, ())}
        if set(wanted) <= others:
            chosen.remove(run)
    return tuple(sorted(chosen))


def _usual(run: Run) -> bool:
    """What most people build is tried with more of the texts that are the same in all builds."""
    return run.runtime == DEFAULT_RUNTIME


def _needs(reader: Reader, step: Step, texts: Mapping[str, bytes]) -> Iterator[Need]:
    reach = reader.reach(step)
    on = "on" if FEATURE in step.features else "off"
    built = step.subcommand in ("check", "clippy", "doc")
    for path, text in texts.items():
        digest = _digest(text)
        crate = path.partition("/")[0] if "/" in path else ""
        matters = GATE in text or path.endswith("src/lib.rs")
        if path.endswith(".rs"):
            linted = step.criterion is PassCriterion.LINT or (
                crate not in LINTED and step.criterion is PassCriterion.BUILDS
            )
            if path in reach.compiled and linted and built and not step.cuda_stub:
                yield Need("compiled", path, digest, on if matters else "")
            if path in reach.compiled and step.cuda_stub and on == "on" and CUDA_GATE in text and path != ROOT:
                yield Need("compiled", path, digest, "cuda")
            if path in reach.ran and is_evidence(step) and _is_test(path, text):
                yield Need("run", path, _digest(without_gates(text)))
        elif path.endswith(".toml"):
            if path in reach.compiled:
                yield Need("read", path, digest)
        elif path.endswith((".hip", ".h")):
            whose = "candle-core" if crate == "candle-core" else crate
            if is_evidence(step) and whose in (step.crates if whose != "candle-core" else reach.crates):
                yield Need("run", path, digest)
        elif path.endswith(".py") and step.python and step.device:
            yield Need("run", path, digest)


def _is_of_a_test(need: Need) -> bool:
    return need.what == "run" and need.path.endswith(".rs")


def _is_test(path: str, text: bytes) -> bool:
    """A test file, or a source with tests that says something about ROCm; Candle's own tests beside an edit are not."""
    return "/tests/" in path or (MAKES_TEST.search(text.decode()) is not None and (GATE in text or "/rocm_" in path))


def without_gates(text: bytes) -> bytes:
    """A test's text as rustc has it with the feature on: attributes that ask for no more than the feature are true.

    So both gatings run the same test, although one of them compiles another text.
    """
    return b"".join(line for line in text.splitlines(keepends=True) if line.strip() != GATE_LINE)


def _digest(text: bytes) -> str:
    return hashlib.blake2b(text, digest_size=6).hexdigest()


def offers() -> dict[Run, frozenset[Need]]:
    """What each run of each plan does."""
    return {run: done for choice in choices() for run, done in planned(choice).done.items()}


def paths_by_need(found: Iterable[Need]) -> dict[str, int]:
    """How many distinct texts there are of each kind of need."""
    texts: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for need in found:
        texts[need.what].add((need.path, need.digest))
    return {what: len(each) for what, each in texts.items()}
