"""A made-up Candle of two crates, specs for it, and the command line run on both."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from codegen.cli.main import run

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

DEVICE = "candle-core/src/device.rs"
NOTES = "candle-core/src/notes.rs"
FILES = {
    "Cargo.toml": '[workspace]\nmembers = ["candle-core", "candle-lab"]\n\n[workspace.package]\nversion = "0.11.1"\n',
    "candle-core/Cargo.toml": (
        '[package]\nname = "candle-core"\nversion.workspace = true\n\n[features]\ndefault = []\ncuda = []\n'
    ),
    "candle-core/src/lib.rs": "pub mod device;\npub mod notes;\n",
    DEVICE: """\
pub enum Device {
    Cpu,
    Cuda(u8),
}

impl Device {
    pub fn name(&self) -> &str {
        match self {
            Device::Cpu => "cpu",
            Device::Cuda(_) => "cuda <card> & co",
        }
    }

    pub fn fast(&self) -> bool {
        matches!(self, Device::Cuda(_))
    }
}
""",
    NOTES: '// No backend here.\npub const NOTE: &str = "none";\n',
    "candle-core/src/cuda_backend/mod.rs": "pub struct CudaDevice;\n",
    "candle-lab/Cargo.toml": '[package]\nname = "candle-lab"\nversion.workspace = true\n',
    "candle-lab/src/lib.rs": "pub fn cuda_lab() {}\n",
}
CANDLE_SPEC = """\
releases:
  - {version: 0.11.1, exhaustive_matches: 1}
crates:
  - {name: candle-core, rocm: true}
  - {name: candle-lab, rocm: false, reason: a laboratory without AMD cards}
enums:
  - {name: Device, crate: candle-core, phase: 1}
foreign:
  - path: candle-core/src/cuda_backend/**
    reason: the CUDA backend itself
"""
SETUP_SPEC = """\
phase: 0
name: setup
summary: The feature.
cargo:
  features:
    - {id: setup.feature, name: rocm, mirrors: cuda}
"""
CORE_SPEC = """\
phase: 1
name: core
summary: The variant and its arms.
requires: [0]
rules:
  - id: core.variant
    sites: {kind: enum}
    verb: mirror
  - id: core.dispatch
    sites: {kind: match, enum: Device}
    verb: mirror
"""
LATER_SPEC = """\
phase: 2
name: later
summary: What waits.
requires: [0, 1]
applied: false
rules:
  - id: later.fast
    sites: {kind: matches!}
    verb: or-in
"""
UNDECIDED = """\
pub fn odd(device: &crate::device::Device) -> bool {
    use crate::device::Device;
    if let Device::Cuda(_) = device {
        return true;
    }
    false
}
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command line left."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        document = json.loads(self.out)
        assert isinstance(document, dict)
        return document


@dataclass(frozen=True, slots=True)
class Mini:
    """The tree and the specs on disk."""

    root: Path
    home: Path
    capture: pytest.CaptureFixture[str]

    def call(self, *arguments: str) -> Answer:
        """Run `candle-rocm ARGUMENTS`."""
        self.capture.readouterr()
        code = run(arguments)
        captured = self.capture.readouterr()
        return Answer(code, captured.out, captured.err)

    def write(self, path: str, text: str) -> None:
        """Write a file of the tree."""
        write(self.root, path, text)

    def spec(self, name: str, text: str) -> None:
        """Write a spec file, by its path below `specs/`."""
        write(self.home / "specs", name, text)


def make_mini(tmp_path: Path, capture: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Mini:
    """The tree and the specs in `tmp_path`, with an own cache; colours off."""
    mini = Mini(tmp_path / "candle", tmp_path / "home", capture)
    for path, text in FILES.items():
        mini.write(path, text)
    mini.spec("candle.yaml", CANDLE_SPEC)
    mini.spec("phases/0-setup.yaml", SETUP_SPEC)
    mini.spec("phases/1-core.yaml", CORE_SPEC)
    mini.spec("phases/2-later.yaml", LATER_SPEC)
    (mini.home / "templates").mkdir()
    monkeypatch.setenv("CANDLE_ROCM_HOME", str(mini.home))
    monkeypatch.setenv("CANDLE_ROCM_FETCH_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    return mini


def write(root: Path, path: str, text: str) -> None:
    """Write a file and the folders it needs."""
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text, encoding="utf-8")
