"""Which of the user's environment variables reach cargo and the tests, and which would change what they prove."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from codegen.programs import absolute_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

LEFT_BEHIND = (
    # What rustc is told: `-Awarnings` or `--cap-lints=allow` leaves no lint to be found.
    "RUSTFLAGS",
    "RUSTDOCFLAGS",
    "CARGO_ENCODED_*",
    "CARGO_BUILD_*",
    "CARGO_TARGET_*_RUSTFLAGS",
    "CARGO_TARGET_*_RUNNER",
    "CARGO_PROFILE_*",
    "CLIPPY_ARGS",
    "CLIPPY_CONF_DIR",
    "RUSTC_BOOTSTRAP",
    # Where make's job server is: make keeps it from programs that it does not call itself.
    "MAKEFLAGS",
    # What libtest and pytest are told: which tests run, and how many at a time.
    "RUST_TEST_*",
    "RUST_MIN_STACK",
    "PYTEST_ADDOPTS",
    "PYTEST_PLUGINS",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD",
    # What the backend and the emulated device are told: which checks they make, where kernels come from.
    "CANDLE_ROCM_*",
)
"""Patterns of variables that are not passed on."""
VISIBLE_DEVICES = ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
"""A choice among the machine's GPUs is the user's; the emulated device has no other than the tests ask for."""
PASSED_ON = (
    "CANDLE_ROCM_EMULATOR_CACHE",
    "CANDLE_ROCM_EMULATOR_CXX",
    "CANDLE_ROCM_CACHE_DIR",
    "CANDLE_ROCM_EMULATOR_SEED",
    "CANDLE_ROCM_EMULATOR_TRACE",
    "CANDLE_ROCM_FETCH_DIR",
    "CARGO_BUILD_JOBS",
)
"""They say where files are kept, which compiler is used, how much is done at a time, and in which of many orders."""
QUIETLY = (
    "CARGO_PROFILE_DEV_OPT_LEVEL",
    "CARGO_PROFILE_DEV_DEBUG",
    "CARGO_PROFILE_DEV_LTO",
    "MAKEFLAGS",
    "CANDLE_ROCM_WORK",
    "CANDLE_ROCM_HOME",
)
"""Left behind without a word: verification has values of its own for them, or does not ask for them."""


def inherited(variables: Mapping[str, str] | None = None, *, emulated: bool = False) -> dict[str, str]:
    """The variables (the process's own by default) that reach cargo and the tests."""
    variables = os.environ if variables is None else variables
    kept = {name: value for name, value in variables.items() if not _left_behind(name, emulated=emulated)}
    return {**kept, "PATH": absolute_path(kept)} if "PATH" in kept else kept


def left_behind(variables: Mapping[str, str], *, emulated: bool = False) -> tuple[str, ...]:
    """The variables that do not reach them although they are set, for the user to know."""
    return tuple(sorted(name for name in variables if _left_behind(name, emulated=emulated) and name not in QUIETLY))


def _left_behind(name: str, *, emulated: bool) -> bool:
    patterns = (*LEFT_BEHIND, *VISIBLE_DEVICES) if emulated else LEFT_BEHIND
    return name not in PASSED_ON and _matches(name, patterns)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
