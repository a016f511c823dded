"""C types in Rust."""

from __future__ import annotations

import pytest

from codegen.spec.c_types import opaque_structs, rust_return, rust_type, type_names


@pytest.mark.parametrize(
    ("c", "rust"),
    [
        ("int", "c_int"),
        ("size_t", "usize"),
        ("unsigned int", "c_uint"),
        ("unsigned long long", "c_ulonglong"),
        ("void*", "*mut c_void"),
        ("void**", "*mut *mut c_void"),
        ("const void*", "*const c_void"),
        ("const char**", "*mut *const c_char"),
        ("const char* const*", "*const *const c_char"),
        ("char* const*", "*const *mut c_char"),
        ("hipStream_t", "hipStream_t"),
        ("hipStream_t*", "*mut hipStream_t"),
        ("const miopenTensorDescriptor_t", "miopenTensorDescriptor_t"),
        ("struct ihipStream_t*", "*mut ihipStream_t"),
        ("char[256]", "[c_char; 256]"),
        ("void*[2]", "[*mut c_void; 2]"),
        ("void (*)(void*)", 'Option<unsafe extern "C" fn(*mut c_void)>'),
        ("void* (*)(void*, size_t)", 'Option<unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void>'),
        ("int (*)()", 'Option<unsafe extern "C" fn() -> c_int>'),
    ],
)
def test_a_type_in_rust(c: str, rust: str) -> None:
    assert rust_type(c) == rust


@pytest.mark.parametrize("c", ["", "void", "unsigned", "int&", "int *", "char[]", "*int", "int* volatile", "long"])
def test_what_is_no_type_is_refused(c: str) -> None:
    with pytest.raises(ValueError, match=r"type"):
        rust_type(c)


def test_only_a_function_may_return_nothing() -> None:
    assert rust_return("void") is None
    assert rust_return("const char*") == "*const c_char"


def test_names_that_a_table_has_to_define() -> None:
    assert type_names("void (*)(hipStream_t, hipError_t, void*)") == {"hipStream_t", "hipError_t"}
    assert type_names("const unsigned char*") == frozenset()
    assert type_names("struct ihipStream_t*") == frozenset()
    assert opaque_structs("struct ihipStream_t*") == {"ihipStream_t"}
