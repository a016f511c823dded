from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest
from loopback_registry import LoopbackRegistry

from codegen.candle.tree import CandleTree, open_tree
from codegen.errors import CandleRocmError, ExitCode, InputOutputError, NotACandleTree, RegistryUnreachable

if TYPE_CHECKING:
    from pathlib import Path

REMEDY = "\n  = help: give the root folder of a Candle checkout, or a version such as 0.11.1 to fetch one"
PROGRAM = "; `scan` and `diff` take the folder of a program that depends on Candle, too"

ROOT = """
[workspace]
members = ["candle-core", "candle-nn", "candle-wasm-examples/*", "not-there"]
exclude = ["./candle-kernels", "../elsewhere", "."]

[workspace.package]
version = "0.9.1"

[workspace.dependencies]
candle-build = { path = "./candle-build", version = "0.9.1" }
half = "2"
"""
CORE = """
[package]
name = "candle-core"
version.workspace = true

[features]
default = []
cuda = ["dep:candle-kernels"]
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "candle"
    files = {
        "Cargo.toml": ROOT,
        "README.md": "",
        "candle-core/Cargo.toml": CORE,
        "candle-core/build.rs": "fn main() {}\n",
        "candle-core/src/lib.rs": "pub mod device;\n",
        "candle-core/src/device.rs": "",
        "candle-core/src/notes.txt": "",
        "candle-core/tests/a.rs": "",
        "candle-core/benches/b/mod.rs": "",
        "candle-core/examples/c.rs": "",
        "candle-core/target/debug/d.rs": "",
        "candle-core/.git/e.rs": "",
        "candle-core/.candle-rocm/f.rs": "",
        "candle-nn/Cargo.toml": '[package]\nname = "candle-nn"\n',
        "candle-nn/src/lib.rs": "",
        "candle-kernels/Cargo.toml": '[package]\nname = "candle-kernels"\n',
        "candle-kernels/src/lib.rs": "",
        "candle-build/Cargo.toml": '[package]\nname = "candle-build"\n',
        "candle-wasm-examples/yolo/Cargo.toml": '[package]\nname = "candle-wasm-example-yolo"\n',
        "candle-wasm-examples/yolo/src/bin/app.rs": "",
        "candle-wasm-examples/README/readme.md": "",
        "unrelated/src/lib.rs": "",
    }
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def refused(candle: str | Path) -> str:
    with pytest.raises(NotACandleTree) as caught:
        open_tree(candle)
    assert caught.value.exit_code == ExitCode.USAGE
    return str(caught.value)


def test_release_and_crates(root: Path) -> None:
    tree = open_tree(root)
    assert tree.release == "0.9.1"
    assert [(crate.name, crate.path) for crate in tree.crates] == [
        ("candle-build", "candle-build"),
        ("candle-core", "candle-core"),
        ("candle-kernels", "candle-kernels"),
        ("candle-nn", "candle-nn"),
        ("candle-wasm-example-yolo", "candle-wasm-examples/yolo"),
    ]
    core = tree.crates[1]
    assert core.manifest == "candle-core/Cargo.toml"
    assert core.features == {"default": (), "cuda": ("dep:candle-kernels",)}


def test_release_from_candle_core_itself(root: Path) -> None:
    (root / "candle-core" / "Cargo.toml").write_text('[package]\nname = "candle-core"\nversion = "0.8.4"\n')
    assert open_tree(str(root)).release == "0.8.4"


def test_rust_files(root: Path) -> None:
    (root / "candle-core" / "loop").symlink_to(root / "candle-nn")
    assert open_tree(root).rust_files() == (
        "candle-core/benches/b/mod.rs",
        "candle-core/build.rs",
        "candle-core/examples/c.rs",
        "candle-core/src/device.rs",
        "candle-core/src/lib.rs",
        "candle-core/tests/a.rs",
        "candle-kernels/src/lib.rs",
        "candle-nn/src/lib.rs",
        "candle-wasm-examples/yolo/src/bin/app.rs",
    )


def test_python_files_are_those_of_crates_that_are_python_packages(root: Path) -> None:
    for path in ("candle-core/tests/npy.py", "candle-nn/src/a.py", "candle-nn/stubs/b.pyi", "candle-nn/.venv/c.py"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()
    assert open_tree(root).python_files() == ()
    (root / "candle-nn" / "pyproject.toml").touch()
    tree = open_tree(root)
    assert tree.python_files() == ("candle-nn/src/a.py", "candle-nn/stubs/b.pyi")
    hidden = tree.with_overlay({"candle-nn/src/a.py": None, "candle-nn/d.py": b"", "candle-core/e.py": b""})
    assert hidden.python_files() == ("candle-nn/d.py", "candle-nn/stubs/b.pyi")


def test_read_and_exists(root: Path) -> None:
    tree = open_tree(root)
    assert tree.read("candle-core/src/lib.rs") == b"pub mod device;\n"
    assert tree.exists("candle-core/src/lib.rs")
    assert not tree.exists("candle-core/src")
    assert not tree.exists("candle-core/src/none.rs")
    with pytest.raises(InputOutputError) as caught:
        tree.read("candle-core/src/none.rs")
    assert str(caught.value) == (
        f"input/output error: {root}/candle-core/src/none.rs: No such file or directory\n"
        "  = help: check that the tree is complete and can be read"
    )
    assert caught.value.exit_code == ExitCode.IO


def test_crate_of_is_the_innermost(root: Path) -> None:
    tree = open_tree(root)
    found = {path: tree.crate_of(path) for path in tree.rust_files()}
    assert {path: crate.path for path, crate in found.items() if crate} == {
        path: path[: path.index("/", len("candle-wasm-examples/") if "wasm" in path else 0)] for path in found
    }
    assert tree.crate_of("Cargo.toml") is None
    assert tree.crate_of("unrelated/src/lib.rs") is None
    assert tree.crate_of("candle-core-more/src/lib.rs") is None


def test_overlay_hides_what_an_apply_wrote(root: Path) -> None:
    (root / "candle-core" / "src" / "rocm.rs").touch()
    (root / "candle-nn" / "src" / "lib.rs").unlink()
    tree = open_tree(root).with_overlay(
        {
            "candle-core/src/rocm.rs": None,
            "candle-core/src/lib.rs": b"pristine\n",
            "candle-nn/src/lib.rs": b"",
            "unrelated/src/lib.rs": b"",
            "README.md": b"",
        }
    )
    files = tree.rust_files()
    assert "candle-core/src/rocm.rs" not in files
    assert "candle-nn/src/lib.rs" in files
    assert "unrelated/src/lib.rs" not in files
    assert tree.read("candle-core/src/lib.rs") == b"pristine\n"
    assert (tree.exists("candle-core/src/rocm.rs"), tree.exists("candle-nn/src/lib.rs")) == (False, True)
    with pytest.raises(InputOutputError, match=r"candle-core/src/rocm\.rs: not a file of pristine Candle"):
        tree.read("candle-core/src/rocm.rs")


def test_manifests_in_the_overlay_are_read_again(root: Path) -> None:
    changed = CORE + 'rocm = ["dep:rocm-rs"]\n'
    (root / "candle-core" / "Cargo.toml").write_text(changed)
    applied = open_tree(root)
    pristine = applied.with_overlay({"candle-core/Cargo.toml": CORE.encode()})
    assert set(applied.crates[1].features) == {"default", "cuda", "rocm"}
    assert set(pristine.crates[1].features) == {"default", "cuda"}
    assert pristine.with_overlay({}) == applied


def test_tree_can_be_sent_to_another_process(root: Path) -> None:
    tree = open_tree(root).with_overlay({"candle-core/build.rs": None})
    assert pickle.loads(pickle.dumps(tree)) == tree
    assert hash(tree.crates[1]) == hash(open_tree(root).crates[1])


def test_folder_that_is_not_there(tmp_path: Path) -> None:
    assert refused(tmp_path / "none") == f"not a Candle tree: the folder {tmp_path}/none does not exist{REMEDY}"
    assert refused("candel") == f"not a Candle tree: the folder candel does not exist{REMEDY}"


def test_file_instead_of_a_folder(root: Path) -> None:
    assert refused(root / "Cargo.toml") == f"not a Candle tree: the folder {root}/Cargo.toml is a file{REMEDY}"


def test_folder_without_manifest(tmp_path: Path) -> None:
    assert refused(tmp_path) == f"not a Candle tree: {tmp_path} has no Cargo.toml{REMEDY}{PROGRAM}"


def test_folder_inside_candle_names_the_root(root: Path) -> None:
    remedy = f"\n  = help: give the workspace's root: {root}"
    assert (
        refused(root / "candle-core" / "src") == f"not a Candle tree: {root}/candle-core/src has no Cargo.toml{remedy}"
    )
    core = root / "candle-core"
    assert refused(core) == f"not a Candle tree: {core}/Cargo.toml has no [workspace]{remedy}"


def test_workspace_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "Cargo.toml").write_text('[workspace]\nmembers = ["a"]\n')
    said = f"not a Candle tree: {tmp_path} is a cargo workspace without the crate candle-core{REMEDY}{PROGRAM}"
    assert refused(tmp_path) == said


@pytest.mark.parametrize("version", ["", 'version = "next"'])
def test_release_that_nobody_says(root: Path, version: str) -> None:
    (root / "Cargo.toml").write_text(ROOT.replace('version = "0.9.1"\n', version, 1))
    assert refused(root) == (
        f"not a Candle tree: {root} does not say which release it is: neither `version` in [workspace.package] of "
        "Cargo.toml nor in [package] of candle-core/Cargo.toml is a version\n"
        "  = help: write the release there, such as 0.11.1"
    )


@pytest.mark.parametrize("path", ["Cargo.toml", "candle-core/Cargo.toml", "candle-wasm-examples/yolo/Cargo.toml"])
def test_broken_manifest_is_located(root: Path, path: str) -> None:
    (root / path).write_text('[package]\nname = "x\n')
    assert refused(root) == (
        f"not a Candle tree: {path}:2:10: broken TOML: Illegal character '\\n'\n"
        '  2 | name = "x\n    |          ^\n'
        "  = help: correct the file, or restore it from its release"
    )


def test_manifest_that_is_cut_off(root: Path) -> None:
    (root / "Cargo.toml").write_text("[workspace]\nmembers = [\n")
    assert "Cargo.toml:2:12: broken TOML: " in refused(root)


def test_manifest_that_is_not_text(root: Path) -> None:
    (root / "Cargo.toml").write_bytes(b"[workspace]\nmembers = [\n'\xff']")
    assert refused(root).startswith("not a Candle tree: Cargo.toml:3:1: the file is not UTF-8")


def test_odd_manifests_are_no_bug_of_ours(root: Path) -> None:
    (root / "candle-core" / "Cargo.toml").write_text("package = {}\nfeatures = {}\n")
    assert "without the crate candle-core" in refused(root)
    (root / "candle-core" / "Cargo.toml").write_text("package = 1\nfeatures = []\n")
    assert "candle-core/Cargo.toml:1:1: `package` has to be a table" in refused(root)
    (root / "Cargo.toml").write_text("workspace = 1\n")
    assert "Cargo.toml:1:1: `workspace` has to be a table" in refused(root)


def test_version_is_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with LoopbackRegistry() as server:
        server.configure(monkeypatch, tmp_path)
        server.publish_candle("0.9.1")
        lines: list[str] = []
        tree = open_tree("0.9.1", progress=lines.append)
        assert lines[0] == "looking up Candle 0.9.1 in the crate registry"
        with pytest.raises(RegistryUnreachable):
            open_tree("0.9.1", cache=tmp_path / "other", offline=True)
        with pytest.raises(CandleRocmError, match=r"`0\.9` is not a full version"):
            open_tree("0.9")
    assert (tree.release, [crate.name for crate in tree.crates]) == (
        "0.9.1",
        ["candle-core", "candle-kernels", "candle-nn", "candle-onnx"],
    )
    assert isinstance(tree, CandleTree)


def test_folder_named_like_a_version_is_the_folder(root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    root.rename(tmp_path / "0.11.1")
    monkeypatch.chdir(tmp_path)
    assert open_tree("0.11.1").release == "0.9.1"
