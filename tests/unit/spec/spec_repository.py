"""A small repository of specs on disk, and the two verbs of the spec tests: `check_valid` and `check_rejected`."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from codegen.errors import ExitCode, SpecInvalid
from codegen.paths import repository_root
from codegen.spec.loader import load_specs

if TYPE_CHECKING:
    from pathlib import Path

    from codegen.spec.loaded import LoadedSpecs

MARK = "‸"
"""Stands in a bad spec just before the character that the message must point at."""

CANDLE = """\
releases:
  - {version: 0.9.1, exhaustive_matches: 44}
  - {version: 0.9.2-alpha.1, exhaustive_matches: 44}
crates:
  - {name: candle-core, rocm: true}
  - {name: candle-nn, rocm: true}
  - {name: candle-lab, rocm: false, reason: another compiler without HIP}
enums:
  - {name: Storage, crate: candle-core, phase: 1}
  - {name: Device, crate: candle-core, phase: 1}
foreign:
  - path: candle-kernels/**
    reason: kernels of one backend, no dispatch
"""

SETUP = """\
phase: 0
name: setup
summary: Features and the optional dependency
cargo:
  dependencies:
    - {id: setup.bindings, crate: candle-core, name: rocm-rs, version: 0.5.2}
  features:
    - {id: setup.feature, name: rocm, mirrors: cuda, extra: {candle-core: rocm-rs}}
"""

CORE = """\
phase: 1
name: core
summary: Device and storage
requires: [0]
rules:
  - id: core.dispatch
    sites: {kind: match, enum: Storage}
    verb: mirror
  - id: core.available
    sites: {kind: fn, text: rocm_is_available}
    verb: override
    reason: a build with the feature may run without a GPU
    template: rust/available.rs
modules:
  - id: core.module
    path: candle-core/src/lib.rs
    declaration: pub mod rocm_error;
files:
  - id: core.dummy
    path: candle-core/src/dummy_rocm_backend.rs
    mirror: candle-core/src/dummy_cuda_backend.rs
"""

HEAD = "phase: 1\nname: core\nsummary: Device and storage\n"
"""What a phase file of a test begins with when only its later keys matter."""


class Repository:
    """Writes a valid repository into a folder; tests then replace single files."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("specs/candle.yaml", CANDLE)
        self.write("specs/phases/0-setup.yaml", SETUP)
        self.write("specs/phases/1-core.yaml", CORE)
        self.write("templates/rust/available.rs", "fn available() {}\n")

    def write(self, name: str, content: str | bytes) -> None:
        """Writes one file, making its folder."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    def remove(self, name: str) -> None:
        """Removes one file."""
        (self.root / name).unlink()

    def rejection(self) -> SpecInvalid:
        """The error that loading raises; its exit code is checked here for all tests."""
        with pytest.raises(SpecInvalid) as caught:
            load_specs(self.root)
        assert caught.value.exit_code is ExitCode.SPEC_INVALID
        assert int(caught.value.exit_code) == 3
        return caught.value


ALONE = (
    "specs/backend.yaml",
    "specs/bench.yaml",
    "specs/hip_api.yaml",
    "specs/messages.yaml",
    "specs/providers.yaml",
    "specs/kernels/fill.yaml",
    "templates/docs/acceptance.md.j2",
    "templates/docs/kernels.md.j2",
    "templates/docs/parity.md.j2",
    "templates/docs/providers.md.j2",
    "templates/emulator/api.h.j2",
    "templates/emulator/api.rs.j2",
    "templates/hip/fill.hip.j2",
    "templates/hip/header.j2",
    "templates/rust/headed.j2",
    "templates/rust/header.j2",
    "templates/rust/kernel_sources.rs.j2",
    "templates/rust/kernel_table.rs.j2",
)
"""What stands in a repository besides the phases and their templates; taken from this one."""


def complete(repository: Repository) -> Repository:
    """The repository with everything that `candle-rocm spec lint` asks for."""
    for name in ALONE:
        repository.write(name, (repository_root() / name).read_bytes())
    line = "{asks: it is there, reason: nobody knows how}"
    repository.write("specs/unrun_tests.yaml", "ignored: []\n")
    repository.write("specs/parity.yaml", "crates: [{name: x}]\nnames: cuda\nfeatures: {cuda: cuda, rocm: rocm}\n")
    repository.write("specs/acceptance.yaml", f"seeds:\n  - {{document: '000', about: all, lines: [{line}]}}\n")
    return repository


def check_valid(repository: Repository, text: str, *, file: str = "specs/phases/1-core.yaml") -> LoadedSpecs:
    """The spec loads with `text` in `file`."""
    repository.write(file, textwrap.dedent(text))
    return load_specs(repository.root)


def check_rejected(
    repository: Repository, text: str, *messages: str, file: str = "specs/phases/1-core.yaml"
) -> SpecInvalid:
    """Loading fails with exactly these messages, each at its MARK in `text` (in the order of the marks)."""
    marked = textwrap.dedent(text)
    places = [
        (number, column - line[:column].count(MARK) + 1)
        for number, line in enumerate(marked.splitlines(), start=1)
        for column, character in enumerate(line)
        if character == MARK
    ]
    plain = marked.replace(MARK, "")
    repository.write(file, plain)
    error = repository.rejection()
    found = []
    for problem in error.problems:
        assert problem.location is not None
        assert problem.location.source_line == plain.splitlines()[problem.location.line - 1]
        found.append((problem.location.file, problem.location.line, problem.location.column, problem.message))
    expected = [(file, *place, message) for place, message in zip(places, messages, strict=True)]
    assert found == expected, f"found {found}, expected {expected}"
    return error
