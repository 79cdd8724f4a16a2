"""Run folders made up without training: what a run writes, with returns that follow a formula."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headrace.agents import VARIANTS, NoAuxiliary, StreamQ, name_of
from headrace.envs.minatar import GAMES
from headrace.runs.manifest import encode, new_manifest
from headrace.training.run import Run, make_run

MINATAR = tuple(f"minatar/{game}" for game in GAMES)
MACHINE = {"cpu": "a made-up CPU", "cores": 4, "device": "cpu: cpu", "jax": "0.0", "python": "3.11"}


def write_run(
    out: Path,
    run: Run,
    final: float,
    *,
    status: str = "finished",
    share: float = 1.0,
    rows: int = 200,
    columns: dict[str, float] | None = None,
    details: dict[str, Any] | None = None,
) -> Path:
    """A run whose return rises from 0 to `final` and stays there for its last quarter.

    `share` of it is done; `columns` are logged besides, each constant.
    """
    path = out / run.name
    path.mkdir(parents=True)
    facts = new_manifest(run.identity(), {"agent": name_of(run.agent), "machine": MACHINE, "commit": "0" * 40})
    facts |= {"status": status, "end": None if status == "running" else facts["start"]}
    if status == "finished":
        facts |= {"seconds": run.steps / 10_000, "digest": "0" * 64}
    (path / "manifest.json").write_bytes(encode({**facts, **(details or {})}))
    logged = np.linspace(run.steps / rows, run.steps, rows).round().astype(int)[: max(1, round(rows * share))]
    more = columns if columns is not None else usual_columns(run)
    names = ["step", "return", *more]
    tail = "".join(f",{value!r}" for value in more.values())
    lines = [f"{step},{final * min(1.0, int(step) / (0.75 * run.steps))!r}{tail}" for step in logged]
    (path / "metrics.csv").write_text("\n".join([",".join(names), *lines, ""]))
    return path


def usual_columns(run: Run) -> dict[str, float]:
    """What an agent with an auxiliary logs; the cosine is the one that the paper reports."""
    common = {"td_error": 0.1, "q": 1.0, "q_gradient_norm": 3.0, "td_update_norm": 0.01}
    if isinstance(run.agent.aux, NoAuxiliary):
        return common
    cosine = -0.2 if isinstance(run.agent.td, StreamQ) else 0.01
    return {**common, "aux_loss": -3.0, "cosine_before_orth": cosine, "cosine_before_orth2": cosine / 2}


def store(
    out: Path,
    agents: Iterable[str] = tuple(VARIANTS),
    envs: Sequence[str] = MINATAR,
    seeds: Iterable[int] = range(5),
    steps: float = 5e6,
    **options: Any,
) -> Path:
    """A folder of finished runs: agent a in environment e (both from 0) scores about (1 + a)(1 + e)."""
    rng = np.random.default_rng(0)
    for seed in seeds:
        for a, agent in enumerate(agents):
            for e, env in enumerate(envs):
                final = (1.0 + a) * (1.0 + e) + float(rng.normal(0, 0.3))
                write_run(out, make_run(agent, env, seed=seed, steps=steps, engine="reference"), final, **options)
    return out
