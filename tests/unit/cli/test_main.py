"""What all commands have in common: help that always answers, JSON that says its schema, a stdout for the result."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import click
import pytest
from in_process import REPOSITORY
from loopback_registry import LoopbackRegistry
from made_up import READY, replace_in

from codegen import terminal
from codegen.cli.main import COMMANDS, cli

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from in_process import CommandLine


def commands() -> Iterator[tuple[str, ...]]:
    """Every command, the subcommands of groups included."""
    context = click.Context(cli)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from ((name, each) for each in command.commands)
        else:
            yield (name,)


ALL = tuple(commands())


@pytest.mark.parametrize("command", [(), *((name,) for name in COMMANDS), *ALL], ids=" ".join)
def test_help_works_even_when_the_specs_are_invalid(
    candle_rocm: CommandLine, home: Path, command: tuple[str, ...]
) -> None:
    (home / "specs" / "candle.yaml").write_text("}")

    answer = candle_rocm.ok(*command, "--help")

    assert answer.stdout.startswith(f"Usage: {' '.join(('candle-rocm', *command))} [OPTIONS]")
    assert answer.stderr == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("verfy",), "No such command 'verfy'; did you mean 'verify'?"),
        (("quux",), "No such command 'quux'."),
        (("scan", "--jsn"), "No such option '--jsn'. Did you mean '--json'?"),
    ],
)
def test_a_wrong_word_is_answered_with_the_nearest_right_one(
    candle_rocm: CommandLine, words: tuple[str, ...], said: str
) -> None:
    answer = candle_rocm(*words)
    assert answer.code == 2
    assert said.replace("(", "").replace(")", "") in answer.stderr.replace("(", "").replace(")", "")


@pytest.mark.parametrize(
    ("variables", "text"),
    [
        ({}, "red\n"),
        ({"CLICOLOR_FORCE": "1"}, "\x1b[31mred\x1b[0m\n"),
        ({"CLICOLOR_FORCE": "0"}, "red\n"),
        ({"NO_COLOR": "1", "CLICOLOR_FORCE": "1"}, "red\n"),
    ],
)
def test_colours_go_where_variables_send_them(
    variables: dict[str, str], text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Standard output is no terminal here."""
    for name in ("NO_COLOR", "CLICOLOR_FORCE", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    terminal.console().print("red", style="red")
    assert capsys.readouterr().out == text


def test_the_help_page_names_every_command(candle_rocm: CommandLine) -> None:
    page = candle_rocm.ok("--help").stdout
    assert candle_rocm.ok("-h").stdout == page

    for name, line in COMMANDS.items():
        assert f"  {name} " in page
        assert line.split(":")[0] in page


def test_version(candle_rocm: CommandLine) -> None:
    assert candle_rocm.ok("--version").stdout == "candle-rocm, version 0.1.0\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nonsense",), "No such command 'nonsense'."),
        (("apply",), "Missing argument 'CANDLE'."),
        (("apply", ".", "--phase", "8"), "Invalid value for '--phase': 8 is not in the range 0<=x<=7."),
        (("apply", ".", "--gating", "none"), "Invalid value for '--gating': 'none' is not one of 'dummy', 'cfg'."),
        (("status", ".", "--twice"), "No such option '--twice'"),
    ],
)
def test_a_command_line_that_makes_no_sense(candle_rocm: CommandLine, arguments: tuple[str, ...], message: str) -> None:
    refused = candle_rocm(*arguments)

    assert (refused.code, refused.stdout) == (2, "")
    assert f"Error: {message}" in refused.stderr


def test_importing_the_command_line_is_cheap() -> None:
    """`--help` must answer at once: nothing heavy is imported before a command runs."""
    heavy = ("jinja2", "pydantic", "rich", "yaml", "tomlkit", "tree_sitter", "urllib.request", "json")
    program = (
        "import sys\nfrom codegen.cli.main import run\nrun(['--help'])\n"
        f"print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)"
    )

    done = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=True)

    assert done.stderr == "[]\n"


def test_python_dash_m_is_the_same_program(candle: Path, candle_rocm: CommandLine) -> None:
    command = [sys.executable, "-m", "codegen", "check", str(candle)]

    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert done.stdout == candle_rocm("check", candle).stdout


# --- JSON --------------------------------------------------------------------------------------------------------

ON_A_TREE: dict[tuple[str, ...], tuple[str, ...]] = {
    ("scan",): (),
    ("generate",): ("--out", "out"),
    ("diff",): (),
    ("apply",): (),
    ("check",): (),
    ("status",): (),
    ("declare",): (),
    ("revert",): (),
    ("upgrade",): (),
    ("explain",): ("candle-core/src/device.rs:10",),
    ("report",): ("--html", "report.html"),
}
WITHOUT_A_TREE: dict[tuple[str, ...], tuple[str, ...]] = {
    ("fetch",): ("0.9.1",),
    ("doctor",): (),
    ("versions",): (),
    ("bug-report",): (),
    ("spec", "lint"): (),
    ("kernels", "list"): (),
    ("kernels", "render"): ("--to", "kernels"),
}
ELSEWHERE = {
    ("verify",),
    ("use",),
    ("port",),
    ("publish",),
    ("parity",),
    ("bench",),
    ("emulator",),
    ("kernels", "build"),
    ("kernels", "resources"),
}
"""verify and emulator need cargo, a benchmark a GPU, compiling kernels ROCm's compiler, and `use` a program:
tests/unit/verify, tests/emulator, tests/unit/bench, tests/rocm, test_use.py and test_publish.py look at their JSON; and
test_parity_cli.py, since the made-up tree has public items that nothing answers."""


NAME_UNFORESEEN = {("scan",), ("generate",), ("apply",), ("upgrade",)}
"""The made-up tree has sites that only fallback rules know."""


def test_every_command_with_json_is_tested_here() -> None:
    context = click.Context(cli)
    with_json = set()
    for path in ALL:
        command = cli.get_command(context, path[0])
        if isinstance(command, click.Group):
            command = command.commands[path[1]]
        assert command is not None
        if any("--json" in parameter.opts for parameter in command.params):
            with_json.add(path)

    assert with_json == {*ON_A_TREE, *WITHOUT_A_TREE, *ELSEWHERE}
    assert set(ALL) - with_json == {("spec", "schema"), ("completion",)}, "which are for programs anyhow"


@pytest.mark.parametrize("command", ON_A_TREE, ids=" ".join)
def test_json_about_a_tree(
    candle: Path, candle_rocm: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    if command in (("declare",), ("revert",), ("upgrade",)):
        candle_rocm.ok("apply", candle)

    answer = candle_rocm(*command, candle, *ON_A_TREE[command], "--json")

    document = answer.document
    assert answer.code == (1 if command == ("check",) else 0), answer.stderr
    notes = answer.stderr.splitlines()
    assert bool(notes) == (command in NAME_UNFORESEEN)
    assert [line for line in notes if not line.startswith("new to the specs, please review: ")] == []
    assert (document["schema_version"], document["command"]) == (1, command[0])
    assert document["tool"]["name"] == "candle-rocm"
    assert document["candle"] == {"release": "0.11.1", "tried": True}


@pytest.mark.parametrize("command", WITHOUT_A_TREE, ids=" ".join)
def test_json_about_other_things(
    candle_rocm: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    with LoopbackRegistry() as server:
        server.configure(monkeypatch, tmp_path)
        server.publish_candle("0.9.1")

        answer = candle_rocm(*command, *WITHOUT_A_TREE[command], "--json")

    assert answer.code in (0, 7), answer.stderr
    assert answer.document["schema_version"] == 1
    assert answer.document["command"] == " ".join(command)


def test_json_content(candle: Path, candle_rocm: CommandLine, tmp_path: Path) -> None:
    applied = candle_rocm.ok("apply", candle, "--json").document
    assert [(phase["phase"], phase["name"]) for phase in applied["applied"]] == list(READY.items())
    assert "candle-core/src/device.rs" in applied["applied"][1]["files"]

    replace_in(candle / "candle-core/src/device.rs", "impl Device", "// mine\nimpl Device")
    status = candle_rocm.ok("status", candle, "--json").document
    assert [phase["phase"] for phase in status["applied"]] == list(READY)
    assert (status["gating"], status["ready"]) == ("dummy", [])
    assert status["hand_edited"] == ["candle-core/src/device.rs"]

    check = candle_rocm("check", candle, "--json").document
    assert check["clean"] is False
    assert check["files"] == [{"path": "candle-core/src/device.rs", "problem": "differs"}]

    generated = candle_rocm.ok("generate", candle, "--out", tmp_path / "out", "--json").document
    assert generated["out"] == str(tmp_path / "out")
    assert all((tmp_path / "out" / path).is_file() for path in generated["files"])

    assert candle_rocm.ok("revert", candle, "--force", "--json").document["reverted"] == list(reversed(READY))
    assert candle_rocm.ok("status", candle, "--json").document["gating"] is None


# --- diff --------------------------------------------------------------------------------------------------------


def test_stdout_of_diff_is_the_diff_alone(
    candle: Path, candle_rocm: CommandLine, tmp_path: Path, own_cache: Path
) -> None:
    """Also in a first run, on a release that nobody tried, where there would be something to say."""
    replace_in(candle / "Cargo.toml", 'version = "0.11.1"', 'version = "0.12.0"')

    answer = candle_rocm.ok("diff", candle)

    assert "was not tested" in answer.stderr
    assert answer.stdout.startswith("diff --git a/")
    marks = ("diff --git ", "new file mode ", "index ", "--- ", "+++ ", "@@ ", " ", "+", "-", "\n", "\\ No newline")
    assert [line for line in answer.stdout.splitlines(keepends=True) if not line.startswith(marks)] == []
    patch = tmp_path / "all.patch"
    patch.write_bytes(answer.stdout.encode())
    subprocess.run(["git", "apply", "--check", str(patch)], cwd=candle, check=True)


def test_schemas_are_json(candle_rocm: CommandLine) -> None:
    for kind in ("candle", "phase"):
        assert json.loads(candle_rocm.ok("spec", "schema", "--kind", kind).stdout)["type"] == "object"
