"""What clang prints is led back to the line of the spec."""

from __future__ import annotations

from small_kernels import BROKEN, source

from codegen.errors import Location
from codegen.kernels.diagnostics import read_diagnostics

IN_SOURCE = """\
small.hip:5:3: error: use of undeclared identifier 'undeclared'
    5 |   undeclared();
      |   ^
1 error generated when compiling for gfx1100.
"""

IN_HEADER = """\
In file included from small.hip:1:
candle_rocm/twice.h:7:12: error: invalid operands to binary expression ('Thing' and 'Thing')
    7 |   return x + x;
      |          ~ ^ ~
small.hip:4:10: note: in instantiation of function template specialization 'twice<Thing>' requested here
    4 |   y[0] = twice(Thing());
      |          ^
1 error generated when compiling for gfx1100.
"""


def test_an_error_in_the_source_is_at_the_specs_line() -> None:
    (found,) = read_diagnostics(IN_SOURCE, source(BROKEN))
    assert found.text == "use of undeclared identifier 'undeclared'"
    assert found.location == Location("specs/kernels/small.yaml", 17)
    assert "small.hip:5:3" in found.excerpt
    assert "5 |   undeclared();" in found.excerpt


def test_an_error_in_a_header_is_at_the_line_that_instantiated_it() -> None:
    marks = ((3, 17), (6, 99))  # line 7 is the header's: it must not be looked up among the source's
    (found,) = read_diagnostics(IN_HEADER, source(BROKEN, marks=marks))
    assert found.text.startswith("invalid operands")
    assert found.location == Location("specs/kernels/small.yaml", 17)
    assert "candle_rocm/twice.h:7:12" in found.excerpt


def test_without_a_spec_line_the_rendered_file_is_named() -> None:
    (found,) = read_diagnostics(IN_SOURCE, source(BROKEN, marks=()))
    assert found.location == Location("small.hip", 5, 3)


def test_an_include_of_the_source_is_no_instantiation() -> None:
    text = "In file included from small.hip:3:\ncandle_rocm/twice.h:1:1: error: bad header\n"
    (found,) = read_diagnostics(text, source(BROKEN))
    assert found.location == Location("candle_rocm/twice.h", 1)
    assert found.excerpt.startswith("In file included from small.hip:3:")


def test_several_errors_are_several() -> None:
    found = read_diagnostics(IN_HEADER + IN_SOURCE, source(BROKEN))
    assert [each.text[:5] for each in found] == ["inval", "use o"]


def test_a_warning_counts_because_of_werror() -> None:
    (found,) = read_diagnostics("small.hip:4:1: warning: unused variable 'a' [-Wunused]\n", source(BROKEN))
    assert found.text == "unused variable 'a' [-Wunused]"


def test_a_crash_is_told_whole() -> None:
    (found,) = read_diagnostics("PLEASE submit a bug report\nStack dump:\n0. x\n", source(BROKEN))
    assert found.text == "PLEASE submit a bug report"
    assert found.location.file == "small.hip"
    assert "Stack dump" in found.excerpt


def test_silence_is_an_error_too() -> None:
    (found,) = read_diagnostics("", source(BROKEN))
    assert found.text == "the compiler failed without a word"


def test_a_finding_names_the_architectures() -> None:
    (found,) = read_diagnostics(IN_SOURCE, source(BROKEN))
    told = str(found.problem(["gfx906", "gfx1100"]))
    assert told.startswith(
        "specs/kernels/small.yaml:17:1: use of undeclared identifier 'undeclared' [gfx906, gfx1100]\n"
    )
    assert "    small.hip:5:3: error" in told


def test_deep_stacks_are_cut() -> None:
    deep = IN_SOURCE + "".join(f"small.hip:{line}:1: note: requested here\n" for line in range(100))
    (found,) = read_diagnostics(deep, source(BROKEN))
    assert len(found.excerpt.splitlines()) == 12
