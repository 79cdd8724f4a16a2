"""A watch on silent failure: what a run's log rows say of an agent that learns nothing while its losses look calm.

A symptom is a condition on a row; held for several log points in a row it is a finding, which is reported once. Nothing
here knows an engine or a file. A row that lacks a symptom's columns, or has NaN there, says nothing about it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headrace.agents import Agent, Clip, ObGd, Spr, SumOverHorizon, Unguarded

Row = Mapping[str, float]  # a log point: values by column of metrics.csv, "step" among them

# Agents that see (dqn, strq, qrc, qrc+spr+orth) had at least 0.14 and 0.008 in the first 5,000 steps on Atari Breakout,
# 0.11 and 0.59 in the first 20,000 on three MinAtar games; blind ones (unguarded, on Atari Breakout and Pong) at most
# 0.001 and 3e-7.
SIGHT = 0.01
LATENT_SPREAD = 1e-4
# SPR's mean cosine. The two blind runs of results/atari begin at 0.986 and never fall below; of all MinAtar runs in
# results the highest first point is 0.952, though a healthy run may reach 0.999 later (Freeway, Seaquest).
COSINE = 0.98
# Where a plain gradient step goes beyond the point that it aims at. Means of healthy runs: 0.8 at most on MinAtar.
OVERSHOOT = 2.0
# Rewards are divided by the standard deviation of their discounted sum. Healthy runs end at |Q| of 3.3 at most, and
# come back from peaks of 64 (TD error 9.6) within 10,000 steps.
VALUE = 30.0
TD_ERROR = 10.0
# After a LayerNorm about half of all units are below zero at any one state. At all eight states looked at: 0.07 to 0.58
# in agents that see, 0.53 to 0.65 in blind ones.
DEAD_UNITS = 0.9
# The guard is meant for degenerate inputs: usual gradients have norms of 10 to 40, it acts from 100. Agents that learn
# on Atari and MinAtar: at most 0.002 of a thousand steps.
GUARDED = 0.1


@dataclass(frozen=True)
class Finding:
    kind: str
    step: int  # since when
    sentence: str


@dataclass(frozen=True)
class Symptom:
    kind: str
    points: int  # log points in a row
    rule: str  # in words
    source: str  # where the limit comes from
    holds: Callable[[Agent, Row], bool | None]  # None: the row does not say
    tells: Callable[[Agent, Row], str]  # what is wrong, and the likeliest remedy
    # Of the last rows, at which it held, and the number of earlier ones at which it did not.
    confirmed: Callable[[Sequence[Row], int], bool] = lambda last, free: True


class Watch:
    """Reads the log rows of one run, first to last; `see` returns what is new at a row."""

    def __init__(self, agent: Agent, earlier: Mapping[str, np.ndarray] | None = None) -> None:
        """`earlier` rows, as columns, are those of a run that is resumed: what they show has been told."""
        self._courses = [Course(agent, symptom) for symptom in SYMPTOMS]
        for row in rows_of(earlier or {}):
            self.see(row)

    def see(self, row: Row) -> list[Finding]:
        return [finding for course in self._courses if (finding := course.at(row))]

    @property
    def not_judged(self) -> list[str]:
        """Kinds of symptoms of which no row said anything."""
        judged = {course.kind for course in self._courses if course.judged}
        return [kind for kind in dict.fromkeys(course.kind for course in self._courses) if kind not in judged]


class Course:
    """One symptom over the rows of one run."""

    def __init__(self, agent: Agent, symptom: Symptom) -> None:
        self._agent, self._symptom = agent, symptom
        self._last: deque[Row] = deque(maxlen=symptom.points)  # rows in a row at which it held
        self._free, self._since, self._told = 0, 0, False  # `free`: rows at which it did not hold
        self.kind, self.judged = symptom.kind, False  # whether any row said something about it

    def at(self, row: Row) -> Finding | None:
        symptom, holds = self._symptom, self._symptom.holds(self._agent, row)
        self.judged |= holds is not None
        if self._told or holds is None:
            return None
        if not holds:
            self._last.clear()
            self._free += 1
            return None
        if not self._last:
            self._since = int(row["step"])
        self._last.append(row)
        self._told = len(self._last) == symptom.points and symptom.confirmed(self._last, self._free)
        if not self._told:
            return None
        return Finding(
            symptom.kind, self._since, f"{symptom.kind} since step {self._since:,}: {symptom.tells(self._agent, row)}"
        )


def rows_of(columns: Mapping[str, np.ndarray]) -> Iterator[Row]:
    """The rows of a table; those of which a pack kept no more than step and return are passed over."""
    if not columns:
        return
    kept = ~np.all([np.isnan(values) for name, values in columns.items() if name not in ("step", "return")], axis=0)
    for values in zip(*(column[kept].tolist() for column in columns.values()), strict=True):
        yield dict(zip(columns, values, strict=True))


def mean_cosine(agent: Agent, row: Row) -> float:
    """SPR's cosine, averaged over its horizon; NaN where the agent has no SPR."""
    objective = getattr(agent.aux, "objective", None)
    if not isinstance(objective, Spr):
        return math.nan
    terms = objective.horizon if isinstance(objective.reduce, SumOverHorizon) else 1
    return -row.get("aux_loss", math.nan) / terms


def _value(name: str) -> Callable[[Agent, Row], float]:
    return lambda agent, row: abs(row.get(name, math.nan))


def _above(value: Callable[[Agent, Row], float], limit: float) -> Callable[[Agent, Row], bool | None]:
    def holds(agent: Agent, row: Row) -> bool | None:
        found = value(agent, row)
        return None if math.isnan(found) else found > limit

    return holds


def _blind(agent: Agent, row: Row) -> bool | None:
    sight, spread = row.get("sight", math.nan), row.get("latent_spread", math.nan)
    return None if math.isnan(sight + spread) else sight < SIGHT and spread < LATENT_SPREAD


def _collapsed(agent: Agent, row: Row) -> bool | None:
    cosine, spread = mean_cosine(agent, row), row.get("latent_spread", math.nan)
    if math.isnan(cosine + spread):
        return None
    return cosine > COSINE and spread < LATENT_SPREAD and not _blind(agent, row)


def _collapsed_unseen(agent: Agent, row: Row) -> bool | None:
    """Of a row without columns of sight."""
    cosine = mean_cosine(agent, row)
    return None if "sight" in row or math.isnan(cosine) else cosine > COSINE


def _excess(row: Row) -> float:
    """How far the values or their errors are beyond what scaled rewards allow."""
    return float(np.maximum(abs(row.get("q", math.nan)) / VALUE, row.get("td_error", math.nan) / TD_ERROR))


def _guard(agent: Agent) -> str:
    """How to guard an agent that has no guard, or else what there is to be tried."""
    parts = (("td.guard", getattr(agent.td, "guard", None)), ("aux.guard", getattr(agent.aux, "guard", None)))
    missing = [f"--set '{path}=Clip({Clip().norm:g})'" for path, guard in parts if isinstance(guard, Unguarded)]
    return f"train with the guard: {' '.join(missing)}" if missing else f"begin again with {_slower(agent)}"


def _slower(agent: Agent) -> str:
    """Smaller steps, as the rule has them."""
    if isinstance(getattr(agent.td, "step_size", None), ObGd):
        return f"a larger bound, as --set td.kappa={2 * getattr(agent.td, 'kappa', math.nan):g}"
    lr = getattr(agent.td, "lr", math.nan)
    return f"a smaller learning rate, as --set td.lr={lr / 3:.1g}"


def _spr_weaker(agent: Agent) -> str:
    weight = getattr(agent.aux, "weight", math.nan)
    return f"a weaker auxiliary, as --set aux.weight={weight / 10:.1g}"


def _share(value: float) -> str:
    return f"{100 * value:.2g}%"


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        "blind", 3, f"sight below {SIGHT:g} and latent spread below {LATENT_SPREAD:g}",
        "agents that see: from 0.11 and 0.008 (MinAtar, Atari); blind ones: up to 0.001 and 3e-7 (Atari)", _blind,
        lambda agent, row: (
            f"between states Q varies by {_share(row['sight'])} of its spread over actions; {_guard(agent)}"
        ),
    ),
    Symptom(
        "collapsed", 3, f"SPR's mean cosine above {COSINE:g} and latent spread below {LATENT_SPREAD:g}, but not blind",
        "as for blind; a healthy run can have a cosine of 0.999 with latents that differ", _collapsed,
        lambda agent, row: (
            f"SPR predicts a latent that is the same at all states (mean cosine {mean_cosine(agent, row):.4f}, spread "
            f"{_share(row['latent_spread'])}); try {_spr_weaker(agent)}"
        ),
    ),
    Symptom(
        "collapsed", 5, f"SPR's mean cosine above {COSINE:g} at every log point (runs without sight)",
        "blind runs of results/atari: 0.986 at first, then above; of MinAtar's the highest first point is 0.952",
        _collapsed_unseen,
        lambda agent, row: (
            f"SPR's mean cosine has been above {COSINE:g} from the start and is {mean_cosine(agent, row):.4f}, as that "
            f"of a blind agent is; {_guard(agent)}"
        ),
        lambda last, free: free == 0,
    ),
    Symptom(
        "overshooting", 5, f"mean overshoot above {OVERSHOOT:g}",
        "a plain gradient step beyond twice its aim; healthy MinAtar runs: 0.8 at most, first log point apart",
        _above(_value("overshoot"), OVERSHOOT),
        lambda agent, row: f"a step goes {row['overshoot']:.3g} times as far as its error asks; try {_slower(agent)}",
    ),
    Symptom(
        "diverging", 10, f"|Q| above {VALUE:g} or mean TD error above {TD_ERROR:g}, and growing",
        "rewards are scaled; MinAtar runs end at 3.3 and 0.15 at most, peaks of 64 and 9.6 last less than 10,000 steps",
        _above(lambda agent, row: _excess(row), 1),
        lambda agent, row: (
            f"|Q| is {abs(row['q']):.3g} and the mean TD error {row['td_error']:.3g}, of scaled rewards, and grow; try "
            f"{_slower(agent)}"
        ),
        lambda last, free: _excess(last[-1]) > _excess(last[0]),
    ),
    Symptom(
        "dead units", 5, f"share of dead units above {DEAD_UNITS:g}",
        "at all states looked at: 0.07 to 0.58 of the units in agents that see",
        _above(_value("dead_units"), DEAD_UNITS),
        lambda agent, row: (
            f"{_share(row['dead_units'])} of the units are flat at all states looked at; try {_slower(agent)}"
        ),
    ),
    Symptom(
        "guarded", 5, f"guard acts on more than {GUARDED:g} of the steps",
        "made for degenerate inputs; agents that learn: 0.002 at most",
        _above(_value("guarded"), GUARDED),
        lambda agent, row: (
            f"the guard shortens gradients on {_share(row['guarded'])} of the steps; try {_slower(agent)}"
        ),
    ),
    Symptom(
        "auxiliary guarded", 5, f"the auxiliary's guard acts on more than {GUARDED:g} of its steps",
        "as for the guard", _above(_value("aux_guarded"), GUARDED),
        lambda agent, row: (
            f"the guard shortens the auxiliary's gradient on {_share(row['aux_guarded'])} of its steps; try "
            f"{_spr_weaker(agent)}"
        ),
    ),
)  # fmt: skip
