"""The numbers that the paper reports, and the units in which scores are compared with them.

Each CSV file here holds one kind of table: `scores` (per environment, five seeds, population std), `aggregate` and
`aggregate_rows` (over environments), `ablations`, `effective_rank`, `cost` and `human_random`. Atari scores are
human-normalised, all others are returns. Budgets are in agent steps.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from headrace.analysis.table import NOTHING, Cell, signed, spread

METRICS = ("mean", "median", "iqm")


class Value(NamedTuple):
    mean: float
    std: float


def told(value: Value | None, of: str = "") -> dict[str, float]:
    """A value as columns of a table, `mean` and `std` after a prefix; NaN where there is none."""
    return {f"{of}{name}": x for name, x in (value or Value(math.nan, math.nan))._asdict().items()}


def beside(text: str, theirs: Value | None, ours: float = math.nan, mark: str = "") -> Cell:
    """Our number with the paper's below it, and how the two differ."""
    if theirs is None:
        return Cell(text)
    difference = ours - theirs.mean
    return Cell(text, spread(*theirs), signed(difference) if math.isfinite(difference) else "", mark)


def paper_cell(ours: Value | None, theirs: Value | None) -> Cell:
    """Our value, or the sign for none, with the paper's below it."""
    return beside(spread(*ours), theirs, ours.mean) if ours else beside(NOTHING, theirs)


@cache
def table(name: str) -> list[dict[str, str]]:
    """The rows of one of the paper's tables."""
    text = files(__name__).joinpath(f"{name}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def key(env: str) -> str:
    """An environment's name however it is spelt: `atari/SpaceInvaders` and `atari/space_invaders` are one."""
    return "".join(c for c in env.lower() if c.isalnum() or c == "/")


def _value(row: dict[str, str]) -> Value:
    return Value(float(row["mean"]), float(row["std"]))


@dataclass(frozen=True)
class Paper:
    """What the paper reports for one suite and budget: nothing at all for a suite or a budget that it has not."""

    suite: str
    steps: int
    scores: dict[tuple[str, str], Value]  # by environment (see `key`) and agent
    aggregates: dict[tuple[str, str], Value]  # by agent and metric
    ranks: dict[str, Value]  # effective rank by agent

    @staticmethod
    def of(suite: str, steps: int) -> Paper:
        def rows(name: str) -> list[dict[str, str]]:
            return [row for row in table(name) if (row["suite"], int(row["steps"])) == (suite, steps)]

        return Paper(
            suite,
            steps,
            {(key(row["env"]), row["agent"]): _value(row) for row in rows("scores")},
            {(row["agent"], row["metric"]): _value(row) for row in rows("aggregate")},
            {row["agent"]: _value(row) for row in rows("effective_rank")},
        )

    @property
    def envs(self) -> list[str]:
        return list(dict.fromkeys(env for env, _ in self.scores))

    @property
    def agents(self) -> list[str]:
        return list(dict.fromkeys(agent for _, agent in self.scores))

    def score(self, env: str, agent: str) -> Value | None:
        return self.scores.get((key(env), agent))

    def episode_return(self, env: str, agent: str) -> Value | None:
        """The return that a score stands for: on Atari, that whose human-normalised score it is."""
        score = self.score(env, agent)
        if score is None or paper_unit(self.suite).name == "score":
            return score
        if key(env) not in _human_random():
            return None
        random, human = _human_random()[key(env)]
        return Value(random + score.mean * (human - random), score.std * abs(human - random))


@dataclass(frozen=True)
class Unit:
    """What a score is counted in. `convert` makes it of the return in an environment."""

    name: str
    label: str  # as an axis shows it
    convert: Callable[[str, Any], Any]  # of a number or an array


@cache
def _human_random() -> dict[str, tuple[float, float]]:
    return {key(row["env"]): (float(row["random"]), float(row["human"])) for row in table("human_random")}


@cache
def _best() -> dict[str, float]:
    """The paper's highest mean for each environment, at the shortest budget it reports."""
    best: dict[str, tuple[int, float]] = {}
    for row in table("scores"):
        env, steps, mean = key(row["env"]), int(row["steps"]), float(row["mean"])
        before = best.get(env, (steps, mean))
        if steps <= before[0]:
            best[env] = (steps, max(mean, before[1]) if steps == before[0] else mean)
    return {env: value for env, (_, value) in best.items()}


def human_normalised(env: str, score: Any) -> Any:
    """(score - random) / (human - random); NaN where the environment has no such constants."""
    random, human = _human_random().get(key(env), (0.0, float("nan")))
    return (score - random) / (human - random)


def share_of_best(env: str, score: Any) -> Any:
    """score / the paper's best mean; NaN for an environment that the paper has not."""
    return score / _best().get(key(env), float("nan"))


UNITS = {
    "score": Unit("score", "return", lambda env, score: score),
    "human": Unit("human", "human-normalised score", human_normalised),
    "best": Unit("best", "return / the paper's best return", share_of_best),
}


def paper_unit(suite: str) -> Unit:
    """What the paper's tables count in: Atari is human-normalised, the other suites are returns."""
    return UNITS["human" if suite.partition(" ")[0] == "atari" else "score"]


def even_unit(suite: str) -> Unit:
    """What lets tasks of different scales be aggregated: human-normalised, or the share of the paper's best return."""
    family = suite.partition(" ")[0]
    known = {row["suite"] for row in table("scores")}
    return paper_unit(family) if family == "atari" or family not in known else UNITS["best"]


def aggregates(environment_means: Sequence[float] | np.ndarray) -> dict[str, Value]:
    """`mean`, `median` and `iqm` as the paper computes them, which differ from those of Agarwal et al. 2021.

    All three start from the mean over seeds of every environment: one number an environment. `iqm` is the mean of those
    that lie between the quartiles, and the standard deviation is that of the population of environments, not of seeds.
    Nothing where an environment has no mean yet; of two environments neither lies between the quartiles: no `iqm`.
    """
    means = np.asarray(environment_means, np.float64)
    if not len(means) or np.isnan(means).any():
        return {}
    spread, middle = float(means.std()), between_quartiles(means)
    found = {"mean": Value(float(means.mean()), spread), "median": Value(float(np.median(means)), spread)}
    return found | ({"iqm": Value(float(middle.mean()), float(middle.std()))} if len(middle) else {})


def between_quartiles(values: np.ndarray) -> np.ndarray:
    """The values from the first to the third quartile, both included."""
    low, high = np.percentile(values, [25, 75])
    return values[(low <= values) & (values <= high)]
