"""Do both engines learn alike? MinAtar Breakout, five seeds, 300,000 steps on each.

headrace sweep experiments/engines.py                        all of it: 30 runs
headrace sweep experiments/engines.py::qrc                   one variant
python experiments/engines.py runs                           means over seeds and 95% intervals, side by side

The fast engine plays the original game, the reference engine the one written in JAX, as `--engine` has them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from headrace.agents import name_of
from headrace.analysis.stats import interval, mean
from headrace.run import Run
from headrace.store import RunFolder
from headrace.sweep import grid

ENGINES = ("fast", "reference")
POINTS = (50_000, 100_000, 200_000, 300_000)  # steps at which the curves are compared


def both(variant: str) -> list[Run]:
    return [
        run
        for engine in ENGINES
        for run in grid(variant, "minatar/breakout", seeds="0:5", steps=POINTS[-1], engine=engine)
    ]


def strq() -> list[Run]:
    return both("strq")


def qrc() -> list[Run]:
    return both("qrc")


def qrc_spr_orth() -> list[Run]:
    return both("qrc+spr+orth")


def plan() -> list[Run]:
    return strq() + qrc() + qrc_spr_orth()


def at(run: RunFolder, step: int) -> float:
    """The mean return of the last hundred episodes, averaged over the last 10,000 steps before that step."""
    metrics = run.metrics()
    inside = (metrics["step"] > step - 10_000) & (metrics["step"] <= step)
    return float(np.mean(metrics["return"][inside]))


def row(out: Path, runs: list[Run]) -> list[str]:
    """Mean and interval of finished runs at each point."""
    folders = [RunFolder.read(out / run.name) for run in runs if (out / run.name).is_dir()]
    done = [folder for folder in folders if folder.status == "finished"]
    cells = [f"{len(done)} of {len(runs)}"]
    for step in POINTS if done else ():
        scores = np.array([[at(folder, step)] for folder in done])
        cells.append("{:.2f} ({:.2f} to {:.2f})".format(*interval(scores, mean, np.random.default_rng(0))))
    return cells


def table(out: Path) -> str:
    head = ["agent", "engine", "seeds", *(f"{step:,}" for step in POINTS)]
    lines = [head, ["---"] * len(head)]
    runs = plan()
    for agent in dict.fromkeys(run.agent for run in runs):
        for engine in ENGINES:
            mine = [run for run in runs if run.agent == agent and run.engine == engine]
            lines.append([name_of(agent), engine, *row(out, mine)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    print(table(Path(sys.argv[1])))
