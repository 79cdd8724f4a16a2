"""Trains the agents of `headrace zoo` and packs them into the package.

python experiments/zoo.py RUNS               trains what is missing below RUNS, one after another, then packs
python experiments/zoo.py RUNS --only pong   of these names, keeping the others as the package has them

A run of the learner is the same to the bit on one kind of processor; on another it rounds differently, and ends as
another agent of the same recipe. Large arrays are packed in float16: how often that changes the greedy action is
measured on what the agent sees in EPISODES episodes, and refused above MOST_CHANGED. The evaluation that is packed is
of the packed agent.
"""

from __future__ import annotations

import argparse
import base64
import json
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pack import cells

import headrace
from headrace.agents import ACTOR
from headrace.cli.zoo import describe
from headrace.errors import HeadraceError
from headrace.policy import PARAMS, SCALE, Policy
from headrace.runs import checkpoints, manifest, packs
from headrace.runs.checkpoints import Saved
from headrace.runs.files import write_atomically
from headrace.runs.folder import CHECKPOINTS, EVALUATIONS, METRICS, SCORED_POINTS
from headrace.runs.tables import picked
from headrace.runs.zoo import HOME, names
from headrace.training.evaluation import EPSILON, MAX_STEPS, SEED, host_of, newest_checkpoint, played
from headrace.training.run import run_of

PAGE = Path(__file__).parents[1] / "docs/zoo.md"
ACTS = (*(f"{PARAMS}{module}/" for module in ("encoder", "projection", "head")), PARAMS + ACTOR, SCALE)
LARGE = 20_000  # numbers of an array: a larger one is packed in float16
CURVE_POINTS, EPISODES = 100, 30
MOST_CHANGED = 0.005  # of the greedy actions
MOST_BYTES = 2_000_000  # of the pack
# Most of a pack is float16 in base64, of which three numbers are eight letters: a tenth smaller by counting in eights.
SMALLER = {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 0, "lp": 3, "pb": 3}


class Recipe(NamedTuple):
    variant: str
    env: str
    steps: str


ZOO = {
    "asterix": Recipe("qrc+swift", "minatar/asterix", "5M"),
    "breakout": Recipe("qrc+swift", "minatar/breakout", "2M"),
    "freeway": Recipe("qrc+swift", "minatar/freeway", "2M"),
    "seaquest": Recipe("qrc+swift", "minatar/seaquest", "1M"),
    "space_invaders": Recipe("qrc+swift", "minatar/space_invaders", "5M"),
    "breakout-strq": Recipe("strq", "minatar/breakout", "500k"),
    "cartpole": Recipe("strq", "gym/CartPole-v1", "300k"),
    "cartpole-spr": Recipe("strq+spr+orth2", "gym/CartPole-v1", "100k"),
    "acrobot": Recipe("strq", "gym/Acrobot-v1", "500k"),
    "frozen_lake": Recipe("strq", "gym/FrozenLake-v1", "200k"),
}


class Compared(Policy):
    """The agent as it was trained; remembers what it saw and how it would have acted without exploring."""

    def __init__(self, *words: Any, rounded: Policy, **more: Any) -> None:
        super().__init__(*words, **more)
        self.rounded, self.actions, self.changed = rounded, 0, 0

    def __call__(self, obs: Any) -> int:
        self.actions += 1
        self.changed += int(self.q(obs).argmax() != self.rounded.q(obs).argmax())
        return super().__call__(obs)


def packed(run: Path) -> packs.Files:
    """The files of a trained run as the package has them."""
    folder, checkpoint = newest_checkpoint(run)
    acts = {name: x for name, x in checkpoint.arrays.items() if name.startswith(ACTS)}
    arrays = {name: x.astype(np.float16) if x.size > LARGE else x for name, x in acts.items()}
    data = checkpoints.encode(folder.run_hash, Saved(checkpoint._replace(arrays=arrays, state={}), {}))
    name = f"{CHECKPOINTS}/{checkpoints.path_of(run, checkpoint.step).name}"
    facts = {key: value for key, value in folder.manifest.items() if key not in ("tables", "digest")}
    table, steps = folder.metrics(), folder.metrics()["step"]
    rows = sorted({*picked(len(steps), CURVE_POINTS), *range(max(0, len(steps) - SCORED_POINTS), len(steps))})
    curve = {key: cells(table[key][rows], np.full(len(rows), True)) for key in ("step", "return")}
    facts["changed"], played = evaluated(folder, checkpoint.arrays, checkpoints.decode(data, folder.run_hash))
    return {
        manifest.FILE: manifest.encode(facts).decode(),
        METRICS: {"columns": curve},
        EVALUATIONS: {"columns": {key: str(value) for key, value in {"step": checkpoint.step, **played}.items()}},
        name: {"base64": base64.b64encode(data).decode()},
    }


def evaluated(folder: headrace.RunFolder, arrays: dict[str, np.ndarray], saved: Saved) -> tuple[float, dict[str, Any]]:
    """The share of greedy actions that packing changes, and the returns of the packed agent."""
    run = run_of(folder.identity)
    rounded = Policy(run.agent, saved.checkpoint.arrays, eps=EPSILON, seed=SEED)
    whole = Compared(run.agent, arrays, rounded=Policy(run.agent, saved.checkpoint.arrays), eps=EPSILON, seed=SEED)
    for _ in played(host_of(run), whole, SEED, EPISODES, MAX_STEPS):
        pass
    changed = whole.changed / whole.actions
    if changed > MOST_CHANGED:
        raise HeadraceError(f"{folder.path}: float16 changes {changed:.2%} of the actions")
    returns = [episode.episode_return for episode, _ in played(host_of(run), rounded, SEED, EPISODES, MAX_STEPS)]
    found = {"mean": np.mean(returns), "std": np.std(returns), "min": min(returns), "max": max(returns)}
    return changed, {**{name: f"{value:.6g}" for name, value in found.items()}, "episodes": EPISODES}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", metavar="RUNS", type=Path, help="where the runs are trained")
    parser.add_argument("--only", nargs="+", default=list(ZOO), choices=ZOO, metavar="NAME")
    words = parser.parse_args()
    target = HOME / packs.FILE
    files = {name: found for name, found in (packs.load(target) if target.exists() else {}).items() if name in ZOO}
    for name in words.only:
        recipe = ZOO[name]
        done = headrace.train(recipe.variant, recipe.env, steps=recipe.steps, out=words.runs)
        files[name] = packed(Path(done.path))
        found, changed = files[name][EVALUATIONS]["columns"], json.loads(files[name][manifest.FILE])["changed"]
        print(f"{name:20} return {found['mean']} +- {found['std']}, {changed:.3%} of actions changed", flush=True)
        data = lzma.compress(lzma.decompress(packs.encode(files)), filters=[SMALLER])
        if len(data) > MOST_BYTES:
            raise HeadraceError(f"the pack would have {len(data):,} bytes, {MOST_BYTES:,} are allowed")
        target.parent.mkdir(exist_ok=True)
        write_atomically(target, data)
    PAGE.write_text(with_block(PAGE.read_text(), "\n".join(table())))
    print(f"{target}: {len(files)} agents, {target.stat().st_size:,} bytes")


def table() -> Iterator[str]:
    """What the documentation shows of the agents."""
    yield "| name | agent | environment | steps | score | return | actions changed |"
    yield "|---|---|---|---|---|---|---|"
    for found in (describe(f"{HOME.name}/{name}") for name in names()):
        steps, played = f"{found['steps'] / 1e6:g}M", f"{found['mean']:.1f} ± {found['std']:.1f}"
        place, changed = f"`{found['agent']}` | {found['env']}", f"{found['changed']:.2%}"
        yield f"| `{found['name']}` | {place} | {steps} | {found['score']:.1f} | {played} | {changed} |"


def with_block(page: str, text: str) -> str:
    """The page with the text between its markers."""
    begin, end = "<!-- zoo: written by experiments/zoo.py -->\n", "<!-- end of zoo -->"
    return page[: page.index(begin) + len(begin)] + text + "\n" + page[page.index(end) :]


if __name__ == "__main__":
    main()
