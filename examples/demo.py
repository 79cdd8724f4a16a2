"""About two minutes: qrc+swift and qrc+spr+orth learn MinAtar Breakout side by side, then one picture shows both.

Run it again and it says that both are finished and draws the picture anew; stop it and it continues where it was.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from headrace import RunFolder
from headrace.training.curve import learning_curve
from headrace.training.run import Run, make_run

AGENTS = ("qrc+spr+orth", "qrc+swift")  # the paper's, and what is recommended here
ENVIRONMENT = "minatar/breakout"
STEPS = {"learner": 300_000, "reference": 30_000}  # what two minutes are enough for
OUT = Path("demo")


def runs() -> list[Run]:
    """As many steps as the engine that there is can do."""
    engine = make_run(AGENTS[0], ENVIRONMENT).engine
    return [make_run(agent, ENVIRONMENT, steps=STEPS[engine], engine=engine) for agent in AGENTS]


def start(agent: str, run: Run, quiet: bool) -> subprocess.Popen[str]:
    words = [agent, ENVIRONMENT, "--steps", str(run.steps), "--engine", run.engine, "--out", str(OUT)]
    command = [sys.executable, "-m", "headrace", "train", *words, *(["--quiet"] if quiet else [])]
    return subprocess.Popen(command, text=True)


def main() -> int:
    wanted = dict(zip(AGENTS, runs(), strict=True))
    steps = wanted[AGENTS[0]].steps
    print(f"training {' and '.join(AGENTS)} on {ENVIRONMENT}, {steps:,} steps each (about two minutes) ...", flush=True)
    # The slower agent shows its progress; the other runs beside it on the second core.
    started = [start(agent, run, quiet=agent != AGENTS[0]) for agent, run in wanted.items()]
    try:
        failed = [process.wait() for process in started]
    except KeyboardInterrupt:
        failed = [process.wait() for process in started]
    if any(failed):
        return max(failed)
    metrics = {agent: RunFolder.read(OUT / run.name).metrics() for agent, run in wanted.items()}
    picture = OUT / "learning_curves.png"
    series = [(agent, found["step"], found["return"]) for agent, found in metrics.items()]
    learning_curve(series, picture, "MinAtar Breakout, one seed each")
    print(f"the learning curves are in {picture.resolve()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
