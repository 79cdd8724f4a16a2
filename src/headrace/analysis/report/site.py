"""The report as a set of files by address, each made on demand: to be written to a folder, or served live."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from headrace.analysis.records import Found, Record
from headrace.analysis.report import page, videos
from headrace.analysis.report.context import Context
from headrace.analysis.report.gallery import Gallery
from headrace.analysis.report.html import Html
from headrace.analysis.report.parts import Body, Make, Memory, Section
from headrace.analysis.report.run_cache import RunCache
from headrace.analysis.report.sections import all_parts
from headrace.analysis.report.sections.runs import run_page, run_rows
from headrace.errors import HeadraceError, counted

Video = Callable[[Record, str], Html]  # what a run's page shows of its video


@dataclass
class Site:
    context: Context
    memory: Memory
    gallery: Gallery
    video: Video
    live: float = 0.0  # seconds between two questions for news; 0: the page never asks
    made: datetime = field(default_factory=lambda: datetime.now(UTC))

    @cached_property
    def parts(self) -> list[tuple[Section, Body]]:
        return [(part, self.memory.body(part)) for part in all_parts(self.context, self.gallery)]

    @cached_property
    def frame(self) -> str:
        return page.frame_version(self.context, [part for part, _ in self.parts])

    @cached_property
    def rows(self) -> dict[str, Any]:
        return run_rows(self.context)

    @cached_property
    def by_key(self) -> dict[str, Record]:
        return {self.context.key(record): record for record in self.context.found.records}

    @cached_property
    def files(self) -> dict[str, Make]:
        """Every file of the report but videos, by its address; on a live page also what it asks for news."""
        found: dict[str, Make] = {"index.html": self.index}
        found |= {f"data/runs/{key}.js": partial(self.run_file, key) for key in self.by_key}
        for part, body in self.parts:
            found |= body.files
            if self.live:
                found[f"data/parts/{part.id}.js"] = partial(self.part_file, part, body)
        return found | ({"digest.json": self.digest} if self.live else {})

    def index(self) -> bytes:
        agents = [{"name": agent, "dash": page.dash_of(self.context.looks[agent])} for agent in self.context.agents]
        parts = {part.id: {"version": body.version, **body.data()} for part, body in self.parts}
        data = {"live": self.live, "frame": self.frame, "agents": agents, "off": self.context.switched_off}
        whole = {**data, "parts": parts, "runs": self.rows, "changed": self.changed()}
        return page.page(self.context, self.parts, whole, self._title(), self._about()).encode(errors="replace")

    def changed(self) -> dict[str, str]:
        """What of each run a reader of its own page would see change; nothing on a page that never asks."""
        return {key: f"{r.state} {r.step}" for key, r in self.by_key.items()} if self.live else {}

    def run_file(self, key: str) -> bytes:
        record = self.by_key[key]
        body = run_page(self.context, record, self.video(record, key))
        return as_script({"id": f"run-{key}", "html": body.html, **body.data()})

    def part_file(self, part: Section, body: Body) -> bytes:
        """A part as it is now, for a page that asks for news."""
        rows = self.rows if part.id == "runs" else None
        return as_script({"id": part.id, "version": body.version, "html": body.html, **body.data(), "runs": rows})

    def digest(self) -> bytes:
        """What a page needs to know in order to ask for what has changed."""
        parts = {part.id: body.version for part, body in self.parts}
        known = {"frame": self.frame, "parts": parts, "runs": self.rows["version"], "changed": self.changed()}
        return json.dumps({**known, "time": f"{self.made:%H:%M:%S} UTC"}).encode()

    def _title(self) -> str:
        return f"headrace: {self.context.root.resolve().name or self.context.root}"

    def _about(self) -> str:
        count, groups = len(self.context.found.records), self.context.groups
        what = "; ".join(group.title for group in groups[:4]) + (" and more" if len(groups) > 4 else "")
        return f"{counted(count, 'run')} ({what}), as of {self.made:%Y-%m-%d %H:%M} UTC."


def as_script(part: dict[str, Any]) -> bytes:
    """JSON that a page opened from a disk can read, too: a script that hands it over."""
    return f"headracePart({page.safe_json(part)});\n".encode(errors="replace")


def require_runs(root: Path, found: Found) -> None:
    """HeadraceError in a sentence where there is nothing to report on."""
    if found.records:
        return
    reasons = [f"{p.path.name}: {p.why}" for p in found.problems[:3]]
    belongs = "belongs" if found.foreign == 1 else "belong"
    foreign = f"{counted(found.foreign, 'file')} that {belongs} to no run" if found.foreign else "nothing"
    seen = "; ".join(reasons) or foreign
    raise HeadraceError(f"{root} holds no run that can be read (there is {seen}). `headrace train` makes one.")


class Live:
    """The report as the runs are now: looked at again while they go on, and only what has changed made anew."""

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
