"""Parts of ROCm are fetched whole, once, and never replaced by something broken."""

from __future__ import annotations

import os
import subprocess
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from fake_apt import FakeApt, fake_apt

from codegen.errors import ExitCode, InputOutputError, ToolchainMissing
from codegen.rocm.fetch import MANIFEST, fetch, fetched
from codegen.rocm.packages import ANCHOR, PackageSet, Part, RocmRelease

if TYPE_CHECKING:
    from pathlib import Path

LIBRARIES = "usr/lib/x86_64-linux-gnu"
# The loader is called as `loader --library-path DIR --preload LIBRARY --argv0 NAME PROGRAM ARGUMENTS...`; lld goes
# without the preload.
LOADER = """#!/bin/sh
libraries=$2
[ "$3" = --preload ] && shift 2
name=$4
program=$5
shift 5
exec "$program" "$name" "$libraries" "$@"
"""
PROGRAM = '#!/bin/sh\nprintf "%s\\n" "$0" "$@"\n'

RELEASE = RocmRelease(
    "7.2",
    suites=("sid", "experimental"),
    llvm=22,
    parts={
        Part.COMPILER: PackageSet(alone=("clang-22",), with_dependencies=(ANCHOR, "libc6")),
        Part.DISASSEMBLER: PackageSet(alone=("llvm-22",), with_dependencies=("libc6",)),
        Part.HEADERS: PackageSet(alone=(ANCHOR,)),
        Part.LIBRARIES: PackageSet(alone=(ANCHOR,), unpack=False),
    },
)


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeApt:
    apt = fake_apt(tmp_path / "apt")
    apt.add_package(ANCHOR, "7.2.4", {"usr/include/hip/hip_version.h": "#define HIP_VERSION_MAJOR 7\n"})
    apt.add_package("libc6", "2.44", {f"{LIBRARIES}/ld-linux-x86-64.so.2": LOADER})
    compiler = {"usr/lib/llvm-22/bin/clang": PROGRAM, "usr/lib/llvm-22/bin/lld": PROGRAM}
    apt.add_package("clang-22", "22.1", {**compiler, "usr/lib/llvm-22/lib/clang/22/amdgcn/bitcode/ocml.bc": ""})
    apt.add_package("llvm-22", "22.1", {"usr/lib/llvm-22/bin/llvm-objdump": PROGRAM})
    monkeypatch.setenv("PATH", apt.environ["PATH"])
    monkeypatch.delenv("CANDLE_ROCM_DEBIAN_MIRROR", raising=False)
    return apt


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path / "build/rocm"


def test_headers_are_unpacked(apt: FakeApt, base: Path) -> None:
    part = fetch(RELEASE, Part.HEADERS, base)
    assert part.folder == base / "7.2/headers"
    assert (part.root / "usr/include/hip/hip_version.h").is_file()
    assert part.packages == (f"{ANCHOR}_7.2.4_amd64",)
    assert not (part.folder / "packages").exists()


def test_libraries_stay_packed(apt: FakeApt, base: Path) -> None:
    part = fetch(RELEASE, Part.LIBRARIES, base)
    assert [deb.name for deb in part.debs] == [f"{ANCHOR}_7.2.4_amd64.deb"]
    assert not part.root.exists()


def test_a_second_fetch_asks_nobody(apt: FakeApt, base: Path) -> None:
    first = fetch(RELEASE, Part.HEADERS, base)
    calls = len(apt.calls)
    assert fetch(RELEASE, Part.HEADERS, base) == first == fetched(RELEASE, Part.HEADERS, base)
    assert len(apt.calls) == calls


def test_nothing_is_there_before(base: Path) -> None:
    assert fetched(RELEASE, Part.HEADERS, base) is None


def test_another_table_fetches_again(apt: FakeApt, base: Path) -> None:
    fetch(RELEASE, Part.HEADERS, base)
    more = replace(RELEASE, parts={Part.HEADERS: PackageSet(alone=(ANCHOR, "libc6"))})
    assert fetched(more, Part.HEADERS, base) is None
    part = fetch(more, Part.HEADERS, base)
    assert len(part.packages) == 2
    assert (part.root / LIBRARIES).is_dir()


def test_a_damaged_manifest_fetches_again(apt: FakeApt, base: Path) -> None:
    part = fetch(RELEASE, Part.HEADERS, base)
    (part.folder / MANIFEST).write_text("{", encoding="utf-8")
    assert fetched(RELEASE, Part.HEADERS, base) is None
    assert fetch(RELEASE, Part.HEADERS, base) == part


def test_a_failure_leaves_what_was_there(apt: FakeApt, base: Path) -> None:
    fetch(RELEASE, Part.HEADERS, base)
    more = replace(RELEASE, parts={Part.HEADERS: PackageSet(alone=(ANCHOR, "absent"))})
    with pytest.raises(ToolchainMissing, match="E: no absent"):
        fetch(more, Part.HEADERS, base)
    assert fetched(RELEASE, Part.HEADERS, base) is not None
    assert not (base / "staging").exists()


def test_what_a_killed_process_left_is_removed(apt: FakeApt, base: Path) -> None:
    (base / "staging/new/root").mkdir(parents=True)
    (base / "staging/new/root/stale").touch()
    part = fetch(RELEASE, Part.HEADERS, base)
    assert not (part.root / "stale").exists()


def test_the_suite_is_the_one_with_that_hip(apt: FakeApt, base: Path) -> None:
    apt.has_versions(
        f"{ANCHOR} | 7.4.0-1 | http://m.example/debian experimental/main amd64 Packages\n"
        f"{ANCHOR} | 7.2.4-2 | http://m.example/debian sid/main amd64 Packages\n"
    )
    fetch(RELEASE, Part.HEADERS, base)
    assert f"apt-get download -t sid {ANCHOR}" in apt.calls


def test_debian_has_moved_on(apt: FakeApt, base: Path) -> None:
    apt.has_versions(f"{ANCHOR} | 7.20.1-1 | http://m.example/debian sid/main amd64 Packages\n")
    with pytest.raises(
        ToolchainMissing, match=r"no HIP 7\.2 \(any more\): libamdhip64-dev is 7\.20\.1-1 in sid"
    ) as raised:
        fetch(RELEASE, Part.HEADERS, base)
    assert raised.value.exit_code is ExitCode.TOOLCHAIN_MISSING


def test_two_processes_do_not_mix(apt: FakeApt, base: Path) -> None:
    parts = []
    threads = [threading.Thread(target=lambda: parts.append(fetch(RELEASE, Part.HEADERS, base))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(parts) == 3
    assert sum(call.startswith("apt-get update") for call in apt.calls) == 1


def test_a_folder_that_cannot_be_made(apt: FakeApt, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputOutputError, match=r"fetching ROCm 7\.2"):
        fetch(RELEASE, Part.HEADERS, tmp_path / "file/below")


def run(*command: str | Path) -> list[str]:
    return subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ).stdout.splitlines()


def test_the_clang_wrapper_knows_its_root(apt: FakeApt, base: Path) -> None:
    part = fetch(RELEASE, Part.COMPILER, base)
    clang = part.folder / "bin/clang"
    program, name, libraries, *arguments = run(clang, "-c", "a file.hip")
    root = f"{part.folder}/bin/../root"
    assert program == f"{root}/usr/lib/llvm-22/bin/clang"
    assert name == str(clang)
    assert libraries == f"{root}/{LIBRARIES}"
    assert f"--sysroot={root}" in arguments
    assert f"--rocm-device-lib-path={root}/usr/lib/llvm-22/lib/clang/22/amdgcn/bitcode" in arguments
    assert arguments[-2:] == ["-c", "a file.hip"]


def test_the_compilation_proper_gets_no_driver_options(apt: FakeApt, base: Path) -> None:
    _, _, _, *arguments = run(fetch(RELEASE, Part.COMPILER, base).folder / "bin/clang", "-cc1", "-triple", "x")
    assert arguments == ["-cc1", "-triple", "x"]


def test_the_wrappers_work_where_the_folder_is_moved(apt: FakeApt, base: Path, tmp_path: Path) -> None:
    moved = fetch(RELEASE, Part.COMPILER, base).folder.rename(tmp_path / "moved")
    assert run(moved / "bin/lld", "-flavor", "gnu")[0] == f"{moved}/bin/../root/usr/lib/llvm-22/bin/lld"


def test_the_disassembler_runs_on_the_libraries_it_came_with(apt: FakeApt, base: Path) -> None:
    part = fetch(RELEASE, Part.DISASSEMBLER, base)
    program, _, libraries, *arguments = run(part.folder / "bin/llvm-objdump", "-d", "a file.hsaco")
    root = f"{part.folder}/bin/../root"
    assert (program, libraries) == (f"{root}/usr/lib/llvm-22/bin/llvm-objdump", f"{root}/{LIBRARIES}")
    assert arguments == ["-d", "a file.hsaco"]
    assert fetched(RELEASE, Part.COMPILER, base) is None


def test_packages_without_device_libraries_are_refused(apt: FakeApt, base: Path) -> None:
    bare = replace(RELEASE, parts={Part.COMPILER: PackageSet(alone=("libc6",))})
    with pytest.raises(InputOutputError, match=r"no device library ocml\.bc"):
        fetch(bare, Part.COMPILER, base)
    assert fetched(bare, Part.COMPILER, base) is None


def test_the_digest_names_the_packages(apt: FakeApt, base: Path) -> None:
    headers, libraries = (fetch(RELEASE, part, base) for part in (Part.HEADERS, Part.LIBRARIES))
    assert headers.digest == libraries.digest
    assert replace(headers, packages=("other_1_amd64",)).digest != headers.digest
