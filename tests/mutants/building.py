"""The test programs with all mutants in them; those that do not compile are found and left out."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from codegen.syntax.source import Source
from mutants.switches import NoSwitch, Place, Switched, place_of, switched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from mutants.mutant import Mutant

NOT_EXHAUSTIVE = "E0004"
ROUNDS = 12
"""rustc stops at the first stage that finds errors, so that each stage has a few rounds."""


class BuildFailed(Exception):
    """The tree does not compile, and no mutant is to blame."""


@dataclass(frozen=True, slots=True)
class Program:
    """A test binary that cargo has built."""

    name: str
    path: str


@dataclass(frozen=True, slots=True)
class Compilation:
    """What one run of cargo gave."""

    ok: bool
    programs: tuple[Program, ...]
    errors: tuple[Mapping[str, Any], ...]
    """rustc's messages, as JSON has them."""
    output: str = ""


@dataclass(frozen=True, slots=True)
class Built:
    """The programs, and what became of each mutant."""

    programs: tuple[Program, ...]
    inside: frozenset[int]
    """Numbers of the mutants that can be switched on."""
    unviable: Mapping[int, str]
    """What rustc says of those that do not compile."""
    unswitchable: Mapping[int, str]
    """Why others have no switch."""


@dataclass(frozen=True, slots=True)
class Switchboard:
    """Where switches are written: sources of a tree, and the file that has `mutated`."""

    write: Callable[[Mapping[str, bytes]], None]
    """Brings a tree to the state with these texts in place of its own."""
    function: str
    """The path of `mutated` in the crate."""
    modules: tuple[str, ...]
    """The files that have it, one in each crate."""
    template: str
    """What that file says, for no mutants."""

    def build(
        self,
        mutants: Sequence[Mutant],
        originals: Mapping[str, bytes],
        run: Callable[[], Compilation],
        known: Mapping[int, str] | None = None,
    ) -> Built:
        """Compile all mutants that compile. `originals` are the files' own texts, `run` compiles what is in the tree.

        `known` are those that did not compile the last time. Raises BuildFailed for errors that are about no mutant.
        """
        places, unswitchable = self._places(mutants, originals)
        unviable = dict(known or {})
        count = max((mutant.number for mutant in mutants), default=-1) + 1
        for _ in range(ROUNDS):
            texts = {
                path: switched(source, [place for place in of_file if place.mutant.number not in unviable])
                for path, (source, of_file) in places.items()
            }
            module = self.template.replace("const COUNT: usize = 0;", f"const COUNT: usize = {count};").encode()
            self.write({path: text.text for path, text in texts.items()} | dict.fromkeys(self.modules, module))
            done = run()
            if done.ok:
                inside = frozenset(p.mutant.number for _, of_file in places.values() for p in of_file) - unviable.keys()
                return Built(done.programs, inside, unviable, unswitchable)
            found = blame(done.errors, texts)
            if not found.keys() - unviable.keys():
                raise BuildFailed(done.output[-3000:])
            unviable |= found
        raise BuildFailed(f"still errors after {ROUNDS} rounds")

    def _places(
        self, mutants: Iterable[Mutant], originals: Mapping[str, bytes]
    ) -> tuple[dict[str, tuple[Source, list[Place]]], dict[int, str]]:
        sources = {path: (Source.parse(path, text), list[Place]()) for path, text in originals.items()}
        unswitchable = {}
        for mutant in mutants:
            source, places = sources[mutant.file]
            try:
                places.append(place_of(source, mutant, self.function))
            except NoSwitch as reason:
                unswitchable[mutant.number] = str(reason)
        return sources, unswitchable


def blame(errors: Iterable[Mapping[str, Any]], texts: Mapping[str, Switched]) -> dict[int, str]:
    """The mutants that errors are about, with the message: by an error's main places, else by what it mentions."""
    found: dict[int, str] = {}
    for error in errors:
        for main in (True, False):
            numbers = {
                number
                for span in error["spans"]
                if span["is_primary"] is main and span["file_name"] in texts
                for number in texts[span["file_name"]].blamed(span["byte_start"], span["byte_end"])
            }
            if numbers:
                found |= dict.fromkeys(numbers, error["message"])
                break
        else:
            if (error.get("code") or {}).get("code") == NOT_EXHAUSTIVE:
                found |= dict.fromkeys(_dropped_arms(error, texts), error["message"])
    return found


def _dropped_arms(error: Mapping[str, Any], texts: Mapping[str, Switched]) -> frozenset[int]:
    """The mutants that drop an arm of a match which needs it; the error is at what is matched."""
    for span in error["spans"]:
        if span["is_primary"] and span["file_name"] in texts:
            switched_text = texts[span["file_name"]]
            source = Source.parse(span["file_name"], switched_text.text)
            chain = source.chain(span["byte_start"], span["byte_end"])
            matches = [node for node in chain if node.type == "match_expression"]
            return switched_text.arms(matches[-1].start_byte, matches[-1].end_byte) if matches else frozenset()
    return frozenset()


def compile_with_cargo(root: Path, arguments: Sequence[str], environment: Mapping[str, str]) -> Compilation:
    """Run `cargo test --no-run` or the like, and read its messages."""
    done = subprocess.run(
        ["cargo", *arguments, "--message-format=json"],
        cwd=root,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return read_compilation(done.stdout, done.stderr, ok=done.returncode == 0)


def read_compilation(stdout: str, stderr: str, *, ok: bool) -> Compilation:
    """cargo's JSON lines as data."""
    programs, errors, rendered = [], [], [stderr]
    for line in stdout.splitlines():
        message = json.loads(line) if line.startswith("{") else {}
        if message.get("reason") == "compiler-artifact" and message.get("executable") and message["profile"]["test"]:
            crate = message["package_id"].split("#")[0].rsplit("/", 1)[-1]
            programs.append(Program(f"{crate}/{message['target']['name']}", message["executable"]))
        if message.get("reason") == "compiler-message" and message["message"]["level"] == "error":
            errors.append(message["message"])
            rendered.append(message["message"]["rendered"])
    return Compilation(ok, tuple(sorted(programs, key=lambda one: one.name)), tuple(errors), "\n".join(rendered))
