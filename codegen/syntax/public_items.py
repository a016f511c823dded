"""The public items of a crate: what a program can name or call, by every path that leads to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from codegen.syntax.cfg import holds
from codegen.syntax.declared import TYPES, Declared, Impl, Used, items_in, own_gate
from codegen.syntax.source import text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from tree_sitter import Node

    from codegen.errors import Location
    from codegen.syntax.source import Source

DEEPEST = 12
"""Modules inside one another, re-exports included."""


@dataclass(frozen=True, slots=True)
class PublicItem:
    """An item, or a member of one, that a program outside the crate can use."""

    kind: str
    """`fn`, `struct`, `enum`, `trait`, `variant`, `field`, `const`, `static`, `type`, `macro`, `mod`; `use` for
    what another crate has."""
    paths: tuple[str, ...]
    """`candle_core::CudaDevice`, `candle_core::cuda::CudaDevice`: the shortest first. A member has its type's."""
    parent: str
    """The first path of the type, trait or module that holds it; empty for a crate."""
    gates: tuple[str, ...]
    """The `cfg` predicates that it stands under, the outermost first."""
    _source: Source
    _node: Node
    _declared: Declared | None = None
    hidden: bool = False
    """Whether no path leads to it: a type that a public function takes or returns, in a private module."""

    @property
    def path(self) -> str:
        """Its shortest path."""
        return self.paths[0]

    @property
    def signature(self) -> str:
        """What a caller has to know besides the name; empty for modules, macros and what another crate has."""
        return self._declared.signature if self._declared is not None else ""

    @property
    def text(self) -> str:
        """The declaration with its body; empty for a module."""
        return "" if self.kind == "mod" else text_of(self._node)

    @property
    def location(self) -> Location:
        """Where it is declared; a module of its own file, at its beginning."""
        return self._source.location(self._node.start_byte)


@dataclass(eq=False)
class _Entity:
    """What a name stands for; what is known of it grows while the crate is read."""

    declared: Declared
    module: _Module
    paths: list[str] = field(default_factory=list)
    members: list[tuple[Declared, _Module, str]] = field(default_factory=list)
    """Of `impl` blocks: the member, the module of the block and the block's own predicates."""
    hidden: bool = False


@dataclass(eq=False)
class _Module:
    source: Source
    path: tuple[str, ...]
    gates: tuple[str, ...]
    parent: _Module | None
    node: Node
    folder: str
    """Where files of its modules lie."""
    names: dict[str, list[_Entity]] = field(default_factory=dict)
    modules: dict[str, tuple[_Module, bool]] = field(default_factory=dict)
    """With whether they are public."""
    uses: list[Used] = field(default_factory=list)
    impls: list[Impl] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)


def public_items(
    crate: str, root: str, source_of: Callable[[str], Source | None], options: Collection[str]
) -> tuple[PublicItem, ...]:
    """The public items of a crate, sorted by path.

    `crate` is its name in Rust, `root` the path of its lib.rs, `source_of` gives a file or None, and `options`
    are what `cfg` finds set, written as in `codegen.syntax.cfg.holds`.

    Implementations of traits are not listed, nor what macros make. A file that is not there has no items.
    """
    reader = _Reader(source_of, options)
    top = reader.module(root, (), (), None)
    if top is None:
        return ()
    reader.attach()
    _lead(reader, top, crate, ())
    reader.hidden(crate)
    found = [*_modules(reader), *_uses(reader), *_items(reader)]
    return tuple(sorted(found, key=lambda item: item.path))


class _Reader:
    """Reads modules from the root down, and resolves names in them."""

    def __init__(self, source_of: Callable[[str], Source | None], options: Collection[str]) -> None:
        self._source_of = source_of
        self._options = options
        self.all: list[_Module] = []
        self.foreign: dict[tuple[int, str], tuple[Used, _Module, list[str]]] = {}

    def module(
        self, file: str, path: tuple[str, ...], gates: tuple[str, ...], parent: _Module | None
    ) -> _Module | None:
        """The module in a file; None where there is no such file, or it is switched off."""
        source = self._source_of(file)
        if source is None:
            return None
        own = own_gate(source.root)
        if not self.on(own):
            return None
        stem = file.removesuffix(".rs")
        folder = file.rpartition("/")[0] if stem.endswith(("/mod", "/lib")) else stem
        module = _Module(source, path, (*gates, own) if own else gates, parent, source.root, folder)
        self._fill(module)
        return module

    def on(self, gate: str) -> bool:
        return not gate or holds(f"all({gate})", self._options)

    def _fill(self, module: _Module) -> None:
        self.all.append(module)
        for item in items_in(module.node):
            if not self.on(item.gate):
                continue
            if isinstance(item, Used):
                module.uses.append(item)
            elif isinstance(item, Impl):
                module.impls.append(item)
            elif item.kind == "mod":
                self._child(module, item)
            else:
                module.names.setdefault(item.name, []).append(_Entity(item, module))

    def _child(self, module: _Module, item: Declared) -> None:
        path = (*module.path, item.name)
        gates = (*module.gates, item.gate) if item.gate else module.gates
        body = item.node.child_by_field_name("body")
        child: _Module | None
        if body is not None:
            child = _Module(module.source, path, gates, module, body, f"{module.folder}/{item.name}")
            self._fill(child)
        else:
            where = (f"{module.folder}/{item.name}.rs", f"{module.folder}/{item.name}/mod.rs")
            child = next((found for each in where if (found := self.module(each, path, gates, module))), None)
        if child is not None:
            module.modules[item.name] = (child, item.public)

    def attach(self) -> None:
        """Give types what their `impl` blocks have."""
        for module in self.all:
            for block in module.impls:
                for entity in self.resolve(module, block.target):
                    if isinstance(entity, _Entity) and entity.declared.kind in TYPES:
                        entity.members += [(each, module, block.gate) for each in block.members if each.public]
                        break

    def resolve(self, module: _Module, target: tuple[str, ...], depth: int = 0) -> list[_Entity | _Module]:
        """What a path in a module leads to, in every namespace; nothing for what another crate has."""
        if not target or depth > DEEPEST:
            return []
        places: list[_Entity | _Module] = [module]
        for at, segment in enumerate(target):
            found: list[_Entity | _Module] = []
            for place in places:
                if not isinstance(place, _Module):
                    continue
                match segment:
                    case "crate":
                        found.append(self.all[0])
                    case "self":
                        found.append(place)
                    case "super":
                        found += [place.parent] if place.parent is not None else []
                    case _:
                        found += self._named(place, segment, depth, alone=at == 0 and len(target) == 1)
            places = found
        return places

    def _named(self, module: _Module, name: str, depth: int, *, alone: bool) -> list[_Entity | _Module]:
        found: list[_Entity | _Module] = list(module.names.get(name, ()))
        if name in module.modules:
            found.append(module.modules[name][0])
        for used in module.uses:
            if used.alias == name and not (alone and used.target == (name,)):
                if used.target != (name,):
                    found += self.resolve(module, used.target, depth + 1)
            elif used.alias == "*":
                for place in self.resolve(module, used.target, depth + 1):
                    if isinstance(place, _Module) and place is not module:
                        found += self._named(place, name, depth + 1, alone=alone) if depth < DEEPEST else []
        unique: dict[int, _Entity | _Module] = {id(each): each for each in found}
        return list(unique.values())

    def hidden(self, crate: str) -> None:
        """Let types count that have no path of their own, and that public functions take or return."""
        waiting = [entity for module in self.all for each in module.names.values() for entity in each if entity.paths]
        while waiting:
            entity = waiting.pop()
            own = [(entity.declared, entity.module), *((each, module) for each, module, _ in entity.members)]
            own += [(each, entity.module) for each in entity.declared.members]
            for declared, module in own:
                if declared.kind != "fn":
                    continue
                for name in _types_in(declared.node):
                    for other in self.resolve(module, (name,)):
                        if isinstance(other, _Entity) and not other.paths and other.declared.public:
                            other.paths.append("::".join((crate, *other.module.path, other.declared.name)))
                            other.hidden = True
                            waiting.append(other)


def _types_in(function: Node) -> set[str]:
    """The names of types in a function's head."""
    waiting = [child for child in function.children if child.type != "block"]
    found: set[str] = set()
    while waiting:
        node = waiting.pop()
        if node.type == "type_identifier":
            found.add(text_of(node))
        waiting += node.children
    return found


def _lead(reader: _Reader, module: _Module, path: str, through: tuple[int, ...]) -> None:
    """Give everything that is public in a module the paths by which it is reached from there."""
    if id(module) in through or len(through) > DEEPEST or path in module.paths:
        return
    module.paths.append(path)
    if not through:
        for each in reader.all:
            for entities in each.names.values():
                for entity in entities:
                    if entity.declared.exported:
                        entity.paths.append(f"{path}::{entity.declared.name}")
    inside = (*through, id(module))
    for name, entities in module.names.items():
        for entity in entities:
            if entity.declared.public:
                _reach(entity, f"{path}::{name}")
    for name, (child, public) in module.modules.items():
        if public:
            _lead(reader, child, f"{path}::{name}", inside)
    for used in module.uses:
        if used.public:
            _lead_used(reader, module, used, path, inside)


def _lead_used(reader: _Reader, module: _Module, used: Used, path: str, inside: tuple[int, ...]) -> None:
    places = [] if used.target == (used.alias,) else reader.resolve(module, used.target)
    for place in places:
        if isinstance(place, _Module):
            if used.alias != "*":
                _lead(reader, place, f"{path}::{used.alias}", inside)
            elif id(place) not in inside:
                _lead_all(reader, place, path, (*inside, id(place)))
        elif place.declared.public:
            _reach(place, f"{path}::{used.alias}")
    if not places and used.alias != "*":
        key = (id(module), used.alias)
        reader.foreign.setdefault(key, (used, module, []))[2].append(f"{path}::{used.alias}")


def _lead_all(reader: _Reader, module: _Module, path: str, inside: tuple[int, ...]) -> None:
    """As `_lead`, for `pub use module::*`: the module's items get the path, and not the module."""
    for name, entities in module.names.items():
        for entity in entities:
            if entity.declared.public:
                _reach(entity, f"{path}::{name}")
    for name, (child, public) in module.modules.items():
        if public:
            _lead(reader, child, f"{path}::{name}", inside)
    for used in module.uses:
        if used.public:
            _lead_used(reader, module, used, path, inside)


def _reach(entity: _Entity, path: str) -> None:
    if path not in entity.paths:
        entity.paths.append(path)


def _ordered(paths: list[str]) -> tuple[str, ...]:
    return tuple(sorted(paths, key=lambda path: (path.count("::"), path)))


def _parent(path: str) -> str:
    return path.rpartition("::")[0]


def _modules(reader: _Reader) -> Iterator[PublicItem]:
    for module in reader.all:
        if module.paths:
            paths = _ordered(module.paths)
            yield PublicItem("mod", paths, _parent(paths[0]), module.gates, module.source, module.node)


def _uses(reader: _Reader) -> Iterator[PublicItem]:
    for used, module, found in reader.foreign.values():
        paths = _ordered(found)
        gates = (*module.gates, used.gate) if used.gate else module.gates
        yield PublicItem("use", paths, _parent(paths[0]), gates, module.source, used.node)


def _items(reader: _Reader) -> Iterator[PublicItem]:
    entities = (entity for module in reader.all for each in module.names.values() for entity in each if entity.paths)
    for entity in entities:
        paths = _ordered(entity.paths)
        own = entity.declared
        yield _item(own, entity.module, paths, _parent(paths[0]), "", hidden=entity.hidden)
        members = [(each, entity.module, own.gate) for each in own.members]
        for member, module, gate in (*members, *entity.members):
            if reader.on(member.gate):
                through = tuple(f"{path}::{member.name}" for path in paths)
                yield _item(member, module, through, paths[0], gate, hidden=entity.hidden)


def _item(
    own: Declared, module: _Module, paths: tuple[str, ...], parent: str, gate: str, *, hidden: bool
) -> PublicItem:
    gates = tuple(each for each in (*module.gates, gate, own.gate) if each)
    return PublicItem(own.kind, paths, parent, gates, module.source, own.node, own, hidden)
