"""What a file of acts says, and how an act is done to a copy of the repository."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Annotated, Self

from pydantic import Field, model_validator

from codegen.errors import SpecInvalid
from codegen.spec.document import read_document
from codegen.spec.model import Model
from codegen.spec.validation import validate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FOLDER = "tests/sabotage/acts"


class Act(Model):
    """One act: what is done to which file, and which command has to say what."""

    about: Annotated[str, Field(min_length=8)]
    """The act, as one would confess it: `a test ends the whole program with code 0`."""
    file: str
    find: str = ""
    """A text that the file has once. Without it, `replace` goes to the end of the file, which may be a new one."""
    replace: str = ""
    remove: bool = False
    """The file goes."""
    before: tuple[str, ...] = ()
    """Commands that have to pass although the act is done: what builds things."""
    caught_by: str
    """The command that has to fail; it passes without the act."""
    says: str
    """A regular expression that its output has to match: it fails for this, and for nothing else."""

    @model_validator(mode="after")
    def _does_something(self) -> Self:
        if not (self.find or self.replace or self.remove):
            raise ValueError("an act changes a file: find and replace, replace alone, or remove")
        return self

    @contextlib.contextmanager
    def done(self, root: Path) -> Iterator[None]:
        """Do it in the copy at `root`, and undo it. Raises ValueError where the text is not there exactly once."""
        path = root / self.file
        known = path.read_bytes() if path.exists() else None
        changed = None if self.remove else self._changed(known)
        try:
            if changed is None:
                path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(changed)
            yield
        finally:
            if known is None:
                path.unlink()
            else:
                path.write_bytes(known)

    def _changed(self, known: bytes | None) -> bytes:
        if not self.find:
            return (known or b"") + self.replace.encode()
        times = (known or b"").count(self.find.encode())
        if known is None or times != 1:
            raise ValueError(f"{self.file} has {self.find!r} {times} times, not once")
        return known.replace(self.find.encode(), self.replace.encode())


class Acts(Model):
    """A file below tests/sabotage/acts."""

    acts: Annotated[tuple[Act, ...], Field(min_length=1)]


def read_acts(root: Path) -> tuple[tuple[str, Act], ...]:
    """Every act with the name of its file. Raises SpecInvalid with all findings."""
    found, problems = [], []
    for path in sorted((root / FOLDER).glob("*.yaml")):
        document = read_document(f"{FOLDER}/{path.name}", path.read_bytes())
        acts, findings = validate(document, Acts)
        problems += [*document.problems, *findings]
        found += [(path.stem, act) for act in acts.acts] if acts else []
    if problems:
        raise SpecInvalid(problems, remedy="tests/sabotage/act.py says what the keys mean.")
    return tuple(found)
