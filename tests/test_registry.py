"""Environments by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headrace.envs import registry
from headrace.envs.registry import Hosted, MinAtarRules, environment, make, names
from headrace.errors import BadSetting, HeadraceError, UnknownName
from headrace.part import tweak


def test_the_five_games_by_name() -> None:
    games = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")
    assert names() == [f"minatar/{game}" for game in games]


@pytest.mark.parametrize("name", names())
def test_both_forms_agree_on_what_an_agent_must_know(name: str) -> None:
    found = environment(name)
    assert found.compiled().spec == found.host().spec
    assert found.compiled().spec.name == name


def test_an_unknown_environment_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match="unknown environment 'minatar/brekout'; did you mean 'minatar/breakout'"):
        environment("minatar/brekout")
    with pytest.raises(UnknownName, match="unknown environment 'breakout'; did you mean 'minatar/breakout'"):
        environment("breakout")


def test_an_unknown_form_is_refused() -> None:
    with pytest.raises(BadSetting, match="form is compiled or host, got 'fast'"):
        make("minatar/breakout", "fast")


def test_rules_have_ranges() -> None:
    assert tweak(MinAtarRules(), "sticky=0").sticky == 0
    for setting in ("sticky=1.5", "sticky=-0.1", "ramping=2"):
        with pytest.raises(BadSetting):
            tweak(MinAtarRules(), setting)


def test_rules_reach_both_forms() -> None:
    calm = environment("minatar/space_invaders")
    calm = registry.Environment(calm.name, tweak(calm.rules, "sticky=0.25", "ramping=0"))
    compiled: Any = calm.compiled()
    host: Any = calm.host()
    assert (compiled.sticky, compiled.ramping) == (0.25, False)
    assert (host.sticky, host.game.ramping) == (0.25, False)


def test_equal_environments_share_their_compiled_form() -> None:
    """Programs are compiled once for an environment object, so equal environments must be one object."""
    one, two = environment("minatar/asterix"), environment("minatar/asterix")
    other = registry.Environment(one.name, tweak(one.rules, "sticky=0"))
    assert one.compiled() is two.compiled()
    assert one.compiled() is not other.compiled()


def test_the_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "find_spec", lambda name: None)
    with pytest.raises(HeadraceError, match=r"needs the minatar package: pip install 'headrace\[minatar\]'"):
        environment("minatar/breakout").host()


def test_a_compiled_game_stepped_from_python_follows_its_seed() -> None:
    def play(seed: int) -> list[np.ndarray]:
        env = Hosted(environment("minatar/breakout").compiled())
        return [env.reset(seed), *(env.step(action).obs for action in (1, 2, 0, 1, 1, 2))]

    assert all(np.array_equal(a, b) for a, b in zip(play(3), play(3), strict=True))
    first = play(3)
    assert first[0].shape == (10, 10, 4)
    assert not all(np.array_equal(first[0], later) for later in first[1:])
    assert any(not np.array_equal(a, b) for seed in range(1, 6) for a, b in zip(first, play(seed), strict=True))
