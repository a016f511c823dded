"""`specs/providers.yaml`: who computes each operation of Candle's backend traits on ROCm, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from codegen.spec.document import MappingNode
from codegen.spec.model import Model, Reason
from codegen.spec.validation import parsed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codegen.errors import Problem
    from codegen.spec.document import Document

PROVIDERS = "specs/providers.yaml"
DOCUMENTED = "docs/providers.md"
"""Made from it by templates/docs/providers.md.j2."""

ProviderId = Annotated[str, Field(pattern=r"^[a-z][a-z0-9]*$")]


class Provider(Model):
    """Something to compute with."""

    name: str
    """As its makers write it."""
    library: str | None = None
    """In specs/hip_api.yaml; None for what is no library of ROCm."""
    feature: str | None = None
    """The Cargo feature that a program asks for it with; None if it is always there."""
    used: bool = True
    """Whether an operation is computed by it."""
    reason: Reason


class Operations(Model):
    """Methods of one trait that are computed alike."""

    trait: str
    methods: Annotated[tuple[str, ...], Field(min_length=1)]
    by: Annotated[tuple[ProviderId, ...], Field(min_length=1)]
    """In the order in which they are asked; the last one takes what is left."""
    optional: tuple[ProviderId, ...] = ()
    """Asked before those, where the program has their features."""
    reason: Reason


class Providers(Model):
    """The whole file."""

    providers: dict[ProviderId, Provider]
    operations: tuple[Operations, ...]

    def methods(self, trait: str) -> tuple[str, ...]:
        """The methods of a trait that somebody computes, as the file lists them."""
        return tuple(method for entry in self.operations if entry.trait == trait for method in entry.methods)

    def names(self, ids: tuple[ProviderId, ...]) -> str:
        """What these providers are called: `rocBLAS, own kernels`."""
        return ", ".join(self.providers[provider].name for provider in ids)


def parse_providers(content: bytes) -> Providers:
    """The providers in `content`. Raises SpecInvalid with every finding and its place."""
    return parsed(
        PROVIDERS,
        content,
        Providers,
        remedy=f"The top of {PROVIDERS} explains the keys.",
        inconsistencies=_inconsistencies,
    )


def _inconsistencies(spec: Providers, document: Document) -> Iterator[Problem]:
    """What no single entry shows."""
    seen: set[tuple[str, str]] = set()
    wanted: set[str] = set()
    for operations, place in zip(spec.operations, document.mapping.mappings("operations"), strict=True):
        for method in operations.methods:
            if (operations.trait, method) in seen:
                yield document.problem(f"{operations.trait}::{method} is listed twice", place.mark)
            seen.add((operations.trait, method))
        for chosen, optional in ((operations.by, False), (operations.optional, True)):
            wanted.update(chosen)
            for name in chosen:
                complaint = _complaint(name, spec.providers.get(name), optional=optional)
                if complaint:
                    yield document.problem(complaint, place.mark)
    listed = document.mapping.get("providers")
    for entry in listed.entries if isinstance(listed, MappingNode) else ():
        if spec.providers[entry.key].used and entry.key not in wanted:
            yield document.problem(f"provider '{entry.key}' computes nothing: say `used: false` and why", entry.mark)


def _complaint(name: str, provider: Provider | None, *, optional: bool) -> str | None:
    if provider is None:
        return f"there is no provider '{name}'"
    if not provider.used:
        return f"provider '{name}' is not used, as its own entry says"
    if optional and provider.feature is None:
        return f"provider '{name}' has no feature, so it cannot be optional"
    if not optional and provider.feature is not None:
        return f"provider '{name}' is there only with the feature {provider.feature}: it has to be optional"
    return None
