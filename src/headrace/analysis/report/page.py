"""The page itself: one HTML file with its style, its script and its data inside."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from headrace.agents import VARIANTS
from headrace.analysis.records import REPORT_MARK
from headrace.analysis.report.context import Context
from headrace.analysis.report.html import Html, tag
from headrace.analysis.report.parts import Body, Section
from headrace.analysis.style import Look

WIDTH = 1.9  # of a line, pixels


@cache
def asset(name: str) -> str:
    return files(__package__).joinpath("assets", name).read_text(encoding="utf-8")


@cache
def script() -> str:
    return f"{asset('plot.js')}\n{asset('page.js')}"


def policy(style: str) -> str:
    """What the page may do: run its own script, use its own style, read what lies beside it, and nothing else."""
    here = "'self' file:"
    return (
        f"default-src 'none'; script-src {_hash(script())} {here}; style-src {_hash(style)}; img-src {here} data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def style(context: Context) -> str:
    return f"{asset('style.css')}\n{agent_styles(context.looks[agent] for agent in context.agents)}"


def page(
    context: Context, parts: Sequence[tuple[Section, Body]], data: Mapping[str, Any], title: str, about: str
) -> str:
    """The whole file. `data` is what the script reads beside the parts' charts."""
    look = style(context)
    head = [
        Html('<meta charset="utf-8">'),
        Html(REPORT_MARK),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        tag("meta", http_equiv="Content-Security-Policy", content=policy(look)),
        tag("title", title),
        tag("link", rel="icon", href="data:,"),
        tag("style", Html(look)),
    ]
    body = [
        tag("a", "to the content", class_="skip", href="#report"),
        tag("header", tag("h1", title), tag("p", about, " ", tag("span", class_="live", role="status")), class_="top"),
        tag("div", tag("div", _tabs(context), _contents(parts), _switches(context)), class_="bar"),
        tag("main", tag("div", [_section(context, part, body) for part, body in parts], id="report"), _run_place()),
        tag("footer", "Made by headrace from the runs' own files. Opens without a network.", class_="foot"),
        tag("script", Html(safe_json(data)), type="application/json", id="data"),
        tag("script", Html(script())),
    ]
    whole = tag("html", tag("head", head), tag("body", body), lang="en")
    return f"<!doctype html>\n{whole}\n"


def safe_json(data: Any) -> str:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _tabs(context: Context) -> Html:
    """Of several suites and lengths one is shown at a time."""
    made = [
        tag("button", title, type="button", role="tab", data_opens=name, aria_selected="false")
        for name, title in context.tabs.items()
    ]
    return tag("div", made, class_="tabs", role="tablist", aria_label="suites and lengths") if made else Html("")


def _contents(parts: Sequence[tuple[Section, Body]]) -> Html:
    return tag(
        "nav",
        [tag("a", part.title, href=f"#{part.id}", data_tab=part.tab or None) for part, _ in parts],
        class_="strip sections",
        aria_label="sections",
    )


def _section(context: Context, part: Section, body: Body) -> Html:
    of = [" ", tag("small", context.tabs[part.tab])] if part.tab else []
    place = tag("div", body.html, class_="body")
    return tag("section", tag("h2", part.title, of), place, id=part.id, data_tab=part.tab or None)


def _run_place() -> Html:
    return tag(
        "section", tag("p", tag("a", "← all runs", href="#runs")), tag("div", class_="body"), id="run", hidden=True
    )


def _switches(context: Context) -> Html:
    """A switch for each agent: the paper's variants in the open, many others behind a word."""
    numbers = [number for number, agent in enumerate(context.agents) if agent in context.charted]
    ours = [n for n in numbers if context.agents[n] in VARIANTS]
    sets = [("all", numbers), ("none", [])] + ([("the paper's", ours)] if 0 < len(ours) < len(numbers) else [])
    buttons = [
        tag("button", word, type="button", class_="small", data_switch=" ".join(map(str, which)))
        for word, which in sets
    ]
    chips = [_chip(context, number) for number in numbers]
    about = "switch agents on and off in every chart; a double click shows one alone"
    return tag("div", buttons, chips, class_="strip agents", role="group", aria_label=about, title=about)


def _chip(context: Context, number: int) -> Html:
    agent = context.agents[number]
    tabs = " ".join(context.tab(group) for group in context.groups if agent in group.agents)
    line = tag("line", x1=0, x2=22, y1=4, y2=4, stroke_dasharray=dash_of(context.looks[agent]) or None)
    sample = tag("svg", line, viewBox="0 0 22 8", aria_hidden="true")
    return tag(
        "button",
        sample,
        agent,
        type="button",
        class_=f"chip agent-{number}",
        data_agent=number,
        data_tabs=tabs,
        aria_pressed="true",
    )


def frame_version(context: Context, parts: Sequence[Section]) -> str:
    """Differs where more than the inside of parts differs: the page has to be loaded anew."""
    known = [context.agents, context.switched_off, [(part.id, part.title, part.tab) for part in parts]]
    return hashlib.sha256(json.dumps(known).encode()).hexdigest()[:12]


def agent_styles(looks: Iterable[Look]) -> str:
    """A class for each look, numbered in their order."""
    numbered = list(enumerate(looks))
    light = "".join(f".agent-{n}{{--c:{look.colour}}}" for n, look in numbered)
    dark = "".join(f".agent-{n}{{--c:{look.dark}}}" for n, look in numbered)
    return f"{light}\n@media (prefers-color-scheme: dark){{{dark}}}"


def dash_of(look: Look) -> str:
    return " ".join(f"{WIDTH * length:g}" for length in look.dashes)
