"""What a template's text shows of its faults without being rendered: syntax, unknown names, what it draws in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from codegen.errors import TemplateInvalid
from codegen.render.environment import parsed, problem_at

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from jinja2 import nodes

    from codegen.errors import Problem


@dataclass(frozen=True, slots=True)
class TemplateReader:
    """Reads templates, and those that they draw in, each once with the same names."""

    root: Path
    """Holds the templates."""
    read: set[str] = field(default_factory=set)
    """Every template that was read, below `root`."""
    broken: set[str] = field(default_factory=set)
    """Those of them that do not parse."""
    _seen: set[tuple[str, frozenset[str]]] = field(default_factory=set)

    def findings(self, template: str, known: frozenset[str]) -> Iterator[Problem]:
        """What is wrong with a template whose context has the names `known`."""
        if (template, known) in self._seen:
            return
        self._seen.add((template, known))
        self.read.add(template)
        yield from self.syntax(template)
        if template in self.broken:
            return
        tree = parsed(template, root=self.root)
        yield from self._undefined(template, tree, known)
        yield from self._drawn_in(template, tree, known)

    def plain(self, source: str) -> Iterator[Problem]:
        """A line of a source that is taken as it stands and yet holds what only a template means."""
        self.read.add(source)
        path = self.root / source
        if not path.is_file():
            return  # load_specs has said so
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if "«" in line or line.lstrip().startswith("{%"):
                yield problem_at(self.root, source, number, "no template is rendered here: let its name end in .j2")

    def syntax(self, template: str) -> Iterator[Problem]:
        """Why a template does not parse."""
        try:
            parsed(template, root=self.root)
        except TemplateInvalid as error:
            self.broken.add(template)
            yield from error.problems

    def _undefined(self, template: str, tree: nodes.Template, known: frozenset[str]) -> Iterator[Problem]:
        from jinja2 import meta, nodes

        asked = {test.node for test in tree.find_all(nodes.Test) if test.name == "defined"}
        optional = {node.name for node in asked if isinstance(node, nodes.Name)}
        strangers = meta.find_undeclared_variables(tree) - known - optional
        for node in tree.find_all(nodes.Name):
            if node.ctx == "load" and node.name in strangers:
                strangers.remove(node.name)
                names = ", ".join(sorted(known)) or "no names"
                yield self._at(template, node, f"'{node.name}' is undefined; the context has {names}")

    def _drawn_in(self, template: str, tree: nodes.Template, known: frozenset[str]) -> Iterator[Problem]:
        """An included template sees what its includer does; an imported one by itself only what it defines."""
        from jinja2 import nodes

        inside = known | {node.name for node in tree.find_all(nodes.Name) if node.ctx == "store"}
        for node in tree.find_all(nodes.Node):
            if not isinstance(node, nodes.Include | nodes.Import | nodes.FromImport | nodes.Extends):
                continue
            name = node.template.value if isinstance(node.template, nodes.Const) else None
            if not isinstance(name, str):
                yield self._at(template, node, "which template is meant is not in the text: write its name out")
                continue
            if not (self.root / name).is_file():
                yield self._at(template, node, f"there is no template templates/{name}")
                continue
            alone = isinstance(node, nodes.Import | nodes.FromImport) and not node.with_context
            yield from self.findings(name, frozenset() if alone else inside)
            if isinstance(node, nodes.FromImport):
                wanted = {each if isinstance(each, str) else each[0] for each in node.names}
                for lost in sorted(wanted - self._exported(name)):
                    yield self._at(template, node, f"templates/{name} has no macro '{lost}'")

    def _exported(self, template: str) -> set[str]:
        from jinja2 import nodes

        try:
            body = parsed(template, root=self.root).body
        except TemplateInvalid:
            return set()
        set_here = {node.target for node in body if isinstance(node, nodes.Assign)}
        macros = {node.name for node in body if isinstance(node, nodes.Macro)}
        return macros | {target.name for target in set_here if isinstance(target, nodes.Name)}

    def _at(self, template: str, node: nodes.Node, message: str) -> Problem:
        return problem_at(self.root, template, node.lineno, message)
