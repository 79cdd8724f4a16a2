"""What an agent is: parts as values, no arithmetic, no framework."""

from headrace.agents.agent import Agent, EpsilonGreedy, module_shapes, parameter_count
from headrace.agents.aux import (
    Always,
    AsIs,
    Auxiliary,
    Clipped,
    Curl,
    Episode,
    Every,
    Greedy,
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
    Unfiltered,
)
from headrace.agents.guard import Clip, Unguarded
from headrace.agents.merge import AuxOrthogonalToTd, Average, Mix, PcGrad, Present, SharedFlipped, Sum
from headrace.agents.network import BySuite, Conv, Mlp, fit
from headrace.agents.td import Copy, Dqn, Latest, Online, Polyak, Qrc, Replay, StreamQ
from headrace.agents.variants import (
    ABLATIONS,
    KNOWN,
    RECIPES,
    UNGUARDED,
    VARIANTS,
    agent_named,
    guards,
    name_of,
    nearest_name,
)
from headrace.part import Part, from_json, parse, to_json, tweak

__all__ = [
    "ABLATIONS", "KNOWN", "RECIPES", "UNGUARDED", "VARIANTS", "Agent", "Always", "AsIs", "AuxOrthogonalToTd",
    "Auxiliary", "Average", "BySuite", "Clip", "Clipped", "Conv", "Copy", "Curl", "Dqn", "Episode", "EpsilonGreedy",
    "Every", "Greedy", "Latest", "MeanOverHorizon", "Mix", "Mlp", "NoAuxiliary", "Online", "Orth", "Part", "PcGrad",
    "Polyak", "Present", "Projected", "Qrc", "Raw", "RawCurrent", "ReleasedRing", "Replay", "Separate", "Shared",
    "SharedFlipped", "ShiftAndIntensity", "Spr", "StreamQ", "Sum", "SumOverHorizon", "Unfiltered", "Unguarded",
    "agent_named", "fit", "from_json", "guards", "module_shapes", "name_of", "nearest_name", "parameter_count",
    "parse", "to_json", "tweak",
]  # fmt: skip
