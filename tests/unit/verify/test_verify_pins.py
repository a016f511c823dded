"""The lock of a scratch tree, made with the versions that the specs name."""

from __future__ import annotations

import os
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

import fake_cargo
import pytest

from codegen.errors import ExitCode, VerificationFailed
from codegen.spec.loader import load_specs
from codegen.spec.model import Pin
from codegen.verify.pins import Pinned, hold

if TYPE_CHECKING:
    from pathlib import Path

PIN = Pin(crate="float8", version="0.5.0", reason="0.5.1 is for another cudarc")
CHOSEN = Pinned("float8", "0.5.0", "0.5.0", PIN.reason)
REGISTRY = "registry+https://index.example"
UPDATE = "update -p float8@0.5.1 --precise 0.5.0"

CARGO = """
    import pathlib
    lock = pathlib.Path("Cargo.lock")
    with open({asked!r}, "a") as asked:
        print(*sys.argv[1:], file=asked)
    if sys.argv[1] == "generate-lockfile":
        lock.write_text({made!r})
    else:
        old, new = sys.argv[3].partition("@")[2], sys.argv[5]
        lock.write_text(lock.read_text().replace(f'version = "{{old}}"', f'version = "{{new}}"'))
"""


def package(name: str, version: str, source: str = REGISTRY) -> str:
    return f'[[package]]\nname = "{name}"\nversion = "{version}"\n' + (f'source = "{source}"\n' if source else "")


def locked(*versions: str, source: str = REGISTRY) -> str:
    others = package("candle-core", "0.5.1", "") + package("half", "0.5.1")
    return others + "".join(package("float8", version, source) for version in versions)


@dataclass
class Scratch:
    """A scratch tree, and a cargo that makes its lock and remembers what it was asked."""

    root: Path
    record: Path
    programs: Path

    @property
    def lock(self) -> Path:
        return self.root / "Cargo.lock"

    @property
    def asked(self) -> list[str]:
        return self.record.read_text(encoding="utf-8").splitlines() if self.record.exists() else []

    def cargo_makes(self, *versions: str) -> None:
        body = textwrap.dedent(CARGO).format(asked=str(self.record), made=locked(*versions))
        fake_cargo.install(self.programs, "cargo", body)

    def cargo_is(self, body: str) -> None:
        fake_cargo.install(self.programs, "cargo", body)

    def hold(self, *pins: Pin, own_lock: bool = False) -> tuple[Pinned, ...]:
        return hold(self.root, pins, environment={}, own_lock=own_lock)


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scratch:
    root, programs = tmp_path / "scratch", tmp_path / "bin"
    root.mkdir()
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    made = Scratch(root, tmp_path / "asked", programs)
    made.cargo_makes("0.3.0", "0.5.1")
    return made


def test_the_lock_is_made_with_the_older_version_and_then_stays(scratch: Scratch) -> None:
    for _ in range(2):
        assert scratch.hold(PIN) == (CHOSEN,)
        assert 'name = "float8"\nversion = "0.3.0"' in scratch.lock.read_text(encoding="utf-8")
        assert 'name = "float8"\nversion = "0.5.0"' in scratch.lock.read_text(encoding="utf-8")
        assert scratch.asked == ["generate-lockfile", UPDATE]


def test_a_lock_that_cargo_made_before_is_brought_to_it(scratch: Scratch) -> None:
    scratch.lock.write_text(locked("0.3.0", "0.5.1"), encoding="utf-8")
    assert scratch.hold(PIN) == (CHOSEN,)
    assert scratch.asked == [UPDATE]


def test_a_lock_that_has_it_is_left_alone(scratch: Scratch) -> None:
    scratch.lock.write_text(locked("0.3.0", "0.5.0"), encoding="utf-8")
    assert scratch.hold(PIN) == (CHOSEN,)
    assert scratch.asked == []


def test_without_pins_cargo_makes_the_lock_itself(scratch: Scratch) -> None:
    assert scratch.hold() == ()
    assert (scratch.asked, scratch.lock.exists()) == ([], False)


@pytest.mark.parametrize("version", ["0.5.1", "0.5.0"])
def test_the_users_own_lock_stays_and_is_told(scratch: Scratch, version: str) -> None:
    scratch.lock.write_text(locked(version), encoding="utf-8")
    assert scratch.hold(PIN, own_lock=True) == (Pinned("float8", version, "0.5.0", PIN.reason),)
    assert (scratch.asked, scratch.lock.read_text(encoding="utf-8")) == ([], locked(version))


@pytest.mark.parametrize(
    "lock",
    [
        locked(),
        locked("0.3.0", "0.6.0", "1.5.0"),
        locked("0.5.1", source="git+https://git.example/float8"),
        locked("0.5.1", source=""),
        "no TOML [",
    ],
)
def test_a_fork_without_such_a_version_is_built_as_it_is(scratch: Scratch, lock: str) -> None:
    scratch.lock.write_text(lock, encoding="utf-8")
    assert scratch.hold(PIN) == ()
    assert scratch.asked == []


@pytest.mark.parametrize(
    ("pin", "version", "updates"),
    [
        ("0.5.0", "0.5.1", 1),
        ("0.5.0", "0.5.0-alpha.1", 1),
        ("0.5.0", "0.50.0", 0),
        ("1.2.3", "1.9.0", 1),
        ("1.2.3", "2.2.3", 0),
        ("0.0.3", "0.0.4", 0),
        ("0.0.3", "0.0.3-alpha.1", 1),
    ],
)
def test_a_version_is_replaced_by_one_that_cargo_takes_for_compatible(
    scratch: Scratch, pin: str, version: str, updates: int
) -> None:
    scratch.lock.write_text(locked(version), encoding="utf-8")
    scratch.hold(Pin(crate="float8", version=pin, reason=PIN.reason))
    assert scratch.asked == [f"update -p float8@{version} --precise {pin}"] * updates


def test_cargos_words_are_told_when_it_cannot_choose_the_version(scratch: Scratch) -> None:
    scratch.lock.write_text(locked("0.5.1"), encoding="utf-8")
    scratch.cargo_is(fake_cargo.printing([], ["    Updating index", "error: no matching package"], 101))
    with pytest.raises(VerificationFailed) as caught:
        scratch.hold(PIN)
    assert caught.value.exit_code is ExitCode.VERIFICATION_FAILED
    text = str(caught.value)
    assert f"cannot make a Cargo.lock with float8 0.5.0: `cargo {UPDATE}` ended with 101" in text
    assert "error: no matching package" in text
    assert "`pins` in specs/candle.yaml" in text


def test_cargos_words_are_told_when_it_cannot_make_a_lock(scratch: Scratch) -> None:
    scratch.cargo_is(fake_cargo.printing([], ["error: no route to the registry"], 101))
    with pytest.raises(VerificationFailed, match=r"`cargo generate-lockfile` ended with 101\n.*no route"):
        scratch.hold(PIN)


def test_a_cargo_that_leaves_the_newer_version_is_not_believed(scratch: Scratch) -> None:
    scratch.lock.write_text(locked("0.5.1"), encoding="utf-8")
    scratch.cargo_is(fake_cargo.printing([], []))
    with pytest.raises(VerificationFailed, match=rf"with float8 0\.5\.0: `cargo {UPDATE}` left 0\.5\.1"):
        scratch.hold(PIN)


def test_what_is_said_of_a_chosen_version() -> None:
    assert str(CHOSEN) == (
        "built with float8 0.5.0, not the newest version that the manifests admit: 0.5.1 is for another cudarc"
    )
    assert str(Pinned("float8", "0.5.1", "0.5.0", PIN.reason)) == (
        "built with float8 0.5.1, as the tree's own Cargo.lock says; "
        "candle-rocm builds with 0.5.0 where there is none: 0.5.1 is for another cudarc"
    )


def test_pins_are_those_of_the_version_that_candle_core_has() -> None:
    candle = load_specs().candle
    assert [(pin.crate, pin.version) for pin in candle.pins_of("0.9.2-alpha.2")] == [("float8", "0.5.0")]
    assert candle.pins_of("0.9.2") == candle.pins_of("9.9.9") == ()
