"""Debian packages without root: apt with settings, lists and a package status of its own.

The system's apt is asked two things only: which mirror it uses and how to reach it (proxies). Nothing of it is changed,
and nothing is installed; a downloaded package is unpacked into a folder with `dpkg-deb`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from codegen import programs
from codegen.errors import ToolchainMissing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MIRROR_VARIABLE = "CANDLE_ROCM_DEBIAN_MIRROR"
"""Environment variable with the address of a Debian mirror; needed where the system's own apt has none."""
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_SYSTEM = Path("/etc/apt")
_DOWNLOAD_SECONDS = 3600.0
"""ROCm's compiler is gigabytes; apt itself gives up on a mirror that says nothing."""
_TOOLS = ("apt-get", "apt-cache", "apt-config", "dpkg-deb")
_INSTALL_ROCM = "or install ROCm (https://rocm.docs.amd.com) and set ROCM_PATH"


def run_apt(command: Sequence[str], *, doing: str, environ: Mapping[str, str], cwd: Path = programs.NEUTRAL) -> str:
    """Standard output of one of apt's programs.

    Raises:
        ToolchainMissing: it could not be started or failed; the message has `doing` and apt's own complaints.
    """
    try:
        path = programs.absolute_path(environ)
        done = programs.run(
            command, cwd=cwd, variables={**environ, "PATH": path, "LC_ALL": "C"}, seconds=_DOWNLOAD_SECONDS
        )
    except OSError as cause:
        raise ToolchainMissing(
            f"{doing}: cannot start {command[0]}: {cause.strerror}",
            remedy=f"this needs Debian's apt and dpkg on the machine; install them, {_INSTALL_ROCM}",
        ) from cause
    except programs.TookTooLong as cause:
        raise programs.hangs(f"{doing}: {command[0]}", cause) from cause
    if done.returncode != 0:
        said = programs.complains(done) or programs.says(done)
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        told = [line for line in lines if line.startswith("E:")] or lines[-3:]
        raise ToolchainMissing(
            f"{doing} failed: " + ("\n".join(told) or f"{command[0]} exited with {done.returncode}"),
            remedy=f"check the network and the mirror ({MIRROR_VARIABLE} names another one), {_INSTALL_ROCM}",
        )
    return programs.says(done)


def debian_mirror(environ: Mapping[str, str]) -> str:
    """The address of a Debian mirror: `$CANDLE_ROCM_DEBIAN_MIRROR`, or the one that the system's apt uses.

    Raises:
        ToolchainMissing: there is no apt, or its sources name no Debian mirror.
    """
    missing = [tool for tool in _TOOLS if programs.find(tool, environ) is None]
    if missing:
        raise ToolchainMissing(
            f"ROCm's packages cannot be fetched without {', '.join(missing)}",
            remedy=f"use a Debian machine or container, {_INSTALL_ROCM}",
        )
    if environ.get(MIRROR_VARIABLE):
        return environ[MIRROR_VARIABLE]
    targets = run_apt(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)|$(COMPONENT)|$(ORIGIN)", "Created-By: Packages"],
        doing="asking apt for its sources",
        environ=environ,
    )
    main = [line.split("|") for line in targets.splitlines() if line.count("|") == 2 and line.split("|")[1] == "main"]
    # The origin is known only after an `apt-get update`; a path that ends so is the archive's conventional name.
    by_path = [uri for uri, _, _ in main if uri.rstrip("/").endswith("/debian")]
    by_origin = [uri for uri, _, origin in main if origin == "Debian" and "security" not in uri]
    if not by_path and not by_origin:
        raise ToolchainMissing(
            "the sources of the system's apt name no Debian mirror",
            remedy=f"set {MIRROR_VARIABLE} to the address of one, {_INSTALL_ROCM}",
        )
    return (by_path or by_origin)[0]


@dataclass(frozen=True, slots=True)
class PrivateApt:
    """An apt that knows some suites of a mirror and a machine on which nothing is installed."""

    folder: Path
    environ: Mapping[str, str]

    def update(self, mirror: str, suites: Sequence[str]) -> None:
        """Write the settings and load the suites' package lists.

        Raises:
            ToolchainMissing: a list could not be loaded or its signature is wrong.
            OSError: the folder cannot be written.
        """
        for name in (
            "etc/apt.conf.d",
            "etc/preferences.d",
            "etc/sources.list.d",
            "lists/partial",
            "cache/archives/partial",
        ):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        (self.folder / "status").write_text("", encoding="utf-8")
        signed = f" signed-by={KEYRING}" if KEYRING.exists() else ""
        sources = "".join(f"deb [arch=amd64{signed}] {mirror} {suite} main\n" for suite in suites)
        (self.folder / "etc/sources.list").write_text(sources, encoding="utf-8")
        settings = self.folder / "apt.conf"
        settings.touch(mode=0o600)  # a proxy's address may hold a password
        settings.write_text(self._settings(), encoding="utf-8")
        self._apt("apt-get", "update", doing=f"loading the package lists of Debian {', '.join(suites)}")

    def _settings(self) -> str:
        folder = self.folder.resolve()
        how_to_reach = run_apt(
            ["apt-config", "dump", "Acquire"], doing="asking apt for its settings", environ=self.environ
        )
        # The last of two equal settings counts. Index targets other than packages (icons, contents) cost time.
        inherited = [line for line in how_to_reach.splitlines() if not line.startswith("Acquire::IndexTargets")]
        own = {
            "Dir::Etc": folder / "etc",
            "Dir::Etc::trusted": _SYSTEM / "trusted.gpg",
            "Dir::Etc::trustedparts": _SYSTEM / "trusted.gpg.d",
            "Dir::Etc::netrc": _SYSTEM / "auth.conf",
            "Dir::Etc::netrcparts": _SYSTEM / "auth.conf.d",
            "Dir::State": folder,
            "Dir::State::status": folder / "status",
            "Dir::Cache": folder / "cache",
            "APT::Architecture": "amd64",
            "APT::Install-Recommends": "false",
            "APT::Sandbox::User": "",  # root's apt would hand over to a user who may not write here
            "APT::Update::Error-Mode": "any",
            "Acquire::Languages": "none",
            "Acquire::Retries": "3",
            "Acquire::http::Timeout": "30",
            # A mirror may lag behind, and a container's clock may run ahead; signatures are checked all the same.
            "Acquire::Check-Valid-Until": "false",
        }
        return (
            "\n".join([*inherited, 'APT::Architectures { "amd64"; };', *(f'{k} "{v}";' for k, v in own.items())]) + "\n"
        )

    def _apt(self, *command: str, doing: str, cwd: Path = programs.NEUTRAL) -> str:
        environ = {**self.environ, "APT_CONFIG": str((self.folder / "apt.conf").resolve())}
        return run_apt(command, doing=doing, environ=environ, cwd=cwd)

    def versions(self, package: str) -> dict[str, str]:
        """The newest version of a package by suite; suites without it are absent.

        Raises:
            ToolchainMissing: apt failed.
        """
        found: dict[str, str] = {}
        for line in self._apt("apt-cache", "madison", package, doing=f"looking up {package}").splitlines():
            _, version, source = (field.strip() for field in line.split("|"))
            suite = source.split()[1].partition("/")[0]
            found.setdefault(suite, version)
        return found

    def download(
        self, suite: str, *, alone: Sequence[str], with_dependencies: Sequence[str], into: Path
    ) -> tuple[Path, ...]:
        """Fetch packages, the latter with all that they depend on, preferring `suite`; the .deb files, sorted.

        Raises:
            ToolchainMissing: a package is not there or could not be fetched.
            OSError: `into` cannot be written.
        """
        into.mkdir(parents=True, exist_ok=True)
        if with_dependencies:
            options = ["--yes", "--download-only", "-o", f"Dir::Cache::archives={into.resolve()}"]
            (into / "partial").mkdir(exist_ok=True)
            self._apt(
                *("apt-get", "install", *options, "-t", suite, *with_dependencies),
                doing=f"downloading {', '.join(with_dependencies)} and dependencies",
            )
        if alone:
            self._apt("apt-get", "download", "-t", suite, *alone, doing=f"downloading {', '.join(alone)}", cwd=into)
        return tuple(sorted(into.glob("*.deb")))


def unpack_deb(package: Path, folder: Path) -> None:
    """Unpack one package's files below a folder. Raises `ToolchainMissing` for a broken package."""
    run_apt(
        ["dpkg-deb", "--extract", str(package.absolute()), str(folder.absolute())],
        doing=f"unpacking {package.name}",
        environ=os.environ,
    )
