"""A run's latents over training, where `headrace latents` has looked at them."""

from __future__ import annotations

import numpy as np

from headrace.analysis.latents import AtStep, Latents, read_latents, read_points
from headrace.analysis.records import Record
from headrace.analysis.report import charts
from headrace.analysis.report.charts import lines, points, series
from headrace.analysis.report.html import Html, tag
from headrace.analysis.report.parts import Body, heading, panel, panels, together
from headrace.analysis.report.tables import framed
from headrace.training.curve import step_label

SHOWN = 1500  # points of a t-SNE picture: more only cover each other


def latents_body(record: Record) -> Body:
    """Effective rank, silent units, weights and t-SNE at the run's checkpoints; a word where nobody has looked yet."""
    found = read_latents(record.path)
    if found is None or not found.steps:
        command = tag("code", f"headrace latents '{record.path}'")
        return Body(tag("p", "Latents have not been looked at: ", command, " does it.", class_="note"))
    about = f"{found.observations:,} observations of {found.env} on one fixed trajectory, policy: {found.policy}."
    drawn = panels(_ranks(record, found), _silence(record, found), _norms(record, found), *_planes(record))
    return together(heading("Latents over training", about), drawn, Body(_probes(found.last)))


def _over_time(record: Record, found: Latents, name: str, title: str, y: dict, values: dict[str, list[float]]) -> Body:
    drawn = [{**series(None, label, line), "shade": i} for i, (label, line) in enumerate(values.items())]
    x = {**charts.STEPS, "max": record.steps}
    return panel(f"run-{name}", lines(title, x, y, drawn, [at.step for at in found.steps], always=True, legend=True))


def _ranks(record: Record, found: Latents) -> Body:
    y = charts.axis("effective rank", "dimensions", min=0)
    values = {
        "uncentred": [at.effective_rank for at in found.steps],
        "centred": [at.effective_rank_centred for at in found.steps],
    }
    return _over_time(record, found, "rank", f"Effective rank of the latents (of {found.last.features:,})", y, values)


def _silence(record: Record, found: Latents) -> Body:
    values: dict[str, list[float]] = {}
    for layer in found.last.silence:
        for kind in ("dead", "dormant"):
            values[f"{layer}, {kind}"] = [_share(at, layer, kind) for at in found.steps]
    return _over_time(record, found, "silence", "Silent units", charts.axis("units", "share", min=0), values)


def _share(at: AtStep, layer: str, kind: str) -> float:
    return getattr(at.silence[layer], kind) if layer in at.silence else float("nan")


def _norms(record: Record, found: Latents) -> Body:
    names = list(dict.fromkeys(name for at in found.steps for name in at.norms))
    values = {name: [at.norms.get(name, float("nan")) for at in found.steps] for name in names}
    y = charts.axis("norm of the weights", "parameters", min=0)
    return _over_time(record, found, "norms", "Weights of each module", y, values)


def _planes(record: Record) -> list[Body]:
    return [
        panel(
            f"run-tsne-{step}-{perplexity:g}",
            points(f"t-SNE at step {step_label(step)}, perplexity {perplexity:g}", _thinned(plane)),
        )
        for (step, perplexity), plane in sorted(read_points(record.path).items())
    ]


def _thinned(plane: np.ndarray) -> np.ndarray:
    return plane[np.linspace(0, len(plane) - 1, min(len(plane), SHOWN)).round().astype(int)]


def _probes(last: AtStep) -> Html:
    """How well a linear reader of the latent tells the game's state."""
    if not last.probes:
        return Html("")
    rows = [
        [
            tag("th", name, scope="row"),
            tag("td", "R²" if probe.kind == "r2" else probe.kind),
            *(tag("td", f"{value:.3f}") for value in (probe.latent, probe.observation, probe.chance)),
        ]
        for name, probe in sorted(last.probes.items())
    ]
    names = ("state of the game", "measure", "from the latent", "from the observation", "by chance")
    heads = [tag("th", name, scope="col", class_=None if i else "words") for i, name in enumerate(names)]
    return framed(f"Linear probes of the game's state at step {last.step:,} (held out)", heads, rows, {})
