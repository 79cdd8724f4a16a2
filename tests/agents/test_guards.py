"""Guards of agents: how long a gradient may be by default, and the names of agents without any."""

from __future__ import annotations

import pytest

from headrace.agents import Clip, agent_named, from_json, guards, name_of, to_json
from headrace.errors import UnknownName
from headrace.part import differences


@pytest.mark.parametrize("name", ["dqn", "qrc", "dqn+spr", "strq+spr", "qrc+spr+orth"])
def test_every_guard_lets_a_norm_of_a_hundred_pass(name):
    agent = agent_named(name)
    found = {path: getattr(agent, path.split(".")[0]).guard for path in guards(agent)}
    assert found == dict.fromkeys(found, Clip(100.0))


@pytest.mark.parametrize(
    ("name", "unguarded"),
    [
        ("qrc+unguarded", ["td.guard"]),
        ("qrc+spr+orth+unguarded", ["td.guard", "aux.guard"]),
        ("strq+spr+unguarded", ["aux.guard"]),
    ],
)
def test_an_agent_can_be_had_without_its_guards(name, unguarded):
    agent, guarded = agent_named(name), agent_named(name.removesuffix("+unguarded"))
    assert differences(agent, guarded) == [f"{path}=Unguarded()" for path in unguarded]
    assert guards(guarded) == unguarded
    assert name_of(agent) == name


def test_an_agent_that_has_no_guard_is_not_named_unguarded():
    assert guards(agent_named("strq")) == []
    with pytest.raises(UnknownName, match=r"strq\+unguarded"):
        agent_named("strq+unguarded")


@pytest.mark.parametrize("name", ["qrc", "qrc+spr+orth", "dqn+spr"])
def test_what_was_written_before_there_were_guards_had_none(name):
    old = to_json(agent_named(name))
    for part in (old["td"], old["aux"]):
        part.pop("guard", None)
    assert from_json(old) == agent_named(f"{name}+unguarded")
