from __future__ import annotations

import pytest

from headrace.agents import (
    KNOWN,
    VARIANTS,
    AuxOrthogonalToTd,
    Conv,
    NoAuxiliary,
    Raw,
    Sum,
    agent_named,
    name_of,
    parse,
    tweak,
)
from headrace.errors import UnknownName
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


def test_the_released_preset_has_the_four_errors_and_keeps_the_rest():
    released = agent_named("released")
    mended = tweak(
        released,
        "merge=Sum",
        "aux.objective.window=Episode",
        "aux.objective.reduce=SumOverHorizon",
        "aux.gate=Always",
        "aux.objective.augment=ShiftAndIntensity",
    )
    assert mended == agent_named("qrc+spr+orth")


def test_the_network_may_be_given_in_one_setting():
    network = tweak(agent_named("qrc"), "network=Conv((8,), ((3, 3),), ((1, 1),), 64)").network
    assert network == Conv((8,), ((3, 3),), ((1, 1),), 64)
