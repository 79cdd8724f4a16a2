"""Live views of a run elsewhere: TensorBoard, Weights & Biases, MLflow, trackio.

The run's folder is the record; a sink is a copy of its metrics for watching. None of these packages is imported unless
its sink is asked for, and none of them can stop a run: a sink that fails is closed, with a notice.
"""

from __future__ import annotations

import hashlib
import importlib
import math
import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from headrace.errors import HeadraceError, unknown

PROJECT = "headrace"
MLFLOW_TAG = "headrace.training.run"  # finds the MLflow run of a resumed run
MLFLOW_PARAMETER = 500  # characters that every MLflow store takes for a parameter's value


class Sink:
    """Takes what is logged at a step. After a crash a resumed run may give it the same step again. This one keeps
    nothing: it stands where a sink has failed."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None: ...

    def close(self) -> None: ...


class Source(NamedTuple):
    """The run that a sink shows."""

    name: str
    path: Path
    config: Mapping[str, Any]
    start: int  # the step from which it is (again) trained


def require_sinks(names: Sequence[str]) -> None:
    """Fails early if a sink's package is missing, before anything is written."""
    for name in names:
        if name not in SINKS:
            raise unknown("sink", name, SINKS)
        if find_spec(SINKS[name].package) is None:
            raise HeadraceError(f"the sink {name!r} needs a package that is missing: pip install 'headrace[{name}]'")


def open_sinks(names: Sequence[str], source: Source, notify: Callable[[str], None]) -> list[Sink]:
    """One sink for each name; `notify` is told, once, of a sink that fails later on."""
    packages = {name: _package(name) for name in names}
    return [Guarded(name, _opened(name, package, source), notify) for name, package in packages.items()]


def _package(name: str) -> ModuleType:
    module = SINKS[name].package
    try:
        return importlib.import_module(module)
    except ImportError as error:
        remedy = f"pip install 'headrace[{name}]'"
        raise HeadraceError(f"the sink {name!r} needs a package that cannot be imported ({error}): {remedy}") from error


def _opened(name: str, package: ModuleType, source: Source) -> Sink:
    try:
        with redirect_stdout(sys.stderr):  # standard output belongs to the command
            return SINKS[name].make(package, source)
    except Exception as error:
        raise HeadraceError(f"the sink {name!r} could not be opened: {error}") from error


class Guarded(Sink):
    """Passes on what is finite; at the first failure of the sink behind it, closes that and says so."""

    def __init__(self, name: str, sink: Sink, notify: Callable[[str], None]) -> None:
        self.name = name
        self._sink: Sink = sink
        self._notify = notify

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        finite = {name: float(value) for name, value in metrics.items() if math.isfinite(value)}
        if finite:
            self._try(lambda: self._sink.log(int(step), finite))

    def close(self) -> None:
        sink, self._sink = self._sink, Sink()
        self._try(sink.close)

    def _try(self, action: Callable[[], None]) -> None:
        try:
            with redirect_stdout(sys.stderr):
                action()
        except Exception as error:
            failed, self._sink = self._sink, Sink()
            self._notify(f"the sink {self.name!r} failed and is closed; the run goes on: {error!r}")
            _close_quietly(failed)


def _close_quietly(sink: Sink) -> None:
    with suppress(Exception), redirect_stdout(sys.stderr):  # its failure has been reported already
        sink.close()


class TensorBoard(Sink):
    def __init__(self, package: ModuleType, source: Source) -> None:
        # TensorBoard hides what was logged at `purge_step` or later before a crash: those steps come again.
        self._writer = package.SummaryWriter(logdir=str(source.path / "tensorboard"), purge_step=source.start + 1)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


class Wandb(Sink):
    """Offline unless WANDB_MODE says otherwise: `wandb sync RUN/wandb/offline-*` uploads it later."""

    def __init__(self, package: ModuleType, source: Source) -> None:
        self._run = package.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=source.name,
            id=re.sub(r"[/\\#?%:]", "-", source.name),
            resume="allow",
            dir=str(source.path),
            config=dict(source.config),
            mode=os.environ.get("WANDB_MODE", "offline"),
            settings=package.Settings(silent=True, console="off"),
        )

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self._run.log(dict(metrics), step=step)

    def close(self) -> None:
        self._run.finish()


class Mlflow(Sink):
    """Files under the run's folder unless MLFLOW_TRACKING_URI says otherwise."""

    def __init__(self, package: ModuleType, source: Source) -> None:
        self._metric = importlib.import_module(f"{package.__name__}.entities").Metric
        self._client = package.MlflowClient(tracking_uri=_mlflow_uri(source.path))
        experiment = self._experiment(os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT))
        self._run_id = self._resumed(experiment, source) or self._created(experiment, source)
        self._client.update_run(self._run_id, status="RUNNING")

    def _experiment(self, name: str) -> str:
        found = self._client.get_experiment_by_name(name)
        return found.experiment_id if found else self._client.create_experiment(name)

    def _resumed(self, experiment: str, source: Source) -> str | None:
        runs = self._client.search_runs([experiment], f"tags.`{MLFLOW_TAG}` = '{_place(source)}'", max_results=1)
        return runs[0].info.run_id if runs else None

    def _created(self, experiment: str, source: Source) -> str:
        tags = {MLFLOW_TAG: _place(source)}
        run_id = self._client.create_run(experiment, run_name=source.name, tags=tags).info.run_id
        for name, value in source.config.items():
            self._client.log_param(run_id, name, str(value)[:MLFLOW_PARAMETER])
        return run_id

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        now = int(1000 * time.time())
        self._client.log_batch(self._run_id, [self._metric(name, value, now, step) for name, value in metrics.items()])

    def close(self) -> None:
        self._client.set_terminated(self._run_id)


def _place(source: Source) -> str:
    """Tells two runs of one name in different folders apart, in letters that a search can quote."""
    return hashlib.sha256(str(source.path.absolute()).encode()).hexdigest()[:16]


def _mlflow_uri(path: Path) -> str:
    if "MLFLOW_TRACKING_URI" in os.environ:
        return os.environ["MLFLOW_TRACKING_URI"]
    # MLflow 3 asks for this word before it writes plain files, the one store that needs no database.
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    return (path.absolute() / "mlruns").as_uri()


class Trackio(Wandb):
    """Where trackio keeps its projects (TRACKIO_DIR), so `trackio show` finds them. Its runs are like wandb's."""

    def __init__(self, package: ModuleType, source: Source) -> None:
        config = dict(source.config)
        self._run = package.init(project=PROJECT, name=source.name, resume="allow", config=config, embed=False)


class Product(NamedTuple):
    package: str  # the module to import
    make: Callable[[ModuleType, Source], Sink]


SINKS = {
    "tensorboard": Product("tensorboardX", TensorBoard),
    "wandb": Product("wandb", Wandb),
    "mlflow": Product("mlflow", Mlflow),
    "trackio": Product("trackio", Trackio),
}
