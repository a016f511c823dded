"""Nothing is waited for: attacks need no medium."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codegen.plan.disk import Disk

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True, scope="module")
def _unsynced() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Disk, "flush", lambda disk, descriptor: None)
        yield
