"""`use`: what a program of somebody else's needs, what it has already, and what is wrong with that."""

from __future__ import annotations

import shutil
import subprocess
import tomllib
from typing import TYPE_CHECKING, Any

import pytest
from made_up import grow, tree_hash

from codegen.candle.fetch import FetchedRelease
from codegen.cli.main import run

if TYPE_CHECKING:
    from pathlib import Path

    from in_process import CommandLine

REGISTRY = "registry+https://github.com/rust-lang/crates.io-index"
GIT = "git+https://github.com/huggingface/candle?branch=main#0123456789abcdef"
MANIFEST = """\
[package]
name = "app"
version = "0.1.0"
edition = "2021"

[dependencies]
# The framework.
candle-core = "0.11"
candle-nn = { version = "0.11", optional = true }
"""


def lock(*crates: str, version: str = "0.11.1", source: str = REGISTRY) -> str:
    entries = ['[[package]]\nname = "app"\nversion = "0.1.0"\n']
    for crate in crates:
        line = f'source = "{source}"\n' if source else ""
        entries.append(f'[[package]]\nname = "{crate}"\nversion = "{version}"\n{line}')
    return "version = 4\n\n" + "\n".join(entries)


def app(tmp_path: Path, manifest: str = MANIFEST, cargo_lock: str | None = None, **more: str) -> Path:
    texts = {"Cargo.toml": manifest, "src/main.rs": "fn main() {}\n", **more}
    texts["Cargo.lock"] = lock("candle-core", "candle-nn") if cargo_lock is None else cargo_lock
    return grow(tmp_path / "app", texts)


def manifest_of(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "Cargo.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def applied(pristine: Path, shared_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A patched tree, for reading only: to patch one takes seconds."""
    tree = shutil.copytree(pristine, tmp_path_factory.mktemp("applied") / "candle")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CANDLE_ROCM_FETCH_DIR", str(shared_cache))
        assert run(["apply", str(tree)]) == 0
    return tree


@pytest.fixture
def patched(applied: Path, tmp_path: Path) -> Path:
    """A copy of it where the programs here expect one."""
    return shutil.copytree(applied, tmp_path / "candle")


def test_it_shows_the_lines_and_the_commands_and_writes_nothing(candle_rocm: CommandLine, tmp_path: Path) -> None:
    program = app(tmp_path)
    before = tree_hash(program)

    answer = candle_rocm.ok("use", program)

    assert answer.stdout.startswith("Candle 0.11.1 from crates-io; patched tree: ../candle-0.11.1\n")
    assert "  candle-rocm fetch 0.11.1 --to ../candle-0.11.1\n  candle-rocm apply ../candle-0.11.1\n" in answer.stdout
    assert '+rocm = ["candle-core/rocm", "candle-nn?/rocm"]\n' in answer.stdout
    assert '+[patch.crates-io]\n+candle-core = { path = "../candle-0.11.1/candle-core" }\n' in answer.stdout
    assert tree_hash(program) == before
    assert not (tmp_path / "candle-0.11.1").exists()


def test_what_it_shows_is_a_diff_that_git_takes(candle_rocm: CommandLine, tmp_path: Path) -> None:
    program = app(tmp_path)
    files = candle_rocm.ok("use", program, "--json").document["files"]
    subprocess.run(["git", "apply"], input=files[0]["diff"], cwd=program, text=True, check=True)
    by_hand = (program / "Cargo.toml").read_bytes()
    assert manifest_of(program)["features"] == {"rocm": ["candle-core/rocm", "candle-nn?/rocm"]}
    assert b"# The framework.\n" in by_hand


def test_written_all_is_there_and_a_second_time_changes_nothing(
    candle_rocm: CommandLine, candle: Path, tmp_path: Path
) -> None:
    program = app(tmp_path)
    candle_rocm.ok("use", program, "--candle", candle, "--write")
    assert candle_rocm.ok("status", candle, "--json").document["applied"]
    assert manifest_of(program)["patch"]["crates-io"] == {
        "candle-core": {"path": "../candle/candle-core"},
        "candle-nn": {"path": "../candle/candle-nn"},
    }
    once = tree_hash(program)

    again = candle_rocm.ok("use", program)
    assert again.stdout.splitlines()[1:] == [
        "All is there. Build and run: cargo run --features rocm",
        "Without an AMD GPU: candle-rocm emulator cargo run --features rocm",
    ]
    candle_rocm.ok("use", program, "--write")
    assert tree_hash(program) == once
    assert not list(program.glob(".Cargo*"))


def test_written_the_tree_is_fetched_where_there_is_none(
    candle_rocm: CommandLine, pristine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, bool]] = []

    def fetched(version: str, to: Path, *, offline: bool, **_more: object) -> FetchedRelease:
        asked.append((version, offline))
        return FetchedRelease(version, shutil.copytree(pristine, to), (), ())

    monkeypatch.setattr("codegen.candle.fetch.copy_release", fetched)
    program = app(tmp_path, cargo_lock=lock("candle-core"))
    written = candle_rocm.ok("use", program, "--write", "--json")
    assert written.document["done"]
    assert written.stderr.splitlines()[0] == f"Candle 0.11.1 is in {tmp_path / 'candle-0.11.1'}"
    assert asked == [("0.11.1", False)]
    assert candle_rocm.ok("check", tmp_path / "candle-0.11.1").stdout == "up to date\n"
    assert candle_rocm.ok("use", program, "--json").document["done"]


def test_without_a_network_no_manifest_names_a_tree_that_is_not_there(
    own_cache: Path, candle_rocm: CommandLine, tmp_path: Path
) -> None:
    program = app(tmp_path)
    before = tree_hash(program)
    assert candle_rocm("use", program, "--write", "--offline").code == 6
    assert tree_hash(program) == before


def test_a_feature_that_is_there_gets_what_it_lacks_and_keeps_the_rest(
    candle_rocm: CommandLine, patched: Path, tmp_path: Path
) -> None:
    features = '\n[features]\ndefault = []\nrocm = [ # mine\n  "fast",\n  "candle-core/rocm",\n]\nfast = []\n'
    program = app(tmp_path, MANIFEST + features)
    candle_rocm.ok("use", program, "--candle", patched, "--write")
    assert manifest_of(program)["features"]["rocm"] == ["fast", "candle-core/rocm", "candle-nn?/rocm"]
    assert "rocm = [ # mine\n" in (program / "Cargo.toml").read_text(encoding="utf-8")


def test_a_workspace_is_patched_at_its_root_and_each_member_that_names_candle_has_the_feature(
    candle_rocm: CommandLine, patched: Path, tmp_path: Path
) -> None:
    root = (
        '[workspace]\nmembers = ["lib", "bin"]\n\n'
        '[workspace.dependencies]\ntensors = { package = "candle-core", version = "0.11" }\n'
    )
    member = '[package]\nname = "{0}"\nversion = "0.1.0"\n\n[dependencies]\n'
    texts = {
        "lib/Cargo.toml": member.format("app-lib") + "tensors.workspace = true\n",
        "bin/Cargo.toml": member.format("app-bin") + 'app-lib = { path = "../lib" }\ncandle-nn = "0.11"\n',
    }
    program = app(tmp_path, root, **texts)

    for folder in (program, program / "bin"):
        document = candle_rocm.ok("use", folder, "--candle", patched, "--json").document
        assert [each["path"] for each in document["files"]] == ["Cargo.toml", "bin/Cargo.toml", "lib/Cargo.toml"]
    candle_rocm.ok("use", program / "bin", "--candle", patched, "--write")

    assert "features" not in manifest_of(program)
    assert list(manifest_of(program)["patch"]["crates-io"]) == ["candle-core", "candle-nn"]
    assert manifest_of(program / "lib")["features"] == {"rocm": ["tensors/rocm"]}
    assert manifest_of(program / "bin")["features"] == {"rocm": ["app-lib/rocm", "candle-nn/rocm"]}


def test_candle_from_git_is_patched_by_its_url_and_checked_out_at_its_commit(
    candle_rocm: CommandLine, patched: Path, tmp_path: Path
) -> None:
    program = app(tmp_path, cargo_lock=lock("candle-core", source=GIT))
    shown = candle_rocm.ok("use", program).stdout
    assert "  git clone https://github.com/huggingface/candle ../candle-0.11.1\n" in shown
    assert "  git -C ../candle-0.11.1 checkout 0123456789abcdef\n" in shown
    refused = candle_rocm("use", program, "--write")
    assert (refused.code, "Candle comes from git here" in refused.stderr) == (2, True)

    candle_rocm.ok("use", program, "--candle", patched, "--write")
    section = manifest_of(program)["patch"]["https://github.com/huggingface/candle"]
    assert section == {"candle-core": {"path": "../candle/candle-core"}}
    assert candle_rocm.ok("use", program, "--json").document["done"]


def test_candle_from_a_path_is_applied_to_where_it_is(candle_rocm: CommandLine, candle: Path, tmp_path: Path) -> None:
    manifest = MANIFEST.replace('candle-core = "0.11"', 'candle-core = { path = "../candle/candle-core" }')
    program = app(tmp_path, manifest, lock("candle-core", source=""))
    document = candle_rocm.ok("use", program, "--json").document
    assert (document["source"], document["tree"]) == (None, str(candle))
    assert document["commands"] == [["candle-rocm", "apply", "../candle"]]
    candle_rocm.ok("use", program, "--write")
    assert "patch" not in manifest_of(program)
    assert candle_rocm.ok("use", program, "--json").document["done"]


def faulty(candle_rocm: CommandLine, program: Path, *options: str | Path) -> str:
    """What is wrong; nothing may be written."""
    before = tree_hash(program)
    for more in ((), ("--write",)):
        answer = candle_rocm("use", program, *options, *more)
        assert answer.code != 0
        assert tree_hash(program) == before
    return answer.stderr


def test_a_patch_in_a_member_is_not_read_by_cargo(candle_rocm: CommandLine, patched: Path, tmp_path: Path) -> None:
    patch = '\n[patch.crates-io]\ncandle-core = { path = "../../candle/candle-core" }\n'
    program = app(tmp_path, '[workspace]\nmembers = ["one"]\n', **{"one/Cargo.toml": MANIFEST + patch})
    said = faulty(candle_rocm, program, "--candle", patched)
    assert "one/Cargo.toml:11:1: cargo does not read [patch] here" in said


def test_a_patch_to_another_place_is_named_with_its_line(
    candle_rocm: CommandLine, patched: Path, tmp_path: Path
) -> None:
    patch = (
        '\n[patch.crates-io]\ncandle-core = { path = "../candle/candle-core" }\ncandle-nn = { path = "elsewhere" }\n'
    )
    said = faulty(candle_rocm, app(tmp_path, MANIFEST + patch), "--candle", patched)
    assert "[patch] gives candle-nn another place than ../candle/candle-nn" in said
    assert "Cargo.toml:13:" in said


def test_a_tree_of_another_release_is_refused(candle_rocm: CommandLine, patched: Path, tmp_path: Path) -> None:
    program = app(tmp_path, cargo_lock=lock("candle-core", version="0.10.2"))
    said = faulty(candle_rocm, program, "--candle", patched)
    assert "../candle is Candle 0.11.1, and Cargo.lock names 0.10.2" in said


def test_what_is_no_candle_tree_is_refused(candle_rocm: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "../empty is no Candle tree" in faulty(candle_rocm, app(tmp_path), "--candle", tmp_path / "empty")


def test_two_candles_in_a_lock_are_refused(candle_rocm: CommandLine, tmp_path: Path) -> None:
    both = lock("candle-core") + lock("candle-core", version="0.9.2").partition("\n\n")[2]
    said = faulty(candle_rocm, app(tmp_path, cargo_lock=both))
    assert "has Candle 0.11.1 and 0.9.2" in said
    assert "cargo tree -i candle-core@0.11.1" in said


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        ({"Cargo.lock": None}, "run `cargo generate-lockfile` there"),
        ({"Cargo.lock": "version = 4\n"}, "is older than Cargo.toml"),
        ({"Cargo.toml": '[package]\nname = "app"\n'}, "run `cargo add candle-core@=0.11.1` there"),
        ({"Cargo.toml": '[package]\nname = "app"\n', "Cargo.lock": ""}, "is no program that depends on Candle"),
        ({"Cargo.toml": None}, "has no Cargo.toml"),
        ({"Cargo.toml": "[package\n"}, "broken TOML"),
    ],
)
def test_what_is_no_program_gets_one_clear_message(
    candle_rocm: CommandLine, tmp_path: Path, texts: dict[str, str | None], says: str
) -> None:
    program = app(tmp_path)
    for path, text in texts.items():
        (program / path).unlink()
        if text is not None:
            (program / path).write_text(text, encoding="utf-8")
    assert says in faulty(candle_rocm, program)


def test_a_manifest_that_is_a_link_is_left_alone(candle_rocm: CommandLine, patched: Path, tmp_path: Path) -> None:
    program = app(tmp_path)
    elsewhere = tmp_path / "elsewhere.toml"
    shutil.move(program / "Cargo.toml", elsewhere)
    (program / "Cargo.toml").symlink_to(elsewhere)
    before = elsewhere.read_bytes()
    assert candle_rocm("use", program, "--candle", patched, "--write").code != 0
    assert elsewhere.read_bytes() == before


def test_line_ends_modes_and_all_other_bytes_stay(candle_rocm: CommandLine, patched: Path, tmp_path: Path) -> None:
    program = app(tmp_path)
    manifest = program / "Cargo.toml"
    manifest.write_bytes(MANIFEST.replace("\n", "\r\n").encode())
    manifest.chmod(0o640)
    candle_rocm.ok("use", program, "--candle", patched, "--write")
    after = manifest.read_bytes()
    assert after.startswith(MANIFEST.replace("\n", "\r\n").encode())
    assert after.count(b"\n") == after.count(b"\r\n")
    assert manifest.stat().st_mode & 0o777 == 0o640
