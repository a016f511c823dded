"""The older versions of dependencies that a release builds with: `pins` in specs/candle.yaml.

Candle's releases carry no Cargo.lock, so cargo takes the newest version that their manifests admit, one that came out
later and no longer fits among them. Here the lock of a scratch tree is made with the older one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen import programs
from codegen.candle.lock import packages
from codegen.errors import VerificationFailed
from codegen.release import is_version, precedence
from codegen.verify.scratch import CARGO_LOCK
from codegen.verify.surroundings import inherited

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from codegen.spec.model import Pin

LINES_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Pinned:
    """A dependency of which the specs name the version, and the one that a tree was built with."""

    crate: str
    version: str
    """The one in the lock."""
    pin: str
    """The one that the specs name: another one only where the tree has a Cargo.lock of its own."""
    reason: str

    def __str__(self) -> str:
        """`built with float8 0.5.0, not the newest version that the manifests admit: REASON`."""
        if self.version == self.pin:
            return f"built with {self.crate} {self.pin}, not the newest version that the manifests admit: {self.reason}"
        own = f"built with {self.crate} {self.version}, as the tree's own {CARGO_LOCK} says"
        return f"{own}; candle-rocm builds with {self.pin} where there is none: {self.reason}"


def hold(
    root: Path,
    pins: Iterable[Pin],
    *,
    environment: Mapping[str, str],
    own_lock: bool,
    on_message: Callable[[str], None] = lambda _line: None,
) -> tuple[Pinned, ...]:
    """Make the Cargo.lock of the scratch tree `root` name the versions of `pins`, and return what it names.

    cargo is asked only for what the lock does not name yet. With `own_lock`, the lock is the user's, and stays as it
    is. A pin counts where the lock has a version that cargo takes for a compatible one, and otherwise not: a fork may
    have left the dependency, or gone on to its next major version. `environment` is laid over the process's own.

    Raises VerificationFailed with cargo's words when it cannot make such a lock.
    """
    pins = tuple(pins)
    variables = {**inherited(), **environment}
    lock = root / CARGO_LOCK
    if pins and not lock.exists():
        on_message(f"making {CARGO_LOCK}")
        _cargo(root, ("generate-lockfile",), variables, pins)
    found = []
    for pin in pins:
        locked = _locked(lock, pin)
        if locked not in (None, pin.version) and not own_lock:
            on_message(f"choosing {pin.crate} {pin.version}")
            arguments = ("update", "-p", f"{pin.crate}@{locked}", "--precise", pin.version)
            _cargo(root, arguments, variables, (pin,))
            if (locked := _locked(lock, pin)) != pin.version:
                raise _refusal((pin,), f"`cargo {' '.join(arguments)}` left {locked or 'none'}")
        if locked is not None:
            found.append(Pinned(pin.crate, locked, pin.version, pin.reason))
    return tuple(found)


def _locked(lock: Path, pin: Pin) -> str | None:
    """The version in the lock in whose place the pin's may stand; of a registry, since no other has versions."""
    try:
        found = packages(lock.read_text(encoding="utf-8"), (pin.crate,))
    except (OSError, ValueError):
        return None  # cargo says better than we what is wrong with it
    versions = (each.version for each in found if each.from_registry)
    return next((version for version in versions if _compatible(version, pin.version)), None)


def _compatible(one: str, other: str) -> bool:
    """Whether cargo has only one of the two in a lock: they agree up to the first number that is not 0."""
    return is_version(one) and is_version(other) and _series(one) == _series(other)


def _series(version: str) -> tuple[int, ...]:
    major, minor, patch, *_ = precedence(version)
    return (major,) if major else (0, minor) if minor else (0, 0, patch)


def _cargo(root: Path, arguments: tuple[str, ...], variables: Mapping[str, str], pins: tuple[Pin, ...]) -> None:
    command = ("cargo", *arguments)
    try:
        done = programs.run(command, cwd=root, variables=variables)
    except programs.TookTooLong as error:
        raise programs.hangs(" ".join(command), error) from error
    if done.returncode:
        said = "\n".join(programs.complains(done).strip().splitlines()[:LINES_SHOWN])
        raise _refusal(pins, f"`{' '.join(command)}` ended with {done.returncode}\n{said}")


def _refusal(pins: tuple[Pin, ...], why: str) -> VerificationFailed:
    wanted = ", ".join(f"{pin.crate} {pin.version}" for pin in pins)
    return VerificationFailed(
        f"cannot make a {CARGO_LOCK} with {wanted}: {why}",
        remedy="cargo needs its registry for it; `pins` in specs/candle.yaml names the version and why",
    )
