"""The HIP compiler that this machine has: an installed ROCm, or the packages below build/rocm.

Looked for in this order: ROCM_PATH, /opt/rocm, hipcc on PATH, clang on PATH with the HIP headers beside it, and what
`make rocm-toolchain` unpacked.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from codegen import programs
from codegen.errors import Problem, ToolchainMissing
from codegen.rocm.fetch import fetched
from codegen.rocm.packages import NEWEST, Part
from codegen.rocm.wrappers import LIBRARIES, LOADER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from codegen.rocm.fetch import FetchedPart

HOW_TO_GET_ONE = (
    "run `make rocm-toolchain` (Debian's ROCm packages below build/, no root needed), "
    "or install ROCm (https://rocm.docs.amd.com) and set ROCM_PATH"
)
_VERSION_HEADER = "include/hip/hip_version.h"
_CLANGS = ("llvm/bin/clang++", "lib/llvm/bin/clang++", "bin/amdclang++")
"""clang of AMD's own packages, by their age."""
_DEVICE_ONLY = ("-x", "hip", "--offload-device-only", "--no-gpu-bundle-output")
_ANSWER_SECONDS = 60


@dataclass(frozen=True, slots=True)
class HipRtc:
    """libhiprtc, and how to start a program that can load it."""

    library: Path
    loader: tuple[str, ...] = ()
    """Words to put before a command so that it runs with the C library that libhiprtc needs; mostly none."""


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A compiler that turns HIP into code objects."""

    compiler: Path
    flags: tuple[str, ...]
    """What it must be told so that it finds HIP's headers and makes plain code objects (ELF, no bundle)."""
    origin: str
    """Where it was found, in words."""
    hip: str
    """Version of the HIP headers, `7.2.53211`."""
    version: str
    """The line with which the compiler names itself."""
    identity: str
    """Differs whenever the compiler, its headers or its device libraries do; part of every cache key."""
    precompiles_headers: bool
    """clang itself; hipcc's own options are in the way of precompiled headers."""
    hiprtc: HipRtc | None

    def command(self, architecture: str) -> list[str]:
        """The words of a command that compiles device code for one architecture, still without files and options."""
        return [str(self.compiler), *self.flags, f"--offload-arch={architecture}"]

    def __str__(self) -> str:
        return f"HIP {self.hip}, {self.version} ({self.origin})"


def find_toolchain(
    environ: Mapping[str, str] | None = None, *, system: Path = Path("/"), build: Path | None = None
) -> Toolchain:
    """The first compiler of the machine that works; `system` stands for `/`, `build` for `build/rocm`.

    Raises:
        ToolchainMissing: there is none; each place that was looked at is listed with what it lacks.
    """
    lacking: list[Problem] = []
    for candidate in _candidates(os.environ if environ is None else environ, system, build):
        if isinstance(candidate, Toolchain):
            return candidate
        lacking.append(Problem(candidate))
    raise ToolchainMissing([Problem("no HIP compiler"), *lacking], remedy=HOW_TO_GET_ONE)


def fetched_toolchain(part: FetchedPart) -> Toolchain:
    """The compiler of ROCm packages that `fetch` unpacked.

    Raises:
        ToolchainMissing: it does not run on this machine.
    """
    compiler = part.folder / "bin/clang"
    release = part.release.version
    found = _toolchain(compiler, part.root / "usr", _DEVICE_ONLY, f"Debian's packages of ROCm {release}", clang=True)
    if isinstance(found, str):
        raise ToolchainMissing(found, remedy=f"remove {part.folder} and run `make rocm-toolchain`")
    library = _hiprtc_library(part.root / LIBRARIES)
    loader = (str(part.root / LOADER), "--library-path", str(part.root / LIBRARIES))
    return Toolchain(
        compiler=compiler,
        flags=found.flags,
        origin=found.origin,
        hip=found.hip,
        version=found.version,
        identity=part.digest,
        precompiles_headers=True,
        hiprtc=HipRtc(library, loader) if library else None,
    )


def _candidates(environ: Mapping[str, str], system: Path, build: Path | None) -> Iterator[Toolchain | str]:
    """Compilers in order of preference, and for each place without one what is missing there."""
    if environ.get("ROCM_PATH"):
        yield _installed(Path(environ["ROCM_PATH"]).absolute(), "ROCM_PATH")
    else:
        yield "ROCM_PATH is not set"
    yield _installed(system / "opt/rocm", "/opt/rocm")
    for name in ("hipcc", "clang++"):
        program = programs.find(name, environ)
        if program is None:
            yield f"{name} is not on PATH"
            continue
        # bin/hipcc may be a link from /usr/bin into ROCm's own folder.
        compiler = Path(program).resolve() if name == "hipcc" else Path(program)
        flags = _DEVICE_ONLY if name == "hipcc" else (*_DEVICE_ONLY, f"--rocm-path={compiler.parent.parent}")
        yield _toolchain(compiler, compiler.parent.parent, flags, f"{name} on PATH", clang=name != "hipcc")
    part = fetched(NEWEST, Part.COMPILER, build)
    yield fetched_toolchain(part) if part else "`make rocm-toolchain` was not run"


def _installed(rocm: Path, origin: str) -> Toolchain | str:
    for name in _CLANGS:
        if (rocm / name).is_file():
            flags = (*_DEVICE_ONLY, f"--rocm-path={rocm}")
            return _toolchain(rocm / name, rocm, flags, origin, clang=True)
    if (rocm / "bin/hipcc").is_file():
        return _toolchain(rocm / "bin/hipcc", rocm, _DEVICE_ONLY, origin, clang=False)
    return f"{origin}: {rocm} has no compiler" if rocm.is_dir() else f"{origin}: there is no folder {rocm}"


def _toolchain(compiler: Path, rocm: Path, flags: tuple[str, ...], origin: str, *, clang: bool) -> Toolchain | str:
    hip = _hip_version(rocm / _VERSION_HEADER)
    if hip is None:
        return f"{origin}: {compiler} is there, but not {rocm / _VERSION_HEADER}"
    told = _ask_version(compiler)
    if told is None:
        return f"{origin}: {compiler} does not run"
    version = next((line for line in told.splitlines() if "clang version" in line), told.partition("\n")[0])
    libraries = (rocm / "lib", rocm / "lib64", rocm / "lib/x86_64-linux-gnu")
    library = next((found for folder in libraries if (found := _hiprtc_library(folder))), None)
    return Toolchain(
        compiler=compiler,
        # hipcc adds linker options even where nothing of the host is linked.
        flags=flags if clang else (*flags, "-Wno-unused-command-line-argument"),
        origin=origin,
        hip=hip,
        version=version.strip(),
        identity=f"{compiler}\n{told}\n{hip}",
        precompiles_headers=clang,
        hiprtc=HipRtc(library) if library else None,
    )


def _hip_version(header: Path) -> str | None:
    try:
        text = header.read_text(encoding="utf-8")
    except OSError:
        return None
    numbers = [re.search(rf"HIP_VERSION_{part}\s+(\d+)", text) for part in ("MAJOR", "MINOR", "PATCH")]
    return ".".join(number[1] for number in numbers if number)


def _ask_version(compiler: Path) -> str | None:
    try:
        done = programs.run([compiler, "--version"], seconds=_ANSWER_SECONDS)
    except (OSError, programs.TookTooLong):
        return None
    told = programs.says(done)
    return told if done.returncode == 0 and told.strip() else None


def _hiprtc_library(folder: Path) -> Path | None:
    """libhiprtc in a folder, or libamdhip64, which held hipRTC up to ROCm 5."""
    for pattern in ("libhiprtc.so.*", "libhiprtc.so", "libamdhip64.so.5"):
        found = sorted(folder.glob(pattern), key=lambda path: len(path.name))
        if found:
            return found[0]
    return None
