"""Network namespaces, which are machines to programs that talk over TCP."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST_ADDRESS = "10.99.0.1"
"""At which the second machine reaches the first one."""


@contextmanager
def two_machines() -> Iterator[list[list[str]]]:
    """Two namespaces that reach each other: the commands that run a program in each."""
    if shutil.which("ip") is None or os.geteuid() != 0:
        pytest.skip("network namespaces are made by `ip netns`, by root only")
    names = [f"candle-rocm-{os.getpid()}-{side}" for side in ("a", "b")]
    ends = [f"cr{os.getpid() % 100_000}{side}" for side in ("a", "b")]
    for name in names:
        _ip("netns", "add", name)
    try:
        _ip("link", "add", ends[0], "netns", names[0], "type", "veth", "peer", "name", ends[1], "netns", names[1])
        for number, (name, end) in enumerate(zip(names, ends, strict=True), 1):
            _ip("-n", name, "address", "add", f"10.99.0.{number}/24", "dev", end)
            for link in ("lo", end):
                _ip("-n", name, "link", "set", link, "up")
        yield [["ip", "netns", "exec", name] for name in names]
    finally:
        for name in names:
            _ip("netns", "delete", name)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)
