"""The report's page in a real browser: light and dark, wide and narrow, without scripts, and on paper."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser import Browser, browser  # noqa: F401
from report_helpers import Folders, folders  # noqa: F401

from aeg.report import write


@pytest.fixture(scope="module")
def page(folders: Folders, tmp_path_factory) -> Path:  # noqa: F811
    return write(folders.all, tmp_path_factory.mktemp("page"), "Everything")[0]


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_clean_and_fits(browser: Browser, page, width, scheme):  # noqa: F811
    with browser.open(page, width=width, scheme=scheme) as view:
        assert view.troubles() == []
        assert view.overflow() == 0
        sizes = view.page.evaluate(
            "[...document.querySelectorAll('figure svg')].map(s => { const r = s.getBoundingClientRect();"
            " return [r.width, r.height, s.querySelectorAll('path').length]; })"
        )
        assert len(sizes) >= 6
        assert all(w > 250 and h > 80 and paths > 5 for w, h, paths in sizes)
        view.page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert view.overflow() == 0


def test_tables_scroll_in_their_own_box(browser: Browser, page):  # noqa: F811
    with browser.open(page, width=400) as view:
        wide = view.page.evaluate(
            "[...document.querySelectorAll('.table')]"
            ".map(t => [t.scrollWidth - t.clientWidth, getComputedStyle(t).overflowX])"
        )
        assert any(more > 0 for more, _ in wide)
        assert {flow for _, flow in wide} == {"auto"}


def test_plots_follow_the_scheme(browser: Browser, page):  # noqa: F811
    seen = {}
    for scheme in ("light", "dark"):
        with browser.open(page, scheme=scheme) as view:
            seen[scheme] = view.page.evaluate(
                "(() => { const t = document.querySelector('figure svg text');"
                " return [getComputedStyle(document.body).backgroundColor, getComputedStyle(t).fill]; })()"
            )
    assert seen["light"][0] == "rgb(255, 255, 255)"
    assert seen["light"][0] != seen["dark"][0]
    assert seen["light"][1] != seen["dark"][1]


def test_every_entry_of_the_contents_leads_somewhere(browser: Browser, page):  # noqa: F811
    with browser.open(page) as view:
        missing = view.page.evaluate(
            "[...document.querySelectorAll('a[href^=\"#\"]')].map(a => a.getAttribute('href').slice(1))"
            ".filter(id => !document.getElementById(id))"
        )
        assert missing == []
        twice = view.page.evaluate(
            "(() => { const ids = [...document.querySelectorAll('[id]')].map(e => e.id);"
            " return ids.filter((id, at) => ids.indexOf(id) !== at); })()"
        )
        assert twice == []
        view.page.locator("summary", has_text="Contents").click()
        view.page.locator("nav a", has_text="Sensitivity").click()
        assert view.page.evaluate("location.hash") == "#sensitivity"
        top = view.page.evaluate("document.getElementById('sensitivity').getBoundingClientRect().top")
        assert abs(top) < 200


def test_a_click_sorts_and_another_turns_it_round(browser: Browser, page):  # noqa: F811
    with browser.open(page) as view:
        table = view.page.locator("#results table").first
        head = table.locator("thead tr:last-child th").nth(1)
        column = "rows => rows.map(r => Number(r.cells[1].dataset.sort ?? NaN))"
        head.locator("button").click()
        first = table.locator("tbody tr").evaluate_all(column)
        assert head.get_attribute("aria-sort") == "descending"
        assert first == sorted(first, reverse=True)
        head.locator("button").click()
        assert table.locator("tbody tr").evaluate_all(column) == sorted(first)
        names = table.locator("thead tr:last-child th").nth(0)
        names.locator("button").click()
        words = table.locator("tbody tr").evaluate_all("rows => rows.map(r => r.cells[0].textContent.trim())")
        assert len(words) == len(first)
        assert names.get_attribute("aria-sort") == "ascending"
        assert head.get_attribute("aria-sort") is None


def test_it_reads_without_scripts_and_prints(browser: Browser, page, tmp_path):  # noqa: F811
    with browser.open(page, scripts=False) as view:
        assert view.page.locator("h1").inner_text() == "Everything"
        assert view.page.locator("#results table").count() > 0
        assert view.overflow() == 0
    with browser.open(page, scheme="dark") as view:
        view.page.emulate_media(media="print")
        assert view.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert not view.page.locator("nav").is_visible()
        view.page.emulate_media(media="screen")
        paper = view.page.pdf()
        assert paper[:5] == b"%PDF-"
        assert len(paper) > 20_000
