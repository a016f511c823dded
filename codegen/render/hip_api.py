"""The HIP functions that the generated code calls today, as Rust spells them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen.render.function_head import function_head
from codegen.render.imports import use_declarations
from codegen.spec.c_types import rust_return, rust_type
from codegen.spec.hip_api import CURRENT_RELEASE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codegen.spec.hip_api import HipApi, HipFunction

BINDINGS = "rocm_rs::hip::bindings"

WRITTEN_PHASES = frozenset({0, 1})
"""Phases whose templates call HIP; what only later ones call needs no stand-in yet."""


@dataclass(frozen=True, slots=True)
class ForeignFunction:
    """A C function as Rust declares it."""

    name: str
    params: Mapping[str, str]
    """Rust type by name, in order."""
    returns: str | None
    """Rust type; None for `void`."""

    @classmethod
    def of(cls, api: HipApi, function: HipFunction) -> ForeignFunction:
        """The function of the table in Rust."""
        params = {name: rust_type(c) for name, c in function.params.items()}
        return cls(function.name, params, rust_return(api.returns(function) or "void"))

    def head(self, *named: str) -> str:
        """The head of a Rust definition, in which all parameters but those `named` are anonymous."""
        params = [f"{name if name in named else '_'}: {rust}" for name, rust in self.params.items()]
        return function_head(f'unsafe extern "C" fn {self.name}', params, returns=self.returns)

    @property
    def type_names(self) -> frozenset[str]:
        """Names of the Rust types in the signature, primitive ones excluded."""
        names = {name for text in (self.returns or "", *self.params.values()) for name in re.findall(r"\w+", text)}
        return frozenset(name for name in names if name.startswith(("hip", "c_")))


@dataclass(frozen=True, slots=True)
class HipCalls:
    """What the stand-ins of a build without ROCm are rendered from."""

    functions: tuple[ForeignFunction, ...]

    @classmethod
    def of(cls, api: HipApi) -> HipCalls:
        """The functions that the templates written so far call, in the form of the current ROCm release."""
        called = (f for f in api.functions if WRITTEN_PHASES & set(f.phases) and f.holds_in(CURRENT_RELEASE))
        return cls(tuple(ForeignFunction.of(api, function) for function in called))

    @property
    def uses(self) -> tuple[str, ...]:
        """`use` declarations for the types of all signatures, the bindings' module and `CStr`."""
        names = {name for function in self.functions for name in function.type_names}
        paths = {f"std::ffi::{n}" if n.startswith("c_") else f"{BINDINGS}::{n}" for n in names}
        return use_declarations(paths | {f"{BINDINGS}::self", "std::ffi::CStr"})
