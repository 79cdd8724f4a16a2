"""Plans: what a grid's words stand for, what a file gives, and what is said of a bad one."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.agents import VARIANTS, agent_named
from headrace.envs.minatar import GAMES
from headrace.errors import BadSetting, HeadraceError, UnknownName
from headrace.sweep.executor import Options
from headrace.sweep.fleets import Fleets
from headrace.sweep.plan import grid, read_plan, seed_list

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


def test_a_grid_is_the_product_of_its_words() -> None:
    runs = grid("qrc+spr,qrc+spr+orth", "minatar/*", seeds="0:3", steps=1000, settings=["aux.weight=0.5|1|2"])
    assert len(runs) == 2 * 5 * 3 * 3
    assert {run.env.name for run in runs} == {f"minatar/{game}" for game in GAMES}
    assert {run.agent.aux.weight for run in runs} == {0.5, 1.0, 2.0}  # type: ignore[union-attr]
    assert {(run.seed, run.steps) for run in runs} == {(0, 1000), (1, 1000), (2, 1000)}
    assert len({run.name for run in runs}) == len(runs)


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
        ({"envs": "minatr/*"}, UnknownName, r"empty grid: no environment matches 'minatr/\*'.*minatar/breakout"),
        ({"envs": "minatar/breakot"}, UnknownName, "did you mean 'minatar/breakout'"),
        ({"variants": "qrc,qrx"}, UnknownName, "unknown variant 'qrx'"),
        ({"variants": " , "}, BadSetting, "empty grid: the list of variants ' , ' names none"),
        ({"envs": []}, BadSetting, r"empty grid: the list of environments \[\] names none"),
        ({"seeds": "5:5"}, BadSetting, "empty grid: the seeds '5:5' name none"),
        ({"seeds": "zero"}, BadSetting, "seeds are written 0:5 .* got 'zero'"),
        ({"seeds": "-1"}, BadSetting, "seed must be a whole number from 0"),
        ({"steps": 0}, BadSetting, "steps must be a whole number from 1"),
        (
            {"settings": ["aux.weight=1|2"]},
            HeadraceError,
            r"^qrc on minatar/asterix: .*aux.weight.* sweep this variant by",
        ),
        ({"settings": ["td.lr=1e-4|"]}, BadSetting, "cannot read the value ''"),
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

number = 3
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "file.py").write_text(FILE)
    return tmp_path / "file.py"


def test_a_file_gives_the_runs_of_its_plan(file: Path) -> None:
    assert read_plan(file) == grid("qrc", "minatar/*", seeds="0:2", steps=1000)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("broken", "file.py, line 8: NameError: name 'setings' is not defined"),
        ("below", "file.py, line 8: NameError"),
        ("unknown", "file.py, line 11: unknown variant 'qrcc'; did you mean 'qrc'"),
        ("words", r"words\(\) must return a list of runs, as grid\(...\) does; got 'q'"),
        ("nothing", r"nothing\(\) gave an empty plan"),
        ("gone", "file.py, line 23: SystemExit: 3"),
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
    with pytest.raises(HeadraceError, match="there is no plan file"):
        read_plan(tmp_path / "absent.py")


def test_a_plan_file_may_import_what_lies_beside_it(tmp_path: Path) -> None:
    (tmp_path / "beside_the_plan.py").write_text("GAME = 'minatar/breakout'\n")
    text = "from headrace.sweep import grid\nfrom beside_the_plan import GAME\nplan = lambda: grid('qrc', GAME)\n"
    (tmp_path / "p.py").write_text(text)
    assert len(read_plan(tmp_path / "p.py")) == 5


# The plans that come with the project


def test_the_minatar_table_is_225_runs_in_nine_fleets_of_twenty_five() -> None:
    runs = read_plan(EXPERIMENTS / "minatar_5m.py")
    assert len(runs) == 225
    assert {run.agent for run in runs} == set(VARIANTS.values())
    assert {run.steps for run in runs} == {5_000_000}
    assert [len(job.runs) for job in Fleets(Path("out"), Options()).jobs(runs)] == [25] * 9


@pytest.mark.parametrize("name", ["ablations.py", "strength.py"])
def test_every_function_of_a_plan_file_gives_a_part_of_its_plan(name: str) -> None:
    everything = set(read_plan(EXPERIMENTS / name))
    assert {run.steps for run in everything} == {1_000_000}
    assert {run.seed for run in everything} == {0, 1, 2}
    lines = (EXPERIMENTS / name).read_text().splitlines()
    functions = [line[4:].partition("(")[0] for line in lines if line.startswith("def ") and "()" in line]
    assert set().union(*(read_plan(f"{EXPERIMENTS / name}::{function}") for function in functions)) == everything


def test_the_strength_plan_is_three_fleets_of_forty_five() -> None:
    jobs = Fleets(Path("out"), Options()).jobs(read_plan(EXPERIMENTS / "strength.py"))
    assert [len(job.runs) for job in jobs] == [45, 45, 45]


# How a plan is divided into fleets


def test_fleets_are_of_one_structure_and_cut_evenly() -> None:
    runs = grid("qrc,dqn", "minatar/*", seeds="0:6", steps=1000, settings=["td.lr=1e-4|1e-3"])
    assert [len(job.runs) for job in Fleets(Path("out"), Options(streams=25)).jobs(runs)] == [20] * 6


def test_rules_and_numbers_of_steps_divide_fleets_and_numbers_do_not() -> None:
    fleets = Fleets(Path("out"), Options())
    two = grid("qrc", "minatar/*", steps=1000) + grid("qrc", "minatar/*", steps=2000)
    assert len(fleets.jobs(two)) == 2
    assert len(fleets.jobs(grid("qrc", "minatar/*", settings=["env.sticky=0|0.1"]))) == 2
    assert len(fleets.jobs(grid("qrc+spr", "minatar/*", settings=["aux.objective.horizon=1|2"]))) == 2
    assert len(fleets.jobs(grid("qrc+spr", "minatar/*", settings=["aux.objective.augment.shift=0|2"]))) == 1
    with pytest.raises(BadSetting, match="form host: leave out --engine and --form"):
        fleets.jobs(grid("qrc", "minatar/*", form="host"))
