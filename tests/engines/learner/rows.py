"""A table with a row for each variant on each suite, printed as it is made."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence

from headrace.agents import VARIANTS, Agent, BySuite, agent_named
from headrace.envs.base import EnvSpec
from tests.engines.learner.support import NAMES, SUITES, on, spec_of

BOX = "box"  # vectors, in which an action is a point of a box


def words_for(about: str | None) -> argparse.ArgumentParser:
    """A command line that says which suites and which variants."""
    words = argparse.ArgumentParser(description=about)
    words.add_argument("--suites", nargs="+", default=list(SUITES), choices=[*SUITES, BOX])
    words.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=NAMES)
    return words


def print_rows(
    said: argparse.Namespace, columns: Sequence[str], cells: Callable[[str, Agent, EnvSpec], Sequence[str]]
) -> None:
    """The cells after the suite's and the variant's, for all that were said; on standard error how long each took."""
    print(f"| {' | '.join(('suite', 'variant', *columns))} |")
    print("|---" * (len(columns) + 2) + "|", flush=True)
    for suite in said.suites:
        for variant in said.variants:
            began = time.perf_counter()
            spec = spec_of(SUITES["vector"], box=True) if suite == BOX else spec_of(SUITES[suite])
            row = cells(suite, on(agent_named(variant), BySuite()), spec)
            print(f"| {' | '.join((suite, variant, *row))} |", flush=True)
            print(f"{suite} {variant}: {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
