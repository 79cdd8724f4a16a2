"""What a user meant by a word that is nearly right."""

from __future__ import annotations

import subprocess

import pytest

from headrace.cli.main import _number, main
from tests.cli.test_cli import refused, said
from tests.small_runs import Command

TRAIN = ("train", "qrc", "minatar/breakout")


@pytest.mark.parametrize(
    ("env", "meant"),
    [
        ("CartPole-v1", "did you mean 'gym/CartPole-v1'?"),
        ("ALE/Pong-v5", "did you mean 'atari/pong'?"),
        ("SpaceInvadersNoFrameskip-v4", "did you mean 'atari/space_invaders'?"),
        ("MinAtar/SpaceInvaders-v1", "did you mean 'minatar/space_invaders'?"),
        ("minatar/*", "`headrace sweep VARIANT 'minatar/*'` trains on them all"),
        ("breakout", "did you mean 'minatar/breakout' or 'atari/breakout'?"),
        ("Brekout", "did you mean 'minatar/breakout' or 'atari/breakout'?"),
        ("space-invaders", "did you mean 'minatar/space_invaders' or 'atari/space_invaders'?"),
        ("pong", "did you mean 'atari/pong' or 'octax/pong'?"),
    ],
)
def test_an_environment_of_another_name(capsys: pytest.CaptureFixture[str], env: str, meant: str) -> None:
    assert meant in said(capsys, "train", "qrc", env, status=1)


def test_names_that_are_not_alike_are_not_suggested(capsys: pytest.CaptureFixture[str]) -> None:
    assert "did you mean" not in said(capsys, "train", "qrc", "gym/MyImg-v0", status=1)


def test_a_command_of_another_name(capsys: pytest.CaptureFixture[str]) -> None:
    error = refused(capsys, "trian", "qrc", "minatar/breakout")
    assert error.startswith("headrace: unknown command 'trian'; did you mean 'train'? Known: bench, ")
    assert error.count("\n") == 1


@pytest.mark.parametrize("words", [("--lr", "3e-4"), ("--lr=3e-4",), ("lr=3e-4",)])
def test_a_setting_without_its_place(capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    assert "did you mean --set td.lr=3e-4 or --set aux.lr=3e-4?" in refused(capsys, *TRAIN, *words)
    assert "did you mean --set env.sticky=0?" in refused(capsys, *TRAIN, "--sticky", "0")


def test_a_list_as_words_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    error = refused(capsys, "sweep", "strq", "qrc", "minatar/breakout", "--steps", "2k")
    assert "cannot make sense of: minatar/breakout; a list is one word: strq,qrc minatar/breakout;" in error


def test_an_option_that_is_nearly_right(capsys: pytest.CaptureFixture[str]) -> None:
    assert "cannot make sense of: --stpes 2k; did you mean --steps?" in refused(capsys, *TRAIN, "--stpes", "2k")
    assert "did you mean --json?" in refused(capsys, "show", "runs", "--jsn")


def test_a_setting_of_a_part_within(capsys: pytest.CaptureFixture[str]) -> None:
    assert "unknown setting of Agent 'lr'; did you mean 'td.lr'?" in said(capsys, *TRAIN, "--set", "lr=1", status=1)


def test_a_part_that_does_not_exist_lists_those_that_fit_its_slot(capsys: pytest.CaptureFixture[str]) -> None:
    error = said(capsys, *TRAIN, "--set", "network=Foo()", status=1)
    assert "network: unknown part 'Foo'. Known: BySuite, Conv, Mlp." in error


@pytest.mark.parametrize(
    ("text", "number"), [("20k", 20_000), ("1.5M", 1_500_000), ("2G", 2e9), ("5e6", 5e6), ("30", 30), ("1.1k", 1100)]
)
def test_numbers_may_have_a_unit(text: str, number: float) -> None:
    assert _number(text) == number


def test_every_name_has_a_line_on_it(capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(capsys, "variants").splitlines()
    (mine,) = (line for line in lines if line.split()[:1] == ["qrc+spr+orth"])
    assert mine.endswith("285,936  and orth; what the paper recommends")
    assert all(len(line) < 120 for line in lines)
    assert "breakout        sees 10x10x4    3 actions  keep the ball" in said(capsys, "envs", "minatar/*")
    assert "--set env.sticky=0.1" in said(capsys, "envs", "minatar/breakout")


def test_a_shell_completes_commands_options_and_names(capsys: pytest.CaptureFixture[str]) -> None:
    script = said(capsys, "completion", "bash")
    ask = "_headrace; printf '%s\\n' \"${COMPREPLY[@]}\""
    for typed, number, wanted in (
        ("headrace tra", 1, "train"),
        ("headrace train qrc+sp", 2, "qrc+spr+orth"),
        ("headrace train qrc minatar/br", 3, "minatar/breakout"),
        ("headrace train qrc minatar/breakout --che", 4, "--checkpoint-every"),
        ("headrace train qrc minatar/breakout --engine le", 5, "learner"),
        ("headrace tune strq mina", 3, "minatar/freeway"),
        ("headrace play zoo/cart", 2, "zoo/cartpole"),
    ):
        words = f"COMP_WORDS=({typed}); COMP_CWORD={number}"
        done = subprocess.run(["bash", "-c", f"{script}\n{words}; {ask}"], capture_output=True, text=True, check=True)
        assert wanted in done.stdout.split(), (typed, done.stderr)
    assert "-l engine -x -a 'learner " in said(capsys, "completion", "fish")
    assert "bashcompinit" in said(capsys, "completion", "zsh")
    assert "unknown shell 'tcsh'" in said(capsys, "completion", "tcsh", status=1)


def test_a_terminal_without_the_letters_is_no_error(command: Command) -> None:
    done = command("show", "runs/ü", within="export PYTHONIOENCODING=ascii")
    assert (done.returncode, done.stdout) == (1, "")
    assert "runs/\\xfc does not exist" in done.stderr


def test_nothing_stands_in_the_way_of_a_closed_output(command: Command) -> None:
    done = command("variants", within="exec >&-")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_number_that_is_none_is_refused() -> None:
    with pytest.raises(SystemExit):
        main([*TRAIN, "--steps", "k"])
