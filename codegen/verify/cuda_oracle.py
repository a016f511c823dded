"""`cargo check --features cuda` on a machine without nvcc.

Edits inside CUDA-gated code are invisible to every other build. Only candle-kernels needs nvcc, and only its build
script: it compiles the kernels to PTX text that its library embeds. A check needs the names, not the PTX, so the
script is replaced, in a scratch copy, by one that writes constants of the same names with empty texts. Nothing is
linked, so the static libraries of later releases (MoE, matrix-vector kernels) are not needed at all.
"""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING

from codegen.errors import VerificationFailed
from codegen.verify.scratch import tree_files

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

KERNEL_CRATE = "candle-kernels"
CUDA_VERSION = "12080"
ENVIRONMENT = {"CUDARC_CUDA_VERSION": CUDA_VERSION}
"""cudarc's build script asks nvcc for the version unless this says which bindings to use."""

OUT_DIR_FILE = re.compile(r'env!\(\s*"OUT_DIR"\s*\)\s*,\s*"/([^"]+)"')
MODULE_FILE = re.compile(r"^\s*(?:pub(?:\([^)]*\))?\s+)?mod\s+ptx\s*;", re.MULTILINE)

BUILD_SCRIPT = """\
//! Stands in for the build script of candle-kernels where there is no nvcc: the same names, no device code.
//! Written by `candle-rocm verify` into a scratch copy; good for `cargo check` only.

use std::{env, fs, path::PathBuf};

const FILES: &[(&str, &str)] = &[
%s];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let out_dir = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for (name, text) in FILES {
        let path = out_dir.join(name);
        fs::create_dir_all(path.parent().expect("a file below OUT_DIR")).expect("OUT_DIR is writable");
        fs::write(path, text).expect("OUT_DIR is writable");
    }
}
"""


def stub_overlay(tree_root: Path) -> dict[str, bytes]:
    """Files to lay over a Candle tree so that its CUDA features can be checked without nvcc.

    Derived from the tree itself: the names of the constants from the `.cu` files, the files to write from what
    candle-kernels' library includes from `OUT_DIR`. Raises VerificationFailed when the tree has no candle-kernels.
    """
    crate = tree_root / KERNEL_CRATE
    if not (crate / "Cargo.toml").is_file():
        raise VerificationFailed(
            f"the CUDA oracle found no {KERNEL_CRATE} in the tree",
            remedy=f"use a complete Candle tree; `candle-rocm fetch VERSION` includes {KERNEL_CRATE}",
        )
    paths = list(tree_files(crate))
    constants = ptx_constants(paths)
    sources = {path: (crate / path).read_bytes().decode() for path in paths if path.endswith(".rs")}
    library = {path: text for path, text in sources.items() if path.startswith("src/")}
    included = sorted({name for text in library.values() for name in OUT_DIR_FILE.findall(text)})
    files = {name: constants if name.endswith(".rs") else "" for name in included}
    overlay = {_build_script(crate): _script(files)}
    if "src/ptx.rs" not in library and any(MODULE_FILE.search(text) for text in library.values()):
        overlay["src/ptx.rs"] = constants  # releases up to 0.9.1 wrote the constants into the sources
    return {f"{KERNEL_CRATE}/{path}": text.encode() for path, text in overlay.items()}


def ptx_constants(paths: list[str]) -> str:
    """`pub const AFFINE: &str = "";` for each `.cu` file, as the build script's PTX bindings name them."""
    stems = {path.rsplit("/", 1)[-1].removesuffix(".cu") for path in paths if path.endswith(".cu")}
    names = sorted(re.sub(r"\W", "_", stem).upper() for stem in stems)
    return "".join(f'#[allow(dead_code)]\npub const {name}: &str = "";\n' for name in names)


def _build_script(crate: Path) -> str:
    manifest = tomllib.loads((crate / "Cargo.toml").read_text(encoding="utf-8"))
    script = manifest.get("package", {}).get("build", "build.rs")
    return script if isinstance(script, str) else "build.rs"


def _script(files: Mapping[str, str]) -> str:
    rows = "".join(f"    ({_literal(name)}, {_literal(text)}),\n" for name, text in files.items())
    return BUILD_SCRIPT % rows


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
