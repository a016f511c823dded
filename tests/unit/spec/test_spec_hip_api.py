"""The API table: what it says, and what is refused with its place."""

from __future__ import annotations

import re
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from codegen.errors import ExitCode, SpecInvalid
from codegen.paths import repository_root
from codegen.spec import hip_api
from codegen.spec.hip_api import (
    CURRENT_RELEASE,
    HIP_API,
    HipApiFile,
    RocmRange,
    load_hip_api,
    names_used,
    parse_hip_api,
)

if TYPE_CHECKING:
    from pathlib import Path

HEAD = dedent("""\
    libraries:
      - {name: amdhip64, prefix: hip, header: hip/hip_runtime_api.h, status: hipError_t}
      - {name: hiprtc, prefix: hiprtc, header: hip/hiprtc.h, status: hiprtcResult}
    enums:
      - {name: hipError_t, values: {hipSuccess: 0}}
      - {name: hiprtcResult, values: {HIPRTC_SUCCESS: 0, HIPRTC_NEW: {value: 1, since: "6.4"}}}
    """)
HIP = "  - {name: hipA, phases: [1], params: {}}\n"


def parsed(text: str) -> HipApiFile:
    return parse_hip_api((HEAD + text).encode())


def own() -> HipApiFile:
    return parse_hip_api((repository_root() / HIP_API).read_bytes())


@pytest.mark.parametrize(
    ("since", "until", "releases"),
    [
        (None, None, ["5.7", "6.4", "7.2", "10.0"]),
        ("6.0", None, ["6.4", "7.2", "10.0"]),
        (None, "6.4", ["5.7", "6.4"]),
        ("6.4", "7.2", ["6.4", "7.2"]),
    ],
)
def test_releases_of_a_range(since: str | None, until: str | None, releases: list[str]) -> None:
    span = RocmRange(since=since, until=until)
    assert [release for release in ("5.7", "6.4", "7.2", "10.0") if span.holds_in(release)] == releases


@pytest.mark.parametrize(
    ("first", "second", "overlap"),
    [
        (RocmRange(until="5.7"), RocmRange(since="6.0"), False),
        (RocmRange(until="6.0"), RocmRange(since="6.0"), True),
        (RocmRange(), RocmRange(since="7.2"), True),
        (RocmRange(since="6.0", until="6.4"), RocmRange(since="10.0"), False),
    ],
)
def test_ranges_that_overlap(first: RocmRange, second: RocmRange, overlap: bool) -> None:  # noqa: FBT001
    assert first.overlaps(second) is overlap
    assert second.overlaps(first) is overlap


def test_the_longest_prefix_names_the_library() -> None:
    api = parsed("functions:\n" + HIP).api
    assert [library and library.name for library in map(api.library_named, ("hipMalloc", "hiprtcVersion", "foo"))] == [
        "amdhip64",
        "hiprtc",
        None,
    ]


def test_a_function_returns_its_library_s_status_unless_it_says_otherwise() -> None:
    api = parsed(
        "functions:\n  - {name: hipA, phases: [], params: {}}\n"
        "  - {name: hipB, phases: [], params: {}, returns: const char*}\n"
        "  - {name: hiprtcA, phases: [], params: {}}\n"
    ).api
    assert [api.returns(function) for function in api.functions] == ["hipError_t", "const char*", "hiprtcResult"]


def test_an_entry_knows_its_place() -> None:
    table = parsed("functions:\n" + HIP)
    assert str(table.place("functions", 0)) == "specs/hip_api.yaml:8:5"
    assert str(table.place("enums", 1, "values", "HIPRTC_NEW")) == "specs/hip_api.yaml:6:54"


STRUCT = "functions: []\nstructs:\n  - {name: hipS, size: 4, "


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (
            "functions:\n" + HIP.replace("hipA", "hipB") + HIP,
            9,
            "functions stand in alphabetical order: hipA after hipB",
        ),
        ("functions:\n" + HIP + HIP, 9, "hipA is listed twice for the same release"),
        ("functions:\n" + HIP.replace("hipA", "cudaA"), 8, "cudaA begins with no library's prefix (hip, hiprtc)"),
        (
            "functions:\n" + HIP.replace("{}", "{p: hipNoType*}"),
            8,
            "hipA uses the type hipNoType, which the table does",
        ),
        ("functions:\n" + HIP.replace("{}", "{p: int&}"), 8, "'int&' is not a C type that this table knows"),
        ("functions:\n" + HIP.replace("{}", "{P: int}"), 8, "'P' is not the name of a parameter in Rust"),
        ("functions:\n" + HIP.replace("{}", '{}, since: "6"'), 8, "'6' is not a ROCm release such as 6.4"),
        ("functions:\n" + HIP.replace("phases", "phase"), 8, "unknown key 'phase'"),
        (STRUCT + "align: 4, bits: [a]}\n", 9, "a struct is described by one of fields, bits and align"),
        (STRUCT + "fields: []}\n", 9, "a struct is described by one of fields, bits and align"),
        (STRUCT + "fields: [{name: f, c: hipT, offset: 0}]}\n", 9, "hipS uses the type hipT"),
        (
            "functions: []\ntypes:\n  - {name: hipT, c: struct x}\n  - {name: hipT, c: int}\n",
            10,
            "hipT is listed twice",
        ),
    ],
)
def test_a_wrong_table_is_refused_with_its_place(text: str, line: int, message: str) -> None:
    with pytest.raises(SpecInvalid, match=re.escape(message)) as caught:
        parsed(text)
    assert caught.value.exit_code == ExitCode.SPEC_INVALID
    assert {p.location and p.location.line for p in caught.value.problems} == {line}


def test_the_status_of_a_missing_library_is_one_of_its_values() -> None:
    head = HEAD.replace("status: hipError_t}", "status: hipError_t, absent: hipGone}")
    with pytest.raises(SpecInvalid, match=r"hip_api\.yaml:2:\d+: hipGone is no value of hipError_t"):
        parse_hip_api(head.encode() + b"functions: []\n")
    assert parse_hip_api(head.replace("hipGone", "hipSuccess").encode() + b"functions: []\n").api.libraries


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "the file is empty"), (b"functions: [\n", "not valid YAML"), (b"functions: 1\n", "missing key 'libraries'")],
)
def test_a_file_that_is_no_table(content: bytes, message: str) -> None:
    with pytest.raises(SpecInvalid, match=message):
        parse_hip_api(content)


def test_forms_of_one_function_may_follow_each_other() -> None:
    api = parsed(
        'functions:\n  - {name: hipA, until: "6.4", phases: [], params: {p: void*}}\n'
        '  - {name: hipA, since: "7.2", phases: [], params: {p: const void*}}\n'
    ).api
    assert [[f.params["p"] for f in api.functions_of(api.libraries[0], r)] for r in ("5.7", "7.2")] == [
        ["void*"],
        ["const void*"],
    ]


def test_every_name_of_the_own_table_exists_in_some_release_and_phases_are_known() -> None:
    api = own().api
    assert {phase for function in api.functions for phase in function.phases} <= set(range(8))
    for function in api.functions:
        assert list(function.phases) == sorted(set(function.phases)), function.name


def test_the_own_table_has_every_library_s_status_in_the_current_release() -> None:
    api = own().api
    current = {enum.name for enum in api.enums if enum.holds_in(CURRENT_RELEASE)}
    assert {library.status for library in api.libraries} <= current
    for library in api.libraries:
        assert len(api.functions_of(library, CURRENT_RELEASE)) > 10, library.name


def test_every_type_of_the_own_table_is_used() -> None:
    api = own().api
    used = {name for entries in api.sections.values() for entry in entries for name in names_used(api, entry)}
    used |= {"rocblas_gemm_flags"}  # passed as uint32_t
    for section in ("enums", "structs", "types"):
        assert [entry.name for entry in api.sections[section] if entry.name not in used] == [], section


def test_the_table_comes_from_the_cache_until_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = (repository_root() / HIP_API).read_bytes()
    first = load_hip_api(content, cache=tmp_path)
    assert first == parse_hip_api(content).api

    with monkeypatch.context() as patched:
        patched.setattr(hip_api, "parse_hip_api", None)
        assert load_hip_api(content, cache=tmp_path) == first
    with pytest.raises(SpecInvalid, match=r"specs/hip_api\.yaml:1:1"):
        load_hip_api(b"functions: 1\n", cache=tmp_path)


def test_a_damaged_cache_costs_time_only(tmp_path: Path) -> None:
    content = (repository_root() / HIP_API).read_bytes()
    first = load_hip_api(content, cache=tmp_path)
    (kept,) = tmp_path.iterdir()
    kept.write_bytes(kept.read_bytes()[:1000])

    assert load_hip_api(content, cache=tmp_path) == first
