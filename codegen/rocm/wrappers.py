"""Programs of an unpacked Debian root, started on a system with an older C library.

The root's programs need the root's C library. Its dynamic loader is a program itself: told where the libraries are, it
runs the others as any user, with no chroot and no change to their files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

LIBRARIES = "usr/lib/x86_64-linux-gnu"
LOADER = f"{LIBRARIES}/ld-linux-x86-64.so.2"
ALLOCATOR = f"{LIBRARIES}/libtcmalloc_minimal.so.4"
"""clang spends its time allocating: with this it takes a fifth less of it than with the C library's malloc."""

# With --argv0 and -no-canonical-prefixes, clang takes this script for itself: it finds lld beside it, and starts the
# script again for the compilation proper (-cc1), which must not get the driver's options a second time.
_CLANG = """\
#!/bin/sh
# clang of the ROCm packages unpacked in ../root, with their headers, device libraries and linker.
root=${0%/*}/../root
llvm=$root/usr/lib/llvm-@LLVM@
case "$1" in
-cc1*) ;;
*)
    set -- -no-canonical-prefixes "--sysroot=$root" "-resource-dir=$llvm/lib/clang/@LLVM@" "--rocm-path=$root/usr" \\
        "--rocm-device-lib-path=@BITCODE@" "$@"
    ;;
esac
exec "$root/@LOADER@" --library-path "$root/@LIBRARIES@" --preload "$root/@ALLOCATOR@" --argv0 "$0" \\
    "$llvm/bin/clang" "$@"
"""

_PLAIN = """\
#!/bin/sh
# @NAME@ of the packages unpacked in ../root.
root=${0%/*}/../root
exec "$root/@LOADER@" --library-path "$root/@LIBRARIES@" --argv0 "$0" "$root/usr/lib/llvm-@LLVM@/bin/@NAME@" "$@"
"""


def write_compiler(compiler: Path, llvm: int) -> None:
    """Write `bin/clang` and `bin/lld` beside `root/` in a folder; they work wherever the folder is moved.

    Raises:
        OSError: the folder cannot be written, or its root has no device libraries.
    """
    bitcode = next((path.parent for path in (compiler / "root/usr/lib").rglob("ocml.bc")), None)
    if bitcode is None:
        raise FileNotFoundError(2, "the packages have no device library ocml.bc", str(compiler / "root/usr/lib"))
    (compiler / "bin").mkdir()
    place = f"$root/{bitcode.relative_to(compiler / 'root').as_posix()}"
    _write(compiler / "bin/clang", _CLANG, llvm, ALLOCATOR=ALLOCATOR, BITCODE=place)
    _write(compiler / "bin/lld", _PLAIN, llvm)


def write_disassembler(folder: Path, llvm: int) -> None:
    """Write `bin/llvm-objdump` beside `root/` in a folder; it works wherever the folder is moved.

    Raises:
        OSError: the folder cannot be written.
    """
    (folder / "bin").mkdir()
    _write(folder / "bin/llvm-objdump", _PLAIN, llvm)


def _write(path: Path, script: str, llvm: int, **more: str) -> None:
    for key, value in {"NAME": path.name, "LLVM": str(llvm), "LOADER": LOADER, "LIBRARIES": LIBRARIES, **more}.items():
        script = script.replace(f"@{key}@", value)
    path.write_text(script, encoding="utf-8")
    path.chmod(0o755)
