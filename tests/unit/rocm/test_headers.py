"""Claims about headers: the compiler believes the true ones and refuses the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codegen.errors import ExitCode, InputOutputError, Location, ToolchainMissing
from codegen.rocm.api_claims import PREAMBLE
from codegen.rocm.headers import Claim, check_claims

if TYPE_CHECKING:
    from pathlib import Path

HEADER = """\
#pragma once
#include <stddef.h>
#define MADE_FLAG 0x20
#define MADE_HANDLE ((void*)3)
#define MADE_WORD word
#ifdef __cplusplus
extern "C" {
#endif
enum made_status { MADE_OK = 0, MADE_BAD = 7 };
struct made_pair { int first; double second; };
enum made_status madeGet(void** result, size_t size);
#ifdef __cplusplus
}
#endif
#if defined(__cplusplus) && !defined(__HIP_DISABLE_CPP_FUNCTIONS__)
template <typename T> enum made_status madeGet(T** result, size_t size);
#endif
"""


@pytest.fixture
def include(tmp_path: Path) -> Path:
    (tmp_path / "made.h").write_text(HEADER)
    return tmp_path


def claims(*cpp: str) -> list[Claim]:
    """Claims that stand on lines 1, 2, ..."""
    return [Claim(text, Location("table.yaml", line), f"claim {line}") for line, text in enumerate(cpp, 1)]


def problems(include: Path, *cpp: str) -> list[tuple[int, str]]:
    """Line and message of each problem."""
    found = check_claims(claims(*cpp), include=include, headers=["made.h"], preamble=PREAMBLE, whose="Made 1.0")
    return [(problem.location.line, problem.message) for problem in found if problem.location]


def function(signature: str, name: str = "madeGet") -> str:
    return f"constexpr std::add_pointer_t<{signature}> CLAIM = &{name};"


TRUE = [
    function("made_status(void**, size_t)"),
    "constexpr value<made_status, 7> CLAIM = value<decltype(MADE_BAD), MADE_BAD>{};",
    "constexpr value<unsigned int, 32> CLAIM = value<unsigned int, number_in(TEXT(MADE_FLAG))>{};",
    "constexpr value<void*, 3> CLAIM = value<void*, number_in(TEXT(MADE_HANDLE))>{};",
    "constexpr value<size_t, 8> CLAIM = value<size_t, offsetof(made_pair, second)>{};",
    "constexpr type<double> CLAIM = type<decltype(made_pair::second)>{};",
]
FALSE = [
    (function("made_status(int**, size_t)"), "it is made_status (*)(void**, size_t)"),
    (function("int(void**, size_t)"), "it is made_status (*)(void**, size_t)"),
    (function("made_status(void**)"), "it is made_status (*)(void**, size_t)"),
    (function("made_status(void**, size_t)", "madePut"), "'madePut' was not declared"),
    ("constexpr value<made_status, 8> CLAIM = value<decltype(MADE_BAD), MADE_BAD>{};", "it is 7"),
    ("constexpr value<unsigned int, 31> CLAIM = value<unsigned int, number_in(TEXT(MADE_FLAG))>{};", "it is 32"),
    ("constexpr value<int, 4> CLAIM = value<int, number_in(TEXT(MADE_WORD))>{};", "it is -1"),
    ("constexpr type<unsigned int> CLAIM = type<__underlying_type(made_pair)>{};", "is not an enumeration type"),
    ("constexpr value<void*, 4> CLAIM = value<void*, number_in(TEXT(MADE_HANDLE))>{};", "it is 3"),
    ("constexpr value<size_t, 4> CLAIM = value<size_t, offsetof(made_pair, second)>{};", "it is 8"),
    ("constexpr type<float> CLAIM = type<decltype(made_pair::second)>{};", "it is double"),
    ("constexpr value<size_t, 0> CLAIM = value<size_t, offsetof(made_pair, third)>{};", "has no member named 'third'"),
]


def test_true_claims(include: Path) -> None:
    assert problems(include, *TRUE) == []


@pytest.mark.parametrize(("claim", "message"), FALSE)
def test_a_false_claim_is_refused_wherever_it_stands(include: Path, claim: str, message: str) -> None:
    for place in (0, 3, len(TRUE)):
        ((line, text),) = problems(include, *TRUE[:place], claim, *TRUE[place:])
        assert line == place + 1
        assert text.startswith(f"claim {place + 1}: not so in Made 1.0: ")
        assert message in text


def test_all_false_claims_are_reported_at_once(include: Path) -> None:
    assert [line for line, _ in problems(include, *(claim for claim, _ in FALSE))] == list(range(1, len(FALSE) + 1))


def declared(include: Path, *cpp: str) -> list[str]:
    """What is wrong with claims that names do not exist."""
    true = claims(*TRUE)
    found = check_claims(true, claims(*cpp), include=include, headers=["made.h"], preamble=PREAMBLE, whose="Made 1.0")
    return [problem.message for problem in found]


def test_names_that_are_declared_or_not(include: Path) -> None:
    cpp = ["using CLAIM = decltype(madePut);", "using CLAIM = decltype(MADE_OK);", "using CLAIM = made_triple;"]
    cpp += ["using CLAIM = made_pair;", "#undef MADE_FLAG\nusing CLAIM = decltype(MADE_FLAG);"]
    assert declared(include, *cpp) == [
        "claim 2: not so in Made 1.0: its headers declare it",
        "claim 4: not so in Made 1.0: its headers declare it",
    ]


def test_a_refusal_for_another_reason_proves_nothing(include: Path) -> None:
    assert declared(include, "using CLAIM = decltype(made_pair);") == [
        "claim 1: not so in Made 1.0: argument to 'decltype' must be an expression"
    ]


def test_headers_that_do_not_compile(include: Path) -> None:
    (include / "made.h").write_text("int broken = ;\n")
    with pytest.raises(InputOutputError, match=r"the headers of Made 1\.0 do not compile: .*made\.h:") as caught:
        problems(include, *TRUE)
    assert caught.value.exit_code == ExitCode.IO


def test_headers_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputOutputError, match=r"made\.h: No such file"):
        problems(tmp_path, *TRUE)


def test_without_a_compiler(include: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(include))
    with pytest.raises(ToolchainMissing, match=r"g\+\+ is not installed") as caught:
        problems(include, *TRUE)
    assert caught.value.exit_code == ExitCode.TOOLCHAIN_MISSING


def test_a_compiler_that_fails_without_a_word_about_the_source(include: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = include / "g++"
    compiler.write_text("#!/bin/sh\necho out of memory >&2\nexit 3\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", f"{include}:/bin")
    with pytest.raises(InputOutputError, match="failed: out of memory"):
        problems(include, *TRUE)
