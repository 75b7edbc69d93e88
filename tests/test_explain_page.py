"""The page of an explanation in a real browser: no errors, nothing asked for, texts harmless, readable on a phone."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
from browser import Browser, browser  # noqa: F401
from explain_world import EVIL, crowded, hostile

from aeg.explain.drawing import layout
from aeg.explain.page import as_page
from aeg.explain.text import as_text


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    for name, found in (("hostile", hostile()), ("crowded", crowded())):
        (folder / f"{name}.html").write_text(as_page(found), encoding="utf-8")
    return {name: folder / f"{name}.html" for name in ("hostile", "crowded")}


@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [("crowded", 1280, "light"), ("crowded", 400, "dark"), ("hostile", 1280, "dark"), ("hostile", 400, "light")],
)
def test_the_page_opens_without_trouble_and_fits(browser: Browser, pages, name, width, scheme):  # noqa: F811
    with browser.open(pages[name], width=width, scheme=scheme) as view:
        assert view.troubles() == []
        assert view.overflow() == 0
        dark = view.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", dark)[:3])) < 200) == (scheme == "dark")


def test_hostile_texts_do_nothing_and_stand_there_as_they_are(browser: Browser, pages):  # noqa: F811
    with browser.open(pages["hostile"]) as view:
        for node in view.page.locator(".node").all():
            node.focus()
            node.press("Enter")
        view.page.locator("summary").evaluate_all("all => all.forEach(one => one.parentElement.open = true)")
        assert view.page.evaluate("window.hit") is None
        assert view.page.locator("script").count() == 1
        assert view.page.locator("img").count() == 0
        assert " ".join(view.page.locator("h1").inner_text().split()) == " ".join(EVIL.split())
        assert view.page.title().startswith("<script>")
        assert view.troubles() == []


def test_the_markup_of_the_page_has_no_text_that_came_in_unescaped():
    page = as_page(hostile())
    for part in ("<script>window", "<img", 'onerror="window', " onfocus='window", "</style> "):
        assert part not in page
    assert not re.search(r"(?:src|href)=[\"']?https?:", page)


def test_nodes_are_reached_by_pointer_and_keyboard_and_light_their_chains(browser: Browser, pages):  # noqa: F811
    with browser.open(pages["crowded"]) as view:
        told, svg = view.page.locator("#told"), view.page.locator("#chains")
        hint = told.inner_text()
        first = view.page.locator(".node").first
        first.hover()
        assert told.inner_text() == first.get_attribute("data-name")
        assert 0 < view.page.locator(".edge.on").count() < view.page.locator(".edge").count()
        view.page.mouse.move(2, 2)
        assert told.inner_text() == hint
        assert "lit" not in (svg.get_attribute("class") or "")
        first.focus()
        first.press("Enter")
        view.page.locator(".node").last.hover()
        view.page.mouse.move(2, 2)
        assert told.inner_text() == first.get_attribute("data-name")  # held
        first.press("Escape")
        first.blur()
        assert told.inner_text() == hint


def test_the_page_is_whole_without_scripts(browser: Browser, pages):  # noqa: F811
    with browser.open(pages["crowded"], scripts=False) as view:
        assert view.page.locator(".node").count() > 20
        assert view.page.locator("ol.atoms > li").count() == 12


def test_texts_of_the_drawing_stay_in_their_boxes(browser: Browser, pages):  # noqa: F811
    with browser.open(pages["crowded"]) as view:
        wide = view.page.evaluate(
            "[...document.querySelectorAll('.node')].filter(node => { const box = node.querySelector('rect').getBBox();"
            "return [...node.querySelectorAll(':scope > text')].some(text => { const at = text.getBBox();"
            "return at.x + at.width > box.x + box.width || at.y < box.y || at.y + at.height > box.y + box.height; }) })"
            ".map(node => node.textContent)"
        )
        assert wide == []


def test_the_layout_holds_thirty_nodes_apart_and_is_the_same_every_time():
    found = crowded()
    drawn, again = layout(found), layout(found)
    assert drawn.place == again.place
    assert 25 <= len(drawn.place) <= 30
    assert drawn.left_out > 0
    height = {"atom": 66, "entity": 34}
    boxes = [(x, y, x + 212, y + height[found.node(row).kind]) for row, (x, y) in drawn.place.items()]
    for (a0, b0, a1, b1), (c0, d0, c1, d1) in itertools.combinations(boxes, 2):
        assert a1 < c0 or c1 < a0 or b1 < d0 or d1 < b0
    width, tall = drawn.size
    assert all(x0 >= 0 and x1 <= width and y0 >= 0 and y1 <= tall for x0, y0, x1, y1 in boxes)
    assert all(found.node(row).kind == "entity" for row in drawn.layers[0])
    assert {row for nodes in drawn.layers for row in nodes} == set(drawn.place)


def test_text_tells_what_the_page_tells():
    text = as_text(crowded())
    assert "Who led the survey?" in text
    assert text.count("mass ") >= 48
    assert as_text(hostile()).count("[1]") == 1
