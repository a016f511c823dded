"""What is rendered from Candle's traits."""

from __future__ import annotations

import re
import shutil
from itertools import product
from pathlib import Path

import pytest
from some import some

from codegen.errors import ExitCode, UnknownSite
from codegen.paths import templates_dir
from codegen.render.backend import (
    BACKEND,
    DUMMY_CUDA,
    BackendContext,
    FileContext,
    Header,
    backend_context,
)
from codegen.render.element_types import DTYPE, ElementType
from codegen.render.environment import render, undeclared
from codegen.render.new_file import new_file
from codegen.render.rustfmt import format_rust
from codegen.spec.backend_traits import BACKEND_TRAITS, parse_backend_traits
from codegen.spec.folders import is_plain
from codegen.spec.hip_api import parse_hip_api
from codegen.spec.kinds import Difference, Runtime
from codegen.spec.loader import load_specs
from codegen.spec.model import CpuDifference

REPOSITORY = Path(__file__).parents[3]
LIBRARY = "rust/rocm_backend/api/library.rs.j2"
BACKEND_SPEC = parse_backend_traits((REPOSITORY / BACKEND_TRAITS).read_bytes())
OPS_PHASE = BACKEND_SPEC.ops_phase
HIP_API = parse_hip_api((REPOSITORY / "specs/hip_api.yaml").read_bytes()).api

ALL_NAMES = frozenset(function.name for function in HIP_API.functions if function.phases)
"""Every C function that some phase calls."""

TRAITS = """\
use crate::op::UnaryOpT;
use crate::{DType, Layout, Result, Shape};

pub trait BackendStorage: Sized {
    type Device: BackendDevice;
    fn try_clone(&self, _: &Layout) -> Result<Self>;
    fn dtype(&self) -> DType;
    fn device(&self) -> &Self::Device;
    fn affine(&self, _: &Layout, _: f64, _: f64) -> Result<Self>;
    fn unary_impl<B: UnaryOpT>(&self, _: &Layout) -> Result<Self>;
    fn convolve(&self, _l: &Layout, _kernel: &Self, _kernel_l: &Layout, _params: &crate::conv::Params) -> Result<Self>;
    fn inherited(&self) -> usize {
        0
    }
    // more storage
}

pub trait BackendDevice: Sized {
    type Storage: BackendStorage;
    fn new(_: usize) -> Result<Self>;
    fn location(&self) -> crate::DeviceLocation;
    fn same_device(&self, _: &Self) -> bool;
    unsafe fn alloc_uninit(&self, _: &Shape, _: DType) -> Result<Self::Storage>;
    fn set_seed(&self, _: u64) -> Result<()>;
    fn synchronize(&self) -> Result<()>;
    // more device
}
"""

DUMMY = """\
use crate::{Error, Result};
pub struct CudaDevice;
pub struct CudaStorage;
impl CudaStorage {
    pub fn transfer_to_device(&self, _dst: &CudaDevice) -> Result<Self> { todo!() }
    // more storage
}
impl CudaDevice {
    pub fn new_with_stream(_: usize) -> Result<Self> { todo!() }
    pub fn id(&self) -> DeviceId { todo!() }
    // more device
}
"""

DTYPES = b"""\
pub enum DType {
    // Unsigned 8 bits integer.
    U8,
    U32,
    I64,
    BF16,
    F32,
    F64,
    /// 6-bit float.
    F6E2M3,
    F6E3M2,
    F4,
    F8E8M0,
    F8E4M3,
}

pub trait IntDType: WithDType + num_traits::Bounded {}
"""
KERNEL_TYPES = ("f64", "f32", "i64", "u32", "u8", "bf16", "f8e4m3")

DECLARES = {
    "rust/rocm_backend/api.rs.j2": ("amdhip64", "hiprtc", "MIOpen", "rccl", "rocblas", "rocrand"),
    "rust/rocm_backend/api/library.rs.j2": ("rocblas",),
}
"""What the files of a template declare here."""
ALL = [
    (phase.phase, file.template)
    for phase in load_specs().phases
    for file in phase.files
    if file.template and file.path.endswith(".rs")
]
"""Sources of new Rust files: templates and plain ones."""
TEMPLATES = [(phase, source) for phase, source in ALL if not is_plain(source)]
DUMMY_TRAITS = "candle/1-core/candle-core/src/dummy_rocm_backend/traits.rs.j2"
BUILD = "candle/0-setup/candle-core/build.rs"


def context(traits: str = TRAITS, dummy: str = DUMMY, dtypes: bytes = DTYPES) -> BackendContext:
    files = {BACKEND: traits.encode(), DUMMY_CUDA: dummy.encode(), DTYPE: dtypes}
    return backend_context(files.__getitem__, HIP_API, KERNEL_TYPES, BACKEND_SPEC)


def rendered(
    template: str,
    backend: BackendContext | None = None,
    phase: int = 1,
    *,
    runtime: Runtime = Runtime.ROCM_RS,
    declares: tuple[str, ...] | None = None,
    names: frozenset[str] = ALL_NAMES,
) -> str:
    header = Header(phase, template, "specs/phases/1-core.yaml")
    declares = DECLARES.get(template, ()) if declares is None else declares
    backend = backend or context()
    return new_file(template, FileContext.of(header, backend, runtime, declares=declares, names=names))


def source_of(end: str) -> str:
    """The one source of a new file that ends so."""
    (source,) = {source for _, source in ALL if source.endswith(f"/{end}")}
    return source


def body(text: str, name: str) -> str:
    """The lines of a method's body."""
    match = re.search(rf"fn {name}\b.*?\{{\n(.*?)\n    \}}", text, re.DOTALL)
    assert match, f"no fn {name} in\n{text}"
    return match[1].strip()


# --- all templates ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("phase", "template"), TEMPLATES)
def test_templates_ask_only_for_what_their_context_has(phase: int, template: str) -> None:
    assert undeclared(template) <= set(FileContext.__dataclass_fields__)


def test_most_sources_are_plain_rust() -> None:
    templates = {source for _, source in TEMPLATES}
    assert len({source for _, source in ALL} - templates) > 110
    assert len(templates) <= 30


@pytest.mark.parametrize("template", sorted({source for _, source in TEMPLATES}))
def test_a_template_is_short_and_knows_no_phase(template: str) -> None:
    """Phases differ by files (docs/decisions/0019-plain-rust.md)."""
    text = (templates_dir() / template).read_text(encoding="utf-8")
    assert len(text.splitlines()) < 150
    assert "phase" not in re.sub(r"\bops_phase\b", "", "".join(re.findall(r"{%.*?%}|«.*?»", text)))


@pytest.mark.parametrize(("phase", "template"), ALL)
def test_a_file_says_who_made_it(phase: int, template: str) -> None:
    first, second = rendered(template, phase=phase).splitlines()[:2]
    assert first == (
        f"// Generated by `candle-rocm apply --phase {phase}` from templates/{template} (specs/phases/1-core.yaml)."
    )
    assert second.startswith("// Change those and apply again")


@pytest.mark.parametrize(("phase", "template"), ALL)
def test_rendering_is_deterministic(phase: int, template: str) -> None:
    assert rendered(template, phase=phase) == rendered(template, context(), phase)


@pytest.mark.parametrize(("phase", "template"), ALL)
def test_files_end_with_one_newline_and_have_no_stray_blanks(phase: int, template: str) -> None:
    text = rendered(template, phase=phase)
    assert text.endswith(("}\n", ";\n")) or all(line.startswith("//") for line in text.splitlines())
    assert "\n\n\n" not in text
    assert not [line for line in text.splitlines() if line != line.rstrip()]


@pytest.mark.skipif(shutil.which("rustfmt") is None, reason="SKIPPED: rustfmt is not installed")
def test_rustfmt_changes_no_plain_source() -> None:
    texts = {f"{phase}/{source}": rendered(source, phase=phase) for phase, source in ALL if is_plain(source)}
    formatted = format_rust(texts)
    assert len(texts) > 100
    assert [name for name in texts if formatted[name] != texts[name]] == []


@pytest.mark.skipif(shutil.which("rustfmt") is None, reason="SKIPPED: rustfmt is not installed")
def test_rustfmt_lays_out_what_templates_make() -> None:
    """It moves words to other lines and sorts names; what it has made, it leaves alone."""
    texts = {f"{phase}/{template}": rendered(template, phase=phase) for phase, template in TEMPLATES}
    for runtime, library, names in product(Runtime, HIP_API.libraries, (ALL_NAMES, frozenset({"hipSuccess"}))):
        text = rendered(LIBRARY, runtime=runtime, declares=(library.name,), names=names)
        texts[f"{runtime}/{len(names)}/{library.name}"] = text
    formatted = format_rust(texts)
    assert [name for name in texts if words(formatted[name]) != words(texts[name])] == []
    assert format_rust(formatted) == formatted


def words(text: str) -> list[str]:
    return sorted(re.findall(r"\w+", text))


@pytest.mark.parametrize(("phase", "template"), ALL)
def test_unsafe_blocks_say_why(phase: int, template: str) -> None:
    lines = rendered(template, phase=phase).splitlines()
    for number, line in some(enumerate(lines)):
        if re.search(r"\bunsafe (\{|impl)", line):
            before = "\n".join(lines[max(0, number - 6) : number])
            assert "// SAFETY:" in before, f"{template}:{number + 1}: {line}"


# --- the traits ------------------------------------------------------------------------------------------------------


def test_written_methods_have_bodies() -> None:
    text = rendered("rust/rocm_backend/backend_device.rs.j2")
    assert body(text, "new") == "Self::new(ordinal)"
    assert body(text, "same_device") == "self == rhs"
    assert "Rocm {" in body(text, "location")
    assert "fn set_seed(&self, seed: u64) -> Result<()> {" in text


def test_every_table_entry_has_a_branch_in_its_template() -> None:
    for trait, file in (("BackendStorage", "backend_storage"), ("BackendDevice", "backend_device")):
        text = (templates_dir() / f"rust/rocm_backend/{file}.rs.j2").read_text(encoding="utf-8")
        assert set(re.findall(r'elif method\.name == "(\w+)"', text)) == set(BACKEND_SPEC.traits[trait].written)


def test_other_methods_name_operation_and_phase() -> None:
    text = rendered("rust/rocm_backend/backend_storage.rs.j2")
    assert body(text, "affine") == f'super::not_generated("affine", {OPS_PHASE})'
    assert "fn affine(&self, _: &Layout, _: f64, _: f64) -> Result<Self> {" in text
    assert "unsafe fn alloc_uninit(&self, _: &Shape, _: DType) -> Result<Self::Storage> {" in rendered(
        "rust/rocm_backend/backend_device.rs.j2"
    )


OPERATIONS = """\
    fn copy2d(&self, _: &mut Self, _: usize, _: usize, _: usize, _: usize, _: usize, _: usize) -> Result<()>;
    fn scatter_set(&mut self, _: &Layout, _: &Self, _: &Layout, _: &Self, _: &Layout, _: usize) -> Result<()>;
    fn upsample_bilinear2d(&self, _: &Layout, _: usize, _: usize, _: bool, _: S, _: S) -> Result<Self>;
"""


def test_operations_are_calls_from_their_phase_on() -> None:
    backend = context(TRAITS.replace("    // more storage\n", OPERATIONS))
    storage = rendered("rust/rocm_backend/backend_storage.rs.j2", backend, OPS_PHASE)
    assert body(storage, "affine") == "ops::affine(self, layout, mul, add)"
    assert body(storage, "unary_impl") == "ops::unary_impl::<B>(self, layout)"
    assert body(storage, "scatter_set") == "ops::scatter_set(self, layout, ids, ids_layout, src, src_layout, dim)"
    device = rendered("rust/rocm_backend/backend_device.rs.j2", phase=OPS_PHASE)
    assert body(device, "alloc_uninit").splitlines() == [
        "// SAFETY: the caller's promise.",
        "        unsafe { ops::alloc_uninit(self, shape, dtype) }",
    ]


@pytest.mark.skipif(shutil.which("rustfmt") is None, reason="SKIPPED: rustfmt is not installed")
def test_rustfmt_breaks_long_calls() -> None:
    backend = context(TRAITS.replace("    // more storage\n", OPERATIONS))
    (text,) = format_rust({"": rendered("rust/rocm_backend/backend_storage.rs.j2", backend, OPS_PHASE)}).values()
    assert "\n            self, dst, rows, columns, src_stride, dst_stride, src_offset, dst_offset,\n" in text
    assert "\n            align_corners,\n            scale_height,\n" in text


def test_parameters_without_use_lose_their_names() -> None:
    assert "_kernel" not in rendered("rust/rocm_backend/backend_storage.rs.j2")


def test_methods_with_a_default_body_are_inherited() -> None:
    assert "inherited" not in rendered("rust/rocm_backend/backend_storage.rs.j2")


def test_a_method_that_the_release_lacks_is_left_out() -> None:
    assert "get_current_seed" not in rendered("rust/rocm_backend/backend_device.rs.j2")
    newer = TRAITS.replace("    // more device", "    fn get_current_seed(&self) -> Result<u64>;")
    text = rendered("rust/rocm_backend/backend_device.rs.j2", context(newer))
    assert body(text, "get_current_seed") == "Ok(self.seed())"


def test_a_method_of_a_newer_release_gets_a_stand_in() -> None:
    newer = TRAITS.replace(
        "    // more storage", '    #[cfg(feature = "x")]\n    fn fft(&self, _: usize) -> Result<Self>;'
    )
    text = rendered("rust/rocm_backend/backend_storage.rs.j2", context(newer))
    assert '    #[cfg(feature = "x")]\n    fn fft(&self, _: usize) -> Result<Self> {' in text
    assert body(text, "fft") == f'super::not_generated("fft", {OPS_PHASE})'


def test_imports_follow_the_signatures() -> None:
    newer = TRAITS.replace("    // more storage", "    fn fft(&self, _: Window) -> Result<Self>;").replace(
        "use crate::op::UnaryOpT;", "use crate::op::{UnaryOpT, Window};"
    )
    assert "use crate::op::UnaryOpT;" in rendered("rust/rocm_backend/backend_storage.rs.j2")
    assert "use crate::op::{UnaryOpT, Window};" in rendered("rust/rocm_backend/backend_storage.rs.j2", context(newer))


def refused(traits: str = TRAITS, dummy: str = DUMMY) -> str:
    with pytest.raises(UnknownSite) as caught:
        context(traits, dummy)
    assert caught.value.exit_code == ExitCode.UNKNOWN_SITE
    return str(caught.value)


def test_a_method_that_cannot_fail_and_has_no_body_is_refused() -> None:
    message = refused(
        TRAITS.replace("    // more storage", "    fn rank(&self) -> usize;\n    fn name(&self) -> String;")
    )
    assert f"{BACKEND}:15:5: no template for BackendStorage::rank" in message
    assert f"{BACKEND}:16:5: no template for BackendStorage::name" in message
    assert "fn rank(&self) -> usize;" in message
    assert "specs/backend.yaml" in message


def test_a_written_method_with_other_parameters_is_refused() -> None:
    message = refused(TRAITS.replace("fn set_seed(&self, _: u64)", "fn set_seed(&self, _: u64, _: u64)"))
    assert "the template for set_seed was written for 1 parameters" in message


def test_an_unknown_associated_type_is_refused() -> None:
    message = refused(TRAITS.replace("type Device: BackendDevice;", "type Device: BackendDevice;\n    type Event;"))
    assert f"{BACKEND}:6:5: no type for BackendStorage::Event" in message


def test_a_renamed_trait_is_refused() -> None:
    assert f"{BACKEND}:1:1: no trait BackendDevice" in refused(TRAITS.replace("trait BackendDevice", "trait Backend2"))


# --- the dummy -------------------------------------------------------------------------------------------------------


def test_the_dummy_answers_every_method() -> None:
    text = rendered(DUMMY_TRAITS)
    assert body(text, "affine") == "Err(Error::NotCompiledWithRocmSupport)"
    assert body(text, "location") == "fail!()"
    assert "fn set_seed(&self, _: u64) -> Result<()> {" in text


SHARED = ("rocm_error", "memory_stats", "driver", "map", "slice", "storage", "storage_slice")
WRITTEN_TWICE = ("device", "error", "event", "stream", "readback")
STANDINS = ("types", "event", "stream")


def inherent(text: str) -> set[str]:
    """Names of the public functions and types of a file."""
    return set(re.findall(r"pub (?:fn|struct|enum) (\w+)", text))


def test_the_dummy_has_the_real_surface() -> None:
    real = set.union(*(inherent(rendered(source_of(f"rocm_backend/{file}.rs"))) for file in WRITTEN_TWICE))
    dummy = set.union(*(inherent(rendered(source_of(f"dummy_rocm_backend/{file}.rs"))) for file in STANDINS))
    assert real - dummy == set()
    assert dummy - real == set()


def test_types_that_programs_look_into_are_the_same_in_both_roles() -> None:
    roots = [source for _, source in ALL if source.endswith("/dummy_rocm_backend.rs")]
    assert len(roots) == 4
    for root, name in product(roots, SHARED):
        assert re.search(rf'#\[path = "rocm_backend/{name}.rs"\]\n(?:pub )?mod {name};\n', rendered(root)), name


def test_the_known_inherent_methods_are_written() -> None:
    for trait, file in (("BackendStorage", "storage"), ("BackendDevice", "device")):
        assert set(BACKEND_SPEC.traits[trait].inherent) <= inherent(rendered(source_of(f"rocm_backend/{file}.rs")))


NEW_INHERENT = DUMMY.replace(
    "    // more device", "    pub fn twin(&self, _: &CudaStorage) -> Result<Self> { todo!() }"
)


def test_an_inherent_method_of_a_newer_release_gets_a_stand_in() -> None:
    real = rendered("rust/rocm_backend/backend_device.rs.j2", context(dummy=NEW_INHERENT))
    assert "pub fn twin(&self, _: &RocmStorage) -> Result<Self> {" in real
    assert body(real, "twin") == f'super::not_generated("twin", {OPS_PHASE})'
    dummy = rendered(DUMMY_TRAITS, context(dummy=NEW_INHERENT))
    assert body(dummy, "twin") == "Err(Error::NotCompiledWithRocmSupport)"


@pytest.mark.parametrize(
    "method",
    ["pub fn order(&self) -> usize { 0 }", "pub fn stream(&self) -> Result<CudaStream> { todo!() }"],
)
def test_an_inherent_method_without_a_stand_in_is_refused(method: str) -> None:
    message = refused(dummy=DUMMY.replace("    // more storage", f"    {method}"))
    assert f"{DUMMY_CUDA}:6:5: no template for CudaStorage::" in message


# --- stand-ins of a build without ROCm -------------------------------------------------------------------------------


def test_the_stand_ins_define_every_function_of_the_table() -> None:
    text = rendered("candle/0-setup/candle-core/src/rocm_absent.rs.j2", phase=0)
    names = [function.name for function in context().hip.functions]
    assert re.findall(r'#\[no_mangle\]\nunsafe extern "C" fn (\w+)', text) == names
    assert re.findall(r"^    (hip\w+)$", text, re.MULTILINE) == names


def test_the_build_script_always_declares_its_cfg() -> None:
    text = rendered(BUILD, phase=0)
    assert text.index("rustc-check-cfg=cfg(candle_rocm_absent, ") < text.index('var_os("CARGO_FEATURE_ROCM")')


def test_every_library_may_be_absent() -> None:
    text = rendered(source_of("rocm_backend/installation_linked.rs"))
    named = re.findall(r'^    \("(\w+)", cfg!\(candle_rocm_absent = "(\w+)"\)\),$', text, re.MULTILINE)
    assert named == [(library.name, library.name) for library in context().hip.libraries]


# --- element types ---------------------------------------------------------------------------------------------------


def test_element_types_come_in_the_order_of_the_release() -> None:
    file = FileContext.of(Header(1, "t", "s"), context())
    assert [element.name for element in file.dtypes] == ["u8", "u32", "i64", "bf16", "f32", "f64", "f8e4m3"]
    assert file.dtypes[0] == ElementType("U8", "u8", "u8")
    assert file.dtypes[3] == ElementType("BF16", "bf16", "half::bf16")
    assert file.dtypes[-1] == ElementType("F8E4M3", "f8e4m3", "float8::F8E4M3")


def test_a_type_that_no_kernel_knows_is_storage_only() -> None:
    assert FileContext.of(Header(1, "t", "s"), context()).storage_only_dtypes == ("F6E2M3", "F6E3M2", "F4", "F8E8M0")


def test_the_largest_index_is_none_where_index_types_are_bounded() -> None:
    assert FileContext.of(Header(1, "t", "s"), context()).unused_index
    unbounded = context(dtypes=DTYPES.replace(b" + num_traits::Bounded", b""))
    assert not FileContext.of(Header(1, "t", "s"), unbounded).unused_index


def test_the_build_script_links_optional_libraries_only_with_their_features() -> None:
    text = rendered(BUILD, phase=0)
    linked = dict(re.findall(r'^    \("(\w+)", "(\w+)"\),$', text, re.MULTILINE))
    assert list(linked) == [library.name for library in context().hip.libraries]
    assert linked == {
        "amdhip64": "CARGO_FEATURE_ROCM",
        "hiprtc": "CARGO_FEATURE_ROCM",
        "MIOpen": "CARGO_FEATURE_ROCM_MIOPEN",
        "rccl": "CARGO_FEATURE_ROCM_RCCL",
        "rocblas": "CARGO_FEATURE_ROCM",
        "rocrand": "CARGO_FEATURE_ROCM_ROCRAND",
    }


# --- what is C -------------------------------------------------------------------------------------------------------


def test_optional_libraries_are_modules_of_their_features() -> None:
    text = rendered("rust/rocm_backend/api.rs.j2")
    gated = re.findall(r'#\[cfg\(feature = "([\w-]+)"\)\]\n(.*)', text)
    assert gated == [
        ("rocm-miopen", "mod miopen;"),
        ("rocm-rccl", "mod rccl;"),
        ("rocm-rocrand", "mod rocrand;"),
        ("rocm-miopen", "pub use miopen::*;"),
        ("rocm-rccl", "pub use rccl::*;"),
        ("rocm-rocrand", "pub use rocrand::*;"),
    ]
    assert "\nmod functions;\n" in text


def test_rocm_rs_alone_needs_no_functions_of_ours() -> None:
    assert "mod functions" not in rendered("rust/rocm_backend/api.rs.j2", declares=("amdhip64",))
    assert "mod functions;" in rendered("rust/rocm_backend/api.rs.j2", declares=("amdhip64",), runtime=Runtime.DYNAMIC)


def test_both_runtimes_have_the_same_functions() -> None:
    linked = rendered(LIBRARY, declares=("amdhip64",))
    dynamic = rendered(LIBRARY, declares=("amdhip64",), runtime=Runtime.DYNAMIC)
    called = {function.name for function in context().hip.functions}
    assert set(re.findall(r"\bhip[A-Z]\w*", linked)) & called == called
    assert set(re.findall(r"^    fn (hip\w+)", dynamic, re.MULTILINE)) == called
    assert "rocm_rs" not in dynamic


def test_a_library_of_ours_is_the_same_in_both_runtimes_but_for_the_files() -> None:
    linked = rendered(LIBRARY).splitlines()
    dynamic = rendered(LIBRARY, runtime=Runtime.DYNAMIC).splitlines()
    assert set(linked) <= set(dynamic)
    assert [line for line in dynamic if line not in linked] == [
        '    files: ["librocblas.so.5", "librocblas.so.4", "librocblas.so"];',
        '    windows: ["rocblas.dll"];',
    ]


def test_the_matrix_lists_the_differences_of_the_release() -> None:
    """Those of types and methods that the release lacks are left out."""
    both = CpuDifference(
        id="a.relu",
        operations=("unary_impl.relu", "affine.large", "conv9d"),
        types=("U8", "I16"),
        kind=Difference.WRONG,
        reason="the CPU keeps negative numbers",
    )
    header = Header(3, "t", "s")
    file = FileContext.of(header, context(), differences=(both,))
    text = render(source_of("rocm_matrix/exceptions.rs.j2"), file)
    listed = re.findall(r'operation: "(.*)",\n\s*dtype: DType::(\w+),\n\s*kind: Kind::(\w+),', text)
    methods = {method.name for method in file.storage.methods}
    variants = {dtype.variant for dtype in file.dtypes}
    assert variants & {"U8", "I16"} == {"U8"}
    expected = [(name, "U8", "Wrong") for name in both.operations if name.split(".")[0] in methods]
    assert listed == expected != []
    assert 'reason: "the CPU keeps negative numbers"' in text
