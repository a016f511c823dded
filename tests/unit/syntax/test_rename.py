"""Renaming: identifiers, strings and comments, each in its own spelling."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codegen.syntax.rename import METAL, protected_words, rename, swap, words_in


@pytest.mark.parametrize(
    ("text", "renamed"),
    [
        ("Cuda", "Rocm"),
        ("CudaDevice", "RocmDevice"),
        ("QCudaStorage", "QRocmStorage"),
        ("as_cuda_device", "as_rocm_device"),
        ("CUDA_DEVICE", "ROCM_DEVICE"),
        ("is_cuda()", "is_rocm()"),
        ("'cuda: loop {}", "'rocm: loop {}"),
        ("&'cuda str", "&'rocm str"),
        ("r#cuda", "r#rocm"),
        ('#[cfg(feature = "cuda")]', '#[cfg(feature = "rocm")]'),
        ("#[cfg(feature = \"cuda\", not(feature = 'x'))]", "#[cfg(feature = \"rocm\", not(feature = 'x'))]"),
        ('"cuda:0"', '"rocm:0"'),
        ('"no CUDA here"', '"no ROCm here"'),
        ('"Cuda"', '"ROCm"'),
        ('"got CudaDevice"', '"got RocmDevice"'),
        ('"use Device::Cuda"', '"use Device::Rocm"'),
        ('"see `Cuda`"', '"see `Rocm`"'),
        ('"Cuda(0)"', '"Rocm(0)"'),
        ('"say \\"CUDA\\"" Cuda', '"say \\"ROCm\\"" Rocm'),
        ('b"CUDA"', 'b"ROCm"'),
        ('c"CUDA"', 'c"ROCm"'),
        ('r"C:\\" Cuda', 'r"C:\\" Rocm'),
        ('r#"a "CUDA" b"# Cuda', 'r#"a "ROCm" b"# Rocm'),
        ('br##"a "# CUDA"## Cuda', 'br##"a "# ROCm"## Rocm'),
        ("'\"' Cuda '\"'", "'\"' Rocm '\"'"),
        ("'\\'' Cuda '\\\\'", "'\\'' Rocm '\\\\'"),
        ("b'\"' Cuda", "b'\"' Rocm"),
        ("'\\u{22}' Cuda '\\x22' Cuda", "'\\u{22}' Rocm '\\x22' Rocm"),
        ("fn f<'a>(x: &'a Cuda) {}", "fn f<'a>(x: &'a Rocm) {}"),
        ("// CUDA and Cuda, `CudaDevice`", "// ROCm and ROCm, `RocmDevice`"),
        ("/// [`Device::Cuda`] is new_cuda", "/// [`Device::Rocm`] is new_rocm"),
        ("/* CUDA */ CUDA", "/* ROCm */ ROCM"),
        ("// it's CUDA's\nCuda", "// it's ROCm's\nRocm"),
        ("cpu metal Metal", "cpu metal Metal"),
        ("größe_cuda", "größe_rocm"),
        ('"größer CUDA µ"', '"größer ROCm µ"'),
    ],
)
def test_each_spelling(text: str, renamed: str) -> None:
    assert rename(text) == renamed


def test_protected_identifiers_stay() -> None:
    protected = frozenset({"cudarc", "CudaSlice"})
    text = "cudarc::CudaSlice<CudaSlices> // cudarc's CudaSlice is no Cuda"
    assert rename(text, protected=protected) == "cudarc::CudaSlice<RocmSlices> // cudarc's CudaSlice is no ROCm"
    assert protected_words(text, protected) == ("CudaSlice", "cudarc")


def test_the_c_api_is_protected_by_its_own_spelling() -> None:
    text = "cudaMemcpy2D CUDA_R_16F CUDA_C_32F_EXT cuda_memcpy CUDA_RC"
    assert rename(text) == "cudaMemcpy2D CUDA_R_16F CUDA_C_32F_EXT rocm_memcpy ROCM_RC"
    assert protected_words(text, frozenset()) == ("CUDA_C_32F_EXT", "CUDA_R_16F", "cudaMemcpy2D")


def test_words_in_strings_and_comments_are_not_protected_words() -> None:
    assert protected_words("\"cudarc\" // cudarc\n/* cudarc */ 'c'", frozenset({"cudarc", "c"})) == ()


def test_metal_is_renamed_the_same_way() -> None:
    assert rename('Metal metal_fwd METAL_X "Metal metal"', METAL) == 'Rocm rocm_fwd ROCM_X "ROCm rocm"'


def test_swapping_exchanges_both() -> None:
    text = 'Cuda(rocm) => ROCM_X, "CUDA, not ROCm", // rocm or cuda'
    assert swap(text) == 'Rocm(cuda) => CUDA_X, "ROCm, not CUDA", // cuda or rocm'


def test_words_of_code() -> None:
    assert words_in('fn f(x: &\'a T) { "s" } // c') == ["fn", "f", "x", "a", "T"]


RUST = st.lists(
    st.sampled_from(
        [
            "Cuda",
            "cuda",
            "CUDA",
            "CudaX",
            "x_cuda",
            "::",
            "(",
            ")",
            " ",
            "\n",
            '"CUDA" ',
            "// Cuda\n",
            "'c' ",
            "µ",
            "metal",
        ]
    ),
    max_size=30,
).map("".join)


@given(RUST)
def test_nothing_of_cuda_is_left_but_names_of_its_c_api(text: str) -> None:
    left = [word for word in re.findall(r"[^\W\d]\w*", rename(text)) if "cuda" in word.lower()]
    assert all(re.match(r"cuda[A-Z]", word) for word in left)


@given(RUST)
def test_lines_keep_their_places(text: str) -> None:
    renamed = rename(text)
    assert len(renamed) == len(text)
    assert [i for i, c in enumerate(renamed) if c == "\n"] == [i for i, c in enumerate(text) if c == "\n"]


@given(RUST)
def test_swapping_text_without_rocm_renames_it(text: str) -> None:
    assert swap(text) == rename(text)


@given(RUST)
def test_renaming_twice_is_renaming_once(text: str) -> None:
    assert rename(rename(text)) == rename(text)


@given(st.text())
def test_text_that_is_not_rust_does_no_harm(text: str) -> None:
    assert len(rename(text)) == len(text)
