"""The hash of sources by which a patched Candle knows the code objects that were made for it."""

from __future__ import annotations

import pytest

from codegen.kernels.origin import fnv1a, hash_fields


@pytest.mark.parametrize(
    ("content", "hashed"),
    [
        pytest.param(b"", "6c62272e07bb014262b821756295c58d", id="nothing"),
        pytest.param(b"a", "d228cb696f1a8caf78912b704e4a8964", id="a"),
        pytest.param(b"foobar", "343e1662793c64bf6f0d3597ba446f18", id="foobar"),
    ],
)
def test_values_of_the_draft(content: bytes, hashed: str) -> None:
    assert f"{fnv1a(content):032x}" == hashed


def test_fields_are_told_apart() -> None:
    assert hash_fields(["ab", "c"]) != hash_fields(["a", "bc"]) != hash_fields(["abc"])
    assert hash_fields(["é"]) == fnv1a(b"\2\0\0\0\0\0\0\0\xc3\xa9"), "lengths are in bytes"
    assert hash_fields(["b"], hash_fields(["a"])) == hash_fields(["a", "b"])
