"""A place to run a sweep that trains nothing: what happens to each run is written down beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from headrace.errors import RunConflict
from headrace.runs.folder import RunFolder
from headrace.sweep.executor import Began, Ended, Event, Job, Moved, Options, Said
from headrace.training.run import Run


class Scripted:
    """Each run's script has one word for each time it is tried; a run without a script is done at once."""

    script: ClassVar[dict[int, list[str]]] = {}  # by seed
    tried: ClassVar[list[int]] = []
    together: ClassVar[int] = 1

    def __init__(self, out: Path, options: Options) -> None:
        self.out, self.queue, self.events = out, list[Job](), list[Event]()

    def jobs(self, runs: Sequence[Run]) -> list[Job]:
        return [Job(tuple(runs[i : i + self.together])) for i in range(0, len(runs), self.together)]

    def add(self, job: Job) -> None:
        self.queue.append(job)

    def wait(self, seconds: float) -> list[Event]:
        events, self.events = self.events, []
        if self.queue:
            job = self.queue.pop(0)
            lost = "its node died" if self._lost(job) else ""
            causes = {name: cause for run in job.runs for name, cause in self._happen(run).items()}
            events += [Began(job), Said("something"), Moved(job, 10, 5.0), Ended(job, causes, lost)]
        return events

    def stop(self) -> None:
        self.events += [Ended(job, {}) for job in self.queue]
        self.queue.clear()

    def close(self) -> None: ...

    def _lost(self, job: Job) -> bool:
        """Whether the next word of one of its runs begins with `lose`."""
        return any(word.startswith("lose") for run in job.runs for word in self.script.get(run.seed, [])[:1])

    def _happen(self, run: Run) -> dict[str, str]:
        words = self.script.get(run.seed, [])
        word = words.pop(0) if words else "finish"
        self.tried.append(run.seed)
        with suppress(RunConflict), RunFolder.open(self.out / run.name, run.identity(), {}) as folder:
            if folder.status == "diverged":
                return {}
            folder.resume()
            match word:
                case "finish":
                    folder.finish({})
                case "diverge":
                    folder.set_status("diverged", diverged={"quantity": "q", "step": 3})
                case "raise":
                    folder.set_status("failed", cause="ValueError: raised")
                    return {run.name: "ValueError: raised"}
                case "lose_further":
                    folder.save_checkpoint(1 + max(folder.checkpoint_steps(), default=0), {}, {})
                case "die":
                    return {run.name: "its process was killed by SIGKILL"}
        return {}


class OneByOne(Scripted):
    """Tells one thing at a time."""

    def __init__(self, out: Path, options: Options) -> None:
        super().__init__(out, options)
        self.untold = list[Event]()

    def wait(self, seconds: float) -> list[Event]:
        self.untold = self.untold or super().wait(seconds)
        return [self.untold.pop(0)] if self.untold else []
