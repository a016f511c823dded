"""`specs/backend.yaml`: what we write of each method of Candle's backend traits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from codegen.errors import Problem, SpecInvalid
from codegen.spec.document import MappingNode, read_document
from codegen.spec.model import Model
from codegen.spec.validation import validate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codegen.spec.document import Document

BACKEND_TRAITS = "specs/backend.yaml"

Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Parameters = tuple[Name, ...]
"""Names for the parameters behind `self`."""


class TraitMethods(Model):
    """One trait."""

    cuda: Name
    """The type of Candle's dummy CUDA backend whose inherent methods are answered too."""
    inherent: tuple[Name, ...] = ()
    """Those of them that the templates write on every release."""
    written: dict[Name, Parameters]
    """Methods with a body in a template, and the names that their bodies give to the parameters."""
    operations: dict[Name, Parameters]
    """Methods that a function of rocm_backend/ops computes from `ops_phase` on."""


class BackendTraits(Model):
    """The whole file."""

    ops_phase: Annotated[int, Field(ge=0, le=7)]
    """The phase that brings the operations of both traits."""
    types: dict[Name, Name]
    """Associated types of the traits, and our types for them."""
    traits: Annotated[dict[Name, TraitMethods], Field(min_length=1)]


def parse_backend_traits(content: bytes) -> BackendTraits:
    """The traits in `content`. Raises SpecInvalid with every finding and its place."""
    document = read_document(BACKEND_TRAITS, content)
    spec, problems = validate(document, BackendTraits)
    findings = [*document.problems, *problems, *_named_twice(document)]
    if findings or spec is None:
        raise SpecInvalid(findings, remedy=f"The top of {BACKEND_TRAITS} explains the keys.")
    return spec


def _named_twice(document: Document) -> Iterator[Problem]:
    """Parameters of one method with the same name, but for `_`, which names none."""
    traits = document.mapping.get("traits")
    for trait in traits.entries if isinstance(traits, MappingNode) else ():
        for key in ("written", "operations"):
            methods = trait.value.get(key) if isinstance(trait.value, MappingNode) else None
            for method in methods.entries if isinstance(methods, MappingNode) else ():
                names = [node.value for node in methods.scalars(method.key)] if isinstance(methods, MappingNode) else []
                twice = sorted({str(name) for name in names if name != "_" and names.count(name) > 1})
                if twice:
                    yield document.problem(f"two parameters of {method.key} are called {twice[0]}", method.mark)
