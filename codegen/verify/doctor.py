"""The state of the machine, one check per thing that can be missing, each with its own remedy.

Phase 0's checks (ROCm, bindgen, device access) and those of the tool itself. `doctor` prints all of them, `verify
--phase 0` those about ROCm. A check never fails the run by itself: `Need` says who needs the thing.
"""

from __future__ import annotations

import platform
import re
import sys
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from codegen.errors import Problem, ToolchainMissing
from codegen.verify.nvidia import cuda_folders, nvidia_gpu_present, nvidia_gpus
from codegen.verify.target import KFD, emulator_compiler, gpu_architectures

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from codegen.verify.machine import Machine

DEFAULT_ROCM = "/opt/rocm"
SKIP_BINDGEN = "SKIP_BINDGEN"
HEADERS = ("hip/hip_runtime.h", "hip/hiprtc.h", "rocblas/rocblas.h", "miopen/miopen.h", "rocrand/rocrand.h")
LIBRARIES = ("amdhip64", "hiprtc", "rocblas", "MIOpen", "rocrand")
COLLECTIVES = "rccl"
RENDER_NODES = "/dev/dri"
LIBCLANG_FOLDERS = ("/usr/lib", "/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/llvm*/lib", "/usr/local/lib")
SHOWN_VARIABLES = ("HIP_PATH", "HIP_PLATFORM", "LIBRARY_PATH", "C_INCLUDE_PATH", "BINDGEN_EXTRA_CLANG_ARGS")
"""Users on new GPUs needed these to build (candle#3424); they are shown, not judged."""
OLDEST_PYTHON = (3, 11)


class Need(StrEnum):
    """Who needs what a check looks for."""

    TOOL = "needed"
    """Needed to generate and test, GPU or not."""
    GPU = "optional without a GPU"
    """Needed only to build for, or run on, an AMD GPU."""
    NONE = "information"


class State(StrEnum):
    """What a check found."""

    OK = "ok"
    MISSING = "missing"
    UNUSUAL = "unusual"
    """There, but worth a look: an override, a doubtful setting."""
    UNSET = "not set"
    NOT_CHECKED = "not checked"


@dataclass(frozen=True, slots=True)
class Check:
    """One finding about the machine."""

    id: str
    title: str
    need: Need
    state: State
    found: str
    """What was found: a version, a path, a list."""
    remedy: str = ""
    """What to do about it; empty when there is nothing to do."""

    @property
    def verdict(self) -> str:
        """The state in words, such as `missing (optional without a GPU)`."""
        return f"{self.state} ({self.need})" if self.state is State.MISSING else str(self.state)

    @property
    def blocks(self) -> bool:
        """True when generating and testing is impossible without it."""
        return self.state is State.MISSING and self.need is Need.TOOL


def tool_checks(machine: Machine) -> tuple[Check, ...]:
    """What generating, patching and building need on any machine."""
    return (
        _python(),
        _program(machine, "cargo", "install Rust with rustup (https://rustup.rs)"),
        _program(machine, "rustc", "install Rust with rustup (https://rustup.rs)"),
        _program(machine, "rustfmt", "rustup component add rustfmt"),
        _program(machine, "cargo-clippy", "rustup component add clippy"),
        _program(machine, "git", "install git; `apply` and `generate` use it"),
    )


def rocm_checks(machine: Machine, tree: Path | None = None) -> tuple[Check, ...]:
    """What building for and running on an AMD GPU needs; `tree` is a Candle tree whose cargo settings are read."""
    rocm = rocm_folder(machine)
    skip_bindgen = bindgen_skipped(machine, tree)
    return (
        _rocm_path(machine),
        _hipcc(machine, rocm),
        *(_header(machine, rocm, header) for header in HEADERS),
        *(_library(machine, rocm, library) for library in LIBRARIES),
        _collectives(machine, rocm),
        _library_path(machine, rocm),
        _skip_bindgen(skip_bindgen, tree),
        _bindgen(machine, skip_bindgen, tree),
        _kfd(machine),
        _render_nodes(machine),
        _architectures(machine),
        _rocblas_kernels(machine, rocm),
        _override(machine),
        _visible_devices(machine),
        _emulated_device(machine),
        _hip_on_nvidia(machine),
        *(_shown(machine, name) for name in SHOWN_VARIABLES),
    )


def all_checks(machine: Machine, tree: Path | None = None) -> tuple[Check, ...]:
    """Everything that `doctor` prints, in its order."""
    return (*tool_checks(machine), *rocm_checks(machine, tree))


def refuse_missing(checks: Iterable[Check]) -> None:
    """Raise ToolchainMissing naming everything without which generating and testing is impossible, if anything."""
    blocking = [check for check in checks if check.blocks]
    if blocking:
        raise ToolchainMissing(
            [Problem(f"{check.title}: {check.found}") for check in blocking],
            remedy="; ".join(check.remedy for check in blocking),
        )


def rocm_folder(machine: Machine) -> str:
    """ROCM_PATH, or /opt/rocm as ROCm's own tools assume."""
    return machine.variables.get("ROCM_PATH") or DEFAULT_ROCM


_ROCM_RS_ONLY = "needed with --runtime rocm-rs only, whose phase 0 sets SKIP_BINDGEN in the tree"


def bindgen_skipped(machine: Machine, tree: Path | None) -> str | None:
    """Where SKIP_BINDGEN is set: `environment`, the tree's cargo configuration, or None."""
    if machine.variables.get(SKIP_BINDGEN):
        return "environment"
    if tree is None:
        return None
    import tomllib

    for name in (".cargo/config.toml", ".cargo/config"):
        try:
            settings = tomllib.loads((tree / name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if SKIP_BINDGEN in settings.get("env", {}):
            return name
    return None


def _python() -> Check:
    found = f"{platform.python_version()} ({platform.python_implementation()})"
    state = State.OK if sys.version_info >= OLDEST_PYTHON else State.MISSING
    return Check(
        "python", "Python", Need.TOOL, state, found, "" if state is State.OK else "install Python 3.11 or newer"
    )


def _program(machine: Machine, name: str, remedy: str) -> Check:
    version = machine.first_line(name, "--version")
    if version is None:
        broken = machine.which(name) is not None
        found = "on PATH, but `--version` fails" if broken else "not on PATH"
        return Check(name, name, Need.TOOL, State.MISSING, found, remedy)
    return Check(name, name, Need.TOOL, State.OK, version)


def _rocm_path(machine: Machine) -> Check:
    title, value = "ROCM_PATH", machine.variables.get("ROCM_PATH")
    folder = rocm_folder(machine)
    exists = machine.at(folder).is_dir()
    install = "install ROCm (https://rocm.docs.amd.com), then `export ROCM_PATH=/opt/rocm`"
    if value and exists:
        return Check("rocm-path", title, Need.GPU, State.OK, value + _release(machine, folder))
    if value:
        return Check("rocm-path", title, Need.GPU, State.MISSING, f"set to {value}, which does not exist", install)
    if exists:
        found = f"not set; {DEFAULT_ROCM} exists and is used" + _release(machine, folder)
        return Check("rocm-path", title, Need.GPU, State.OK, found)
    return Check("rocm-path", title, Need.GPU, State.MISSING, f"not set, and {DEFAULT_ROCM} does not exist", install)


def _release(machine: Machine, folder: str) -> str:
    try:
        version = (machine.at(folder) / ".info/version").read_text(encoding="utf-8").strip()
    except OSError:
        return ""
    return f" (ROCm {version})"


def _hipcc(machine: Machine, rocm: str) -> Check:
    path = machine.which("hipcc")
    below = machine.at(rocm) / "bin/hipcc"
    if path is None and below.is_file():
        shown = machine.shown(below)
        remedy = f'export PATH="{rocm}/bin:$PATH"'
        return Check("hipcc", "hipcc", Need.GPU, State.MISSING, f"{shown} exists, but is not on PATH", remedy)
    if path is None:
        remedy = "install ROCm's development tools: `apt install rocm-dev` (AMD's repository) or `apt install hipcc`"
        return Check("hipcc", "hipcc", Need.GPU, State.MISSING, "not on PATH", remedy)
    version = machine.first_line("hipcc", "--version")
    if version is None:
        remedy = f"run `hipcc --version`; it must find its clang below {rocm}"
        return Check("hipcc", "hipcc", Need.GPU, State.MISSING, "on PATH, but `--version` fails", remedy)
    return Check("hipcc", "hipcc", Need.GPU, State.OK, version)


def _header(machine: Machine, rocm: str, header: str) -> Check:
    title = f"header {header}"
    for folder in (f"{rocm}/include", "/usr/include"):
        if (machine.at(folder) / header).is_file():
            return Check(f"header-{header.split('/')[1]}", title, Need.GPU, State.OK, f"{folder}/{header}")
    library = header.split("/")[0]
    package = {"miopen": "miopen-hip-dev"}.get(library, f"{library}-dev")
    return Check(
        f"header-{header.split('/')[1]}",
        title,
        Need.GPU,
        State.MISSING,
        f"not in {rocm}/include",
        f"install `{package}` from AMD's repository; if ROCm is elsewhere, set ROCM_PATH",
    )


def _library(machine: Machine, rocm: str, library: str) -> Check:
    title = f"library {library}"
    found = _library_file(machine, rocm, library)
    if found is not None:
        return Check(f"lib-{library}", title, Need.GPU, State.OK, found)
    package = {"amdhip64": "hip-runtime-amd", "hiprtc": "hip-runtime-amd", "MIOpen": "miopen-hip"}.get(library, library)
    return Check(
        f"lib-{library}",
        title,
        Need.GPU,
        State.MISSING,
        f"no lib{library}.so in {rocm}/lib or LD_LIBRARY_PATH",
        f"install `{package}` from AMD's repository; if ROCm is elsewhere, set ROCM_PATH",
    )


def _collectives(machine: Machine, rocm: str) -> Check:
    title, found = f"library {COLLECTIVES}", _library_file(machine, rocm, COLLECTIVES)
    if found is not None:
        return Check(f"lib-{COLLECTIVES}", title, Need.NONE, State.OK, found)
    why = "not found; needed with the feature rocm-rccl only, for collectives of several GPUs"
    return Check(f"lib-{COLLECTIVES}", title, Need.NONE, State.UNSET, why)


def _library_file(machine: Machine, rocm: str, library: str) -> str | None:
    for folder in _library_folders(machine, rocm):
        at = machine.at(folder)
        names = sorted(path.name for path in at.glob(f"lib{library}.so*")) if at.is_dir() else []
        if names:
            return f"{folder}/{names[0]}"
    return None


def _library_folders(machine: Machine, rocm: str) -> tuple[str, ...]:
    configured = machine.variables.get("LD_LIBRARY_PATH", "").split(":")
    usual = (f"{rocm}/lib", f"{rocm}/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib64")
    return tuple(dict.fromkeys((*usual, *(folder for folder in configured if folder.startswith("/")))))


def _library_path(machine: Machine, rocm: str) -> Check:
    title, value = "LD_LIBRARY_PATH", machine.variables.get("LD_LIBRARY_PATH", "")
    wanted = f"{rocm}/lib"
    if wanted in value.split(":"):
        return Check("ld-library-path", title, Need.GPU, State.OK, value)
    cache = machine.first_line("ldconfig", "-p") is not None and _in_loader_cache(machine)
    if cache:
        return Check("ld-library-path", title, Need.GPU, State.OK, "not needed: the loader's cache lists libamdhip64")
    if not machine.at(wanted).is_dir():
        return Check("ld-library-path", title, Need.NONE, State.UNSET, value or f"{wanted} does not exist either")
    remedy = f'export LD_LIBRARY_PATH="{wanted}:$LD_LIBRARY_PATH", or list {wanted} in /etc/ld.so.conf.d'
    return Check("ld-library-path", title, Need.GPU, State.UNUSUAL, value or "not set", remedy)


def _in_loader_cache(machine: Machine) -> bool:
    program = machine.which("ldconfig")
    return program is not None and "libamdhip64.so" in (machine.run([program, "-p"]) or "")


def _skip_bindgen(where: str | None, tree: Path | None) -> Check:
    title = SKIP_BINDGEN
    if where == "environment":
        return Check("skip-bindgen", title, Need.NONE, State.OK, "set in the environment")
    if where is not None:
        return Check("skip-bindgen", title, Need.NONE, State.OK, f"set in the tree's {where}")
    if not _links_rocm(tree):
        return Check("skip-bindgen", title, Need.NONE, State.UNSET, _ROCM_RS_ONLY)
    remedy = "apply phase 0, which sets it in .cargo/config.toml; without it rocm-rs needs libclang and ROCm's headers"
    return Check("skip-bindgen", title, Need.NONE, State.UNUSUAL, "not set in the tree's .cargo/config.toml", remedy)


def _bindgen(machine: Machine, skip_bindgen: str | None, tree: Path | None) -> Check:
    title = "libclang (for bindgen)"
    found = _libclang(machine)
    if found is not None:
        return Check("libclang", title, Need.GPU, State.OK, found)
    if skip_bindgen is not None:
        return Check("libclang", title, Need.NONE, State.OK, f"not needed: {SKIP_BINDGEN} is set")
    if not _links_rocm(tree):
        return Check("libclang", title, Need.NONE, State.UNSET, f"not found; {_ROCM_RS_ONLY}")
    remedy = f"set {SKIP_BINDGEN}=1 (rocm-rs brings its bindings), or `apt install libclang-dev` and set LIBCLANG_PATH"
    return Check("libclang", title, Need.GPU, State.MISSING, f"not found, and {SKIP_BINDGEN} is not set", remedy)


def _links_rocm(tree: Path | None) -> bool:
    """Whether a tree has the dependency of `--runtime rocm-rs`, whose build script would generate bindings."""
    if tree is None:
        return False
    try:
        return "rocm-rs" in (tree / "candle-core" / "Cargo.toml").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False


def _libclang(machine: Machine) -> str | None:
    configured = machine.variables.get("LIBCLANG_PATH")
    for folder in (configured,) if configured else LIBCLANG_FOLDERS:
        path = machine.at(folder)
        base, pattern = (machine.root, str(path.relative_to(machine.root))) if path.is_absolute() else (path, "")
        matches = base.glob(f"{pattern}/libclang*.so*" if pattern else "libclang*.so*")
        plain = sorted(match for match in matches if re.match(r"libclang(-[\d.]+)?\.so", match.name))
        if plain:
            return machine.shown(plain[0])
    return None


def _kfd(machine: Machine) -> Check:
    path = machine.at(KFD)
    if not path.exists():
        remedy = "needs an AMD GPU and the amdgpu driver (`modprobe amdgpu`); in a container: --device /dev/kfd"
        return Check("kfd", KFD, Need.GPU, State.MISSING, "does not exist", remedy)
    return _access(machine, "kfd", KFD, path)


def _render_nodes(machine: Machine) -> Check:
    folder = machine.at(RENDER_NODES)
    nodes = sorted(folder.glob("renderD*")) if folder.is_dir() else []
    if not nodes:
        remedy = "needs a GPU driver; in a container: --device /dev/dri"
        return Check("dri", RENDER_NODES, Need.GPU, State.MISSING, "no render node", remedy)
    for node in nodes:
        if not machine.accessible(node):
            return _access(machine, "dri", RENDER_NODES, node)
    return Check("dri", RENDER_NODES, Need.GPU, State.OK, ", ".join(node.name for node in nodes))


def _access(machine: Machine, identifier: str, title: str, path: Path) -> Check:
    if machine.accessible(path):
        return Check(identifier, title, Need.GPU, State.OK, "readable and writable")
    remedy = "join the groups that own it: `sudo usermod -aG render,video $USER`, then log in again"
    return Check(identifier, title, Need.GPU, State.MISSING, f"no access to {machine.shown(path)}", remedy)


def _architectures(machine: Machine) -> Check:
    found = gpu_architectures(machine)
    if found:
        return Check("gpu", "GPU architecture", Need.GPU, State.OK, ", ".join(found))
    remedy = "without an AMD GPU, steps that need one run on the emulated HIP device"
    return Check("gpu", "GPU architecture", Need.GPU, State.MISSING, "no AMD GPU answers", remedy)


def _rocblas_kernels(machine: Machine, rocm: str) -> Check:
    """rocBLAS ships kernels per architecture and aborts on others ("Cannot read TensileLibrary.dat")."""
    title, found = "rocBLAS kernels for the GPU", gpu_architectures(machine)
    folder = machine.at(rocm) / "lib/rocblas/library"
    if not found or not folder.is_dir():
        return Check("rocblas-kernels", title, Need.NONE, State.NOT_CHECKED, "no GPU or no rocBLAS to compare")
    lacking = [name for name in dict.fromkeys(found) if not any(folder.glob(f"*{name}*"))]
    if not lacking:
        return Check("rocblas-kernels", title, Need.GPU, State.OK, ", ".join(dict.fromkeys(found)))
    remedy = "update ROCm, or let the GPU pass for a supported one, e.g. HSA_OVERRIDE_GFX_VERSION=10.3.0 for gfx103x"
    return Check("rocblas-kernels", title, Need.GPU, State.MISSING, f"none for {', '.join(lacking)}", remedy)


def _override(machine: Machine) -> Check:
    title, value = "HSA_OVERRIDE_GFX_VERSION", machine.variables.get("HSA_OVERRIDE_GFX_VERSION")
    if not value:
        return Check("override", title, Need.NONE, State.UNSET, "")
    if re.fullmatch(r"\d+\.\d+\.\d+", value):
        remedy = "the GPU passes for another one; unset it if ROCm supports yours"
    else:
        remedy = "must be three numbers such as 10.3.0"
    return Check("override", title, Need.NONE, State.UNUSUAL, value, remedy)


def _visible_devices(machine: Machine) -> Check:
    names = ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
    values = {name: machine.variables[name] for name in names if name in machine.variables}
    title = "HIP_VISIBLE_DEVICES"
    if not values:
        several = len(gpu_architectures(machine)) > 1
        remedy = (
            "several GPUs: choose one with HIP_VISIBLE_DEVICES=0 (an integrated GPU may come first)" if several else ""
        )
        return Check("visible-devices", title, Need.NONE, State.UNSET, "all devices are visible", remedy)
    found = ", ".join(f"{name}={value!r}" for name, value in values.items())
    hiding = [name for name, value in values.items() if _hides_all(name, value.strip())]
    remedy = "; ".join(f"{name} hides every device: unset it" for name in hiding)
    return Check("visible-devices", title, Need.NONE, State.UNUSUAL if hiding else State.OK, found, remedy)


def _hides_all(name: str, value: str) -> bool:
    """An empty list leaves nothing to ROCr, but HIP takes its own empty variable for an unset one."""
    return value == "-1" or (not value and name == "ROCR_VISIBLE_DEVICES")


def _emulated_device(machine: Machine) -> Check:
    title, compiler = "emulated HIP device", emulator_compiler(machine)
    if compiler is None:
        remedy = "install g++: without an AMD GPU, `verify` runs the tests that need a device on the emulated one"
        return Check("emulator", title, Need.NONE, State.MISSING, "no C++ compiler", remedy)
    return Check("emulator", title, Need.NONE, State.OK, f"built when needed, compiles kernels with {compiler}")


def _hip_on_nvidia(machine: Machine) -> Check:
    title = "HIP on NVIDIA"
    if not nvidia_gpu_present(machine):
        return Check(
            "nvidia", title, Need.NONE, State.UNSET, "no NVIDIA GPU answers; `verify --target nvidia` needs one"
        )
    found = ", ".join(nvidia_gpus(machine)) or "the driver's library"
    try:
        cuda_folders(machine)
    except ToolchainMissing as missing:
        lacking = "; ".join(problem.message for problem in missing.problems)
        return Check("nvidia", title, Need.NONE, State.MISSING, f"{found}; {lacking}", missing.remedy)
    return Check("nvidia", title, Need.NONE, State.OK, f"{found}; `verify --target nvidia` runs on it")


def _shown(machine: Machine, name: str) -> Check:
    value = machine.variables.get(name)
    state = State.UNSET if value is None else State.OK
    return Check(name.lower().replace("_", "-"), name, Need.NONE, state, value or "")
