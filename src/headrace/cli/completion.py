"""The command `headrace completion`: what a shell needs to complete words of `headrace`."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from headrace.agents import KNOWN
from headrace.envs.registry import names
from headrace.errors import unknown
from headrace.runs import zoo
from headrace.training.sinks import SINKS

ABOUT = "words for a shell to complete, e.g. source <(headrace completion bash)"
SUITES = ("minatar", "octax", "atari")
RUNS = ("show", "eval", "play", "export", "doctor")  # commands that read runs, those of the zoo among them
PLACES = {  # what stands at the places behind a command
    **dict.fromkeys(("train", "sweep", "tune"), ("variant", "environment")),
    **dict.fromkeys(RUNS, ("run",)),
    "envs": ("environment",), "reproduce": ("suite",), "completion": ("shell",),
}  # fmt: skip
VALUES = {  # of options, in every command that has them
    "--engine": "learner reference auto both",
    "--form": "compiled host auto",
    "--on": "local fleet ray slurm core",
    "--to": "learner onnx c",
    "--sink": " ".join(SINKS),
    "--suite": " ".join(SUITES),
    "--variant": " ".join(KNOWN),
}

_BASH = """_headrace() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" words=""
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="{commands}"
    elif [[ "$word" == -* ]]; then
        case "${{COMP_WORDS[1]}}" in
{options}
        esac
    else
        case "${{COMP_WORDS[1]}} $COMP_CWORD" in
{places}
        esac
        case "${{COMP_WORDS[COMP_CWORD-1]}}" in
{values}
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    [ "${{#COMPREPLY[@]}}" -gt 0 ] || COMPREPLY=($(compgen -f -- "$word"))
}}
complete -o filenames -F _headrace headrace
"""


def add_words(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", metavar="SHELL", help="bash, zsh or fish")


def command(options: Callable[[], dict[str, list[str]]]) -> Callable[[argparse.Namespace], int]:
    """The command, for a program with these options by command."""

    def run(words: argparse.Namespace) -> int:
        if words.shell not in SHELLS:
            raise unknown("shell", words.shell, SHELLS)
        print(SHELLS[words.shell](options()), end="")
        return 0

    return run


def _words(kind: str) -> str:
    found = {"variant": KNOWN, "suite": SUITES, "shell": SHELLS, "run": [f"zoo/{name}" for name in zoo.names()]}
    return " ".join(found.get(kind) or names())


def _bash(options: dict[str, list[str]]) -> str:
    by_command = "\n".join(f'            {name}) words="{" ".join(found)}" ;;' for name, found in options.items())
    places = "\n".join(
        f'            "{name} {number}") words="{_words(kind)}" ;;'
        for name, kinds in PLACES.items()
        for number, kind in enumerate(kinds, start=2)
    )
    values = "\n".join(f'            {option}) words="{found}" ;;' for option, found in VALUES.items())
    return _BASH.format(commands=" ".join(options), options=by_command, places=places, values=values)


def _fish(options: dict[str, list[str]]) -> str:
    first = f"complete -c headrace -n __fish_use_subcommand -f -a '{' '.join(options)}'\n"
    lines = [first]
    for name, found in options.items():
        seen = f"-n '__fish_seen_subcommand_from {name}'"
        for option in found:
            values = f" -x -a '{VALUES[option]}'" if option in VALUES else ""
            lines.append(f"complete -c headrace {seen} -l {option.removeprefix('--')}{values}\n")
        lines += [f"complete -c headrace {seen} -a '{_words(kind)}'\n" for kind in PLACES.get(name, ())]
    return "".join(lines)


SHELLS = {
    "bash": _bash,
    "zsh": lambda options: f"autoload -U +X bashcompinit && bashcompinit\n{_bash(options)}",
    "fish": _fish,
}
