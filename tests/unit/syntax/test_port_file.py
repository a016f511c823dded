"""Porting a program's file: twins, wider conditions, and what is left to a person."""

from __future__ import annotations

import re
import textwrap

import pytest

from codegen.paths import repository_root
from codegen.syntax.edit import apply_edits
from codegen.syntax.port_build import guarded_build, names_nvcc
from codegen.syntax.port_file import cuda_modules, port_file
from codegen.syntax.port_names import CALLS, STREAM_TYPE, Names, ported
from codegen.syntax.port_twins import Twins
from codegen.syntax.source import Source

NAMES = Names(
    core="candle_core",
    driver=frozenset({"RocmSlice", "RocmStream", "DevicePtr", "LaunchConfig"}),
    lacking={"cublas_handle": "with_rocblas does the work"},
    enums=frozenset({"Device", "Storage"}),
)
ALONE = 'all(feature = "rocm", not(feature = "cuda"))'


def source_of(text: str) -> Source:
    return Source.parse("lib.rs", textwrap.dedent(text).encode())


def port(text: str, *, alone: bool = False, **twin_files: str) -> tuple[str, list[str]]:
    """The ported text, and `outcome: note` of each place; what is made parses."""
    twins = Twins.of(source_of(text), NAMES, {}, alone=alone)
    made = port_file(twins, twin_files)
    after = apply_edits(twins.source.text, made.edits)
    assert Source.parse("lib.rs", after.encode()).error_ranges() == ()
    return after, [f"{each.outcome}: {each.note}".removesuffix(": ") for each in made.outcomes]


def check(before: str, after: str, *outcomes: str) -> None:
    text, found = port(before)
    assert text == textwrap.dedent(after)
    assert found == list(outcomes)


def twin(text: str, **kernels: str) -> Twins:
    return Twins.of(source_of(text), NAMES, {name: f"kernels/{path}" for name, path in kernels.items()}, alone=False)


# --- names -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("candle_core::cuda_backend::cudarc::driver::DevicePtr", "candle_core::rocm::driver::DevicePtr"),
        ("candle_core::cuda::cudarc::nccl::Comm", "candle_core::rocm::rccl::Comm"),
        ("candle_flash_attn::flash_attn(q)", "candle_core::rocm::flash_attn::flash_attn(q)"),
        ("storage.as_cuda_slice::<f32>()?", "storage.as_rocm_slice::<f32>()?"),
        ("dev.cuda_stream().cu_stream()", "dev.rocm_stream().hip_stream()"),
        ("cudarc::driver::sys::CUstream", "*mut core::ffi::c_void"),
        ("stream: CUstream", "stream: hipStream_t"),
        ("builder_arg!(builder, n)", "rocm_builder_arg!(builder, n)"),
        ('include_str!("scale.ptx")', 'include_str!("scale.hip")'),
        ('bail!("no CUDA device")', 'bail!("no ROCm device")'),
        (
            "Error::Cuda(Box::new(e))",
            "Error::Rocm((Box::new(e) as Box<dyn std::error::Error + Send + Sync>).into())",
        ),
    ],
)
def test_names(before: str, after: str) -> None:
    assert ported(before, NAMES) == after


def test_a_crate_of_its_own_is_candles_module() -> None:
    assert ported("cudarc::driver::DevicePtr", NAMES) == "candle_core::rocm::driver::DevicePtr"
    assert ported("cudarc::driver::DevicePtr", NAMES, imported=True) == "rocm::driver::DevicePtr"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "use candle_core::cuda::cudarc::{self, driver::{CudaSlice, DevicePtr}};\n",
            "use candle_core::rocm;\nuse candle_core::rocm::driver::{DevicePtr, RocmSlice};\n",
        ),
        (
            "pub use candle_core::cuda_backend::{cudarc::driver::CudaSlice as Memory, CudaDType};\n",
            "pub use candle_core::rocm::driver::RocmSlice as Memory;\npub use candle_core::rocm::RocmDType;\n",
        ),
        (
            "use cudarc::driver::sys::{CUdeviceptr, CUstream};\n",
            f"{STREAM_TYPE}\nuse candle_core::rocm::driver::hipDeviceptr_t;\n",
        ),
        ("use candle_core::cuda_backend::WrapErr;\n", "use candle_core::rocm::WrapErr;\n"),
    ],
)
def test_imports(before: str, after: str) -> None:
    made = twin(before).whole()
    assert (made.text, made.left) == (after, ())


@pytest.mark.parametrize("name", CALLS)
def test_no_method_is_said_to_lack_that_is_there(name: str) -> None:
    backend = repository_root() / "templates/candle"
    there = [path for path in backend.rglob("*.rs") if re.search(rf"\bfn {name}\b", path.read_text(encoding="utf-8"))]
    assert there == []


# --- items -------------------------------------------------------------------------------------------------------


def test_an_item_that_names_cuda_gets_a_twin() -> None:
    check(
        """\
        #[cfg(feature = "cuda")]
        fn cuda_len(s: &CudaStorage) -> usize {
            s.as_cuda_slice::<f32>().len()
        }
        """,
        """\
        #[cfg(feature = "cuda")]
        fn cuda_len(s: &CudaStorage) -> usize {
            s.as_cuda_slice::<f32>().len()
        }
        #[cfg(feature = "rocm")]
        fn rocm_len(s: &RocmStorage) -> usize {
            s.as_rocm_slice::<f32>().len()
        }
        """,
        "mirrored",
    )


def test_an_item_that_names_nothing_of_cuda_is_there_for_both() -> None:
    check(
        """\
        #[cfg(all(feature = "cuda", unix))]
        fn attend() {}
        #[cfg(not(feature = "cuda"))]
        fn attend() {}
        #[cfg(any(feature = "cuda", feature = "metal"))]
        fn name(d: &Device) -> bool {
            d.is_cuda()
        }
        #[cfg_attr(not(feature = "cuda"), allow(dead_code))]
        fn plain() {}
        """,
        """\
        #[cfg(all(any(feature = "cuda", feature = "rocm"), unix))]
        fn attend() {}
        #[cfg(not(any(feature = "cuda", feature = "rocm")))]
        fn attend() {}
        #[cfg(any(any(feature = "cuda", feature = "rocm"), feature = "metal"))]
        fn name(d: &Device) -> bool {
            d.is_cuda() || d.is_rocm()
        }
        #[cfg_attr(not(any(feature = "cuda", feature = "rocm")), allow(dead_code))]
        fn plain() {}
        """,
        "widened",
        "widened",
        "widened",
        "widened",
        "widened",
    )


def test_a_twin_of_the_same_name_is_there_where_cuda_is_off() -> None:
    text = """\
        #[cfg(feature = "cuda")]
        fn attend(s: &CudaStorage) {}
        """
    twins = Twins.of(source_of(text), NAMES, {}, alone=False)
    assert port_file(twins, {}).clash == "attend"
    after, _ = port(text, alone=True)
    assert f"#[cfg({ALONE})]\nfn attend(s: &RocmStorage) {{}}\n" in after


def test_what_is_there_without_the_feature_under_cudas_name_gets_a_twin_of_the_opposite() -> None:
    after, outcomes = port('#[cfg(not(feature = "cuda"))]\nfn cuda_is_there() -> bool {\n    false\n}\n')
    assert '#[cfg(not(feature = "rocm"))]\nfn rocm_is_there() -> bool {' in after
    assert outcomes == ["mirrored"]


@pytest.mark.parametrize(
    ("before", "made"),
    [
        ("if d.is_cuda() {\n        fast();\n    }", "if d.is_cuda() || d.is_rocm() {"),
        ("if d.is_cuda() {\n        cuda();\n    }", "} else if d.is_rocm() {\n        rocm();\n    }"),
        (
            "if let Device::Cuda(c) = d {\n        go(c);\n    }",
            "} else if let Device::Rocm(c) = d {\n        go(c);\n    }",
        ),
        ('let on = cfg!(feature = "cuda");', 'cfg!(feature = "cuda") || cfg!(feature = "rocm")'),
        ("match d {\n        Device::Cuda(_) => 1,\n        _ => 2,\n    };", "Device::Rocm(_) => 1,"),
        ('#[cfg(feature = "cuda")]\n    go_cuda();', '#[cfg(feature = "rocm")]\n    go_rocm();'),
    ],
)
def test_conditions_and_statements(before: str, made: str) -> None:
    after, outcomes = port(f"fn f(d: &Device) {{\n    {before}\n}}\n")
    assert made in after
    assert outcomes in (["mirrored"], ["widened"])


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        (
            "fn f(s: &Storage) {\n    let Storage::Cuda(s) = s else { panic!() };\n}\n",
            "by hand: what follows is for CUDA's storage or device only",
        ),
        ("fn f<T: CudaDType>() {}\n", "by hand: it names CUDA where nothing asks which backend is there"),
        ("pub use candle_core::CudaDevice;\n", "by hand: it makes CUDA's names public"),
        (
            '#![cfg(feature = "cuda")]\nfn f() {}\n',
            "by hand: everything behind it is there for CUDA alone: make a copy of the file for ROCm",
        ),
        ('fn f() {\n    println!("cuda");\n}\n', "left: a text"),
        (
            "fn f() {\n    let d = Device::new_cuda(0);\n}\n",
            "by hand: ROCm's is `new_rocm`; a person has to say where it is to be called",
        ),
    ],
)
def test_what_is_left_to_a_person(text: str, outcome: str) -> None:
    after, outcomes = port(text)
    assert after == text
    assert outcomes == [outcome]


def test_types_called_after_cuda_get_a_twin_whole() -> None:
    text = """\
        /// Where to compute.
        #[derive(Clone)]
        pub struct CudaPlace {
            index: usize,
        }

        impl CudaPlace {
            pub fn cuda(&self) -> usize {
                self.index
            }
        }

        impl From<CudaPlace> for Place {
            fn from(place: CudaPlace) -> Self {
                Place::Cuda(place)
            }
        }
        """
    after, outcomes = port(text)
    for made in (
        "/// Where to compute.\n#[derive(Clone)]\npub struct RocmPlace {\n",
        "impl RocmPlace {\n    pub fn rocm(&self)",
        "impl From<RocmPlace> for Place {\n    fn from(place: RocmPlace) -> Self {\n        Place::Rocm(place)\n",
    ):
        assert made in after
    assert outcomes == ["mirrored", "mirrored", "mirrored"]


def test_what_has_been_ported_by_hand_stays() -> None:
    text = """\
        #[cfg(feature = "cuda")]
        fn cuda_len(s: &CudaStorage) {}
        #[cfg(feature = "rocm")]
        fn rocm_len(s: &RocmStorage) {}

        fn f(d: &Device) -> u8 {
            match d {
                Device::Cuda(_) => 1,
                Device::Rocm(_) => 2,
                _ => 3,
            }
        }
        """
    after, outcomes = port(text)
    assert after == textwrap.dedent(text)
    assert outcomes == ["left: ROCm's is there already", "left: ROCm is named there already"]


def test_modules() -> None:
    text = """\
        #[cfg(feature = "cuda")]
        mod cuda;
        #[cfg(feature = "cuda")]
        mod ffi;
        #[cfg(feature = "cuda")]
        mod sizes;
        mod plain;
        """
    assert [each.name for each in cuda_modules(source_of(text))] == ["cuda", "ffi", "sizes"]
    after, outcomes = port(text, cuda="", ffi="ffi_rocm.rs")
    assert '#[cfg(feature = "rocm")]\nmod rocm;\n' in after
    assert '#[cfg(feature = "rocm")]\n#[path = "ffi_rocm.rs"]\nmod ffi;\n' in after
    assert '#[cfg(any(feature = "cuda", feature = "rocm"))]\nmod sizes;\n' in after
    assert outcomes == ["mirrored", "mirrored", "widened"]


# --- what has no counterpart -------------------------------------------------------------------------------------


def test_a_function_says_what_it_lacks() -> None:
    made = twin(
        """\
        impl Op {
            /// Multiplies.
            pub fn gemm(&self, dev: &CudaDevice) -> Result<()> {
                let handle = dev.cublas_handle();
                Ok(())
            }
        }
        """
    ).whole()
    assert made.text == textwrap.dedent(
        """\
        #![allow(dead_code, unused_imports)]
        impl Op {
            /// Multiplies.
            #[allow(unused_variables)]
            pub fn gemm(&self, dev: &RocmDevice) -> Result<()> {
                unimplemented!("gemm has no ROCm form: cublas_handle: with_rocblas does the work")
            }
        }
        """
    )
    assert [(each.name, each.stub) for each in made.left] == [("gemm", True)]


def test_a_statement_that_lacks_something_is_left_whole() -> None:
    text = """\
        fn trim() {
            #[cfg(feature = "cuda")]
            {
                let status = cuMemPoolTrimTo(cuda_pool(), 0);
            }
        }
        """
    after, outcomes = port(text)
    assert after == textwrap.dedent(text)
    assert outcomes == ["by hand: cuMemPoolTrimTo: it is of CUDA's libraries in C"]


def test_a_macro_that_lacks_something_is_left_out_whole() -> None:
    made = twin("thread_local! { static H: X = cublas_handle(); }\nfn f() {}\n").whole()
    assert Source.parse("twin.rs", made.text.encode()).error_ranges() == ()
    assert "cublas" not in made.text


def test_a_type_without_a_counterpart_has_no_values() -> None:
    made = twin(
        """\
        use candle_core::cuda_backend::cudarc::cublaslt::{result, sys, CublasError};

        #[derive(Debug)]
        pub struct Handle {
            inner: sys::cublasLtHandle_t,
            all: Vec<sys::Layout<u8>>,
        }

        impl Drop for Handle {
            fn drop(&mut self) {
                result::destroy(self.inner);
            }
        }

        pub fn make() -> Result<Handle, CublasError> {
            Handle::new()
        }

        pub fn raw() -> sys::cublasLtHandle_t {
            todo!()
        }

        pub trait Raw {
            fn raw(&self) -> sys::cublasLtHandle_t;
        }
        """
    ).whole()
    assert "use " not in made.text
    assert "    inner: core::convert::Infallible,\n    all: Vec<core::convert::Infallible>,\n" in made.text
    assert "pub fn make() -> Result<Handle, core::convert::Infallible> {\n    unimplemented!(" in made.text
    assert "pub fn raw() -> core::convert::Infallible {\n    unimplemented!(" in made.text
    assert "    fn raw(&self) -> core::convert::Infallible;\n" in made.text
    assert "fn drop(&mut self) {\n        unimplemented!(" in made.text
    assert Source.parse("twin.rs", made.text.encode()).error_ranges() == ()


def test_cudas_code_and_its_twin_know_each_others_variant() -> None:
    made = twin(
        """\
        fn id(device: &Device) -> usize {
            match device {
                Device::Cpu => 0,
                Device::Cuda(c) => c.cublas_handle(),
                Device::Metal(_) => 2,
            }
        }

        fn same(device: &Device) -> bool {
            match device {
                Device::Cpu => false,
                Device::Cuda(c) => c.cuda_stream().is_null(),
                Device::Metal(_) => false,
            }
        }
        """
    ).whole()
    assert [edit.text.strip() for edit in made.taught] == ["Device::Rocm(_) => 2,", "Device::Rocm(_) => false,"]
    assert "Device::Rocm(c) => c.rocm_stream().is_null(),\n" in made.text
    assert "Device::Cuda(_) => false,\n" in made.text
    (left,) = made.left
    assert (left.name, source_of("x" * 1000).line_of(left.start)) == ("id", 1)


def test_ptx_becomes_the_source_that_it_came_from() -> None:
    text = """\
        const SCALE: &str = include_str!(concat!(env!("OUT_DIR"), "/scale.ptx"));
        mod ptx {
            include!(concat!(env!("OUT_DIR"), "/ptx.rs"));
        }
        """
    made = twin(text, scale="scale.hip").whole().text
    source = 'include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/kernels/scale.hip"))'
    assert f"const SCALE: &str = {source};\n" in made
    assert f"    pub const SCALE: &str = {source};\n}}" in made


# --- build scripts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "guard"),
    [
        ("fn main() {\n    bindgen_cuda::Builder::default();\n}\n", 2, "return;"),
        ('fn main() -> anyhow::Result<()> {\n    run("nvcc")\n}\n', 2, "return Ok(());"),
        ('#[cfg(feature = "cuda")]\nfn main() {\n    nvcc();\n}\n', 3, None),
        ("fn main() -> ExitCode {\n    nvcc()\n}\n", 2, None),
        ("fn main() {\n    println!();\n}\n", None, None),
    ],
)
def test_build_scripts(text: str, line: int | None, guard: str | None) -> None:
    source = source_of(text)
    assert names_nvcc(source) == line
    if line is None:
        return
    edit = guarded_build(source)
    assert (edit is None) == (guard is None)
    if edit is not None and guard is not None:
        after = apply_edits(source.text, [edit])
        assert f".is_none() {{\n        {guard}\n    }}\n" in after
        assert Source.parse("build.rs", after.encode()).error_ranges() == ()
