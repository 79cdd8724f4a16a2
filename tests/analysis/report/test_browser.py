"""The report as a reader sees it, in Chromium: drawn whole, switched by clicks, and silent."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import pytest

from headrace.agents import VARIANTS
from headrace.analysis.report.folder import write_report
from headrace.analysis.style import contrast
from headrace.training.run import make_run
from tests.analysis.report.opened import DESKTOP, PHONE, opened
from tests.analysis.synthetic import write_run


def rgb(colour):
    return tuple(int(float(part)) for part in colour[colour.index("(") + 1 : -1].split(",")[:3])


def hexed(rgb):
    return "#" + bytes(rgb).hex()


def test_every_figure_is_drawn_and_every_axis_has_its_label(browser, report):
    with opened(browser, report) as found:
        charts = {}
        for tab in found.tabs():
            found.open_tab(tab)
            found.look_at_everything()
            charts |= {chart["name"]: chart for chart in found.charts()}
        assert len(charts) == found.count(".chart") > 20
        for name, chart in charts.items():
            assert chart["paths"] or chart["dots"], name
            assert all(path and "NaN" not in path and "undefined" not in path for path in chart["paths"]), name
            assert all(chart["labels"]), name
            assert len(chart["labels"]) >= (1 if chart["dots"] else 2), name
            assert chart["wide"] == [], name


def test_suites_lie_behind_tabs_somebodys_own_first(browser, report):
    with opened(browser, report) as found:
        tabs = found.tabs()
        assert tabs.index("minatar_3k") < tabs.index("minatar_5M")
        shown = lambda: found.page.eval_on_selector_all(  # noqa: E731
            "[data-tab]", "all => [...new Set(all.filter((one) => one.clientWidth).map((one) => one.dataset.tab))]"
        )
        for tab in tabs:
            found.open_tab(tab)
            assert shown() == [tab]
            assert found.page.is_visible(".sections a[href='#claims-minatar_5M']") == (tab == "minatar_5M")
        found.page.keyboard.press("ArrowRight")
        assert shown() == tabs[:1]
        found.open_tab("minatar_3k")
        assert found.page.eval_on_selector_all(".chip", "all => all.filter((one) => one.clientWidth).length") == 1
        found.page.evaluate("location.hash = '#scores-minatar_5M'")
        found.wait_until("document.getElementById('scores-minatar_5M').clientWidth > 0")
        assert shown() == ["minatar_5M"]


def test_many_tabs_do_not_widen_the_page(browser, tmp_path):
    for steps in range(1, 25):
        write_run(tmp_path / "runs", make_run("qrc", "minatar/breakout", steps=steps * 1000), 1.0, rows=3)
    report = write_report(tmp_path / "runs", tmp_path / "report").page.parent
    for size in (DESKTOP, PHONE):
        with opened(browser, report, size) as found:
            assert len(found.tabs()) == 24
            assert found.page.evaluate("document.documentElement.scrollWidth") <= size["width"]
            assert found.page.evaluate("document.querySelector('.bar').clientHeight") < size["height"] / 3


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_link_leads_to_a_heading_that_stands_below_the_bar(browser, report, size):
    below = (
        "document.querySelector('#representation-minatar_5M h2').getBoundingClientRect().top"
        " - document.querySelector('.bar').getBoundingClientRect().bottom"
    )
    with opened(browser, report, size) as found:
        found.page.evaluate("location.hash = '#representation-minatar_5M'")
        found.wait_until(f"0 <= {below} && {below} < 40")
        selected = "document.querySelector('.tabs [aria-selected=true]').getBoundingClientRect()"
        assert found.page.evaluate(f"{selected}.left >= 0 && {selected}.right <= {size['width']}")


def test_learning_curves_show_all_nine_variants_with_intervals(browser, report):
    with opened(browser, report, tab="minatar_5M") as found:
        found.look_at_everything()
        panel = "[data-chart='curve-minatar_5M-minatar/breakout']"
        assert found.count(f"{panel} .line") == found.count(f"{panel} .band") == len(VARIANTS) + 1, "and CURL"
        assert found.count(f"{panel} .mark") == len(VARIANTS)  # the paper's scores


def test_every_picture_is_there_and_every_file_that_is_linked(browser, report):
    with opened(browser, report) as found:
        for tab in found.tabs():
            found.open_tab(tab)
            found.look_at_everything()
        found.wait_until("[...document.images].every((i) => i.complete && i.naturalWidth > 100)")
        assert found.count("#figures img") >= 8
        links = found.page.eval_on_selector_all("a[download]", "all => all.map((a) => a.getAttribute('href'))")
    kinds = {link.rpartition(".")[2] for link in links}
    assert kinds == {"png", "pdf", "csv", "md", "tex"}
    assert [link for link in links if not (report / unquote(link)).is_file()] == []
    drawn = {path.name for path in (report / "figures").iterdir()}
    assert {Path(link).name for link in links if link.startswith("figures/")} == drawn


def test_a_click_takes_an_agent_out_of_every_chart_and_back(browser, report):
    with opened(browser, report, tab="minatar_5M") as found:
        found.look_at_everything()
        chip = found.page.locator(".chip", has_text="strq+spr+orth2")
        number = chip.get_attribute("data-agent")
        lines = f".line.agent-{number}, .dot.agent-{number}"
        before = found.count(lines)
        assert before > 5
        chip.click()
        assert chip.get_attribute("aria-pressed") == "false"
        found.look_at_everything()
        assert found.count(lines) == 0
        assert found.count(".line") > 0
        chip.focus()
        found.page.keyboard.press("Space")
        assert chip.get_attribute("aria-pressed") == "true"
        found.look_at_everything()
        assert found.count(lines) == before


def test_a_double_click_shows_one_agent_alone_and_none_says_so(browser, report):
    with opened(browser, report, tab="minatar_5M") as found:
        found.page.locator(".chip", has_text="dqn+spr").dblclick()
        assert found.count(".chip[aria-pressed='true']") == 1
        found.page.locator(".agents").get_by_role("button", name="none", exact=True).click()
        found.look_at_everything()
        assert found.count("[data-tab='minatar_5M'] .line") == 0
        assert "every agent here is switched off" in found.page.inner_text("#report")
        found.page.locator(".agents").get_by_role("button", name="all", exact=True).click()
        assert found.count(".chip[aria-pressed='false']") == 0


def test_values_can_be_read_by_pointer_and_by_keys(browser, report):
    with opened(browser, report, tab="minatar_5M") as found:
        chart = found.page.locator("[data-chart='curve-minatar_5M-minatar/breakout']")
        chart.scroll_into_view_if_needed()
        chart.locator("svg").hover(position={"x": 100, "y": 100})  # where all runs have got to
        assert chart.locator(".tip-row").count() == len(VARIANTS) + 1, "and CURL"
        found.page.mouse.move(0, 0)
        assert chart.locator(".tip").is_hidden()
        chart.locator("svg").focus()
        found.page.keyboard.press("End")
        assert chart.locator(".tip b").inner_text() == "5M environment steps"


def test_the_list_of_runs_filters_sorts_and_leaves_through(browser, report):
    with opened(browser, report, tab="minatar_5M") as found:
        page = found.page
        assert page.inner_text("#runs .count") == "66 of 66 runs, page 1 of 2"
        assert found.count("#runs tbody tr") == 50
        page.get_by_role("button", name="next").click()
        assert found.count("#runs tbody tr") == 16
        page.fill("#runs input", "qrc+spr+orth freeway seed1")
        assert page.inner_text("#runs .count") == "1 of 66 runs"
        page.fill("#runs input", "")
        page.locator("#runs [data-state='failed']").click()
        assert page.inner_text("#runs .count") == "1 of 66 runs"
        page.locator("#runs [data-state='']").click()
        page.get_by_role("button", name="score").click()
        page.get_by_role("button", name="score").click()
        assert page.locator("#runs th[aria-sort]").get_attribute("aria-sort") == "descending"
        scores = [float(cell.rstrip("*")) for cell in page.locator("#runs tbody td:nth-child(6)").all_inner_texts()]
        assert scores == sorted(scores, reverse=True)


def test_a_run_has_a_page_of_its_own(browser, report, finished_compiled):
    with opened(browser, report, tab="minatar_5M") as found:
        page = found.page
        page.fill("#runs input", finished_compiled.path.name)
        page.locator("#runs tbody a").click()
        page.wait_for_selector("#run .chart svg")
        found.look_at_everything()
        assert "aux.objective.horizon=2" in page.inner_text("#run h2")
        names = {chart["name"] for chart in found.charts()}
        assert {"run-return", "run-td_error", "run-cosine_before_orth", "run-steps_per_s"} <= names
        assert all(chart["paths"][0] for chart in found.charts())
        assert "headrace play" in page.inner_text("#run")
        page.get_by_role("link", name="all runs").click()
        page.wait_for_selector("#report")  # the address changes first, then the page
        assert page.is_hidden("#run")


def test_names_with_html_in_them_are_shown_as_they_are(browser, report):
    with opened(browser, report) as found:
        assert '<img src=x onerror="window.broken=1">' in found.page.inner_text("#overview")
        found.page.locator("#overview a[href^='#run-']").click()
        found.page.wait_for_selector("#run .facts")
        assert "window.broken=1" in found.page.inner_text("#run .facts")
        assert found.page.evaluate("window.broken") is None


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_it_can_be_read_on_any_screen_by_day_and_by_night(browser, report, size, scheme):
    with opened(browser, report, size, scheme, "minatar_5M") as found:
        found.look_at_everything()
        assert found.page.evaluate("document.documentElement.scrollWidth") <= size["width"]
        ground = rgb(found.page.evaluate("getComputedStyle(document.body).backgroundColor"))
        card = rgb(found.page.evaluate("getComputedStyle(document.querySelector('.card')).backgroundColor"))
        assert (max(ground) < 60) == (scheme == "dark")
        for selector in ("body", "#overview .note", ".sections a", "#runs td", "#scores-minatar_5M small.diff"):
            colour = rgb(found.page.eval_on_selector(selector, "one => getComputedStyle(one).color"))
            assert contrast(hexed(colour), hexed(ground)) >= 4.5, selector
        for selector in (".chart text.tick", ".chart text.label"):
            colour = rgb(found.page.eval_on_selector(selector, "one => getComputedStyle(one).fill"))
            assert contrast(hexed(colour), hexed(card)) >= 4.5, selector
        if scheme == "dark":
            lines = found.page.eval_on_selector_all(".line", "all => all.map((one) => getComputedStyle(one).stroke)")
            assert min(contrast(hexed(rgb(colour)), hexed(card)) for colour in set(lines)) >= 3.0
