"""The CUDA kernels that Rust names."""

from __future__ import annotations

import pytest

from codegen.errors import InputOutputError
from codegen.syntax import kernel_symbols as module
from codegen.syntax.kernel_symbols import kernel_symbols, names_kernels
from codegen.syntax.source import Source


def named(text: str, *, every: bool = False) -> list[str]:
    """`line:symbol` of each kernel."""
    source = Source.parse("lib.rs", text.encode())
    found = kernel_symbols(source, every=every)
    assert not found or names_kernels(text.encode(), every=every), "a file that is not looked at"
    return [f"{source.line_of(symbol.node.start_byte)}:{symbol.name}" for symbol in found]


BY_NAME = """\
fn f(d: &Device, kind: Kind) {
    let name = match kind {
        Kind::A => "sum_a",
        Kind::B => "sum_b",
        _ => crate::bail!("QUANTIZED"),
    };
    d.get_or_load_func(name, &candle_kernels::QUANTIZED)?; // candle_kernels::QUANTIZED
}
"""


def test_kernels_that_are_loaded_by_name() -> None:
    assert named(BY_NAME) == named(BY_NAME, every=True) == ["3:sum_a", "4:sum_b"]


def test_kernels_of_other_modules_count_in_files_about_quantized_tensors_only() -> None:
    text = 'fn f(d: &Device) { d.get_or_load_func("exp", &kernels::UNARY)?; }\n'

    assert named(text) == []
    assert named(text, every=True) == ["1:exp"]


@pytest.mark.parametrize(
    "text",
    [
        "use candle_kernels::ffi;\nfn f() { ffi::sum(1) }\n",
        "use candle::cuda_backend::kernels::ffi;\nfn f() { each!(ffi::sum, 1) }\n",
        "use candle::{cuda_backend::{kernels::ffi as bound}, Tensor};\nfn f() { bound::sum(1) }\n",
        "use candle_kernels::{ffi, Module};\nfn f() -> Function { match k { _ => ffi::sum } }\n",
        "\nfn f() { candle_kernels::ffi::sum(1) }\n",
        "\nfn f() { crate::cuda_backend::kernels::ffi::sum(1) }\n",
        "\nuse candle_kernels::ffi::sum;\n",
        "\nuse candle_kernels::ffi::{sum as total};\n",
    ],
)
def test_functions_behind_c_bindings(text: str) -> None:
    assert named(text) == ["2:sum"]


def test_functions_of_other_bindings_do_not_count() -> None:
    assert named("mod ffi;\nfn f() { ffi::sum(1); mkl::ffi::sum(1) }\n", every=True) == []
    assert named("use candle_kernels::ffi;\nfn f() { mkl::ffi::sum(1) }\n") == []
    assert named('use candle_kernels::ffi;\n// ffi::sum\nconst A: &str = "ffi::sum";\n') == []


def test_functions_that_a_file_about_quantized_tensors_declares() -> None:
    text = 'extern "C" {\n    fn sum(n: i32);\n    pub fn mean(n: i32);\n}\ntype F = unsafe extern "C" fn(n: i32);\n'

    assert named(text, every=True) == ["2:sum", "3:mean"]
    assert named(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "fn f() { let module = &candle_kernels::QUANTIZED; }\n",
        "fn f() { d.get_or_load_func(name(), &candle_kernels::QUANTIZED) }\n",
        'fn f() { each!(d.get_or_load_func("a", &candle_kernels::QUANTIZED)) }\n',
        'fn f(n: usize) { d.get_or_load_func(&format!("{n}"), &kernels::QUANTIZED) }\n',
        "fn f() { d.get_or_load_func(match k { _ => return None }, &kernels::QUANTIZED) }\n",
        "use candle_kernels::QUANTIZED as Q;\n",
        "use candle_kernels as k;\n",
        "use candle_kernels::ffi::*;\n",
    ],
)
def test_what_cannot_be_read_has_no_name(text: str) -> None:
    assert set(named(text)) == {"1:"}


@pytest.mark.parametrize("text", ["use candle_kernels::tiles;\n", "fn f() { candle_kernels::tiles::run(1) }\n"])
def test_files_about_quantized_tensors_use_nothing_else_of_the_crate(text: str) -> None:
    assert named(text, every=True) == ["1:"]
    assert named(text) == []


def test_imports_alone_name_no_kernel() -> None:
    assert named("use candle_kernels::{ffi, QUANTIZED};\npub use candle_kernels as kernels;\n", every=True) == []


def test_a_site_has_its_function_and_place() -> None:
    source = Source.parse("a/lib.rs", BY_NAME.encode())
    site = kernel_symbols(source, every=False)[1].site(source, "cuda-kernel")

    assert (site.path, site.kind, site.line, site.column) == ("a/lib.rs", "cuda-kernel", 4, 20)
    assert (site.item, site.name, site.snippet) == ("f", "sum_b", '"sum_b"')
    assert source.slice(site.start, site.end) == '"sum_b"'


def test_a_file_that_would_take_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_STEPS", 5_000)
    with pytest.raises(InputOutputError, match="names CUDA's kernels too often") as caught:
        named("fn f() { a(&candle_kernels::QUANTIZED);\n" * 30 + "}" * 30)
    assert "lib.rs:" in str(caught.value.problems[0].location)
