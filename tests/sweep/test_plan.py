"""Plans: what a grid's words stand for, what a file gives, and what is said of a bad one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from headrace.agents import VARIANTS, agent_named, tweak
from headrace.envs.minatar import GAMES
from headrace.envs.registry import environment
from headrace.errors import BadSetting, HeadraceError, UnknownName
from headrace.sweep.executor import Options
from headrace.sweep.plan import grid, left_out, read_plan, seed_list
from headrace.sweep.status import resolved
from headrace.sweep.workers import Fleets
from headrace.training.run import Run

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


def test_a_grid_is_the_product_of_its_words() -> None:
    runs = grid("qrc+spr,qrc+spr+orth", "minatar/*", seeds="0:3", steps=1000, settings=["aux.weight=0.5|1|2"])
    assert len(runs) == 2 * 5 * 3 * 3
    assert {run.env.name for run in runs} == {f"minatar/{game}" for game in GAMES}
    assert {run.agent.aux.weight for run in runs} == {0.5, 1.0, 2.0}  # type: ignore[union-attr]
    assert {(run.seed, run.steps) for run in runs} == {(0, 1000), (1, 1000), (2, 1000)}
    assert len({run.name for run in runs}) == len(runs)


WEIGHTS = "aux.weight=0.5|1|2"


def test_what_has_not_the_setting_is_in_the_grid_once_without_it() -> None:
    runs = grid("qrc,qrc+spr+orth", "minatar/*", seeds="0:5", settings=[WEIGHTS])
    assert Counter(run.agent for run in runs) == {
        agent_named("qrc"): 25,
        **{tweak(agent_named("qrc+spr+orth"), f"aux.weight={weight}"): 25 for weight in ("0.5", "1", "2")},
    }
    assert left_out("qrc,qrc+spr+orth", "minatar/*", [WEIGHTS]) == ["aux.weight is no setting of qrc: left out there"]
    assert left_out("qrc+spr", "minatar/*", [WEIGHTS]) == []


def test_a_setting_is_looked_for_in_what_the_ones_before_it_made() -> None:
    runs = grid("qrc+spr,dqn+spr", "minatar/breakout", seeds=0, settings=["td=Qrc()", "td.h_lr_scale=0.5"])
    assert {run.agent.td.h_lr_scale for run in runs} == {0.5}  # type: ignore[attr-defined]


def test_rules_that_an_environment_has_not_are_left_out_there() -> None:
    envs = "minatar/breakout,gym/CartPole-v1"
    runs = grid("strq", envs, seeds=0, settings="env.ramping=0")
    assert [run.env.rules == environment(run.env.name).rules for run in runs] == [False, True]
    assert left_out("strq", envs, "env.ramping=0") == ["env.ramping is no setting of gym/CartPole-v1: left out there"]


def test_patterns_name_variants_too() -> None:
    assert {run.agent for run in grid("strq+spr+orth?", "minatar/breakout", seeds=[0])} == {
        agent_named("strq+spr+orth2")
    }


def test_alternatives_of_two_settings_multiply() -> None:
    runs = grid("qrc", "minatar/breakout", seeds=[0], settings=["td.lr=1e-4|1e-3", "env.sticky=0|0.1|0.2"])
    assert [(r.agent.td.lr, r.env.rules.sticky) for r in runs] == [  # type: ignore[attr-defined]
        (1e-4, 0.0), (1e-4, 0.1), (1e-4, 0.2), (1e-3, 0.0), (1e-3, 0.1), (1e-3, 0.2),
    ]  # fmt: skip


def test_no_run_is_in_a_plan_twice() -> None:
    runs = grid("qrc,qrc", "minatar/breakout,minatar/b*", seeds="0,0,1,0:2", settings=["td.lr=1e-4|0.0001"])
    assert [run.seed for run in runs] == [0, 1]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [("0:5", [0, 1, 2, 3, 4]), ("3", [3]), ("0,3,7", [0, 3, 7]), ("0:2, 9", [0, 1, 9]), (range(2), [0, 1]), (4, [4])],
)
def test_seeds(words: str, wanted: list[int]) -> None:
    assert seed_list(words) == wanted


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"envs": "minatr/*"}, UnknownName, r"empty grid: no environment matches 'minatr/\*'.*minatar/\*"),
        ({"envs": "minatar/breakot"}, UnknownName, "did you mean 'minatar/breakout'"),
        ({"variants": "qrc,qrx"}, UnknownName, "unknown variant 'qrx'"),
        ({"variants": " , "}, BadSetting, "empty grid: the list of variants ' , ' names none"),
        ({"envs": []}, BadSetting, r"empty grid: the list of environments \[\] names none"),
        ({"seeds": "5:5"}, BadSetting, "empty grid: the seeds '5:5' name none"),
        ({"seeds": "zero"}, BadSetting, "seeds are written 0:5 .* got 'zero'"),
        ({"seeds": "-1"}, BadSetting, "seed must be a whole number from 0"),
        ({"steps": 0}, BadSetting, "steps must be a whole number from 1"),
        (
            {"variants": "qrc,dqn", "settings": ["aux.weight=1|2"]},
            BadSetting,
            r"^qrc on minatar/asterix: cannot set aux.weight: aux is NoAuxiliary\(\), which has no settings\.$",
        ),
        ({"variants": "qrc,qrc+spr", "settings": ["aux.wieght=1"]}, UnknownName, r"^qrc\+spr on .*mean 'weight'"),
        ({"settings": ["aux=NoAuxiliary()", "aux.weight=1"]}, BadSetting, "cannot set aux.weight: aux is NoAux"),
        ({"settings": "lr"}, BadSetting, "a setting has the form path.to.field=value, got 'lr'"),
        ({"settings": ["td.lr=1e-4|"]}, BadSetting, "an alternative is empty in 'td.lr=1e-4|'"),
        ({"settings": ["env.stiky=0"]}, UnknownName, "did you mean 'sticky'"),
    ],
)
def test_a_bad_grid_is_an_error_that_names_the_word(changes: dict, error: type, said: str) -> None:
    words = {"variants": "qrc+spr,qrc", "envs": "minatar/*", "seeds": "0:2", **changes}
    with pytest.raises(error, match=said):
        grid(words.pop("variants"), words.pop("envs"), **words)


FILE = """from headrace.sweep import grid

def plan():
    return grid("qrc", "minatar/*", seeds=range(2), steps=1000)

def broken():
    settings = []
    return grid("qrc", "minatar/*", settings=setings)

def unknown():
    return grid("qrcc", "minatar/*")

def below():
    return broken()

def words():
    return "qrc"

def nothing():
    return []

def gone():
    raise SystemExit(3)

def one_by_one():
    yield from grid("qrc", "minatar/*", seeds=range(2), steps=1000)

def until_it_breaks():
    yield from plan()
    1 / 0

number = 3
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "file.py").write_text(FILE)
    return tmp_path / "file.py"


def test_a_file_gives_the_runs_of_its_plan(file: Path) -> None:
    assert read_plan(file) == grid("qrc", "minatar/*", seeds="0:2", steps=1000)
    assert read_plan(f"{file}::one_by_one") == read_plan(file)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("broken", "file.py, line 8: NameError: name 'setings' is not defined"),
        ("below", "file.py, line 8: NameError"),
        ("unknown", "file.py, line 11: unknown variant 'qrcc'; did you mean 'qrc'"),
        ("words", r"words\(\) must return a list of runs, as grid\(...\) does; got 'q'"),
        ("nothing", r"nothing\(\) gave an empty plan"),
        ("gone", "file.py, line 23: SystemExit: 3"),
        ("until_it_breaks", "file.py, line 30: ZeroDivisionError: division by zero"),
        ("number", r"defines no function number\(\)"),
        ("absent", r"defines no function absent\(\)"),
    ],
)
def test_an_error_in_a_plan_file_is_said_with_its_line_and_cause(file: Path, name: str, said: str) -> None:
    with pytest.raises(HeadraceError, match=said):
        read_plan(f"{file}::{name}")


def test_a_file_that_is_not_python_is_said_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("x = 1\ndef plan(:\n")
    with pytest.raises(HeadraceError, match=r"bad.py, line 2: SyntaxError: "):
        read_plan(tmp_path / "bad.py")
    (tmp_path / "binary.py").write_bytes(b"x = 1\ny = 2\n\0\n")
    with pytest.raises(HeadraceError, match=r"binary.py.*null bytes"):
        read_plan(tmp_path / "binary.py")
    (tmp_path / "coded.py").write_text("# coding: klingon\n")
    with pytest.raises(HeadraceError, match=r"coded.py: SyntaxError: .*klingon"):
        read_plan(tmp_path / "coded.py")
    with pytest.raises(HeadraceError, match="there is no plan file"):
        read_plan(tmp_path / "absent.py")


def test_a_file_is_named_as_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.py").write_text("x = 1\ndef plan(:\n")
    with pytest.raises(HeadraceError, match=r"^bad.py, line 2: SyntaxError: "):
        read_plan("bad.py")
    Path("asks.py").write_text("x = 1\ndef plan(a):\n    return []\n")
    with pytest.raises(HeadraceError, match=r"^asks.py, line 2: TypeError: .*missing 1 required"):
        read_plan("asks.py")


def test_a_plan_that_never_ends_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.sweep.plan.MOST", 50)
    text = (
        "from headrace.sweep import grid\ndef plan():\n    while True:\n        yield from grid('qrc', 'minatar/*')\n"
    )
    (tmp_path / "p.py").write_text(text)
    with pytest.raises(HeadraceError, match="the plan gave more than 50 runs: does it end"):
        read_plan(tmp_path / "p.py")


def test_a_plan_file_may_import_what_lies_beside_it(tmp_path: Path) -> None:
    (tmp_path / "beside_the_plan.py").write_text("GAME = 'minatar/breakout'\n")
    text = "from headrace.sweep import grid\nfrom beside_the_plan import GAME\nplan = lambda: grid('qrc', GAME)\n"
    (tmp_path / "p.py").write_text(text)
    assert len(read_plan(tmp_path / "p.py")) == 5


# The plans that come with the project


def test_the_minatar_table_is_225_runs_in_nine_fleets_of_twenty_five() -> None:
    runs = read_plan(f"{EXPERIMENTS / 'paper.py'}::minatar")
    assert len(runs) == 225
    assert {run.agent for run in runs} == set(VARIANTS.values())
    assert {run.steps for run in runs} == {5_000_000}
    assert [len(job.runs) for job in Fleets(Path("out"), Options()).jobs(resolved(runs, "fleet", "nowhere"))] == [
        25
    ] * 9


def test_every_function_of_a_plan_file_gives_a_part_of_its_plan() -> None:
    path = EXPERIMENTS / "ablations.py"
    everything = set(read_plan(path))
    assert {run.steps for run in everything} == {1_000_000}
    assert {run.seed for run in everything} == {0, 1, 2}
    lines = path.read_text().splitlines()
    functions = [line[4:].partition("(")[0] for line in lines if line.startswith("def ") and "()" in line]
    assert set().union(*(read_plan(f"{path}::{function}") for function in functions)) == everything


def test_the_octax_table_is_360_runs() -> None:
    runs = read_plan(f"{EXPERIMENTS / 'paper.py'}::octax")
    assert len(runs) == 9 * 8 * 5 == 360
    assert {run.agent for run in runs} == set(VARIANTS.values())
    assert {run.steps for run in runs} == {5_000_000}


def test_the_atari_tables_are_1170_and_780_runs() -> None:
    short, long = (read_plan(f"{EXPERIMENTS / 'paper.py'}::atari_{frames}m") for frames in (40, 100))
    assert (len(short), len(long)) == (9 * 26 * 5, 6 * 26 * 5) == (1170, 780)
    assert {run.agent for run in short} == set(VARIANTS.values())
    assert {run.agent for run in long} < {run.agent for run in short}
    assert ({run.steps for run in short}, {run.steps for run in long}) == ({10_000_000}, {25_000_000})
    assert len({run.env.name for run in short}) == 26


def test_the_atari_ablations_share_the_papers_setting_with_its_table() -> None:
    path = EXPERIMENTS / "atari_ablations.py"
    table = set(read_plan(f"{EXPERIMENTS / 'paper.py'}::atari_40m"))
    parts = {name: read_plan(f"{path}::{name}") for name in ("horizon", "weight", "tau", "replay", "curl")}
    counts = {"horizon": (3, 1), "weight": (3, 1), "tau": (2, 1), "replay": (3, 2), "curl": (2, 1)}
    found = {name: (len(runs) // 130, len(table & set(runs)) // 130) for name, runs in parts.items()}
    assert found == counts
    assert set().union(*map(set, parts.values())) == set(read_plan(path))


def test_every_line_of_the_readings_is_in_their_plan() -> None:
    """What there is to compare, each on five games with three seeds."""
    agents = Counter(run.agent for run in read_plan(EXPERIMENTS / "readings.py"))
    assert set(agents.values()) == {15}
    assert set(read_plan(f"{EXPERIMENTS / 'readings.py'}::weight")) < set(read_plan(EXPERIMENTS / "readings.py"))
    spr, orth = agent_named("qrc+spr"), agent_named("qrc+spr+orth")
    wanted = [
        *(tweak(orth, f"aux.filter.history={history}") for history in ("Raw", "Projected", "RawCurrent")),
        *(tweak(orth, f"aux.objective.augment.shift={pixels}") for pixels in (0, 1, 4)),
        tweak(orth, "aux.objective.target=Polyak(0.99)", "aux.objective.augment=AsIs"),
        *(tweak(agent, "aux.weight=0.4") for agent in (spr, orth)),  # the same as MeanOverHorizon
        *(tweak(spr, f"aux.gate={when}") for when in ("Always", "Every(6)", "Greedy")),
        *(tweak(agent, f"aux.weight={weight}") for weight in (2, 0.4, 0.1, 0.02) for agent in (spr, orth)),
        *(tweak(spr, f"aux.objective.projection={whose}") for whose in ("Shared", "Separate")),
        *(agent_named(name) for name in ("released-four", "released")),
        *(tweak(agent, f"td.lr={lr}") for lr in ("3e-5", "1e-4", "3e-4") for agent in (agent_named("qrc"), spr, orth)),
        *(tweak(agent_named("strq+spr"), f"merge={how}") for how in ("Mix(0.5)", "Sum")),
    ]
    assert [agent for agent in wanted if agent not in agents] == []


def test_the_plan_of_both_engines_has_five_seeds_of_each() -> None:
    runs = read_plan(EXPERIMENTS / "engines.py")
    assert Counter((run.agent, run.engine) for run in runs) == {
        (agent_named(name), engine): 5
        for name in ("strq", "qrc", "qrc+spr+orth")
        for engine in ("learner", "reference")
    }
    assert set(read_plan(f"{EXPERIMENTS / 'engines.py'}::qrc")) < set(runs)


# How a plan is divided into fleets


def test_fleets_are_of_one_structure_and_cut_evenly() -> None:
    plan = grid("qrc,dqn", "minatar/*", seeds="0:6", steps=1000, settings=["td.lr=1e-4|1e-3"])
    runs = resolved(plan, "fleet", "nowhere")
    assert [len(job.runs) for job in Fleets(Path("out"), Options(streams=25)).jobs(runs)] == [20] * 6


def test_rules_and_numbers_of_steps_divide_fleets_and_numbers_do_not() -> None:
    def count(runs: list[Run]) -> int:
        return len(Fleets(Path("out"), Options()).jobs(resolved(runs, "fleet", "nowhere")))

    assert count(grid("qrc", "minatar/*", steps=1000) + grid("qrc", "minatar/*", steps=2000)) == 2
    assert count(grid("qrc", "minatar/*", settings=["env.sticky=0|0.1"])) == 2
    assert count(grid("qrc+spr", "minatar/*", settings=["aux.objective.horizon=1|2"])) == 2
    assert count(grid("qrc+spr", "minatar/*", settings=["aux.objective.augment.shift=0|2"])) == 1
    with pytest.raises(BadSetting, match="engine learner: leave out --engine and --form"):
        count(grid("qrc", "minatar/*", form="host"))
