"""An environment that forks: the child that comes back out of it never trains in its parent's place."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headrace.runs.folder import RunFolder
from tests.small_runs import assert_same_result, only_run

ROOT = Path(__file__).parents[2]
PROGRAM = """
import os, sys
from pathlib import Path
from headrace.envs import registry
from headrace.training.single import train
from tests.runs.fault_points import Toy, register

class Forks(Toy):
    def step(self, action):
        where, when, how = sys.argv[2:]
        answer = super().step(action)
        if where == "step" and self.count == int(when):
            self.fork(how)
        return answer

    def save(self):
        if sys.argv[2] == "save":
            self.fork(sys.argv[4])
        return super().save()

    def fork(self, how):
        child = os.fork()
        if child == 0:
            if how == "exits":
                sys.exit(7)
            if how == "raises":
                raise ValueError("the robot fell over")
        elif child:
            print(how, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)

register(Forks)
settings = ["network=Mlp((8,), 8)", "aux.objective.horizon=2"]
done = train("qrc+spr+orth", "toy/noise", steps=2000, settings=settings, out=Path(sys.argv[1]), engine="learner",
             form="host", checkpoint_every=450)
print("trained by", os.getpid(), done.status)
"""


def trained(out: Path, *how: str) -> list[str]:
    command = [sys.executable, "-c", PROGRAM, str(out), *how]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        said, errors = process.communicate()
        assert process.returncode == 0, errors
        assert "Traceback" not in errors
        assert said.splitlines()[-1] == f"trained by {process.pid} finished"
    return said.splitlines()[:-1]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose environment does not fork."""
    out = tmp_path_factory.mktemp("whole")
    assert trained(out, "nowhere", "0", "") == []
    return only_run(out)


@pytest.mark.parametrize(
    ("where", "how", "said"),
    [
        ("step", "exits", ["exits 7"]),
        ("step", "raises", ["raises 1"]),
        ("step", "returns", ["returns 1"]),
        ("save", "exits", ["exits 7"]),
        ("save", "returns", ["returns 1"]),
    ],
)
def test_a_child_that_comes_back_is_ended_and_its_parent_trains_on(
    where: str, how: str, said: list[str], whole: Path, tmp_path: Path
) -> None:
    found = trained(tmp_path, where, "777", how)
    assert set(found) == set(said)
    run = only_run(tmp_path)
    RunFolder.read(run).require_sound()
    assert_same_result(run, whole)
