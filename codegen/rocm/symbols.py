"""Names of the functions that a shared library exports, read from its dynamic symbol table.

Libraries are read where they lie, or from a Debian package without unpacking the rest of it: librocblas alone comes
with gigabytes of kernels. What a package's library exports is kept beside the package.
"""

from __future__ import annotations

import json
import re
import shutil
import tarfile
import tempfile
from pathlib import Path

from codegen import programs
from codegen.errors import InputOutputError, ToolchainMissing

_CHUNK = 1 << 20


def exported_functions(file: Path, library: str) -> frozenset[str] | None:
    """Names of the functions that `library` (`amdhip64`) exports, without those of C++ and without symbol versions.

    `file` is the shared library or a Debian package; None if the package does not contain it. Raises
    `ToolchainMissing` without readelf or dpkg-deb, and `InputOutputError` for a file that cannot be read.
    """
    if file.suffix != ".deb":
        return _functions(file)
    kept = file.with_name(f"{file.stem}.{library}.symbols.json")
    if kept.exists() and kept.stat().st_mtime_ns >= file.stat().st_mtime_ns:
        return frozenset(json.loads(kept.read_text(encoding="utf-8")))
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        unpacked = _member(file, library, Path(folder) / "library")
        if unpacked is None:
            return None
        names = _functions(unpacked)
        new = Path(folder) / "symbols"
        new.write_text(json.dumps(sorted(names)), encoding="utf-8")
        new.replace(kept)
    return names


def _member(package: Path, library: str, to: Path) -> Path | None:
    """The library inside a package, written to `to`; what comes after it in the package is not read."""
    program = _program("dpkg-deb")
    wanted = re.compile(rf"(^|/)lib{library}\.so[.0-9]*$")
    with programs.start([program, "--fsys-tarfile", package.absolute()], stdout=programs.PIPE) as unpacking:
        try:
            with tarfile.open(fileobj=unpacking.stdout, mode="r|") as archive:
                for member in archive:
                    content = archive.extractfile(member) if member.isfile() and wanted.search(member.name) else None
                    if content is not None:
                        with to.open("wb") as file:
                            shutil.copyfileobj(content, file, _CHUNK)
                        return to
        except (tarfile.TarError, OSError) as error:
            raise InputOutputError(f"cannot read {package}: {error}", remedy="fetch the package again") from error
        finally:
            unpacking.terminate()
    return None


def _functions(library: Path) -> frozenset[str]:
    done = programs.run([_program("readelf"), "--wide", "--dyn-syms", library.absolute()])
    # Num: Value Size Type Bind Vis Ndx Name
    rows = (line.split() for line in programs.says(done).splitlines())
    defined = (row[7] for row in rows if len(row) >= 8 and row[3] == "FUNC" and row[6] != "UND")
    names = frozenset(name.partition("@")[0] for name in defined)
    if done.returncode or not names:
        raise InputOutputError(
            f"cannot read the symbols of {library}: {programs.complains(done).strip() or 'it exports no function'}",
            remedy="fetch the library again",
        )
    return frozenset(name for name in names if not name.startswith("_Z"))


def _program(name: str) -> str:
    program = programs.find(name)
    if program is None:
        raise ToolchainMissing(f"{name} is not installed", remedy="install Debian's packages dpkg and binutils")
    return program
