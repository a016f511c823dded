"""What becomes of each place of a program's file that knows about CUDA: a twin, a wider condition, or nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING

from codegen.syntax import verbs
from codegen.syntax.cfg import holds
from codegen.syntax.conditions import widen_gate
from codegen.syntax.constructs import item_name, name_of
from codegen.syntax.edit import CannotMirror, Style, TextEdit, indent_at, site_node, with_newlines_of
from codegen.syntax.imports import extend_imports
from codegen.syntax.items import insert_item, refuse_expression, refuse_value
from codegen.syntax.port_twins import ALONE, GATE, Left, Twins, clashes
from codegen.syntax.rename import CUDA, ROCM, rename
from codegen.syntax.sites import find_sites
from codegen.syntax.source import Source, attributes_of, cfg_predicate, path_attribute, text_of, unit_start

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

    from codegen.syntax.site import Site

MIRRORED, WIDENED, LEFT, BY_HAND, STUB = "mirrored", "widened", "left", "by hand", "stub"
"""Outcomes: a copy with ROCm's names; asks for ROCm as well; nothing to do; for a person; a function without a body."""
TAUGHT = "CUDA's code has an arm for ROCm, too: rustc demands one for every variant"
_ATOM = re.compile(r'\w+\s*=\s*"[^"]*"|\b(?!all\b|any\b|not\b|true\b)[a-z_]\w*\b')
_CUDA = 'feature="cuda"'
_FEATURE = re.compile(rb'feature\s*=\s*"cuda"')
_MOST_ATOMS = 10
_TWINS = frozenset({"fn", "fwd", "static", "enum", "macro-rules", "mod"})
_NAMED_AFTER = {
    **dict.fromkeys(("struct_item", "enum_item", "union_item", "type_item", "trait_item"), ("name",)),
    "impl_item": ("type", "trait"),
}
"""Items that are called after CUDA if one of these parts is."""
_STRINGS = frozenset({"string_literal", "string_content", "raw_string_literal", "char_literal"})
_TEXT_KINDS = frozenset({"text", "macro-arg", "statement"})


@dataclass(frozen=True, slots=True)
class Outcome:
    """What becomes of one place."""

    start: int
    what: str
    """What stands there, such as `fn cuda_fwd`."""
    outcome: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Module:
    """A module in a file of its own that needs a twin."""

    name: str
    path: str | None
    """What its `#[path]` says."""
    start: int


@dataclass(frozen=True, slots=True)
class FilePort:
    """The edits of a file, what they come to, and which modules need files."""

    edits: tuple[TextEdit, ...]
    outcomes: tuple[Outcome, ...]
    modules: tuple[Module, ...]
    clash: str = ""
    """A name that an item and its twin both have, so that only one of them can be compiled."""


def port_file(twins: Twins, twin_files: dict[str, str]) -> FilePort:
    """The port of a file that is there for other backends, too.

    `twin_files` has, by the name of a module that is there for CUDA alone, the file of its twin as `#[path]` names it;
    empty where the module's renamed name leads there.
    """
    return _Port(twins, twin_files).run(find_sites(twins.source))


def modules_of(source: Source) -> Iterator[Module]:
    """The modules that a file declares to be in files of their own."""
    for node in source.root.children:
        if node.type == "mod_item" and node.child_by_field_name("body") is None:
            yield Module(name_of(node), path_attribute(node), node.start_byte)


def cuda_modules(source: Source) -> Iterator[Module]:
    """Those that are there for CUDA alone: by their `cfg`, or by their name."""
    for node in source.root.children:
        if node.type == "mod_item" and node.child_by_field_name("body") is None:
            named = CUDA.lower in name_of(node) and not _asks(cfg_predicate(node))
            if named or _asks(cfg_predicate(node)) == "requires":
                yield Module(name_of(node), path_attribute(node), node.start_byte)


def _asks(predicate: str) -> str:
    """Whether a predicate `requires` CUDA's feature, `forbids` it, or `knows` it; empty where it does not."""
    atoms = ["".join(each.split()) for each in dict.fromkeys(_ATOM.findall(predicate))]
    if _CUDA not in atoms:
        return ""
    others = [each for each in atoms if each != _CUDA]
    if len(others) > _MOST_ATOMS:
        return "knows"
    whole = f"all({predicate})"
    chosen = [[o for o, on in zip(others, on_off, strict=True) if on] for on_off in product((0, 1), repeat=len(others))]
    if not any(holds(whole, each) for each in chosen):
        return "requires"
    return "knows" if any(holds(whole, [*each, _CUDA]) for each in chosen) else "forbids"


class _Port:
    def __init__(self, twins: Twins, twin_files: dict[str, str]) -> None:
        self.source = twins.source
        self.twins = twins
        self.style = Style(protected=frozenset({*twins.names.lacking, *twins.lacking}), rename=twins.renamed)
        self.twin_files = twin_files
        self.edits: list[TextEdit] = []
        self.outcomes: list[Outcome] = []
        self.modules: list[Module] = []
        self.clash = ""
        self._made: list[str] = []
        """Generated text, for what it calls."""

    def run(self, sites: tuple[Site, ...]) -> FilePort:
        later = []
        named = self._named()
        for site in sites:
            if any(start <= site.start < end for start, end in named):
                continue
            if site.within is None and not (site.kind == "use" and not site.gate):
                self._take(site, self.source)
            elif site.within is None:
                later.append(site)
        for site in later:
            self._import(site)
        return FilePort(tuple(self.edits), tuple(self.outcomes), tuple(self.modules), self.clash)

    def _named(self) -> list[tuple[int, int]]:
        """Where types of the program's own are that are called after CUDA, and what is implemented for such."""
        found = []
        for node in self.source.root.children:
            header = [node.child_by_field_name(each) for each in _NAMED_AFTER.get(node.type, ())]
            if _asks(cfg_predicate(node)) or not any(each and CUDA.camel in text_of(each) for each in header):
                continue
            text = self.source.slice(node.start_byte, node.end_byte)
            if ROCM.camel not in text and not clashes(node, self.twins.renamed):
                try:
                    self._twin_of(f"{node.type.removesuffix('_item')} {item_name(node)}", self.source, node)
                except CannotMirror as error:
                    self.outcomes.append(Outcome(node.start_byte, item_name(node), BY_HAND, str(error)))
                found.append((node.start_byte, node.end_byte))
        return found

    def _take(self, site: Site, source: Source) -> None:
        try:
            self._decide(site, source)
        except CannotMirror as error:
            self._say(site, BY_HAND, str(error))

    def _say(self, site: Site, outcome: str, note: str = "") -> None:
        known = f" {site.name}" if site.name and site.kind not in ("text", "call", "statement", "macro-arg") else ""
        shown = site.snippet if not known else ""
        self.outcomes.append(Outcome(site.start, f"{site.kind}{known}{f' `{shown}`' if shown else ''}", outcome, note))

    def _add(self, edits: list[TextEdit]) -> None:
        taken = [(each.start, each.end) for each in self.edits if each.start < each.end]
        if any(start < each.end and each.start < end for each in edits for start, end in taken):
            raise CannotMirror("another change is made there")
        self.edits += edits
        self._made += [each.text for each in edits]

    def _decide(self, site: Site, source: Source) -> None:
        if site.metal_only:
            return
        if any(start < site.end and site.start < end for start, end in source.error_ranges()):
            raise CannotMirror("the Rust grammar cannot parse it")
        if source.mentions(ROCM.lower, site.start, site.end):
            self._say(site, LEFT, "ROCm is named there already")
            return
        if site.snippet.startswith("#![") and site.name != "cfg_attr":
            raise CannotMirror("everything behind it is there for CUDA alone: make a copy of the file for ROCm")
        node = site_node(source, site)
        asks = _asks(cfg_predicate(node))
        if asks == "requires":
            self._required(site, source, node)
        elif asks == "forbids" and site.kind in _TWINS and CUDA.lower in site.name.lower():
            self._twin(site, source, node)
        elif asks:
            self._add(with_newlines_of(source, widen_gate(node, source, CUDA, anyhow=True)))
            self._say(site, WIDENED)
            self._inside(source, node)
        else:
            self._ungated(site, source, node)

    def _required(self, site: Site, source: Source, node: Node) -> None:
        """Something that is there for CUDA alone."""
        if node.type == "mod_item" and node.child_by_field_name("body") is None:
            self._module(site, source, node)
            return
        text = source.slice(node.start_byte, node.end_byte)
        words = (text_of(each) for each in self.twins.words(node))
        if self.twins.renamed(text) == text and not any(self.twins.why_not(word) for word in words):
            self._add(with_newlines_of(source, widen_gate(node, source, CUDA, anyhow=True)))
            self._say(site, WIDENED)
        else:
            self._twin(site, source, node)

    def _inside(self, source: Source, node: Node) -> None:
        """The places inside an item whose own condition was widened."""
        if not source.mentions(CUDA.lower, node.start_byte, node.end_byte):
            return
        around = bytearray(re.sub(rb"[^\n\r]", b" ", source.text))
        around[node.start_byte : node.end_byte] = source.text[node.start_byte : node.end_byte]
        alone = Source.parse(source.path, bytes(around))
        for site in find_sites(alone):
            if site.within is None:
                self._take(site, alone)

    def _twin(self, site: Site, source: Source, node: Node) -> None:
        known = len(self.outcomes)
        self._twin_of("", source, node)
        if len(self.outcomes) > known and not self.outcomes[known].what:
            first = self.outcomes.pop(known)
            self._say(site, first.outcome, first.note)

    def _twin_of(self, what: str, source: Source, node: Node) -> None:
        if self._has_twin(node):
            self.outcomes.append(Outcome(node.start_byte, what, LEFT, "ROCm's is there already"))
            return
        refuse_expression(node)
        refuse_value(node)
        if node.type == "let_declaration" and node.child_by_field_name("alternative") is not None:
            raise CannotMirror("what follows is for CUDA's storage or device only")
        twin = self.twins.of_item(node)
        if clashes(node, self.twins.renamed):
            self.clash = self.clash or name_of(node) or text_of(node).split("\n")[0]
        if twin.text.strip():
            parts = insert_item(source, node, twin.text, Style())
            self._add(with_newlines_of(source, [*twin.taught, *parts]))
            note = TAUGHT if twin.taught else ""
            self.outcomes.append(Outcome(node.start_byte, what, MIRRORED, note))
        self._tell(twin.left)

    def _has_twin(self, node: Node) -> bool:
        """Whether the file has an item of the twin's name."""
        name = name_of(node)
        pattern = rf"\b(?:fn|mod|const|static|struct|enum|type|trait|macro_rules!)\s+{re.escape(rename(name))}\b"
        return name != rename(name) and re.search(pattern.encode(), self.source.text) is not None

    def _tell(self, left: tuple[Left, ...]) -> None:
        for each in left:
            kind = STUB if each.stub else BY_HAND
            self.outcomes.append(Outcome(each.start, f"`{each.name}`", kind, each.reason))

    def _module(self, site: Site, source: Source, node: Node) -> None:
        """The declaration of a module that is in a file of its own."""
        name = name_of(node)
        found = Module(name, path_attribute(node), node.start_byte)
        if name not in self.twin_files:
            self.modules.append(found)
            self._add(with_newlines_of(source, widen_gate(node, source, CUDA, anyhow=True)))
            self._say(site, WIDENED)
            return
        path = self.twin_files[name]
        if path.startswith("!"):
            raise CannotMirror(path[1:])
        attributes = [each for each in attributes_of(node) if path_attribute_of(each) is None]
        indent = indent_at(source, unit_start(node))
        lines = [self.twins.renamed(text_of(each)) for each in attributes]
        if path:
            lines.append(f'#[path = "{path}"]')
            self.clash = self.clash or name
        lines.append(self.twins.renamed(text_of(node)))
        self._add(with_newlines_of(source, insert_item(source, node, f"\n{indent}".join(lines), Style())))
        self._say(site, MIRRORED)

    def _ungated(self, site: Site, source: Source, node: Node) -> None:
        if site.kind in ("match", "match-str"):
            self._verb(site, MIRRORED, verbs.mirror_match(source, site, self.style))
        elif site.kind in ("condition", "if-let"):
            self._condition(site, source, node)
        elif site.kind in ("matches!", "cfg!"):
            self._verb(site, WIDENED, verbs.or_in_condition(source, site, self.style))
        elif site.kind == "call":
            self._call(site, source)
        elif site.kind == "mod" and node.child_by_field_name("body") is None:
            self._module(site, source, node)
        elif site.kind in _TWINS and CUDA.lower in site.name.lower():
            if site.exhaustive:
                self._verb(site, MIRRORED, verbs.swap_function(source, site, self.style))
            else:
                self._twin(site, source, node)
        elif site.kind == "cfg-item" and site.name == "cfg_attr":
            self._verb(site, WIDENED, _widened_attribute(source, node))
        elif site.kind in _TEXT_KINDS and self._is_prose(source, site):
            self._say(site, LEFT, "a text")
        else:
            raise CannotMirror("it names CUDA where nothing asks which backend is there")

    def _condition(self, site: Site, source: Source, node: Node) -> None:
        if node.type == "let_declaration":
            raise CannotMirror("what follows is for CUDA's storage or device only")
        try:
            if site.kind == "if-let":
                raise CannotMirror("what it binds is CUDA's")
            edits, outcome = verbs.or_in_condition(source, site, self.style), WIDENED
        except CannotMirror:
            edits, outcome = verbs.chain_condition(source, site, self.style), MIRRORED
        self._verb(site, outcome, edits)

    def _call(self, site: Site, source: Source) -> None:
        try:
            edits = verbs.chain_condition(source, site, self.style)
        except CannotMirror:
            raise CannotMirror(
                f"ROCm's is `{rename(site.name)}`; a person has to say where it is to be called"
            ) from None
        self._verb(site, WIDENED, edits)

    def _verb(self, site: Site, outcome: str, edits: list[TextEdit]) -> None:
        self._add(edits)
        self._say(site, outcome)

    def _is_prose(self, source: Source, site: Site) -> bool:
        found = source.mentions(CUDA.lower, site.start, site.end)
        return all(any(each.type in _STRINGS for each in source.chain(at, at + 1)) for at in found)

    def _import(self, site: Site) -> None:
        """A declaration for every backend: ROCm's names beside CUDA's, where generated text calls them."""
        declaration = site_node(self.source, site)
        found = extend_imports(self.source, declaration, "\n".join(self._made), replace(self.style, cfg=False))
        if found:
            self.edits += with_newlines_of(self.source, found)
            self._say(site, MIRRORED)
        elif any(child.type == "visibility_modifier" for child in declaration.children):
            self._say(site, BY_HAND, "it makes CUDA's names public")
        else:
            self._say(site, LEFT, "nothing that was made here calls ROCm's names")


def _widened_attribute(source: Source, attribute: Node) -> list[TextEdit]:
    """A `cfg_attr` that asks for CUDA asks for ROCm as well."""
    asked = [match.span() for match in _FEATURE.finditer(source.text, attribute.start_byte, attribute.end_byte)]
    named = source.mentions(CUDA.lower, attribute.start_byte, attribute.end_byte)
    if len(asked) != len(named):
        raise CannotMirror("the attribute names CUDA in another way than as a feature")
    wider = 'any(feature = "cuda", feature = "rocm")'
    return [TextEdit(start, end, wider) for start, end in asked]


def path_attribute_of(attribute: Node) -> str | None:
    """The file that this attribute names, where it is `#[path = ".."]`."""
    found = re.match(r'#\[path\s*=\s*"([^"]*)"\s*\]$', text_of(attribute))
    return found[1] if found else None


__all__ = ["ALONE", "GATE", "FilePort", "Module", "Outcome", "cuda_modules", "modules_of", "port_file"]
