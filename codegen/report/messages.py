"""Every message that candle-rocm and the backend can give, read from the code that gives it; and what helps.

A message is a pattern: what it holds at run time is `…` in it.
"""

from __future__ import annotations

import ast
import difflib
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import codegen
from codegen import errors
from codegen.errors import CandleRocmError, UsageError
from codegen.paths import repository_root
from codegen.report.json_document import SCHEMA_VERSION
from codegen.spec.messages import MESSAGES, Advice, parse_messages

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from codegen.report.json_document import Document

HOLE = "…"
TOOL, BUILD, BACKEND = "candle-rocm", "a build", "the backend"
BUILD_SCRIPT = "build script"
"""The name in specs/messages.yaml of what speaks while a program is built."""
BACKEND_ERRORS = "templates/candle/1-core/candle-core/src/rocm_backend/rocm_error.rs"
"""Where the backend's errors are."""
KINDS = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, CandleRocmError) and kind is not CandleRocmError
}
"""The catalogue by the names of its classes."""
PROBLEMS = ("Problem", "problem")
"""What makes one finding of an error that has several: the class, and a method of documents."""
_VARIANT = re.compile(r'#\[error\("(?P<text>(?:[^"\\]|\\.)*)"\)\]\s*(?P<name>\w+)')
_MADE = re.compile(r'RocmError::(?P<name>\w+)\(\s*(?:format!\()?\s*"(?P<text>(?:[^"\\]|\\.)*)"')
_WARNING = re.compile(r'"cargo::?(?:warning|error)=(?P<text>[^"]*)"')
_PLACEHOLDER = re.compile(r"(?<!\{)\{[^{}]*\}")
_ALIKE = 0.55
_LEAST = 8
"""Characters besides holes by which a message is known again."""


HEADINGS = {
    TOOL: "What candle-rocm says",
    BUILD: "What cargo says while a program is built",
    BACKEND: "What a program with the ROCm backend says",
}


@dataclass(frozen=True, slots=True)
class Message:
    """What is said somewhere."""

    text: str
    remedy: str
    """The message's own help line; empty for the backend's, which have none."""

    @property
    def plain(self) -> int:
        """Characters that are always the same."""
        return len(self.text.replace(HOLE, "").replace(" ", ""))

    def says(self, text: str) -> bool:
        """Whether a text is, or contains, this message."""
        pattern = ".{1,400}?".join(re.escape(part) for part in self.text.split(HOLE))
        return self.plain >= _LEAST and re.search(pattern, text, re.DOTALL) is not None


@dataclass(frozen=True, slots=True)
class Explained:
    """One kind of error, and all that is said of it."""

    advice: Advice
    of: str
    """Who says it: candle-rocm, cargo while a program is built, or the backend."""
    exit_code: int | None
    messages: tuple[Message, ...]


@cache
def explained() -> tuple[Explained, ...]:
    """All kinds of errors, in the order of specs/messages.yaml."""
    spec = parse_messages((repository_root() / MESSAGES).read_bytes())
    said: dict[str, dict[str, Message]] = {}
    for kind, message in _tool_messages():
        said.setdefault(KINDS[kind].title, {}).setdefault(message.text, message)
    for name, message in (*_backend_messages(), *_build_messages()):
        said.setdefault(name, {}).setdefault(message.text, message)
    codes = {kind.title: int(kind.exit_code) for kind in KINDS.values()}
    sides = ((TOOL, spec.tool), (BUILD, spec.build), (BACKEND, spec.backend))
    return tuple(
        Explained(each, of, codes.get(each.name), tuple(said.get(each.name, {}).values()))
        for of, advices in sides
        for each in advices
    )


def lookup(words: str) -> tuple[Explained, Message | None]:
    """The kind of error that a code or a message means, and which of its messages it is.

    Raises `UsageError` for what is like none of them, with those that are nearest.
    """
    text = " ".join(words.split())
    for kind in explained():
        if text.casefold() in (kind.advice.code, kind.advice.name.casefold()):
            return kind, None
    title, _, rest = text.partition(": ")
    wanted = [kind for kind in explained() if kind.advice.name == title] or explained()
    body = rest if len(wanted) < len(explained()) else text
    found = [
        (message.plain, number, message)
        for number, kind in enumerate(wanted)
        for message in kind.messages
        if message.says(body)
    ]
    if found:
        _, number, message = max(found, key=lambda each: each[0])
        return wanted[number], message
    if len(wanted) == 1:
        return wanted[0], None
    alike = [
        (_likeness(body, message), number, message) for number, kind in enumerate(wanted) for message in kind.messages
    ]
    likeness, number, message = max(alike, key=lambda each: each[0])
    if likeness >= _ALIKE:
        return wanted[number], message
    raise UsageError(
        f"'{words[:200]}' is no message of candle-rocm or of the ROCm backend that is known, and no place FILE:LINE",
        remedy=f"give a message as it was printed, or one of {', '.join(kind.advice.code for kind in explained())}",
    )


def _likeness(text: str, message: Message) -> float:
    return (
        difflib.SequenceMatcher(None, text.casefold(), message.text.casefold()).ratio()
        if message.plain >= _LEAST
        else 0.0
    )


def error_variants(root: Path | None = None) -> tuple[str, ...]:
    """The variants of `RocmError`, in their order."""
    text = ((root or repository_root()) / BACKEND_ERRORS).read_text(encoding="utf-8")
    body = text.partition("pub enum RocmError {")[2].partition("\n}\n")[0]
    return tuple(re.findall(r"^    ([A-Z]\w*)\b", body, re.MULTILINE))


def _backend_messages() -> Iterator[tuple[str, Message]]:
    for path in sorted((repository_root() / "templates/candle").rglob("*.rs")):
        text = path.read_text(encoding="utf-8")
        if path == repository_root() / BACKEND_ERRORS:
            found = _VARIANT.finditer(text)
        elif "/tests/" in path.as_posix():
            continue
        else:
            found = _MADE.finditer(text.partition("\n#[cfg(test)]\nmod tests {")[0])
        for match in found:
            said = _PLACEHOLDER.sub(HOLE, match["text"]).replace('\\"', '"').replace("\\n", "\n").replace("\\\n", "")
            if said.strip(f"{HOLE} "):
                yield match["name"], Message(" ".join(said.split()), "")


def _build_messages() -> Iterator[tuple[str, Message]]:
    for path in sorted((repository_root() / "templates/candle").rglob("build.rs")):
        for match in _WARNING.finditer(path.read_text(encoding="utf-8")):
            yield BUILD_SCRIPT, Message(_PLACEHOLDER.sub(HOLE, match["text"]), "")


def _tool_messages() -> Iterator[tuple[str, Message]]:
    """Class and message, from each place that makes one."""
    folder = Path(codegen.__file__).parent
    for path in sorted(folder.rglob("*.py")):
        if path.name != "errors.py":
            yield from _messages_of(ast.parse(path.read_text(encoding="utf-8")))


def _messages_of(module: ast.Module) -> Iterator[tuple[str, Message]]:
    """Errors that are raised, and problems that are collected for one: of those that their function raises, or else of
    those that the module does."""
    of_module = _raised(module) or ["SpecInvalid"]
    around: dict[int, list[str]] = {}
    for function in (node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)):
        around |= dict.fromkeys(map(id, ast.walk(function)), _raised(function))
    calls = [node for node in ast.walk(module) if isinstance(node, ast.Call) and node.args]
    inside: set[int] = set()
    for node in calls:
        if _name(node) in KINDS:
            remedy = next((text for word in node.keywords if word.arg == "remedy" for text in _texts(word.value)), "")
            inside.update(id(each) for each in ast.walk(node.args[0]))
            for text in _texts(node.args[0]):
                yield _name(node), Message(text, remedy)
    for node in calls:
        if _name(node) in PROBLEMS and id(node) not in inside:
            for text in _texts(node.args[0]):
                for kind in around.get(id(node)) or of_module:
                    yield kind, Message(text, "")


def _raised(node: ast.AST) -> list[str]:
    """The kinds of errors that are made in it."""
    made = {_name(each) for each in ast.walk(node) if isinstance(each, ast.Call)}
    return sorted(made & KINDS.keys())


def _name(call: ast.Call) -> str:
    function = call.func
    return (
        function.id if isinstance(function, ast.Name) else function.attr if isinstance(function, ast.Attribute) else ""
    )


def _texts(node: ast.expr) -> Iterator[str]:
    """What an expression can say, as far as the code tells; nothing where it says nothing of its own."""
    for text in _pieces(node):
        said = " ".join(text.split())
        if said.strip(f"{HOLE}:,; "):
            yield said


def _pieces(node: ast.expr) -> Iterable[str]:
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=values):
            return ["".join(str(part.value) if isinstance(part, ast.Constant) else HOLE for part in values)]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return [one + two for one in _pieces(left) or [HOLE] for two in _pieces(right) or [HOLE]]
        case ast.IfExp(body=one, orelse=two):
            return [*_pieces(one), *_pieces(two)]
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [text for item in items for text in _pieces(item)]
        case ast.ListComp(elt=item) | ast.GeneratorExp(elt=item):
            return _pieces(item)
        case ast.Call(args=[first, *_]) if _name(node) in PROBLEMS:
            return _pieces(first)
        case _:
            return []


def explanation_lines(kind: Explained, message: Message | None) -> Iterator[str]:
    """For a person."""
    yield f"{kind.advice.code}: {kind.advice.name}, an error of {kind.of}"
    if message is not None:
        yield f'  "{message.text}"'
    yield f"  {kind.advice.meaning}"
    yield f"  What to do: {kind.advice.do}"
    if message is not None and message.remedy:
        yield f"  The message's own help: {message.remedy}"
    if kind.exit_code is not None:
        yield f"  Exit code {kind.exit_code}."


def message_document(kind: Explained, message: Message | None) -> Document:
    """The same as data."""
    tool = {"name": "candle-rocm", "version": codegen.__version__}
    return {
        "schema_version": SCHEMA_VERSION,
        "command": "explain",
        "tool": tool,
        "code": kind.advice.code,
        "name": kind.advice.name,
        "of": kind.of,
        "meaning": kind.advice.meaning,
        "do": kind.advice.do,
        "message": None if message is None else message.text,
        "remedy": message.remedy or None if message is not None else None,
        "exit_code": kind.exit_code,
    }


def page() -> str:
    """docs/troubleshooting.md."""
    lines = [
        "# Troubleshooting, by message",
        "",
        "Every message that candle-rocm and the ROCm backend can give, by kind, with what helps. `…` stands for what a",
        "message names: a file, a number. The command line answers for a message or a code, too:",
        "",
        "```",
        'candle-rocm explain "hand-edited files: edited since candle-rocm wrote them: candle-core/src/device.rs"',
        "candle-rocm explain out-of-memory",
        "```",
        "",
        "If nothing here helps, `candle-rocm bug-report --to report.tar.gz` collects what a report needs.",
    ]
    for of, heading in HEADINGS.items():
        lines += ["", f"## {heading}"]
        for kind in explained():
            if kind.of == of:
                lines += ["", *_section(kind)]
    return "\n".join(lines) + "\n"


def _section(kind: Explained) -> Iterator[str]:
    code = "" if kind.exit_code is None else f" (exit code {kind.exit_code})"
    yield f"### {kind.advice.code}"
    yield ""
    shown = {TOOL: f"`{kind.advice.name}:`{code}. ", BUILD: "", BACKEND: f"`RocmError::{kind.advice.name}`. "}
    yield f"{shown[kind.of]}{kind.advice.meaning}"
    yield ""
    yield f"**What to do.** {kind.advice.do}"
    if kind.messages:
        yield ""
    for message in sorted(kind.messages, key=lambda each: each.text.casefold()):
        help_line = f" — {_code(message.remedy)}" if message.remedy else ""
        yield f"- {_code(message.text)}{help_line}"


def _code(text: str) -> str:
    """As code, whatever backticks are in it."""
    fence = "``" if "`" in text else "`"
    pad = " " if "`" in text else ""
    return f"{fence}{pad}{text}{pad}{fence}"
