"""The paper's claims, each judged on a group of runs: a sentence with its numbers, an interval, and a verdict.

A verdict is never guessed: a claim holds or does not hold where a 95% interval and a test both say so, and otherwise
there are not enough runs to tell. With three seeds a percentile interval is too narrow to be trusted alone; the test
alone says nothing of the size. At least three finished seeds are wanted in every environment of the group.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from headrace.analysis.curves import grid, task_lines
from headrace.analysis.latents import Latents
from headrace.analysis.paper import even_unit, paper_unit
from headrace.analysis.ranks import analyses, rank_matrix
from headrace.analysis.scores import Group
from headrace.analysis.stats import Interval, interval, mean, permutation_p, t_test_p
from headrace.analysis.table import Cell, Table, between, number
from headrace.errors import counted

HOLDS, FAILS, UNKNOWN = "holds", "does not hold", "not enough runs"
LEVEL = 0.05  # of the tests, not corrected: each claim is judged by itself
MIN_SEEDS = 3
NEAR_ZERO = 0.1  # a cosine within this of 0 is near 0
MARGIN = 0.05  # of the base agent's mean: how far below it still counts as "at" it
COSINE = "cosine_before_orth"


class Bounded(NamedTuple):
    """A number with its interval, and the p-value of a test against a bound."""

    found: Interval
    bound: float
    p: float  # two-sided

    @property
    def above(self) -> bool:
        return self.p < LEVEL and self.found.low > self.bound

    @property
    def below(self) -> bool:
        return self.p < LEVEL and self.found.high < self.bound


def difference(x: np.ndarray, y: np.ndarray, bound: float, rng: np.random.Generator) -> Bounded:
    """The mean over tasks of x less that of y; runs are exchanged between y and an x that is moved by the bound."""
    found = interval((x, y), lambda a, b: mean(a) - mean(b), rng)
    return Bounded(found, bound, permutation_p(x - bound, y, mean, rng))


def level(x: np.ndarray, bounds: Sequence[float], rng: np.random.Generator) -> list[Bounded]:
    """The mean over tasks of x against each of the bounds, which is no other agent's: a t test over its runs."""
    found = interval(x, mean, rng)
    return [Bounded(found, bound, t_test_p(x, bound)) for bound in bounds]


def is_above(one: Bounded) -> str:
    """The verdict on the claim that a number is above its bound."""
    return HOLDS if one.above else FAILS if one.below else UNKNOWN


def is_between(low: Bounded, high: Bounded) -> str:
    """The verdict on the claim that a number lies between two bounds."""
    if low.above and high.below:
        return HOLDS
    return FAILS if low.below or high.above else UNKNOWN


def chance(p: float) -> str:
    """A p-value in words."""
    if math.isnan(p):
        return "no test"
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


class Evidence(NamedTuple):
    """What a claim is judged by: scores, latents, and randomness for the intervals."""

    group: Group
    latents: dict[str, Latents]
    rng: np.random.Generator


class Judgement(NamedTuple):
    claim: str
    group: str  # title
    verdict: str  # HOLDS, FAILS or UNKNOWN
    sentence: str
    found: Interval
    p: float  # of the test; NaN where nothing was tested
    paper: float  # the same number from the paper's tables; NaN where it has none


@dataclass(frozen=True)
class Claim:
    """A claim of the paper. `judge` measures it on runs and gives a verdict."""

    text: str
    judge: Callable[[Claim, Evidence], Judgement]


def lacking(matrix: np.ndarray, agent: str, envs: list[str], what: str = "finished") -> str:
    """Which environments have fewer than three seeds, in words; empty if none has."""
    counts = np.isfinite(matrix).sum(axis=0)
    if not counts.any():
        return f"There are no {what} runs of {agent}"
    short = [f"{env} {count}" for env, count in zip(envs, counts, strict=True) if count < MIN_SEEDS]
    if not short:
        return ""
    shown = ", ".join(short[:6]) + (", ..." if len(short) > 6 else "")
    return f"{agent} has fewer than {MIN_SEEDS} {what} runs in {len(short)} of {len(envs)} environments ({shown})"


def _unknown(claim: Claim, evidence: Evidence, why: str, paper: float = math.nan) -> Judgement:
    nothing = Interval(math.nan, math.nan, math.nan)
    return Judgement(claim.text, evidence.group.title, UNKNOWN, f"{why}.", nothing, math.nan, paper)


def _judged(claim: Claim, evidence: Evidence, one: Bounded, sentence: str, paper: float) -> Judgement:
    """The judgement of a claim that a number is above its bound."""
    return Judgement(claim.text, evidence.group.title, is_above(one), sentence, one.found, one.p, paper)


def _paper_difference(group: Group, worse: str, better: str) -> float:
    """The difference of the paper's means, on the scale on which ours is measured."""
    paper, scale, unit = group.paper(), even_unit(group.suite), paper_unit(group.suite)
    pairs = [(env, paper.score(env, better), paper.score(env, worse)) for env in group.envs]
    known = [(env, a.mean, b.mean) for env, a, b in pairs if a and b]
    if len(known) < len(group.envs):
        return math.nan
    if scale == unit:
        return float(np.mean([a - b for _, a, b in known]))
    return float(np.mean([scale.convert(env, a) - scale.convert(env, b) for env, a, b in known]))


def ordering(worse: str, better: str, margin: float = 0.0) -> Callable[[Claim, Evidence], Judgement]:
    """The mean over environments of `better` is above that of `worse`; with a margin, not further below it than that
    share of it."""

    def judge(claim: Claim, evidence: Evidence) -> Judgement:
        group, unit = evidence.group, even_unit(evidence.group.suite)
        x, y = group.matrix(better, unit), group.matrix(worse, unit)
        paper = _paper_difference(group, worse, better)
        if why := lacking(x, better, group.envs) or lacking(y, worse, group.envs):
            return _unknown(claim, evidence, why, paper)
        base = float(mean(y))
        one = difference(x, y, -margin * abs(base), evidence.rng)
        against = f" against {number(one.bound)}, {margin:.0%} below" if margin else ""
        sentence = (
            f"{better} scores {number(float(mean(x)))}, {worse} {number(base)}: difference {between(*one.found)}, "
            f"{chance(one.p)}{against} ({unit.label}, mean over {_counted(group, x, y)})"
        )
        return _judged(claim, evidence, one, _finished(sentence, group, (worse, better), paper), paper)

    return judge


def rank_above(worse: str, better: str) -> Callable[[Claim, Evidence], Judgement]:
    """Latents of `better` have the higher effective rank."""

    def judge(claim: Claim, evidence: Evidence) -> Judgement:
        group = evidence.group
        x, y = (rank_matrix(group, agent, evidence.latents) for agent in (better, worse))
        ranks = group.paper().ranks
        paper = ranks[better].mean - ranks[worse].mean if {worse, better} <= ranks.keys() else math.nan
        if why := lacking(x, better, group.envs, "analysed") or lacking(y, worse, group.envs, "analysed"):
            return _unknown(claim, evidence, why + "; `headrace latents` analyses runs", paper)
        one = difference(x, y, 0.0, evidence.rng)
        sentence = (
            f"The latents of {better} have effective rank {number(float(mean(x)))}, those of {worse} "
            f"{number(float(mean(y)))}: difference {between(*one.found)}, {chance(one.p)} "
            f"(mean over {_counted(group, x, y)})"
        )
        return _judged(claim, evidence, one, _finished(sentence, group, (worse, better), paper), paper)

    return judge


def cosine(agent: str, low: float, high: float) -> Callable[[Claim, Evidence], Judgement]:
    """The mean cosine between the two updates on the encoder, before any projection, lies between the bounds."""

    def judge(claim: Claim, evidence: Evidence) -> Judgement:
        group = evidence.group
        matrix = cosine_matrix(group, agent)
        if why := lacking(matrix, agent, group.envs):
            return _unknown(claim, evidence, why)
        ends = level(matrix, (low, high), evidence.rng)
        found, nearest = ends[0].found, max(ends, key=lambda end: end.p)
        sentence = (
            f"Under {agent} the cosine is {between(*found)}, {chance(nearest.p)} against {nearest.bound:g} "
            f"(mean over training and {_counted(group, matrix)})"
        )
        words = _finished(sentence, group, (agent,), math.nan)
        return Judgement(claim.text, group.title, is_between(*ends), words, found, nearest.p, math.nan)

    return judge


def cosine_matrix(group: Group, agent: str) -> np.ndarray:
    """Means over training of the cosine before orth, (seeds x environments) of finished runs."""
    steps, found = grid(group.steps), np.full((len(group.seeds), len(group.envs)), np.nan)
    finished = replace(group, records=tuple(r for r in group.runs_of(agent) if r.state == "finished"))
    for env, lines in task_lines(finished, agent, COSINE, steps).items():
        means = [float(np.nanmean(line)) for line in lines]
        found[: len(means), group.envs.index(env)] = means
    return found


def _counted(group: Group, *matrices: np.ndarray) -> str:
    """`5 environments, 3 and 5 seeds`: those that the agents compared have."""
    seeds = sorted({int(np.isfinite(matrix).any(axis=1).sum()) for matrix in matrices})
    of = counted(seeds[0], "seed") if len(seeds) == 1 else " and ".join(map(str, seeds)) + " seeds"
    return f"{counted(len(group.envs), 'environment')}, {of}"


def _finished(sentence: str, group: Group, agents: tuple[str, ...], paper: float) -> str:
    """The sentence with what the paper has, and with the runs that are not in it."""
    said = [sentence + (f"; the paper's tables give {number(paper)}" if math.isfinite(paper) else "") + "."]
    diverged = [gap for agent in agents for gap in group.gaps(agent) if gap.why == "diverged"]
    if diverged:
        are = "is" if len(diverged) == 1 else "are"
        said.append(f"{counted(len(diverged), 'run')} that diverged {are} left out, which flatters the agent.")
    others = sum(len(group.gaps(agent)) for agent in agents) - len(diverged)
    if others:
        said.append(f"{counted(others, 'run')} {'is' if others == 1 else 'are'} missing or unfinished.")
    wanted = len(group.paper().envs)
    if not wanted:
        said.append("The paper has no runs of this suite and length.")
    elif len(group.envs) < wanted:
        said.append(f"The paper has {wanted} environments.")
    return " ".join(said)


CLAIMS: tuple[Claim, ...] = (
    Claim("SPR improves QRC: qrc < qrc+spr", ordering("qrc", "qrc+spr")),
    Claim("orth improves it further: qrc+spr < qrc+spr+orth", ordering("qrc+spr", "qrc+spr+orth")),
    Claim("both together improve it: qrc < qrc+spr+orth", ordering("qrc", "qrc+spr+orth")),
    Claim("SPR improves streaming DQN: dqn < dqn+spr", ordering("dqn", "dqn+spr")),
    Claim("SPR alone harms Stream Q: strq+spr < strq", ordering("strq+spr", "strq")),
    Claim("so does SPR with orth: strq+spr+orth < strq", ordering("strq+spr+orth", "strq")),
    Claim("orth2 mends it: strq+spr+orth2 at or above strq", ordering("strq", "strq+spr+orth2", MARGIN)),
    Claim("SPR with orth raises the effective rank under QRC", rank_above("qrc", "qrc+spr+orth")),
    Claim("SPR with orth2 raises the effective rank under Stream Q", rank_above("strq", "strq+spr+orth2")),
    Claim("SPR raises the effective rank under DQN", rank_above("dqn", "dqn+spr")),
    Claim("RL and SPR updates are near orthogonal under QRC", cosine("qrc+spr", -NEAR_ZERO, NEAR_ZERO)),
    Claim("RL and SPR updates conflict under Stream Q", cosine("strq+spr", -1.0, 0.0)),
)


def has_claims(group: Group) -> bool:
    """Whether the paper's claims are about such runs: its suites, with the usual rules, at its lengths."""
    return bool(group.paper().scores)


def judge(group: Group, rng: np.random.Generator) -> list[Judgement]:
    """Every claim, judged on these runs."""
    evidence = Evidence(group, analyses(group).whole, rng)
    return [claim.judge(claim, evidence) for claim in CLAIMS]


def claims_table(judgements: list[Judgement]) -> Table:
    rows = [[Cell(j.group), Cell(j.claim), Cell(j.verdict), Cell(j.sentence)] for j in judgements]
    data = [
        {
            "group": j.group,
            "claim": j.claim,
            "verdict": j.verdict,
            **j.found._asdict(),
            "p": j.p,
            "paper": j.paper,
            "sentence": j.sentence,
        }
        for j in judgements
    ]
    notes = [
        "A claim holds, or does not, where a 95% bootstrap interval lies on one side and a two-sided permutation test "
        f"(cosines: a t test over seeds) has p < {LEVEL:g}, not corrected for the number of claims, with at least "
        f"{MIN_SEEDS} seeds in every environment",
        f"Near orthogonal: within {NEAR_ZERO} of 0. At or above: not below by more than {MARGIN:.0%}; "
        "such claims are tested against that bound",
    ]
    return Table(
        "claims", "The paper's claims on these runs", ["suite", "claim", "verdict", "evidence"], rows, data, notes
    )
