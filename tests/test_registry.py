"""Environments by name."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from headrace.envs import atari, registry
from headrace.envs.registry import SETS, Hosted, MinAtarRules, environment, make, matching, names
from headrace.errors import BadSetting, HeadraceError, UnknownName
from headrace.part import tweak

MINATAR = [f"minatar/{game}" for game in ("asterix", "breakout", "freeway", "seaquest", "space_invaders")]


def test_every_game_has_a_name() -> None:
    assert names()[:5] == MINATAR
    families = Counter(name.partition("/")[0] for name in names())
    assert families == {"minatar": 5, "atari": 104, "octax": 39, "probe": 6}
    assert len(set(names())) == len(names())


def test_patterns_and_the_papers_sets() -> None:
    assert matching("minatar/*") == MINATAR
    assert matching("atari26/*") == [f"atari/{game}" for game in atari.PAPER_GAMES]
    assert matching("octax8/?o*") == ["octax/pong", "octax/worm"]
    assert matching("atari/pong") == ["atari/pong"]
    assert matching("gym/CartPole-v1") == ["gym/CartPole-v1"]
    assert [len(members) for members in SETS.values()] == [26, 8]
    assert {name for members in SETS.values() for name in members} <= set(names())
    with pytest.raises(UnknownName, match=r"no environment matches 'atari26/z\*'.*minatar/\*.*octax8/\*"):
        matching("atari26/z*")


def test_a_form_that_an_environment_has_not_is_refused() -> None:
    assert environment("atari/pong").forms == ("host",)
    with pytest.raises(BadSetting, match="atari/pong has no compiled form: it runs as host only"):
        environment("atari/pong").compiled()


@pytest.mark.parametrize("name", MINATAR)
def test_both_forms_agree_on_what_an_agent_must_know(name: str) -> None:
    found = environment(name)
    assert found.compiled().spec == found.host().spec
    assert found.compiled().spec.name == name


def test_an_unknown_environment_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match="unknown environment 'minatar/brekout'; did you mean 'minatar/breakout'"):
        environment("minatar/brekout")
    with pytest.raises(UnknownName, match="unknown environment 'atari/ponk'; did you mean 'atari/pong'"):
        environment("atari/ponk")
    for nothing in ("breakout", "atari26/pong"):
        with pytest.raises(UnknownName, match=f"unknown environment '{nothing}'"):
            environment(nothing)


def test_a_family_without_a_member_is_answered_with_some_of_them() -> None:
    with pytest.raises(UnknownName, match=r"^'minatar/' names no .* minatar/asterix, .*, minatar/space_invaders; `h"):
        environment("minatar/")
    with pytest.raises(UnknownName, match=r"^'atari/' names no .* atari/adventure, .* or 92 more; `headrace envs`"):
        environment("atari/")
    with pytest.raises(UnknownName, match=r"^'gym/' names no environment: give an id"):
        environment("gym/")


def test_an_unknown_form_is_refused() -> None:
    with pytest.raises(BadSetting, match="form is compiled or host, got 'learner'"):
        make("minatar/breakout", "learner")


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
    saved = host.save()
    assert (saved["sticky"], saved["ramping"]) == (0.25, False)


def test_equal_environments_share_their_compiled_form() -> None:
    """Programs are compiled once for an environment object, so equal environments must be one object."""
    one, two = environment("minatar/asterix"), environment("minatar/asterix")
    other = registry.Environment(one.name, tweak(one.rules, "sticky=0"))
    assert one.compiled() is two.compiled()
    assert one.compiled() is not other.compiled()


def test_the_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "find_spec", lambda name: None)
    for name, package in (("probe/ends", "jax"), ("atari/pong", "atari"), ("gym/CartPole-v1", "gym")):
        with pytest.raises(HeadraceError, match=rf"needs the \w+ package: pip install 'headrace\[{package}\]'"):
            environment(name).host()
    with pytest.raises(HeadraceError, match=r"octax, cv2 and PIL packages: pip install 'headrace\[octax\]'"):
        environment("octax/pong").compiled()
    assert environment("atari/pong").install == "headrace[atari]"
    assert environment("minatar/breakout").install == ""
    assert environment("minatar/breakout").spec() == environment("minatar/breakout").host().spec
    with pytest.raises(HeadraceError, match=r"the jax package: pip install 'headrace\[jax\]'"):
        environment("minatar/breakout").compiled()


def test_a_compiled_game_stepped_from_python_follows_its_seed() -> None:
    def play(seed: int) -> list[np.ndarray]:
        env = Hosted(environment("minatar/breakout").compiled())
        return [env.reset(seed), *(env.step(action).obs for action in (1, 2, 0, 1, 1, 2))]

    assert all(np.array_equal(a, b) for a, b in zip(play(3), play(3), strict=True))
    first = play(3)
    assert first[0].shape == (10, 10, 4)
    assert not all(np.array_equal(first[0], later) for later in first[1:])
    assert any(not np.array_equal(a, b) for seed in range(1, 6) for a, b in zip(first, play(seed), strict=True))
