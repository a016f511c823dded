"""Stand-ins for apt's programs: shell scripts on a PATH of their own that note how they were called."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

TARGETS = """\
http://security.example/debian-security/|main|Debian
http://packages.example/prod/|main|
http://mirror.example/debian/|contrib|Debian
http://mirror.example/debian/|main|Debian
"""

_SCRIPT = """\
#!/bin/sh
echo "$(basename "$0") $*" >> {log}
{body}
"""


@dataclass(frozen=True, slots=True)
class FakeApt:
    """The folder of the stand-ins, and what they answer."""

    folder: Path

    @property
    def environ(self) -> dict[str, str]:
        """An environment in which they, and the usual small programs, are all there is."""
        return {"PATH": f"{self.folder / 'bin'}:{self.folder / 'tools'}"}

    @property
    def calls(self) -> list[str]:
        """Every call so far: program and arguments."""
        log = self.folder / "log"
        return log.read_text(encoding="utf-8").splitlines() if log.exists() else []

    @property
    def repository(self) -> Path:
        """Packages that `apt-get` has: `NAME_*.deb`."""
        return self.folder / "repository"

    def answers(self, program: str, body: str) -> None:
        """Let a program do what a piece of shell says."""
        path = self.folder / "bin" / program
        path.write_text(_SCRIPT.format(log=self.folder / "log", body=body), encoding="utf-8")
        path.chmod(0o755)

    def has_versions(self, lines: str) -> None:
        """Set the answer of `apt-cache madison`."""
        (self.folder / "madison").write_text(lines, encoding="utf-8")

    def add_package(self, name: str, version: str, files: dict[str, str]) -> None:
        """Put a real Debian package into the repository."""
        tree = self.folder / "tree" / name
        for path, text in files.items():
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            (tree / path).write_text(text, encoding="utf-8")
            (tree / path).chmod(0o755)
        (tree / "DEBIAN").mkdir(parents=True)
        control = f"Package: {name}\nVersion: {version}\nArchitecture: amd64\nMaintainer: nobody\nDescription: test\n"
        (tree / "DEBIAN/control").write_text(control, encoding="utf-8")
        package = self.repository / f"{name}_{version}_amd64.deb"
        subprocess.run(["dpkg-deb", "-Znone", "--build", tree, package], check=True, capture_output=True)


def fake_apt(folder: Path) -> FakeApt:
    """An apt whose sources have a Debian mirror, and whose downloads come from `repository`."""
    apt = FakeApt(folder)
    for name in ("bin", "tools", "repository"):
        (folder / name).mkdir(parents=True)
    for tool in ("sh", "basename", "cat", "cp", "dirname", "sed", "dpkg-deb", "tar"):
        found = shutil.which(tool)
        assert found is not None, tool
        (folder / "tools" / tool).symlink_to(found)
    apt.has_versions("libamdhip64-dev | 7.2.4-1~exp2 | http://mirror.example/debian experimental/main amd64 Packages\n")
    apt.answers("apt-cache", f"cat {folder}/madison")
    apt.answers(
        "apt-config",
        "printf '%s\\n' 'Acquire::http::Proxy \"http://proxy.example\";' 'Acquire::IndexTargets::x \"y\";'",
    )
    apt.answers(
        "apt-get",
        f"""\
take() {{ for name; do cp {apt.repository}/"$name"_*.deb "$into" || {{ echo "E: no $name" >&2; exit 100; }}; done; }}
case "$1" in
indextargets) cat {folder}/targets ;;
update) ;;
install) into=${{5#Dir::Cache::archives=}}; shift 7; take "$@" ;;
download) into=.; shift 3; take "$@" ;;
esac""",
    )
    (folder / "targets").write_text(TARGETS, encoding="utf-8")
    return apt
