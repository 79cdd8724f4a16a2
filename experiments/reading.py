"""Which reading of the paper? Its text leaves some things open; 1M steps of MinAtar, three seeds, one function each.

    headrace sweep experiments/reading.py --on fleet               all of them
    headrace sweep experiments/reading.py::weight --on fleet       one

Every function holds the default reading too, so that each can be judged by itself; a run is in the plan once. What the
questions and answers are, and how they are judged: `headrace.reproduce.readings`.
"""

from headrace.reproduce.readings import QUESTIONS, question
from headrace.training.run import Run


def history() -> list[Run]:
    return question("history").runs()


def augmentation() -> list[Run]:
    return question("augmentation").runs()


def reduction() -> list[Run]:
    return question("reduction").runs()


def period() -> list[Run]:
    return question("period").runs()


def weight() -> list[Run]:
    return question("weight").runs()


def projection() -> list[Run]:
    return question("projection").runs()


def released() -> list[Run]:
    return question("released").runs()


def learning_rate() -> list[Run]:
    return question("learning_rate").runs()


def merging() -> list[Run]:
    return question("merging").runs()


def plan() -> list[Run]:
    return list(dict.fromkeys(run for asked in QUESTIONS for run in asked.runs()))
