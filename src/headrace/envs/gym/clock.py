"""The time of an episode as one more number of a vector."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from headrace.errors import BadSetting


class WithClock(gymnasium.Wrapper):
    """Observations end with the share of the time limit that has passed, less 1/2."""

    def __init__(self, name: str, env: gymnasium.Env, steps: int) -> None:
        super().__init__(env)
        space = env.observation_space
        if not isinstance(space, Box) or len(space.shape) != 1:
            raise BadSetting(f"{name} shows {space}: the clock (env.clock) is one more number of a vector")
        self._limit, self._passed = int(getattr(env.spec, "max_episode_steps", None) or steps), 0
        low, high = np.append(space.low, -0.5), np.append(space.high, np.inf)
        self.observation_space = Box(low.astype(np.float32), high.astype(np.float32), dtype=np.float32)

    def reset(self, **kwargs: Any) -> tuple[np.ndarray, dict[str, Any]]:
        seen, info = self.env.reset(**kwargs)
        self._passed = 0
        return self._with(seen), info

    def step(self, action: Any) -> Any:
        seen, *rest = self.env.step(action)
        self._passed += 1
        return self._with(seen), *rest

    def _with(self, seen: Any) -> np.ndarray:
        return np.append(np.asarray(seen, np.float32), np.float32(self._passed / self._limit - 0.5))
