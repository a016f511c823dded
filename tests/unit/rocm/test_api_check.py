"""The API table against a made-up ROCm: everything agrees, or the entry that does not is named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from made_up_rocm import HEADER, LIBRARY, TABLE, build_library, write_headers

from codegen.rocm.api_check import ApiCheck, RocmFiles, check_hip_api, unsupported_functions
from codegen.spec.hip_api import parse_hip_api

if TYPE_CHECKING:
    from pathlib import Path


def line_of(text: str) -> int:
    return next(number for number, line in enumerate(TABLE.splitlines(), 1) if text in line)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> RocmFiles:
    folder = tmp_path_factory.mktemp("rocm")
    return RocmFiles(write_headers(folder / "include"), (build_library(folder / "lib"),))


def checked(table: str, files: RocmFiles, release: str = "6.4") -> ApiCheck:
    return check_hip_api(parse_hip_api(table.encode()), {release: files})


def found(check: ApiCheck) -> list[tuple[int, str]]:
    return [(problem.location.line, problem.message) for problem in check.problems if problem.location]


def test_a_table_that_is_right(files: RocmFiles) -> None:
    check = checked(TABLE, files)
    assert check.problems == ()
    assert check.unchecked == ()
    # 2 functions; an enumeration and 2 values; 2 macros; 2 sizes, 2 bits, 2 fields twice; a type; 3 names not there yet
    assert dict(check.claims) == {"6.4": 2 + 3 + 2 + 2 + 2 + 4 + 1 + 3}


CHANGES = [
    ("{ptr: void*}", "{ptr: void**}", "hipFree is hipError_t(void**): not so in ROCm 6.4: it is hipError_t (*)(void*)"),
    ("{ptr: void**, size: size_t}", "{ptr: void**}", "hipMalloc is hipError_t(void**): not so"),
    ("{name: hipMalloc,", "{name: hipMallox,", "'hipMallox' was not declared"),
    ("hipSuccess: 0", "hipSuccess: 1", "hipSuccess is 1: not so in ROCm 6.4: it is 0"),
    ("hipErrorNoDevice: 100", "hipErrorNoCard: 100", "'hipErrorNoCard' was not declared"),
    (
        "{hipStreamNonBlocking: 1}",
        "{hipStreamNonBlocking: 2}",
        "hipStreamNonBlocking is 2: not so in ROCm 6.4: it is 1",
    ),
    ("{hipStreamLegacy: 1}", "{hipStreamLegacy: 2}", "hipStreamLegacy is 2: not so in ROCm 6.4: it is 1"),
    ("size: 12", "size: 16", "hipPair has 16 bytes: not so in ROCm 6.4: it is 12"),
    ("offset: 8", "offset: 6", "hipPair::count stands at byte 6: not so in ROCm 6.4: it is 8"),
    ("c: int32_t", "c: uint32_t", "hipPair::count is uint32_t: not so in ROCm 6.4: it is int"),
    ('"char[6]"', '"char[8]"', "hipPair::name is char[8]: not so in ROCm 6.4: it is char [6]"),
    ("[first, second]", "[second, first]", "hipBits::second is bit 0: not so in ROCm 6.4: it is another bit"),
    ("struct ihipStream_t*", "void*", "hipStream_t is void*: not so in ROCm 6.4: it is ihipStream_t*"),
]


@pytest.mark.parametrize(("right", "wrong", "message"), CHANGES)
def test_a_wrong_entry_is_named_with_its_line(files: RocmFiles, right: str, wrong: str, message: str) -> None:
    assert TABLE.count(right) == 1
    problems = found(checked(TABLE.replace(right, wrong), files))
    assert {line for line, _ in problems} == {line_of(right)}
    assert message in problems[0][1]


def test_all_wrong_entries_are_reported(files: RocmFiles) -> None:
    table = TABLE
    for right, wrong, _ in CHANGES[3:]:
        table = table.replace(right, wrong)
    lines = {line for line, _ in found(checked(table, files))}
    assert lines == {line_of(right) for right, _, _ in CHANGES[3:]}


def test_an_entry_of_a_later_release_is_not_asked_for_before(files: RocmFiles) -> None:
    lines = [line for line, _ in found(checked(TABLE, files, "7.2"))]
    # hipNew is neither in the header nor in the library; of hipMode both the type and its value are missing.
    assert sorted(lines) == [*[line_of("hipNew")] * 2, line_of("hipErrorNew"), *[line_of("hipMode,")] * 2]


def test_a_range_that_excludes_what_is_there_is_wrong(tmp_path: Path, files: RocmFiles) -> None:
    header = HEADER.replace("hipErrorNoDevice = 100", "hipErrorNoDevice = 100, hipErrorNew = 101")
    header = header.replace("hipError_t hipFree", "hipError_t hipNew(hipStream_t stream);\nhipError_t hipFree")
    newer = RocmFiles(write_headers(tmp_path, header), files.libraries)
    assert found(checked(TABLE, newer)) == [
        (line_of("hipNew"), "hipNew does not exist: not so in ROCm 6.4: its headers declare it"),
        (line_of("hipErrorNew"), "hipErrorNew does not exist: not so in ROCm 6.4: its headers declare it"),
    ]


def test_a_function_that_only_the_header_has(tmp_path: Path, files: RocmFiles) -> None:
    source = LIBRARY.replace("hipFree", "hipFreed")
    lacking = RocmFiles(files.include, (build_library(tmp_path, source),))
    assert found(checked(TABLE, lacking)) == [
        (line_of("hipFree"), "hipFree is not among the functions that libamdhip64 of ROCm 6.4 exports")
    ]


def test_what_could_not_be_checked_is_said(files: RocmFiles) -> None:
    without_library = checked(TABLE, RocmFiles(files.include))
    assert without_library.unchecked == ("symbols of amdhip64 of ROCm 6.4: libamdhip64.so is not there",)
    assert without_library.problems == ()

    table = TABLE.replace("status: hipError_t}", 'status: hipError_t, unchecked: {"6.4": nobody packaged it}}')
    nothing = checked(table, files)
    assert nothing.unchecked == ("amdhip64 of ROCm 6.4: nobody packaged it",)
    assert nothing.claims["6.4"] == 0


def test_a_library_may_be_part_of_another(files: RocmFiles) -> None:
    libraries = "  - {name: hiprtc, prefix: hiprtc, header: hip/hip_runtime_api.h, status: hipError_t, %s}\n"
    table = TABLE.replace("functions:\n", libraries % 'inside: {"6.4": amdhip64}' + "functions:\n")
    check = checked(table, files)
    assert check.unchecked == ()
    assert list(check.exported) == [("6.4", "amdhip64")]


def test_functions_that_the_table_does_not_have(files: RocmFiles) -> None:
    table = parse_hip_api(TABLE.encode())
    check = check_hip_api(table, {"6.4": files})
    (library,) = table.api.libraries
    assert unsupported_functions(table, library, check, release="7.2") == ("__hipRegister", "hipElse")
