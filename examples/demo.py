"""About three minutes: qrc and qrc+spr+orth learn MinAtar Breakout side by side, then one picture shows both.

Run it again and it says that both are finished and draws the picture anew; stop it and it continues where it was.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from headrace import RunFolder
from headrace.curve import learning_curve
from headrace.run import make_run

AGENTS = ("qrc+spr+orth", "qrc")
ENVIRONMENT = "minatar/breakout"
STEPS = 30_000
OUT = Path("demo")


def start(agent: str, quiet: bool) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "headrace", "train", agent, ENVIRONMENT, "--steps", str(STEPS), "--out", str(OUT)]
    return subprocess.Popen(command + (["--quiet"] if quiet else []), text=True)


def main() -> int:
    print(
        f"training {' and '.join(AGENTS)} on {ENVIRONMENT}, {STEPS:,} steps each (about three minutes) ...", flush=True
    )
    # The slower agent shows its progress; the other runs beside it on the second core.
    started = [start(agent, quiet=i > 0) for i, agent in enumerate(AGENTS)]
    try:
        failed = [process.wait() for process in started]
    except KeyboardInterrupt:
        failed = [process.wait() for process in started]
    if any(failed):
        return max(failed)
    series = []
    for agent in AGENTS:
        metrics = RunFolder.read(OUT / make_run(agent, ENVIRONMENT, steps=STEPS).name).metrics()
        series.append((agent, metrics["step"], metrics["return"]))
    picture = OUT / "learning_curves.png"
    learning_curve(series, picture, "MinAtar Breakout, one seed each")
    print(f"the learning curves are in {picture.resolve()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
