"""The command line as a user types it, mistakes included."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.cli.main import main
from headrace.errors import HeadraceError
from headrace.runs.folder import RunFolder
from headrace.training.single import Trained
from tests.small_runs import Command, StopAt, checkpoint_steps, contents, only_run, small_train, small_words

TRAIN = ("train", "qrc", "minatar/breakout")


def said(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> str:
    """What a command prints; nothing goes to standard error unless it fails."""
    capsys.readouterr()
    assert main(words) == status
    out, err = capsys.readouterr()
    if status == 0:
        assert err == ""
        return out
    assert out == ""
    assert err.startswith("headrace: ")
    assert err.count("\n") == 1
    return err


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What is said of words that cannot even be read."""
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    return capsys.readouterr().err


# Training


def test_train_is_quiet_where_nobody_looks_and_says_how_it_ended(
    command: Command, finished_compiled: Trained, tmp_path: Path
) -> None:
    words = small_words(tmp_path, "--json", "--checkpoint-every", "1e3")
    done = command(*words)
    path = tmp_path / finished_compiled.path.name
    assert (done.returncode, done.stderr) == (0, "")
    assert finished_compiled.score is not None
    wanted = {
        "path": str(path),
        "status": "finished",
        "steps_done": 3000,
        "score": finished_compiled.score.mean,
        "score_points": 3,
        "did_nothing": False,
    }
    assert json.loads(done.stdout) == wanted
    assert checkpoint_steps(path) == [2000, 3000]

    before = contents(tmp_path)
    again = command(*words)
    assert (again.returncode, again.stderr) == (0, "")
    assert json.loads(again.stdout) == {**wanted, "did_nothing": True}
    assert contents(tmp_path) == before


def test_a_finished_run_run_again_says_so(capsys: pytest.CaptureFixture[str], finished_compiled: Trained) -> None:
    text = said(capsys, *small_words(finished_compiled.path.parent))
    assert text.startswith(f"already finished, nothing to do: {finished_compiled.path}  score ")


def test_a_second_process_on_a_run_is_refused(command: Command, finished_compiled: Trained, tmp_path: Path) -> None:
    identity = RunFolder.read(finished_compiled.path).identity
    with RunFolder.open(tmp_path / finished_compiled.path.name, identity, {}):
        second = command(*small_words(tmp_path))
    assert second.returncode == 1
    assert "is training the run in" in second.stderr
    assert second.stdout == ""


def test_a_diverged_run_is_named_and_so_it_is_when_run_again(command: Command, tmp_path: Path) -> None:
    words = small_words(tmp_path, "--set", "td.lr=1e6", "--checkpoint-every", "1")
    first, second = command(*words), command(*words)
    assert first.returncode == second.returncode == 1
    assert first.stderr == second.stderr
    assert "headrace: the agent diverged: " in first.stderr
    assert " is no longer finite at step " in first.stderr
    assert first.stdout == ""


def test_a_run_that_diverged_before_it_was_saved_is_told_as_it_is(
    capsys: pytest.CaptureFixture[str], programs: Path, tmp_path: Path
) -> None:
    words = small_words(tmp_path, "--set", "td.lr=1e6", "--quiet")
    first, second = (said(capsys, *words, status=1) for _ in range(2))
    path = only_run(tmp_path)
    where = RunFolder.read(path).manifest["diverged"]
    cause = f"{where['quantity']} was no longer finite at step {where['step']:,}"
    assert checkpoint_steps(path) == []
    assert first == second
    assert "It left no good checkpoint; a smaller learning rate" in first
    assert f"status    diverged\ncause     {cause}\n" in said(capsys, "show", str(path))
    assert json.loads(said(capsys, "show", str(path), "--json"))["cause"] == cause
    none = f"headrace: {path} has no checkpoint that can be used: the agent diverged before one was saved ({cause})\n"
    assert said(capsys, "eval", str(path), status=1) == none


# Looking at things


def test_show(capsys: pytest.CaptureFixture[str], finished: Trained) -> None:
    before = contents(finished.path)
    found = json.loads(said(capsys, "show", str(finished.path), "--json"))
    assert found["manifest"] == RunFolder.read(finished.path).manifest
    assert found["steps_done"] == found["steps"] == 3000
    assert finished.score is not None
    assert found["score"] == finished.score.mean
    assert found["digest"] == found["manifest"]["digest"]
    assert len(bytes.fromhex(found["digest"])) == 32
    assert found["episodes"] == len(RunFolder.read(finished.path).episodes()["step"])
    text = said(capsys, "show", str(finished.path))
    assert "steps     3,000 of 3,000 (100%)" in text
    assert re.search(r"\nspeed     [\d,]+ steps/s, [\d,]+ s in all\n", text)
    assert " (return of 100 episodes, mean of the last 3 log points)\n" in text
    assert "\nsettings  Agent(td=Qrc(lr=0.0001, gamma=0.99," in text
    assert "\nmean return of the last 100 episodes\n" in text
    assert "█" in text
    assert f"digest    {found['digest']}" in text
    assert contents(finished.path) == before


def test_show_of_a_young_run(capsys: pytest.CaptureFixture[str], finished_compiled: Trained, tmp_path: Path) -> None:
    RunFolder.open(tmp_path / "young", RunFolder.read(finished_compiled.path).identity, {}).close()
    found = json.loads(said(capsys, "show", str(tmp_path / "young"), "--json"))
    assert (found["steps_done"], found["score"], found["digest"]) == (0, None, None)
    assert "steps     0 of 3,000 (0%)" in said(capsys, "show", str(tmp_path / "young"))


def test_show_tells_why_a_run_failed(
    capsys: pytest.CaptureFixture[str], finished_compiled: Trained, tmp_path: Path
) -> None:
    folder = RunFolder.open(tmp_path / "fallen", RunFolder.read(finished_compiled.path).identity, {})
    folder.set_status("failed", cause="RuntimeError: the moon is full")
    folder.close()
    text = said(capsys, "show", str(tmp_path / "fallen"))
    assert "status    failed\ncause     RuntimeError: the moon is full\n" in text


def test_show_tells_that_a_run_is_no_longer_exact(
    capsys: pytest.CaptureFixture[str], finished_compiled: Trained, tmp_path: Path
) -> None:
    assert "\nexact " not in said(capsys, "show", str(finished_compiled.path))
    with RunFolder.open(tmp_path / "torn", RunFolder.read(finished_compiled.path).identity, {}) as folder:
        for step in (400, 200, 300):  # from 200 on what was at 400 no longer counts
            folder.record_break(step, "gym/Robot failed")
    text = said(capsys, "show", str(tmp_path / "torn"))
    where = "gym/Robot failed, and a new episode was begun after step 300 (so it was at 1 earlier step)"
    assert f"\nexact     no: {where}\n" in text
    assert json.loads(said(capsys, "show", str(tmp_path / "torn"), "--json"))["why_not_exact"] == where


def test_show_passes_over_a_damaged_checkpoint(
    capsys: pytest.CaptureFixture[str], programs: Path, tmp_path: Path
) -> None:
    path = small_train(tmp_path, progress=StopAt(300), checkpoint_every=100).path
    good, bad = checkpoint_steps(path)
    (path / "checkpoints" / f"step-{bad:012d}.safetensors").write_bytes(b"nonsense")
    found = json.loads(said(capsys, "show", str(path), "--json"))
    assert found["steps_done"] == good
    assert f"step-{bad:012d}" in found["notices"][0]
    assert "note      checkpoint step-" in said(capsys, "show", str(path))


def test_variants(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(said(capsys, "variants", "--json"))
    nine = "dqn dqn+spr strq strq+spr strq+spr+orth strq+spr+orth2 qrc qrc+spr qrc+spr+orth"
    assert [v["name"] for v in found if v["kind"] == "variant"] == nine.split()
    assert {"name", "kind", "about", "parameters", "expression", "agent"} == found[0].keys()
    text = said(capsys, "variants")
    assert all(v["name"] in text for v in found)


def test_envs(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(said(capsys, "envs", "minatar/*", "--json"))
    assert {e["name"]: (e["observation"], len(e["actions"])) for e in found} == {
        "minatar/asterix": ([10, 10, 4], 5),
        "minatar/breakout": ([10, 10, 4], 3),
        "minatar/freeway": ([10, 10, 7], 3),
        "minatar/seaquest": ([10, 10, 10], 6),
        "minatar/space_invaders": ([10, 10, 6], 4),
    }
    everything = said(capsys, "envs")
    for words in ("minatar/*", "space_invaders", "wizard_of_wor", "worm", "ends", "atari26/*", "gym/ID"):
        assert words in everything
    assert all(e["observation"] is None for e in json.loads(said(capsys, "envs", "--json")) if "atari" in e["name"][:5])


def test_eval_and_play(capsys: pytest.CaptureFixture[str], finished: Trained, tmp_path: Path) -> None:
    words = ("eval", str(finished.path), "--episodes", "4", "--epsilon", "1", "--max-steps", "200")
    found = json.loads(said(capsys, *words, "--json"))
    assert found == json.loads(said(capsys, *words, "--json"))
    assert len(found["returns"]) == found["episodes"] == 4
    assert found["mean"] == pytest.approx(sum(found["returns"]) / 4)
    assert (found["step"], found["epsilon"]) == (3000, 1.0)
    assert "over 4 episodes" in said(capsys, *words)

    out = tmp_path / "x.gif"
    played = json.loads(said(capsys, "play", str(finished.path), "--out", str(out), "--max-steps", "3", "--json"))
    assert played == {"out": str(out), "return": played["return"], "length": 3, "step": 3000}
    assert out.read_bytes().startswith(b"GIF89a")


def test_play_without_a_place_writes_beside_the_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, finished_compiled: Trained, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    run = shutil.copytree(finished_compiled.path, tmp_path / "run")
    words = ("play", str(run), "--max-steps", "3", "--json")
    assert json.loads(said(capsys, *words))["out"] == str(run / "episode_at_3000.gif")
    assert "needs the program ffmpeg" in said(capsys, *words, "--out", "x.mp4", status=1)

    ffmpeg = tmp_path / "ffmpeg"  # it is given as many bytes as three pictures have
    ffmpeg.write_text(
        f"#!{sys.executable}\nimport sys\nopen(sys.argv[-1], 'w').write(str(len(sys.stdin.buffer.read())))\n"
    )
    ffmpeg.chmod(0o755)
    assert json.loads(said(capsys, *words))["out"] == str(run / "episode_at_3000.mp4")
    assert (run / "episode_at_3000.mp4").read_text() == str(3 * 160 * 160 * 3)


def test_show_tells_what_was_changed_since_a_run_finished(
    capsys: pytest.CaptureFixture[str], finished_compiled: Trained, tmp_path: Path
) -> None:
    run = shutil.copytree(finished_compiled.path, tmp_path / "run")
    os.truncate(run / "metrics.csv", 400)
    assert "\ndamaged   it was changed after it finished (metrics.csv has 400 bytes" in said(capsys, "show", str(run))
    found = json.loads(said(capsys, "show", str(run), "--json"))
    assert "metrics.csv has 400 bytes" in found["damage"]
    assert found["score"] is None
    with pytest.raises(HeadraceError, match="is damaged: it was changed after it finished"):
        RunFolder.read(run).score()
    (run / "metrics.csv").write_text("what is this\n1,2\n")
    assert "\nnote      " in said(capsys, "show", str(run))


def test_an_old_runs_digest_tells_of_other_episodes(
    capsys: pytest.CaptureFixture[str], finished_compiled: Trained, tmp_path: Path
) -> None:
    run = shutil.copytree(finished_compiled.path, tmp_path / "run")
    facts = json.loads((run / "manifest.json").read_text())
    facts.pop("tables", None)
    (run / "manifest.json").write_text(json.dumps(facts))
    assert "note" not in said(capsys, "show", str(run))
    lines = (run / "episodes.csv").read_text().splitlines(keepends=True)
    (run / "episodes.csv").write_text("".join(lines[:-1]))
    assert "its digest is not the one with which it finished" in said(capsys, "show", str(run))


# Mistakes


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("train", "qrc+spr+ort", "minatar/breakout"), "unknown variant 'qrc+spr+ort'; did you mean 'qrc+spr+orth'?"),
        (
            ("train", "qrc", "minatar/brekout"),
            "unknown environment 'minatar/brekout'; did you mean 'minatar/breakout'?",
        ),
        ((*TRAIN, "--set", "td.lamda_=0.5"), "did you mean 'lamda'?"),
        ((*TRAIN, "--set", "td.lr=-1"), "got -1"),
        ((*TRAIN, "--set", "td.lr"), "a setting has the form path.to.field=value, got 'td.lr'"),
        ((*TRAIN, "--set", "env.sticky=2"), "got 2"),
        ((*TRAIN, "--set", "network=Conv((4,),((30,30),),((1,1),),8)"), "too small for Conv"),
        ((*TRAIN, "--seed", "-1"), "seed must be a whole number from 0 to 2,147,483,647, got -1"),
        ((*TRAIN, "--seed", "1.5"), "got 1.5"),
        ((*TRAIN, "--steps", "0"), "steps must be a whole number from 1"),
        ((*TRAIN, "--steps", "inf"), "got inf"),
        ((*TRAIN, "--checkpoint-every", "0"), "checkpoint_every must be a whole number from 1"),
        ((*TRAIN, "--checkpoint-every", "inf"), "got inf"),
        ((*TRAIN, "--form", "hosted"), "unknown form 'hosted'; did you mean 'host'?"),
        ((*TRAIN, "--engine", "lerner"), "unknown engine 'lerner'; did you mean 'learner'?"),
        ((*TRAIN, "--engine", "learner", "--form", "compiled"), "the learner steps environments of the host"),
        ((*TRAIN, "--sink", "tensorbord"), "unknown sink 'tensorbord'; did you mean 'tensorboard'?"),
    ],
)
def test_a_mistake_is_named_and_nothing_is_written(
    words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert message in said(capsys, *words, "--out", str(tmp_path / "runs"), status=1)
    assert not list(tmp_path.iterdir())


def test_words_that_are_no_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert "must be a number such as 30, 20k or 5e6, got '5x'" in refused(capsys, *TRAIN, "--steps", "5x")
    assert "got 'x'" in refused(capsys, "eval", "run", "--episodes", "x")
    assert "COMMAND" in refused(capsys)


def test_a_word_too_many_is_told_by_its_command_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    error = refused(capsys, "eval", "runs/a", "runs/b")
    assert error == "headrace eval: cannot make sense of: runs/b; `headrace eval --help` lists its options\n"
    assert refused(capsys, "--loud", "variants").startswith("headrace: cannot make sense of: --loud; ")


@pytest.mark.parametrize(
    ("named", "remedy"),
    [
        ("mine.py", "takes a module's name, not a file's, got 'mine.py': give mine"),
        ("lib/mine.py", "got 'lib/mine.py': give mine, and start in lib or put it on PYTHONPATH"),
    ],
)
def test_a_file_where_a_module_is_wanted(capsys: pytest.CaptureFixture[str], named: str, remedy: str) -> None:
    assert remedy in said(capsys, *TRAIN, "--import", named, status=1)


def test_a_file_in_the_way(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("mine")
    assert "cannot write" in said(capsys, *TRAIN, "--out", str(tmp_path / "runs"), status=1)
    assert (tmp_path / "runs").read_text() == "mine"
    assert "cannot write /proc/none" in said(capsys, *TRAIN, "--out", "/proc/none", status=1)
    assert "File name too long" in said(capsys, *TRAIN, "--out", str(tmp_path / ("long" * 100)), status=1)


def test_a_folder_of_another_run(
    capsys: pytest.CaptureFixture[str], finished_compiled: Trained, tmp_path: Path
) -> None:
    path = tmp_path / finished_compiled.path.name
    other = {**RunFolder.read(finished_compiled.path).identity, "seed": 5}
    RunFolder.open(path, other, {}).close()
    before = contents(path)
    error = said(capsys, *small_words(tmp_path), status=1)
    assert "belongs to another run: seed: the folder has 5, this run has 0" in error
    assert contents(path) == before


@pytest.mark.parametrize("words", [("show",), ("eval",), ("play",)])
def test_what_is_no_run(words: tuple[str, ...], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    name, *rest = words
    assert "does not exist" in said(capsys, name, str(tmp_path / "none"), *rest, status=1)
    assert "is not a run" in said(capsys, name, str(tmp_path), *rest, status=1)


def test_a_video_of_an_unknown_kind(capsys: pytest.CaptureFixture[str], finished_compiled: Trained) -> None:
    error = said(capsys, "play", str(finished_compiled.path), "--out", "x.avi", status=1)
    assert "must end in .mp4, .gif, .webp, .png, got 'x.avi'" in error


def test_ctrl_c_while_looking_at_something(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, finished_compiled: Trained
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("headrace.training.evaluation.evaluate", interrupt)
    assert main(["eval", str(finished_compiled.path)]) == 130
    assert capsys.readouterr().err == "\nheadrace: stopped\n"


# As a process


def test_help_names_every_command(command: Command) -> None:
    done = command("--help")
    assert (done.returncode, done.stderr) == (0, "")
    for word in ("train", "eval", "play", "show", "variants", "envs", "--version", "For example: headrace train"):
        assert word in done.stdout
    assert all(len(text) <= 80 for text in done.stdout.splitlines())
    assert command("--version").stdout.startswith("headrace 0.")


def test_a_reader_that_leaves_early_is_no_error(command: Command) -> None:
    line = f"'{sys.executable}' -m headrace variants --json | head -c 1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True, env=command.environment
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "[", "")


def test_looking_needs_no_jax(command: Command, finished_compiled: Trained) -> None:
    """`show` and `variants` answer at once: the framework is not loaded for them."""
    code = "import sys; from headrace.cli.main import main; main(sys.argv[1:]); assert 'jax' not in sys.modules"
    for words in (["show", str(finished_compiled.path)], ["variants"]):
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
