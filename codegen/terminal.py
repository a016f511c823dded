r"""The one place that prints: what comes from a tree reaches no terminal as anything but characters that are seen.

File names, source lines and records are somebody else's. A terminal takes orders from control characters (colours, the
window's title, in some the keyboard's next input), and bidirectional controls show a line in another order than a
compiler reads it (https://trojansource.codes). Each of them is printed as `\u001b`, which JSON reads back as it was.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

_UNSEEN = (
    *("\x00-\x08\x0b-\x1f\x7f-\x9f", "\u2028\u2029", "\ud800-\udfff"),
    *("\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff",),
    *("\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a",),
    "\U000e0001\U000e0020-\U000e007f",
)
"""Control and format characters, separators of lines and paragraphs, halves of pairs (Unicode's Cc, Cf, Zl, Zp and Cs),
but for the line feed and the tab."""
_CONTROL = re.compile(f"[{''.join(_UNSEEN)}]")
_CONTROL_IN_NAME = re.compile(f"[{''.join(_UNSEEN)}\t\n]")


def shown(text: str) -> str:
    """The text with an escape in place of every character that a terminal obeys or does not show."""
    return text if text.isascii() and text.isprintable() else _CONTROL.sub(_escape, text)


def shown_name(name: str) -> str:
    """A name on one line, where a line feed would begin a line that we did not write."""
    return _CONTROL_IN_NAME.sub(_escape, name)


def _escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def say(what: object, *, end: str = "\n") -> None:
    """A line of the result, on standard output."""
    import click

    click.echo(shown(str(what)) + end, nl=False)


def note(what: object) -> None:
    """A line that is not the result, on standard error; what nobody takes there changes no result."""
    import click

    try:
        click.echo(shown(str(what)), err=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # or Python would try again at its end


def progress(line: str) -> None:
    """A line for a person who waits: on standard error, and only to a terminal, unless somebody hears of it instead."""
    if _hearing:
        _hearing[-1](shown(line))
    elif sys.stderr.isatty():
        note(line)


@contextlib.contextmanager
def heard_by(listener: Callable[[str], None]) -> Iterator[None]:
    """In the block, lines of `progress` go to the listener, who shows the work in another way."""
    _hearing.append(listener)
    try:
        yield
    finally:
        _hearing.pop()


_hearing: list[Callable[[str], None]] = []


def say_exactly(pieces: Iterable[str]) -> None:
    """Text for another program, byte for byte and as UTF-8; what a person sees has to be `shown` already."""
    import click

    click.echo("".join(pieces).encode(), nl=False)


def for_a_person() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout.isatty()


def console(*, stderr: bool = False, **options: Any) -> Console:
    """rich's console, which shows text as `shown` does and colours it itself.

    `NO_COLOR` (https://no-color.org) takes the colours away, `CLICOLOR_FORCE` gives them to a pipe, too.
    """
    from rich.console import Console
    from rich.segment import Segment

    class Shown(Console):
        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            for segment in super().render(renderable, options):
                yield segment if segment.control else Segment(shown(segment.text), segment.style)

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # rich would end the process with 1, which means "changes needed"

    return Shown(stderr=stderr, **{"color_system": _colours(), **options})


def _colours() -> Literal["auto", "standard"] | None:
    """Which colours rich may use: those that the terminal has, unless variables say otherwise."""
    if os.environ.get("NO_COLOR"):
        return None
    return "standard" if os.environ.get("CLICOLOR_FORCE", "0") != "0" else "auto"
