"""The HIP functions that templates call, and how Rust spells them."""

from __future__ import annotations

import re

from codegen.paths import repository_root, templates_dir
from codegen.render.hip_api import WRITTEN_PHASES, HipCalls
from codegen.spec.hip_api import HIP_API, HipApi, parse_hip_api

TYPES = """\
libraries:
  - {name: amdhip64, prefix: hip, header: hip.h, status: hipError_t}
enums:
  - {name: hipError_t, values: {hipSuccess: 0}}
types:
  - {name: hipStream_t, c: struct ihipStream_t*}
functions:
"""


def table() -> HipApi:
    return parse_hip_api((repository_root() / HIP_API).read_bytes()).api


def calls(functions: str) -> HipCalls:
    return HipCalls.of(parse_hip_api((TYPES + functions).encode()).api)


def called() -> set[str]:
    texts = [path.read_text(encoding="utf-8") for path in (templates_dir() / "rust").rglob("*.j2")]
    return {name for text in texts for name in re.findall(r"bindings::(hip\w+)\(", text)}


def test_every_call_is_in_the_table_and_every_entry_of_a_written_phase_is_called() -> None:
    assert called() == {function.name for function in HipCalls.of(table()).functions}


def test_no_call_belongs_to_later_phases_only() -> None:
    phases = {function.name: set(function.phases) for function in table().functions}
    assert [name for name in called() if not phases[name] & WRITTEN_PHASES] == []


def test_imported_functions_do_not_escape_the_check() -> None:
    """Calls go through `bindings::`, so importing a function by name would hide it from the tests above."""
    names = {function.name for function in table().functions}
    for path in (templates_dir() / "rust").rglob("*.j2"):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.strip().startswith("use "):
                assert not names & set(re.findall(r"hip\w+", line)), f"{path.name}: {line}"


def test_a_definition_is_laid_out() -> None:
    functions = {function.name: function for function in HipCalls.of(table()).functions}
    assert functions["hipFree"].head() == 'unsafe extern "C" fn hipFree(_: *mut c_void) -> hipError_t {'
    assert functions["hipGetDeviceCount"].head("count") == (
        'unsafe extern "C" fn hipGetDeviceCount(count: *mut c_int) -> hipError_t {'
    )
    assert functions["hipGetErrorName"].head().endswith("-> *const c_char {")


def test_a_function_that_returns_nothing() -> None:
    (function,) = calls("  - {name: hipA, phases: [1], params: {p: int}, returns: void}\n").functions
    assert function.head("p") == 'unsafe extern "C" fn hipA(p: c_int) {'


def test_imports_cover_the_signatures() -> None:
    made = calls(
        "  - {name: hipA, phases: [1], params: {p: int*}}\n  - {name: hipB, phases: [1], params: {s: hipStream_t}}\n"
    )
    assert made.uses == (
        "use rocm_rs::hip::bindings::{self, hipError_t, hipStream_t};",
        "use std::ffi::{c_int, CStr};",
    )


def test_only_functions_of_written_phases_and_of_the_current_release() -> None:
    made = calls(
        '  - {name: hipA, until: "5.7", phases: [1], params: {}}\n'
        "  - {name: hipB, phases: [], params: {}}\n"
        "  - {name: hipC, phases: [3], params: {}}\n"
        '  - {name: hipD, until: "6.4", phases: [1, 3], params: {p: void*}}\n'
        '  - {name: hipD, since: "7.2", phases: [1, 3], params: {p: const void*}}\n'
    )
    assert [(function.name, dict(function.params)) for function in made.functions] == [("hipD", {"p": "*const c_void"})]
