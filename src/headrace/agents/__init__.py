"""What an agent is: parts as values, no arithmetic, no framework."""

from headrace.agents.agent import Agent, EpsilonGreedy, Exploration, module_shapes, parameter_count
from headrace.agents.aux import (
    Always,
    Apart,
    AsIs,
    Augmentation,
    Auxiliary,
    AuxiliaryStream,
    Clipped,
    Curl,
    Episode,
    Every,
    Fading,
    Filter,
    Gate,
    Greedy,
    Grouping,
    History,
    Kept,
    LookBack,
    MeanOverHorizon,
    NoAuxiliary,
    Objective,
    Orth,
    Projected,
    ProjectionLayer,
    Raw,
    RawCurrent,
    Reduction,
    ReleasedRing,
    Rest,
    Separate,
    Shared,
    ShiftAndIntensity,
    Spr,
    SumOverHorizon,
    Together,
    Unfiltered,
)
from headrace.agents.guard import Clip, Guard, Unguarded
from headrace.agents.merge import (
    AuxOrthogonalToTd,
    Average,
    Bounded,
    Direction,
    Join,
    Merge,
    Mix,
    PcGrad,
    Present,
    SharedFlipped,
    Sum,
)
from headrace.agents.network import BySuite, Conv, Head, LeakyNorm, Mlp, Network, Relu, dense_shapes, fit
from headrace.agents.observations import Limited, Limits, Unlimited
from headrace.agents.td import Copy, Dqn, Latest, Memory, Online, Polyak, Qrc, Replay, Rule, StreamQ, Target
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
    "ABLATIONS", "KNOWN", "RECIPES", "UNGUARDED", "VARIANTS", "Agent", "Always", "Apart", "AsIs", "Augmentation",
    "AuxOrthogonalToTd", "Auxiliary", "AuxiliaryStream", "Average", "Bounded", "BySuite", "Clip", "Clipped", "Conv",
    "Copy", "Curl", "Direction", "Dqn", "Episode", "EpsilonGreedy", "Every", "Exploration", "Fading", "Filter", "Gate",
    "Greedy", "Grouping", "Guard", "Head", "History", "Join", "Kept", "Latest", "LeakyNorm", "Limited", "Limits",
    "LookBack", "MeanOverHorizon", "Memory", "Merge", "Mix", "Mlp", "Network", "NoAuxiliary", "Objective", "Online",
    "Orth", "Part", "PcGrad", "Polyak", "Present", "Projected", "ProjectionLayer", "Qrc", "Raw", "RawCurrent",
    "Reduction", "ReleasedRing", "Relu", "Replay", "Rest", "Rule", "Separate", "Shared", "SharedFlipped",
    "ShiftAndIntensity", "Spr", "StreamQ", "Sum", "SumOverHorizon", "Target", "Together", "Unfiltered", "Unguarded",
    "Unlimited", "agent_named", "agent_of", "dense_shapes", "fit", "from_json", "guards", "module_shapes", "name_of",
    "nearest_name", "parameter_count", "parse", "to_json", "tweak",
]  # fmt: skip
