"""The two oracles that work on scratch copies: rustc's E0004 list, and the stub of candle-kernels."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import fake_cargo
import pytest

from codegen.errors import ExitCode, UnknownSite, VerificationFailed
from codegen.spec.model import Pin
from codegen.verify import cuda_oracle, oracle
from codegen.verify.cargo import cargo_environment, run_cargo
from codegen.verify.pins import Pinned

if TYPE_CHECKING:
    from pathlib import Path

needs_cargo = pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is not installed")

ENUMS = """\
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Storage {
    Cpu,
    Cuda { id: usize },
}
pub enum StorageKind { A }

pub fn name(storage: Storage) -> &'static str {
    match storage {
        Storage::Cpu => "é", Storage::Cuda { .. } => "cuda",
    }
}

macro_rules! both {
    ($storage:ident) => {
        match Storage::clone(&$storage) {
            Storage::Cpu => 0,
            Storage::Cuda { id } => id,
        }
    };
}

pub fn twice(a: Storage, b: Storage) -> usize {
    both!(a) + both!(b)
}

macro_rules! argument {
    ($storage:expr) => {
        match $storage {
            Storage::Cpu => 0,
            Storage::Cuda { id } => id,
        }
    };
}

pub fn once(a: Storage) -> usize {
    argument!(a)
}

pub fn with_fallback(storage: Storage) -> bool {
    match storage {
        Storage::Cpu => true,
        _ => false,
    }
}
"""


def tree(root: Path, *sources: str, **more: str) -> Path:
    """A workspace with one crate candle-core, whose library has the sources as modules."""
    files = {
        "Cargo.toml": '[workspace]\nmembers = ["candle-core"]\nresolver = "2"\n',
        "candle-core/Cargo.toml": '[package]\nname = "candle-core"\nversion = "0.1.0"\nedition = "2021"\n',
        "candle-core/src/lib.rs": "".join(f"pub mod m{number};\n" for number in range(len(sources))),
        **{f"candle-core/src/m{number}.rs": text for number, text in enumerate(sources)},
        **more,
    }
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return root


def ask(root: Path, *enums: str) -> tuple[oracle.RustcSite, ...]:
    where = root.parent
    return oracle.exhaustive_matches(root, scratch=where / "scratch", target_dir=where / "target", enums=enums)


@needs_cargo
def test_every_exhaustive_match_is_listed_once_where_its_text_stands(tmp_path: Path) -> None:
    root = tree(tmp_path / "tree", ENUMS)
    sites = ask(root, "Storage")
    assert [(site.file, site.line, site.column) for site in sites] == [
        ("candle-core/src/m0.rs", 9, 11),
        ("candle-core/src/m0.rs", 16, 15),
        ("candle-core/src/m0.rs", 37, 15),
    ]
    assert "CandleRocmProbe" in sites[0].patterns
    assert (root / "candle-core/src/m0.rs").read_text(encoding="utf-8") == ENUMS


@needs_cargo
def test_the_oracle_says_which_dependencies_are_pinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tree(tmp_path / "tree", ENUMS)
    pin = Pin(crate="float8", version="0.5.0", reason="0.5.1 is for another cudarc")
    pinned = Pinned("float8", "0.5.0", "0.5.0", pin.reason)
    held: list[object] = []
    notes: list[str] = []

    def hold(scratch: Path, pins: object, *, own_lock: bool, **_more: object) -> tuple[Pinned, ...]:
        held.append((scratch, pins, own_lock, (scratch / "Cargo.toml").exists()))
        return (pinned,)

    monkeypatch.setattr(oracle, "hold", hold)
    scratch, target = tmp_path / "scratch", tmp_path / "target"
    oracle.exhaustive_matches(
        root, scratch=scratch, target_dir=target, enums=["Storage"], pins=(pin,), on_note=notes.append
    )
    assert held == [(scratch, (pin,), False, True)]
    assert notes == [str(pinned)]


def test_the_probe_keeps_every_line_where_it_was(tmp_path: Path) -> None:
    (content,) = oracle.probed_files(tree(tmp_path, ENUMS), ["Storage"]).values()
    lines = content.decode().splitlines()
    assert lines[1] == "pub enum Storage { CandleRocmProbe,"
    assert lines[2:] == ENUMS.splitlines()[2:]


def test_two_enums_of_one_file_are_both_probed(tmp_path: Path) -> None:
    source = "pub enum Device { A }\npub enum DeviceLocation\n{ A }\n"
    (content,) = oracle.probed_files(tree(tmp_path, source), ["Device", "DeviceLocation"]).values()
    assert content.decode() == (
        "pub enum Device { CandleRocmProbe, A }\npub enum DeviceLocation\n{ CandleRocmProbe, A }\n"
    )


def test_a_renamed_enum_is_an_unknown_site_and_all_are_named(tmp_path: Path) -> None:
    root = tree(tmp_path, "pub enum Storage { A }\n", "pub enum Storage { A }\n")
    with pytest.raises(UnknownSite) as caught:
        oracle.probed_files(root, ["Storage", "Device"])
    assert caught.value.exit_code is ExitCode.UNKNOWN_SITE
    text = str(caught.value)
    assert "`pub enum Storage` must be defined once below candle-core/src; found in " in text
    assert "candle-core/src/m0.rs, candle-core/src/m1.rs" in text
    assert "`pub enum Device` must be defined once below candle-core/src; found in no file" in text
    assert "`enums` in specs/candle.yaml" in text


@needs_cargo
@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("pub enum Storage { A }\npub fn f() -> u32 { true }\n", "E0308"),
        ("pub enum Storage { A }\n", "rustc reported no E0004"),
    ],
)
def test_an_oracle_that_cannot_judge_says_so(tmp_path: Path, source: str, complaint: str) -> None:
    with pytest.raises(VerificationFailed, match=complaint) as caught:
        ask(tree(tmp_path / "tree", source), "Storage")
    assert caught.value.exit_code is ExitCode.VERIFICATION_FAILED
    assert "oracle.log" in str(caught.value)


def test_cargos_own_complaint_is_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_cargo.install(tmp_path / "bin", "cargo", fake_cargo.printing([], ["error: failed to download `x`"], 101))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(VerificationFailed, match="failed to download `x`"):
        ask(tree(tmp_path / "tree", "pub enum Storage { A }\n"), "Storage")


KERNELS = {
    "candle-kernels/Cargo.toml": '[package]\nname = "candle-kernels"\nversion = "0.1.0"\nedition = "2021"\n',
    "candle-kernels/build.rs": 'fn main() { panic!("no nvcc") }\n',
    "candle-kernels/src/affine.cu": "",
    "candle-kernels/src/moe/moe-wmma.cu": "",
}
INCLUDING = 'mod ptx {\n    include!(concat!(env!("OUT_DIR"), "/ptx.rs"));\n}\npub const A: &str = ptx::AFFINE;\n'


def kernels(root: Path, **files: str) -> Path:
    return tree(root, **{**KERNELS, **files})


def check_kernels(root: Path, where: Path) -> int:
    """Lay the stub over the tree and check candle-kernels with the real cargo."""
    for path, content in cuda_oracle.stub_overlay(root).items():
        (root / path).write_bytes(content)
    crate = root / "candle-kernels"
    with (crate / "Cargo.toml").open("a", encoding="utf-8") as manifest:
        manifest.write("[workspace]\n")
    return run_cargo(crate, ["check"], log=where / "log", environment=cargo_environment(where / "target")).returncode


@needs_cargo
def test_a_stubbed_kernel_crate_that_includes_from_out_dir_compiles(tmp_path: Path) -> None:
    root = kernels(tmp_path / "tree", **{"candle-kernels/src/lib.rs": INCLUDING})
    assert sorted(cuda_oracle.stub_overlay(root)) == ["candle-kernels/build.rs"]
    assert check_kernels(root, tmp_path) == 0


@needs_cargo
def test_a_stubbed_kernel_crate_with_a_generated_module_compiles(tmp_path: Path) -> None:
    root = kernels(tmp_path / "tree", **{"candle-kernels/src/lib.rs": "mod ptx;\npub const A: &str = ptx::AFFINE;\n"})
    overlay = cuda_oracle.stub_overlay(root)
    assert overlay["candle-kernels/src/ptx.rs"].decode() == (
        '#[allow(dead_code)]\npub const AFFINE: &str = "";\n#[allow(dead_code)]\npub const MOE_WMMA: &str = "";\n'
    )
    assert check_kernels(root, tmp_path) == 0


@needs_cargo
def test_a_module_that_includes_single_ptx_files_gets_empty_ones(tmp_path: Path) -> None:
    included = 'include_str!(concat!(env!("OUT_DIR"), "/sub/affine.ptx"))'
    library = {
        "candle-kernels/src/lib.rs": "mod ptx;\npub const A: &str = ptx::AFFINE;\n",
        "candle-kernels/src/ptx.rs": f"pub const AFFINE: &str = {included};\n",
    }
    root = kernels(tmp_path / "tree", **library)
    overlay = cuda_oracle.stub_overlay(root)
    assert list(overlay) == ["candle-kernels/build.rs"]
    assert '("sub/affine.ptx", "")' in overlay["candle-kernels/build.rs"].decode()
    assert check_kernels(root, tmp_path) == 0


def test_the_build_script_is_replaced_where_the_manifest_names_it(tmp_path: Path) -> None:
    manifest = KERNELS["candle-kernels/Cargo.toml"] + 'build = "build/main.rs"\n'
    root = kernels(tmp_path, **{"candle-kernels/Cargo.toml": manifest, "candle-kernels/src/lib.rs": INCLUDING})
    assert list(cuda_oracle.stub_overlay(root)) == ["candle-kernels/build/main.rs"]


def test_a_tree_without_kernels_cannot_be_judged(tmp_path: Path) -> None:
    with pytest.raises(VerificationFailed, match="found no candle-kernels in the tree") as caught:
        cuda_oracle.stub_overlay(tree(tmp_path))
    assert "candle-rocm fetch VERSION" in str(caught.value)
