"""What the backend's templates are rendered from: Candle's own traits, and which methods we write ourselves.

Every method of `BackendStorage` and `BackendDevice` gets an implementation with the signature that the release at hand
declares. Those listed in `WRITTEN` have a body in a template; any other returns a typed error that names the operation
and the phase that brings it. A method that cannot return an error and has no body stops the generation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen.errors import Problem, UnknownSite
from codegen.render.function_head import function_head
from codegen.render.hip_api import HipCalls
from codegen.render.imports import use_declarations
from codegen.syntax.signatures import Method, Trait, parse_imports, parse_inherent, parse_trait

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from codegen.spec.hip_api import HipApi

BACKEND = "candle-core/src/backend.rs"
DUMMY_CUDA = "candle-core/src/dummy_cuda_backend.rs"

OPS_PHASE = 3
"""The phase that brings the operations of both traits."""

WRITTEN: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "BackendStorage": {"try_clone": ("_",), "dtype": (), "device": ()},
    "BackendDevice": {
        "new": ("ordinal",),
        "location": (),
        "same_device": ("rhs",),
        "set_seed": ("seed",),
        "get_current_seed": (),
        "synchronize": (),
    },
}
"""Methods with a body in a template, and the names their bodies give to the parameters."""

INHERENT: Mapping[str, frozenset[str]] = {
    "BackendStorage": frozenset({"transfer_to_device"}),
    "BackendDevice": frozenset({"new_with_stream", "id"}),
}
"""Inherent methods of the dummy CUDA types that the templates write on every release."""

TYPES: Mapping[str, str] = {"Device": "RocmDevice", "Storage": "RocmStorage"}
"""Associated types of the two traits."""

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
    written: bool
    """Whether the template has a body for it."""
    fallible: bool


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
    def stand_ins(self) -> tuple[str, ...]:
        """Names of the methods that a later phase brings."""
        return tuple(method.name for method in self.methods if not method.written)

    def uses(self, *more: str, also: BackendImpl | None = None) -> tuple[str, ...]:
        """`use` declarations for the signatures (and those of `also`), and for the paths in `more`."""
        return use_declarations(self.names | (also.names if also else set()) | set(more))


@dataclass(frozen=True, slots=True)
class BackendContext:
    """The parts of the context that depend on the Candle tree and on the HIP table, not on the file."""

    storage: BackendImpl
    device: BackendImpl
    hip: HipCalls


@dataclass(frozen=True, slots=True)
class FileContext:
    """What the template of a new file may use."""

    header: Header
    storage: BackendImpl
    device: BackendImpl
    hip: HipCalls
    ops_phase: int = OPS_PHASE
    """The phase that brings what is not written."""

    @classmethod
    def of(cls, header: Header, backend: BackendContext) -> FileContext:
        """The context of the file that `header` describes."""
        return cls(header, backend.storage, backend.device, backend.hip)


def backend_context(read: Callable[[str], bytes], hip_api: HipApi) -> BackendContext:
    """The context for a Candle tree; `read` gives the pristine bytes of a path in it.

    Raises UnknownSite (file and line of the method) when a trait or the dummy backend asks for what no template has.
    """
    return BackendContext(
        storage=_implementation(read, "BackendStorage", "CudaStorage"),
        device=_implementation(read, "BackendDevice", "CudaDevice"),
        hip=HipCalls.of(hip_api),
    )


def _implementation(read: Callable[[str], bytes], trait_name: str, cuda_type: str) -> BackendImpl:
    backend, dummy = read(BACKEND), read(DUMMY_CUDA)
    trait = parse_trait(backend, trait_name, path=BACKEND)
    required = tuple(m for m in trait.methods if not m.has_default_body or m.name in WRITTEN[trait_name])
    extra = tuple(m for m in parse_inherent(dummy, cuda_type, path=DUMMY_CUDA) if m.name not in INHERENT[trait_name])
    missing = [_problem(m, trait_name) for m in required if not m.is_fallible and m.name not in WRITTEN[trait_name]]
    missing += [_problem(m, cuda_type) for m in extra if not m.is_fallible or _names_cuda(m)]
    if missing:
        raise UnknownSite(
            missing,
            remedy="It cannot answer with an error, so it needs a body: add one to templates/rust/rocm_backend, "
            "templates/rust/dummy_rocm_backend.rs.j2 and the tables of codegen/render/backend.py.",
        )
    return BackendImpl(
        types=_associated(trait),
        methods=tuple(_method(m, WRITTEN[trait_name].get(m.name)) for m in required),
        extra=tuple(_method(m, None) for m in extra),
        names=_paths(required, parse_imports(backend), trait_name)
        | _paths(extra, parse_imports(dummy), cuda_type)
        | {f"crate::backend::{trait_name}"},
    )


def _associated(trait: Trait) -> tuple[tuple[str, str], ...]:
    unknown = [Problem(f"no type for {trait.name}::{t.name}", t.location) for t in trait.types if t.name not in TYPES]
    if unknown:
        raise UnknownSite(unknown, remedy="Add it to TYPES in codegen/render/backend.py.")
    return tuple((t.name, TYPES[t.name]) for t in trait.types)


def _method(method: Method, names: tuple[str, ...] | None) -> BackendMethod:
    if names is not None and len(names) != len(method.params):
        raise UnknownSite(
            Problem(f"the template for {method.name} was written for {len(names)} parameters", method.location),
            remedy="Candle changed the method: change the body in templates/rust/rocm_backend and WRITTEN in "
            "codegen/render/backend.py.",
        )
    anonymous = ("_",) * len(method.params)
    return BackendMethod(
        name=method.name,
        attributes=method.cfg,
        head=_head(method, names or anonymous),
        dummy_head=_head(method, anonymous),
        written=names is not None,
        fallible=method.is_fallible,
    )


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
