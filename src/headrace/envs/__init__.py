"""Environments: what they say, how they are named, and the games themselves."""

from headrace.envs.base import CompiledEnv, EnvSpec, HostEnv, TimeStep
from headrace.envs.registry import Environment, environment, make, names

__all__ = ["CompiledEnv", "EnvSpec", "Environment", "HostEnv", "TimeStep", "environment", "make", "names"]
