"""What a file of mutations says, and how a mutation is planted."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from codegen.errors import SpecInvalid
from codegen.kernels.render import Source, Sources, render_sources
from codegen.spec.document import read_document
from codegen.spec.model import Model
from codegen.spec.validation import validate

if TYPE_CHECKING:
    from pathlib import Path

    from codegen.kernels.loader import LoadedFamily


class Mutation(Model):
    """One fault: a text that occurs once in a rendered source, and what to put in its place."""

    about: Annotated[str, Field(min_length=8)]
    """The fault, as a reviewer would put it: `the last partial tile is lost`."""
    find: str
    replace: str
    file: str | None = None
    """The rendered file, if it is a header: `candle_rocm/wave.h`."""
    kernels: Annotated[tuple[str, ...], Field(min_length=1)]
    """Symbols, or globs over them, that the tests launch: only they are compiled."""
    module: str | None = None
    """The test module, if it is not the family's: `huge_tensors`."""
    tests: str
    """The tests that must fail, as an expression for pytest's -k."""


class Mutations(Model):
    """A file `tests/mutations/<family>.yaml`."""

    family: str
    mutations: Annotated[tuple[Mutation, ...], Field(min_length=4)]


def read_mutations(folder: Path) -> tuple[Mutations, ...]:
    """Every file of mutations. Raises SpecInvalid with all findings."""
    found, problems = [], []
    for path in sorted(folder.glob("*.yaml")):
        document = read_document(f"tests/mutations/{path.name}", path.read_bytes())
        mutations, findings = validate(document, Mutations)
        problems += [*document.problems, *findings]
        found += [mutations] if mutations else []
    if problems:
        raise SpecInvalid(problems, remedy="tests/mutations/mutation.py says what the keys mean.")
    return tuple(found)


def plant(mutation: Mutation, loaded: LoadedFamily) -> Sources:
    """The family's source and all headers with the fault in one of them.

    Raises ValueError if the text to replace does not occur exactly once, or a kernel does not exist.
    """
    for glob in mutation.kernels:
        if not any(fnmatchcase(kernel.symbol, glob) for kernel in loaded.kernels):
            raise ValueError(f"no kernel of {loaded.name} is called {glob}")
    wanted = [k for k in loaded.kernels if any(fnmatchcase(k.symbol, glob) for glob in mutation.kernels)]
    sources = render_sources([replace(loaded, kernels=tuple(wanted))])
    path = mutation.file or f"{loaded.name}.hip"
    if path not in {source.path for source in sources.all}:
        raise ValueError(f"{path} is no rendered file")
    return Sources(
        tuple(_planted(source, mutation) if source.path == path else source for source in sources.headers),
        tuple(_planted(source, mutation) if source.path == path else source for source in sources.families),
    )


def _planted(source: Source, mutation: Mutation) -> Source:
    times = source.text.count(mutation.find)
    if times != 1:
        raise ValueError(f"{source.path} has {mutation.find!r} {times} times, not once")
    return replace(source, text=source.text.replace(mutation.find, mutation.replace))
