"""What mkdocs asks: the made pages are added, and links out of the site become words."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File

from codegen.cli.main import COMMANDS
from documentation.pages import command_page, made_pages, without_links_outside

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The navigation, in which the name of a folder stands for the pages in it."""
    decisions = sorted((Path(config.docs_dir) / "decisions").glob("*.md"))
    folders: dict[str, list[Any]] = {
        "commands": [{name: command_page(name)} for name in COMMANDS],
        "decisions": [f"decisions/{path.name}" for path in decisions],
    }
    config.nav = _expanded(config.nav, folders)
    return config


def _expanded(nav: Any, folders: dict[str, list[Any]]) -> Any:
    if isinstance(nav, list):
        return [_expanded(each, folders) for each in nav]
    if isinstance(nav, dict):
        return {title: _expanded(each, folders) for title, each in nav.items()}
    return folders.get(nav, nav)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The pages that no file holds."""
    for path, text in made_pages().items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The text of a page, with links that lead to pages only."""
    del config
    pages = frozenset(file.src_uri for file in files)
    return without_links_outside(markdown, page.file.src_uri, pages)
