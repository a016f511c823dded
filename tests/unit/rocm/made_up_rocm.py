"""A ROCm of two functions: a header, a table that agrees with it, and a shared library."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

HEADER = """\
#pragma once
#include <stddef.h>
#include <stdint.h>
#define hipStreamNonBlocking 0x01
#define hipStreamLegacy ((hipStream_t)1)
#ifdef __cplusplus
extern "C" {
#endif
typedef struct ihipStream_t* hipStream_t;
typedef enum hipError_t { hipSuccess = 0, hipErrorNoDevice = 100 } hipError_t;
typedef struct hipPair { char name[6]; int32_t count; } hipPair;
typedef struct hipBits { unsigned int first : 1; unsigned int second : 1; } hipBits;
hipError_t hipFree(void* ptr);
hipError_t hipMalloc(void** ptr, size_t size);
#ifdef __cplusplus
}
#endif
"""

TABLE = """\
libraries:
  - {name: amdhip64, prefix: hip, header: hip/hip_runtime_api.h, status: hipError_t}
functions:
  - {name: hipFree, phases: [1], params: {ptr: void*}}
  - {name: hipMalloc, phases: [1], params: {ptr: void**, size: size_t}}
  - {name: hipNew, since: "7.2", phases: [1], params: {stream: hipStream_t}}
enums:
  - name: hipError_t
    values:
      hipSuccess: 0
      hipErrorNoDevice: 100
      hipErrorNew: {value: 101, since: "7.2"}
  - {name: hipMode, since: "7.2", values: {hipModeFast: 1}}
constants:
  - {about: streams, library: amdhip64, c: unsigned int, values: {hipStreamNonBlocking: 1}}
  - {about: default streams, library: amdhip64, c: hipStream_t, values: {hipStreamLegacy: 1}}
structs:
  - {name: hipBits, size: 4, bits: [first, second]}
  - name: hipPair
    size: 12
    fields:
      - {name: name, c: "char[6]", offset: 0}
      - {name: count, c: int32_t, offset: 8}
types:
  - {name: hipStream_t, c: struct ihipStream_t*}
"""

LIBRARY = """\
extern "C" int hipFree(void*) { return 0; }
extern "C" int hipMalloc(void**, unsigned long) { return 0; }
extern "C" int hipElse() { return 0; }
extern "C" int __hipRegister() { return 0; }
extern "C" int other() { return 0; }
extern "C" int puts(const char*);
extern "C" int uses() { return puts(""); }
extern "C" int hipVariable = 1;
int hipOfCpp() { return 0; }
"""


def write_headers(folder: Path, header: str = HEADER) -> Path:
    """The folder that is to be searched for headers."""
    (folder / "hip").mkdir(parents=True, exist_ok=True)
    (folder / "hip" / "hip_runtime_api.h").write_text(header)
    return folder


def build_library(folder: Path, source: str = LIBRARY) -> Path:
    """`libamdhip64.so.7.2` in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "libamdhip64.so.7.2"
    command = ["g++", "-shared", "-fPIC", "-w", "-x", "c++", "-", "-o", str(file)]
    subprocess.run(command, input=source, text=True, check=True)
    return file


def build_package(folder: Path, library: Path, name: str = "libamdhip64-7_7.2.4_amd64.deb") -> Path:
    """A Debian package with the library in its usual place."""
    content = folder / "content"
    place = content / "usr/lib/x86_64-linux-gnu"
    place.mkdir(parents=True)
    (content / "DEBIAN").mkdir()
    (content / "DEBIAN/control").write_text(
        "Package: libamdhip64-7\nVersion: 7.2.4\nArchitecture: amd64\nMaintainer: A <a@b>\nDescription: made up\n"
    )
    library.rename(place / library.name)
    (place / "libamdhip64.so").symlink_to(library.name)
    (content / "usr/share/libamdhip64.so.txt").parent.mkdir(parents=True)
    (content / "usr/share/libamdhip64.so.txt").write_text("not a library")
    package = folder / name
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", "-Zgzip", "--build", content, package], check=True, capture_output=True
    )
    return package
