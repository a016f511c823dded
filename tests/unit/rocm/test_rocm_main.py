"""`python -m codegen.rocm`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fake_apt import FakeApt, fake_apt

from codegen.errors import ExitCode
from codegen.rocm import __main__ as command
from codegen.rocm.packages import ANCHOR, NEWEST, RELEASES, Part

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository without a build folder."""
    (tmp_path / "home/specs").mkdir(parents=True)
    monkeypatch.setenv("CANDLE_ROCM_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeApt:
    """A mirror with every release's packages."""
    apt = fake_apt(tmp_path / "apt")
    apt.has_versions(
        "".join(
            f"{ANCHOR} | {release.version}.1 | http://m.example/debian {release.suites[-1]}/main amd64 Packages\n"
            for release in RELEASES
        )
    )
    names = {name for release in RELEASES for name in release.parts[Part.HEADERS].alone}
    for name in names:
        apt.add_package(name, "1", {f"usr/include/{name}.h": ""})
    monkeypatch.setenv("PATH", apt.environ["PATH"])
    return apt


def test_headers_of_every_release(home: Path, apt: FakeApt, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["headers"]) is ExitCode.OK
    for release in RELEASES:
        assert (home / f"build/rocm/{release.version}/headers/root/usr/include/{ANCHOR}.h").exists()
    printed = capsys.readouterr()
    assert [line.split(":")[0] for line in printed.out.splitlines()] == [
        f"ROCm {release.version} headers" for release in RELEASES
    ]
    assert "downloading the headers packages" in printed.err


def test_only_the_newest_compiler(home: Path, apt: FakeApt, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["compiler"]) is ExitCode.TOOLCHAIN_MISSING
    absent = NEWEST.parts[Part.COMPILER].with_dependencies[1]
    assert f"E: no {absent}" in capsys.readouterr().err
    assert sum(call.startswith("apt-get update") for call in apt.calls) == 1


def test_an_unknown_part(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["drivers"]) is ExitCode.USAGE
    assert "choose from compiler, disassembler, headers, libraries, blas" in capsys.readouterr().err
