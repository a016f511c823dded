"""Mutants as cargo-mutants lists them, and the draw of some of them."""

from __future__ import annotations

import json
import random
import re
import subprocess
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

POSITION = re.compile(r":\d+:\d+: ")
ALIAS = re.compile(r"\bHipResult::(?P<how>\w+)\((?P<value>.*)\)")
"""cargo-mutants knows `Result`, and takes its alias for a container that is made from one value."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One wrong change: the text of `start..end` (line and column, from 1, in characters) becomes `replacement`."""

    number: int
    """Its place in the whole list."""
    name: str
    """`path:line:column: replace < with <= in function`, as cargo-mutants says it."""
    file: str
    start: tuple[int, int]
    end: tuple[int, int]
    genre: str
    replacement: str
    function: str = ""
    returns: str = ""

    @property
    def line(self) -> int:
        """Where it begins."""
        return self.start[0]

    @property
    def change(self) -> str:
        """What it changes, without the place: `replace < with <= in function`."""
        return POSITION.split(self.name, maxsplit=1)[-1]


def listed(root: Path, program: Path, files: Sequence[str], without: Sequence[str] = ()) -> tuple[Mutant, ...]:
    """All mutants of the files that match the globs, in a tree; asks cargo-mutants."""
    globs = [word for glob in files for word in ("--file", glob)]
    globs += [word for glob in without for word in ("--exclude", glob)]
    command = [str(program), "mutants", "--list", "--json", "--no-config", "--no-shuffle", "--dir", str(root), *globs]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return read_list(json.loads(done.stdout))


def read_list(entries: Iterable[Mapping[str, Any]]) -> tuple[Mutant, ...]:
    """cargo-mutants' list as data, without the forms of one value that no alias of `Result` has."""
    wanted = []
    for entry in entries:
        alias = ALIAS.search(entry["replacement"])
        if alias is None:
            wanted.append(_mutant(entry))
        elif alias["how"] == "from":
            wanted.append(_as_result(_mutant(entry), alias))
    return tuple(replace(mutant, number=number) for number, mutant in enumerate(wanted))


def _mutant(entry: Mapping[str, Any]) -> Mutant:
    span, function = entry["span"], entry["function"] or {}
    return Mutant(
        number=0,
        name=entry["name"],
        file=entry["file"],
        start=(span["start"]["line"], span["start"]["column"]),
        end=(span["end"]["line"], span["end"]["column"]),
        genre=entry["genre"],
        replacement=entry["replacement"],
        function=function.get("function_name", ""),
        returns=function.get("return_type", ""),
    )


def _as_result(mutant: Mutant, alias: re.Match[str]) -> Mutant:
    right = f"Ok({alias['value']})"
    name = mutant.name.replace(f"with {mutant.replacement}", f"with {right}")
    return replace(mutant, replacement=right, name=name)


def drawn(mutants: Sequence[Mutant], count: int | None, seed: int) -> tuple[Mutant, ...]:
    """So many of them at random, in the order of the draw; all for None. A larger draw begins with a smaller one."""
    order = sorted(mutants, key=lambda mutant: mutant.name)
    random.Random(seed).shuffle(order)
    return tuple(order if count is None else order[:count])


def shard(mutants: Sequence[Mutant], which: str) -> tuple[Mutant, ...]:
    """Part k of n, for `k/n` with k from 1: every nth. Raises ValueError for anything else."""
    matched = re.fullmatch(r"(\d+)/(\d+)", which)
    if matched is None or not 1 <= int(matched[1]) <= int(matched[2]):
        raise ValueError(f"a shard is k/n with k from 1 to n, not {which!r}")
    return tuple(mutants[int(matched[1]) - 1 :: int(matched[2])])
