"""What the tests of runs share: compiled programs, and one finished run of each way to compute it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

# Before NumPy is imported: on small matrices the threads of two workers wait for one another, five times the work.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache

from headrace.training.single import Trained
from tests.small_runs import WAYS, Command, small_train

# As a shell starts what runs in its background, and nohup anything: processes that tests start would inherit it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


MOST = 2.5e9  # bytes of a process, most of them compiled programs that later modules have no use for


@pytest.fixture(scope="module", autouse=True)
def forgotten() -> Iterator[None]:
    """Two workers fit into a machine with 8 GB."""
    yield
    with suppress(OSError):  # where there is no such file, nothing is known of memory
        if int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") > MOST:
            jax.clear_caches()


@pytest.fixture(autouse=True)
def same_variables() -> Iterator[None]:
    """No test changes the environment of those after it: with other flags their processes would compute other digits
    than this one, whose JAX has read its own."""
    before = {**os.environ}
    yield
    for name in {*before, *os.environ} - {"PYTEST_CURRENT_TEST"}:
        if name not in before:
            del os.environ[name]
        elif os.environ.get(name) != before[name]:
            os.environ[name] = before[name]


@pytest.fixture(scope="session", autouse=True)
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where compiled programs are kept by this process and by those it starts: compiling is most of a small run. What
    earlier runs have left in the user's own folder is not read."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "programs"
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
    compilation_cache.reset_cache()  # it may have been found switched off before
    return folder


@pytest.fixture(scope="session")
def command(programs: Path) -> Command:
    """The command line in a process of its own."""
    return Command(programs)


@pytest.fixture(scope="session", params=WAYS)
def finished(request: pytest.FixtureRequest, programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """A run of each way to compute it that was never interrupted. Do not change it."""
    return small_train(tmp_path_factory.mktemp(request.param), **WAYS[request.param])


@pytest.fixture(scope="session")
def finished_learner(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """The same by the learner, for what no engine is the point of. Do not change it."""
    return small_train(tmp_path_factory.mktemp("alone"), **WAYS["learner"])


@pytest.fixture(scope="session")
def finished_compiled(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """A run that was never interrupted. Do not change it."""
    return small_train(tmp_path_factory.mktemp("alone"))
