"""Goldens of the engine; a package because pytest and mypy would take its conftest for another folder's."""
