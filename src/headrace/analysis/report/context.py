"""What all parts of one page share: the runs that were found, and a number for each agent."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from headrace.agents import VARIANTS
from headrace.agents.variants import UNGUARDED
from headrace.analysis.claims import has_claims
from headrace.analysis.records import Found, Record
from headrace.analysis.report.html import Html, tag
from headrace.analysis.scores import Group, agent_order, groups
from headrace.analysis.style import Looks, looks_of

FEW = 6  # other agents than the paper's that are shown from the start


@dataclass(frozen=True)
class Context:
    root: Path
    found: Found

    @cached_property
    def groups(self) -> list[Group]:
        """Those that the paper does not have come first: they are the user's own."""
        return sorted(groups(self.found.records), key=has_claims)

    @cached_property
    def tabs(self) -> dict[str, str]:
        """Titles of groups by tab; none where there is one group."""
        return {group.slug: group.title for group in self.groups} if len(self.groups) > 1 else {}

    def tab(self, group: Group) -> str:
        return group.slug if self.tabs else ""

    @cached_property
    def charted(self) -> set[str]:
        """The agents as charts name them: without their guards they are behind a tab of their own, by the same name."""
        return {agent for group in self.groups for agent in group.agents}

    @cached_property
    def agents(self) -> list[str]:
        """Every agent, as charts and as the list of runs name it; its place in this list is its number on the page."""
        return sorted(self.charted | {record.agent for record in self.found.records}, key=agent_order)

    @cached_property
    def looks(self) -> Looks:
        found = looks_of(self.charted)
        return {agent: found.get(agent) or found[agent.replace(UNGUARDED, "", 1)] for agent in self.agents}

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {agent: number for number, agent in enumerate(self.agents)}

    def number(self, agent: str) -> int:
        return self._numbers[agent]

    def named(self, agent: str) -> Html:
        """An agent's name behind a patch of its colour."""
        return tag("span", tag("span", class_=f"swatch agent-{self.number(agent)}"), agent)

    @cached_property
    def switched_off(self) -> list[int]:
        """Where the paper's variants are among many others, the others are shown on demand. What stands behind a tab
        without any of the variants is shown."""
        among = {agent for group in self.groups if set(VARIANTS) & set(group.agents) for agent in group.agents}
        others = [self.number(agent) for agent in self.agents if agent in among - set(VARIANTS)]
        return others if FEW < len(others) < len(self.charted) else []

    def key(self, record: Record) -> str:
        """A run's address on the page: short, and safe in a file's name."""
        return hashlib.sha256(str(record.path.relative_to(self.root)).encode(errors="surrogateescape")).hexdigest()[:12]
