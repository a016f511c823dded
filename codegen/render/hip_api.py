"""`specs/hip_api.yaml`: the functions of ROCm's C libraries that the generated code calls."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Annotated

from pydantic import AfterValidator, Field

from codegen.errors import SpecInvalid
from codegen.render.function_head import function_head
from codegen.render.imports import use_declarations
from codegen.spec.document import read_document
from codegen.spec.model import Model
from codegen.spec.validation import validate

HIP_API = "specs/hip_api.yaml"
BINDINGS = "rocm_rs::hip::bindings"


def _in_order(functions: tuple[HipFunction, ...]) -> tuple[HipFunction, ...]:
    names = [function.name for function in functions]
    for before, after in pairwise(names):
        if before == after:
            raise ValueError(f"function {after} is listed twice")
        if before > after:
            raise ValueError(f"functions are listed in alphabetical order: {after} stands after {before}")
    return functions


class HipType(Model):
    """A type, as the C header and as Rust spell it."""

    c: str
    rust: str


class HipParam(HipType):
    """A parameter."""

    name: Annotated[str, Field(pattern="^[a-z][a-z0-9_]*$")]


class HipFunction(Model):
    """A function of one of the libraries."""

    name: Annotated[str, Field(pattern="^(hip|rocblas_|miopen|rocrand_)[A-Za-z0-9_]+$")]
    library: str
    """As given to the linker: `amdhip64`."""
    phases: Annotated[tuple[int, ...], Field(min_length=1)]
    """Phases whose generated code calls it."""
    params: tuple[HipParam, ...]
    returns: HipType = HipType(c="hipError_t", rust="hipError_t")

    def head(self, *named: str) -> str:
        """The head of a Rust definition, in which all parameters but those `named` are anonymous."""
        params = [f"{p.name if p.name in named else '_'}: {p.rust}" for p in self.params]
        return function_head(f'unsafe extern "C" fn {self.name}', params, returns=self.returns.rust)

    @property
    def rust_types(self) -> frozenset[str]:
        """Names of the Rust types in the signature, primitive ones excluded."""
        texts = [self.returns.rust, *(p.rust for p in self.params)]
        names = {name for text in texts for name in re.findall(r"[A-Za-z_]\w*", text)}
        return frozenset(name for name in names if name.startswith(("hip", "c_")))


class HipApi(Model):
    """The whole table."""

    functions: Annotated[tuple[HipFunction, ...], AfterValidator(_in_order)]

    @property
    def uses(self) -> tuple[str, ...]:
        """`use` declarations for the types of all signatures, the bindings' module and `CStr`."""
        names = {name for function in self.functions for name in function.rust_types}
        paths = {f"std::ffi::{n}" if n.startswith("c_") else f"{BINDINGS}::{n}" for n in names}
        return use_declarations(paths | {f"{BINDINGS}::self", "std::ffi::CStr"})


def parse_hip_api(content: bytes, *, file: str = HIP_API) -> HipApi:
    """The table in `content`. Raises SpecInvalid with every finding and its position."""
    document = read_document(file, content)
    api, problems = validate(document, HipApi)
    findings = (*document.problems, *problems)
    if findings or api is None:
        raise SpecInvalid(findings, remedy="The head of specs/hip_api.yaml says what the keys mean.")
    return api
