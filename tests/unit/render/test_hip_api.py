"""What is C in the generated backend: the names that templates use, and how Rust declares them."""

from __future__ import annotations

import re

import pytest
from some import some

from codegen.errors import SpecInvalid, TemplateInvalid
from codegen.paths import repository_root, templates_dir
from codegen.render.hip_api import (
    BoundLibrary,
    HipCalls,
    bound_libraries,
    refuse_unknown_names,
    used_names,
)
from codegen.spec.hip_api import HIP_API, HipApi, parse_hip_api
from codegen.spec.kinds import Runtime
from codegen.spec.loader import load_specs
from codegen.spec.usage import quoted_names

TYPES = """\
libraries:
  - {name: amdhip64, prefix: hip, header: hip.h, status: hipError_t, absent: hipGone, files: [libhip.so.1, hip.dll]}
  - {name: blas, prefix: blas_, header: blas.h, status: blas_status, absent: blas_broken, feature: rocm-blas}
enums:
  - {name: blas_status, values: {blas_fine: 0, blas_broken: 6, blas_odd: 7}}
  - {name: hipError_t, values: {hipSuccess: 0, hipGone: 100, hipOdd: 101}}
constants:
  - {about: streams, library: amdhip64, c: unsigned int, values: {hipStreamDefault: 0, hipStreamOdd: 1}}
structs:
  - name: hipPair
    size: 8
    fields: [{name: a, c: int, offset: 0}, {name: b, c: int, offset: 4}]
  - name: hipProp
    size: 8
    fields: [{name: pair, c: hipPair, offset: 0}]
types:
  - {name: blas_handle, c: struct _blas_handle*}
  - {name: hipEvent_t, c: struct ihipEvent_t*}
  - {name: hipStream_t, c: struct ihipStream_t*}
functions:
"""

FUNCTIONS = """\
  - {name: blas_set_stream, phases: [3], params: {handle: blas_handle, stream: hipStream_t}}
  - {name: blas_status_to_string, phases: [3], params: {status: blas_status}, returns: const char*}
  - {name: hipGetErrorName, phases: [1], params: {error: hipError_t}, returns: const char*}
  - {name: hipGetErrorString, phases: [1], params: {error: hipError_t}, returns: const char*}
  - {name: hipGetProp, phases: [1], params: {prop: hipProp*}}
  - {name: hipOther, phases: [1], params: {event: hipEvent_t}}
"""

AWAITED = frozenset({"hipEventElapsedTime", "hipGetDevice", "hipMemcpy2DAsync", "hipStreamQuery"})
"""Functions that the table gives to a phase whose templates are not written yet."""


def table() -> HipApi:
    return parse_hip_api((repository_root() / HIP_API).read_bytes()).api


def small(functions: str = FUNCTIONS) -> HipApi:
    return parse_hip_api((TYPES + functions).encode()).api


def texts_by_phase() -> dict[int, str]:
    """The templates of each phase's new files, and those that they draw in."""
    found = {}
    for phase in load_specs().phases:
        names = {file.template for file in phase.files if file.template is not None}
        # What HIP source includes is no template.
        sources = {name for name in names if not name.endswith(".hip")}
        names |= set().union(*(quoted_names(templates_dir(), name) for name in sources))
        found[phase.phase] = "\n".join((templates_dir() / name).read_text(encoding="utf-8") for name in sorted(names))
    return found


def functions_used(text: str) -> set[str]:
    known = {function.name for function in table().functions}
    return known & (used_names([text]) | set(re.findall(r"bindings::(hip\w+)\(", text)))


# --- the real table and the real templates ---------------------------------------------------------------------------


def test_the_table_says_which_phase_calls_a_function() -> None:
    phases = {function.name: set(function.phases) for function in table().functions}
    wrong = [
        f"phase {phase} calls {name}"
        for phase, text in texts_by_phase().items()
        for name in sorted(functions_used(text))
        if not phases[name] & set(range(min(phase, 1), phase + 1))
    ]
    assert wrong == [], "add the phase to specs/hip_api.yaml"


def test_every_function_of_a_phase_is_called_there() -> None:
    used = {phase: functions_used(text) for phase, text in texts_by_phase().items()}
    idle = {
        function.name
        for function in table().functions
        for phase in function.phases
        if phase <= 4 and function.name not in used.get(phase, set())
    }
    awaited = set(AWAITED)
    assert idle - awaited == set(), "nothing calls them: take the phase off specs/hip_api.yaml"
    assert awaited - idle == set(), "they are called now: take them off AWAITED"


def test_every_c_name_of_the_templates_is_in_the_table() -> None:
    backend = {
        str(path): path.read_text(encoding="utf-8")
        for path in templates_dir().rglob("*")
        if "rocm_backend" in path.parts and path.is_file()
    }
    refuse_unknown_names(table(), backend)
    assert used_names(backend.values()) > {"hipMalloc", "hipSuccess", "hipStream_t"}


def test_every_library_can_be_bound() -> None:
    api = table()
    for runtime in Runtime:
        for library in some(bound_libraries(api, [each.name for each in api.libraries], frozenset(), runtime)):
            assert library.files, library.c.name
            # RCCL is for Linux.
            assert bool(library.windows_files) == (library.c.name != "rccl"), library.c.name


# --- names ------------------------------------------------------------------------------------------------------------


def test_names_are_those_behind_api() -> None:
    text = "use super::api::{self, hipStream_t,\n    hipEvent_t};\nunsafe { api::hipFree(x) }; other_api::no; api::y"
    assert used_names([text, "api::z"]) == {"hipStream_t", "hipEvent_t", "hipFree", "y", "z"}


def test_a_name_that_the_table_lacks_is_refused_where_it_stands() -> None:
    with pytest.raises(TemplateInvalid) as caught:
        refuse_unknown_names(small(), {"a.rs": "fn f() {\n    api::hipNope();\n    api::hipOther();\n}\n"})
    assert "a.rs:2:1: specs/hip_api.yaml has no hipNope" in str(caught.value)
    assert "hipOther" not in str(caught.value)


# --- one library ------------------------------------------------------------------------------------------------------


def bound(library: str, *names: str, runtime: Runtime = Runtime.DYNAMIC) -> BoundLibrary:
    (found,) = bound_libraries(small(), [library], frozenset(names), runtime)
    return found


def test_only_what_is_used_is_declared_and_what_that_needs() -> None:
    hip = bound("amdhip64", "hipGetProp", "hipSuccess", "hipStreamOdd")
    assert [function.name for function in hip.c.functions] == ["hipGetProp"]
    assert [[value.name for value in enum.constants] for enum in hip.c.enums] == [["hipSuccess", "hipGone"]]
    assert [[value.name for value in group.constants] for group in hip.c.constants] == [["hipStreamOdd"]]
    assert [struct.name for struct in hip.c.structs] == ["hipPair", "hipProp"]
    assert hip.c.aliases == ()
    assert hip.uses == ("use std::ffi::{c_int, c_uint};", "use super::functions::functions;")


def test_a_type_that_another_library_takes_is_declared_too() -> None:
    hip, blas = bound_libraries(small(), ["amdhip64", "blas"], frozenset({"blas_set_stream"}), Runtime.DYNAMIC)
    assert [alias.name for alias in hip.c.aliases] == ["hipStream_t"]
    assert blas.uses == (
        "use std::ffi::c_uint;",
        "use super::hipStream_t;",
        "use super::functions::functions;",
    )
    assert (blas.absent, blas.feature) == ("blas_broken", "rocm-blas")


def test_rocm_rs_declares_the_hip_runtime() -> None:
    names = frozenset({"hipGetProp", "hipSuccess", "hipStreamOdd", "blas_set_stream"})
    hip, blas = bound_libraries(small(), ["amdhip64", "blas"], names, Runtime.ROCM_RS)
    (line,) = hip.reexports
    assert line == (
        "pub use rocm_rs::hip::bindings::{hipError_t_hipSuccess as hipSuccess, hipGetProp, hipStreamOdd, hipStream_t};"
    )
    assert blas.reexports == ()
    assert [function.name for function in blas.c.functions] == ["blas_set_stream"]


def test_functions_are_told_apart_by_what_they_answer() -> None:
    hip = bound("amdhip64", "hipGetProp", "hipGetErrorName", "hipGetErrorString")
    assert [function.name for function in hip.statuses] == ["hipGetProp"]
    assert [function.name for function in hip.names] == ["hipGetErrorName"]
    assert [function.name for function in hip.texts] == ["hipGetErrorString"]


def test_files_by_platform() -> None:
    hip = bound("amdhip64")
    assert (hip.files, hip.windows_files) == ('"libhip.so.1"', '"hip.dll"')


def test_an_unknown_library_is_refused() -> None:
    with pytest.raises(SpecInvalid, match="a file declares blass, which is no library of"):
        bound_libraries(small(), ["blas", "blass"], frozenset(), Runtime.DYNAMIC)


def test_a_declaration_is_laid_out() -> None:
    functions = {function.name: function for function in HipCalls.of(table()).functions}
    assert functions["hipFree"].declaration == "fn hipFree(ptr: *mut c_void) -> hipError_t;"
    assert functions["hipMemcpyAsync"].declaration == (
        "fn hipMemcpyAsync(\n        dst: *mut c_void,\n        src: *const c_void,\n        size: usize,\n"
        "        kind: hipMemcpyKind,\n        stream: hipStream_t,\n    ) -> hipError_t;"
    )


# --- stand-ins --------------------------------------------------------------------------------------------------------


def test_a_definition_is_laid_out() -> None:
    functions = {function.name: function for function in HipCalls.of(table()).functions}
    assert functions["hipFree"].head() == 'unsafe extern "C" fn hipFree(_: *mut c_void) -> hipError_t {'
    assert functions["hipGetDeviceCount"].head("count") == (
        'unsafe extern "C" fn hipGetDeviceCount(count: *mut c_int) -> hipError_t {'
    )
    assert functions["hipGetErrorName"].head().endswith("-> *const c_char {")


def test_a_function_that_returns_nothing() -> None:
    (function,) = HipCalls.of(small("  - {name: hipA, phases: [1], params: {p: int}, returns: void}\n")).functions
    assert function.head("p") == 'unsafe extern "C" fn hipA(p: c_int) {'


def test_imports_cover_the_signatures() -> None:
    made = HipCalls.of(
        small(
            "  - {name: hipA, phases: [1], params: {p: int*}}\n"
            "  - {name: hipB, phases: [1], params: {s: hipStream_t}}\n"
        )
    )
    assert made.uses == (
        "use rocm_rs::hip::bindings::{hipError_t, hipStream_t, self};",
        "use std::ffi::{CStr, c_int};",
    )


def test_stand_ins_are_for_called_functions_of_the_hip_runtime_in_the_current_release() -> None:
    made = HipCalls.of(
        small(
            "  - {name: blas_a, phases: [3], params: {}}\n"
            '  - {name: hipA, until: "5.7", phases: [1], params: {}}\n'
            "  - {name: hipB, phases: [], params: {}}\n"
            '  - {name: hipD, until: "6.4", phases: [1, 3], params: {p: void*}}\n'
            '  - {name: hipD, since: "7.2", phases: [1, 3], params: {p: const void*}}\n'
        )
    )
    assert [(function.name, dict(function.params)) for function in made.functions] == [("hipD", {"p": "*const c_void"})]
