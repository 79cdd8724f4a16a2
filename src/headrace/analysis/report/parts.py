"""A part of the page: made from its inputs alone, and not made again while they are the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from headrace.analysis.report.charts import STEPS, Chart, lines
from headrace.analysis.report.context import Context
from headrace.analysis.report.html import Html, join, tag
from headrace.analysis.scores import Group

Make = Callable[[], bytes]  # a file's content, made when it is wanted


@dataclass(frozen=True)
class Body:
    """What a part shows, its charts by name, the grids that charts share, and the files it links to by address."""

    html: Html
    charts: Mapping[str, Chart] = field(default_factory=dict)
    files: Mapping[str, Make] = field(default_factory=dict)
    grids: Mapping[str, list[float | None]] = field(default_factory=dict)

    @cached_property
    def version(self) -> str:
        """Differs where the reader would see a difference."""
        return hashlib.sha256(json.dumps([self.html, self.charts, self.grids]).encode()).hexdigest()[:12]

    def data(self) -> dict[str, Any]:
        """What the page's script draws with."""
        return {"charts": self.charts, "grids": self.grids}


class Section(NamedTuple):
    id: str  # also the anchor of its section
    title: str
    inputs: Hashable
    make: Callable[[], Body]
    tab: str = ""  # behind which it lies; of none where it is always shown


def of_each_group(
    context: Context,
    name: str,
    title: str,
    make: Callable[[Context, Group], Body],
    inputs: Callable[[Group], Hashable],
    shown: Callable[[Group], bool] = lambda group: True,
) -> list[Section]:
    """A section for each group of which there is something to show, behind the group's tab."""
    return [
        Section(f"{name}-{group.slug}", title, inputs(group), partial(make, context, group), context.tab(group))
        for group in context.groups
        if shown(group)
    ]


def same_each_time() -> np.random.Generator:
    """Randomness of bootstraps: the same runs give the same page."""
    return np.random.default_rng(0)


class Memory:
    """Bodies of parts, each kept until its inputs change."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Hashable, Body]] = {}
        self.made = 0

    def body(self, part: Section) -> Body:
        if part.id not in self._kept or self._kept[part.id][0] != part.inputs:
            self._kept[part.id] = (part.inputs, part.make())
            self.made += 1
        return self._kept[part.id][1]


def together(*bodies: Body) -> Body:
    """One body of several, in this order."""
    charts = {name: chart for body in bodies for name, chart in body.charts.items()}
    files = {name: make for body in bodies for name, make in body.files.items()}
    grids = {name: grid for body in bodies for name, grid in body.grids.items()}
    return Body(join(body.html for body in bodies), charts, files, grids)


def heading(title: str, *about: Any) -> Body:
    return Body(join([tag("h3", title), *(tag("p", text, class_="soft") for text in about)]))


def panel(name: str, chart: Chart) -> Body:
    """A chart in its frame."""
    holder = tag("div", class_="chart", data_chart=name)
    return Body(tag("figure", tag("figcaption", chart["title"]), holder, class_="card"), {name: chart})


def over_steps(
    name: str, steps: int, title: str, y: Chart, found: Sequence[Chart], xs: Iterable[float] | str, **more: Any
) -> Body:
    """A panel of lines over the steps of a budget."""
    return panel(name, lines(title, {**STEPS, "max": steps}, y, found, xs, **more))


def panels(*bodies: Body) -> Body:
    inner = together(*bodies)
    return replace(inner, html=tag("div", inner.html, class_="panels"))


def links(files: Mapping[str, Make]) -> Html:
    """One word for each file: what kind it is."""
    words = {"png": "PNG", "pdf": "PDF", "csv": "CSV", "md": "Markdown", "tex": "LaTeX"}
    made = [tag("a", words.get(kind := name.rpartition(".")[2], kind), href=name, download=True) for name in files]
    return tag("span", join(made, " · "), class_="files") if made else Html("")
