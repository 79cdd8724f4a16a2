from __future__ import annotations

import json
import math

import pytest

from headrace.agents import (
    KNOWN,
    Agent,
    AsIs,
    Clip,
    Conv,
    Curl,
    Dqn,
    Every,
    Mix,
    Polyak,
    Qrc,
    Spr,
    agent_named,
    from_json,
    parse,
    to_json,
    tweak,
)
from headrace.errors import BadSetting, UnknownName

ALL = KNOWN


@pytest.mark.parametrize("name", ALL)
def test_an_agent_prints_as_the_expression_that_builds_it(name):
    again = parse(repr(ALL[name]))
    assert again == ALL[name]
    assert repr(again) == repr(ALL[name])


@pytest.mark.parametrize("name", ALL)
def test_an_agent_survives_a_round_trip_through_json_text(name):
    assert from_json(json.loads(json.dumps(to_json(ALL[name])))) == ALL[name]


def test_equal_agents_hash_alike_and_different_agents_are_different_keys():
    copies = {name: parse(repr(agent)) for name, agent in ALL.items()}
    assert all(hash(copies[name]) == hash(agent) for name, agent in ALL.items())
    assert len(set(ALL.values())) == len(ALL)


def test_a_part_cannot_be_changed():
    with pytest.raises(AttributeError):
        Qrc().lr = 0.5


def test_a_whole_number_becomes_the_type_that_the_field_declares():
    assert repr(Qrc(lr=1)) == repr(Qrc(lr=1.0))
    assert repr(Every(5.0)) == "Every(n=5)"


def test_lists_from_json_become_tuples():
    assert Conv([4], [[3, 3]], [[1, 1]], 8) == Conv((4,), ((3, 3),), ((1, 1),), 8)


def test_tweak_changes_one_field_and_leaves_the_original_alone():
    agent = agent_named("qrc+spr+orth")
    changed = tweak(agent, "aux.objective.horizon=3")
    assert (changed.aux.objective.horizon, agent.aux.objective.horizon) == (3, 5)
    assert tweak(changed, "aux.objective.horizon=5") == agent


def test_tweaks_apply_from_left_to_right():
    agent = tweak(agent_named("qrc+spr"), "td.lr=0.5", "aux.gate=Every(7)", "td.lr=0.25", "aux.gate.n=3")
    assert (agent.td.lr, agent.aux.gate) == (0.25, Every(3))


def test_values_may_be_numbers_tuples_names_and_nested_parts():
    assert parse(" -1e-3 ") == -0.001
    assert parse("((8, 8), [4, 4])") == ((8, 8), (4, 4))
    assert parse("Every") == Every(5)
    assert parse("Spr(3, augment=AsIs, target=Polyak(keep=0.99))") == Spr(3, augment=AsIs(), target=Polyak(0.99))


# what goes wrong, with the value in the message -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("td.lambda=0.5", r"setting of Qrc .*'lambda'; did you mean 'lamda'\? Known: gamma, "),
        ("aux.objective.horizn=3", r"'horizn'; did you mean 'horizon'"),
        ("aux.gate=Evry(5)", r"unknown part 'Evry'; did you mean 'Every'"),
        ("aux.gate=Every(m=5)", r"setting of Every 'm'"),
    ],
)
def test_an_unknown_name_is_named_and_the_nearest_one_suggested(setting, message):
    with pytest.raises(UnknownName, match=message):
        tweak(agent_named("qrc+spr"), setting)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("td.lr=-1", r"Qrc.lr must be >= 0.0, got -1"),
        ("td.gamma=1.01", r"Qrc.gamma must be between 0.0 and 1.0, got 1.01"),
        ("aux.objective.horizon=0", r"Spr.horizon must be >= 1, got 0"),
        ("aux.gate=Every(0)", r"Every.n must be >= 1, got 0"),
        ("td.target=Copy(0)", r"Copy.every must be >= 1, got 0"),
        ("aux.objective.horizon=2.5", r"Spr.horizon must be a whole number, got 2.5"),
        ("td.guard=Clip(0)", r"Clip.norm must be > 0, got 0.0; to leave gradients alone, use Unguarded\(\)"),
        ("aux.guard.norm=-3", r"Clip.norm must be > 0, got -3.0; to leave gradients alone, use Unguarded\(\)"),
        ("td.guard=Clip(1e999)", r"Clip.norm must be a finite number, got inf"),
        ("td.guard.norm=nan", r"cannot read the value 'nan': it must be a number"),
        ("td.lr=1e999", r"Qrc.lr must be a finite number, got inf"),
        ("td.lr=(1, 2)", r"Qrc.lr must be a number, got \(1, 2\)"),
        ("td.lr=Every(5)", r"Qrc.lr must be a number, got Every\(n=5\)"),
        ("td.target=Every(5)", r"Qrc.target must be one of Online \| Copy \| Polyak, got Every\(n=5\)"),
        ("td.target=3", r"Qrc.target must be one of Online \| Copy \| Polyak, got 3"),
        ("merge=Every(5)", r"Agent.merge must be one of .*Mix.*, got Every\(n=5\)"),
        ("aux.gate=Every(5, 6)", r"Every takes 1 settings \(n\), got 2"),
        ("network=Conv((4, 0))", r"Conv.channels must hold whole numbers >= 1, got 0"),
        ("network=Conv(4)", r"Conv.channels must be a non-empty tuple, got 4"),
        ("network=Conv((4, 4))", r"as many kernels and strides as channels, got Conv\(channels=\(4, 4\)"),
        ("network=Conv((16,), (3,), (1,), 128)", r"kernels and strides as pairs"),
        ("network=Conv((16,), ((3,),), ((1, 1),), 128)", r"kernels and strides as pairs"),
        ("network=Conv((16,), ((3, 3, 3),), ((1, 1),), 128)", r"kernels and strides as pairs"),
        ("network=Conv(((1, 2),), ((3, 3),), ((1, 1),), 128)", r"channels as whole numbers"),
        ("network=Mlp(((1, 2),), 8)", r"Mlp takes widths as whole numbers"),
        ("aux.objective.augment=Clipped(AsIs, 1, 0)", r"Clipped.low must not exceed Clipped.high, got 1.0 and 0.0"),
        ("aux.gate=Every(99999999999)", r"Every.n must be between 1 and 2147483647, got 99999999999"),
        ("aux.objective.horizon=3000000000", r"Spr.horizon must be between 1 and 2147483647, got 3000000000"),
        ("td=Agent", r"Agent cannot be built: .*missing 1 required positional argument: 'td'"),
        ("td=Qrc(1e-4, lr=1e-4)", r"Qrc cannot be built: .*multiple values for argument 'lr'"),
        ("td=Qrc(lr=1, lr=2)", r"a setting of Qrc is given twice"),
        ("td.lr=-Online", r"cannot read the value '-Online'"),
        ("td.lr=x", r"cannot read the value 'x'"),
        ("td.lr.x=1", r"cannot set td.lr.x: td.lr is 0.0001, which has no settings"),
        ("merge.mix=1", r"cannot set merge.mix: merge is Sum\(\), which has no settings"),
        ("td.lr=True", r"Qrc.lr must be a number, got True"),
        ("td.lr='a'", r"Qrc.lr must be a number, got 'a'"),
        ("td.lr=1 +", r"cannot read the value '1 \+'"),
        ("td.lr=2*3", r"cannot read the value '2\*3'"),
        ("td.lr=__import__('os').getcwd()", r"cannot read the value"),
        ("td.lr", r"path.to.field=value, got 'td.lr'"),
        ("=3", r"path.to.field=value, got '=3'"),
    ],
)
def test_a_bad_value_is_refused_and_shown(setting, message):
    with pytest.raises(BadSetting, match=message):
        tweak(agent_named("qrc+spr"), setting)


def test_truth_values_are_not_numbers():
    with pytest.raises(BadSetting, match=r"Mix.mix must be a number, got True"):
        Mix(True)


@pytest.mark.parametrize("norm", [0, -1.0, math.nan, math.inf])
def test_a_guard_without_a_length_is_refused(norm):
    with pytest.raises(BadSetting, match=rf"Clip\.norm must be .*, got {float(norm)}"):
        Clip(norm)


def test_a_json_part_of_unknown_kind_is_refused():
    with pytest.raises(UnknownName, match="unknown part 'Qrk'; did you mean 'Qrc'"):
        from_json({"part": "Qrk"})


def test_parts_with_other_numbers_are_other_values():
    assert Agent(Qrc(lr=1e-4)) != Agent(Qrc(lr=2e-4))
    assert Agent(Dqn()) != Agent(Qrc())
    assert Curl() != Curl(batch=6)
