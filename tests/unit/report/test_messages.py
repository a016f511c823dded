"""Every message has its place: known again as it was printed, with what it means and what helps."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from some import some

import codegen
from codegen.errors import ExitCode, UsageError
from codegen.lint.repository import lint
from codegen.paths import repository_root
from codegen.report.messages import HOLE, KINDS, TOOL, Message, error_variants, explained, lookup, page
from codegen.spec.messages import MESSAGES

if TYPE_CHECKING:
    from in_process import CommandLine

EVERY = [(kind.advice.code, message) for kind in explained() for message in kind.messages]


def filled(message: Message) -> str:
    """As it may be printed."""
    parts = message.text.split(HOLE)
    return "".join(f"{part}some/file_{number}.rs" for number, part in enumerate(parts[:-1])) + parts[-1]


def test_every_message_finds_its_page() -> None:
    """With the words before it that say what kind of error it is; the page lists it below that kind."""
    sections = {text.partition("\n")[0]: text for text in page().split("\n### ")[1:]}
    by_code = {kind.advice.code: kind for kind in explained()}
    assert list(sections) == list(by_code)
    for code, message in some(EVERY):
        kind = by_code[code]
        assert message.text in sections[code]
        if kind.of == TOOL:
            found, which = lookup(f"{kind.advice.name}: {filled(message)}")
            assert found.advice.code == code
            assert which is not None or message.plain < 8


def test_most_messages_are_known_by_themselves() -> None:
    """A few are no more than a name, or the same in several kinds of errors."""
    known = [lookup(filled(message))[0].advice.code == code for code, message in EVERY if message.plain >= 20]
    assert len(known) > 200
    assert sum(known) / len(known) > 0.9


def test_no_error_is_made_of_words_that_are_not_listed() -> None:
    """Where the words of an error come from elsewhere, its module has problems with words of their own."""
    listed = {message.text for _, message in EVERY}
    assert len(listed) > 300
    said_elsewhere = {"codegen/cli/main.py", "codegen/report/findings.py", "codegen/rocm/__main__.py"}
    silent = []
    for path in some(sorted(Path(codegen.__file__).parent.rglob("*.py"))):
        text = path.read_text(encoding="utf-8")
        calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
        names = [node.func.id for node in calls if isinstance(node.func, ast.Name)]
        if not set(names) & KINDS.keys() or path.name == "errors.py":
            continue
        literal = any(part in text for each in listed for part in [max(each.split(HOLE), key=len)] if len(part) > 5)
        if not literal:
            silent.append(path.relative_to(repository_root()).as_posix())
    assert set(silent) <= said_elsewhere, "which pass on what others say"


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        (
            ("apply", "{candle}", "--phase", "1"),
            "phase-order",
            f"phase {HOLE} needs phase {HOLE}, which is not applied",
        ),
        (("upgrade", "{candle}"), "phase-order", "no phase is applied: there is nothing to upgrade"),
        (("scan", "{candle}/nowhere"), "not-candle", f"the folder {HOLE} {HOLE}"),
        (("explain", "{candle}", "here"), "usage", f"'{HOLE}' is not FILE:LINE"),
    ],
)
def test_what_a_command_says_can_be_asked_for(
    candle: Path, candle_rocm: CommandLine, command: tuple[str, ...], code: str, message: str
) -> None:
    said = candle_rocm(*(word.format(candle=candle) for word in command)).stderr.splitlines()[0]

    answer = candle_rocm.ok("explain", said)

    first, second, meaning, do, *_ = answer.stdout.splitlines()
    assert first.startswith(f"{code}: ")
    assert second == f'  "{message}"'
    assert meaning.startswith("  ")
    assert do.startswith("  What to do: ")
    document = candle_rocm.ok("explain", said, "--json").document
    assert (document["code"], document["message"], document["of"]) == (code, message, "candle-rocm")


def test_the_backends_messages_as_programs_print_them() -> None:
    said = "Error: Rocm(OutOfMemory): out of memory on ROCm: 4096 bytes requested, 12 of 100 free\n   0: backtrace"
    kind, message = lookup(said)
    assert (kind.advice.code, message is not None) == ("out-of-memory", True)
    assert lookup("hipMalloc failed with hipErrorInvalidValue (1): invalid argument")[0].advice.code == "hip-call"
    assert lookup("no-device")[0].advice.name == "DeviceNotFound"
    assert lookup("DeviceNotFound")[1] is None


def test_what_nobody_says_is_not_explained(candle_rocm: CommandLine) -> None:
    answer = candle_rocm("explain", "the moon is made of cheese and nothing else")
    assert answer.code == ExitCode.USAGE
    assert "out-of-memory" in answer.stderr
    with pytest.raises(UsageError):
        lookup("")


def test_lint_wants_one_entry_for_each_kind_of_error(home: Path) -> None:
    (home / "tests").symlink_to(repository_root() / "tests")
    path = home / MESSAGES
    text = path.read_text(encoding="utf-8")
    assert len(error_variants(home)) > 20
    path.write_text(text.replace("name: OutOfMemory", "name: OutOfMemories"), encoding="utf-8")
    with pytest.raises(Exception, match="no entry for the error 'OutOfMemory'") as caught:
        lint(home)
    assert "'OutOfMemories' is no kind of error" in str(caught.value)
    path.write_text(text.replace("code: out-of-memory", "code: captured"), encoding="utf-8")
    with pytest.raises(Exception, match="the code 'captured' is there twice"):
        lint(home)
