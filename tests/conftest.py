"""What all tests share: hypothesis' settings, and the guard against skips in CI."""

from __future__ import annotations

from hypothesis import settings
from skips import in_ci, pytest_configure

__all__ = ["pytest_configure"]

# No deadline: the machines that run this are shared, and a slow example is no failure.
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if in_ci() else "local")
