"""C types as the headers of ROCm's libraries spell them, and the same types for rustc.

The subset that those headers use in signatures and structs: scalars, named types, pointers with and without `const`,
arrays of a fixed length, and pointers to functions.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

SCALARS: Mapping[str, str] = MappingProxyType(
    {
        "bool": "bool",
        "char": "c_char",
        "double": "f64",
        "float": "f32",
        "int": "c_int",
        "int32_t": "i32",
        "int64_t": "i64",
        "long long": "c_longlong",
        "short": "c_short",
        "size_t": "usize",
        "uint16_t": "u16",
        "uint32_t": "u32",
        "uint64_t": "u64",
        "uint8_t": "u8",
        "unsigned char": "c_uchar",
        "unsigned int": "c_uint",
        "unsigned long long": "c_ulonglong",
        "unsigned short": "c_ushort",
        "void": "c_void",
    }
)
"""Rust's name for each scalar type of C on 64-bit Linux; those with `c_` are in `std::ffi`."""

_FUNCTION = re.compile(r"(?P<returns>.+?)\s*\(\*\)\((?P<params>.*)\)")
_ARRAY = re.compile(r"(?P<element>.+?)\[(?P<length>[0-9]+)\]")
_NAMED = re.compile(
    r"(?P<const>const )?(struct )?(?P<name>[A-Za-z_]\w*( (char|int|long|short)\b)*)(?P<pointers>[*].*)?"
)
_POINTER = re.compile(r"\*( const)?")

_SCALAR_WORDS = frozenset(word for scalar in SCALARS for word in scalar.split())


def rust_type(c: str) -> str:
    """The Rust type with the representation of the C type `c`. Raises `ValueError` for what is no such type."""
    if function := _FUNCTION.fullmatch(c):
        params = ", ".join(rust_type(param.strip()) for param in function["params"].split(",") if param.strip())
        returns = rust_return(function["returns"])
        return f'Option<unsafe extern "C" fn({params}){f" -> {returns}" if returns else ""}>'
    if array := _ARRAY.fullmatch(c):
        return f"[{rust_type(array['element'])}; {array['length']}]"
    named = _NAMED.fullmatch(c)
    stars = (named and named["pointers"]) or ""
    if named is None or _POINTER.sub("", stars) or named["name"] in _SCALAR_WORDS - SCALARS.keys():
        raise ValueError(f"'{c}' is not a C type that this table knows")
    rust = SCALARS.get(named["name"], named["name"])
    if rust == "c_void" and not stars:
        raise ValueError("'void' is not the type of a value")
    # What is pointed to may be constant at every level; the outermost `const` of a value is its owner's own business.
    constant = named["const"] is not None
    for pointer in _POINTER.finditer(stars):
        rust = f"*{'const' if constant else 'mut'} {rust}"
        constant = pointer[1] is not None
    return rust


def rust_return(c: str) -> str | None:
    """As `rust_type`, for what a function returns; None for `void`."""
    return None if c == "void" else rust_type(c)


def type_names(c: str) -> frozenset[str]:
    """Names in a C type that are neither scalars nor structs declared by the way (`struct ihipStream_t*`)."""
    words = set(re.findall(r"[A-Za-z_]\w*", re.sub(r"struct \w+", "", c)))
    return frozenset(words - _SCALAR_WORDS - {"const"})


def opaque_structs(c: str) -> frozenset[str]:
    """Structs that the type declares by the way: only the library knows what is in them."""
    return frozenset(re.findall(r"\bstruct (\w+)", c))
