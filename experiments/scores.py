"""Mean score of every agent in every environment, over the seeds there are, as a Markdown table.

python experiments/scores.py results/minatar_1m
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

from headrace.agents import name_of
from headrace.run import run_of
from headrace.store import RunFolder


def table(folder: Path) -> str:
    scores: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for manifest in sorted(folder.glob("*/manifest.json")):
        run = RunFolder.read(manifest.parent)
        if run.status == "finished" and (found := run.score()):
            made = run_of(run.identity)
            scores[name_of(made.agent)][made.env.label].append(found.mean)
    envs = sorted({env for row in scores.values() for env in row})
    lines = ["| agent | " + " | ".join(envs) + " | mean |", "|---" * (len(envs) + 2) + "|"]
    for agent, row in sorted(scores.items()):
        cells = [f"{np.mean(row[env]):.2f} ({min(row[env]):.1f} to {max(row[env]):.1f})" for env in envs]
        lines.append(f"| {agent} | " + " | ".join(cells) + f" | {np.mean([np.mean(row[env]) for env in envs]):.2f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(Path(sys.argv[1])))
