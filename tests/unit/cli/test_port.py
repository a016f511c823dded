"""`port`: a crate that uses Candle's CUDA backend by name is listed, ported by rule, checked, and taken back."""

from __future__ import annotations

import subprocess
import tomllib
from typing import TYPE_CHECKING

import pytest
from made_up import grow, tree_hash

from codegen.syntax.source import Source

if TYPE_CHECKING:
    from pathlib import Path

    from in_process import CommandLine

LOCK = """version = 4

[[package]]
name = "candle-core"
version = "0.11.1"
source = "registry+https://github.com/rust-lang/crates.io-index"
"""
MANIFEST = """[package]
name = "flow"
version = "0.1.0"
edition = "2021"

[features]
cuda = ["candle/cuda", "dep:cudarc", "dep:half"]

[dependencies]
candle = { package = "candle-core", version = "0.11" }
cudarc = { version = "0.1", optional = true }
half = { version = "2", optional = true }
"""
LIB = """#[cfg(feature = "cuda")]
mod cuda;
#[cfg(feature = "cuda")]
mod ffi;

use candle::{CpuStorage, CudaStorage, CustomOp1, Layout, Result, Shape};

pub struct Scale(pub f32);

impl CustomOp1 for Scale {
    fn name(&self) -> &'static str {
        "scale"
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        candle::bail!("no cpu implementation")
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(&self, storage: &CudaStorage, layout: &Layout) -> Result<(CudaStorage, Shape)> {
        cuda::scale(self.0, storage, layout)
    }
}

#[cfg(not(feature = "cuda"))]
pub fn is_built_for_a_gpu() -> bool {
    false
}

#[cfg(feature = "cuda")]
pub fn is_built_for_a_gpu() -> bool {
    true
}
"""
CUDA = """use candle::cuda_backend::cudarc::driver::{sys::CUstream, CudaSlice, DevicePtr};
use candle::cuda_backend::WrapErr;
use candle::{CudaStorage, Layout, Result, Shape};

use crate::ffi;

pub fn scale(by: f32, storage: &CudaStorage, layout: &Layout) -> Result<(CudaStorage, Shape)> {
    let dev = storage.device().clone();
    let src: &CudaSlice<f32> = storage.as_cuda_slice::<f32>()?;
    let dst = unsafe { dev.alloc::<f32>(src.len()) }.w()?;
    let stream: CUstream = dev.cuda_stream().cu_stream();
    let (address, _guard) = src.device_ptr(src.stream());
    unsafe { ffi::scale(address as *const core::ffi::c_void, by, stream) };
    Ok((CudaStorage::wrap_cuda_slice(dst, dev), layout.shape().clone()))
}

/// A window of the memory.
pub fn window(storage: &CudaStorage) -> Result<usize> {
    let slice = unsafe { storage.device().cuda_stream().upgrade_device_ptr::<f32>(0, 1) };
    Ok(slice.len())
}
"""
FFI = """use candle::cuda_backend::cudarc::driver::sys::CUstream;

extern "C" {
    pub fn scale(src: *const core::ffi::c_void, by: f32, stream: CUstream);
}
"""
BUILD = """fn main() {
    println!("cargo:rerun-if-changed=kernels/scale.cu");
    bindgen_cuda::Builder::default().build_lib("libscale.a");
}
"""
TEXTS = {
    "Cargo.toml": MANIFEST,
    "Cargo.lock": LOCK,
    "src/lib.rs": LIB,
    "src/cuda.rs": CUDA,
    "src/ffi.rs": FFI,
    "build.rs": BUILD,
    "kernels/scale.cu": "__global__ void scale() {}\n",
}


@pytest.fixture
def crate(tmp_path: Path) -> Path:
    return grow(tmp_path / "flow", TEXTS)


def git(folder: Path, *words: str) -> str:
    settings = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    done = subprocess.run(["git", *settings, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


def test_it_lists_every_use_and_writes_nothing(candle_rocm: CommandLine, crate: Path) -> None:
    before = tree_hash(crate)

    lines = candle_rocm.ok("port", crate).stdout.splitlines()

    assert "Cargo.toml:7 feature cuda: candle/cuda -> mirrored: as candle/rocm" in lines
    assert (
        "Cargo.toml:7 feature cuda: dep:cudarc -> by hand: what programs use of it is in candle_core::rocm::driver"
        in lines
    )
    assert "Cargo.toml:7 feature cuda: dep:half -> mirrored: as dep:half" in lines
    assert "src/cuda.rs:1 a file for CUDA alone, which names it 14 times -> mirrored: as src/rocm.rs" in lines
    assert "src/cuda.rs:19 `window` -> stub: upgrade_device_ptr: cudarc's method has no counterpart" in lines
    assert "src/lib.rs:2 mod cuda -> mirrored" in lines
    assert "src/lib.rs:20 fwd cuda_fwd -> mirrored" in lines
    assert "src/lib.rs:26 fn is_built_for_a_gpu -> widened" in lines
    assert any(line.startswith("kernels/scale.cu:1 kernels in CUDA C++ -> by hand: ") for line in lines)
    assert any(line.startswith("build.rs:3 a build script that calls nvcc -> by hand: ") for line in lines)
    assert lines[-1] == "Write it: candle-rocm port DIR --write"
    assert tree_hash(crate) == before


def test_what_is_written_has_rocms_names_and_parses(candle_rocm: CommandLine, crate: Path) -> None:
    said = candle_rocm.ok("port", crate, "--write").stdout

    assert said.endswith("\nWritten. Check it: cargo check --features rocm\n")
    twin = (crate / "src/rocm.rs").read_text()
    assert "use candle::rocm::driver::{DevicePtr, RocmSlice};\n" in twin
    assert "type hipStream_t = *mut core::ffi::c_void;\n" in twin
    assert "dev.rocm_stream().hip_stream()" in twin
    assert "RocmStorage::wrap_rocm_slice(dst, dev)" in twin
    assert 'unimplemented!("window has no ROCm form: upgrade_device_ptr: ' in twin
    assert "cuda" not in twin.replace("cudarc's method", "").lower()
    lib = (crate / "src/lib.rs").read_text()
    alone = '#[cfg(all(feature = "rocm", not(feature = "cuda")))]\n'
    assert f"{alone}mod rocm;\n" in lib
    assert f'{alone}#[path = "ffi_rocm.rs"]\nmod ffi;\n' in lib
    assert "fn rocm_fwd(&self, storage: &RocmStorage" in lib
    assert '#[cfg(not(any(feature = "cuda", feature = "rocm")))]\npub fn is_built_for_a_gpu' in lib
    assert '#[cfg(any(feature = "cuda", feature = "rocm"))]\npub fn is_built_for_a_gpu' in lib
    assert "use candle::{CpuStorage, CudaStorage, CustomOp1, Layout, Result, RocmStorage, Shape};" in lib
    assert tomllib.loads((crate / "Cargo.toml").read_text())["features"]["rocm"] == ["candle/rocm", "dep:half"]
    assert (
        'if std::env::var_os("CARGO_FEATURE_CUDA").is_none() {\n        return;\n' in (crate / "build.rs").read_text()
    )
    for path in ("src/rocm.rs", "src/lib.rs", "src/ffi_rocm.rs", "build.rs"):
        assert Source.parse(path, (crate / path).read_bytes()).error_ranges() == ()
    for path in ("src/cuda.rs", "src/ffi.rs", "kernels/scale.cu"):
        assert (crate / path).read_text() == TEXTS[path]


def test_a_port_is_checked_written_once_and_taken_back(candle_rocm: CommandLine, crate: Path) -> None:
    before = tree_hash(crate)
    unported = candle_rocm("port", crate, "--check")
    assert unported.code == 1
    assert "src/lib.rs: is not ported\nsrc/rocm.rs: is missing\n" in unported.stdout
    listed = candle_rocm.ok("port", crate).stdout.partition("\n\n")[0]

    candle_rocm.ok("port", crate, "--write")
    written = tree_hash(crate)

    assert candle_rocm.ok("port", crate, "--check").stdout == "up to date\n"
    assert candle_rocm.ok("port", crate).stdout.partition("\n\n")[0] == listed
    candle_rocm.ok("port", crate, "--write")
    assert tree_hash(crate) == written
    assert candle_rocm.ok("port", crate, "--revert").stdout == "5 files taken back\n"
    assert tree_hash(crate) == before
    again = candle_rocm("port", crate, "--revert")
    assert (again.code, "no port is written" in again.stderr) == (5, True)


def test_edits_by_hand_are_neither_overwritten_nor_lost(candle_rocm: CommandLine, crate: Path) -> None:
    candle_rocm.ok("port", crate, "--write")
    lib = crate / "src/lib.rs"
    lib.write_text(lib.read_text() + "\npub fn mine() {}\n")

    assert candle_rocm("port", crate, "--check").stdout.startswith("src/lib.rs: differs\n")
    assert candle_rocm("port", crate, "--write").code == 5
    refused = candle_rocm("port", crate, "--revert")
    assert (refused.code, "src/lib.rs" in refused.stderr) == (5, True)
    candle_rocm.ok("port", crate, "--revert", "--keep-edits")
    assert lib.read_text() == LIB + "\npub fn mine() {}\n"


def test_a_dirty_checkout_is_refused(candle_rocm: CommandLine, crate: Path) -> None:
    git(crate, "init", "-q")
    git(crate, "add", "-A")
    git(crate, "commit", "-q", "-m", "start")
    (crate / "src/ffi.rs").write_text(FFI + "// mine\n")

    refused = candle_rocm("port", crate, "--write")

    assert (refused.code, "src/ffi.rs" in refused.stderr) == (6, True)
    candle_rocm.ok("port", crate, "--write", "--allow-dirty")


def test_the_diff_is_what_write_makes(candle_rocm: CommandLine, crate: Path, tmp_path: Path) -> None:
    other = grow(tmp_path / "other", TEXTS)
    patch = candle_rocm.ok("port", crate, "--diff").stdout
    subprocess.run(["git", "apply", "-"], input=patch, text=True, cwd=other, check=True)

    candle_rocm.ok("port", crate, "--write")

    for path in ("Cargo.toml", "src/lib.rs", "src/rocm.rs", "src/ffi_rocm.rs", "build.rs"):
        assert (other / path).read_text() == (crate / path).read_text()


def test_the_same_as_json(candle_rocm: CommandLine, crate: Path) -> None:
    document = candle_rocm.ok("port", crate, "--json").document

    assert (document["schema_version"], document["command"], document["release"]) == (1, "port", "0.11.1")
    assert (document["written"], document["clean"]) == (False, False)
    assert {each["outcome"] for each in document["uses"]} == {"mirrored", "widened", "stub", "by hand"}
    assert [each["path"] for each in document["files"] if each["new"]] == ["src/ffi_rocm.rs", "src/rocm.rs"]
    written = candle_rocm.ok("port", crate, "--write", "--json").document
    assert (written["written"], written["clean"], written["differing"]) == (True, True, [])
    assert len(candle_rocm.ok("port", crate, "--revert", "--json").document["reverted"]) == 5


@pytest.mark.parametrize(
    ("path", "text", "code", "said"),
    [
        ("Cargo.toml", "[package\n", 2, "Cargo.toml:1:"),
        ("src/lib.rs", b"// cuda \xff\n", 2, "src/lib.rs:1:"),
        ("Cargo.lock", None, 2, "has no Cargo.lock"),
    ],
    ids=["manifest", "source", "no lock"],
)
def test_errors_name_the_file(
    candle_rocm: CommandLine, crate: Path, path: str, text: str | bytes | None, code: int, said: str
) -> None:
    if text is None:
        (crate / path).unlink()
    else:
        (crate / path).write_bytes(text if isinstance(text, bytes) else text.encode())

    answer = candle_rocm("port", crate)

    assert (answer.code, answer.stdout) == (code, "")
    assert said in answer.stderr


def test_nothing_is_written_through_a_link(candle_rocm: CommandLine, crate: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (crate / "src/cuda.rs").rename(outside / "cuda.rs")
    (crate / "src/cuda.rs").symlink_to(outside / "cuda.rs")

    answer = candle_rocm("port", crate, "--write")

    assert (answer.code, "symbolic link" in answer.stderr) == (6, True)
    assert [path.name for path in outside.iterdir()] == ["cuda.rs"]


MODULES = {
    "src/lib.rs": """#[cfg(feature = "cuda")]
mod cuda;
#[cfg(feature = "cuda")]
mod kernels;
#[cfg(feature = "cuda")]
mod gone;
#[cfg(feature = "cuda")]
#[path = "../elsewhere.rs"]
mod outside;
#[cfg(feature = "cuda")]
#[path = "deep/device.rs"]
mod device;
#[cfg(feature = "cuda")]
mod sizes;
#[cfg(feature = "cuda")]
mod taken_cuda;
""",
    "src/cuda/mod.rs": "mod cuda_ops;\nmod plain;\nuse candle::CudaDevice;\n",
    "src/cuda/cuda_ops.rs": "use super::CudaDevice;\n",
    "src/cuda/plain.rs": "pub fn plain() {}\n",
    "src/kernels.rs": "pub mod launch;\n",
    "src/kernels/launch.rs": "use candle::CudaDevice;\n",
    "src/deep/device.rs": "use candle::CudaDevice;\n",
    "src/sizes.rs": "pub const SIZE: usize = 4;\n",
    "src/taken_cuda.rs": "use candle::CudaDevice;\n",
    "src/taken_rocm.rs": "use candle::RocmDevice;\n",
}


def test_modules_in_files_and_folders(candle_rocm: CommandLine, tmp_path: Path) -> None:
    """A folder keeps its shape; a module whose name says nothing of CUDA gets a file that #[path] names."""
    crate = grow(tmp_path / "flow", {"Cargo.toml": MANIFEST, "Cargo.lock": LOCK, **MODULES})

    lines = candle_rocm.ok("port", crate, "--write").stdout.splitlines()

    made = {str(p.relative_to(crate)) for p in crate.rglob("*.rs")} - MODULES.keys()
    folder = {"src/rocm/mod.rs", "src/rocm/rocm_ops.rs", "src/rocm/plain.rs"}
    assert made == {*folder, "src/kernels_rocm/mod.rs", "src/kernels_rocm/launch.rs", "src/deep/device_rocm.rs"}
    assert (crate / "src/rocm/mod.rs").read_text() == "mod rocm_ops;\nmod plain;\nuse candle::RocmDevice;\n"
    lib = (crate / "src/lib.rs").read_text()
    assert '#[path = "kernels_rocm/mod.rs"]\nmod kernels;\n' in lib
    assert '#[path = "deep/device_rocm.rs"]\nmod device;\n' in lib
    assert '#[cfg(any(feature = "cuda", feature = "rocm"))]\nmod sizes;\n' in lib
    assert "src/lib.rs:6 mod gone -> by hand: its file is not there" in lines
    assert "src/lib.rs:9 mod outside -> by hand: its file is not there" in lines
    assert "src/lib.rs:16 mod taken_cuda -> by hand: src/taken_rocm.rs is there already" in lines


def test_ptx_of_a_build_script_becomes_a_copy_of_the_kernels_source(candle_rocm: CommandLine, crate: Path) -> None:
    loads = '\nconst PTX: &str = include_str!(concat!(env!("OUT_DIR"), "/scale.ptx"));\n'
    (crate / "src/cuda.rs").write_text(CUDA + loads)

    lines = candle_rocm.ok("port", crate, "--write").stdout.splitlines()

    assert (crate / "kernels/scale.hip").read_text() == TEXTS["kernels/scale.cu"]
    assert '"/kernels/scale.hip"));' in (crate / "src/rocm.rs").read_text()
    note = "kernels/scale.hip, which the twin includes, is a copy: make HIP of it"
    assert f"kernels/scale.cu:1 kernels in CUDA C++ -> by hand: {note}" in lines


def test_a_member_of_a_workspace_is_ported_with_it(candle_rocm: CommandLine, tmp_path: Path) -> None:
    other = MANIFEST.replace("flow", "other").replace('"dep:cudarc"', '"flow/cuda"') + 'flow = { path = "../flow" }\n'
    texts = {f"flow/{path}": text for path, text in TEXTS.items() if path != "Cargo.lock"}
    root = grow(
        tmp_path / "all",
        {
            "Cargo.toml": '[workspace]\nmembers = ["flow", "other"]\n',
            "Cargo.lock": LOCK,
            "other/Cargo.toml": other,
            "other/src/lib.rs": "",
            **texts,
        },
    )
    refused = candle_rocm("port", root / "flow")
    assert (refused.code, f"belongs to the workspace {root}" in refused.stderr) == (2, True)

    candle_rocm.ok("port", root, "--write")

    features = tomllib.loads((root / "other/Cargo.toml").read_text())["features"]
    assert features["rocm"] == ["candle/rocm", "flow/rocm", "dep:half"]
    assert (root / "flow/src/rocm.rs").is_file()


def test_words_that_exclude_each_other(candle_rocm: CommandLine, crate: Path) -> None:
    assert candle_rocm("port", crate, "--write", "--check").code == 2
    assert candle_rocm("port", crate, "--keep-edits").code == 2
