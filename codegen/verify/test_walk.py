"""The tests of one test program: its modules and macros followed from its root file, as rustc would."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from posixpath import normpath
from typing import TYPE_CHECKING

from codegen.syntax.cfg import holds
from codegen.syntax.test_items import Attribute, Function, Invocation, Items, Macro, Module, items_of, split_at_commas

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from codegen.syntax.test_items import Item
    from codegen.verify.crate_targets import View

TEST_DEVICE = "test_device"
"""Candle's macro that makes a test for each backend from one function."""
MAKES_TEST = re.compile(r"#\[\s*(?:\w+::)*test\b")
DEEPEST = 16

Macros = dict[str, Macro]


@dataclass(frozen=True, slots=True)
class FoundTest:
    """A test as libtest names it, without the name of its program."""

    name: str
    path: str
    """The file that it, or the macro call that makes it, stands in."""
    ignored: bool = False
    should_panic: bool = False
    """libtest writes ` - should panic` behind such a test's name where it says what came of it."""


@dataclass(frozen=True, slots=True)
class Walk:
    """What a program's root file leads to."""

    tests: tuple[FoundTest, ...]
    device_tests: tuple[FoundTest, ...]
    """What `test_device!` would add were `feature="cuda"` on: one for each of its calls that is compiled."""
    files: frozenset[str]
    """Those that are part of the program."""
    unread: tuple[str, ...]
    """`file: macro!` of calls that make tests in a way that is not understood here."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an item stands."""

    path: str
    folder: str
    """Where files of modules that are declared here lie."""
    modules: tuple[str, ...] = ()
    calls: int = 0
    """How many macros it came from."""


def exported_macros(view: View, folders: Iterable[str]) -> Macros:
    """The `#[macro_export]`ed macros of some crates, by their names."""
    found: Macros = {}
    for folder in folders:
        for path in view.sources(f"{folder}/src"):
            content = view.read(path) or b""
            if b"macro_export" in content:
                found |= {
                    macro.name: macro
                    for macro in _macros(items_of(content).items)
                    if any(each.path == "macro_export" for each in macro.attributes)
                }
    return found


def walk(view: View, root: str, options: frozenset[str], macros: Mapping[str, Macro]) -> Walk:
    """Follow the program whose root file is `root`, compiled with these `cfg` options.

    `macros` are those of other crates.
    """
    one = _Walker(view, options, dict(macros))
    one.file(root, _Place(root, root.rpartition("/")[0]))
    return Walk(tuple(one.tests), tuple(one.device_tests), frozenset(one.files), tuple(one.unread))


def _macros(items: Iterable[Item]) -> Iterator[Macro]:
    for item in items:
        if isinstance(item, Macro):
            yield item
        elif isinstance(item, Module) and item.items is not None:
            yield from _macros(item.items)


class _Walker:
    """A macro counts from its definition on, wherever in the program that stands: rustc refuses what does not fit."""

    def __init__(self, view: View, options: frozenset[str], macros: Macros) -> None:
        self._view = view
        self._options = options
        self._macros = macros
        self.tests: list[FoundTest] = []
        self.device_tests: list[FoundTest] = []
        self.files: set[str] = set()
        self.unread: list[str] = []

    def file(self, path: str, place: _Place) -> None:
        content = self._view.read(path)
        if content is None:
            self.unread.append(f"{path}: is not there")
            return
        items = items_of(content)
        if self._compiled(items.attributes):
            self.files.add(path)
        self.follow(items, place)

    def follow(self, items: Items, place: _Place) -> None:
        if self._compiled(items.attributes):
            self._macros |= {macro.name: macro for macro in _macros(items.items)}
            self._each(items.items, place)

    def _each(self, items: Iterable[Item], place: _Place) -> None:
        for item in items:
            attributes = tuple(self._effective(item.attributes))
            if not self._compiled(attributes):
                continue
            if isinstance(item, Function):
                self._function(item.name, attributes, place)
            elif isinstance(item, Module):
                self._module(item, attributes, place)
            elif isinstance(item, Invocation):
                self._invocation(item, place)

    def _function(self, name: str, attributes: tuple[Attribute, ...], place: _Place) -> None:
        paths = [each.path for each in attributes]
        if any(path.rpartition("::")[2] == "test" for path in paths):
            full = "::".join((*place.modules, name))
            self.tests.append(FoundTest(full, place.path, "ignore" in paths, "should_panic" in paths))
        elif any(path.rpartition("::")[2] in ("rstest", "test_case") for path in paths):
            self.unread.append(f"{place.path}: {name}")

    def _module(self, module: Module, attributes: tuple[Attribute, ...], place: _Place) -> None:
        inside = replace(place, modules=(*place.modules, module.name))
        given = next((each.arguments for each in attributes if each.path == "path"), None)
        if module.items is not None:
            self._each(module.items, replace(inside, folder=f"{place.folder}/{given or module.name}"))
            return
        candidates = [f"{place.folder}/{module.name}.rs", f"{place.folder}/{module.name}/mod.rs"]
        if given is not None:
            # Beside the file that declares it; inside `mod name { }` it would be in that module's folder.
            candidates = [normpath(f"{place.path.rpartition('/')[0]}/{given}")]
        path = next((each for each in candidates if self._view.read(each) is not None), candidates[0])
        folder = path.rpartition("/")[0] if given or path.endswith("/mod.rs") else path.removesuffix(".rs")
        self.file(path, replace(inside, path=path, folder=folder))

    def _invocation(self, call: Invocation, place: _Place) -> None:
        if call.name == "include" and (name := re.fullmatch(r'\s*"([^"]+)"\s*', call.text)) is not None:
            self.file(f"{place.path.rpartition('/')[0]}/{name[1]}", place)
            return
        if not self._makes_tests(call.name, call.text, frozenset()):
            return
        macro = self._macros.get(call.name)
        bodies = (rule.expanded(call.arguments) for rule in macro.rules) if macro is not None else iter(())
        body = next((each for each in bodies if each is not None), None)
        if body is None or place.calls == DEEPEST:
            self.unread.append(f"{place.path}: {call.name}!")
            return
        expansion, inside = items_of(body.encode()), replace(place, calls=place.calls + 1)
        if call.name == TEST_DEVICE:
            self.device_tests += self._added_for_cuda(expansion, inside)
        self.follow(expansion, inside)

    def _added_for_cuda(self, expansion: Items, place: _Place) -> list[FoundTest]:
        cuda = 'feature="cuda"'
        without, within = (
            _Walker(self._view, options, dict(self._macros))
            for options in (self._options - {cuda}, self._options | {cuda})
        )
        for each in (without, within):
            each.follow(expansion, place)
        return [test for test in within.tests if test not in without.tests]

    def _makes_tests(self, name: str, text: str, seen: frozenset[str]) -> bool:
        """Whether a call of the macro, or one of a macro that it calls, has a test in it."""
        if MAKES_TEST.search(text):
            return True
        macro = self._macros.get(name)
        if macro is None or name in seen:
            return False
        bodies = [rule.body for rule in macro.rules]
        called = {(each, body) for body in bodies for each in re.findall(r"\b(\w+)!", body) if each in self._macros}
        return any(map(MAKES_TEST.search, bodies)) or any(
            self._makes_tests(each, "", seen | {name}) for each, _ in called
        )

    def _effective(self, attributes: Iterable[Attribute]) -> Iterator[Attribute]:
        """The attributes, with those that a `cfg_attr` gives."""
        for each in attributes:
            if each.path != "cfg_attr":
                yield each
                continue
            predicate, *given = split_at_commas(each.arguments)
            if holds(predicate, self._options):
                yield from (one for text in given for one in _attribute(text))

    def _compiled(self, attributes: Iterable[Attribute]) -> bool:
        return all(holds(each.arguments, self._options) for each in self._effective(attributes) if each.path == "cfg")


def _attribute(text: str) -> tuple[Attribute, ...]:
    items = items_of(f"#![{text}]".encode())
    return items.attributes
