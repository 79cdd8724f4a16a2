"""Every figure as PNG and PDF, drawn on demand."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from headrace.analysis import canvas
from headrace.analysis.artefacts import Drawn, drawings, looks_in
from headrace.analysis.report.html import Html, join, tag
from headrace.analysis.report.parts import Body, Make, Section, links
from headrace.analysis.scores import Group
from headrace.training.curve import literal_text

SEED = 0  # of the bootstraps: the same runs give the same figures


class Picture(NamedTuple):
    name: str
    caption: str
    files: dict[str, bytes]  # by address

    def makes(self) -> dict[str, Make]:
        return {address: partial(bytes, content) for address, content in self.files.items()}


class Gallery:
    """The figures as they were drawn last."""

    def __init__(self) -> None:
        self.pictures: list[tuple[Group, list[Picture]]] = []
        self.drawn = 0

    def draw(self, groups: Sequence[Group], say: Callable[[str], None] = lambda _: None) -> None:
        fresh, looks = [], looks_in(groups)
        for group in groups:
            say(f"figures of {group.title}")
            with literal_text():
                drawn = drawings([group], np.random.default_rng(SEED), looks)
                fresh.append((group, [_picture(d) for d in drawn]))
        self.pictures = fresh
        self.drawn += 1

    def part(self) -> Section:
        return Section("figures", "Figures", self.drawn, self._body)

    def _body(self) -> Body:
        if not self.drawn:
            button = tag("button", "Draw them as they are now", type="button", class_="small", data_draw=True)
            return Body(tag("p", "Every figure as PNG and PDF: ", button, " It takes some seconds.", class_="soft"))
        about = tag("p", "Every figure as PNG and PDF, with the colours of the charts above.", class_="soft")
        shown = [self._shown(group, found) for group, found in self.pictures]
        again = {address: make for _, found in self.pictures for p in found for address, make in p.makes().items()}
        return Body(join([about, *shown]), {}, again)

    def _shown(self, group: Group, found: Sequence[Picture]) -> Html:
        """A group's figures, behind its tab where there are several groups."""
        cards = tag("div", [_card(picture) for picture in found], class_="panels")
        return tag("div", tag("h3", group.title), cards, data_tab=group.slug if len(self.pictures) > 1 else None)


def _picture(drawn: Drawn) -> Picture:
    with tempfile.TemporaryDirectory(prefix="headrace-figure-") as folder:
        written = canvas.save(drawn.figure, Path(folder), drawn.name)
        return Picture(drawn.name, drawn.caption, {f"figures/{path.name}": path.read_bytes() for path in written})


def _size(png: bytes) -> tuple[int, int]:
    """Width and height, which every PNG has in its first chunk: with them a page does not jump when it arrives."""
    return int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")


def _card(picture: Picture) -> Html:
    image = next(address for address in picture.files if address.endswith(".png"))
    caption = tag("figcaption", picture.caption, links(picture.makes()))
    width, height = _size(picture.files[image])
    seen = tag("img", src=image, alt=picture.caption, loading="lazy", class_="picture", width=width, height=height)
    shown = tag("a", seen, href=image)
    return tag("figure", caption, shown, class_="card")
