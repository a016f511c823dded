"""specs/hip_api.yaml against the real headers and libraries of ROCm 5.7, 6.4 and 7.2, from Debian's packages."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import pytest

from codegen.paths import repository_root
from codegen.rocm.api_check import ApiCheck, RocmFiles, check_hip_api, unsupported_functions
from codegen.rocm.fetch import FetchedPart, fetched
from codegen.rocm.packages import RELEASES, Part, RocmRelease, rocm_release
from codegen.spec.hip_api import CURRENT_RELEASE, HIP_API, HipApiFile, parse_hip_api

VERSIONS = [release.version for release in RELEASES]


@dataclass(frozen=True, slots=True)
class Mistake:
    """A change of the table, and what the check then says."""

    right: str
    wrong: str
    message: str


def table(*mistakes: Mistake) -> HipApiFile:
    """The table with these mistakes in it."""
    text = (repository_root() / HIP_API).read_text(encoding="utf-8")
    for mistake in mistakes:
        assert text.count(mistake.right) == 1, mistake.right
        text = text.replace(mistake.right, mistake.wrong)
    return parse_hip_api(text.encode())


def part_of(release: RocmRelease, part: Part) -> FetchedPart:
    """The part; the test is skipped, saying how to get it, if it was not fetched."""
    there = fetched(release, part)
    if there is None:
        pytest.skip(f"the {part} of ROCm {release.version} are not there: `make rocm-toolchain` fetches them")
    return there


def headers(version: str) -> RocmFiles:
    return RocmFiles(part_of(rocm_release(version), Part.HEADERS).root / "usr/include")


@cache
def whole_check() -> ApiCheck:
    """The table against everything of all releases."""
    files = {}
    for release in RELEASES:
        parts = [part for part in (Part.LIBRARIES, Part.BLAS, Part.COLLECTIVES) if part in release.parts]
        debs = tuple(deb for part in parts for deb in part_of(release, part).debs)
        files[release.version] = RocmFiles(headers(release.version).include, debs)
    return check_hip_api(table(), files)


def test_the_table_agrees_with_every_release() -> None:
    check = whole_check()
    assert not check.problems, "\n".join(map(str, check.problems))
    assert set(check.claims) == {"5.7", "6.4", "7.2"}
    assert min(check.claims.values()) > 800
    # Debian's 5.7 has hipRTC inside libamdhip64, and no MIOpen: this list is what stays unproven.
    assert check.unchecked == (
        "MIOpen of ROCm 5.7: Debian packages MIOpen since ROCm 6.4",
        "rccl of ROCm 6.4: Debian packages RCCL for ROCm 5.4 and 7.2",
    )


def test_what_the_table_leaves_out_is_listed_for_the_emulator(pytestconfig: pytest.Config) -> None:
    """`pytest tests/golden tests/rocm --update-goldens` writes the lists."""
    api, check = table(), whole_check()
    for library in api.api.libraries:
        file = repository_root() / "emulator/unsupported" / f"{library.name}.txt"
        names = unsupported_functions(api, library, check, release=CURRENT_RELEASE)
        if pytestconfig.getoption("--update-goldens", default=False):
            file.write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
        assert file.read_text(encoding="utf-8").split() == list(names), library.name


EVERYWHERE = (
    Mistake(
        "  - name: hipGetLastError\n",
        "  - name: hipGetLastErrors\n",
        "hipGetLastErrors is hipError_t(): not so in ROCm {}: 'hipGetLastErrors' was not declared",
    ),
    Mistake(
        "  - name: hipMalloc\n    phases: [0, 1]\n    params: {ptr: void**, size: size_t}\n",
        "  - name: hipMalloc\n    phases: [0, 1]\n    params: {ptr: void**, size: int}\n",
        "hipMalloc is hipError_t(void**, int): not so in ROCm {}: it is hipError_t (*)(void**, size_t)",
    ),
    Mistake(
        "      hipErrorNoDevice: 100\n",
        "      hipErrorNoDevice: 99\n",
        "hipErrorNoDevice is 99: not so in ROCm {}: it is 100",
    ),
    Mistake(
        "      - {name: location, c: hipMemLocation, offset: 0}\n",
        "      - {name: location, c: hipMemLocation, offset: 4}\n",
        "hipMemAccessDesc::location stands at byte 4: not so in ROCm {}: it is 0",
    ),
    Mistake(
        "  - {name: rocblas_stride, c: int64_t}\n",
        "  - {name: rocblas_stride, c: int32_t}\n",
        "rocblas_stride is int32_t: not so in ROCm {}: it is long int",
    ),
)


@pytest.mark.parametrize("version", VERSIONS)
def test_wrong_entries_are_found_in_every_release(version: str) -> None:
    wrong = table(*EVERYWHERE)
    problems = check_hip_api(wrong, {version: headers(version)}).problems
    found = {(place.line, problem.message) for problem in problems if (place := problem.location)}
    lines = wrong.document.text.splitlines()
    for mistake in EVERYWHERE:
        line = lines.index(mistake.wrong.splitlines()[0]) + 1
        messages = [message for number, message in found if number == line]
        assert any(message.startswith(mistake.message.format(version)) for message in messages), mistake
    assert len({line for line, _ in found}) == len(EVERYWHERE)


def test_a_wrong_layout_is_found() -> None:
    mistakes = (
        Mistake(
            'c: "char[256]", offset: 1160}',
            'c: "char[256]", offset: 1164}',
            "hipDeviceProp_tR0600::gcnArchName stands at byte 1164: not so in ROCm 7.2: it is 1160",
        ),
        Mistake(
            "    size: 1472\n",
            "    size: 1480\n",
            "hipDeviceProp_tR0600 has 1480 bytes: not so in ROCm 7.2: it is 1472",
        ),
    )
    problems = check_hip_api(table(*mistakes), {"7.2": headers("7.2")}).problems
    assert {problem.message for problem in problems} == {mistake.message for mistake in mistakes}


@pytest.mark.parametrize(("version", "needed"), [("5.7", True), ("6.4", False)])
def test_a_range_is_needed_where_a_release_differs(version: str, needed: bool) -> None:  # noqa: FBT001 - parametrized
    name = "  - name: hipGetDevicePropertiesR0600\n"
    without = table(Mistake(f'{name}    since: "6.0"\n', f"{name}    # no range\n", ""))
    problems = check_hip_api(without, {version: headers(version)}).problems
    assert ["hipGetDevicePropertiesR0600 is" in problem.message for problem in problems] == [True] * needed
