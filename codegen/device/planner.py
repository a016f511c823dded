"""The backend's own planner of launches (planner/), through ctypes: what is launched for an operation on tensors."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
from functools import cache
from typing import TYPE_CHECKING, Any

from codegen.device.hip import Launch
from codegen.device.tensor import Tensor
from codegen.errors import ToolchainMissing
from codegen.rocm.workspaces import PLANNER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

LIBRARY = "libcandle_rocm_planner.so"

_ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint64)


class PlanRefused(ValueError):
    """The planner has no launches for an operation."""


def plan(
    operation: str,
    device: Mapping[str, object],
    allocate: Callable[[int], int] | None = None,
    **operands: object,
) -> list[tuple[str, Launch]]:
    """The launches of an operation of planner/src/request.rs, in order, each with the family of its kernel.

    `device` has the architecture, and limits where they are not to be the backend's (planner/src/recorder.rs). Operands
    are tensors, names and numbers; bytes stand for the bits of a number. There are none where nothing is to be done.
    `allocate` finds room for so many bytes, where a plan takes workspaces, and returns its address; without it,
    addresses are made up.

    Raises:
        Exception: whatever `allocate` raises.
        PlanRefused: the backend would refuse the operation.
        ToolchainMissing: the planner is not built, and cannot be.
    """
    given = {name: _json(operand) for name, operand in operands.items()}
    answer = _asked(json.dumps({"plan": operation, "device": dict(device), **given}), allocate)
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
    return [_json(each) for each in operand] if isinstance(operand, (list, tuple)) else operand


def _launch(answer: dict[str, Any]) -> Launch:
    x, y = answer["block"]
    arguments = tuple(bytes.fromhex(argument) for argument in answer["arguments"])
    return Launch(answer["symbol"], tuple(answer["grid"]), (x, y, 1), arguments, answer["lds"])


def _asked(request: str, allocate: Callable[[int], int] | None) -> dict[str, Any]:
    library = _library()
    raised: list[Exception] = []

    def allocated(size: int) -> int:
        try:
            return allocate(size) if allocate else 0
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
    built = PLANNER.target / "release" / LIBRARY
    if shutil.which("cargo") is None:
        if not built.exists():
            raise ToolchainMissing("the planner of launches is not built", remedy="install Rust: https://rustup.rs")
        return built
    manifest = PLANNER.sources / "Cargo.toml"
    command = ["cargo", "build", "--quiet", "--release", "--locked", "--manifest-path", str(manifest)]
    environment = {**os.environ, "CARGO_TARGET_DIR": str(PLANNER.target)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ToolchainMissing(
            f"the planner of launches does not build: {done.stderr.strip()}", remedy="run `make planner`"
        )
    return built
