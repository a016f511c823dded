"""Manifests and cargo configuration: the feature, the dependency, the targets, the environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.candle import manifest
from codegen.patch.attributed_text import EditedText, rewritten
from codegen.patch.changes import Origin

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codegen.candle.tree import CandleTree, Crate
    from codegen.spec.kinds import Runtime
    from codegen.spec.loaded import LoadedSpecs
    from codegen.spec.model import CargoFeature, PhaseSpec

ROOT = "Cargo.toml"
CONFIG = ".cargo/config.toml"


def manifests(
    tree: CandleTree, phase: PhaseSpec, specs: LoadedSpecs, runtime: Runtime, state: Mapping[str, EditedText]
) -> dict[str, EditedText]:
    """Every manifest and configuration file that the phase changes; `state` is what earlier phases left.

    Crates that the tree does not have are passed over. Raises `Conflict` where an entry is there already in another
    form.
    """
    rocm = {crate.name for crate in specs.candle.crates if crate.rocm}
    crates = {crate.name: crate for crate in tree.crates if crate.name in rocm}
    files = _Files(tree, phase.phase, specs, state)
    for dependency in phase.cargo.dependencies:
        if dependency.is_for(runtime) and dependency.crate in crates:
            path = crates[dependency.crate].manifest
            workspace = manifest.add_workspace_dependency(
                files.text(ROOT) or "",
                dependency.name,
                dependency.version,
                default_features=dependency.default_features,
                features=dependency.features,
            )
            files.put(ROOT, workspace, dependency.id)
            own = manifest.add_optional_dependency(files.text(path) or "", dependency.name, file=path)
            files.put(path, own, dependency.id)
    for feature in (feature for feature in phase.cargo.features if feature.is_for(runtime)):
        for crate in crates.values():
            entries = feature_entries(feature, crate, crates)
            if entries is not None:
                path = crate.manifest
                text = files.text(path) or ""
                changed = manifest.add_feature(text, feature.name, entries, after=feature.mirrors, file=path)
                files.put(path, changed, feature.id)
    for target in phase.cargo.targets:
        if target.is_for(runtime) and target.crate in crates:
            path = crates[target.crate].manifest
            text = files.text(path) or ""
            changed = manifest.add_target(text, target.name, target.required_features, kind=target.kind, file=path)
            files.put(path, changed, target.id)
    for entry in (entry for entry in phase.cargo.config if entry.is_for(runtime)):
        changed = manifest.set_config(files.text(CONFIG), entry.table, entry.key, entry.value, comment=entry.reason)
        files.put(CONFIG, changed, entry.id)
    return files.changed


class _Files:
    """The TOML files of a tree while a phase changes them."""

    def __init__(self, tree: CandleTree, phase: int, specs: LoadedSpecs, state: Mapping[str, EditedText]) -> None:
        self._tree = tree
        self._phase = phase
        self._specs = specs
        self._state = state
        self.changed: dict[str, EditedText] = {}

    def text(self, path: str) -> str | None:
        """What the file holds by now, None where there is no such file."""
        known = self.changed.get(path) or self._state.get(path)
        if known is not None:
            return known.text
        return self._tree.read(path).decode() if self._tree.exists(path) else None

    def put(self, path: str, text: str, rule: str) -> None:
        """Take `text`, which the rule made, for the file; nothing happens where it is what the file holds."""
        before = self.text(path)
        if text != before:
            known = self.changed.get(path) or self._state.get(path) or EditedText(before or "", ())
            self.changed[path] = rewritten(known, text, Origin(rule, self._specs.where(rule), self._phase))


def feature_entries(feature: CargoFeature, crate: Crate, crates: Mapping[str, Crate]) -> list[str] | None:
    """What the mirrored feature switches on in a crate, or None where the crate has no CUDA sibling.

    Entries of other crates of the workspace that have a ROCm story (`candle-nn/cuda`, or `candle-nn?/cuda` for an
    optional one) are renamed; CUDA's own dependencies are dropped. `candle` is what Candle's crates call candle-core.
    """
    if feature.mirrors not in crate.features:
        return None
    entries = list(feature.extra.get(crate.name, ()))
    for entry in crate.features[feature.mirrors]:
        dependency, _, name = entry.partition("/")
        if name == feature.mirrors and dependency.removesuffix("?") in {"candle", *crates}:
            entries.append(f"{dependency}/{feature.name}")
    return entries
