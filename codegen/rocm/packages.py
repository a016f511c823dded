"""Which of Debian's packages make up the ROCm versions that candle-rocm is checked against.

Debian stable has HIP 5.7, unstable 6.4 and experimental 7.2 (https://packages.debian.org/libamdhip64-dev). AMD's own
packages are not used: their server is not among the sources of every machine, Debian's mirrors are.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from codegen.errors import UsageError


class Part(StrEnum):
    """A part of ROCm that is fetched on its own."""

    COMPILER = "compiler"
    """clang, lld, device libraries, HIP headers, and libhiprtc with what it loads."""
    DISASSEMBLER = "disassembler"
    """llvm-objdump with its libraries. Apart because what it shows decides no code object; the newest does for all."""
    HEADERS = "headers"
    """HIP, hipRTC, rocBLAS, rocRAND, MIOpen and RCCL headers, for checks of the API table."""
    LIBRARIES = "libraries"
    """libamdhip64, libhiprtc, librocrand, libMIOpen as packages, not unpacked: only their symbols are read."""
    BLAS = "blas"
    """librocblas, likewise; apart because it is as large as everything else together."""
    COLLECTIVES = "collectives"
    """librccl, likewise."""
    TRACING = "tracing"
    """libroctx64, without which librocblas does not load."""
    PROVIDERS = "providers"
    """What libMIOpen loads besides ROCm's own libraries."""


@dataclass(frozen=True, slots=True)
class PackageSet:
    """Packages to fetch."""

    alone: tuple[str, ...] = ()
    """Just these. What they depend on is not needed for our use, and may be gigabytes."""
    with_dependencies: tuple[str, ...] = ()
    unpack: bool = True
    """Unpack them into one folder, or leave them as .deb files."""


@dataclass(frozen=True, slots=True)
class RocmRelease:
    """A ROCm version as Debian has it."""

    version: str
    """Major and minor, `7.2`."""
    suites: tuple[str, ...]
    """Debian suites to take packages from. ROCm's come from that one whose HIP has the version."""
    llvm: int
    """Major version of the clang that this HIP is built for."""
    parts: dict[Part, PackageSet]


ANCHOR = "libamdhip64-dev"
"""The package whose version says which ROCm a suite has."""


def _compiler(llvm: int, clang_library: str, gcc: int) -> PackageSet:
    return PackageSet(
        # clang's own package wants binutils and the Objective-C runtime; device code needs neither.
        alone=(f"clang-{llvm}", f"libstdc++-{gcc}-dev", f"libgcc-{gcc}-dev", "libc6-dev", "linux-libc-dev"),
        with_dependencies=(
            ANCHOR,
            clang_library,
            f"libclang-common-{llvm}-dev",
            f"lld-{llvm}",
            f"rocm-device-libs-{llvm}",
            "libtcmalloc-minimal4t64",
        ),
    )


def _disassembler(llvm: int) -> PackageSet:
    # llvm's own package wants its other tools' libraries; llvm-objdump needs these.
    return PackageSet(alone=(f"llvm-{llvm}",), with_dependencies=(f"libllvm{llvm}", "libcurl4t64"))


def _headers(*more: str) -> PackageSet:
    return PackageSet(alone=(ANCHOR, "librocblas-dev", "librocrand-dev", *more))


def _packed(*packages: str) -> PackageSet:
    return PackageSet(alone=packages, unpack=False)


# By apt's patterns: Boost's version is a part of its packages' names. The others that MIOpen depends on are ROCm's.
_NOT_OF_ROCM = ",".join(f'?name("^{name}")' for name in ("libboost-", "libbz2", "libsqlite3"))
BESIDE_MIOPEN = f"?and(?reverse-depends(?exact-name(libmiopen1)),?or({_NOT_OF_ROCM}))"

RELEASES = (
    RocmRelease(
        "5.7",
        suites=("trixie",),
        llvm=17,
        parts={
            Part.COMPILER: _compiler(17, "libclang-cpp17t64", gcc=14),
            Part.HEADERS: _headers("librccl-dev"),  # this suite has no MIOpen, and the RCCL of ROCm 5.4
            Part.LIBRARIES: _packed("libamdhip64-5", "librocrand1"),  # hipRTC is inside libamdhip64
            Part.BLAS: _packed("librocblas0"),
            Part.COLLECTIVES: _packed("librccl1"),
        },
    ),
    RocmRelease(
        "6.4",
        suites=("sid",),
        llvm=21,
        parts={
            Part.COMPILER: _compiler(21, "libclang-cpp21", gcc=16),
            Part.HEADERS: _headers("libmiopen-dev"),
            Part.LIBRARIES: _packed("libamdhip64-6", "libhiprtc6", "librocrand1", "libmiopen1"),
            Part.BLAS: _packed("librocblas4"),
        },
    ),
    RocmRelease(
        "7.2",
        suites=("sid", "experimental"),
        llvm=22,
        parts={
            Part.COMPILER: _compiler(22, "libclang-cpp22", gcc=16),
            Part.DISASSEMBLER: _disassembler(22),
            Part.HEADERS: _headers("libmiopen-dev", "librccl-dev"),
            Part.LIBRARIES: _packed("libamdhip64-7", "libhiprtc7", "librocrand1", "libmiopen1"),
            Part.BLAS: _packed("librocblas5"),
            Part.COLLECTIVES: _packed("librccl1"),
            Part.TRACING: PackageSet(alone=("libroctx64-4",)),
            Part.PROVIDERS: PackageSet(alone=(BESIDE_MIOPEN,)),
        },
    ),
)

OLDEST = RELEASES[0]
"""Its compiler, clang 17, is that of ROCm 6.0, the oldest ROCm that programs run with."""

NEWEST = RELEASES[-1]
"""The one that kernels are compiled with where the machine has no ROCm."""


def releases_with(part: Part) -> tuple[RocmRelease, ...]:
    """The releases of which we need the part."""
    if part is Part.COMPILER:
        return NEWEST, OLDEST
    return tuple(release for release in RELEASES if part in release.parts)


def rocm_release(version: str) -> RocmRelease:
    """The release with that version. Raises `UsageError` naming the known ones."""
    for release in RELEASES:
        if release.version == version:
            return release
    known = ", ".join(release.version for release in RELEASES)
    raise UsageError(f"no packages are known for ROCm {version}", remedy=f"choose one of {known}")
