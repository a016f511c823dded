"""Turns a document into a pydantic model, and pydantic's findings into messages with positions."""

from __future__ import annotations

import re
import types
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ValidationError

from codegen.errors import SpecInvalid
from codegen.spec.document import ListNode, MappingNode, Mark, Node, ScalarNode, plain, read_document
from codegen.spec.wording import described, did_you_mean, one_of, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from codegen.errors import Problem
    from codegen.spec.document import Document

M = TypeVar("M", bound=BaseModel)
Path = tuple[str | int, ...]
"""Keys and list indices from the document's root, as in pydantic's `loc`."""


def validate(document: Document, model: type[M]) -> tuple[M | None, tuple[Problem, ...]]:
    """The model's instance, or None and every reason why the document is none.

    Stricter than pydantic's default: a number or a boolean in quotes is text.
    """
    if document.root is None:
        return None, ()
    findings = dict(_quoted_scalars(document.root, model, ()))
    instance: M | None = None
    try:
        instance = model.model_validate(plain(document.root))
    except ValidationError as error:
        for detail in error.errors(include_url=False, include_input=False):
            mark, message = _finding(document.root, model, detail)
            findings.setdefault(detail["loc"], (mark, message))
    except (OverflowError, RecursionError) as error:  # from re.compile, in a validator of the model
        findings[()] = (Mark(1, 1), f"a value in this file cannot be used: {error}")
    problems = tuple(document.problem(message, mark) for mark, message in findings.values())
    return (None if problems else instance), problems


def parsed(
    file: str,
    content: bytes,
    model: type[M],
    *,
    remedy: str,
    inconsistencies: Callable[[M, Document], Iterable[Problem]] = lambda _, __: (),
) -> M:
    """The model's instance that the file `file` with this content is.

    Raises SpecInvalid with every finding and its place, `inconsistencies` of a valid instance among them.
    """
    document = read_document(file, content)
    spec, problems = validate(document, model)
    findings = [*document.problems, *problems]
    if spec is not None:
        findings += inconsistencies(spec, document)
    if findings or spec is None:
        raise SpecInvalid(findings, remedy=remedy)
    return spec


def _quoted_scalars(node: Node, declared: Any, path: Path) -> Iterator[tuple[Path, tuple[Mark, str]]]:
    """Scalars that pydantic would convert although their YAML type is another than the declared one."""
    declared = _bare(declared)
    match node:
        case MappingNode(entries):
            for entry in entries:
                yield from _quoted_scalars(entry.value, _member(declared, entry.key), (*path, entry.key))
        case ListNode(items):
            for index, item in enumerate(items):
                yield from _quoted_scalars(item, _member(declared, index), (*path, index))
        case ScalarNode(value) if value is not None and declared in (int, bool) and type(value) is not declared:
            yield path, (node.mark, _wrong_type(declared, node))


def _wrong_type(declared: type, node: Node) -> str:
    expected = {int: "a whole number", bool: "true or false", str: "text"}[declared]
    message = f"expected {expected}, got {_contents(node)}"
    if not isinstance(node, ScalarNode):
        return message
    if declared is str and node.value is not None:
        return f"{message}; quote it"
    if declared is int and isinstance(node.value, str) and node.value.strip().isdecimal():
        return f"{message}; remove the quotes"
    if declared is bool and isinstance(node.value, str):
        word = node.value.strip().lower()
        if word in ("true", "yes", "on", "y", "1"):
            return f"{message}; write true"
        if word in ("false", "no", "off", "n", "0"):
            return f"{message}; write false"
    return message


def _contents(node: Node | None) -> str:
    match node:
        case MappingNode():
            return "a mapping"
        case ListNode():
            return "a list"
        case ScalarNode(value):
            return described(value)
        case None:
            return "nothing"


def _finding(root: Node, model: type[BaseModel], detail: Mapping[str, Any]) -> tuple[Mark, str]:
    """Position and message of one of pydantic's errors."""
    path: Path = detail["loc"]
    kind: str = detail["type"]
    context: Mapping[str, Any] = detail.get("ctx", {})
    if kind == "extra_forbidden":
        return _key_mark(root, path), _unknown_key(str(path[-1]), _declared(model, path[:-1]))
    node = _at(root, path)
    if kind == "missing":
        return node.mark, f"missing key '{path[-1]}'"
    if kind == "tuple_type":
        return node.mark, _not_a_list(node, _declared(model, path[:-1]), path[-1])
    return node.mark, _value_message(kind, context, node, detail["msg"])


def _not_a_list(node: Node, around: Any, step: str | int) -> str:
    """One text may stand for a list of texts where the model has a validator that wraps it."""
    declared = _member(around, step)
    wraps = get_origin(declared) is Annotated and any(isinstance(a, BeforeValidator) for a in get_args(declared)[1:])
    if not wraps:
        return f"expected a list, got {_contents(node)}"
    quote = "; quote it" if isinstance(node, ScalarNode) and node.value is not None else ""
    return f"expected text or a list of texts, got {_contents(node)}{quote}"


def _value_message(kind: str, context: Mapping[str, Any], node: Node, fallback: str) -> str:
    match kind:
        case "string_type":
            return _wrong_type(str, node)
        case "int_type" | "int_parsing" | "int_from_float" | "int_parsing_size":
            return _wrong_type(int, node)
        case "bool_type" | "bool_parsing":
            return _wrong_type(bool, node)
        case "model_type" | "model_attributes_type" | "dict_type":
            return f"expected a mapping, got {_contents(node)}"
        case "enum":
            known = re.findall(r"'([^']*)'", context["expected"])
            given = node.value if isinstance(node, ScalarNode) and isinstance(node.value, str) else ""
            return f"{_contents(node)} is not one of {', '.join(known)}{did_you_mean(given, known)}"
        case "string_too_short":
            return f"expected at least {context['min_length']} characters, got {_contents(node)}"
        case "string_pattern_mismatch" if "\\." in context["pattern"]:
            return f"{_contents(node)} is not an id such as core.dispatch (lower case, digits, '-', one dot)"
        case "greater_than_equal":
            return f"expected {context['ge']} or more, got {_contents(node)}"
        case "less_than_equal":
            return f"expected {context['le']} or less, got {_contents(node)}"
        case "value_error":
            return str(context["error"])
        case _:
            return f"{fallback[:1].lower()}{fallback[1:]}"


def _unknown_key(key: str, declared: Any) -> str:
    return f"unknown key {quoted(key)}{one_of(key, _keys(declared), what='known keys')}"


def _keys(declared: Any) -> tuple[str, ...]:
    """The keys that a model knows."""
    return tuple(declared.model_fields) if isinstance(declared, type) and issubclass(declared, BaseModel) else ()


def _at(root: Node, path: Path) -> Node:
    """The node at `path`, or the nearest one around it (a missing key, or a scalar given for a one-item list)."""
    node = root
    for step in path:
        inner: Node | None = None
        if isinstance(node, MappingNode) and isinstance(step, str):
            inner = node.get(step)
        elif isinstance(node, ListNode) and isinstance(step, int) and step < len(node.items):
            inner = node.items[step]
        if inner is None:
            break
        node = inner
    return node


def _key_mark(root: Node, path: Path) -> Mark:
    """The position of the key that ends `path`."""
    around = _at(root, path[:-1])
    entry = around.entry(str(path[-1])) if isinstance(around, MappingNode) else None
    return entry.mark if entry else around.mark


def _declared(model: Any, path: Sequence[str | int]) -> Any:
    """The bare type that the models declare at `path`."""
    declared = _bare(model)
    for step in path:
        declared = _bare(_member(declared, step))
    return declared


def _member(declared: Any, step: str | int) -> Any:
    """The type declared for a key or an index of `declared`; None where nothing is declared."""
    if isinstance(declared, type) and issubclass(declared, BaseModel):
        field = declared.model_fields.get(str(step))
        if field is None:
            return None
        return Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
    if get_origin(declared) is tuple:
        return get_args(declared)[0]
    if get_origin(declared) is dict:
        return get_args(declared)[1]
    return None


def _bare(declared: Any) -> Any:
    """The type without `Annotated` and without `| None`."""
    while True:
        if get_origin(declared) is Annotated:
            declared = get_args(declared)[0]
        elif get_origin(declared) in (Union, types.UnionType):
            declared = next(member for member in get_args(declared) if member is not types.NoneType)
        else:
            return declared
