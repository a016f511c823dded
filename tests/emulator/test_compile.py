"""hipRTC and module loading on the emulated device."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from codegen.device.hip import HipError, compile_source

if TYPE_CHECKING:
    from pathlib import Path

    from emulator.machine import Emulator

KERNEL = 'extern "C" __global__ void one(float* x) { x[threadIdx.x] = 1; }\n'
NO_BINARY = 209
INVALID_IMAGE = 200


def test_errors_have_the_program_s_name_and_line(device: Emulator) -> None:
    with pytest.raises(HipError) as caught:
        device.compile(KERNEL + "__device__ int broken() {\n  return nothing;\n}\n", "scale.hip")
    assert "scale.hip:3:10: error: 'nothing' was not declared" in str(caught.value).replace("‘", "'").replace("’", "'")


def test_headers_macros_and_unknown_options(device: Emulator) -> None:
    source = f'#include "values.h"\n#if VALUE + MORE != 5\n#error wrong\n#endif\n{KERNEL}'
    options = [f"--offload-arch={device.architecture}", "-DMORE=2", "-O3", "-ffast-math"]
    compile_source(device.libraries, "a.hip", source, {"values.h": "#define VALUE 3\n"}, options)
    with pytest.raises(HipError, match="warning: the emulator does not know the option --frobnicate"):
        compile_source(device.libraries, "a.hip", source, {}, [*options, "--frobnicate"])


def test_macros_tell_the_architecture(device: Emulator) -> None:
    device.compile(f"#ifndef __{device.architecture}__\n#error not for this device\n#endif\n{KERNEL}")


def test_code_for_another_architecture_is_refused(device: Emulator) -> None:
    other = "gfx942" if device.architecture != "gfx942" else "gfx1100"
    code = compile_source(device.libraries, "a.hip", KERNEL, {}, [f"--offload-arch={other}"])
    with pytest.raises(HipError) as caught:
        device.module(code)
    assert caught.value.code == NO_BINARY


def test_code_of_another_edition_is_refused(device: Emulator) -> None:
    """As code is that an emulated device with other headers has compiled, and that a program has kept."""
    code = device.compile(KERNEL)
    edition = _edition(code)
    assert code.count(edition) == 1
    device.module(code)
    with pytest.raises(HipError) as caught:
        device.module(code.replace(edition, edition[::-1]))
    assert caught.value.code == INVALID_IMAGE


def test_code_without_checks_is_not_taken_for_checked_code(device: Emulator, tmp_path: Path) -> None:
    unchecked = tmp_path / "unchecked.so"
    script = f"from pathlib import Path; Path({str(unchecked)!r}).write_bytes({_compiling(device)})"
    environment = os.environ | {"CANDLE_ROCM_EMULATOR_CHECK": "0"}
    subprocess.run([sys.executable, "-c", _IMPORTS + script], env=environment, check=True)

    with pytest.raises(HipError) as caught:
        device.module(unchecked.read_bytes())
    assert caught.value.code == INVALID_IMAGE


@pytest.mark.parametrize(
    ("head", "code"),
    [
        (b"\x7fELF\x02\x01\x01" + bytes(11) + (224).to_bytes(2, "little"), NO_BINARY),
        (b"__CLANG_OFFLOAD_BUNDLE__", NO_BINARY),
        (b"CCOB", NO_BINARY),
        (b"not code at all", INVALID_IMAGE),
    ],
    ids=["AMDGPU ELF", "bundle", "compressed bundle", "text"],
)
def test_images_for_real_cards_are_refused(device: Emulator, head: bytes, code: int) -> None:
    with pytest.raises(HipError) as caught:
        device.module(head + bytes(256))
    assert caught.value.code == code


def test_an_unknown_kernel_is_not_found(device: Emulator) -> None:
    module = device.module(device.compile(KERNEL))
    function = ctypes.c_void_p()
    with pytest.raises(HipError, match=r"named symbol not found \(500\)"):
        device.call("hipModuleGetFunction", ctypes.byref(function), module._module, b"two")


def test_a_source_file_is_a_module(device: Emulator, tmp_path: Path) -> None:
    (tmp_path / "one.hip").write_text('#include "two.h"\n' + KERNEL)
    (tmp_path / "two.h").write_text("#include <hip/hip_runtime.h>\n")
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    device.call("hipModuleLoad", ctypes.byref(module), str(tmp_path / "one.hip").encode())
    device.call("hipModuleGetFunction", ctypes.byref(function), module, b"one")
    with pytest.raises(HipError, match=r"file not found \(301\)"):
        device.call("hipModuleLoad", ctypes.byref(module), str(tmp_path / "absent.hip").encode())


def test_kernels_compile_once(device: Emulator, tmp_path: Path) -> None:
    """A second process finds the code in the cache: a compiler that only preprocesses is enough."""
    script = _IMPORTS + _compiling(device)
    preprocessor = tmp_path / "cxx"
    preprocessor.write_text('#!/bin/sh\ncase "$*" in *--version*|*" -E "*) exec g++ "$@";; esac\nexit 1\n')
    preprocessor.chmod(0o755)

    def compiles(compiler: str) -> bool:
        ours = {"CANDLE_ROCM_EMULATOR_CACHE": str(tmp_path / "cache"), "CANDLE_ROCM_EMULATOR_CXX": compiler}
        return subprocess.run([sys.executable, "-c", script], env=os.environ | ours, check=False).returncode == 0

    assert not compiles(str(preprocessor))
    assert compiles("g++")
    assert compiles(str(preprocessor))


def test_processes_at_once_compile_once(device: Emulator, tmp_path: Path) -> None:
    """The compiler goes on when all have preprocessed: then each of them would compile, did it not wait for another."""
    processes, preprocessed, compiled = 3, tmp_path / "preprocessed", tmp_path / "compiled"
    compiler = tmp_path / "cxx"
    compiler.write_text(
        '#!/bin/sh\ncase "$*" in\n*--version*) ;;\n'
        f'*" -E "*) echo >> {preprocessed} ;;\n'
        f"*) echo >> {compiled}; until [ $(wc -l < {preprocessed}) = {processes} ]; do :; done ;;\n"
        'esac\nexec g++ "$@"\n'
    )
    compiler.chmod(0o755)
    ours = {"CANDLE_ROCM_EMULATOR_CACHE": str(tmp_path / "cache"), "CANDLE_ROCM_EMULATOR_CXX": str(compiler)}

    command = [sys.executable, "-c", _IMPORTS + _compiling(device)]
    running = [subprocess.Popen(command, env=os.environ | ours) for _ in range(processes)]

    assert [process.wait() for process in running] == [0] * processes
    assert len(compiled.read_text().splitlines()) == 1


_IMPORTS = "from codegen.device.hip import *; from codegen.device.libraries import *\n"


def _compiling(device: Emulator) -> str:
    """An expression for the code object that another process would compile."""
    return f"compile_source(find_libraries(), 'a.hip', {KERNEL!r}, {{}}, ['--offload-arch={device.architecture}'])"


def _edition(code: bytes) -> bytes:
    found: list[bytes] = re.findall(rb"\b[0-9a-f]{64}\b", code)
    (edition,) = found
    return edition
