"""The report in a browser, with everything that it does on the side written down."""

from __future__ import annotations

import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any

DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


class Opened:
    """A page, what it said on the console, and what it asked for."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.said: list[str] = []
        self.asked: list[str] = []
        page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        page.on("request", lambda request: self.asked.append(request.url))

    def count(self, selector: str) -> int:
        return self.page.locator(selector).count()

    def wait_until(self, expression: str, seconds: float = 60.0) -> None:
        """Asks again and again: the page's own policy forbids the waiting that a browser could do by itself."""
        deadline = time.monotonic() + seconds
        while not self._holds(expression):
            assert time.monotonic() < deadline, f"never came true: {expression}"
            time.sleep(0.05)

    def _holds(self, expression: str) -> bool:
        from playwright.sync_api import Error

        try:
            return bool(self.page.evaluate(expression))
        except Error:  # the page was just being loaded anew
            return False

    def open_tab(self, name: str) -> None:
        self.page.locator(f".tabs [data-opens='{name}']").click()

    def tabs(self) -> list[str]:
        return self.page.eval_on_selector_all(".tabs button", "all => all.map((tab) => tab.dataset.opens)")

    def look_at_everything(self) -> None:
        """Scrolls through the page as a reader does: what is far away is drawn when it comes near."""
        self.page.evaluate(
            """async () => {
                for (let y = 0; y < document.documentElement.scrollHeight; y += 600) {
                    scrollTo({top: y, behavior: "instant"});
                    await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 15)));
                }
                scrollTo({top: 0, behavior: "instant"});
            }"""
        )

    def charts(self) -> list[dict[str, Any]]:
        """What is drawn in each chart that is on the page now."""
        return self.page.evaluate(
            """() => [...document.querySelectorAll(".chart")].filter((c) => c.clientWidth).map((c) => ({
                name: c.dataset.chart,
                paths: [...c.querySelectorAll("path.line, path.points")].map((p) => p.getAttribute("d")),
                dots: c.querySelectorAll("circle").length,
                labels: [...c.querySelectorAll("text.label")].map((t) => t.textContent),
                wide: [...c.querySelectorAll("svg text")].filter((t) => {
                    const at = t.getBoundingClientRect(), box = c.querySelector("svg").getBoundingClientRect();
                    return at.left < box.left - 2 || at.right > box.right + 2;
                }).map((t) => t.textContent),
            }))"""
        )


@contextmanager
def opened(browser: Any, address: str | Path, size: dict[str, int] = DESKTOP, scheme: str = "light", tab: str = ""):
    """The report at an address or in a folder; fails if it said anything or asked for anything beyond its folder."""
    url = address if isinstance(address, str) else (address / "index.html").resolve().as_uri()
    context = browser.new_context(viewport=size, color_scheme=scheme)
    try:
        found = Opened(context.new_page())
        found.page.goto(url)
        if tab:
            found.open_tab(tab)
        yield found
        home = url.rpartition("/")[0]
        assert found.said == []
        assert [asked for asked in found.asked if not asked.startswith((home, "data:"))] == []
    finally:
        context.close()
