from __future__ import annotations

import pytest

from headrace.agents import (
    KNOWN,
    VARIANTS,
    AuxOrthogonalToTd,
    Bounded,
    Conv,
    Copy,
    LeakyNorm,
    Limited,
    NoAuxiliary,
    Polyak,
    Raw,
    Relu,
    Sum,
    agent_named,
    from_json,
    name_of,
    parse,
    to_json,
    tweak,
)
from headrace.errors import BadSetting, UnknownName
from headrace.part import differences

NINE = [
    "dqn", "dqn+spr", "qrc", "qrc+spr", "qrc+spr+orth", "strq", "strq+spr", "strq+spr+orth", "strq+spr+orth2",
]  # fmt: skip


def test_the_nine_variants_have_the_papers_names():
    assert sorted(VARIANTS) == NINE


@pytest.mark.parametrize("name", list(KNOWN))
def test_names_lead_to_agents_and_back(name):
    assert name_of(agent_named(name)) == name


def test_a_changed_agent_is_named_after_the_variant_it_is_made_like():
    assert name_of(tweak(agent_named("strq+spr+orth2"), "td.lr=0.5")) == "strq+spr+orth2 td.lr=0.5"
    assert name_of(tweak(agent_named("qrc"), "td.lr=0.5", "explore.end=0")) == "qrc td.lr=0.5 explore.end=0.0"
    changed = tweak(agent_named("qrc+spr+orth"), "aux.gate=Every(6)", "aux.weight=0.4")
    assert name_of(changed) == "qrc+spr+orth aux.weight=0.4 aux.gate=Every(n=6)"


@pytest.mark.parametrize("base", VARIANTS)
@pytest.mark.parametrize("other", list(KNOWN))
def test_differences_are_the_settings_that_make_one_agent_into_the_other(base, other):
    settings = differences(agent_named(other), agent_named(base))
    assert tweak(agent_named(base), *settings) == agent_named(other)


def test_an_unknown_variant_gets_the_nearest_name():
    with pytest.raises(UnknownName, match=r"unknown variant 'qrc\+spt'; did you mean 'qrc\+spr'"):
        agent_named("qrc+spt")


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("dqn", "td.lr", 1e-4),
        ("dqn", "td.gamma", 0.99),
        ("dqn", "td.target.every", 1000),
        ("strq", "td.lr", 1.0),
        ("strq", "td.kappa", 2.0),
        ("strq", "td.lamda", 0.8),
        ("qrc", "td.lr", 1e-4),
        ("qrc", "td.lamda", 0.8),
        ("qrc", "td.h_lr_scale", 0.1),
        ("qrc", "td.regularizer", 1.0),
        ("dqn", "explore.fraction", 0.1),
        ("qrc", "explore.fraction", 0.1),
        ("strq", "explore.fraction", 0.2),
        ("strq+spr+orth2", "explore.fraction", 0.2),
        ("qrc", "explore.start", 1.0),
        ("qrc", "explore.end", 0.01),
        ("qrc+spr", "aux.lr", 1e-4),
        ("strq+spr", "aux.lr", 1e-4),
        ("qrc+spr", "aux.weight", 2.0),
        ("qrc+spr", "aux.objective.horizon", 5),
        ("qrc+spr", "aux.objective.augment.shift", 4),
        ("qrc+spr", "aux.objective.augment.intensity", 0.05),
        ("qrc+spr+orth", "aux.filter.beta", 0.99),
        ("strq+spr", "merge.mix", 0.5),
        ("strq+spr+orth2", "merge.combine.mix", 0.5),
        ("qrc+curl", "aux.weight", 1.0),
        ("qrc+curl", "aux.lr", 1e-4),
        ("qrc+curl", "aux.objective.batch", 5),
        ("qrc+curl", "aux.objective.latent", 128),
        ("qrc+curl", "aux.objective.target.keep", 0.95),
        ("dqn+replay5", "td.memory.size", 5),
        ("dqn+polyak", "td.target.keep", 0.995),
        ("qrc+spr+tau99", "aux.objective.target.keep", 0.99),
    ],
)
def test_defaults_are_the_papers_numbers(name, path, value):
    found = agent_named(name)
    for key in path.split("."):
        found = getattr(found, key)
    assert found == value


def test_only_strq_mixes_and_only_orth2_projects_on_the_values():
    assert all(VARIANTS[n].merge == Sum() for n in NINE if not n.startswith("strq+"))
    assert [n for n in NINE if isinstance(VARIANTS[n].merge, AuxOrthogonalToTd)] == ["strq+spr+orth2"]


def test_the_orth_history_is_raw_by_default():
    assert agent_named("qrc+spr+orth").aux.filter.history == Raw()


def test_a_base_agent_and_its_spr_version_share_the_network_and_the_exploration():
    for name, agent in VARIANTS.items():
        base = VARIANTS[name.split("+")[0]]
        assert (agent.network, agent.explore, agent.td) == (base.network, base.explore, base.td)
        assert isinstance(base.aux, NoAuxiliary)


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("qrc", "network.third_kernel=2"),
        ("dqn", "td.target=Polyak(0.995)"),
        ("dqn", "td.memory=Replay(5)"),
        ("qrc", "td.target=Copy(every=1000)"),
        ("qrc", "td_filter=Orth"),
        ("qrc+spr", "aux.objective.reduce=MeanOverHorizon"),
        ("qrc+spr", "aux.objective.projection=Separate"),
        ("qrc+spr", "aux.objective=Spr(augment=AsIs, target=Polyak(0.99))"),
        ("qrc+spr", "aux.objective.augment=AsIs"),
        ("qrc+spr", "aux.objective.augment.shift=1"),
        ("qrc+spr", "aux.objective.horizon=10"),
        ("qrc+spr", "aux.weight=0.5"),
        ("qrc+spr", "aux.gate=Every(5)"),
        ("qrc+spr", "aux.gate=Greedy"),
        ("qrc+spr+orth", "aux.filter.history=Projected"),
        ("qrc+spr+orth", "aux.filter.history=RawCurrent"),
        ("qrc+spr+orth", "aux.filter.beta=0.9"),
        ("strq+spr", "merge=Sum"),
        ("strq+spr", "merge.mix=0.3"),
        ("strq+spr", "merge=PcGrad"),
        ("strq+spr+orth2", "merge.against=Average"),
        ("strq+spr+orth2", "merge.combine=Sum"),
        ("qrc", "aux=Auxiliary(Curl, weight=1.0)"),
        ("strq", "network.head=Relu"),
        ("dqn+spr", "merge=Bounded(Sum, 20)"),
        ("strq+spr+orth2", "merge=Bounded(AuxOrthogonalToTd, 100)"),
        ("qrc+spr+orth", "aux.filter.modules=Together"),
        ("qrc+spr+orth", "aux.filter.rest=Fading"),
        ("strq", "observations=Limited(5)"),
    ],
)
def test_every_switch_is_one_setting_away(name, setting):
    agent = agent_named(name)
    changed = tweak(agent, setting)
    assert changed != agent
    path, _, text = setting.partition("=")
    found = changed
    for key in path.split("."):
        found = getattr(found, key)
    assert found == parse(text)


RELEASED = {  # what mends each of its differences
    "sign": "merge.inner=Sum",
    "window": "aux.objective.window=Episode",
    "mean": "aux.objective.reduce=SumOverHorizon",
    "greedy": "aux.gate=Always",
    "images": "aux.objective.augment=ShiftAndIntensity",
    "head": "network.head=LeakyNorm",
    "orth": "aux.filter=Orth",
    "guard": "td.guard=Clip",
    "aux guard": "aux.guard=Clip",
}


def test_the_released_agent_has_these_differences_and_no_other():
    mended = tweak(agent_named("released"), *RELEASED.values())
    assert mended.merge == Bounded(Sum(), 100)
    assert tweak(mended, "merge=Sum") == agent_named("qrc+spr+orth")


def test_the_descending_one_differs_in_the_sign_alone():
    assert tweak(agent_named("released"), RELEASED["sign"]) == agent_named("released-down")


def test_the_released_dqn_and_its_spr_version_differ_in_more_than_spr():
    base, beside = agent_named("released-dqn"), agent_named("released-dqn+spr")
    assert tweak(base, "td.lr=1e-4") == agent_named("dqn+unguarded")
    assert (base.td.target, beside.td.target) == (Copy(1000), Polyak(0.995))
    assert beside.merge == Bounded(Sum(), 20)
    assert (base.network.head, beside.network.head) == (LeakyNorm(), Relu())
    assert beside.aux == tweak(agent_named("released"), "aux.filter=Unfiltered").aux


def test_runs_of_the_earlier_released_agent_are_named_as_what_they_are():
    """Four errors, written before there was a guard, a head or a bound to set."""
    earlier = to_json(agent_named("released-four"))
    assert "observations" not in earlier
    assert not {"modules", "rest"} & set(earlier["aux"]["filter"])
    del earlier["td"]["guard"], earlier["aux"]["guard"]
    assert name_of(from_json(earlier)) == "released-four+unguarded"
    mending = [RELEASED[name] for name in ("window", "mean", "greedy", "images")]
    assert tweak(agent_named("released-four"), "merge=Sum", *mending) == agent_named("qrc+spr+orth")


@pytest.mark.parametrize("name", VARIANTS)
def test_what_was_added_later_is_written_only_where_it_is_used(name):
    """So that a run made before keeps its identity, and its name."""
    agent = tweak(agent_named(name), "network.head=Relu", "observations=Limited(5)")
    for part, told in ((agent_named(name), False), (agent, True)):
        for words in (repr(part), str(to_json(part))):
            assert [word in words for word in ("Relu", "Limited")] == [told, told]
            assert not any(word in words for word in ("LeakyNorm", "Unlimited", "Apart", "Kept"))
    assert from_json(to_json(agent)) == agent
    assert name_of(agent) == f"{name} network.head=Relu() observations=Limited(limit=5.0)"


@pytest.mark.parametrize("setting", ["merge=Bounded(Sum, {})", "observations=Limited({})"])
@pytest.mark.parametrize("value", ["0", "-1", "1e999"])
def test_a_bound_that_is_none_is_refused(setting, value):
    with pytest.raises(BadSetting, match=r"(Bounded.norm|Limited.limit) must be (> 0|a finite number), got"):
        tweak(agent_named("qrc"), setting.format(value))


@pytest.mark.parametrize(("part", "name"), [(Bounded, "norm"), (Limited, "limit")])
def test_a_bound_that_is_not_a_number_is_refused(part, name):
    with pytest.raises(BadSetting, match=f"{name} must be a finite number, got nan"):
        part(**{name: float("nan")})


def test_the_network_may_be_given_in_one_setting():
    network = tweak(agent_named("qrc"), "network=Conv((8,), ((3, 3),), ((1, 1),), 64)").network
    assert network == Conv((8,), ((3, 3),), ((1, 1),), 64)
