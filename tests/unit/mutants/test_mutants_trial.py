"""Verdicts, the baseline, resuming, and the list of accepted survivors, with made-up test programs."""

from __future__ import annotations

import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from mutants.accepted import Entry, read_accepted, reviewed
from mutants.baseline import Baseline, BaselineFailed, Passing, measured, names_of
from mutants.building import Built, Compilation, Program
from mutants.campaign import Campaign
from mutants.emulated import Emulated
from mutants.mutant import Mutant
from mutants.report import summary, survivors
from mutants.results import Result, Results
from mutants.trial import Ended, Verdict, judged, run_tests

from codegen.errors import SpecInvalid
from codegen.verify.scratch import ScratchTree

if TYPE_CHECKING:
    from collections.abc import Sequence

PASSED = Ended(0, passed=frozenset("ab"), closing=True)
WANTED = frozenset("ab")

LIBTEST = """\
#!{python}
import os, signal, sys, time
tests = {{{tests}}}
wanted = [word for word in sys.argv[1:] if not word.startswith("--")]
if "--list" in sys.argv:
    print("".join(f"{{name}}: test\\n" for name in tests) if "--ignored" not in sys.argv else "")
    sys.exit()
print(f"running {{len(wanted)}} tests", flush=True)
for name in wanted:
    print(f"test {{name}} ... ", end="", flush=True)
    exec(tests[name])
    print("ok", flush=True)
print(f"test result: ok. {{len(wanted)}} passed; 0 failed; 0 ignored; 0 measured; 0 filtered out")
"""


def program(folder: Path, **tests: str) -> Program:
    """A stand-in for a libtest binary, with tests that are a line of Python each."""
    path = folder / "rocm_made_up"
    path.write_text(LIBTEST.format(python=sys.executable, tests=", ".join(f"{k!r}: {v!r}" for k, v in tests.items())))
    path.chmod(0o755)
    return Program("candle-core/rocm_made_up", str(path))


def ran(folder: Path, timeout: float = 60, **tests: str) -> Ended:
    return run_tests(program(folder, **tests).path, list(tests), {}, cwd=folder, timeout=timeout)


def test_tests_that_pass_say_nothing_against_a_mutant(tmp_path: Path) -> None:
    ended = ran(tmp_path, a="pass", b="print('noise')")
    assert (ended.status, ended.passed, ended.closing) == (0, WANTED, True)
    assert judged(ended, WANTED).verdict is None


def test_the_first_failure_ends_the_program(tmp_path: Path) -> None:
    ended = ran(tmp_path, a="pass", b="print('FAILED', flush=True); time.sleep(1000)", c="pass")
    assert judged(ended, frozenset("abc")).verdict is Verdict.CAUGHT
    assert ended.failed == "b"


@pytest.mark.parametrize(
    ("line", "verdict"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", Verdict.CAUGHT),
        ("os.abort()", Verdict.CAUGHT),
        ("os._exit(0)", Verdict.CAUGHT),
        ("os._exit(101)", Verdict.CAUGHT),
        ("os.kill(os.getpid(), signal.SIGKILL)", Verdict.ERROR),
        ("os.kill(os.getpid(), signal.SIGTERM)", Verdict.ERROR),
        ("print('SKIPPED: b: no ROCm device')", Verdict.CAUGHT),
    ],
)
def test_how_a_program_ends_decides(tmp_path: Path, line: str, verdict: Verdict) -> None:
    assert judged(ran(tmp_path, a="pass", b=line), WANTED).verdict is verdict


def test_a_program_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    child = "import subprocess; subprocess.Popen([sys.executable, '-c', 'input()'], stdin=None); time.sleep(1000)"
    ended = ran(tmp_path, timeout=1, a="pass", b=child)
    assert judged(ended, WANTED).verdict is Verdict.TIMEOUT


def test_a_program_that_does_not_start_is_an_error(tmp_path: Path) -> None:
    ended = run_tests(tmp_path / "absent", ["a"], {}, cwd=tmp_path, timeout=60)
    assert judged(ended, WANTED).verdict is Verdict.ERROR


@pytest.mark.parametrize(
    "ended",
    [
        replace(PASSED, closing=False),
        replace(PASSED, passed=frozenset("a")),
        replace(PASSED, status=1),
        replace(PASSED, skipped=("a: no ROCm device",)),
    ],
)
def test_nothing_short_of_all_evidence_is_a_pass(ended: Ended) -> None:
    assert judged(PASSED, WANTED).verdict is None
    assert judged(ended, WANTED).verdict is Verdict.CAUGHT


def cases_of(made_up: Program) -> list[tuple[Program, str]]:
    return [(made_up, name) for name in names_of(made_up, {})]


def baseline_of(folder: Path, **tests: str) -> Baseline:
    return measured(
        cases_of(program(folder, **tests)), {}, folder_of=lambda _: folder, records=folder / "reached", jobs=1
    )


REACHES = "open(os.environ['CANDLE_ROCM_REACHED'], 'a').write('{}\\n')"


def test_the_baseline_says_what_each_test_reaches(tmp_path: Path) -> None:
    waits = "print('FAILED'); print('x is not available on ROCm yet: it comes with phase 2 of')"
    found = baseline_of(tmp_path, a=REACHES.format(4), b=REACHES.format(5), c="pass", d=waits)
    assert {test.name: test.reached for test in found.tests} == {"a": {4}, "b": {5}, "c": frozenset()}
    assert found.left_out == ("candle-core/rocm_made_up d",)
    assert [[test.name for test in tests] for _, tests in found.about(4)] == [["a"]]
    assert found.about(6) == ()


def test_a_test_that_fails_without_a_mutant_ends_it_all(tmp_path: Path) -> None:
    with pytest.raises(BaselineFailed, match="1 tests fail without a mutant"):
        baseline_of(tmp_path, a=REACHES.format(4), b="print('FAILED')")


def test_a_test_that_skips_is_no_evidence_and_only_the_want_of_a_gpu_may_be_its_reason(tmp_path: Path) -> None:
    found = baseline_of(tmp_path, a=REACHES.format(4), b="print('SKIPPED: b: a device is there')")
    assert ([test.name for test in found.tests], found.left_out) == (["a"], ("candle-core/rocm_made_up b",))
    with pytest.raises(BaselineFailed, match="1 tests fail"):
        baseline_of(tmp_path, a=REACHES.format(4), b="print('SKIPPED: b: no ROCm device')")


def test_programs_without_switches_end_it_all(tmp_path: Path) -> None:
    with pytest.raises(BaselineFailed, match="no test reaches a mutant"):
        baseline_of(tmp_path, a="pass")


def mutants(*names: str) -> list[Mutant]:
    return [
        Mutant(n, f"a.rs:{n + 1}:1: {name}", "a.rs", (n + 1, 1), (n + 1, 2), "", "") for n, name in enumerate(names)
    ]


class Runs:
    """Stands in for `run_tests`: the tests fail for mutant 0, pass for 1 and are killed for 2."""

    def __init__(self, *, const_compiles: bool = True) -> None:
        self.asked: list[str] = []
        self.const_compiles = const_compiles

    def __call__(self, _program: str, tests: Sequence[str], variables: dict[str, str], **_: Any) -> Ended:
        number = variables.get("CANDLE_ROCM_MUTANT", "none")
        self.asked.append(number)
        passed = Ended(0, passed=frozenset(tests), closing=True)
        return {"0": replace(passed, failed="a"), "2": Ended(-signal.SIGKILL)}.get(number, passed)


def campaign(folder: Path, runs: Runs) -> Campaign:
    test = Passing("candle-core/p", "a", 1.0, frozenset({0, 1, 2}))
    built = Built((Program("candle-core/p", "/p"),), frozenset({0, 1, 2, 3}), {4: "no such operator"}, {5: "const"})
    results = Results(folder / "results.jsonl")
    plain = Compilation(ok=runs.const_compiles, programs=built.programs, errors=({"message": "no such constant"},))
    return Campaign(built, Baseline((test,), ()), {}, lambda _: folder, results, lambda _: plain, run=runs)


NAMES = ("bad", "same", "killed", "apart", "nonsense", "const")


def test_each_kind_of_mutant_gets_its_verdict(tmp_path: Path) -> None:
    found = campaign(tmp_path, Runs()).try_all(mutants(*NAMES))
    assert {name.split(": ")[1]: result.verdict for name, result in found.items()} == {
        "bad": Verdict.CAUGHT,
        "same": Verdict.SURVIVED,
        "killed": Verdict.ERROR,
        "apart": Verdict.UNREACHED,
        "nonsense": Verdict.UNVIABLE,
        "const": Verdict.SURVIVED,
    }


def test_a_mutant_without_a_switch_that_does_not_compile_is_unviable(tmp_path: Path) -> None:
    found = campaign(tmp_path, Runs(const_compiles=False)).try_all(mutants(*NAMES)[5:])
    assert [(result.verdict, result.by) for result in found.values()] == [(Verdict.UNVIABLE, "no such constant")]


def test_a_second_run_tries_only_what_is_not_known(tmp_path: Path) -> None:
    campaign(tmp_path, Runs()).try_all(mutants(*NAMES)[:2])
    with (tmp_path / "results.jsonl").open("a") as file:
        file.write('{"name": "cut o')
    again = Runs()
    found = campaign(tmp_path, again).try_all(mutants(*NAMES))
    assert again.asked == ["2", "5"]
    assert len(found) == 6
    once_more = Runs()
    campaign(tmp_path, once_more).try_all(mutants(*NAMES))
    assert once_more.asked == ["2"], "what was ended from outside is tried again"


PYTHON_TESTS = """\
import os, signal
import pytest

def test_one():
    {first}

def test_two():
    assert 1 + 1 == 2
"""


@pytest.mark.parametrize(
    ("first", "verdict"),
    [
        ("pass", None),
        ("assert os.name == 'another'", Verdict.CAUGHT),
        ("pytest.skip('no device')", Verdict.CAUGHT),
        ("os.abort()", Verdict.CAUGHT),
        ("os.kill(os.getpid(), signal.SIGKILL)", Verdict.ERROR),
        ("pytest.exit('enough')", Verdict.ERROR),
    ],
)
def test_files_of_python_tests_are_judged_alike(tmp_path: Path, first: str, verdict: Verdict | None) -> None:
    path = tmp_path / "test_it.py"
    path.write_text(PYTHON_TESTS.format(first=first))
    ended = Emulated.run(str(path), [], {}, cwd=tmp_path, timeout=300)
    assert judged(ended, frozenset({"test_it.py (2 passed)"})).verdict is verdict


ASKS = """\
import os, pathlib
def test_it() -> None:
    pathlib.Path(os.environ["CANDLE_ROCM_REACHED"]).write_text({record!r})
"""


def test_python_tests_that_reach_no_mutant_judge_nothing(tmp_path: Path) -> None:
    emulated = Emulated(ScratchTree(tmp_path / "tree", tmp_path / "target"), tmp_path, "", lambda _line: None)
    path = tmp_path / "test_it.py"
    python = Program("pytest/test_it", str(path))
    path.write_text(ASKS.format(record="17\n"))
    assert emulated.cases([python], {}) == [(python, "test_it.py (1 passed)")]
    path.write_text(ASKS.format(record=""))
    with pytest.raises(BaselineFailed, match="no file of Python tests reaches a mutant"):
        emulated.cases([python], {})


LINES = {"a.rs": ["let a = b < c;", "  let d = e < f; ", "x", "y", "z", "w"]}


def results_of(**verdicts: Verdict) -> dict[str, Result]:
    by_change = {mutant.change: mutant.name for mutant in mutants(*NAMES)}
    return {by_change[change]: Result(by_change[change], verdict, "", 1.0) for change, verdict in verdicts.items()}


def test_accepted_survivors_do_not_count_and_the_others_do() -> None:
    entry = Entry(file="a.rs", line="let d = e < f;", change="same", reason="only the speed")
    results = results_of(bad=Verdict.CAUGHT, same=Verdict.SURVIVED, apart=Verdict.UNREACHED)
    review = reviewed([entry], mutants(*NAMES), LINES, results)
    assert review.complaints == ()
    assert [mutant.change for mutant in survivors(mutants(*NAMES), results, review)] == ["apart"]
    assert "caught 33.3 % of 3 that compile" in summary(mutants(*NAMES), results, review)


def test_an_entry_that_accepts_nothing_is_reported() -> None:
    gone = Entry(file="a.rs", line="let z = 1;", change="same", reason="only the speed")
    caught = Entry(file="a.rs", line="let a = b < c;", change="bad", reason="only the speed")
    review = reviewed([gone, caught], mutants(*NAMES), LINES, results_of(bad=Verdict.CAUGHT))
    assert [complaint.split(": ")[0] for complaint in review.complaints] == [
        "accepted, but there is no such mutant",
        "accepted, but it does not survive (caught)",
    ]


def test_an_entry_needs_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "accepted.yaml"
    path.write_text("accepted:\n- {file: a.rs, line: x, change: y, reason: ''}\n")
    with pytest.raises(SpecInvalid, match="reason"):
        read_accepted(path)


def test_the_list_itself_can_be_read() -> None:
    from mutants import accepted

    read_accepted(Path(accepted.__file__).parent / "accepted.yaml")
