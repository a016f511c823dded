"""specs/acceptance.yaml: what it names is there and is run, and what contradicts itself is refused."""

from __future__ import annotations

import re

import pytest
from releases.cover import in_newest, table
from some import some

from codegen.errors import SpecInvalid
from codegen.paths import repository_root
from codegen.spec.loader import load_specs
from codegen.verify.acceptance import ACCEPTANCE, Acceptance, parse_acceptance
from codegen.verify.steps import STEPS

VALID = """\
seeds:
  - document: "009"
    about: a document
    lines:
      - asks: this runs
        verify: [rocm-tests]
      - asks: this builds
        verify: [check-on]
      - asks: this has a test
        pytest: [tests/unit]
      - asks: this comes later
        waits: 2
      - asks: this cannot be
        missing: true
        reason: nobody has the hardware
      - asks: this is done
        reason: by other means altogether
"""


def own() -> Acceptance:
    return parse_acceptance((repository_root() / ACCEPTANCE).read_bytes())


def test_every_test_that_it_names_is_there() -> None:
    assert [path for path in sorted(own().files) if not (repository_root() / path).is_file()] == []


def test_make_test_runs_every_file_that_it_names() -> None:
    """By the folders that the Makefile hands to pytest."""
    makefile = (repository_root() / "Makefile").read_text(encoding="utf-8")
    lines = [line for line in makefile.splitlines() if "$(BIN)/pytest" in line and "--update-goldens" not in line]
    folders = {folder for line in lines for folder in re.findall(r"tests/[\w/-]+", line.partition("--ignore")[0])}
    assert {"tests/unit", "tests/kernels", "tests/releases"} <= folders
    assert [path for path in some(own().files) if not any(path.startswith(f"{each}/") for each in folders)] == []


def test_make_test_runs_every_step_or_it_is_said_why_not() -> None:
    """By what tests/releases runs; a step with a reason must not be among them."""
    ran = {run.step for run in (*table(), *in_newest())}
    assert {step.id for step in STEPS} - ran == {step.id for step in STEPS if step.by_hand} == {"smoke"}
    assert ran <= {step.id for step in STEPS}


def test_what_waits_waits_for_a_phase_that_is_not_applied_yet() -> None:
    waiting = {line.waits for seed in own().seeds for line in seed.lines if line.waits is not None}
    later = {phase.phase for phase in load_specs().phases if not phase.applied}
    assert waiting <= later


def test_all_five_documents_are_there() -> None:
    assert [seed.document for seed in own().seeds] == ["003", "000", "001", "002", "004"]


def test_the_steps_and_files_that_lines_name() -> None:
    spec = parse_acceptance(VALID.encode())
    assert (spec.steps, spec.files) == (("rocm-tests", "check-on"), ("tests/unit",))


@pytest.mark.parametrize(
    ("before", "after", "message", "line"),
    [
        ("verify: [rocm-tests]", "verify: [no-such-step]", "verify has no step 'no-such-step'", 5),
        ("        waits: 2\n", "", "nothing shows it", 11),
        ("missing: true", "missing: true\n        verify: [smoke]", "what is missing has a reason", 13),
    ],
)
def test_what_contradicts_itself_is_refused(before: str, after: str, message: str, line: int) -> None:
    assert before in VALID
    with pytest.raises(SpecInvalid) as caught:
        parse_acceptance(VALID.replace(before, after, 1).encode())
    assert message in str(caught.value)
    assert f"{ACCEPTANCE}:{line}:" in str(caught.value)
