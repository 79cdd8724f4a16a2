"""Which reading of the paper? Its text leaves some things open: each question with its answers, as plan and as table.

    headrace sweep experiments/readings.py --on fleet               all of them
    headrace sweep experiments/readings.py::weight --on fleet       one

All are asked of MinAtar at 1M steps, three seeds. The default reading is among the answers of every question.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from headrace.agents import Agent, agent_named, name_of, tweak
from headrace.analysis.claims import LEVEL, MIN_SEEDS
from headrace.analysis.paper import even_unit
from headrace.analysis.scores import Group
from headrace.analysis.stats import Comparison, mean, pairwise
from headrace.analysis.table import NOTHING, Cell, Table, between, number
from headrace.errors import counted, unknown
from headrace.sweep.plan import grid
from headrace.training.run import Run

STEPS, SEEDS, ENVS = 1_000_000, "0:3", "minatar/*"
MIN_ENVS = 3
SPR = ("qrc+spr", "qrc+spr+orth")
DEFAULT, BETTER, WORSE, OPEN, FEW = "default", "better", "worse", "not separated", "not enough runs"


class Answer(NamedTuple):
    """A reading: what is set otherwise than by default."""

    label: str
    settings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Question:
    """What is open, the variants that it is asked of, and the answers; the first is the default reading.

    `beside` are agents that the answers are shown with, as others that lack what is asked about.
    """

    name: str
    title: str
    bases: tuple[str, ...]
    answers: tuple[Answer, ...]
    beside: tuple[tuple[str, str], ...] = ()  # (label, variant)

    def of(self, base: str) -> list[tuple[str, str]]:
        """(label, agent's name) of every answer, the default first."""
        return [(answer.label, name_of(_agent(base, answer.settings))) for answer in self.answers]

    def runs(self) -> list[Run]:
        agents = [agent_named(variant) for _, variant in self.beside]
        agents += [_agent(base, answer.settings) for base in self.bases for answer in self.answers]
        return grid(list(dict.fromkeys(agents)), ENVS, seeds=SEEDS, steps=STEPS)


def _agent(base: str, settings: tuple[str, ...]) -> Agent:
    return tweak(agent_named(base), *settings)


def _values(path: str, *values: str) -> tuple[Answer, ...]:
    return tuple(Answer(value, (f"{path}={value}",)) for value in values)


QUESTIONS = (
    Question(
        "history",
        "What orth projects on: raw gradients (the appendix), projected ones (Algorithm 1), the present one included",
        ("qrc+spr+orth",),
        _values("aux.filter.history", "Raw", "Projected", "RawCurrent"),
        (("without orth", "qrc+spr"),),
    ),
    Question(
        "augmentation",
        "How far images are shifted, in pixels; or a slow target and no augmentation",
        SPR,
        (
            Answer("shift 4", ("aux.objective.augment.shift=4",)),
            Answer("shift 1", ("aux.objective.augment.shift=1",)),
            Answer("shift 0", ("aux.objective.augment.shift=0",)),
            Answer("tau 0.99, no augmentation", ("aux.objective.target=Polyak(0.99)", "aux.objective.augment=AsIs")),
        ),
    ),
    Question(
        "reduction",
        "The loss is the sum over the 5 predicted steps, or their mean, which is the sum at a fifth of the weight",
        SPR,
        (Answer("SumOverHorizon"), Answer("MeanOverHorizon", ("aux.weight=0.4",))),
    ),
    Question(
        "period",
        "SPR at every step, at every sixth, or at greedy steps only",
        SPR,
        _values("aux.gate", "Always", "Every(6)", "Greedy"),
    ),
    Question(
        "weight",
        "The weight of SPR, from the text's strength down to about that of the released code",
        SPR,
        _values("aux.weight", "2", "0.4", "0.1", "0.02"),
        (("without SPR", "qrc"),),
    ),
    Question(
        "projection",
        "SPR reaches the projection that the values use, or the encoder only and has a projection of its own",
        SPR,
        _values("aux.objective.projection", "Shared", "Separate"),
    ),
    Question(
        "released",
        "What the errors of the released code are worth together",
        ("qrc+spr+orth",),
        (Answer("as specified"),),
        (("with four of them", "released-four"), ("as released", "released")),
    ),
    Question(
        "learning_rate",
        "The learning rate of qrc, with SPR and without; SPR's own stays as it is",
        ("qrc", *SPR),
        _values("td.lr", "1e-4", "3e-5", "3e-4"),
    ),
    Question(
        "merging",
        "How strq's update and SPR's combine on what they share: half of each, or their sum",
        ("strq+spr", "strq+spr+orth"),
        _values("merge", "Mix(0.5)", "Sum"),
        (("without SPR", "strq"),),
    ),
)


def question(name: str) -> Question:
    found = next((q for q in QUESTIONS if q.name == name), None)
    if found is None:
        raise unknown("question", name, [q.name for q in QUESTIONS])
    return found


def plan() -> list[Run]:
    return list(dict.fromkeys(run for asked in QUESTIONS for run in asked.runs()))


# Each question is a plan of its own, by its name.
globals().update({asked.name: asked.runs for asked in QUESTIONS})


class Judged(NamedTuple):
    """One answer beside the default reading of the same variant."""

    question: Question
    base: str
    label: str
    agent: str
    runs: int  # finished
    envs: int  # in which both have enough seeds
    mean_return: float  # over environments; NaN where one has no run
    compared: Comparison | None
    word: str


@cache
def _rows() -> tuple[tuple[Question, str, str, str], ...]:
    """(question, variant, label, agent) of every line of the table."""
    return tuple(
        (question, base, label, agent)
        for question in QUESTIONS
        for base in question.bases
        for label, agent in [*question.of(base), *question.beside]
    )


def judged(group: Group, rng: np.random.Generator) -> list[Judged]:
    """Every answer against the default reading, on the environments in which both have at least three seeds."""
    unit = even_unit(group.suite)
    matrices = {agent: _enough(group.matrix(agent, unit)) for _, _, _, agent in _rows()}
    pairs = [(agent, base) for _, base, _, agent in _rows() if agent != base]
    fair = dict.fromkeys(pair for pair in pairs if _common(matrices, *pair) >= MIN_ENVS)
    found = dict(zip(fair, pairwise(matrices, list(fair), rng), strict=True))
    return [_judged(group, row, matrices, found) for row in _rows()]


def _enough(matrix: np.ndarray) -> np.ndarray:
    """The matrix without the environments that have fewer than three runs."""
    return np.where(np.isfinite(matrix).sum(axis=0) >= MIN_SEEDS, matrix, np.nan)


def _common(matrices: dict[str, np.ndarray], first: str, second: str) -> int:
    return int((np.isfinite(matrices[first]).any(axis=0) & np.isfinite(matrices[second]).any(axis=0)).sum())


def _judged(
    group: Group,
    row: tuple[Question, str, str, str],
    matrices: dict[str, np.ndarray],
    found: dict[tuple[str, str], Comparison],
) -> Judged:
    question, base, label, agent = row
    scores = group.matrix(agent)
    complete = np.isfinite(scores).any(axis=0).all()
    compared = found.get((agent, base))
    return Judged(
        question, base, label, agent, int(np.isfinite(scores).sum()), _common(matrices, agent, base),
        float(mean(scores)) if complete else np.nan, compared, DEFAULT if agent == base else word(compared),
    )  # fmt: skip


def word(compared: Comparison | None) -> str:
    """What the 95% interval of the difference says, where the permutation test agrees, as for claims."""
    if compared is None:
        return FEW
    if not compared.p < LEVEL:
        return OPEN
    return BETTER if compared.difference.low > 0 else WORSE if compared.difference.high < 0 else OPEN


def readings_table(group: Group, found: Sequence[Judged]) -> Table:
    """Every question that can be judged; what cannot is named in a note. The CSV has all."""
    known = {(one.question, one.base) for one in found if one.compared}
    shown = [one for one in found if (one.question, one.base) in known and (one.compared or one.word == DEFAULT)]
    rows = [[Cell(text) for text in _texts(one)] for one in shown]
    notes = [
        f"{group.title}; a run's score is the mean of its last 50 log points",
        f"Difference to the default reading of the same variant: mean of the {even_unit(group.suite).label} over the "
        f"games in which both have {MIN_SEEDS} seeds, at least {MIN_ENVS} games; stratified-bootstrap 95% interval",
        "better, worse: the interval lies on one side of 0 and a permutation test has p < 0.05, not corrected; p "
        "(Holm) is corrected over all comparisons here",
        "MeanOverHorizon is a fifth of the sum over five: its runs are those of weight 0.4",
        *_lacking(found),
    ]
    header = ["question", "variant", "reading", "runs", "mean return", "difference", "p (Holm)", "verdict"]
    return Table("readings", "Which reading of the paper", header, rows, [_data(group, one) for one in found], notes)


def _lacking(found: Sequence[Judged]) -> list[str]:
    """A note for each question on the readings without enough runs."""
    lacking: dict[str, list[str]] = {}
    for one in found:
        if one.word == FEW:
            lacking.setdefault(one.question.name, []).append(f"{one.base} {one.label} ({counted(one.runs, 'run')})")
    return [f"{FEW}, {name}: {', '.join(labels)}" for name, labels in lacking.items()]


def _texts(one: Judged) -> list[str]:
    difference = between(*one.compared.difference) if one.compared else NOTHING
    p = f"{one.compared.p_holm:.3f}" if one.compared and np.isfinite(one.compared.p_holm) else NOTHING
    shown = number(one.mean_return) if one.runs else NOTHING
    return [one.question.name, one.base, one.label, str(one.runs), shown, difference, p, one.word]


def _data(group: Group, one: Judged) -> dict[str, Any]:
    nothing = (np.nan, np.nan, np.nan)
    value, low, high = one.compared.difference if one.compared else nothing
    return {
        "suite": group.suite,
        "steps": group.steps,
        "question": one.question.name,
        "variant": one.base,
        "reading": one.label,
        "agent": one.agent,
        "runs": one.runs,
        "environments": one.envs,
        "mean_return": one.mean_return,
        "difference": value,
        "difference_low": low,
        "difference_high": high,
        "p": one.compared.p if one.compared else np.nan,
        "p_holm": one.compared.p_holm if one.compared else np.nan,
        "verdict": one.word,
    }
