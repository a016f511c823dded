"""The report in a real browser: on a phone, a desk and a wall, with a mouse and with a keyboard alone.

Chromium comes from the system's packages (`chromium-headless-shell` or `chromium`), Playwright and axe from pip.
"""

from __future__ import annotations

import os
import shutil
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import sync_playwright
from report_samples import ORIGIN, change, decision, scan_of, specs
from some import some

from codegen.cli.main import run
from codegen.patch.changes import PhaseChanges, Region
from codegen.plan.model import Plan
from codegen.report.html import html_report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))), None)
WIDTHS = (390, 1280, 2560)
PICTURES = Path(os.environ["PICTURES"]) if os.environ.get("PICTURES") else None
"""Where pictures of the report go, for who wants to look."""
SOURCES = "https://example.org/candle-rocm/blob/main"
SECONDS_TO_SCROLL = 20
"""The machine may have other things to do."""
PATIENCE = 300_000
"""Milliseconds that a click or a question may take, for the same reason."""
FEW = """() => {
  const few = (what, kept) => [...document.querySelectorAll(what)].slice(kept).forEach((each) => each.remove());
  few("#rows tr", 12);
  few(".box", 3);
  few(".hunk tbody tr", 60);
}"""
NONE_LEFT_OUT = "((found) => found[0] === found.at(-1))(document.getElementById('shown').value.split(' '))"

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: apt-get install chromium-headless-shell")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        # Root has no sandbox; the page is one of ours.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def report(pristine: Path, shared_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of the report on the made-up tree."""
    out = tmp_path_factory.mktemp("report") / "report.html"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CANDLE_ROCM_FETCH_DIR", str(shared_cache))
        assert run(["report", str(pristine), "--html", str(out), "--sources", SOURCES]) == 0
    return out.as_uri()


@pytest.fixture
def page(browser: Browser, report: str) -> Iterator[Page]:
    """The report on a desk; what it asks a network for fails the test, and so does an error in its script."""
    page = opened(browser, viewport={"width": 1280, "height": 900})
    asked, wrong = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(report)
    yield page
    assert [url for url in asked if not url.startswith("file:")] == []
    assert wrong == []
    page.close()


def opened(browser: Browser, **options: Any) -> Page:
    """A new page, with Playwright's options."""
    page = browser.new_page(**options)
    page.set_default_timeout(PATIENCE)
    return page


def shown(page: Page) -> list[str]:
    """The places of the sites that the table shows, in its order."""
    found: list[str] = page.evaluate(
        "[...document.querySelectorAll('#rows tr')].filter((row) => !row.hidden).map((row) => row.cells[0].textContent)"
    )
    return [text.removesuffix("#").strip() for text in found]


def kinds(page: Page) -> list[str]:
    """The kinds of sites in the table's order, those that stand together once."""
    cells = page.eval_on_selector_all("#rows tr", "(rows) => rows.map((row) => row.cells[1].textContent)")
    return [kind for kind, _ in groupby(cells)]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_it_fits_and_can_be_read(browser: Browser, report: str, width: int, scheme: Literal["light", "dark"]) -> None:
    """No page is wider than its window; axe finds nothing wrong with contrast, names and roles.

    It looks at the first of what is there many times: it needs minutes for ten thousand lines.
    """
    page = opened(browser, viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.goto(report)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    if PICTURES is not None:
        page.screenshot(path=PICTURES / f"report-{width}-{scheme}.png")
        page.locator("#sites").screenshot(path=PICTURES / f"report-sites-{width}-{scheme}.png")
        page.locator(".box").first.screenshot(path=PICTURES / f"report-file-{width}-{scheme}.png")
    page.evaluate(FEW)
    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    assert {each["id"]: [node["html"][:200] for node in each["nodes"][:3]] for each in found} == {}
    page.close()


def test_on_a_phone_a_site_is_a_card(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("getComputedStyle(document.querySelector('#rows td')).display") == "block"
    assert page.evaluate(
        "getComputedStyle(document.querySelector('#rows td'), '::before').content"
    ) == '"Place" " "' or (
        "Place" in page.evaluate("getComputedStyle(document.querySelector('#rows td'), '::before').content")
    )


def test_sites_are_sorted_filtered_and_linked_to(page: Page, report: str) -> None:
    everything = shown(page)
    page.get_by_role("button", name="Kind").click()
    up = kinds(page)
    page.get_by_role("button", name="Kind").click()
    assert len(up) == len(set(up)) > 5, "sites of a kind stand together"
    assert kinds(page) == up[::-1]
    assert up.index("condition") < up.index("match")
    assert page.get_by_role("columnheader", name="Kind").get_attribute("aria-sort") == "descending"

    page.get_by_label("Search").fill("device.rs")
    some_places = shown(page)
    assert 0 < len(some_places) < len(everything)
    assert page.locator("#shown").text_content() == f"{len(some_places)} of {len(everything)}"
    address = page.url
    assert "#sites?" in address

    other = opened(page.context.browser) if page.context.browser else None
    assert other is not None
    other.goto(address)
    assert shown(other) == some_places, "somebody else sees the same"
    other.close()

    page.get_by_role("button", name="Clear").click()
    page.wait_for_function(NONE_LEFT_OUT)
    assert shown(page) == everything
    page.goto(f"{report}#site-3")
    assert page.evaluate("document.querySelector(':target').id") == "site-3"


def test_diffs_stand_side_by_side_or_unified(page: Page) -> None:
    file = page.locator(".file", has=page.locator("tr.del")).first
    text = file.locator("tr.del td").nth(2).text_content()
    assert file.locator(".split").count() == 0
    page.locator("#layout").select_option("split")
    assert file.locator(".split").count() > 0
    assert file.locator(".split").first.is_visible()
    assert not file.locator(".halved").first.is_visible()
    row = file.locator(".split tr", has=page.locator("td.del")).first
    assert row.locator("td").count() == 4
    assert row.locator("td.del").nth(1).text_content() == text
    page.locator("#layout").select_option("unified")
    assert file.locator(".halved").first.is_visible()


def test_whitespace_changes_are_hidden(browser: Browser, tmp_path: Path) -> None:
    changed = change("if a {\nb();\n}\n", "if a {\n    b();\n    c();\n}\n", Region(2, 3, ORIGIN))
    plan = Plan("0.11.1", "dummy", "dynamic", (PhaseChanges(1, "core", "The arms.", (changed,)),))
    (tmp_path / "report.html").write_text(html_report(scan_of(decision()), specs(), plan), encoding="utf-8")
    page = opened(browser)
    page.goto((tmp_path / "report.html").as_uri())
    assert page.locator(".loud").is_visible()
    page.get_by_label("Hide whitespace changes").check()
    assert not page.locator(".loud").is_visible()
    assert page.locator(".quiet").is_visible()
    assert page.locator(".quiet tr.add").count() == 1
    page.close()


def test_what_was_reviewed_is_kept_in_the_browser(page: Page, report: str) -> None:
    total = page.locator(".file").count()
    assert page.locator("#reviewed").text_content() == f"0 of {total} files reviewed"
    page.locator("[data-review]").nth(1).check()
    assert page.locator("#reviewed").text_content() == f"1 of {total} files reviewed"
    page.goto("about:blank")
    page.goto(report)
    assert page.locator("[data-review]").nth(1).is_checked()
    assert page.locator("#reviewed").text_content() == f"1 of {total} files reviewed"


def test_a_keyboard_is_enough(page: Page) -> None:
    """From the search to a site, its file, its diff and its mark."""
    page.keyboard.press("/")
    page.keyboard.type("is_cuda")
    assert len(shown(page)) >= 1
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.name") == "state"
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("j")
    page.keyboard.press("j")
    second = page.locator(".file").nth(1)
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
    was_open = second.get_attribute("open") is not None
    page.keyboard.press("o")
    assert (second.get_attribute("open") is not None) is not was_open
    page.keyboard.press("Enter")
    assert (second.get_attribute("open") is not None) is was_open
    page.keyboard.press("x")
    assert page.locator("[data-review]").nth(1).is_checked()
    page.keyboard.press("k")
    assert page.evaluate("document.activeElement.closest('.box').querySelector('.file').id") == (
        page.locator(".file").first.get_attribute("id")
    )


def test_hunks_link_to_spec_and_template(page: Page) -> None:
    links = page.eval_on_selector_all(".origin a", "(links) => links.map((link) => link.href)")
    assert any(link.startswith(f"{SOURCES}/specs/phases/") and "#L" in link for link in links)
    assert any(link.startswith(f"{SOURCES}/templates/") for link in links)
    for link in some(links):
        assert link.startswith(SOURCES)


def test_ten_megabytes_scroll_without_a_stall(browser: Browser, report: str, tmp_path: Path) -> None:
    """The files of a report again and again; from top to bottom in steps, each frame comes soon."""
    text = Path(report.removeprefix("file://")).read_text(encoding="utf-8")
    start, end = text.index('<section id="phase-1"'), text.index('<section id="phase-2"')
    section = text[start:end]
    times = -(-10_000_000 // len(section.encode()))
    large = tmp_path / "large.html"
    large.write_text(text[:start] + section * times + text[end:], encoding="utf-8")
    assert large.stat().st_size > 10_000_000
    page = opened(browser, viewport={"width": 1280, "height": 900})
    page.goto(large.as_uri())
    slowest = page.evaluate(
        """async () => {
          let slowest = 0, last = performance.now();
          const height = () => document.documentElement.scrollHeight;
          for (let step = 1; step <= 60; step++) {
            scrollTo(0, height() * step / 60);
            await new Promise(requestAnimationFrame);
            slowest = Math.max(slowest, performance.now() - last);
            last = performance.now();
          }
          return slowest;
        }"""
    )
    print(f"{large.stat().st_size >> 20} MiB: the slowest of 60 frames took {slowest:.0f} ms")
    assert slowest < SECONDS_TO_SCROLL * 1000
    page.close()
