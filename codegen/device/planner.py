"""The backend's own planner of launches (planner/), through ctypes: what is launched for an operation on tensors."""

from __future__ import annotations

import ctypes
import json
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from codegen import programs
from codegen.device.hip import Launch
from codegen.device.tensor import Tensor
from codegen.errors import ToolchainMissing
from codegen.rocm.workspaces import PLANNER

if TYPE_CHECKING:
    from collections.abc import Mapping

LIBRARY = "libcandle_rocm_planner.so"
LIBRARY_VARIABLE = "CANDLE_ROCM_PLANNER"
"""Environment variable: the library to use instead of the one that is built here; for the planner's mutants."""

_ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint64, ctypes.c_bool)


class PlanRefused(ValueError):
    """The planner has no launches for an operation."""


class PlanFailed(RuntimeError):
    """The planner panicked: it has a fault."""


class Allocate(Protocol):
    """Finds room for so many bytes, all of them 0 if asked for, and returns its address."""

    def __call__(self, size: int, *, zeroed: bool) -> int: ...


def plan(
    operation: str,
    device: Mapping[str, object],
    allocate: Allocate | None = None,
    **operands: object,
) -> list[tuple[str, Launch]]:
    """The launches of an operation of planner/src/request.rs, in order, each with the family of its kernel.

    `device` has the architecture, and limits where they are not to be the backend's (planner/src/recorder.rs). Operands
    are tensors, names and numbers; bytes stand for the bits of a number. There are none where nothing is to be done.
    `allocate` is asked for workspaces, where a plan takes any; without it, their addresses are made up.

    Raises:
        Exception: whatever `allocate` raises.
        PlanFailed: the backend would panic.
        PlanRefused: the backend would refuse the operation.
        ToolchainMissing: the planner is not built, and cannot be.
    """
    given = {name: _json(operand) for name, operand in operands.items()}
    answer = _asked(json.dumps({"plan": operation, "device": dict(device), **given}), allocate)
    if "panicked" in answer:
        raise PlanFailed(answer["panicked"])
    if "refused" in answer:
        raise PlanRefused(answer["refused"])
    return [(launch["family"], _launch(launch)) for launch in answer["launches"]]


def _json(operand: object) -> object:
    if isinstance(operand, Tensor):
        view = operand.view
        return {
            "address": operand.start,
            "element": operand.dtype.name,
            "shape": view.shape,
            "strides": view.strides,
            "offset": view.offset,
        }
    if isinstance(operand, bytes):
        return list(operand)
    if isinstance(operand, dict):
        return {name: _json(each) for name, each in operand.items()}
    return [_json(each) for each in operand] if isinstance(operand, (list, tuple)) else operand


def _launch(answer: dict[str, Any]) -> Launch:
    x, y = answer["block"]
    arguments = tuple(bytes.fromhex(argument) for argument in answer["arguments"])
    return Launch(answer["symbol"], tuple(answer["grid"]), (x, y, 1), arguments, answer["lds"])


def _asked(request: str, allocate: Allocate | None) -> dict[str, Any]:
    library = _library()
    raised: list[Exception] = []

    def allocated(size: int, zeroed: Any) -> int:
        try:
            return allocate(size, zeroed=zeroed) if allocate else 0
        except Exception as error:  # it cannot pass through the library, and is raised behind it
            raised.append(error)
            return 0

    answer = library.candle_rocm_plan(request.encode(), _ALLOCATE(allocated) if allocate else _ALLOCATE())
    try:
        if raised:
            raise raised[0]
        answered: dict[str, Any] = json.loads(ctypes.string_at(answer))
        return answered
    finally:
        library.candle_rocm_plan_free(answer)


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(build_planner()))
    library.candle_rocm_plan.argtypes = [ctypes.c_char_p, _ALLOCATE]
    library.candle_rocm_plan.restype = ctypes.c_void_p
    library.candle_rocm_plan_free.argtypes = [ctypes.c_void_p]
    library.candle_rocm_plan_free.restype = None
    return library


def build_planner() -> Path:
    """The library, built where it is older than its sources. Without cargo, one that is there is used as it is.

    Raises ToolchainMissing if there is none then, or if it does not build.
    """
    if named := os.environ.get(LIBRARY_VARIABLE):
        return Path(named)
    built = PLANNER.target / "release" / LIBRARY
    if programs.find("cargo") is None:
        if not built.exists():
            raise ToolchainMissing("the planner of launches is not built", remedy="install Rust: https://rustup.rs")
        return built
    manifest = PLANNER.sources / "Cargo.toml"
    command: list[str | Path] = ["cargo", "build", "--quiet", "--release", "--locked", "--manifest-path", manifest]
    done = programs.run(command, variables=programs.environment(CARGO_TARGET_DIR=str(PLANNER.target)))
    if done.returncode != 0:
        raise ToolchainMissing(
            f"the planner of launches does not build: {programs.complains(done)}", remedy="run `make planner`"
        )
    return built
