"""What a wheel has inside the package, and a checkout beside it: specs, templates, and what is built from source."""

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SHIPPED = (".clang-format", "emulator", "generated/kernels", "nvidia", "planner", "specs", "templates")
"""What `codegen.paths.repository_root` has to hold for all commands."""


class Shipped(BuildHookInterface[Any]):
    """Adds them to wheels; an editable installation finds those of the checkout."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before a wheel is built; `version` is `standard` or `editable`."""
        if version == "standard":
            build_data["force_include"].update({name: f"codegen/shipped/{name}" for name in SHIPPED})
