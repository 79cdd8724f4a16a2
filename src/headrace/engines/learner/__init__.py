"""The C learner as an engine."""
