"""Nothing of a tree reaches a terminal as anything but characters that are seen."""

from __future__ import annotations

import ast
import json
import sys
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from mini_candle import DEVICE, Mini, make_mini
from some import some

import codegen
from codegen import terminal

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(codegen.__file__).parent
WRITES_TO_A_PIPE = "rocm/hiprtc_program.py"
EVIL = "\x1b]0;title\x07\x1b[2J\x9b31m\u202e\u2066\u200b\r\x00"
"""A window's title, an empty screen, a colour by one character of C1, bidirectional and invisible characters."""


def unseen(text: str) -> set[str]:
    return {c for c in text if c not in "\n\t" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")}


def test_every_character_that_is_not_seen_is_escaped() -> None:
    assigned = [c for c in map(chr, range(sys.maxunicode + 1)) if unseen(c)]

    assert [c for c in some(assigned) if terminal.shown(c) == c] == []
    assert unseen(terminal.shown("".join(assigned))) == set()


def test_what_is_seen_stays() -> None:
    text = "fn a() {\n\tlet é = \"日本 → '\\u001b' 👍\";\n}\n"

    assert terminal.shown(text) == text


@pytest.mark.parametrize("character", ["\x1b", "\x7f", "\x85", "\u202e", "\ud800", "\U000e0001"])
def test_json_reads_an_escape_as_the_character(character: str) -> None:
    text = json.dumps({"a": f"<{character}>"}, ensure_ascii=False)

    assert json.loads(terminal.shown(text)) == {"a": f"<{character}>"}


def test_a_name_stays_on_its_line() -> None:
    assert terminal.shown_name("a\n  = help: run it\t.rs") == "a\\u000a  = help: run it\\u0009.rs"


def test_console_shows_what_it_styles(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table("head" + EVIL)
    table.add_row(Text(f"cell{EVIL}", style="red"))
    console = terminal.console(force_terminal=True, width=200, color_system="standard")
    console.print(table)
    console.print(f"line{EVIL}", style="green", highlight=False, markup=False)

    printed = capsys.readouterr().out
    assert "\x1b[31mcell\\u001b]0;title" in printed
    assert "\x1b[32mline\\u001b]0;title" in printed
    assert unseen(printed.replace("\x1b[31m", "").replace("\x1b[32m", "").replace("\x1b[0m", "")) <= {"\x1b"}
    assert "\x1b]" not in printed
    assert "\x1b[2J" not in printed


# The commands

CONTROL = EVIL.replace("\x00", "").replace("\r", "")


@pytest.fixture
def mini(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Mini:
    return make_mini(tmp_path, capsys, monkeypatch)


@pytest.fixture
def hostile(mini: Mini) -> Mini:
    """Escapes in a file's name, in lines with sites, in a manifest, and in a message about a broken file."""
    device = (mini.root / DEVICE).read_text()
    mini.write(DEVICE, device.replace("Device::Cuda(_) =>", f"/*{CONTROL}*/ Device::Cuda(_) =>"))
    mini.write(f"candle-core/src/{CONTROL.replace('/', '')}.rs", f"pub fn odd() {{ /*{CONTROL}*/ is_cuda(); }}\n")
    mini.write("candle-lab/Cargo.toml", f'[package]\nname = "candle-lab{_toml(CONTROL)}"\nversion = "1.0.0"\n')
    return mini


def _toml(text: str) -> str:
    return "".join(f"\\u{ord(c):04x}" for c in text)


@pytest.mark.parametrize(
    "arguments",
    [
        ("scan",),
        ("scan", "--list"),
        ("scan", "--json"),
        ("scan", "--sarif"),
        ("scan", "--github"),
        ("diff",),
        ("diff", "--color", "always"),
        ("diff", "--stat"),
        ("diff", "--json"),
        ("explain", f"{DEVICE}:8"),
        ("explain", "--json", f"{DEVICE}:8"),
        ("explain", f"{CONTROL}.rs:1"),
        ("check",),
        ("check", "--json"),
        ("status",),
        ("apply", "--allow-dirty"),
        ("generate", "--out", "{out}"),
        ("report", "--html", "{out}"),
    ],
)
def test_no_command_prints_what_a_terminal_obeys(
    hostile: Mini, tmp_path: Path, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "for_a_person", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    command, *options = (word.format(out=tmp_path / "out") for word in arguments)

    answer = hostile.call(command, str(hostile.root), *options)

    assert answer.out + answer.err
    assert answer.code != 70
    printed = answer.out + answer.err
    for colour in ("\x1b[1m", "\x1b[36m", "\x1b[32m", "\x1b[31m", "\x1b[m"):
        printed = printed.replace(colour, "") if "always" in arguments else printed
    assert unseen(printed) == set()


def test_a_line_of_an_error(mini: Mini) -> None:
    mini.write("Cargo.toml", f"[workspace]\nmembers = [] # {CONTROL.replace(chr(27), '')}\nb\x9b = 1\n")

    answer = mini.call("scan", str(mini.root))

    assert "\\u009b" in answer.err
    assert unseen(answer.err) == set()


def test_a_wrong_option_is_shown(mini: Mini) -> None:
    answer = mini.call("scan", str(mini.root), f"--nothing{EVIL}")

    assert answer.code == 2
    assert unseen(answer.err) == set()


def test_a_diff_for_git_is_exact(mini: Mini) -> None:
    mini.write(DEVICE, (mini.root / DEVICE).read_text().replace("Cuda(_) =>", f"Cuda(_) /*{CONTROL}*/ =>", 1))

    assert CONTROL in mini.call("diff", str(mini.root)).out


# One place


PRINTS = ("print", "Console", "rich.print", "warnings.warn")
PRINTS_BY = ("click.echo", "click.secho", "click.prompt", "click.confirm", "sys.stdout.", "sys.stderr.")


def prints_of(text: str) -> Iterator[int]:
    """Lines that could print: `print`, `click.echo`, a console of rich's own, writes to a standard stream."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if (name in PRINTS or name.startswith(PRINTS_BY)) and not name.endswith(".isatty"):
                yield node.lineno


def test_what_counts_as_printing() -> None:
    text = "print(1)\nclick.echo(2)\nConsole()\nsys.stdout.buffer.write(b'')\nsys.stderr.isatty()\nterminal.say(3)\n"

    assert [*prints_of(text)] == [1, 2, 3, 4]


def test_one_module_prints() -> None:
    found = [
        path.relative_to(PACKAGE).as_posix()
        for path in some(sorted(PACKAGE.rglob("*.py")))
        if [*prints_of(path.read_text(encoding="utf-8"))]
    ]

    assert found == [WRITES_TO_A_PIPE, "terminal.py"]
