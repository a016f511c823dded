"""Source text as HTML with few, short classes. pygments (it comes with rich) is imported at the first call."""

from __future__ import annotations

from functools import cache
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pygments.lexer import Lexer
    from pygments.token import _TokenType

LONGEST = 2_000
MOST = 200_000
"""Characters of a line, and of all lines, that are highlighted: pygments takes more than linear time for some text."""
CLASSES = {
    "Comment.Preproc": "a",
    "Comment": "c",
    "Literal.String.Doc": "c",
    "Literal.String": "s",
    "Literal.Number": "n",
    "Keyword": "k",
    "Name.Function": "f",
    "Name.Class": "t",
    "Name.Builtin": "t",
    "Name.Tag": "t",
    "Name.Attribute": "a",
    "Name.Decorator": "a",
}
"""pygments token type (with its subtypes) to class; other text has none."""


def highlighted(path: str, lines: Sequence[str]) -> list[str]:
    """The lines as HTML, escaped; their language is told by the path's ending. Unknown languages are only escaped."""
    lexer = _lexer(path.rpartition(".")[2])
    if lexer is None or not lines or max(map(len, lines)) > LONGEST or sum(map(len, lines)) > MOST:
        return [escape(line) for line in lines]
    text = "".join(f"{line}\n" for line in lines)
    tokens = list(lexer.get_tokens(text))
    if "".join(value for _, value in tokens) != text:
        # pygments normalises some characters (a carriage return, a byte order mark): then plain text is the truth.
        return [escape(line) for line in lines]
    done: list[str] = []
    current: list[str] = []
    for kind, value in tokens:
        head, *rest = value.split("\n")
        current.append(_span(kind, head))
        for piece in rest:
            done.append("".join(current))
            current = [_span(kind, piece)]
    return done


@cache
def _lexer(ending: str) -> Lexer | None:
    if ending == "rs":
        from pygments.lexers.rust import RustLexer

        return RustLexer(stripnl=False)
    if ending == "toml":
        from pygments.lexers.configs import TOMLLexer

        return TOMLLexer(stripnl=False)
    return None


def _span(kind: _TokenType, text: str) -> str:
    if not text:
        return ""
    name = _class(kind)
    return f'<i class="{name}">{escape(text)}</i>' if name else escape(text)


@cache
def _class(kind: _TokenType) -> str:
    while kind.parent is not None:
        name = CLASSES.get(str(kind).removeprefix("Token."))
        if name is not None:
            return name
        kind = kind.parent
    return ""
