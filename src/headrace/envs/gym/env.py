"""A Gymnasium environment as a host environment: its observations, its actions, and the clock beside them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import load_env_creator
from gymnasium.spaces import Box, Discrete

from headrace.envs.base import EnvSpec, TimeStep, check_action, check_saved
from headrace.envs.gym import IMPORTS, GymRules, Shown, require_module_name
from headrace.envs.gym.saving import CannotSave, restore_layers, save_layers
from headrace.errors import BadSetting, EnvironmentFault, HeadraceError, raised, unknown
from headrace.part import Keywords, at_path, imported

RESET = ("observation", "info")  # what Gymnasium says that these return
STEP = ("observation", "reward", "terminated", "truncated", "info")
DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")
LONG = 16  # an axis beyond this is a side of an image rather than its channels
REMEDY = "A wrapper (--set env.wrappers=my_package.Wrapper) can change that, see gymnasium.wrappers.TransformAction"


class GymEnv:
    """The environment with its own wrappers and its own time limit.

    Images without a channel axis are given one. Observations that are no box (numbers of a kind, or several spaces
    together) become one vector, in which a number of a kind is one-hot.
    """

    def __init__(self, name: str, rules: GymRules | None = None, env: gymnasium.Env | None = None) -> None:
        """`name` is what it is called; `env` is the environment itself, where it is not to be made by its id."""
        rules = rules or GymRules()
        self._env = _wrapped(_made(name.removeprefix("gym/"), rules.kwargs) if env is None else env, rules.wrappers)
        if isinstance(rules.clock, Shown):
            self._env = WithClock(name, self._env, rules.clock.steps)
        space, actions = self._env.observation_space, self._env.action_space
        self._flat = space if not (isinstance(space, Box) and space.shape) and space.is_np_flattenable else None
        box = _box(name, gymnasium.spaces.flatten_space(space) if self._flat else space)
        self._taken, names = action_space(name, actions)
        shape = (*box.shape, 1) if len(box.shape) == 2 else box.shape  # channels last
        stack = rules.frames
        dtype = "uint8" if box.dtype in (np.uint8, np.bool_) and not self._flat else "float32"
        self._frame, self._dtype = shape, np.dtype(dtype)
        self.spec = EnvSpec(
            name=name,
            observation_shape=(*shape[:-1], shape[-1] * stack),
            actions=names,
            frames=stack,
            dtype=dtype,
            low=float(box.low.min()),
            high=float(box.high.max()),
            box=isinstance(actions, Box),
        )

    def reset(self, seed: int) -> np.ndarray:
        return self._first(self._env.reset(seed=seed))

    def step(self, action: Any) -> TimeStep:
        check_action(self.spec, action)
        returned = self._env.step(self._taken(action))
        raw, reward, terminated, truncated, _ = self._whole("step", STEP, returned)
        successor, last = self._seen(raw), bool(terminated or truncated)
        obs = self._first(self._env.reset()) if last else successor
        return TimeStep(obs, successor, self._number(reward), bool(terminated), bool(truncated), last)

    def save(self) -> dict[str, Any] | None:
        """All of the environment's state where that is made of plain values, None where it is not."""
        with suppress(CannotSave):
            return {"env": self.spec.name, "layers": save_layers(self._env)}
        return None

    def restore(self, saved: dict[str, Any]) -> None:
        check_saved(self.spec, saved)
        restore_layers(self._env, saved["layers"])

    def render(self) -> np.ndarray:
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pygame draws into memory, and must not look for a screen
        if not any(os.environ.get(name) for name in DISPLAYS):
            os.environ.setdefault("MUJOCO_GL", "egl")  # draws without a display, where it is installed
        try:
            picture = self._env.render() if self._env.render_mode == "rgb_array" else None
        except gymnasium.error.DependencyNotInstalled as error:
            raise HeadraceError(f"{self.spec.name} cannot be drawn: {error}") from error
        except Exception as error:
            raise HeadraceError(f"{self.spec.name} cannot be drawn: it raised {raised(error)}") from error
        if picture is None:
            raise HeadraceError(f"{self.spec.name} cannot be drawn: it has no render mode rgb_array")
        return np.asarray(picture, np.uint8)

    def _first(self, returned: Any) -> np.ndarray:
        return self._seen(self._whole("reset", RESET, returned)[0])

    def _seen(self, raw: Any) -> np.ndarray:
        """A copy, since an environment may go on writing into what it returned."""
        try:
            found = self._cast(np.asarray(gymnasium.spaces.flatten(self._flat, raw) if self._flat else raw))
        except (TypeError, ValueError, OverflowError, KeyError, IndexError) as error:
            wanted = f"not in its space {self._flat}" if self._flat else "no array of numbers"
            raise self._fault(f"the observation {raw!r:.80} is {wanted}") from error
        return found[..., None] if found.shape == self._frame[:-1] and len(self._frame) == 3 else found

    def _cast(self, given: np.ndarray) -> np.ndarray:
        """A copy of the declared type. Numbers may be rounded to floats, but not wrapped around to bytes."""
        if given.dtype == self._dtype:
            return given.copy()
        with np.errstate(invalid="ignore", over="ignore"):  # whoever looks at the result says what did not fit
            found = given.astype(self._dtype)
        if self._dtype == np.uint8 and (found != given).any():
            lost = given[found != given].flat[0]
            raise self._fault(f"the observation has {lost} in it, but its space is of {self._dtype}")
        return found

    def _number(self, reward: Any) -> float:
        try:
            return float(reward)
        except (TypeError, ValueError) as error:
            raise self._fault(f"the reward {reward!r:.80} is no number") from error

    def _whole(self, call: str, wanted: tuple[str, ...], returned: Any) -> Sequence[Any]:
        """What the environment returned; those written for Gym's older interface return less."""
        if not isinstance(returned, tuple | list) or len(returned) != len(wanted):
            got = f"{len(returned)} values" if isinstance(returned, tuple | list) else f"one {type(returned).__name__}"
            raise self._fault(f"its {call}() must return ({', '.join(wanted)}), as Gymnasium's do, not {got}")
        return returned

    def _fault(self, cause: str) -> EnvironmentFault:
        return EnvironmentFault(f"{self.spec.name}: {cause}")


def _made(name: str, kwargs: Keywords) -> gymnasium.Env:
    wanted = _wanted(name)
    try:
        return gymnasium.make(wanted, disable_env_checker=True, **{**_drawing(wanted), **kwargs.settings()})
    except (gymnasium.error.Error, ImportError) as error:
        raise HeadraceError(f"gym/{name} cannot be made: {error}") from error
    except (Exception, SystemExit) as error:
        raise HeadraceError(f"gym/{name} cannot be made: it raised {raised(error)}") from error


def _wrapped(env: gymnasium.Env, wrappers: str) -> gymnasium.Env:
    """The environment inside of each wrapper in turn, given by their import paths."""
    for path in filter(None, (word.strip() for word in wrappers.split(","))):
        wrapper = at_path(path) if "." in path else None
        if not callable(wrapper):
            raise BadSetting(f"env.wrappers takes import paths such as my_package.Wrapper, not {path!r}")
        try:
            env = wrapper(env)
        except (Exception, SystemExit) as error:
            raise HeadraceError(f"the wrapper {path} raised {raised(error)}") from error
        if not isinstance(env, gymnasium.Env):
            raise BadSetting(f"the wrapper {path} must return a Gymnasium environment, it returned {env!r:.80}")
    return env


def _wanted(name: str) -> Any:
    try:
        return gymnasium.spec(_imported(name))
    except gymnasium.error.Error as error:
        remedy = " Environments of your own are registered by a module: --import my_package."
        known = [f"gym/{known}" for known in gymnasium.registry]
        raise HeadraceError(f"{unknown('environment', f'gym/{name}', known)}{remedy}") from error


def _imported(name: str) -> str:
    """The id in `ID` or `module:ID`, the module having been imported, and those before it that `--import` named, in
    this process or in the one that started it."""
    module, _, wanted = name.rpartition(":")
    for one in filter(None, [*os.environ.get(IMPORTS, "").split(","), module]):
        require_module_name(one)
        imported(one)
    return wanted


def _drawing(spec: Any) -> dict[str, Any]:
    """The render mode that gives pictures, where there is one: it costs nothing until a picture is asked for."""
    maker = load_env_creator(spec.entry_point) if isinstance(spec.entry_point, str) else spec.entry_point
    modes = getattr(maker, "metadata", {}).get("render_modes", [])
    return {"render_mode": "rgb_array"} if "rgb_array" in modes and "render_mode" not in spec.kwargs else {}


def _box(name: str, space: gymnasium.Space) -> Box:
    """The space as one that can be learnt from."""
    if not isinstance(space, Box) or len(space.shape) not in (1, 2, 3) or 0 in space.shape:
        raise BadSetting(
            f"{name} shows {space}: what can be learnt from is a vector (n), an image (height, width) or "
            "(height, width, channels), and all that gymnasium.spaces.flatten makes a vector of. "
            "--set env.wrappers=my_package.Wrapper puts a wrapper of yours around the environment"
        )
    if _channels_come_first(space.shape):
        channels, height, width = space.shape
        raise BadSetting(
            f"{name} shows images of shape {space.shape}, which look like (channels, height, width): here channels "
            f"come last, {(height, width, channels)}. gymnasium.wrappers.TransformObservation with "
            "numpy.moveaxis(image, 0, -1) turns them; where the first axis stacks frames, leave that to env.frames"
        )
    return space


def _channels_come_first(shape: tuple[int, ...]) -> bool:
    """Whether two long axes follow a short one; read as (height, width, channels), no usual network would fit them."""
    if len(shape) != 3:
        return False
    first, side = shape[0], min(shape[1:])
    return side > LONG and first <= min(LONG, side // 4)


def action_space(name: str, space: gymnasium.Space) -> tuple[Callable[[Any], Any], tuple[str, ...]]:
    """What the environment is given for an agent's action, and the names of the actions, or of a box's coordinates."""
    if isinstance(space, Discrete):
        first = int(space.start)
        return (lambda action: first + action), tuple(str(action) for action in range(int(space.n)))
    if not isinstance(space, Box):
        raise BadSetting(f"{name} has the actions {space}: only a Discrete space or a Box can be learnt. {REMEDY}")
    _require_box(name, space)
    low, high, dtype = space.low.astype(np.float64), space.high.astype(np.float64), space.dtype

    def scaled(action: Any) -> np.ndarray:
        share = (np.clip(np.asarray(action, np.float64), -1, 1) + 1) / 2
        return np.clip(low + share * (high - low), low, high).astype(dtype)

    return scaled, tuple(str(i) for i in range(space.shape[0]))


def _require_box(name: str, space: Box) -> None:
    """An error where a box has no room that a number between -1 and 1 could be scaled to."""
    why = ""
    if len(space.shape) != 1 or 0 in space.shape:
        why = f"has the shape {space.shape}: only a vector of numbers can be learnt"
    elif not np.issubdtype(space.dtype, np.floating):
        why = f"is of {space.dtype}: only real numbers can be learnt in a box, whole ones as a Discrete space"
    elif not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        why = "has no bounds in some direction: actions are scaled to bounds"
    elif not (space.low < space.high).all():
        why = "has a direction without room, in which low is not below high"
    if why:
        raise BadSetting(f"{name}'s box of actions {space} {why}. {REMEDY}")


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
