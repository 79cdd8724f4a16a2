"""Scores of runs: a matrix (seeds x tasks) for each agent of a suite and a budget.

Suites and budgets are never mixed. A run that is missing or did not finish is NaN in the matrix and has a line of its
own in `Group.gaps`; nothing is filled in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from headrace.agents import KNOWN, UNGUARDED, guards
from headrace.analysis.paper import UNITS, Paper, Unit
from headrace.analysis.records import Record, duplicates
from headrace.runs.folder import SCORED_POINTS
from headrace.training.curve import step_label


class Gap(NamedTuple):
    """A score that is not there, and why: `missing`, or the state of a run that did not finish."""

    agent: str
    env: str
    seed: int
    why: str


@dataclass(frozen=True)
class Group:
    """The runs of one suite and one budget: one for each agent, environment and seed.

    Agents without their guards are a group of their own, in which they have the names that they have with them.
    """

    suite: str
    steps: int
    records: tuple[Record, ...]
    guarded: bool = True

    @property
    def title(self) -> str:
        return f"{self.suite}, {step_label(self.steps)} steps{'' if self.guarded else ', unguarded'}"

    @property
    def slug(self) -> str:
        """The group's name as part of a file's name."""
        return "".join(c if c.isalnum() or c in "._=-" else "-" for c in f"{self.suite}_{step_label(self.steps)}") + (
            "" if self.guarded else "_unguarded"
        )

    @property
    def columns(self) -> dict[str, Any]:
        """What tells the group from others in a table."""
        return {"suite": self.suite, "steps": self.steps}

    @cached_property
    def agents(self) -> list[str]:
        """The nine variants in the paper's order, then the others by name."""
        return sorted({r.agent for r in self.records}, key=agent_order)

    @cached_property
    def envs(self) -> list[str]:
        return sorted({r.env for r in self.records})

    @cached_property
    def seeds(self) -> list[int]:
        return sorted({r.seed for r in self.records})

    @property
    def has_many(self) -> bool:
        """Whether there is something to aggregate: more than one environment or seed."""
        return len(self.envs) > 1 or len(self.seeds) > 1

    @cached_property
    def _by_place(self) -> dict[tuple[str, str, int], Record]:
        return {(r.agent, r.env, r.seed): r for r in self.records}

    def record(self, agent: str, env: str, seed: int) -> Record | None:
        return self._by_place.get((agent, env, seed))

    def runs_of(self, agent: str, env: str | None = None) -> list[Record]:
        return [r for r in self.records if r.agent == agent and env in (None, r.env)]

    def matrix(self, agent: str, unit: Unit = UNITS["score"]) -> np.ndarray:
        """Scores of finished runs, (seeds x environments) as `seeds` and `envs` list them; NaN where there is none."""
        found = np.full((len(self.seeds), len(self.envs)), np.nan)
        for i, seed in enumerate(self.seeds):
            for j, env in enumerate(self.envs):
                record = self.record(agent, env, seed)
                if record and record.state == "finished" and record.score:
                    found[i, j] = unit.convert(env, record.score.mean)
        return found

    def matrices(self, unit: Unit = UNITS["score"]) -> dict[str, np.ndarray]:
        return {agent: self.matrix(agent, unit) for agent in self.agents}

    def scored(self, unit: Unit) -> dict[str, np.ndarray]:
        """The matrices of the agents that have a score."""
        return {agent: matrix for agent, matrix in self.matrices(unit).items() if np.isfinite(matrix).any()}

    def gaps(self, agent: str) -> list[Gap]:
        """Every (environment, seed) of the group for which this agent has no finished run."""
        places = [(env, seed, self.record(agent, env, seed)) for env in self.envs for seed in self.seeds]
        return [Gap(agent, env, seed, _why(record)) for env, seed, record in places if _why(record)]

    @property
    def young(self) -> list[Record]:
        """Finished runs whose score is the mean of fewer than 50 log points."""
        return [r for r in self.records if r.state == "finished" and r.score and r.score.points < SCORED_POINTS]

    def paper(self) -> Paper:
        """The paper's numbers for this suite and budget, which may be none."""
        return Paper.of(self.suite, self.steps)


def _why(record: Record | None) -> str:
    if record is None:
        return "missing"
    if record.state != "finished":
        return record.state
    return "" if record.score else "no finished episode"


def groups(records: Sequence[Record]) -> list[Group]:
    """The records by suite and budget, agents without their guards apart; of runs that differ in the engine alone, one
    is taken (see `duplicates`)."""
    places: dict[tuple[str, int], list[Record]] = {}
    for record in duplicates(records)[0]:
        places.setdefault((record.suite, record.steps), []).append(record)
    return [group for (suite, steps), found in sorted(places.items()) for group in _by_guard(suite, steps, found)]


def _by_guard(suite: str, steps: int, records: list[Record]) -> list[Group]:
    """An agent that has no guard, such as strq, belongs to both groups; where only such are guarded, to the other."""
    bare = [r for r in records if _is_unguarded(r.agent)]
    neither = [r for r in records if not _is_unguarded(r.agent) and not _has_guard(r.agent)]
    guarded = [r for r in records if not _is_unguarded(r.agent)]
    renamed = tuple(replace(r, agent=r.agent.replace(UNGUARDED, "", 1)) for r in bare) + tuple(neither)
    found = [Group(suite, steps, tuple(guarded))] if len(guarded) > len(neither) or not bare else []
    return found + ([Group(suite, steps, renamed, guarded=False)] if bare else [])


def _is_unguarded(agent: str) -> bool:
    return agent.split(" ")[0].endswith(UNGUARDED)


def _has_guard(agent: str) -> bool:
    known = KNOWN.get(agent.split(" ")[0])
    return known is None or bool(guards(known))


_ORDER = {name: number for number, name in enumerate(KNOWN)}


def agent_order(agent: str) -> tuple[int, str]:
    """A key that sorts agents: named ones first, in the order of their definition."""
    return _ORDER.get(agent, len(_ORDER)), agent
