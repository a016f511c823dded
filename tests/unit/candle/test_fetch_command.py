from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from loopback_registry import LoopbackRegistry

from codegen.cli import fetch as fetch_command
from codegen.cli import versions as versions_command
from codegen.errors import UnknownRelease, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    with LoopbackRegistry() as server:
        server.configure(monkeypatch, tmp_path)
        server.publish_candle("0.9.1")
        monkeypatch.setattr(versions_command, "known_releases", lambda: ("0.9.2-alpha.1", "0.9.1", "0.11.1"))
        yield tmp_path / "cache"


def fetch(*arguments: str) -> str:
    result = CliRunner().invoke(fetch_command.command, arguments, catch_exceptions=False)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def versions(*arguments: str) -> str:
    result = CliRunner().invoke(versions_command.command, arguments, catch_exceptions=False)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def test_fetch_prints_where_the_tree_is(cache: Path) -> None:
    assert fetch("0.9.1") == f"{cache}/trees/0.9.1-L1/candle\n"
    assert fetch("0.9.1", "--offline") == f"{cache}/trees/0.9.1-L1/candle\n"


def test_fetch_to_a_folder(cache: Path, tmp_path: Path) -> None:
    assert fetch("0.9.1", "--to", str(tmp_path / "mine")) == f"{tmp_path}/mine\n"
    assert (tmp_path / "mine" / "candle-core" / "src" / "lib.rs").is_file()
    with pytest.raises(UsageError, match="is not an empty folder"):
        fetch("0.9.1", "--to", str(tmp_path / "mine"))


def test_fetch_json(cache: Path) -> None:
    content = json.loads(fetch("0.9.1", "--json"))
    assert [crate["name"] for crate in content.pop("crates")] == [
        "candle-core",
        "candle-kernels",
        "candle-nn",
        "candle-onnx",
    ]
    assert content == {
        "schema_version": 1,
        "command": "fetch",
        "version": "0.9.1",
        "path": f"{cache}/trees/0.9.1-L1/candle",
        "absent": ["candle-datasets", "candle-examples", "candle-pyo3", "candle-transformers"],
    }


def test_fetch_of_an_unknown_release(cache: Path) -> None:
    with pytest.raises(UnknownRelease, match=r"`0\.9\.3` is not in the registry"):
        fetch("0.9.3")


def test_versions(cache: Path) -> None:
    fetch("0.9.1")
    assert versions() == (
        "0.11.1         tested\n"
        "0.9.2-alpha.1  tested\n"
        "0.9.1          tested    cached\n"
    )  # fmt: skip


def test_versions_shows_cached_releases_that_nobody_tried(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetch("0.9.1")
    monkeypatch.setattr(versions_command, "known_releases", lambda: ())
    assert versions() == "0.9.1  untested  cached\n"


def test_versions_json(cache: Path) -> None:
    content = json.loads(versions("--json"))
    assert (content["schema_version"], content["command"]) == (1, "versions")
    assert content["releases"][0] == {"version": "0.11.1", "tried": True, "cached": False}


def test_known_releases_come_from_the_specs() -> None:
    assert "0.11.1" in versions_command.known_releases()
