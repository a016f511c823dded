"""mkdocs loads this file by its path, outside of any package."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from documentation.hooks import on_config, on_files, on_page_markdown

__all__ = ["on_config", "on_files", "on_page_markdown"]
