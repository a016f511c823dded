"""Backend sites of Python files, and what the verbs make of them."""

from __future__ import annotations

import ast
import textwrap
from typing import TYPE_CHECKING

import pytest

from codegen.syntax.edit import CannotMirror, Style, apply_edits
from codegen.syntax.python import PythonSource, find_python_sites
from codegen.syntax.python_verbs import mirror_python, or_in_python

if TYPE_CHECKING:
    from codegen.syntax.edit import TextEdit
    from codegen.syntax.site import Site


def parsed(text: str) -> PythonSource:
    return PythonSource.parse("snippet.py", textwrap.dedent(text).encode())


def check_sites(text: str, *expected: str) -> None:
    """The snippet has exactly these sites, as `kind`, `kind name` or `kind name @item`."""
    found = [f"{site.kind} {site.name} @{site.item}".replace("  ", " ") for site in find_python_sites(parsed(text))]
    assert [text.removesuffix(" @") for text in found] == list(expected)


def check_transformed(before: str, after: str) -> None:
    """The verbs turn `before` into exactly `after`, which is Python."""
    source = parsed(before)
    sites = find_python_sites(source)
    assert sites
    edits = [edit for site in sites for edit in _edits(source, site)]
    text = apply_edits(source.text, edits)
    assert text == textwrap.dedent(after)
    ast.parse(text)


def _edits(source: PythonSource, site: Site) -> list[TextEdit]:
    return (or_in_python if site.kind == "py-condition" else mirror_python)(source, site, Style())


# --- sites -------------------------------------------------------------------------------------------------------


def test_comments_and_docstrings_are_no_sites() -> None:
    check_sites(
        '''
        """CUDA, Metal."""
        # on CUDA ü cuda
        def f():
            """Runs on cuda."""
            return 1  # not Metal's
        '''
    )


def test_each_form_is_a_site_of_its_kind() -> None:
    check_sites(
        """
        from candle.utils import cuda_is_available
        CUDA: str = "cuda"
        cuda_is_available = utils.cuda_is_available
        Device = TypeVar("Device", CPU, CUDA)
        Name = Literal["cpu", "cuda"]
        print(f"cuda: {cuda_is_available()}")

        class Module:
            def cuda(self):
                return self.to("cuda")

            def to(self, name):
                if name == "cuda" or name == "cpu":
                    return name

        @skip(not cuda_is_available())
        def test_moves():
            pass
        """,
        "py-import",
        "py-assign CUDA",
        "py-assign cuda_is_available",
        "py-choice Device",
        "py-choice Name",
        "py-statement print",
        "py-def cuda @Module",
        "py-condition @Module::to",
        "py-def test_moves",
    )


@pytest.mark.parametrize(
    ("text", "site"),
    [
        ('raise NotImplementedError("not to cuda")', "py-text cuda"),
        ('x = f("cuda")', "py-text cuda"),
        ('x = ("cuda", 0)', "py-text cuda"),
        ('if not (a == "cuda"):\n    pass', "py-text cuda"),
        ('if a == "cuda" and b:\n    pass', "py-text cuda"),
        ("def f(device=CUDA_DEVICE):\n    pass", "py-text CUDA_DEVICE @f"),
        ("for x in (cuda:\n    pass", "py-text cuda"),
    ],
)
def test_what_no_construct_claims_is_a_site_of_its_own(text: str, site: str) -> None:
    check_sites(text, site)


def test_a_site_that_names_metal_only_says_so() -> None:
    metal, both = find_python_sites(parsed('METAL: str = "metal"\nGPUS: str = ["cuda", "metal"]\n'))[:2]
    assert (metal.metal_only, both.metal_only) == (True, False)


# --- verbs -------------------------------------------------------------------------------------------------------


def test_a_statement_is_copied_behind_itself() -> None:
    check_transformed(
        """
        CPU: str = "cpu"
        CUDA: str = "cuda"

        Device = TypeVar("Device", CPU, CUDA)
        """,
        """
        CPU: str = "cpu"
        CUDA: str = "cuda"
        ROCM: str = "rocm"

        Device = TypeVar("Device", CPU, CUDA, ROCM)
        """,
    )


def test_a_sorted_list_of_names_stays_sorted() -> None:
    check_transformed(
        """
        cuda_is_available = utils.cuda_is_available
        load = utils.load
        save = utils.save
        """,
        """
        cuda_is_available = utils.cuda_is_available
        load = utils.load
        rocm_is_available = utils.rocm_is_available
        save = utils.save
        """,
    )


def test_a_sorted_list_of_functions_stays_sorted() -> None:
    check_transformed(
        """
        @staticmethod
        def cuda_is_available() -> bool:
            pass

        @staticmethod
        def has_mkl() -> bool:
            pass

        @staticmethod
        def save() -> None:
            pass
        """,
        """
        @staticmethod
        def cuda_is_available() -> bool:
            pass

        @staticmethod
        def has_mkl() -> bool:
            pass

        @staticmethod
        def rocm_is_available() -> bool:
            pass

        @staticmethod
        def save() -> None:
            pass
        """,
    )


def test_a_method_is_copied_with_its_documentation() -> None:
    check_transformed(
        '''
        class Module:
            def cuda(self):
                """Moves to CUDA."""
                return self.to("cuda")

            def cpu(self):
                return self.to("cpu")
        ''',
        '''
        class Module:
            def cuda(self):
                """Moves to CUDA."""
                return self.to("cuda")

            def rocm(self):
                """Moves to ROCm."""
                return self.to("rocm")

            def cpu(self):
                return self.to("cpu")
        ''',
    )


def test_a_test_whose_name_does_not_name_cuda_gets_one_that_names_rocm() -> None:
    """Otherwise Python would forget the original."""
    check_transformed(
        """
        def test_adds():
            pass


        @skip(not cuda_is_available())
        def test_moves():
            move("cuda")
        """,
        """
        def test_adds():
            pass


        @skip(not cuda_is_available())
        def test_moves():
            move("cuda")


        @skip(not rocm_is_available())
        def test_moves_rocm():
            move("rocm")
        """,
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("from u import cuda, load\n", "from u import cuda, rocm, load\n"),
        (
            "from u import cuda as c, cuda_2 as cuda_b\n",
            "from u import cuda as c, rocm as c, cuda_2 as cuda_b, rocm_2 as rocm_b\n",
        ),
        ("print(cuda())", "print(cuda())\nprint(rocm())"),
        ("print(cuda())  # why\r\nx = 1\r\n", "print(cuda())  # why\nprint(rocm())\r\nx = 1\r\n"),
        ('if a("cuda") or b:\n    pass\n', 'if a("cuda") or a("rocm") or b:\n    pass\n'),
        ('x = 1 if a == "cuda" else 2\n', 'x = 1 if a == "cuda" or a == "rocm" else 2\n'),
        ('assert a == "cuda"\n', 'assert a == "cuda" or a == "rocm"\n'),
    ],
)
def test_small_forms(before: str, after: str) -> None:
    check_transformed(before, after)


def test_an_import_that_names_cuda_in_its_path_only_is_refused() -> None:
    source = parsed("from candle.cuda import load\n")
    with pytest.raises(CannotMirror, match="in the module's path only"):
        mirror_python(source, find_python_sites(source)[0], Style())


def test_a_word_in_the_middle_of_a_statement_is_refused() -> None:
    source = parsed('x = f("cuda")\n')
    site = find_python_sites(source)[0]
    with pytest.raises(CannotMirror, match="a word in the middle"):
        mirror_python(source, site, Style())
    with pytest.raises(CannotMirror, match="no condition"):
        or_in_python(source, site, Style())


def test_a_copy_that_needs_cudas_own_api_is_refused() -> None:
    source = parsed("def cuda_count():\n    return cudart.count()\n")
    with pytest.raises(CannotMirror, match="cudart"):
        mirror_python(source, find_python_sites(source)[0], Style(protected=frozenset({"cudart"})))
