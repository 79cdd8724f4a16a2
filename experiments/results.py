"""Every table and figure that the repository shows of its results, made anew from the records in results/.

python experiments/results.py            writes results/tables/, docs/results/, and what stands between markers in
                                         docs/results.md, results/README.md and README.md
python experiments/results.py FOLDER     the same into a copy of these below FOLDER

A block of a page begins with `<!-- NAME: written by experiments/results.py -->` and ends with `<!-- end of NAME -->`.
"""

from __future__ import annotations

import csv
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from readings import judged, readings_table
from result_tables import (
    atari_table,
    control_tests,
    engines_table,
    game_table,
    mean_table,
    nine_of,
    source_table,
    update_table,
    verdict_lines,
    weight_table,
)

from headrace.agents import VARIANTS, agent_named
from headrace.agents.variants import UNGUARDED, guards
from headrace.analysis.artefacts import drawings, tables
from headrace.analysis.claims import Judgement, claims_table, judge
from headrace.analysis.records import Found, Record, find_runs
from headrace.analysis.scores import Group, groups
from headrace.analysis.stats import task_means
from headrace.analysis.table import Table
from headrace.reproduce.coverage import Coverage, coverage
from headrace.reproduce.plans import MINATAR
from headrace.runs.folder import METRICS, Score, score
from headrace.runs.tables import read_table

ROOT = Path(__file__).resolve().parents[1]
RESULTS, PAGES = "results", ("docs/results.md", "docs/parity.md", "results/README.md", "README.md")
TABLES, FIGURES = "results/tables", "docs/results"
NEARLY = 4_750_000  # steps that a fleet reached whose card was given back before its runs of 5M steps had ended
SHOWN_FIGURES = ("curves", "suite", "cosine", "rank")
LONG_FIGURES = {"curves": "Learning curves", "suite": "Mean over games", "rank": "Effective rank"}
MARK = re.compile(r"(<!-- (\w+): written by experiments/results\.py -->\n).*?(<!-- end of \2 -->)", re.DOTALL)


def rng() -> np.random.Generator:
    """The same randomness for every table, so that a new one changes no other."""
    return np.random.default_rng(0)


@dataclass(frozen=True)
class Results:
    """What the records hold."""

    root: Path

    @cached_property
    def found(self) -> Found:
        return find_runs(self.root / RESULTS)

    @cached_property
    def groups(self) -> list[Group]:
        return groups(self.found.records)

    def minatar(self, steps: int, guarded: bool = False) -> Group:
        """All MinAtar runs of a length with or without guards; a group without runs where there are none."""
        wanted = ("minatar", steps, guarded)
        found = (g for g in self.groups if (g.suite, g.steps, g.guarded) == wanted)
        return next(found, Group("minatar", steps, (), guarded=guarded))

    @cached_property
    def short(self) -> Group:
        return self.minatar(1_000_000)

    @cached_property
    def guarded(self) -> Group:
        """Runs of 1M steps of agents that have a guard."""
        found = self.minatar(1_000_000, guarded=True)
        return replace(found, records=tuple(r for r in found.records if guards(agent_named(r.agent.split()[0]))))

    @cached_property
    def long(self) -> Group:
        """The paper's table, as far as it is filled."""
        return self.minatar(MINATAR.steps, guarded=True)

    @cached_property
    def nearly(self) -> Group:
        """The same runs as they stood at a step that those reached, too, which were cut off before their end."""
        return as_of(self.long, NEARLY)

    @cached_property
    def long_bare(self) -> Group:
        """Runs of the paper's length of agents without the guard that they could have."""
        found = self.minatar(MINATAR.steps)
        return replace(found, records=tuple(r for r in found.records if guards(agent_named(r.agent.split()[0]))))

    @cached_property
    def coverage(self) -> Coverage:
        """How far the paper's table is filled."""
        return coverage(self.root / RESULTS, "minatar", MINATAR.runs())

    @cached_property
    def atari(self) -> Group:
        """Agents that see, on Atari: a twentieth of the paper's length."""
        return next(g for g in self.groups if (g.suite, g.steps, g.guarded) == ("atari", 500_000, True))

    @cached_property
    def control(self) -> Group:
        """MuJoCo's robots, with time as one more number of what is observed."""
        return next(g for g in self.groups if g.suite.startswith("gym clock=") and g.steps == 1_000_000)

    @cached_property
    def claims(self) -> list[Judgement]:
        return judge(self.short, rng())

    @cached_property
    def long_claims(self) -> list[Judgement]:
        """Those for which there are runs of the paper's length, with guards and then without."""
        return [judged for group in (self.long, self.long_bare) for judged in known_claims(group)]

    @cached_property
    def own_tables(self) -> list[Table]:
        return [
            readings_table(self.short, judged(self.short, rng())),
            weight_table(self.short, rng()),
            source_table(self.root / RESULTS, self.found.records),
            game_table(self.short, nine_of(self.short), "variants_1m"),
            game_table(self.guarded, self.guarded.agents, "guarded_1m"),
            game_table(self.long, finished(self.long), "variants_5m"),
            game_table(self.nearly, self.nearly.agents, "variants_nearly"),
            replace(claims_table(known_claims(self.nearly)), name="claims_nearly"),
            game_table(self.long_bare, self.long_bare.agents, "variants_5m_unguarded"),
            atari_table(self.atari),
            game_table(self.control, self.control.agents, "control"),
            control_tests(self.control, rng()),
            update_table(self.short, self.short.agents, "updates_1m"),
            update_table(self.long, self.long.agents, "updates_5m"),
            update_table(self.long_bare, self.long_bare.agents, "updates_5m_unguarded"),
            engines_table(self.found.records, rng()),
            claims_table([*self.claims, *self.long_claims]),
        ]


def known_claims(group: Group) -> list[Judgement]:
    """The claims that a group has runs for."""
    return [judged for judged in judge(group, rng()) if np.isfinite(judged.found.value)] if group.records else []


def as_of(group: Group, step: int) -> Group:
    """The runs that reached a step, with their scores there."""
    reached = [r for r in group.records if r.step >= step]
    records = [replace(r, state="finished", steps=step, step=step, score=score_at(r, step)) for r in reached]
    return replace(group, steps=step, records=tuple(records))


def score_at(record: Record, step: int) -> Score | None:
    table = read_table(record.path / METRICS)
    return score({"return": table["return"][table["step"] <= step]})


def nine(group: Group) -> Group:
    return replace(group, records=tuple(r for r in group.records if r.agent in VARIANTS))


def body(table: Table) -> str:
    """A table without its title, which the page has as a heading."""
    if not table.rows:
        return "There is no such run yet."
    return table.markdown().partition("\n\n")[2].strip()


def held(results: Results) -> str:
    found = results.coverage
    bare = (results.short, results.long_bare)
    short, long = (sum(r.state == "finished" for r in nine(group).records) for group in bare)
    guarded = len(results.guarded.records)
    return (
        f"Of the paper's MinAtar table, {found.wanted} runs of 5M steps, {found.wanted - len(found.missing)} are "
        f"there. With guards there are also {guarded} runs of 1M steps; without them, of the nine variants, {short} "
        f"finished runs of 1M steps and {long} of 5M steps."
    )


def brief(results: Results) -> str:
    lines = [held(results), "", goal(results), ""]
    for length, claims in (("5M", results.long_claims), ("1M", results.claims)):
        if claims:
            lines += [f"The paper's claims on the runs of {length} steps:", "", *verdict_lines(claims), ""]
    return "\n".join(lines).rstrip()


def goal(results: Results) -> str:
    """The agents that were trained on all games at the paper's length; those without guards under that name."""
    kinds = ((results.long, ""), (results.long_bare, UNGUARDED))
    tables = [mean_table(group, complete(group), suffix) for group, suffix in kinds if complete(group)]
    return "\n".join([*tables[0], *(line for table in tables[1:] for line in table[2:])])


def finished(group: Group) -> list[str]:
    """The agents of which a run has finished."""
    return [agent for agent in group.agents if np.isfinite(group.matrix(agent)).any()]


def complete(group: Group) -> list[str]:
    """The agents that were trained on all games."""
    return [a for a in group.agents if np.isfinite(task_means(group.matrix(a))).all()]


def by_name(name: str) -> Callable[[Results], str]:
    return lambda results: body(next(table for table in results.own_tables if table.name == name))


def sources(results: Results) -> str:
    """Commands as they are typed, not as Markdown has stars in text."""
    text = by_name("sources")(results)
    return re.sub(r"\| (headrace sweep [^|]*) \|$", lambda cell: f"| `{cell[1]}` |".replace("\\", ""), text, flags=re.M)


def long_figures(results: Results) -> str:
    slug = results.long.slug
    return "\n\n".join(f"![{what}, 5M steps](results/{name}_{slug}.png)" for name, what in LONG_FIGURES.items())


BLOCKS: dict[str, Callable[[Results], str]] = {
    "held": held,
    "brief": brief,
    "sources": sources,
    "variants_1m": by_name("variants_1m"),
    "guarded_1m": by_name("guarded_1m"),
    "variants_5m": by_name("variants_5m"),
    "atari": by_name("atari"),
    "control": by_name("control"),
    "control_tests": by_name("control_tests"),
    "variants_nearly": by_name("variants_nearly"),
    "claims_nearly": by_name("claims_nearly"),
    "variants_5m_unguarded": by_name("variants_5m_unguarded"),
    "figures_5m": long_figures,
    "goal": goal,
    "updates_1m": by_name("updates_1m"),
    "updates_5m": by_name("updates_5m"),
    "updates_5m_unguarded": by_name("updates_5m_unguarded"),
    "engines": by_name("engines"),
    "readings": by_name("readings"),
    "claims": lambda results: body(claims_table(results.claims)),
    "weights": by_name("weights"),
    "verdicts": lambda results: "\n".join(verdict_lines(results.claims)),
    "claims_5m": lambda results: body(claims_table(results.long_claims)),
    "all_scores": lambda results: body(game_table(results.short, results.short.agents, "all")),
}


def filled(text: str, results: Results) -> str:
    """A page with every block made anew."""
    return MARK.sub(lambda found: f"{found[1]}{BLOCKS[found[2]](results)}\n{found[3]}", text)


def write_tables(results: Results, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    several = [group for group in results.groups if sum(r.state == "finished" for r in group.records) > 1]
    for table in [*tables(several, rng()), *results.own_tables]:  # the pages' own take a name that both have
        (folder / f"{table.name}.csv").write_text(table.csv())


def write_figures(results: Results, folder: Path, tables: Path) -> None:
    """The figures, and among the tables what is drawn in them."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    rows: list[dict[str, Any]] = []
    everywhere = (nine(results.short), results.long, results.long_bare, results.atari)
    shown = [group for group in everywhere if group.records]
    for drawn in drawings(shown, rng()):
        if drawn.name.partition("_")[0] in SHOWN_FIGURES:
            drawn.figure.savefig(folder / f"{drawn.name}.png")
            rows += [{"figure": drawn.name, **row} for row in drawn_rows(drawn.figure)]
    write_csv(rows, tables / "drawn.csv")


def drawn_rows(figure: Any) -> Iterator[dict[str, Any]]:
    """What is in a figure, in few numbers: a picture that differs in one line is hard to tell from fonts that do."""
    for panel, axes in enumerate(figure.axes):
        shapes = [line.get_xydata() for line in axes.lines]
        shapes += [path.vertices for many in axes.collections for path in many.get_paths()]
        for number, points in enumerate(np.asarray(shape, float) for shape in shapes):
            kept = points[np.isfinite(points).all(axis=1)]
            means, spread = (kept.mean(axis=0), kept[:, 1].std()) if len(kept) else ((0.0, 0.0), 0.0)
            place = {"panel": panel, "shape": number, "points": len(kept)}
            yield {**place, "mean_x": float(means[0]), "mean_y": float(means[1]), "spread_y": float(spread)}


def write_csv(rows: list[dict[str, Any]], path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def write_all(results: Results, out: Path) -> None:
    write_tables(results, out / TABLES)
    write_figures(results, out / FIGURES, out / TABLES)
    for page in PAGES:
        made = filled((ROOT / page).read_text(), results)
        (out / page).parent.mkdir(parents=True, exist_ok=True)
        (out / page).write_text(made)


if __name__ == "__main__":
    write_all(Results(ROOT), Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT)
