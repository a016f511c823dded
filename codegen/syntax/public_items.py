"""The public items of a crate: what a program can name or call, by every path that leads to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from posixpath import normpath
from typing import TYPE_CHECKING

from codegen.errors import InputOutputError
from codegen.syntax.cfg import holds
from codegen.syntax.declared import TYPES, Declared, Impl, Used, items_in, own_gate
from codegen.syntax.source import path_attribute, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from tree_sitter import Node

    from codegen.errors import Location
    from codegen.syntax.source import Source

DEEPEST = 12
"""Modules inside one another, re-exports included."""
MOST_STEPS = 100_000
"""Paths that are followed, and globs that are looked into."""


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
    _source: Source = field(repr=False)
    _node: Node = field(repr=False)
    _declared: Declared | None = field(default=None, repr=False)
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
    paths: dict[str, None] = field(default_factory=dict)
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
    modules: dict[str, _Module] = field(default_factory=dict)
    uses: list[Used] = field(default_factory=list)
    aliases: dict[str, list[Used]] = field(default_factory=dict)
    """The same by what they are called."""
    impls: list[Impl] = field(default_factory=list)
    paths: dict[str, None] = field(default_factory=dict)
    public: bool = True


def public_items(
    crate: str, root: str, source_of: Callable[[str], Source | None], options: Collection[str]
) -> tuple[PublicItem, ...]:
    """The public items of a crate, sorted by path.

    `crate` is its name in Rust, `root` the path of its lib.rs, `source_of` gives a file or None, and `options`
    are what `cfg` finds set, written as in `codegen.syntax.cfg.holds`.

    Implementations of traits are not listed, nor what macros make. A file that is not there has no items.
    Raises InputOutputError where re-exports make too many paths.
    """
    reader = _Reader(source_of, options)
    top = reader.module(root, (), (), None)
    if top is None:
        return ()
    reader.attach()
    reader.exported(crate)
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
        self._meant: dict[tuple[int, str], Sequence[_Entity | _Module]] = {}
        self._steps = 0
        self.foreign: dict[tuple[int, str], tuple[Used, _Module, list[str]]] = {}

    def module(
        self, file: str, path: tuple[str, ...], gates: tuple[str, ...], parent: _Module | None, *, named: bool = False
    ) -> _Module | None:
        """The module in a file, which `named` by an attribute counts as a mod.rs; None where there is no such file, or
        it is switched off.
        """
        source = self._source_of(file)
        if source is None:
            return None
        own = own_gate(source.root)
        if not self.on(own):
            return None
        stem = file.removesuffix(".rs")
        folder = file.rpartition("/")[0] if named or stem.endswith(("/mod", "/lib")) else stem
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
                module.aliases.setdefault(item.alias, []).append(item)
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
        elif (named := path_attribute(item.node)) is not None:
            beside = module.source.path.rpartition("/")[0] if module.node is module.source.root else module.folder
            child = self.module(normpath(f"{beside}/{named}"), path, gates, module, named=True)
        else:
            where = (f"{module.folder}/{item.name}.rs", f"{module.folder}/{item.name}/mod.rs")
            child = next((found for each in where if (found := self.module(each, path, gates, module))), None)
        if child is not None:
            child.public = item.public
            module.modules[item.name] = child

    def attach(self) -> None:
        """Give types what their `impl` blocks have."""
        for module in self.all:
            for block in module.impls:
                for entity in self.resolve(module, block.target):
                    if isinstance(entity, _Entity) and entity.declared.kind in TYPES:
                        entity.members += [(each, module, block.gate) for each in block.members if each.public]
                        break

    def resolve(self, module: _Module, target: tuple[str, ...]) -> list[_Entity | _Module]:
        """What a path in a module leads to, in every namespace; nothing for what another crate has."""
        places: list[_Entity | _Module] = [module] if target else []
        for segment in target:
            modules = [place for place in places if isinstance(place, _Module)]
            places = _once(found for place in modules for found in self._next(place, segment))
        return places

    def _next(self, module: _Module, segment: str) -> Sequence[_Entity | _Module]:
        match segment:
            case "crate":
                return (self.all[0],)
            case "self":
                return (module,)
            case "super":
                return (module.parent,) if module.parent is not None else ()
        return self._named(module, segment)

    def _named(self, module: _Module, name: str) -> Sequence[_Entity | _Module]:
        """What a name means in a module; found once, and nothing while it is being looked for."""
        key = (id(module), name)
        if key not in self._meant:
            self._meant[key] = ()
            found: list[_Entity | _Module] = list(module.names.get(name, ()))
            if name in module.modules:
                found.append(module.modules[name])
            for used in module.aliases.get(name, ()):
                if used.target != (name,):
                    found += self.resolve(module, used.target)
            for used in module.aliases.get("*", ()):
                self.step()
                for place in self.resolve(module, used.target):
                    found += self._named(place, name) if isinstance(place, _Module) else ()
            self._meant[key] = _once(found)
        return self._meant[key]

    def step(self) -> None:
        """Count one more path or glob. Raises InputOutputError where there are too many."""
        self._steps += 1
        if self._steps > MOST_STEPS:
            remedy = "look for modules that re-export one another"
            raise InputOutputError(f"{self.all[0].source.path}: too many paths lead to its items", remedy=remedy)

    def reach(self, entity: _Entity, path: str) -> None:
        """Note that a path leads to an item. Raises as `step`."""
        self.step()
        entity.paths[path] = None

    def exported(self, crate: str) -> None:
        """Let exported macros count, which stand at the root from wherever they are."""
        for module in self.all:
            for entity in (each for entities in module.names.values() for each in entities):
                if entity.declared.exported:
                    self.reach(entity, f"{crate}::{entity.declared.name}")

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
                            other.paths["::".join((crate, *other.module.path, other.declared.name))] = None
                            other.hidden = True
                            waiting.append(other)


def _once(found: Iterable[_Entity | _Module]) -> list[_Entity | _Module]:
    return list({id(each): each for each in found}.values())


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
    """Give a module, and everything that is public in it, the paths by which it is reached from there."""
    reader.step()
    if id(module) not in through and len(through) <= DEEPEST and path not in module.paths:
        module.paths[path] = None
        _lead_inside(reader, module, path, (*through, id(module)))


def _lead_inside(reader: _Reader, module: _Module, path: str, inside: tuple[int, ...]) -> None:
    """As `_lead`, for what is in the module only: what `pub use module::*` makes public."""
    for name, entities in module.names.items():
        for entity in entities:
            if entity.declared.public:
                reader.reach(entity, f"{path}::{name}")
    for name, child in module.modules.items():
        if child.public:
            _lead(reader, child, f"{path}::{name}", inside)
    for used in module.uses:
        if used.public:
            _lead_used(reader, module, used, path, inside)


def _lead_used(reader: _Reader, module: _Module, used: Used, path: str, inside: tuple[int, ...]) -> None:
    places = [] if used.target == (used.alias,) else reader.resolve(module, used.target)
    for place in places:
        if isinstance(place, _Module):
            if used.alias != "*":
                if place.public:
                    _lead(reader, place, f"{path}::{used.alias}", inside)
            elif id(place) not in inside and len(inside) <= DEEPEST:
                reader.step()
                _lead_inside(reader, place, path, (*inside, id(place)))
        elif place.declared.public:
            reader.reach(place, f"{path}::{used.alias}")
    if not places and used.alias != "*":
        key = (id(module), used.alias)
        reader.foreign.setdefault(key, (used, module, []))[2].append(f"{path}::{used.alias}")


def _ordered(paths: Iterable[str]) -> tuple[str, ...]:
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
