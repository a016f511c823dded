"""A private apt: settings, mirror, versions, downloads, and what it says when something is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fake_apt import FakeApt, fake_apt

from codegen.errors import ExitCode, ToolchainMissing
from codegen.rocm.apt import MIRROR_VARIABLE, PrivateApt, debian_mirror, unpack_deb

if TYPE_CHECKING:
    from pathlib import Path

MIRROR = "http://mirror.example/debian/"


@pytest.fixture
def apt(tmp_path: Path) -> FakeApt:
    return fake_apt(tmp_path / "apt")


def updated(apt: FakeApt, *suites: str) -> PrivateApt:
    private = PrivateApt(apt.folder / "private", apt.environ)
    private.update(MIRROR, suites or ("sid",))
    return private


def settings(private: PrivateApt) -> str:
    return (private.folder / "apt.conf").read_text(encoding="utf-8")


def test_the_mirror_is_the_systems(apt: FakeApt) -> None:
    assert debian_mirror(apt.environ) == MIRROR


def test_a_mirror_of_another_path_is_known_by_its_origin(apt: FakeApt) -> None:
    (apt.folder / "targets").write_text(
        "http://a.example/x/|main|\nhttp://b.example/y/|main|Debian\n", encoding="utf-8"
    )
    assert debian_mirror(apt.environ) == "http://b.example/y/"


def test_the_variable_names_another_mirror(apt: FakeApt) -> None:
    assert debian_mirror({**apt.environ, MIRROR_VARIABLE: "http://own.example/d"}) == "http://own.example/d"


def test_sources_without_debian_are_an_error(apt: FakeApt) -> None:
    (apt.folder / "targets").write_text("http://u.example/ubuntu/|main|Ubuntu\n", encoding="utf-8")
    with pytest.raises(ToolchainMissing, match="name no Debian mirror") as raised:
        debian_mirror(apt.environ)
    assert MIRROR_VARIABLE in raised.value.remedy


def test_a_machine_without_apt_is_told_what_is_missing(apt: FakeApt) -> None:
    (apt.folder / "bin/apt-get").unlink()
    (apt.folder / "bin/apt-config").unlink()
    with pytest.raises(ToolchainMissing, match="without apt-get, apt-config") as raised:
        debian_mirror(apt.environ)
    assert raised.value.exit_code is ExitCode.TOOLCHAIN_MISSING


def test_settings_point_at_the_private_folder_only(apt: FakeApt) -> None:
    private = updated(apt)
    for key in ("Dir::Etc", "Dir::State", "Dir::State::status", "Dir::Cache"):
        line = next(line for line in settings(private).splitlines() if line.startswith(f'{key} "'))
        assert str(private.folder) in line
    assert (private.folder / "status").read_text(encoding="utf-8") == ""


def test_the_systems_proxy_is_used_and_its_extra_indices_are_not(apt: FakeApt) -> None:
    text = settings(updated(apt))
    assert 'Acquire::http::Proxy "http://proxy.example";' in text
    assert "IndexTargets" not in text


def test_settings_are_for_the_owner_only(apt: FakeApt) -> None:
    assert (updated(apt).folder / "apt.conf").stat().st_mode & 0o077 == 0


def test_each_suite_is_a_source(apt: FakeApt) -> None:
    sources = (updated(apt, "sid", "experimental").folder / "etc/sources.list").read_text(encoding="utf-8").splitlines()
    assert [line.split("] ")[1] for line in sources] == [f"{MIRROR} sid main", f"{MIRROR} experimental main"]


def test_apt_reads_the_private_settings(apt: FakeApt) -> None:
    apt.answers("apt-get", f'echo "$APT_CONFIG" > {apt.folder}/config')
    private = updated(apt)
    assert (apt.folder / "config").read_text(encoding="utf-8").strip() == str((private.folder / "apt.conf").resolve())


def test_an_unreachable_mirror_is_told_in_apts_words(apt: FakeApt) -> None:
    apt.answers("apt-get", "echo 'W: noise' >&2; echo 'E: Could not resolve mirror.example' >&2; exit 100")
    with pytest.raises(ToolchainMissing) as raised:
        updated(apt, "sid")
    assert "loading the package lists of Debian sid failed: E: Could not resolve mirror.example" in str(raised.value)
    assert "noise" not in str(raised.value)


def test_the_newest_version_of_each_suite(apt: FakeApt) -> None:
    apt.has_versions(
        "hip | 7.2.4-1 | http://m.example/debian experimental/main amd64 Packages\n"
        "hip | 6.4.3-5 | http://m.example/debian sid/main amd64 Packages\n"
        "hip | 6.4.1-1 | http://m.example/debian sid/main amd64 Packages\n"
    )
    assert updated(apt).versions("hip") == {"experimental": "7.2.4-1", "sid": "6.4.3-5"}


def test_download_fetches_both_kinds(apt: FakeApt, tmp_path: Path) -> None:
    for name in ("alone", "with"):
        apt.add_package(name, "1.0", {f"usr/share/{name}": name})
    into = tmp_path / "into"
    found = updated(apt).download("sid", alone=["alone"], with_dependencies=["with"], into=into)
    assert [path.name for path in found] == ["alone_1.0_amd64.deb", "with_1.0_amd64.deb"]
    assert any(
        call.startswith("apt-get install --yes --download-only") and " -t sid with" in call for call in apt.calls
    )
    assert "apt-get download -t sid alone" in apt.calls


def test_a_missing_package_is_named(apt: FakeApt, tmp_path: Path) -> None:
    with pytest.raises(ToolchainMissing, match="downloading nothing-so-named failed: E: no nothing-so-named"):
        updated(apt).download("sid", alone=["nothing-so-named"], with_dependencies=[], into=tmp_path / "into")


def test_a_broken_package_is_named(tmp_path: Path) -> None:
    package = tmp_path / "broken_1_amd64.deb"
    package.write_bytes(b"not an archive")
    with pytest.raises(ToolchainMissing, match=r"unpacking broken_1_amd64\.deb failed"):
        unpack_deb(package, tmp_path / "root")
