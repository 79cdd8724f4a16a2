"""The original MinAtar games of the `minatar` package as a host environment that can be saved in mid-game."""

from __future__ import annotations

from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from headrace.envs.base import EnvSpec, TimeStep, check_action, check_saved
from headrace.envs.minatar import ACTION_NAMES, check_settings, render_board
from headrace.envs.packing import pack, unpack


class PackageMinAtar:
    """One of the five games; steps as `minatar.Environment` does with the same seed, and restarts at once."""

    def __init__(self, game: str, sticky: float = 0.1, ramping: bool = True, seed: int = 0) -> None:
        check_settings(game, sticky)
        self.game = _load(game).Env(ramping=ramping)
        self.sticky = sticky
        self.actions = self.game.minimal_action_set()
        names = tuple(ACTION_NAMES[action] for action in self.actions)
        self.spec = EnvSpec(f"minatar/{game}", tuple(self.game.state_shape()), names, low=0, high=1)
        self.reset(seed)

    def reset(self, seed: int) -> np.ndarray:
        self.last_action = 0
        self.game.random = np.random.RandomState(seed)
        self.game.reset()
        return self._observe()

    def step(self, action: int) -> TimeStep:
        check_action(self.spec, action)
        repeated = self.game.random.rand() < self.sticky
        self.last_action = self.last_action if repeated else self.actions[action]
        reward, terminated = self.game.act(self.last_action)
        successor = obs = self._observe()
        if terminated:
            self.game.reset()
            obs = self._observe()
        return TimeStep(obs, successor, float(reward), bool(terminated), truncated=False, last=bool(terminated))

    def save(self) -> dict[str, Any]:
        attributes = {name: pack(value) for name, value in vars(self.game).items()}
        return {"env": self.spec.name, "sticky": self.sticky, "last_action": self.last_action, "game": attributes}

    def restore(self, saved: dict[str, Any]) -> None:
        check_saved(self.spec, saved)
        self.sticky = saved["sticky"]
        self.last_action = saved["last_action"]
        vars(self.game).clear()
        vars(self.game).update({name: unpack(value) for name, value in saved["game"].items()})

    def render(self) -> np.ndarray:
        return render_board(self.game.state())

    def _observe(self) -> np.ndarray:
        return self.game.state().astype(np.float32)


def _load(game: str) -> ModuleType:
    """The module of one game, executed on its own.

    `import minatar` also imports matplotlib and seaborn, over a second and 100 MB in every process, so the game's file
    is found and run without its package; the game itself needs NumPy only.
    """
    package = find_spec("minatar")
    if package is None or not package.submodule_search_locations:
        raise ImportError("the original MinAtar games need the minatar package: pip install 'headrace[minatar]'")
    path = Path(package.submodule_search_locations[0]) / "environments" / f"{game}.py"
    spec = spec_from_file_location(f"minatar.environments.{game}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ImportError(f"{path} is missing; reinstall the package: pip install 'headrace[minatar]'")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
