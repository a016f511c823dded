"""Steps of tests for the programs that are named, of a made-up crate."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from codegen.errors import UsageError
from codegen.verify.chosen_tests import only_programs, programs_of
from codegen.verify.crate_targets import View
from codegen.verify.steps import PassCriterion, Step

if TYPE_CHECKING:
    from pathlib import Path

FILES = {
    "Cargo.toml": "[workspace]\n",
    "core/Cargo.toml": '[package]\nname = "core"\n[features]\nrocm = []\n',
    "core/src/lib.rs": "",
    "core/src/bin/tool.rs": "",
    "core/tests/basic.rs": "",
    "core/tests/conv.rs": "",
    "core/tests/matrix/main.rs": "",
}
WHOLE = Step("all", "all tests", "test", ("core",), PassCriterion.TESTS, 0, options=("--tests", "--no-fail-fast"))
SOME = Step("some", "two", "test", ("core",), PassCriterion.TESTS, 0, options=("--test", "conv", "--test", "basic"))
CHECK = Step("check", "check", "check", ("core",), PassCriterion.BUILDS, 0)


@pytest.fixture
def view(tmp_path: Path) -> View:
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return View(tmp_path)


def test_programs_are_named_as_their_files_and_unit_tests_lib(view: View) -> None:
    assert programs_of(WHOLE, view) == ("lib", "basic", "conv", "matrix")
    assert programs_of(SOME, view) == ("basic", "conv")
    assert programs_of(CHECK, view) == ()
    assert programs_of(replace(WHOLE, crates=("absent", "core")), view) == programs_of(WHOLE, view)


def test_steps_are_narrowed_and_those_without_the_program_left_out(view: View) -> None:
    (whole,) = only_programs([WHOLE, SOME, CHECK], ["matrix", "lib"], view)
    assert (whole.id, whole.options) == ("all", ("--no-fail-fast", "--lib", "--test", "matrix"))
    assert programs_of(whole, view) == ("lib", "matrix")

    chosen = only_programs([WHOLE, SOME, CHECK], ["conv"], view)
    assert [(step.id, step.options) for step in chosen] == [
        ("all", ("--no-fail-fast", "--test", "conv")),
        ("some", ("--test", "conv")),
    ]


def test_a_program_that_no_step_has_is_a_usage_error(view: View) -> None:
    with pytest.raises(UsageError, match=r"no step has the test program `matrx`; did you mean 'matrix'") as caught:
        only_programs([WHOLE, CHECK], ["conv", "matrx"], view)
    assert caught.value.remedy == "choose among basic, conv, lib, matrix"
    with pytest.raises(UsageError) as caught:
        only_programs([CHECK], ["conv"], view)
    assert caught.value.remedy == "choose a step that runs tests"
