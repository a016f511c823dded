"""The table of HIP functions, and the templates that call them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from codegen.errors import ExitCode, SpecInvalid
from codegen.paths import templates_dir
from codegen.render.hip_api import HIP_API, HipApi, parse_hip_api

REPOSITORY = Path(__file__).parents[3]


def table() -> HipApi:
    return parse_hip_api((REPOSITORY / HIP_API).read_bytes())


def called() -> set[str]:
    texts = [path.read_text(encoding="utf-8") for path in (templates_dir() / "rust").rglob("*.j2")]
    return {name for text in texts for name in re.findall(r"bindings::(hip\w+)\(", text)}


def test_every_call_is_in_the_table_and_every_entry_is_called() -> None:
    assert called() == {function.name for function in table().functions}


def test_imported_functions_do_not_escape_the_check() -> None:
    """Calls go through `bindings::`, so importing a function by name would hide it from the test above."""
    names = {function.name for function in table().functions}
    for path in (templates_dir() / "rust").rglob("*.j2"):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.strip().startswith("use "):
                assert not names & set(re.findall(r"hip\w+", line)), f"{path.name}: {line}"


def test_a_definition_is_laid_out() -> None:
    functions = {function.name: function for function in table().functions}
    assert functions["hipFree"].head() == 'unsafe extern "C" fn hipFree(_: *mut c_void) -> hipError_t {'
    assert functions["hipGetDeviceCount"].head("count") == (
        'unsafe extern "C" fn hipGetDeviceCount(count: *mut c_int) -> hipError_t {'
    )
    assert functions["hipGetErrorName"].head().endswith("-> *const c_char {")


def test_imports_cover_the_signatures() -> None:
    api = parse_hip_api(
        b"functions:\n"
        b"  - {name: hipA, library: l, phases: [1], params: [{name: p, c: 'int*', rust: '*mut c_int'}]}\n"
        b"  - {name: hipB, library: l, phases: [1], params: [{name: s, c: hipStream_t, rust: hipStream_t}]}\n"
    )
    assert api.uses == (
        "use rocm_rs::hip::bindings::{self, hipError_t, hipStream_t};",
        "use std::ffi::{c_int, CStr};",
    )


ENTRY = "  - {name: %s, library: amdhip64, phases: [1], params: []}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("functions:\n" + ENTRY % "hipB" + ENTRY % "hipA", "alphabetical order: hipA stands after hipB"),
        ("functions:\n" + ENTRY % "hipA" + ENTRY % "hipA", "function hipA is listed twice"),
        ("functions:\n" + ENTRY % "cudaMalloc", "cudaMalloc"),
        ("functions:\n  - {name: hipA, libary: x, phases: [1], params: []}\n", "unknown key"),
        ("functions:\n  - {name: hipA, library: x, phases: [], params: []}\n", "phases"),
        ("functions: [\n", "not valid YAML"),
        ("", "the file is empty"),
    ],
)
def test_a_wrong_table_is_reported_with_its_position(text: str, message: str) -> None:
    with pytest.raises(SpecInvalid) as caught:
        parse_hip_api(text.encode())
    assert caught.value.exit_code == ExitCode.SPEC_INVALID
    assert message in str(caught.value)
    assert re.search(r"specs/hip_api\.yaml:\d+:\d+: ", str(caught.value))
