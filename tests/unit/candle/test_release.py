from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codegen.release import in_range, is_version, nearest, newest_first, precedence

ORDER = ["0.9.1", "0.9.2-1", "0.9.2-2", "0.9.2-alpha", "0.9.2-alpha.1", "0.9.2-alpha.2", "0.9.2-alpha.10"]
ORDER += ["0.9.2-alpha.beta", "0.9.2-beta", "0.9.2", "0.10.0", "0.10.2", "1.0.0-rc.1", "1.0.0"]

versions = st.builds(
    lambda core, pre: ".".join(map(str, core)) + (f"-{pre}" if pre else ""),
    st.tuples(*[st.integers(0, 12)] * 3),
    st.sampled_from(["", "alpha", "alpha.1", "rc.2", "7"]),
)


def test_precedence_is_that_of_semantic_versions() -> None:
    backwards = ORDER[::-1]
    assert sorted(backwards, key=precedence) == ORDER
    assert newest_first([*ORDER, "0.9.1"]) == tuple(reversed(ORDER))


def test_build_metadata_does_not_count() -> None:
    assert precedence("0.9.1+git") == precedence("0.9.1")


@pytest.mark.parametrize("text", ["0.9", "v0.9.1", "0.9.1-", "0.9.1-a..b", "latest", "", "0.9.1/..", "0.9.1\n"])
def test_what_is_no_version(text: str) -> None:
    assert not is_version(text)
    with pytest.raises(ValueError, match="is not a version such as"):
        precedence(text)


def test_range_is_inclusive_and_its_ends_are_optional() -> None:
    assert in_range("0.9.2", "0.9.2", "0.9.2")
    assert in_range("0.9.2-alpha.1", since="0.9.1", until="0.9.2")
    assert not in_range("0.9.2-alpha.1", since="0.9.2")
    assert not in_range("0.10.0", until="0.9.2")
    assert in_range("0.10.0")


@given(versions, versions, versions)
def test_range_agrees_with_order(version: str, since: str, until: str) -> None:
    inside = precedence(since) <= precedence(version) <= precedence(until)
    assert in_range(version, since, until) == inside


def test_nearest_surrounds_what_was_asked_for() -> None:
    known = ["0.8.4", "0.9.0", "0.9.1", "0.9.2", "0.10.0", "0.10.1", "0.10.2", "0.11.0"]
    assert nearest("0.9.3", known) == ("0.9.1", "0.9.2", "0.10.0", "0.10.1", "0.10.2")
    assert nearest("99.0.0", known, count=2) == ("0.10.2", "0.11.0")
    assert nearest("0.0.1", known, count=2) == ("0.8.4", "0.9.0")
    assert nearest("v0.10", known, count=3) == ("0.9.2", "0.10.0", "0.10.1")
    assert nearest("latest", known, count=1) == ("0.11.0",)
    assert nearest("0.9.3", []) == ()


@given(versions, st.lists(versions, max_size=8), st.integers(1, 6))
def test_nearest_is_an_ascending_window_of_the_known(version: str, known: list[str], count: int) -> None:
    found = nearest(version, known, count)
    ordered = sorted(set(known), key=precedence)
    assert len(found) == min(count, len(ordered))
    start = ordered.index(found[0]) if found else 0
    assert list(found) == ordered[start : start + len(found)]
