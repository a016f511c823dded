"""What the project depends on is locked, comes from where it should, and may be used: for Python and for Rust."""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from some import some

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
WORKSPACES = ("amdgpu", "emulator", "nvidia", "planner")
ALLOWED = frozenset({"MIT", "Apache-2.0", "Unlicense", "Zlib", "BSD-2-Clause", "BSD-3-Clause", "ISC", "Unicode-3.0"})
"""Licences that ask for no more than their text."""


def locked() -> list[tuple[Requirement, list[str]]]:
    """Each entry of the lock with its hashes."""
    whole = re.sub(r"\\\n", " ", LOCK)
    lines = [line for line in whole.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    found = []
    for line in lines:
        entry, *options = re.split(r"\s+(?=--)", line.strip())
        found.append((Requirement(entry), options))
    return found


def wanted(python: str) -> dict[str, Requirement]:
    """What pyproject.toml asks for with all its extras, on Linux with this Python."""
    names = [*PROJECT["project"]["dependencies"], *PROJECT["build-system"]["requires"]]
    for extra in PROJECT["project"]["optional-dependencies"].values():
        names += extra
    asked = {each.name: each for each in map(Requirement, names) if each.name != PROJECT["project"]["name"]}
    return {name: each for name, each in asked.items() if each.marker is None or each.marker.evaluate(on(python))}


def on(python: str) -> dict[str, str]:
    return {**default_environment(), "python_version": python, "python_full_version": f"{python}.0"}  # type: ignore[dict-item]


def pins(python: str) -> dict[str, str]:
    """Versions by name."""
    chosen = [each for each, _ in locked() if each.marker is None or each.marker.evaluate(on(python))]
    versions: dict[str, str] = {
        str(canonicalize_name(each.name)): str(each.specifier).removeprefix("==") for each in chosen
    }
    assert len(versions) == len(chosen), "one version of each"
    return versions


@pytest.mark.parametrize("python", PYTHONS)
def test_the_lock_has_all_that_is_asked_for(python: str) -> None:
    versions = pins(python)
    for name, requirement in some(wanted(python).items()):
        version = versions.get(canonicalize_name(name))
        assert version is not None, f"{name} is not locked: make lock"
        assert requirement.specifier.contains(version, prereleases=True), f"{name} {version}: make lock"


def test_every_entry_is_one_version_with_hashes() -> None:
    for requirement, options in some(locked()):
        assert [each.operator for each in requirement.specifier] == ["=="], requirement
        assert requirement.url is None, requirement
        assert options, f"{requirement} has no hash"
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", each) for each in options), requirement


def test_the_lock_names_no_place_to_get_things_from() -> None:
    assert "://" not in LOCK
    assert "index-url" not in LOCK
    assert "find-links" not in LOCK


def test_what_is_installed_is_what_is_locked() -> None:
    """Fails in an environment that was not made by `make setup`."""
    here = default_environment()
    chosen = [each for each, _ in locked() if each.marker is None or each.marker.evaluate()]
    assert here["python_version"] in PYTHONS
    found = {each.name: importlib.metadata.version(each.name) for each in some(chosen)}
    assert found == {each.name: str(each.specifier).removeprefix("==") for each in chosen}


def test_setup_takes_nothing_that_is_not_locked() -> None:
    done = subprocess.run(
        ["make", "--dry-run", "setup", "VENV=build/none"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    installs = [line for line in done.stdout.splitlines() if "pip install" in line]
    assert len(installs) == 2
    assert "--no-deps --require-hashes --requirement requirements.lock" in installs[0]
    assert "--no-deps --no-build-isolation" in installs[1]
    assert any(line.endswith("pip check") for line in done.stdout.splitlines()), "a list that lacks a package"


def test_no_build_of_ours_changes_what_is_locked() -> None:
    """cargo itself says so when --locked does not fit: `cargo metadata` below."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    builds = re.findall(r"^\t(cargo (?:build|test|clippy|install) .*)$", makefile, re.MULTILINE)
    assert len(builds) >= 6
    assert [build for build in builds if "--locked" not in build] == []


@pytest.mark.network
@pytest.mark.parametrize("workspace", WORKSPACES)
def test_crates_have_licences_that_may_be_used_and_come_from_the_registry(workspace: str) -> None:
    packages = packages_of(workspace)
    assert len(packages) > 2
    assert [each["name"] for each in packages if not allowed(each["license"])] == []
    theirs = [each for each in packages if each["source"] is not None]
    assert all(
        each["source"].startswith("registry+") and each["source"].endswith("/crates.io-index") for each in theirs
    )
    ours = {each["name"] for each in packages} - {each["name"] for each in theirs}
    manifests = [Path(each["manifest_path"]) for each in packages if each["name"] in ours]
    workspaces = {ROOT / each for each in WORKSPACES}
    assert all(workspaces & set(each.parents) for each in manifests), "path dependencies are ours"


@pytest.mark.parametrize("workspace", WORKSPACES)
def test_crates_in_the_lock_have_checksums(workspace: str) -> None:
    lock = tomllib.loads((ROOT / workspace / "Cargo.lock").read_text(encoding="utf-8"))
    theirs = [each for each in lock["package"] if "source" in each]
    for package in some(theirs) if workspace == "emulator" else theirs:
        assert re.fullmatch(r"[0-9a-f]{64}", package["checksum"]), package["name"]


@pytest.mark.parametrize(
    ("licence", "may"),
    [
        ("MIT", True),
        ("MIT OR GPL-3.0", True),
        ("GPL-3.0", False),
        ("MIT/Apache-2.0", True),
        ("(MIT OR GPL-3.0) AND Unicode-3.0", True),
        ("MIT AND GPL-3.0", False),
        ("(MIT OR Apache-2.0) AND SSPL-1.0", False),
        ("Apache-2.0 WITH LLVM-exception OR MIT", True),
        (None, False),
        ("", False),
    ],
)
def test_licences_that_may_be_used(licence: str | None, may: bool) -> None:  # noqa: FBT001 - a parameter of the table
    assert allowed(licence) is may


def test_our_own_licence_is_the_same_everywhere() -> None:
    licence = PROJECT["project"]["license"]
    assert licence == "MIT OR Apache-2.0"
    for workspace in WORKSPACES:
        manifest = tomllib.loads((ROOT / workspace / "Cargo.toml").read_text(encoding="utf-8"))
        assert manifest["workspace"]["package"]["license"] == licence
        members = sorted((ROOT / workspace).glob("*/Cargo.toml")) or [ROOT / workspace / "Cargo.toml"]
        for member in some(members):
            assert tomllib.loads(member.read_text(encoding="utf-8"))["package"]["license"] == {"workspace": True}, (
                member
            )
    readme = (ROOT / "README.md").read_text(encoding="utf-8").partition("\n## License\n")[2]
    for file in PROJECT["project"]["license-files"]:
        assert f"({file})" in readme
        assert (ROOT / file).stat().st_size > 500
    assert "files that it adds" in readme, "the licence of generated code is told"
    assert "Candle's license" in readme, "and that of lines that follow Candle's"


def test_no_generated_file_claims_another_licence() -> None:
    files = [each for each in (ROOT / "generated").rglob("*") if each.is_file()]
    claims = re.compile(rb"licen[sc]e|copyright|SPDX", re.IGNORECASE)
    assert [str(each) for each in some(files) if claims.search(each.read_bytes())] == []


def packages_of(workspace: str) -> list[dict[str, Any]]:
    """Every crate that is compiled, by cargo's own account of the lock."""
    manifest = ROOT / workspace / "Cargo.toml"
    done = subprocess.run(
        ["cargo", "metadata", "--locked", "--format-version", "1", "--manifest-path", manifest],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    packages = json.loads(done.stdout)["packages"]
    assert isinstance(packages, list)
    return packages


def allowed(licence: str | None) -> bool:
    """Whether one of the choices that an SPDX expression gives has only licences of the list; `/` is an old OR."""
    if not licence:
        return False
    words = re.findall(r"\(|\)|[^\s()]+", licence.replace("/", " OR "))
    python = [
        word if word in "()" else {"OR": "or", "AND": "and"}.get(word, str(word in ALLOWED))
        for word in words
        if word != "WITH" and not word.endswith("-exception")
    ]
    return bool(eval(" ".join(python), {"__builtins__": {}}))  # of or, and, True, False
