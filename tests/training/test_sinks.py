"""Sinks show a run elsewhere, are imported only when asked for, and never stop a run."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from headrace.errors import HeadraceError, UnknownName
from headrace.training.sinks import SINKS, Source, open_sinks, require_sinks

PACKAGES = [product.package for product in SINKS.values()]
SETTINGS = ("WANDB_MODE", "WANDB_PROJECT", "MLFLOW_TRACKING_URI", "MLFLOW_ALLOW_FILE_STORE", "MLFLOW_EXPERIMENT_NAME")


@pytest.fixture
def fakes(monkeypatch) -> dict[str, MagicMock]:
    """Stand-ins for the four packages that remember what was called."""
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)
    found = {}
    for name in PACKAGES:
        found[name] = MagicMock(name=name, __name__=name)
        monkeypatch.setitem(sys.modules, name, found[name])
    entities: Any = ModuleType("mlflow.entities")
    entities.Metric = lambda key, value, timestamp, step: (key, value, step)
    monkeypatch.setitem(sys.modules, "mlflow.entities", entities)
    return found


def opened(tmp_path: Path, *names: str, start_step: int = 0, notices: list[str] | None = None):
    source = Source("qrc/seed:0", tmp_path, {"seed": 0, "agent": "x" * 900}, start_step)
    return open_sinks(names, source, [].append if notices is None else notices.append)


def test_importing_the_module_imports_no_product():
    unwanted = [*PACKAGES, "jax", "numpy"]
    script = f"import sys, headrace.training.sinks; print([name for name in {unwanted} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_only_what_is_asked_for_is_imported(tmp_path, monkeypatch, fakes):
    for name in ("wandb", "mlflow", "trackio"):
        monkeypatch.setitem(sys.modules, name, None)
    assert opened(tmp_path) == []
    assert len(opened(tmp_path, "tensorboard", "tensorboard")) == 1


def test_an_unknown_sink_gets_the_nearest_name_before_any_is_opened(monkeypatch):
    monkeypatch.setattr("headrace.training.sinks.find_spec", lambda name: True)
    with pytest.raises(UnknownName, match=r"unknown sink 'wandbb'; did you mean 'wandb'\? Known: mlflow, tensorboard"):
        require_sinks(["tensorboard", "wandbb"])


@pytest.mark.parametrize("name", SINKS)
def test_a_missing_package_comes_with_its_remedy(tmp_path, monkeypatch, name):
    monkeypatch.setitem(sys.modules, SINKS[name].package, None)
    with pytest.raises(HeadraceError, match=rf"pip install 'headrace\[{name}\]'"):
        opened(tmp_path, name)


def test_a_sink_that_cannot_be_opened_is_named(tmp_path, fakes):
    fakes["wandb"].init.side_effect = OSError("no network")
    with pytest.raises(HeadraceError, match="the sink 'wandb' could not be opened: no network"):
        opened(tmp_path, "wandb")


def test_tensorboard_gets_every_finite_scalar_and_hides_what_comes_again(tmp_path, fakes):
    (sink,) = opened(tmp_path, "tensorboard", start_step=3000)
    sink.log(4000, {"return": 1.5, "td_error": math.nan, "cosine": -0.5})
    sink.log(5000, {"td_error": math.inf})
    sink.close()
    make = fakes["tensorboardX"].SummaryWriter
    make.assert_called_once_with(logdir=str(tmp_path / "tensorboard"), purge_step=3001)
    assert [call.args for call in make().add_scalar.call_args_list] == [("return", 1.5, 4000), ("cosine", -0.5, 4000)]
    make().close.assert_called_once_with()


def test_wandb_is_offline_unless_told_and_resumes_by_name(tmp_path, fakes, monkeypatch):
    (sink,) = opened(tmp_path, "wandb")
    sink.log(1000, {"return": 2})
    sink.close()
    asked = fakes["wandb"].init.call_args.kwargs
    assert (asked["mode"], asked["id"], asked["resume"], asked["dir"]) == (
        "offline",
        "qrc-seed-0",
        "allow",
        str(tmp_path),
    )
    fakes["wandb"].init().log.assert_called_once_with({"return": 2.0}, step=1000)
    fakes["wandb"].init().finish.assert_called_once_with()
    monkeypatch.setenv("WANDB_MODE", "online")
    opened(tmp_path, "wandb")
    assert fakes["wandb"].init.call_args.kwargs["mode"] == "online"


def test_mlflow_makes_a_run_once_and_finds_it_again(tmp_path, fakes):
    client = fakes["mlflow"].MlflowClient.return_value
    client.get_experiment_by_name.return_value = None
    client.create_experiment.return_value = "7"
    client.search_runs.return_value = []
    client.create_run.return_value = SimpleNamespace(info=SimpleNamespace(run_id="abc"))
    (sink,) = opened(tmp_path, "mlflow")
    sink.log(1000, {"return": 2.0})
    sink.close()
    fakes["mlflow"].MlflowClient.assert_called_once_with(tracking_uri=(tmp_path / "mlruns").as_uri())
    (tag,) = client.create_run.call_args.kwargs["tags"].values()
    assert client.search_runs.call_args.args == (["7"], f"tags.`headrace.training.run` = '{tag}'")
    assert [call.args for call in client.log_param.call_args_list] == [
        ("abc", "seed", "0"),
        ("abc", "agent", "x" * 500),
    ]
    client.log_batch.assert_called_once_with("abc", [("return", 2.0, 1000)])
    client.set_terminated.assert_called_once_with("abc")

    client.search_runs.return_value = [client.create_run.return_value]
    opened(tmp_path, "mlflow")
    assert client.create_run.call_count == 1
    client.update_run.assert_called_with("abc", status="RUNNING")


def test_mlflow_goes_where_the_user_says(tmp_path, fakes, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://localhost:5000")
    opened(tmp_path, "mlflow")
    fakes["mlflow"].MlflowClient.assert_called_once_with(tracking_uri="http://localhost:5000")


def test_trackio_resumes_by_name(tmp_path, fakes):
    (sink,) = opened(tmp_path, "trackio")
    sink.log(1000, {"return": 2.0})
    sink.close()
    asked = fakes["trackio"].init.call_args.kwargs
    assert (asked["project"], asked["name"], asked["resume"]) == ("headrace", "qrc/seed:0", "allow")
    fakes["trackio"].init().log.assert_called_once_with({"return": 2.0}, step=1000)
    fakes["trackio"].init().finish.assert_called_once_with()


def test_a_failing_sink_is_closed_with_one_notice_and_the_run_goes_on(tmp_path, fakes):
    notices: list[str] = []
    broken, whole = opened(tmp_path, "wandb", "tensorboard", notices=notices)
    fakes["wandb"].init().log.side_effect = ConnectionError("gone")
    fakes["wandb"].init().finish.side_effect = ConnectionError("still gone")
    for step in (1000, 2000, 3000):
        broken.log(step, {"return": 1.0})
        whole.log(step, {"return": 1.0})
    broken.close()
    assert notices == ["the sink 'wandb' failed and is closed; the run goes on: ConnectionError('gone')"]
    assert fakes["wandb"].init().log.call_count == fakes["wandb"].init().finish.call_count == 1
    assert fakes["tensorboardX"].SummaryWriter().add_scalar.call_count == 3


def test_a_sink_that_fails_to_close_is_only_noticed(tmp_path, fakes):
    notices: list[str] = []
    (sink,) = opened(tmp_path, "trackio", notices=notices)
    fakes["trackio"].init().finish.side_effect = RuntimeError("no")
    sink.close()
    sink.close()
    assert [said.partition(" and ")[0] for said in notices] == ["the sink 'trackio' failed"]


def test_standard_output_stays_the_commands_own(tmp_path, fakes, capsys):
    fakes["trackio"].init.side_effect = lambda **_: print("welcome") or MagicMock()
    opened(tmp_path, "trackio")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "welcome\n")
