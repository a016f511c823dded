"""specs/acceptance.yaml: what it names is there, and what contradicts itself is refused."""

from __future__ import annotations

import pytest

from codegen.errors import SpecInvalid
from codegen.paths import repository_root
from codegen.spec.loader import load_specs
from codegen.verify.acceptance import ACCEPTANCE, Acceptance, parse_acceptance

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
    named = {path for seed in own().seeds for line in seed.lines for path in line.pytest}
    assert [path for path in sorted(named) if not (repository_root() / path).is_file()] == []


def test_what_waits_waits_for_a_phase_that_is_not_applied_yet() -> None:
    waiting = {line.waits for seed in own().seeds for line in seed.lines if line.waits is not None}
    later = {phase.phase for phase in load_specs().phases if not phase.applied}
    assert waiting <= later


def test_all_five_documents_are_there() -> None:
    assert [seed.document for seed in own().seeds] == ["003", "000", "001", "002", "004"]


def test_the_state_of_a_line_is_the_strongest_of_its_proofs() -> None:
    (seed,) = parse_acceptance(VALID.encode()).seeds
    assert [line.state for line in seed.lines] == [
        "on the emulated device",
        "compiled",
        "tested",
        "waits for a phase",
        "not there",
        "done otherwise",
    ]
    assert parse_acceptance(VALID.encode()).count("compiled") == 1
    assert seed.lines[0].commands == ("candle-rocm verify CANDLE --only rocm-tests",)


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
