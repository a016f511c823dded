"""docs/acceptance.md: what may be said of each line that was asked for, from the record of what was run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from codegen.render.environment import render
from codegen.spec.kinds import DEFAULT_RUNTIME
from codegen.verify.judge import Verdict
from codegen.verify.steps import STEPS, PassCriterion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codegen.verify.acceptance import Acceptance, Line, Seed
    from codegen.verify.record import Record
    from codegen.verify.results import FileRun, StepRun

DOCUMENTED = "docs/acceptance.md"
TEMPLATE = "docs/acceptance.md.j2"

Strength = Literal["on ROCm", "as HIP on NVIDIA", "on a modelled GPU", "on the emulated device", "tested", "compiled"]
"""What a passed proof shows, the strongest first."""
State = Literal[
    "on ROCm",
    "as HIP on NVIDIA",
    "on a modelled GPU",
    "on the emulated device",
    "tested",
    "compiled",
    "in part",
    "not run",
    "failed",
    "waits for a phase",
    "done otherwise",
    "not there",
]

_STEPS = {step.id: step for step in STEPS}
_DEVICES: dict[str, Strength] = {
    "ROCm": "on ROCm",
    "HIP on NVIDIA": "as HIP on NVIDIA",
    "nvidia": "as HIP on NVIDIA",
    "AMD's runtime on a modelled": "on a modelled GPU",
    "emulator": "on the emulated device",
}
"""By what a device's name begins with."""


@dataclass(frozen=True, slots=True)
class Proof:
    """One thing that shows a line, and what was last seen of it."""

    command: str
    said: str
    """`passed on 2026-11-24, emulator (gfx1100): 374 passed, 0 failed`, or why there is nothing to say."""
    shows: Strength | None = None
    """What it shows; None where it did not pass."""
    failed: bool = False


@dataclass(frozen=True, slots=True)
class AccountOfLine:
    """A line and its proofs."""

    line: Line
    proofs: tuple[Proof, ...]

    @property
    def state(self) -> State:
        """What may be said of it: the strongest of what its proofs show, if all of them were seen to pass."""
        if self.line.missing:
            return "not there"
        if self.line.waits is not None:
            return "waits for a phase"
        if not self.proofs:
            return "done otherwise"
        if any(proof.failed for proof in self.proofs):
            return "failed"
        shown = [proof.shows for proof in self.proofs if proof.shows is not None]
        if not shown:
            return "not run"
        return _strongest(shown) if len(shown) == len(self.proofs) else "in part"


@dataclass(frozen=True, slots=True)
class AccountOfSeed:
    """One of the documents that the project was created from."""

    seed: Seed
    lines: tuple[AccountOfLine, ...]


def account_of(spec: Acceptance, record: Record) -> tuple[AccountOfSeed, ...]:
    """Every line with what the record has of its proofs."""
    return tuple(AccountOfSeed(seed, tuple(_line(line, record) for line in seed.lines)) for seed in spec.seeds)


def document(spec: Acceptance, record: Record) -> str:
    """The text of docs/acceptance.md."""
    seeds = account_of(spec, record)
    found = [line.state for seed in seeds for line in seed.lines]
    counts = [(state, found.count(state)) for state in get_args(State)]
    unrun = [step for step in STEPS if step.by_hand]
    return render(TEMPLATE, {"seeds": seeds, "counts": counts, "unrun": unrun})


def _line(line: Line, record: Record) -> AccountOfLine:
    steps = (_proof_of_step(name, record.runs_of(name)) for name in line.verify)
    files = (_proof_of_file(path, record.run_of(path)) for path in line.pytest)
    return AccountOfLine(line, (*steps, *files))


def _proof_of_step(name: str, runs: Sequence[StepRun]) -> Proof:
    """Its last failure if there is one, else the newest release that it passed on."""
    failed = [run for run in runs if run.verdict is Verdict.FAILED]
    passed = [run for run in runs if run.verdict is Verdict.PASSED and not run.narrowed]
    if failed:
        run = max(failed, key=lambda run: run.at)
        return Proof(_command(run), f"**failed** on {run.day}", failed=True)
    if passed:
        run = max(passed, key=lambda run: (_rank(_strength(run)), _usual(run), runs.index(run)))
        where = f", {run.ran_on}" if run.ran_on else ""
        others = f"; passed in {len(passed)} builds" if len(passed) > 1 else ""
        return Proof(_command(run), f"passed on {run.day}{where}: {_cell(run.detail)}{others}", _strength(run))
    if runs:
        run = max(runs, key=lambda run: run.at)
        return Proof(_command(run), f"not run: {_cell(run.detail)} ({run.day})")
    why = _STEPS[name].by_hand
    return Proof(f"candle-rocm verify CANDLE --only {name}", f"not run: {why}" if why else "not run")


def _proof_of_file(path: str, run: FileRun | None) -> Proof:
    command = f"pytest {path}"
    if run is None:
        return Proof(command, "not run")
    if run.failed:
        return Proof(command, f"**failed** on {run.day}: {run.failed} failed", failed=True)
    skipped = f", {run.skipped} skipped" if run.skipped else ""
    if not run.passed:
        return Proof(command, f"not run: nothing passed on {run.day}{skipped}")
    where = f", {' and '.join(run.ran_on)}" if run.ran_on else ""
    # The weakest of the devices: a file that ran on two shows no more than either.
    shows = max((_device(name) for name in run.ran_on), key=_position) if run.ran_on else "tested"
    return Proof(command, f"passed on {run.day}{where}: {run.passed} passed{skipped}", shows)


def _command(run: StepRun) -> str:
    options = (("--gating", run.gating, "dummy"), ("--runtime", run.runtime, DEFAULT_RUNTIME))
    chosen = [f"{name} {value}" for name, value, usual in options if value != usual]
    return " ".join((f"candle-rocm verify {run.release} --only {run.step}", *chosen, *run.narrowed))


def _usual(run: StepRun) -> bool:
    return (run.gating, run.runtime) == ("dummy", DEFAULT_RUNTIME)


def _strength(run: StepRun) -> Strength:
    """What a step that passed shows: on a device only what the loaded libraries said that they are."""
    if run.ran_on is not None:
        return _device(run.ran_on)
    return "compiled" if _STEPS[run.step].criterion in (PassCriterion.BUILDS, PassCriterion.LINT) else "tested"


def _device(name: str) -> Strength:
    return next((strength for prefix, strength in _DEVICES.items() if name.startswith(prefix)), "tested")


def _position(strength: Strength) -> int:
    return get_args(Strength).index(strength)


def _rank(strength: Strength) -> int:
    return -_position(strength)


def _strongest(shown: Sequence[Strength]) -> Strength:
    return min(shown, key=_position)


def _cell(text: str) -> str:
    """A text within a table's cell."""
    return text.removeprefix(f"{Verdict.SKIPPED}: ").replace("|", "\\|").partition("\n")[0]
