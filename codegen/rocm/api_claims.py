"""What the API table says of one ROCm release, as C++ declarations that compile only if the headers say the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.rocm.headers import Claim

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from codegen.spec.hip_api import EnumValue, HipApiFile, HipField, HipStruct, Library

PREAMBLE = """\
#include <cstddef>
#include <cstdint>
#include <type_traits>
template <typename T> struct type {};
template <typename T, long long V> struct value {};
// The integer literal in a macro's text, -1 if it has none: a cast of one to a pointer is no constant expression.
constexpr long long number_in(const char* text) {
    while (*text != '\\0' && (*text < '0' || *text > '9')) ++text;
    if (*text == '\\0') return -1;
    const int base = text[0] == '0' && text[1] == 'x' ? 16 : 10;
    if (base == 16) text += 2;
    long long number = 0;
    for (;; ++text) {
        if (*text >= '0' && *text <= '9') number = number * base + (*text - '0');
        else if (base == 16 && *text >= 'a' && *text <= 'f') number = number * base + (*text - 'a' + 10);
        else return number;
    }
}
#define TEXT_OF(...) #__VA_ARGS__
#define TEXT(macro) TEXT_OF(macro)
"""
"""What the claims are made with."""


def claims_about(table: HipApiFile, library: Library, release: str) -> Iterator[Claim]:
    """A claim for each function, enumerator, macro, struct and type of a library that the release has."""
    yield from _functions(table, library, release)
    yield from _enums(table, library, release)
    yield from _constants(table, library, release)
    yield from _structs(table, library, release)
    yield from _types(table, library, release)


def absences(table: HipApiFile, library: Library, release: str) -> Iterator[Claim]:
    """A claim for each name that the library does not have in the release, according to the entries' ranges."""
    api = table.api
    for section, entries in api.sections.items():
        there = {entry.name for entry in entries if entry.holds_in(release)}
        for index, entry in enumerate(entries):
            if entry.name not in there and api.library_of(entry) == library:
                used = f"decltype({entry.name})" if section == "functions" else entry.name
                # HIP turns some names of functions and structs into macros; the range speaks of the name itself.
                cpp = f"#undef {entry.name}\nusing CLAIM = {used};"
                yield Claim(cpp, table.place(section, index), f"{entry.name} does not exist")
    for section, index, values in _value_groups(table, library):
        for name, value in values.items():
            if not value.holds_in(release):
                place = table.place(section, index, "values", name)
                yield Claim(f"using CLAIM = decltype({name});", place, f"{name} does not exist")


def _value_groups(table: HipApiFile, library: Library) -> Iterator[tuple[str, int, Mapping[str, EnumValue]]]:
    for index, enum in enumerate(table.api.enums):
        if table.api.library_of(enum) == library:
            yield "enums", index, enum.values
    for index, group in enumerate(table.api.constants):
        if group.library == library.name:
            yield "constants", index, group.values


def _functions(table: HipApiFile, library: Library, release: str) -> Iterator[Claim]:
    for index, function in enumerate(table.api.functions):
        if function.holds_in(release) and table.api.library_of(function) == library:
            signature = f"{table.api.returns(function)}({', '.join(function.params.values())})"
            cpp = f"constexpr std::add_pointer_t<{signature}> CLAIM = &{function.name};"
            yield Claim(cpp, table.place("functions", index), f"{function.name} is {signature}")


def _enums(table: HipApiFile, library: Library, release: str) -> Iterator[Claim]:
    for index, enum in enumerate(table.api.enums):
        if not enum.holds_in(release) or table.api.library_of(enum) != library:
            continue
        name = enum.name
        underlying = f"constexpr type<unsigned int> CLAIM = type<__underlying_type({name})>{{}};"
        yield Claim(underlying, table.place("enums", index), f"{name} is an enumeration of unsigned int")
        for enumerator, value in _of_release(enum.values, release):
            cpp = f"constexpr value<{name}, {value}> CLAIM = value<decltype({enumerator}), {enumerator}>{{}};"
            place = table.place("enums", index, "values", enumerator)
            yield Claim(cpp, place, f"{enumerator} is {value}")


def _constants(table: HipApiFile, library: Library, release: str) -> Iterator[Claim]:
    for index, group in enumerate(table.api.constants):
        if group.library != library.name:
            continue
        for macro, value in _of_release(group.values, release):
            cpp = (
                f"const {group.c} CLAIM_typed = {macro}; "
                f"constexpr value<{group.c}, {value}> CLAIM = value<{group.c}, number_in(TEXT({macro}))>{{}};"
            )
            yield Claim(cpp, table.place("constants", index, "values", macro), f"{macro} is {value}")


def _structs(table: HipApiFile, library: Library, release: str) -> Iterator[Claim]:
    for index, struct in enumerate(table.api.structs):
        if not struct.holds_in(release) or table.api.library_of(struct) != library:
            continue
        name = struct.name
        size = f"constexpr value<size_t, {struct.size}> CLAIM = value<size_t, sizeof({name})>{{}};"
        yield Claim(size, table.place("structs", index, "size"), f"{name} has {struct.size} bytes")
        if struct.align:
            align = f"constexpr value<size_t, {struct.align}> CLAIM = value<size_t, alignof({name})>{{}};"
            yield Claim(align, table.place("structs", index, "align"), f"{name} is aligned to {struct.align} bytes")
        for number, field in enumerate(struct.fields):
            yield from _field(table, ("structs", index, "fields", number), struct, field)
        for number, bit in enumerate(struct.bits):
            cpp = f'static_assert(__builtin_bit_cast({name}, 1u << {number}).{bit}, "it is another bit");'
            yield Claim(cpp, table.place("structs", index, "bits", number), f"{name}::{bit} is bit {number}")


def _field(table: HipApiFile, path: tuple[str | int, ...], struct: HipStruct, field: HipField) -> Iterator[Claim]:
    place, member = table.place(*path), f"{struct.name}::{field.name}"
    declared = f"constexpr type<{field.c}> CLAIM = type<decltype({member})>{{}};"
    yield Claim(declared, place, f"{member} is {field.c}")
    offset = f"offsetof({struct.name}, {field.name})"
    at = f"constexpr value<size_t, {field.offset}> CLAIM = value<size_t, {offset}>{{}};"
    yield Claim(at, place, f"{member} stands at byte {field.offset}")


def _types(table: HipApiFile, library: Library, release: str) -> Iterator[Claim]:
    for index, name in enumerate(table.api.types):
        if name.holds_in(release) and table.api.library_of(name) == library:
            cpp = f"constexpr type<{name.c}> CLAIM = type<{name.name}>{{}};"
            yield Claim(cpp, table.place("types", index), f"{name.name} is {name.c}")


def _of_release(values: Mapping[str, EnumValue], release: str) -> Iterator[tuple[str, int]]:
    return ((name, value.value) for name, value in values.items() if value.holds_in(release))
