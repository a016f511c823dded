"""How long work shows itself: lines through a pipe, a line under way on a terminal, nothing where that is wanted."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from codegen import terminal
from codegen.watch import Verbosity, Watch, duration, watching

if TYPE_CHECKING:
    from collections.abc import Callable


class Clock:
    """Time that tests move."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def work(shown: Watch, clock: Clock) -> None:
    shown.start("check, rocm off", expected=40.0)
    shown.message("compiling candle-core 0.11.1")
    clock.now += 35.2
    shown.end("passed", "no warnings")
    shown.start("tests")
    clock.now += 3725
    shown.end("FAILED", "1 failed")
    shown.start("smoke")
    shown.end("SKIPPED", "no AMD GPU", done=False)


@pytest.mark.parametrize(
    ("verbosity", "lines"),
    [
        (Verbosity.QUIET, []),
        (
            Verbosity.USUAL,
            [
                "step 1 of 3, check, rocm off: passed after 35 s: no warnings",
                "step 2 of 3, tests: FAILED after 1 h 02 min: 1 failed",
                "step 3 of 3, smoke: SKIPPED: no AMD GPU",
            ],
        ),
        (
            Verbosity.VERBOSE,
            [
                "  compiling candle-core 0.11.1",
                "step 1 of 3, check, rocm off: passed after 35 s: no warnings",
                "step 2 of 3, tests: FAILED after 1 h 02 min: 1 failed",
                "step 3 of 3, smoke: SKIPPED: no AMD GPU",
            ],
        ),
    ],
)
def test_each_step_that_has_ended_is_a_line(verbosity: Verbosity, lines: list[str]) -> None:
    said: list[str] = []
    clock = Clock()
    work(Watch(3, verbosity, clock, said.append), clock)
    assert said == lines


def test_the_step_under_way_is_one_line_with_the_time_of_the_last_run() -> None:
    clock = Clock()
    shown = Watch(14, Verbosity.USUAL, clock, lambda _line: None)
    shown.message("building the emulated HIP device")
    assert shown.under_way == "building the emulated HIP device"
    shown.start("tests on the device", expected=185.0)
    clock.now += 62
    assert shown.under_way == "step 1 of 14, 1 min 02 s of about 3 min 05 s, tests on the device"
    shown.message("running candle-core rocm_basic")
    assert shown.under_way.endswith(", tests on the device: running candle-core rocm_basic")


def test_steps_that_run_beside_each_other_are_counted_and_only_those_with_work_are_told() -> None:
    said: list[str] = []
    shown = Watch(3, Verbosity.USUAL, Clock(), said.append)
    shown.ended("cast for gfx906", "compiled", 4.25)
    shown.ended("cast for gfx942", "compiled", 0.0)
    shown.ended("copy for gfx906", "compiled", 12.0)
    assert said == [
        "step 1 of 3, cast for gfx906: compiled after 4.2 s",
        "step 3 of 3, copy for gfx906: compiled after 12 s",
    ]


@pytest.mark.parametrize("width", [20, 80])
def test_a_terminal_of_any_width_keeps_the_lines_of_steps_and_loses_the_one_under_way(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = io.StringIO()
    monkeypatch.setattr(
        terminal, "console", lambda **_more: Console(file=drawn, force_terminal=True, width=width, color_system=None)
    )
    with watching(2, Verbosity.USUAL) as shown:
        shown.start("a step with a title that is longer than a narrow terminal is wide")
        shown.message("compiling [red]candle-core[/red]")
        shown.end("passed")
    last = [line for line in drawn.getvalue().replace("\r", "\n").split("\n") if line][-1]
    said = drawn.getvalue().replace("\n", "").replace("\r", "")
    assert "step 1 of 2, a step" in said
    assert "is wide: passed after 0.0 s" in " ".join(said.split())
    assert last.endswith("\x1b[2K"), "the line under way is taken away"


def test_through_a_pipe_nothing_is_drawn_and_lines_are_plain(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Watch, "clock", lambda _watch: 0.0)
    with watching(1, Verbosity.USUAL) as shown:
        shown.start("check")
        shown.message("compiling")
        shown.end("passed")
    assert capsys.readouterr().err == "step 1 of 1, check: passed after 0.0 s\n"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0.0 s"), (9.96, "10.0 s"), (10, "10 s"), (59.4, "59 s"), (59.6, "1 min 00 s"), (3599.6, "1 h 00 min")],
)
def test_durations_are_read_at_a_glance(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_control_characters_of_a_tree_reach_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    say: Callable[[str], None] = terminal.note
    shown = Watch(1, Verbosity.USUAL, say=say)
    shown.start("tests")
    shown.end("FAILED", "\x1b]0;title\x07")
    assert "\x1b" not in capsys.readouterr().err


@pytest.mark.parametrize("verbosity", [Verbosity.QUIET, Verbosity.USUAL])
def test_what_the_work_says_is_part_of_its_step(verbosity: Verbosity) -> None:
    with watching(1, verbosity) as watch:
        watch.start("Candle 0.11.1")
        terminal.progress("planning \x1b[2J")
        assert watch.under_way.endswith("Candle 0.11.1: planning \\u001b[2J")
