"""benchmarks/overhead.py: what it takes from cargo's output, and what it says without a device. Nothing is timed."""

from __future__ import annotations

import sys

import pytest
from in_process import REPOSITORY

sys.path.append(str(REPOSITORY))
from benchmarks import overhead
from codegen.errors import ToolchainMissing
from codegen.verify import target
from codegen.verify.target import Device

TABLE = """\
microseconds                             host     done
view of a tensor                         0.06     0.06
"""


def test_what_cargo_says_before_the_table_is_left_out() -> None:
    assert overhead.table_of(f"$ cargo run\n   Compiling candle-nn v0.11.1\n{TABLE}") == TABLE


def test_without_a_device_nothing_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "choose_device", lambda *_: Device(None, "no AMD GPU"))
    with pytest.raises(ToolchainMissing, match="no AMD GPU"):
        overhead.measured("0.11.1", "auto")
