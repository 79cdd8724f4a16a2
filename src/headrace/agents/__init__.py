"""What an agent is: parts as values, no arithmetic, no framework."""

from headrace.agents.agent import Agent, EpsilonGreedy, module_shapes, parameter_count
from headrace.agents.aux import (
    Always,
    Apart,
    AsIs,
    Auxiliary,
    Clipped,
    Curl,
    Episode,
    Every,
    Fading,
    Greedy,
    Kept,
    MeanOverHorizon,
    NoAuxiliary,
    Orth,
    Projected,
    Raw,
    RawCurrent,
    ReleasedRing,
    Separate,
    Shared,
    ShiftAndIntensity,
    Spr,
    SumOverHorizon,
    Together,
    Unfiltered,
)
from headrace.agents.guard import Clip, Unguarded
from headrace.agents.merge import AuxOrthogonalToTd, Average, Bounded, Mix, PcGrad, Present, SharedFlipped, Sum
from headrace.agents.network import BySuite, Conv, LeakyNorm, Mlp, Relu, fit
from headrace.agents.observations import Limited, Unlimited
from headrace.agents.td import Copy, Dqn, Latest, Online, Polyak, Qrc, Replay, StreamQ
from headrace.agents.variants import (
    ABLATIONS,
    KNOWN,
    RECIPES,
    UNGUARDED,
    VARIANTS,
    agent_named,
    agent_of,
    guards,
    name_of,
    nearest_name,
)
from headrace.part import Part, from_json, parse, to_json, tweak

__all__ = [
    "ABLATIONS", "KNOWN", "RECIPES", "UNGUARDED", "VARIANTS", "Agent", "Always", "Apart", "AsIs", "AuxOrthogonalToTd",
    "Auxiliary", "Average", "Bounded", "BySuite", "Clip", "Clipped", "Conv", "Copy", "Curl", "Dqn", "Episode",
    "EpsilonGreedy", "Every", "Fading", "Greedy", "Kept", "Latest", "LeakyNorm", "Limited", "MeanOverHorizon", "Mix",
    "Mlp", "NoAuxiliary", "Online", "Orth", "Part", "PcGrad", "Polyak", "Present", "Projected", "Qrc", "Raw",
    "RawCurrent", "ReleasedRing", "Relu", "Replay", "Separate", "Shared", "SharedFlipped", "ShiftAndIntensity", "Spr",
    "StreamQ", "Sum", "SumOverHorizon", "Together", "Unfiltered", "Unguarded", "Unlimited", "agent_named", "agent_of",
    "fit", "from_json", "guards", "module_shapes", "name_of", "nearest_name", "parameter_count", "parse", "to_json",
    "tweak",
]  # fmt: skip
