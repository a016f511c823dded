"""Carries out verification steps on a subject, one after another."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from threading import Event, Lock
from typing import TYPE_CHECKING

from codegen.verify import python
from codegen.verify.cargo import CargoRun, cargo_environment, run_cargo
from codegen.verify.cuda_oracle import ENVIRONMENT as CUDA_ENVIRONMENT
from codegen.verify.cuda_oracle import stub_overlay
from codegen.verify.device_use import RECORD, read_use
from codegen.verify.evidence import Demands, ExpectedNames
from codegen.verify.feature_examples import fitted, left_out
from codegen.verify.judge import Attempt, StepResult, Verdict, judged, needs_baseline
from codegen.verify.libtest import run_tests
from codegen.verify.pins import hold
from codegen.verify.scratch import CARGO_LOCK, ScratchTree, member_manifests
from codegen.verify.steps import PassCriterion, Step
from codegen.verify.surroundings import inherited
from codegen.verify.unrun import UnrunTests, load_unrun

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from typing import TextIO

    from codegen.spec.model import Pin
    from codegen.verify.device_use import DeviceUse
    from codegen.verify.expected_failures import WaitingTest
    from codegen.verify.kept import Kept
    from codegen.verify.modelled import Modelled
    from codegen.verify.patched_tree import Subject
    from codegen.verify.target import Device, DevicePass
    from codegen.verify.testrun import TestBinary, TestRun

STEP_TIMEOUT = 3600.0
TEST_TIMEOUT = 900.0
"""Seconds for one test. The longest of ours takes three minutes on the emulated device, alone on a slow machine."""

PYTEST = python.PROGRAM

Command = tuple[bool, tuple[str, ...]]
"""Whether candle-kernels is stubbed, and cargo's arguments."""
Expected = Callable[[Step], ExpectedNames | None]
"""The tests that a step has to run; None where nobody knows."""


@dataclass(frozen=True, slots=True)
class Bench:
    """Where the steps are run: the scratch tree, the logs, cargo's settings and the device."""

    scratch: ScratchTree
    logs: Path
    device: Device
    which: Callable[[str], str | None]
    device_variables: Mapping[str, str] = field(default_factory=dict)
    """For the steps that need the device."""
    modelled: Modelled | None = None
    """How test programs are started on a modelled GPU; None on any other device."""
    waiting: tuple[WaitingTest, ...] = ()
    """Tests that cannot pass, because a phase is missing."""
    pins: tuple[Pin, ...] = ()
    """Dependencies whose versions the specs name."""
    expected: Expected = lambda _step: None
    unrun: UnrunTests = field(default_factory=load_unrun)
    cargo: Callable[..., CargoRun] = run_cargo
    libtest: Callable[..., TestRun] = run_tests
    pytest: Callable[..., TestRun] = python.run_python_tests
    timeout: float | None = STEP_TIMEOUT
    test_timeout: float = TEST_TIMEOUT
    at_once: int = 1
    """How many of the device's passes are made at a time: the emulated one is as many devices as there are programs."""
    on_message: Callable[[str], None] = lambda _line: None

    def build(self, subject: Subject, step: Step, *, baseline: bool = False, record: Path | None = None) -> CargoRun:
        """Run the step's cargo command on the patched tree, or its counterpart on the unpatched one.

        A step of tests is built only. `record` is where the device of a program that cargo runs writes.
        """
        overlay: Mapping[str, bytes | None] = subject.pristine if baseline else subject.patched
        if step.cuda_stub:
            overlay = {**overlay, **stub_overlay(subject.root)}
        if step.python:
            overlay = {
                **overlay,
                python.MANIFEST: python.manifest_for(_content(subject.root, overlay, python.MANIFEST)),
            }
        self.scratch.sync(subject.root, overlay)
        environment = self._environment(step, record=record)
        pinned = hold(
            self.scratch.root,
            self.pins,
            environment=environment,
            own_lock=(subject.root / CARGO_LOCK).exists(),
            on_message=self.on_message,
        )
        run = self.cargo(
            self.scratch.root,
            step.building() if step.criterion is PassCriterion.TESTS else step.arguments(baseline=baseline),
            log=self.logs / f"{step.id}{'-unpatched' if baseline else ''}.log",
            environment=environment,
            on_message=self.on_message,
            timeout=self.timeout,
        )
        return replace(run, pinned=pinned)

    def attempt(self, subject: Subject, step: Step) -> Attempt:
        """Build, and run what has to run."""
        record = self._record(step) if step.criterion is PassCriterion.RUNS else None
        built = self.build(subject, step, record=record)
        tests = tuple(self._tests(step, built)) if step.criterion is PassCriterion.TESTS and built.ok else ()
        return Attempt(step, built, tests=tests, use=self._use(record), timeout=self.timeout)

    def demands(self, attempt: Attempt) -> Demands:
        """What the step's tests are held to; sources are not read for tests that did not run."""
        step = attempt.step
        if not attempt.tests:
            return Demands(self.unrun)
        expected = self.expected(step)
        waiting = tuple(test for test in self.waiting if test.crate in step.crates) if step.phased else ()
        if expected is not None and not step.is_whole:
            there = {name for names in expected.targets.values() for name in names}
            waiting = tuple(test for test in waiting if test.name in there)
        where = self.device.kind if step.device else "none"
        return Demands(self.unrun, waiting, expected, where)

    def _tests(self, step: Step, built: CargoRun) -> Iterator[TestRun]:
        """What each test program does, on each device that it has to run on."""
        passes = self.device.passes if step.device else (None,)
        programs = (PYTEST,) if step.python else built.binaries
        with built.log.open("a", encoding="utf-8", buffering=1) as file:
            log = _Log(file, whole=self.at_once > 1)
            if self.at_once == 1 or step.python:
                for where in passes:
                    yield from self._pass(step, programs, where, log)
                return
            stop = Event()

            def made(where: DevicePass | None) -> list[TestRun]:
                return [*self._pass(step, programs, where, log, stop.is_set)]

            with ThreadPoolExecutor(self.at_once) as pool:
                pending = [pool.submit(made, where) for where in passes]
                try:
                    for each in pending:
                        yield from each.result()
                except BaseException:  # Ctrl-C among them: what the other threads run is ended, too
                    stop.set()
                    raise

    def _pass(
        self,
        step: Step,
        programs: Iterable[TestBinary],
        where: DevicePass | None,
        log: _Log,
        stopped: Callable[[], bool] = lambda: False,
    ) -> Iterator[TestRun]:
        is_first = where is None or where == self.device.passes[0]
        for program in programs:
            if stopped():
                return
            record = self._record(step, where, program)
            environment = self._environment(step, where, record)
            started: AbstractContextManager[TestBinary] = nullcontext(program)
            if step.device and self.modelled is not None:
                environment = {**environment, **self.modelled.variables}
                started = self.modelled.start(program)
            with started as binary, log.part() as write:
                run = self._run(step, binary, where, environment, write, stopped)
            if run.selected or run.doubts or is_first:
                yield replace(run, binary=program, where=where, device=self._use(record))

    def _run(
        self,
        step: Step,
        program: TestBinary,
        where: DevicePass | None,
        environment: Mapping[str, str],
        write: Callable[[str], None],
        stopped: Callable[[], bool],
    ) -> TestRun:
        left_out: dict[str, str] = {}

        def choose(test: str) -> bool:
            if not ((where is None or where.share.takes(program, test)) and step.takes(test)):
                return False
            if (why := self.unrun.why_left_out(test, self.device.kind if step.device else "none")) is not None:
                left_out[test] = why
            return test not in left_out

        if not step.python:
            run = self.libtest(
                program,
                environment=environment,
                limit=self.test_timeout,
                log=write,
                choose=choose,
                on_message=self.on_message,
                stopped=stopped,
            )
            return replace(run, left_out=left_out)
        self.on_message("running pytest")
        return self.pytest(
            self.scratch.root,
            target_dir=self.scratch.target_dir,
            folder=self.scratch.target_dir / "python" / step.id,
            environment=environment,
            limit=self.test_timeout,
            log=write,
            choose=choose,
            rocm=step.device,
        )

    def _environment(
        self, step: Step, where: DevicePass | None = None, record: Path | None = None
    ) -> Mapping[str, str]:
        """All variables of a program of a step; cargo gets those of its device as well."""
        return {
            **inherited(emulated=self.device.emulated),
            **cargo_environment(self.scratch.target_dir, PYO3_NO_PYTHON="1"),
            **(CUDA_ENVIRONMENT if step.cuda_stub else {}),
            **(self.device_variables if step.device else {}),
            **dict(step.variables),
            **(where.variables if where is not None else {}),
            **({RECORD: str(record)} if record is not None else {}),
        }

    def _record(self, step: Step, where: DevicePass | None = None, program: TestBinary | None = None) -> Path | None:
        """An empty folder for the device's record of a run; None where nobody keeps one."""
        if not (step.device and self.device.keeps_record):
            return None
        titles = (where.title if where else "", program.target if program else "")
        folder = self.logs.resolve() / "record" / "-".join((step.id, *filter(None, titles))).replace(" ", "-")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def _use(self, record: Path | None) -> DeviceUse | None:
        return read_use(record) if record is not None else None


class _Log:
    """A log that several threads write. With `whole`, what one program says stands together, written at its end."""

    def __init__(self, file: TextIO, *, whole: bool) -> None:
        self._file = file
        self._whole = whole
        self._turn = Lock()

    @contextmanager
    def part(self) -> Iterator[Callable[[str], None]]:
        """Takes the lines of one program."""
        if not self._whole:
            yield lambda line: self._write([line])
            return
        lines: list[str] = []
        try:
            yield lines.append
        finally:
            self._write(lines)

    def _write(self, lines: Iterable[str]) -> None:
        with self._turn:
            self._file.writelines(f"{line}\n" for line in lines)


def run_step(step: Step, subject: Subject, bench: Bench) -> StepResult:
    """Carry out one step, or say why it cannot be."""
    return run_steps([step], subject, bench)[0]


def run_steps(
    steps: Iterable[Step],
    subject: Subject,
    bench: Bench,
    *,
    on_start: Callable[[Step], None] = lambda _step: None,
    on_end: Callable[[Attempt | StepResult], None] = lambda _done: None,
    kept: Callable[[], Kept] | None = None,
) -> tuple[StepResult, ...]:
    """Carry out the steps in order; a failed one does not stop the others.

    The unpatched tree is built for comparison after all of them, each command once: changing the scratch tree back and
    forth would make cargo compile every crate of the workspace anew each time. `on_end` gets the attempt of a step
    whose result has to wait for that. `kept` is asked for the steps that passed in a run that was interrupted; those of
    this run are kept as soon as they have passed, and forgotten when it ends.
    """
    done: list[Attempt | StepResult] = []
    with bench.scratch.exclusive(bench.on_message):
        before = kept() if kept is not None else None
        for step in steps:
            on_start(step)
            passed = before.find(step) if before is not None else None
            each = passed or _attempted(step, subject, bench, before)
            done.append(each)
            on_end(each)
        baselines = _baselines((each for each in done if isinstance(each, Attempt)), subject, bench)
        if before is not None:
            before.finish()
    return tuple(
        each
        if isinstance(each, StepResult)
        else judged(each, subject, bench.device, bench.demands(each), baselines.get(_baseline(each.step)))
        for each in done
    )


def _attempted(step: Step, subject: Subject, bench: Bench, kept: Kept | None) -> Attempt | StepResult:
    """What came of a step, kept if it passed; the attempt where the unpatched tree has to be built to know."""
    attempt = _attempt(step, subject, bench)
    if needs_baseline(attempt, subject):
        return attempt
    result = judged(attempt, subject, bench.device, bench.demands(attempt), None)
    if kept is not None and result.verdict is Verdict.PASSED:
        kept.keep(result)
    return result


def _attempt(step: Step, subject: Subject, bench: Bench) -> Attempt:
    manifests = member_manifests(subject.root, subject.patched)
    absent = [crate for crate in step.crates if crate not in manifests]
    if absent:
        changed = tuple(crate for crate in absent if _is_changed(crate, subject))
        lost = f": the plan changes {', '.join(changed)}" if changed else ""
        return Attempt(step, None, f"{', '.join(absent)} is not in this tree{lost}", broken=bool(changed))
    obstacle = _obstacle(step, subject, bench)
    if obstacle is not None:
        return Attempt(step, None, obstacle)
    step = fitted(step, manifests)
    return replace(bench.attempt(subject, step), left_out=left_out(step, manifests))


def _is_changed(crate: str, subject: Subject) -> bool:
    """Whether the plan has something to do in the folder of that name, as Candle's crates have it."""
    return any(path.startswith(f"{crate}/") for path in subject.pristine)


def _obstacle(step: Step, subject: Subject, bench: Bench) -> str | None:
    if (why := bench.device.obstacle(step)) is not None:
        return why
    if step.python and (why := python.obstacle(subject.root)) is not None:
        return why
    missing = [program for program in step.programs if bench.which(program) is None]
    return f"{', '.join(missing)} not found on PATH" if missing else None


def _content(root: Path, overlay: Mapping[str, bytes | None], path: str) -> bytes:
    """What a file of the tree with `overlay` laid over it holds; nothing where there is none."""
    content = overlay[path] if path in overlay else (root / path).read_bytes()
    return content or b""


def _baselines(attempts: Iterable[Attempt], subject: Subject, bench: Bench) -> dict[Command, CargoRun]:
    """What the unpatched tree says to the commands whose answers must be compared with it."""
    wanted = {_baseline(each.step): each.step for each in attempts if needs_baseline(each, subject)}
    return {command: bench.build(subject, step, baseline=True) for command, step in wanted.items()}


def _baseline(step: Step) -> Command:
    return step.cuda_stub, step.arguments(baseline=True)
