"""The command line. Each command is a thin reading of words into a call of the library."""

from __future__ import annotations

import argparse
import difflib
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from headrace.agents import VARIANTS
from headrace.analysis import doctor, watch
from headrace.cli import bench, completion, export, latents, names, report, reproduce, show, sweep, tune, zoo
from headrace.cli.interrupts import INTERRUPTED, stopped
from headrace.cli.output import notify, put
from headrace.engines.jax.programs import reuse_compiled_programs
from headrace.envs.gym import IMPORTS, require_module_name
from headrace.envs.registry import FAMILIES
from headrace.errors import NEAR, HeadraceError, counted, unknown
from headrace.part import number_of, paths
from headrace.runs.manifest import machine_facts
from headrace.training.sinks import SINKS


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    try:
        _name_imports(arguments)
        status = arguments.command(arguments)
        sys.stdout.flush()
        return status
    except HeadraceError as error:
        print(f"headrace: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return stopped()
    except BrokenPipeError:  # the reader of our output has gone, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # a folder that may not be read, a name too long for the system
        print(f"headrace: {error}", file=sys.stderr)
        return 1


def status_of(ended: SystemExit) -> int:
    """The exit status, once all output has been written."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(ended.code, str):
        print(ended.code, file=sys.stderr)
        return 1
    return ended.code or 0


def _name_imports(words: argparse.Namespace) -> None:
    """Modules to import before a Gymnasium environment is made, here and in every process that is started."""
    if named := getattr(words, "imports", []):
        for name in named:
            require_module_name(name)
        os.environ[IMPORTS] = ",".join(named)


def _number(text: str) -> float:
    try:
        return number_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


class _Parser(argparse.ArgumentParser):
    """Reports a mistake in one line, under the name of the command."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        self._require_command(sys.argv[1:] if args is None else args)
        found, more = super().parse_known_args(args, namespace)
        if more:
            runs = [word for word in more if os.path.isfile(os.path.join(word, "manifest.json"))]
            hint = ": it takes one run at a time" if runs == more else self._listed(found, more) or self._meant(more)
            self.error(f"cannot make sense of: {' '.join(more)}{hint}")
        return found, more

    def _require_command(self, words: Sequence[str]) -> None:
        """An error that names the nearest command, where there are commands and the first word is none."""
        known = [name for action in self._subparsers_of() for name in action.choices]
        if known and words and not words[0].startswith("-") and words[0] not in known:
            self.error(str(unknown("command", words[0], known)).rstrip("."))

    def _subparsers_of(self) -> list[Any]:
        return [action for action in self._actions if isinstance(action, argparse._SubParsersAction)]

    def options(self) -> dict[str, list[str]]:
        """The options of every command, by its name."""
        return {
            name: sorted(word for word in parser._option_string_actions if word.startswith("--"))
            for action in self._subparsers_of()
            for name, parser in action.choices.items()
        }

    def _listed(self, found: argparse.Namespace, more: Sequence[str]) -> str:
        """How a list is written, where its members were given as words of their own."""
        words = [*(str(getattr(found, name, None) or "") for name in ("plan", "envs")), *more]
        if not all(words) or any(word.startswith("-") or "=" in word for word in words):
            return ""
        agents, envs = ([w for w in words if ("/" in w) == is_env] for is_env in (False, True))
        return f"; a list is one word: {','.join(agents)} {','.join(envs)}" if agents and envs else ""

    def _meant(self, more: Sequence[str]) -> str:
        """How a setting is written, where a word has a setting's name (--lr 3e-4, lr=3e-4), or the nearest option."""
        found = re.fullmatch(r"(-{0,2})([a-z][\w.-]*)(?:=(.*))?", more[0])
        if not found:
            return ""
        value = found[3] or next(iter(more[1:]), "VALUE")
        settings = _settings_named(found[2]) if "--set" in self._option_string_actions else []
        meant = [f"--set {path}={value}" for path in settings]
        if not meant and found[1]:
            options = [option for option in self._option_string_actions if option.startswith("--")]
            meant = difflib.get_close_matches(f"--{found[2]}", options, n=1, cutoff=NEAR)
        return f"; did you mean {' or '.join(meant)}?" if meant else ""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; `{self.prog} --help` lists its options\n")


def _settings_named(name: str) -> list[str]:
    """The settings of the paper's agents and of environments whose path ends in this name."""
    found = [path for agent in VARIANTS.values() for path in paths(agent)]
    found += [f"env.{path}" for family in FAMILIES.values() for path in paths(family.rules)]
    return [path for path in dict.fromkeys(found) if path == name or path.endswith(f".{name}")]


def _parser() -> _Parser:
    parser = _Parser(
        prog="headrace",
        description="Streaming deep reinforcement learning with online representation learning.",
        epilog="For example: headrace train qrc+spr+orth minatar/breakout --steps 5e6, then headrace show runs/NAME. "
        "The same command again continues a run that was stopped. `headrace COMMAND --help` says more.",
    )
    parser.add_argument("--version", action="version", version=f"headrace {machine_facts()['headrace']}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _train_words(_command(commands, "train", _train, "train an agent, or continue where it stopped"))
    _add(commands, sweep, tune)
    _eval_words(_command(commands, "eval", _evaluate, "play episodes with a run's agent, learning nothing"))
    _play_words(_command(commands, "play", _play, "write a video of an episode"))
    _add(commands, export, show, doctor, latents, report, watch, reproduce)
    bench.add_words(_bare_command(commands, "bench", bench.run, bench.ABOUT), _number)
    _command(commands, "variants", names.show_variants, "the agents that have a name")
    names.add_env_words(_command(commands, "envs", names.show_envs, "the environments that have a name"))
    _command(commands, "zoo", zoo.run, zoo.ABOUT)
    complete = completion.command(parser.options)
    completion.add_words(_bare_command(commands, "completion", complete, completion.ABOUT))
    return parser


def _add(commands: Any, *modules: Any) -> None:
    """A command for each module, named like it."""
    for module in modules:
        name = module.__name__.rpartition(".")[2]
        module.add_words(_command(commands, name, module.run, module.ABOUT), _number)


def _bare_command(commands: Any, name: str, call: Callable[[argparse.Namespace], int], about: str) -> Any:
    parser = commands.add_parser(name, help=about, description=about)
    parser.set_defaults(command=call)
    return parser


def _command(commands: Any, name: str, call: Callable[[argparse.Namespace], int], about: str) -> Any:
    parser = _bare_command(commands, name, call, about)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument(
        "--import", dest="imports", action="append", default=[], metavar="MODULE",
        help="a module of yours that registers Gymnasium environments; may be given many times",
    )  # fmt: skip
    return parser


def _run_word(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run's folder, as `headrace train` names it")


def _train_words(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("variant", metavar="VARIANT", help="e.g. qrc+spr+orth; `headrace variants` lists them")
    parser.add_argument("env", metavar="ENVIRONMENT", help="e.g. minatar/breakout; `headrace envs` lists them")
    parser.add_argument("--seed", type=_number, default=0, help="seed of all random numbers (0)")
    parser.add_argument("--steps", type=_number, default=5e6, help="environment steps of the whole run, e.g. 20k (5M)")
    parser.add_argument(
        "--set", dest="settings", action="append", default=[], metavar="PATH=VALUE",
        help="change a setting, e.g. aux.objective.horizon=3 or env.sticky=0; may be given many times",
    )  # fmt: skip
    parser.add_argument("--out", default="runs", metavar="FOLDER", help="where run folders live (runs)")
    parser.add_argument("--engine", default="auto", help="learner, reference, or auto: the learner where it can")
    parser.add_argument(
        "--form", default="auto", help="of the environment: compiled, host, or auto: what the engine has"
    )
    parser.add_argument(
        "--sink", dest="sinks", action="append", default=[], metavar="NAME",
        help=f"also send metrics to {', '.join(SINKS)}",
    )  # fmt: skip
    parser.add_argument("--checkpoint-every", type=_number, metavar="STEPS", help="instead of once a minute")
    sweep.add_watch_words(parser, _number)
    parser.add_argument("--quiet", action="store_true", help="no progress line")


def _eval_words(parser: argparse.ArgumentParser) -> None:
    _run_word(parser)
    parser.add_argument("--episodes", type=_number, default=30, help="how many to play (30)")
    _policy_words(parser, 27_000)


def _play_words(parser: argparse.ArgumentParser) -> None:
    _run_word(parser)
    parser.add_argument(
        "--out", metavar="FILE", help="a .mp4, .gif, .webp or .png (beside the run; an .mp4 where ffmpeg is installed)"
    )
    _policy_words(parser, 1_000)


def _policy_words(parser: argparse.ArgumentParser, limit: int) -> None:
    parser.add_argument("--best", action="store_true", help="the checkpoint that --eval-every kept, not the newest")
    parser.add_argument("--epsilon", type=_number, default=0.01, help="share of random actions (0.01)")
    parser.add_argument("--seed", type=_number, default=1_000_000, help="of the episodes (1000000)")
    parser.add_argument("--max-steps", type=_number, default=limit, help=f"the most steps of one episode ({limit})")


def _train(words: argparse.Namespace) -> int:
    from headrace.training.callbacks import callbacks_of
    from headrace.training.progress import for_terminal
    from headrace.training.single import train

    reuse_compiled_programs()
    called = callbacks_of(words.callbacks)._asdict() if words.callbacks else {}
    done = train(
        words.variant, words.env, seed=words.seed, steps=words.steps, settings=words.settings, out=words.out,
        engine=words.engine, form=words.form, sinks=words.sinks,
        eval_every=words.eval_every, eval_episodes=words.eval_episodes, **called,
        checkpoint_every=words.checkpoint_every, progress=for_terminal(words.quiet),
    )  # fmt: skip
    result = {
        "path": str(done.path),
        "status": done.status,
        "steps_done": done.steps_done,
        "score": done.score.mean if done.score else None,
        "score_points": done.score.points if done.score else 0,
        "did_nothing": done.did_nothing,
    }
    put(words, result, _trained_text(result))
    return INTERRUPTED if done.status == "interrupted" else 0


def _trained_text(result: dict[str, Any]) -> str:
    score = f"score {show.score_text(result)}" if result["score_points"] else ""
    if result["did_nothing"]:
        return f"already finished, nothing to do: {result['path']}  {score}".rstrip()
    if result["status"] == "interrupted":
        return f"stopped at step {result['steps_done']:,} and saved; the same command continues: {result['path']}"
    return f"finished {result['steps_done']:,} steps: {result['path']}  {score}".rstrip()


def _evaluate(words: argparse.Namespace) -> int:
    from headrace.training.evaluation import evaluate

    reuse_compiled_programs()
    found = evaluate(
        words.run,
        episodes=words.episodes,
        epsilon=words.epsilon,
        seed=words.seed,
        max_steps=words.max_steps,
        best=words.best,
    )
    notify(found.notices)
    returns = found.returns
    result = {
        "run": words.run,
        "step": found.step,
        "epsilon": found.epsilon,
        "episodes": len(returns),
        "mean": float(returns.mean()),
        "std": float(returns.std()),
        "min": float(returns.min()),
        "max": float(returns.max()),
        "cut": found.cut,
        "returns": returns.tolist(),
        "notices": found.notices,
    }
    spread = "{mean:.4g} +- {std:.3g} over {played} (min {min:g}, max {max:g})"
    played = spread.format(**result, played=counted(len(returns), "episode"))
    cut = f"; stopped at the limit of steps: {counted(found.cut, 'episode')}" if found.cut else ""
    put(words, result, f"return {played} at step {found.step:,}, epsilon {found.epsilon:g}{cut}")
    return 0


def _play(words: argparse.Namespace) -> int:
    from headrace.training.evaluation import play

    reuse_compiled_programs()
    found = play(
        words.run, words.out, epsilon=words.epsilon, seed=words.seed, max_steps=words.max_steps, best=words.best
    )
    notify(found.notices)
    episode = found.episodes[0]
    result = {"out": str(found.out), "return": episode.episode_return, "length": episode.length, "step": found.step}
    put(words, result, f"{found.out}: return {episode.episode_return:g} in {episode.length:,} steps")
    return 0
