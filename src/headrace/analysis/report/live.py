"""The report as the runs are now: looked at again while they go on, and only what has changed made anew."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from headrace.analysis.records import Record
from headrace.analysis.report import videos
from headrace.analysis.report.context import Context
from headrace.analysis.report.gallery import Gallery
from headrace.analysis.report.parts import Make, Memory
from headrace.analysis.report.run_cache import RunCache
from headrace.analysis.report.site import Site


class Live:
    def __init__(self, root: Path, every: float) -> None:
        self.every = every  # seconds
        self.cache = RunCache(root)
        self.memory = Memory()
        self.gallery = Gallery()
        self._busy = threading.Lock()
        self._films = threading.Lock()
        self._site = self._look()

    def site(self) -> Site:
        """As of the last few seconds."""
        with self._busy:
            if time.monotonic() - self._seen >= self.every / 2:
                self._site = self._look()
            return self._site

    def _look(self) -> Site:
        context = Context(self.cache.root, self.cache.look())
        made = Site(context, self.memory, self.gallery, video=videos.offered, live=self.every)
        made.digest()  # so that what a page asks for next is there, and made once
        self._seen = time.monotonic()
        return made

    def draw(self) -> None:
        """Every figure as a file, as the runs are now."""
        site = self.site()
        with self._busy:
            self.gallery.draw(site.context.groups)
            self._site = self._look()

    def film(self, record: Record) -> bytes:
        """One at a time: playing an agent takes a core for some seconds."""
        with self._films:
            return videos.play(record)

    def file(self, address: str, query: str = "") -> Make | None:
        """What makes the file at an address; None where there is none."""
        if (address, query.partition("&")[0]) == ("data/parts/figures.js", "draw"):
            self.draw()
        site = self.site()
        key = address.removeprefix("videos/").removesuffix(".gif")
        if address == videos.address(key) and key in site.by_key and videos.playable(site.by_key[key]):
            return lambda: self.film(site.by_key[key])
        return site.files.get(address)
