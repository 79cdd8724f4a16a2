"""Tables on the repository's records that only its pages show; `results.py` writes them."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from readings import question, word

from headrace.agents import VARIANTS
from headrace.analysis.claims import UNKNOWN, Judgement, cosine_matrix
from headrace.analysis.cost import machine_of
from headrace.analysis.paper import Paper, even_unit, key, table
from headrace.analysis.ranks import analyses, rank_matrix
from headrace.analysis.records import Record, counted, finite_or_nan
from headrace.analysis.scores import Group, agent_order
from headrace.analysis.stats import Interval, interval, mean, pairwise, task_means
from headrace.analysis.table import NOTHING, Cell, Table, between, number
from headrace.envs.registry import matching
from headrace.training.progress import short_steps

PAPER_STEPS, ATARI_STEPS = 5_000_000, 10_000_000
SHARES = ("td_update_norm", "aux_update_norm")


def short_env(env: str) -> str:
    return env.partition("/")[2]


def game_table(group: Group, agents: Sequence[str], name: str) -> Table:
    """Agents x games: mean over seeds, the smallest and the largest; below it the paper's mean at its own length."""
    paper = Paper.of(group.suite, PAPER_STEPS)
    rows, data = [], []
    for agent in agents:
        matrix = group.matrix(agent)
        theirs = [paper.score(env, agent) for env in group.envs]
        cells = [_game_cell(matrix[:, j], value.mean if value else np.nan) for j, value in enumerate(theirs)]
        known = np.isfinite(matrix).any(axis=0).all()
        paper_mean = float(np.mean([v.mean for v in theirs if v])) if all(theirs) else np.nan
        ours = interval(matrix, mean, np.random.default_rng(0)) if known else None
        whole = Cell(between(*ours) if ours else NOTHING, number(paper_mean) if np.isfinite(paper_mean) else "")
        rows.append([Cell(agent), *cells, whole])
        data += [_game_row(group, agent, env, matrix[:, j], theirs[j]) for j, env in enumerate(group.envs)]
        data.append(_mean_row(group, agent, ours, paper_mean))
    header = ["agent", *map(short_env, group.envs), "mean of the games"]
    notes = [
        f"First line: returns here, at {short_steps(group.steps)} steps: mean over seeds (smallest to largest); the "
        "mean of the games with its 95% interval",
        *([f"Second line: the paper's means at {short_steps(PAPER_STEPS)} steps"] if paper.scores else []),
    ]
    return Table(name, f"Scores at {short_steps(group.steps)} steps", header, rows, data, notes)


def _game_cell(scores: np.ndarray, paper: float) -> Cell:
    known = scores[np.isfinite(scores)]
    theirs = number(paper) if np.isfinite(paper) else ""
    if not len(known):
        return Cell(NOTHING, theirs)
    spread = f" ({known.min():.1f} to {known.max():.1f})" if len(known) > 1 else " (1 seed)"
    return Cell(number(float(known.mean())) + spread, theirs)


def _game_row(group: Group, agent: str, env: str, scores: np.ndarray, paper: Any) -> dict[str, Any]:
    known = scores[np.isfinite(scores)]
    return {
        "suite": group.suite,
        "steps": group.steps,
        "agent": agent,
        "env": env,
        "runs": len(known),
        "mean": float(known.mean()) if len(known) else np.nan,
        "min": float(known.min()) if len(known) else np.nan,
        "max": float(known.max()) if len(known) else np.nan,
        "paper_steps": PAPER_STEPS if paper else "",
        "paper_mean": paper.mean if paper else np.nan,
    }


def _mean_row(group: Group, agent: str, ours: Interval | None, paper: float) -> dict[str, Any]:
    found = ours or Interval(np.nan, np.nan, np.nan)
    place = {"suite": group.suite, "steps": group.steps, "agent": agent, "env": "mean"}
    interval_ends = {"mean_low": found.low, "mean_high": found.high}
    return {**place, "mean": found.value, **interval_ends, "paper_steps": PAPER_STEPS, "paper_mean": paper}


def update_table(group: Group, agents: Sequence[str], name: str) -> Table:
    """What both updates do to the encoder: effective rank, their cosine, and how large SPR's is beside the RL one."""
    latents, paper = analyses(group).whole, Paper.of(group.suite, PAPER_STEPS)
    rows, data = [], []
    for agent in agents:
        found = {
            "effective_rank": _interval(rank_matrix(group, agent, latents)),
            "cosine": _interval(cosine_matrix(group, agent)),
            "size": _interval(size_matrix(group, agent)),
        }
        if not any(np.isfinite(value) for value, _, _ in found.values()):
            continue
        theirs = paper.ranks.get(agent)
        rank = Cell(_shown(found["effective_rank"]), number(theirs.mean) if theirs else "")
        games = int(np.isfinite(group.matrix(agent)).any(axis=0).sum())
        called = f"{agent} ({games} games)" if games < len(group.envs) else agent
        rows.append([Cell(called), rank, Cell(_shown(found["cosine"])), Cell(_shown(found["size"]))])
        place = {"suite": group.suite, "steps": group.steps, "agent": agent}
        for quantity, value in found.items():
            data.append({**place, "quantity": quantity, **dict(zip(("value", "low", "high"), value, strict=True))})
    header = ["agent", "effective rank", "cosine", "SPR update / RL update"]
    notes = [
        f"{group.title}, finished runs; means over games and seeds with 95% intervals; below, the paper's effective "
        f"rank at {short_steps(PAPER_STEPS)} steps",
        "Cosine of the RL and the SPR update on the encoder before orth and orth2, mean over training",
        "The last column: the median over training of the ratio of the norms of the two updates of all parameters",
    ]
    return Table(name, "Representation and updates", header, rows, data, notes)


def _interval(matrix: np.ndarray) -> tuple[float, float, float]:
    """Over the environments that have runs; NaN where there are none."""
    kept = matrix[:, np.isfinite(matrix).any(axis=0)]
    return tuple(interval(kept, mean, np.random.default_rng(0))) if kept.size else (np.nan, np.nan, np.nan)


def _shown(found: tuple[float, float, float]) -> str:
    return between(*found) if np.isfinite(found[0]) else NOTHING


def size_matrix(group: Group, agent: str) -> np.ndarray:
    """The median over training of |SPR update| / |RL update|, (seeds x environments) of finished runs."""
    found = np.full((len(group.seeds), len(group.envs)), np.nan)
    for record in group.runs_of(agent):
        logged = record.curve(SHARES)
        if record.state == "finished" and set(SHARES) <= logged.keys():
            rl, spr = (logged[name] for name in SHARES)
            found[group.seeds.index(record.seed), group.envs.index(record.env)] = np.median(spr[rl > 0] / rl[rl > 0])
    return found


def source_table(root: Path, records: Iterable[Record]) -> Table:
    """Where every record comes from, as its manifest says, and the command that makes the same runs."""
    kinds: dict[tuple[Any, ...], list[Record]] = defaultdict(list)
    for r in records:
        folder = r.path.relative_to(root).parts[0]
        kinds[folder, r.suite, r.steps, agent_order(r.agent), r.agent, r.engine, _commit(r), machine_of(r)].append(r)
    rows, data = [], []
    for (folder, _, steps, _, agent, engine, commit, machine), found in sorted(kinds.items()):
        done = sum(r.state == "finished" for r in found)
        hours = sum(finite_or_nan(r.manifest.get("seconds")) / _streams(r) for r in found if r.state == "finished")
        runs = str(done) if done == len(found) else f"{done} of {len(found)}"
        shown = [f"{folder}/", agent, runs, short_steps(steps), f"{hours / 3600:.2f}", engine, commit, machine]
        rows.append([*map(Cell, shown), Cell(_command(found))])
        data.append(
            {"folder": folder, "agent": agent, "steps": steps, "engine": engine, "commit": commit, "machine": machine}
            | {"runs": len(found), "finished": done, "process_hours": hours / 3600, "command": _command(found)}
        )
    header = ["folder", "agent", "finished", "steps", "hours", "engine", "commit", "machine", "the same runs again"]
    notes = [
        "Hours: of the process that trained a run, shared by the streams that it trained at once; finished runs only",
        *(f"Together on {machine}: {_together(data, machine)}" for machine in sorted({row["machine"] for row in data})),
        "Commit: as the manifest has it (+: with changes that were not committed)",
    ]
    return Table("sources", "What was run", header, rows, data, notes)


def _together(data: Sequence[dict[str, Any]], machine: str) -> str:
    mine = [row for row in data if row["machine"] == machine]
    runs, hours = (sum(row[name] for row in mine) for name in ("finished", "process_hours"))
    return f"{counted(runs, 'finished run')}, {hours:.2f} hours"


def _streams(record: Record) -> float:
    return max(1.0, finite_or_nan(record.manifest.get("streams", 1)))


def _device(record: Record) -> str:
    return str(record.manifest.get("machine", {}).get("device") or "")


def _commit(record: Record) -> str:
    commit, _, changed = str(record.manifest.get("commit") or "").partition("-")
    return commit[:7] + ("+" if changed else "") if commit else NOTHING


def _command(records: Sequence[Record]) -> str:
    """One sweep that has these runs; a setting is a word of the agent's name."""
    variant, *settings = re.split("(?<!,) ", records[0].agent)  # after a comma a setting goes on
    envs, seeds = sorted({r.env for r in records}), sorted({r.seed for r in records})
    family = f"{envs[0].partition('/')[0]}/*"
    known = family != "gym/*" and envs == sorted(matching(family))
    place = family if len(envs) > 1 and known else ",".join(envs)
    several = len(seeds) > 1 and seeds == list(range(seeds[0], seeds[-1] + 1))
    listed = f"{seeds[0]}:{seeds[-1] + 1}" if several else ",".join(map(str, seeds))
    words = [variant, place, "--seeds", listed, "--steps", _typed(records[0].steps)]
    settings += [f"env.{rule}" for rule in re.split("(?<!,) ", records[0].suite)[1:]]
    words += [word for setting in settings for word in ("--set", setting)]
    if any(_streams(r) > 1 or _device(r).startswith("gpu") for r in records):
        words += ["--on", "fleet"]
    elif records[0].engine == "reference":
        words += ["--engine", "reference"]
    return shlex.join(["headrace", "sweep", *words])


def _typed(steps: int) -> str:
    """1e6, 15e4: as one would type it, exactly."""
    digits = str(steps).rstrip("0")
    return f"{digits}e{len(str(steps)) - len(digits)}"


def verdict_lines(judgements: Sequence[Judgement]) -> list[str]:
    """The claims by verdict, one line each; a claim's text says what is compared."""
    lines = []
    for heading in ("Holds", "Does not hold", "Cannot be told from these runs", "Without runs to tell"):
        claims = [j.claim.partition(": ")[2] or j.claim for j in judgements if _heading(j) == heading]
        if claims:
            lines.append(f"- {heading}: {'; '.join(claims)}.")
    return lines


def _heading(found: Judgement) -> str:
    if found.verdict != UNKNOWN:
        return found.verdict.capitalize()
    return "Cannot be told from these runs" if np.isfinite(found.found.low) else "Without runs to tell"


def mean_table(group: Group, agents: Sequence[str], suffix: str = "") -> list[str]:
    """The shortest table: the mean over the games, here and in the paper; the suffix goes behind each agent's name."""
    paper = Paper.of(group.suite, PAPER_STEPS)
    ours, theirs = short_steps(group.steps), short_steps(PAPER_STEPS)
    head = f"| agent | mean return over {len(group.envs)} games, {ours} steps | seeds | the paper, {theirs} steps |"
    lines = [head, "|---|---|---|---|"]
    for agent in agents:
        matrix = group.matrix(agent)
        means = task_means(matrix)
        known = [value.mean for env in group.envs if (value := paper.score(env, agent))]
        shown = between(*interval(matrix, mean, np.random.default_rng(0))) if np.isfinite(means).all() else NOTHING
        seeds = int(np.isfinite(matrix).sum(axis=0).min())
        theirs_mean = number(float(np.mean(known))) if known else NOTHING
        lines.append(f"| `{agent}{suffix}` | {shown} | {seeds} | {theirs_mean} |")
    return lines


def weight_table(group: Group, rng: np.random.Generator) -> Table:
    """qrc+spr+orth by the weight of SPR, each against qrc, which has none."""
    agents = [(label, agent) for label, agent in question("weight").of("qrc+spr+orth") if agent in group.agents]
    matrices = {agent: group.matrix(agent, even_unit(group.suite)) for agent in ("qrc", *(a for _, a in agents))}
    known = [(label, agent) for label, agent in agents if np.isfinite(matrices[agent]).any()]
    against = pairwise(matrices, [(agent, "qrc") for _, agent in known], rng) if "qrc" in group.agents else []
    rows, data = [], []
    for (label, agent), compared in zip(known, against, strict=True):
        size, scores = _interval(size_matrix(group, agent)), group.matrix(agent)
        average = float(mean(scores)) if np.isfinite(task_means(scores)).all() else float("nan")
        shown = [label, str(int(np.isfinite(scores).sum())), number(average), _shown(size)]
        rows.append([*map(Cell, shown), Cell(between(*compared.difference)), Cell(word(compared))])
        place = {"suite": group.suite, "steps": group.steps, "agent": agent, "weight": label}
        found = {"mean_return": average, "size": size[0], **compared.difference._asdict()}
        data.append({**place, **found, "p": compared.p, "p_holm": compared.p_holm, "verdict": word(compared)})
    header = ["weight", "runs", "mean return", "SPR update / RL update", "difference to qrc", "verdict"]
    notes = [f"{group.title}; qrc itself: {number(float(mean(group.matrix('qrc'))))}"] if known else []
    notes += ["The difference is over the games that both have; a mean return is given where all games are there"]
    return Table("weights", "qrc+spr+orth by the weight of SPR", header, rows, data, notes)


def atari_table(group: Group) -> Table:
    """Agents x games beside random play, a human, and what the paper reports at a length twenty times this one."""
    paper, constants = Paper.of("atari", ATARI_STEPS), {key(row["env"]): row for row in table("human_random")}
    rows, data = [], []
    for agent in group.agents:
        cells = []
        for env in group.envs:
            scores = group.matrix(agent)[:, group.envs.index(env)]
            theirs = paper.episode_return(env, agent)
            cells.append(_game_cell(scores, theirs.mean if theirs else np.nan))
            data.append(_game_row(group, agent, env, scores, theirs) | {"paper_steps": ATARI_STEPS})
        rows.append([Cell(agent), *cells])
    for who in ("random", "human"):
        known = [float(constants[key(env)][who]) for env in group.envs]
        rows.append([Cell(f"{who}{' play' if who == 'random' else ''}"), *(Cell(number(x)) for x in known)])
        place = {"suite": group.suite, "steps": group.steps, "agent": who}
        data += [{**place, "env": env, "mean": x} for env, x in zip(group.envs, known, strict=True)]
    notes = [
        f"First line: returns here, at {short_steps(group.steps)} steps: mean over seeds",
        f"Second line: the paper's means at {short_steps(ATARI_STEPS)} steps, as returns",
    ]
    title = f"Scores at {short_steps(group.steps)} steps"
    return Table("atari", title, ["agent", *map(short_env, group.envs)], rows, data, notes)


def control_tests(group: Group, rng: np.random.Generator) -> Table:
    """What is added to `ac` against `ac` itself, each robot's returns as shares of its mean there."""
    whole = np.nanmean(group.matrix("ac"), axis=0)
    matrices = {agent: group.matrix(agent) / whole for agent in group.agents}
    rows, data = [], []
    for compared in pairwise(matrices, [(agent, "ac") for agent in group.agents if agent != "ac"], rng):
        robots = int((np.isfinite(matrices[compared.first]).any(axis=0)).sum())
        shown = between(*compared.difference), between(*compared.improvement), number(compared.p_holm), word(compared)
        rows.append([Cell(compared.first), Cell(str(robots)), *map(Cell, shown)])
        place = {"suite": group.suite, "steps": group.steps, "agent": compared.first, "against": "ac", "robots": robots}
        found = {**compared.difference._asdict(), "improvement": compared.improvement.value}
        data.append({**place, **found, "p": compared.p, "p_holm": compared.p_holm, "verdict": word(compared)})
    header = [
        "agent",
        "robots",
        "difference to ac, as a share of its return",
        "probability of improvement",
        "p",
        "verdict",
    ]
    notes = ["Over the robots that both have; 95% bootstrap intervals; permutation test, corrected by Holm"]
    return Table("control_tests", "SPR beside the actor-critic", header, rows, data, notes)


ENGINES = ("fast", "reference")
ENGINE_STEPS = 300_000  # of the runs that compare them
ENGINE_POINTS = (50_000, 100_000, 200_000, 300_000)  # steps at which their curves are compared
WINDOW = 10_000  # steps before each over which a curve is averaged


def engines_table(records: Iterable[Record], rng: np.random.Generator) -> Table:
    """Both engines' learning curves at some points, means over seeds; and the difference at the last one."""
    found = [r for r in records if r.steps == ENGINE_STEPS and r.state == "finished"]
    rows, data, notes = [], [], []
    for agent in sorted({r.agent for r in found}, key=agent_order):
        curves = {e: _curves([r for r in found if (r.agent, r.engine) == (agent, e)]) for e in ENGINES}
        if not all(len(scores) for scores in curves.values()):
            continue  # there is nothing to compare yet
        for engine, scores in curves.items():
            cells = [interval(scores[:, [j]], mean, rng) for j in range(len(ENGINE_POINTS))]
            rows.append([Cell(agent), Cell(engine), Cell(str(len(scores))), *(Cell(between(*cell)) for cell in cells)])
            data += [
                {
                    "agent": agent,
                    "engine": engine,
                    "runs": len(scores),
                    "step": step,
                    "mean": m,
                    "low": low,
                    "high": high,
                }
                for step, (m, low, high) in zip(ENGINE_POINTS, cells, strict=True)
            ]
        (compared,) = pairwise({e: scores[:, [-1]] for e, scores in curves.items()}, [ENGINES], rng)
        notes.append(f"{agent}, fast less reference at the end: {between(*compared.difference)}, p = {compared.p:.2f}")
    header = ["agent", "engine", "seeds", *(f"at {step:,}" for step in ENGINE_POINTS)]
    notes.append(
        f"Mean return of the last hundred episodes, averaged over {WINDOW:,} steps before each point; 95% intervals"
    )
    return Table("engines", "Both engines", header, rows, data, notes)


def _curves(records: Sequence[Record]) -> np.ndarray:
    """Runs x points."""
    return np.array([_at_points(r.curve(points=ENGINE_STEPS // 1000 + 1)) for r in records])


def _at_points(curve: Any) -> list[float]:
    step, value = np.asarray(curve["step"]), np.asarray(curve["return"])
    return [float(np.mean(value[(step > point - WINDOW) & (step <= point)])) for point in ENGINE_POINTS]


def nine_of(group: Group) -> list[str]:
    """Those of the paper's variants of which the group has a finished run."""
    done = {r.agent for r in group.records if r.state == "finished"}
    return [agent for agent in VARIANTS if agent in done]
