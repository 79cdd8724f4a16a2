"""The command `headrace bench`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headrace.errors import BadSetting, unknown
from headrace.runs.strict_json import dumps

ABOUT = "measure how fast agents learn on this machine, and how near that is to its limit"
ENGINES = {"learner": ("learner",), "reference": ("reference",), "both": ("learner", "reference")}
PLACES: dict[str, dict[str, Any]] = {  # the options of each alone, with their defaults
    "core": {"engine": "both"},
    "fleet": {"streams": 45},
}


def add_words(parser: argparse.ArgumentParser, number: Callable[[str], float]) -> None:
    add = parser.add_argument
    add("--suite", default="minatar", help="whose shapes: minatar, octax or atari (minatar)")
    add("--game", help="of the suite; one stream has one (breakout, pong, pong), a fleet has all, of Atari Pong")
    add("--variant", default="qrc+spr+orth", help="which agent (qrc+spr+orth)")
    add("--engine", help="core: learner, reference, or both in turn, and their ratio (both)")
    add("--on", default="core", help="core: one stream on one core; fleet: many streams in one program (core)")
    add("--streams", type=number, help="fleet: how many it has (45)")
    add("--seconds", type=number, default=5, help="about how long each measurement takes (5)")
    add(
        "--footprint",
        action="store_true",
        help="bytes of memory and code that each variant takes on a device; measures no speed",
    )
    add("--json", metavar="FILE", help="also write the figures there; - prints them instead of the table")


def run(words: argparse.Namespace) -> int:
    if words.on not in PLACES:
        raise unknown("place to measure", words.on, PLACES)
    _settle(words)
    _require_file(words.json)
    found, text = _measured(words)
    if words.json != "-":
        print(text(found))
    _write(words.json, found)
    return 0


def _measured(words: argparse.Namespace) -> tuple[dict[str, Any], Callable[[dict[str, Any]], str]]:
    """The figures, and the function that formats them."""
    from headrace.bench.text import fleet_text, stream_text

    if words.footprint:
        from headrace.bench.footprint import footprint, footprint_text

        return footprint(), footprint_text
    return (_fleet(words), fleet_text) if words.on == "fleet" else (_one_stream(words), stream_text)


def _settle(words: argparse.Namespace) -> None:
    """Fill in the defaults of this place's options; refuse options of another place."""
    for place, usual in PLACES.items():
        said = [name for name in usual if getattr(words, name) is not None]
        if words.on != place and said:
            raise BadSetting(f"--{min(said)} goes with --on {place}, got --on {words.on}")
        if words.on == place:
            vars(words).update({name: value for name, value in usual.items() if name not in said})


def _require_file(where: str | None) -> None:
    from headrace.runs.files import require_writable

    if where not in (None, "-"):
        require_writable(Path(where))


def _write(where: str | None, found: dict[str, Any]) -> None:
    from headrace.runs.files import write_atomically

    if where is None:
        return
    data = dumps(found)
    if where == "-":
        print(data)
    else:
        write_atomically(Path(where), (data + "\n").encode())


def _one_stream(words: argparse.Namespace) -> dict[str, Any]:
    from headrace.bench.process import in_own_process
    from headrace.runs.manifest import commit, machine_facts

    if words.engine not in ENGINES:
        raise unknown("engine", words.engine, ENGINES)
    what = {"suite": words.suite, "game": words.game, "variant": words.variant}
    engines, notes = _usable(words.engine)
    speed = {"do": "speed", **what, "engines": engines, "seconds": _positive(words.seconds)}
    found = in_own_process(speed)
    figures = found.pop("engines")
    for engine in engines:
        figures[engine]["peak_rss_mb"] = in_own_process({"do": "memory", **what, "engine": engine})
    measured = "both" if len(engines) == 2 else engines[0]
    alone = figures.get(measured, figures)  # both stay apart
    facts = {"machine": machine_facts(), "commit": commit()}
    return {**what, "engine": measured, **found, "notes": [*notes, *found["notes"]], **alone, **facts}


def _usable(word: str) -> tuple[tuple[str, ...], list[str]]:
    """The engines that are installed, and a note on the other; an error if none is."""
    from headrace.training.run import missing_for, require_engine

    missing = {engine: missing_for(engine) for engine in ENGINES[word]}
    usable = tuple(engine for engine, what in missing.items() if not what)
    if not usable:
        require_engine(ENGINES[word][0])
    return usable, [f"only the {usable[0]} engine was measured: {what}" for what in missing.values() if what]


def _fleet(words: argparse.Namespace) -> dict[str, Any]:
    from headrace.training.run import require_engine

    require_engine("reference")
    from headrace.bench.fleet import measure_fleet
    from headrace.engines.jax.programs import reuse_compiled_programs
    from headrace.runs.manifest import commit, machine_facts
    from headrace.training.run import whole

    reuse_compiled_programs()
    streams = whole("streams", words.streams, 1)
    found = measure_fleet(words.suite, words.game, words.variant, streams, _positive(words.seconds))
    return {**found, "machine": machine_facts(), "commit": commit()}


def _positive(seconds: float) -> float:
    if not 0 < seconds < float("inf"):
        raise BadSetting(f"seconds must be a number above 0, got {seconds}")
    return seconds
