"""Imports: what generated text calls by its bare name is imported next to CUDA's, and nothing else."""

from __future__ import annotations

from check import check_noop, check_transformed, parsed

from codegen.syntax.imports import imports_of


def check_import(before: str, after: str, *, used: str, cfg: bool = False) -> None:
    """The declaration `before` becomes `after` for generated text that reads `used`."""
    check_transformed(before + "\n", after + "\n", verb="use", kind="use", text=used, cfg=cfg)


def test_a_name_is_sorted_into_its_list() -> None:
    check_import(
        "use crate::{CpuStorage, CudaStorage, Layout, MetalStorage, Shape};",
        "use crate::{CpuStorage, CudaStorage, Layout, MetalStorage, RocmStorage, Shape};",
        used="fn f(s: &RocmStorage) {}",
    )


def test_a_name_that_sorts_last_ends_the_list() -> None:
    check_import(
        "use crate::{CpuStorage, CudaStorage};",
        "use crate::{CpuStorage, CudaStorage, RocmStorage};",
        used="RocmStorage",
    )


def test_a_comma_behind_the_last_name_stays_the_last() -> None:
    check_import(
        "use crate::{\n    CpuStorage,\n    CudaStorage,\n};",
        "use crate::{\n    CpuStorage,\n    CudaStorage, RocmStorage,\n};",
        used="RocmStorage",
    )


def test_several_names_at_once() -> None:
    check_import(
        "use crate::{CudaDevice, CudaError, CudaStorage, Shape};",
        "use crate::{CudaDevice, CudaError, CudaStorage, RocmDevice, RocmStorage, Shape};",
        used="fn f(s: &RocmStorage) -> RocmDevice {}",
    )


def test_a_single_name_gets_a_declaration_beside() -> None:
    check_import(
        "pub(crate) use crate::cuda_backend::CudaStorage;",
        "pub(crate) use crate::cuda_backend::CudaStorage;\npub(crate) use crate::rocm_backend::RocmStorage;",
        used="RocmStorage",
    )


def test_a_path_inside_a_list_imports_that_path_only() -> None:
    check_import(
        "use crate::{cuda_backend::CudaStorage, Layout};",
        "use crate::{cuda_backend::CudaStorage, Layout, rocm_backend::RocmStorage};",
        used="RocmStorage",
    )


def test_a_list_below_cudas_module_is_not_where_rocms_names_are() -> None:
    check_import(
        "use crate::{backend::{cuda::{CudaDevice, Kernels}, Shared}, Layout};",
        "use crate::{backend::{cuda::{CudaDevice, Kernels}, Shared}, Layout};\nuse crate::backend::rocm::RocmDevice;",
        used="RocmDevice",
    )


def test_a_nested_list_outside_cudas_module_takes_the_name() -> None:
    check_import(
        "use crate::{backend::{CudaDevice, Shared}, Layout};",
        "use crate::{backend::{CudaDevice, RocmDevice, Shared}, Layout};",
        used="RocmDevice",
    )


def test_an_alias_that_names_cuda_is_renamed() -> None:
    check_import(
        "use crate::cuda_backend as cuda;",
        "use crate::cuda_backend as cuda;\nuse crate::rocm_backend as rocm;",
        used="let x = rocm::init();",
    )


def test_an_alias_that_does_not_name_cuda_hides_the_name() -> None:
    check_noop("use crate::CudaDevice as Gpu;\n", verb="use", text="RocmDevice")


def test_self_is_the_module_itself() -> None:
    check_import(
        "use crate::cuda::{self, CudaDevice};",
        "use crate::cuda::{self, CudaDevice};\nuse crate::rocm;",
        used="rocm::init()",
    )


def test_globs_bring_names_that_nobody_can_see() -> None:
    check_noop("use crate::cuda_backend::*;\n", verb="use", text="RocmDevice, rocm_backend::go()")


def test_what_is_called_by_a_path_needs_no_import() -> None:
    for used in ("crate::RocmStorage", "Storage::Rocm(_)", "x.rocm()", "x . rocm", "a::rocm::b()"):
        check_noop("use crate::{cuda, Cuda, CudaStorage};\n", verb="use", text=used)


def test_a_range_is_not_a_field() -> None:
    check_import("use crate::{CUDA_MAX, X};", "use crate::{CUDA_MAX, ROCM_MAX, X};", used="for i in 0..ROCM_MAX {}")


def test_strings_and_comments_use_nothing() -> None:
    check_noop(
        "use crate::{cuda, CudaStorage};\n",
        verb="use",
        text='#[cfg(feature = "rocm")]\n// RocmStorage /* not this */\nfn f() { "RocmStorage" } /* RocmStorage */',
    )


def test_with_cfg_gating_every_name_gets_a_gated_declaration() -> None:
    check_import(
        "use crate::{backend::{CudaDevice, Shared}, CudaStorage};",
        "use crate::{backend::{CudaDevice, Shared}, CudaStorage};\n"
        '#[cfg(feature = "rocm")]\nuse crate::backend::RocmDevice;\n'
        '#[cfg(feature = "rocm")]\nuse crate::RocmStorage;',
        used="fn f(d: RocmDevice) -> RocmStorage {}",
        cfg=True,
    )


def test_cudas_gate_becomes_rocms_and_is_written_once() -> None:
    for cfg in (False, True):
        check_import(
            '#[cfg(feature = "cuda")]\nuse crate::cuda_backend::CudaStorage;',
            '#[cfg(feature = "cuda")]\nuse crate::cuda_backend::CudaStorage;\n'
            '#[cfg(feature = "rocm")]\nuse crate::rocm_backend::RocmStorage;',
            used="RocmStorage",
            cfg=cfg,
        )


def test_a_declaration_inside_a_function_is_indented() -> None:
    check_transformed(
        """
        fn f() {
            use crate::cuda::CudaDevice;
            g();
        }
        """,
        """
        fn f() {
            use crate::cuda::CudaDevice;
            use crate::rocm::RocmDevice;
            g();
        }
        """,
        verb="use",
        text="RocmDevice",
    )


def test_comments_in_a_list_are_no_names() -> None:
    check_import(
        "use crate::{\n    CudaDevice, // the card\n    /* CudaStorage */ Layout,\n};",
        "use crate::{\n    CudaDevice, // the card\n    /* CudaStorage */ Layout, RocmDevice,\n};",
        used="RocmDevice RocmStorage",
    )


def test_names_and_paths_of_a_declaration() -> None:
    source = parsed("use a::{self, b as c, d::{e, f::*}, g::h};\nuse i;\n")
    first, second = source.root.children
    assert [(each.name, each.path) for each in imports_of(first)] == [
        ("a", "a"),
        ("c", "a::b as c"),
        ("e", "a::d::e"),
        ("h", "a::g::h"),
    ]
    assert [(each.name, each.path) for each in imports_of(second)] == [("i", "i")]


def test_what_every_build_has_is_imported_without_a_gate() -> None:
    check_import(
        "use candle::utils::{cuda_is_available, metal_is_available};",
        "use candle::utils::{cuda_is_available, metal_is_available, rocm_is_available};",
        used="rocm_is_available()",
        cfg=True,
    )
    check_import(
        "use candle::utils::cuda_is_available;",
        "use candle::utils::cuda_is_available;\nuse candle::utils::rocm_is_available;",
        used="rocm_is_available()",
        cfg=True,
    )
