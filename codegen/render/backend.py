"""What the backend's templates are rendered from: Candle's own traits, and which methods we write ourselves.

Every method of `BackendStorage` and `BackendDevice` gets an implementation with the signature that the release at hand
declares. Which have a body in a template, and which an operation of ours computes, says specs/backend.yaml; any other
returns a typed error that names the operation and the phase that brings it. A method that cannot return an error and
has no body stops the generation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from codegen.errors import Problem, UnknownSite
from codegen.render.element_types import ElementType, ElementTypes, element_types
from codegen.render.function_head import function_head
from codegen.render.hip_api import BoundLibrary, HipCalls, bound_libraries
from codegen.render.imports import use_declarations
from codegen.spec.kinds import DEFAULT_RUNTIME, Runtime
from codegen.syntax.signatures import Method, Trait, parse_imports, parse_inherent, parse_trait

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from codegen.errors import Location
    from codegen.spec.backend_traits import BackendTraits, TraitMethods
    from codegen.spec.hip_api import HipApi
    from codegen.spec.model import CpuDifference

BACKEND = "candle-core/src/backend.rs"
DUMMY_CUDA = "candle-core/src/dummy_cuda_backend.rs"

_RENAMED = re.compile(r"\bCuda(?=(Device|Storage|Error)\b)")


@dataclass(frozen=True, slots=True)
class Header:
    """Who made a new file."""

    phase: int
    template: str
    """Below `templates/`."""
    spec: str
    """`specs/phases/1-core.yaml`, relative to the repository."""

    @property
    def command(self) -> str:
        """The command that writes the file."""
        return f"candle-rocm apply --phase {self.phase}"


@dataclass(frozen=True, slots=True)
class BackendMethod:
    """One method to implement."""

    name: str
    attributes: tuple[str, ...]
    head: str
    """From `fn` to `{`, indented for an impl block, with the parameter names that the body uses."""
    dummy_head: str
    """The same with anonymous parameters."""
    early_head: str
    """The same for a phase before the operations: with the names that the body in the template uses, if it has one."""
    written: bool
    """Whether the template has a body for it in every phase."""
    call: str | None
    """The call that computes it; None if the template has a body, nobody knows it, or the operations come later."""
    fallible: bool
    location: Location
    """Where Candle declares it."""

    @property
    def answers(self) -> bool:
        """Whether some phase gives it a body; else it returns the error of a phase that is not there."""
        return self.written or self.call is not None


@dataclass(frozen=True, slots=True)
class BackendImpl:
    """An implementation of one of Candle's traits."""

    types: tuple[tuple[str, str], ...]
    """Associated types: name and our type."""
    methods: tuple[BackendMethod, ...]
    extra: tuple[BackendMethod, ...]
    """Inherent methods of the dummy CUDA type that no template knows, from a release newer than this tool."""
    names: frozenset[str]
    """Paths of what the signatures need in scope."""

    @property
    def computes(self) -> bool:
        """Whether some method is computed by an operation."""
        return any(method.call is not None for method in self.methods)

    def before_operations(self) -> BackendImpl:
        """The implementation of a phase without operations: what they compute is an error there, or written."""
        return replace(self, methods=tuple(replace(m, head=m.early_head, call=None) for m in self.methods))

    @property
    def stand_ins(self) -> tuple[str, ...]:
        """Names of the methods that a later phase brings."""
        return tuple(method.name for method in self.methods if not method.written)

    def has(self, name: str) -> bool:
        """Whether this release's trait has the method."""
        return any(method.name == name for method in self.methods)

    def uses(self, *more: str, also: BackendImpl | None = None) -> tuple[str, ...]:
        """`use` declarations for the signatures (and those of `also`), and for the paths in `more`."""
        return use_declarations(self.names | (also.names if also else set()) | set(more))


@dataclass(frozen=True, slots=True)
class BackendContext:
    """The parts of the context that depend on the Candle tree and on the HIP table, not on the file."""

    storage: BackendImpl
    device: BackendImpl
    hip: HipCalls
    elements: ElementTypes
    hip_api: HipApi
    ops_phase: int
    """The phase that brings the operations."""

    @property
    def unanswered(self) -> tuple[Problem, ...]:
        """The methods of this release that no template computes, so that they return an error on ROCm."""
        methods = (m for each in (self.storage, self.device) for m in (*each.methods, *each.extra) if not m.answers)
        return tuple(Problem(f"no template for the method {m.name}", m.location) for m in methods)


@dataclass(frozen=True, slots=True)
class FileContext:
    """What the template of a new file may use."""

    header: Header
    storage: BackendImpl
    device: BackendImpl
    hip: HipCalls
    dtypes: tuple[ElementType, ...]
    """The release's element types that kernels know, in Candle's order."""
    storage_only_dtypes: tuple[str, ...]
    """Variants of `DType` that Candle only stores, loads and moves."""
    unused_index: bool
    """Whether the largest number of an index type stands for no element."""
    runtime: Runtime
    libraries: tuple[BoundLibrary, ...]
    """What the file declares."""
    ops_phase: int
    """The phase that brings what is neither written nor computed."""
    differences: tuple[CpuDifference, ...] = ()
    """From the CPU backend, of this release."""

    @classmethod
    def of(
        cls,
        header: Header,
        backend: BackendContext,
        runtime: Runtime = DEFAULT_RUNTIME,
        *,
        declares: Sequence[str] = (),
        names: frozenset[str] = frozenset(),
        differences: tuple[CpuDifference, ...] = (),
    ) -> FileContext:
        """The context of the file that `header` describes, which declares what `names` use of those libraries."""
        libraries = bound_libraries(backend.hip_api, declares, names, runtime)
        elements = backend.elements
        storage, device = backend.storage, backend.device
        if header.phase < backend.ops_phase:
            storage, device = storage.before_operations(), device.before_operations()
        return cls(
            header,
            storage,
            device,
            backend.hip,
            elements.computed,
            elements.storage_only,
            elements.unused_index,
            runtime,
            libraries,
            backend.ops_phase,
            differences,
        )


def backend_context(
    read: Callable[[str], bytes], hip_api: HipApi, kernel_types: Collection[str], traits: BackendTraits
) -> BackendContext:
    """The context for a Candle tree; `read` gives the pristine bytes of a path in it.

    `kernel_types` are the names of the element types that kernels compute with (codegen/kernels/dtypes.py).

    Raises UnknownSite (file and line of the method) when a trait or the dummy backend asks for what no template has.
    """
    return BackendContext(
        storage=_implementation(read, "BackendStorage", traits),
        device=_implementation(read, "BackendDevice", traits),
        hip=HipCalls.of(hip_api),
        elements=element_types(read, kernel_types),
        hip_api=hip_api,
        ops_phase=traits.ops_phase,
    )


def _implementation(read: Callable[[str], bytes], trait_name: str, traits: BackendTraits) -> BackendImpl:
    backend, dummy = read(BACKEND), read(DUMMY_CUDA)
    ours = traits.traits[trait_name]
    cuda_type = ours.cuda
    trait = parse_trait(backend, trait_name, path=BACKEND)
    required = tuple(m for m in trait.methods if not m.has_default_body or m.name in ours.written)
    extra = tuple(m for m in parse_inherent(dummy, cuda_type, path=DUMMY_CUDA) if m.name not in ours.inherent)
    missing = [_problem(m, trait_name) for m in required if not m.is_fallible and m.name not in ours.written]
    missing += [_problem(m, cuda_type) for m in extra if not m.is_fallible or _names_cuda(m)]
    if missing:
        raise UnknownSite(
            missing,
            remedy="It cannot answer with an error, so it needs a body: add one to templates/rust/rocm_backend and "
            "specs/backend.yaml.",
        )
    return BackendImpl(
        types=_associated(trait, traits.types),
        methods=tuple(_method(m, ours) for m in required),
        extra=tuple(_method(m, None) for m in extra),
        names=_paths(required, parse_imports(backend), trait_name)
        | _paths(extra, parse_imports(dummy), cuda_type)
        | {f"crate::backend::{trait_name}"},
    )


def _associated(trait: Trait, types: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    unknown = [Problem(f"no type for {trait.name}::{t.name}", t.location) for t in trait.types if t.name not in types]
    if unknown:
        raise UnknownSite(unknown, remedy="Add it to `types` in specs/backend.yaml.")
    return tuple((t.name, types[t.name]) for t in trait.types)


def _method(method: Method, trait: TraitMethods | None) -> BackendMethod:
    """`trait` is None for an inherent method of the dummy CUDA type that no spec lists."""
    written, computed = (trait.written, trait.operations) if trait is not None else ({}, {})
    names = computed.get(method.name, written.get(method.name))
    if names is not None and len(names) != len(method.params):
        raise UnknownSite(
            Problem(f"the template for {method.name} was written for {len(names)} parameters", method.location),
            remedy="Candle changed the method: change the body in templates/rust/rocm_backend, and its parameters in "
            "specs/backend.yaml.",
        )
    anonymous = ("_",) * len(method.params)
    return BackendMethod(
        name=method.name,
        attributes=method.cfg,
        head=_head(method, names or anonymous),
        dummy_head=_head(method, anonymous),
        early_head=_head(method, written.get(method.name, anonymous)),
        written=method.name in written,
        call=_call(method, computed[method.name]) if method.name in computed else None,
        fallible=method.is_fallible,
        location=method.location,
    )


def _call(method: Method, names: tuple[str, ...]) -> str:
    """The call of the operation, with the method's type parameters."""
    generics = ", ".join(re.findall(r"[<,]\s*(\w+)\s*(?=[:,>])", method.generics))
    call = f"ops::{method.name}{f'::<{generics}>' if generics else ''}({', '.join(('self', *names))})"
    return f"unsafe {{ {call} }}" if method.is_unsafe else call


def _head(method: Method, names: Iterable[str]) -> str:
    start = " ".join(filter(None, [method.visibility, *method.modifiers, f"fn {method.name}{method.generics}"]))
    params = [f"{name}: {_renamed(kind)}" for name, kind in zip(names, method.params, strict=True)]
    return function_head(
        start,
        [*([method.receiver] if method.receiver else []), *params],
        returns=None if method.returns is None else _renamed(method.returns),
        where=method.where_clause,
        indent=4,
    )


def _paths(methods: Iterable[Method], imports: Mapping[str, str], owner: str) -> frozenset[str]:
    """Paths behind the names that the signatures take from their file; names of Rust's prelude have none."""
    module = "crate::backend" if owner.startswith("Backend") else ""
    used = {name for method in methods for name in method.types}
    paths = {imports[name] for name in used if name in imports}
    return frozenset(paths | {f"{module}::{n}" for n in used & {"BackendStorage", "BackendDevice"} if module})


def _renamed(text: str) -> str:
    return _RENAMED.sub("Rocm", text)


def _names_cuda(method: Method) -> bool:
    return any("cuda" in _renamed(text).lower() for text in (*method.params, method.returns or ""))


def _problem(method: Method, owner: str) -> Problem:
    return Problem(f"no template for {owner}::{method.name}", method.location)
