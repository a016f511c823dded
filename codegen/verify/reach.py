"""Which files of a tree a verification step compiles, and which it runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from codegen.verify.crate_targets import crate_targets, enabled_features, path_dependencies
from codegen.verify.steps import PassCriterion
from codegen.verify.test_names import platform_options
from codegen.verify.test_walk import walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codegen.verify.crate_targets import Target, View
    from codegen.verify.steps import Step

_UNIT_TESTED = ("lib", "bin")
_NO_ROCM = 'candle_rocm_absent="amdhip64"'
"""What candle-core's build script says where no ROCm is installed, as for the steps that need no device."""


@dataclass(frozen=True, slots=True)
class Reach:
    """What cargo and the programs that it starts come upon, as paths relative to the tree."""

    compiled: frozenset[str]
    """Rust files that rustc is given, manifests and build scripts."""
    ran: frozenset[str]
    """Rust files of test programs that are run."""
    crates: frozenset[str]
    """Folders of the crates that are built."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Follows the programs of one tree; each is followed once for each set of features."""

    view: View
    _files: dict[tuple[str, frozenset[str]], frozenset[str]] = field(default_factory=dict)
    _targets: dict[tuple[str, frozenset[str]], tuple[Target, ...]] = field(default_factory=dict)

    def reach(self, step: Step) -> Reach:
        """What the step reaches, where cargo gets through.

        Its crates must be folders of the tree; a step about gated examples has to be fitted to the tree.
        """
        compiled: set[str] = set()
        ran: set[str] = set()
        crates = {""}
        for crate in step.crates:
            enabled = enabled_features(self.view.manifest(crate), step.features)
            for target, tested in _built(self._targets_of(crate, enabled), step):
                files = self._followed(target.path, enabled, tested=tested, device=step.device)
                compiled |= files
                if tested and step.subcommand == "test":
                    ran |= files
            more = step.subcommand == "test" or bool(step.options)
            others = self._dependencies(crate, development=more)
            crates |= {crate, *others}
            for other in others:
                enabled = enabled_features(self.view.manifest(other), self._known(other, step))
                library = (each for each in self._targets_of(other, enabled) if each.kind == "lib")
                compiled |= {path for each in library for path in self._library(each.path, enabled, step)}
        fixed = {f"{crate}/{name}".lstrip("/") for crate in crates for name in ("Cargo.toml", "build.rs")}
        configured = ".cargo/config.toml"
        return Reach(frozenset(compiled | fixed | {configured}), frozenset(ran), frozenset(crates))

    def _targets_of(self, crate: str, enabled: frozenset[str]) -> tuple[Target, ...]:
        if (crate, enabled) not in self._targets:
            self._targets[crate, enabled] = crate_targets(self.view, crate, enabled)
        return self._targets[crate, enabled]

    def _dependencies(self, crate: str, *, development: bool) -> frozenset[str]:
        """Crates of the tree that this one is built with, and what those are built with."""
        found: set[str] = set()
        waiting = list(path_dependencies(self.view, crate, development=development))
        while waiting:
            name = waiting.pop()
            if name not in found and name != crate and self.view.read(f"{name}/src/lib.rs") is not None:
                found.add(name)
                waiting += path_dependencies(self.view, name, development=False)
        return frozenset(found)

    def _known(self, crate: str, step: Step) -> tuple[str, ...]:
        """The step's features that a dependency has too: Candle's crates pass them on under the same names."""
        own = self.view.manifest(crate).get("features", {})
        return tuple(name for name in step.features if name in own)

    def _library(self, root: str, enabled: frozenset[str], step: Step) -> frozenset[str]:
        return self._followed(root, enabled, tested=False, device=step.device)

    def _followed(self, root: str, enabled: frozenset[str], *, tested: bool, device: bool) -> frozenset[str]:
        features = {f'feature="{name}"' for name in enabled} | (set() if device else {_NO_ROCM})
        options = frozenset(platform_options() | features) - (frozenset() if tested else {"test"})
        if (root, options) not in self._files:
            self._files[root, options] = walk(self.view, root, options, {}).files
        return self._files[root, options]


def _built(targets: tuple[Target, ...], step: Step) -> Iterator[tuple[Target, bool]]:
    """The targets that cargo builds, each with whether it is built for its tests; some are built both ways."""
    everything = "--all-targets" in step.options
    for target in targets:
        tested = target.tested and step.has_program(target.kind, target.name)
        if target.kind in _UNIT_TESTED:
            yield target, False
        if target.kind in (*_UNIT_TESTED, "test"):
            if tested:
                yield target, True
        elif everything or _plural(target.kind) in step.options or step.names(target.kind, target.name):
            yield target, target.kind == "bench"


def _plural(kind: str) -> str:
    """The option that selects all targets of a kind."""
    return f"--{kind}es" if kind.endswith("ch") else f"--{kind}s"


def is_evidence(step: Step) -> bool:
    """Whether the step runs programs about the device, and judges them."""
    return step.device and step.criterion in (PassCriterion.TESTS, PassCriterion.RUNS)
