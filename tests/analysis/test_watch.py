"""The live page: renewed while runs go on, for this machine alone, and blind to everything but the runs."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from headrace.analysis.report.parts import Memory
from headrace.analysis.report.run_cache import RunCache
from headrace.analysis.report.server import HOST, Server
from headrace.cli.main import main
from headrace.errors import HeadraceError
from headrace.training.run import make_run
from tests.analysis.report.opened import opened
from tests.analysis.synthetic import store, write_run

GAME = "minatar/breakout"
SECRET = "the secret of the mill"


@pytest.fixture
def runs(tmp_path):
    (tmp_path / "secret.txt").write_text(SECRET)
    out = store(tmp_path / "runs", ("qrc", "dqn"), (GAME,), range(2))
    (out / "secret-inside.txt").write_text(SECRET)
    return out


@pytest.fixture
def server(runs):
    with Server(runs, 0, every=0.2) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def ask(server, address, method="GET", headers=None):
    """(status, headers, body) of one request whose address is sent as it is."""
    connection = http.client.HTTPConnection(HOST, server.server_port, timeout=30)
    try:
        connection.putrequest(method, address, skip_host=True)
        for name, value in headers or [("Host", f"{HOST}:{server.server_port}")]:
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def append(run: Path, step: int, value: float) -> None:
    with (run / "metrics.csv").open("a") as table:
        columns = table.tell() and (run / "metrics.csv").read_text().split("\n", 1)[0].count(",")
        table.write(f"{step},{value}" + ",0.5" * (columns - 1) + "\n")


def test_it_serves_the_page_its_parts_and_a_digest(server):
    status, headers, page = ask(server, "/")
    assert status == 200
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert b"Learning curves" in page
    digest = json.loads(ask(server, "/digest.json")[2])
    for part in digest["parts"]:
        assert ask(server, f"/data/parts/{part}.js")[0] == 200
    for key in digest["changed"]:
        assert ask(server, f"/data/runs/{key}.js")[2].startswith(b"headracePart(")
    assert ask(server, "/tables/scores_minatar_5M_score.csv")[2].startswith(b"suite,steps,env,agent")


def test_head_has_the_headers_of_get_and_no_body(server):
    status, headers, body = ask(server, "/tables/cost.csv", "HEAD")
    assert (status, body) == (200, b"")
    assert int(headers["Content-Length"]) == len(ask(server, "/tables/cost.csv")[2])


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "BREW"])
def test_nothing_else_than_get_and_head_is_answered(server, method):
    assert ask(server, "/", method)[0] in (405, 501)


def test_the_policy_forbids_every_other_place(server):
    headers = ask(server, "/")[1]
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "Access-Control-Allow-Origin" not in headers
    assert ask(server, "/digest.json")[1]["Content-Security-Policy"].startswith("default-src 'none'; frame-ancestors")


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "0.0.0.0:{port}", ""]
)
def test_requests_for_another_host_are_refused(server, host):
    status, _, body = ask(server, "/", headers=[("Host", host.format(port=server.server_port))])
    assert status == 403
    assert b"Learning" not in body


def test_requests_without_a_host_or_with_two_are_refused(server):
    good = ("Host", f"{HOST}:{server.server_port}")
    assert ask(server, "/", headers=[("Accept", "*/*")])[0] == 403
    assert ask(server, "/", headers=[good, ("Host", "evil.example")])[0] == 403
    assert ask(server, "/", headers=[("Host", f"LocalHost:{server.server_port}")])[0] == 200


def test_requests_from_another_site_s_page_are_refused(server):
    good = ("Host", f"{HOST}:{server.server_port}")
    own = f"http://{HOST}:{server.server_port}"
    assert ask(server, "/digest.json", headers=[good, ("Origin", "http://evil.example")])[0] == 403
    assert ask(server, "/digest.json", headers=[good, ("Origin", "null")])[0] == 403
    assert ask(server, "/digest.json", headers=[good, ("Sec-Fetch-Site", "cross-site")])[0] == 403
    assert ask(server, "/digest.json", headers=[good, ("Origin", own), ("Sec-Fetch-Site", "same-origin")])[0] == 200


@pytest.mark.parametrize(
    "address",
    [
        "/../secret.txt",
        "/../../../../../../etc/passwd",
        "/%2e%2e/secret.txt",
        "/%2e%2e%2fsecret.txt",
        "/..%2fsecret.txt",
        "/%252e%252e/secret.txt",
        "/..\\secret.txt",
        "/data/runs/../../../secret.txt",
        "/data/runs/%2e%2e/%2e%2e/%2e%2e/secret.txt",
        "/tables/../../secret.txt",
        "/figures//etc/passwd",
        "//etc/passwd",
        "/secret-inside.txt",
        "/manifest.json",
        "/%00",
        "/etc/passwd%00.html",
        "/videos/../secret.gif",
        "/index.html/../../secret.txt",
        "/link/secret.txt",
        "//[/",
    ],
)
def test_no_address_leads_to_a_file_of_the_disk(server, runs, address):
    os.symlink(runs.parent, runs / "link")
    status, _, body = ask(server, address)
    assert status in (400, 404)
    assert SECRET.encode() not in body
    assert b"root:" not in body


def test_a_link_out_of_the_folder_is_not_read(runs, tmp_path):
    run = next(runs.glob("qrc_*seed0*"))
    outside = tmp_path / "outside.csv"
    shutil.move(run / "metrics.csv", outside)
    os.symlink(outside, run / "metrics.csv")
    found = RunCache(runs).look()
    assert [problem.path for problem in found.problems] == [run]
    assert "link that leads out" in found.problems[0].why
    assert run not in [record.path for record in found.records]


def test_a_link_that_appears_later_is_not_read_either(runs, tmp_path):
    cache = RunCache(runs)
    assert len(cache.look().records) == 4
    run = next(runs.glob("qrc_*seed0*"))
    shutil.move(run / "metrics.csv", tmp_path / "outside.csv")
    os.symlink(tmp_path / "outside.csv", run / "metrics.csv")
    append(run, 6_000_000, 1.0)
    assert len(cache.look().records) == 3


def test_only_what_has_changed_is_read_and_made_again(server, runs):
    live = server.live
    before = live.site()
    done = live.cache.reads, live.memory.made
    time.sleep(0.15)
    assert live.site() is not before  # it has looked again
    assert (live.cache.reads, live.memory.made) == done
    going = write_run(runs, make_run("qrc", GAME, seed=9, steps=5e6), 3.0, status="running", share=0.2)
    time.sleep(0.15)
    live.site()
    reads, made, versions = (
        live.cache.reads,
        live.memory.made,
        {part.id: body.version for part, body in live.site().parts},
    )
    append(going, 1_100_000, 2.5)
    time.sleep(0.15)
    fresh = {part.id: body.version for part, body in live.site().parts}
    assert live.cache.reads - reads == 1
    changed = {name for name in fresh if fresh[name] != versions[name]}
    assert changed == {"overview", "curves-minatar_5M"}
    assert live.memory.made - made == 3  # and the representation, which came out the same


def test_a_new_run_and_a_dead_one_are_seen(runs):
    cache = RunCache(runs)
    assert len(cache.look().records) == 4
    write_run(runs, make_run("strq", GAME, steps=5e6), 3.0)
    assert len(cache.look().records) == 5
    shutil.rmtree(next(runs.glob("dqn_*seed1*")))
    assert len(cache.look().records) == 4
    shutil.rmtree(runs)
    with pytest.raises(HeadraceError, match="does not exist"):
        cache.look()


def test_a_killed_process_is_seen_although_no_file_changes(runs):
    import fcntl

    run = write_run(runs, make_run("strq", GAME, steps=5e6), 3.0, status="running", share=0.3)
    with (run / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        cache = RunCache(runs)
        assert [r.state for r in cache.look().records if r.agent == "strq"] == ["running"]
    assert [r.state for r in cache.look().records if r.agent == "strq"] == ["interrupted"]


def test_a_folder_without_runs_yet_is_served_and_filled(tmp_path):
    (tmp_path / "runs").mkdir()
    with Server(tmp_path / "runs", 0, every=0.2) as made:
        assert b"There is no run in" in made.live.file("index.html")()
        store(tmp_path / "runs", ("qrc",), (GAME,), range(1))
        time.sleep(0.15)
        assert b"Learning curves" in made.live.file("index.html")()


def test_a_part_is_kept_while_its_inputs_are_the_same():
    from headrace.analysis.report.html import Html
    from headrace.analysis.report.parts import Body, Section

    memory, made = Memory(), []
    for inputs in (1, 1, 2, 2, 1):
        memory.body(Section("a", "A", inputs, lambda: made.append(1) or Body(Html(""))))
    assert len(made) == memory.made == 3


LOSSES = """() => {
    const sign = document.querySelector(".live");
    window.lost = 0;
    new MutationObserver(() => { window.lost += sign.classList.contains("lost"); }).observe(sign, {attributes: true});
}"""


def test_a_page_in_a_browser_renews_itself_and_keeps_its_switches(server, runs, browser):
    going = write_run(runs, make_run("qrc", GAME, seed=9, steps=5e6), 3.0, status="running", share=0.2)
    with opened(browser, server.address) as found:
        page = found.page
        page.locator(".chip", has_text="dqn").click()
        page.evaluate("window.kept = 1")
        page.evaluate(LOSSES)
        page.fill("#runs input", "seed9")
        assert "1M of 5M" in page.inner_text("#runs tbody")
        append(going, 2_000_000, 2.5)
        found.wait_until("document.querySelector('#runs tbody').innerText.includes('2M of 5M')")
        assert page.evaluate("window.kept") == 1  # the page was not loaded anew
        assert page.get_attribute(".chip >> text=dqn", "aria-pressed") == "false"
        assert page.input_value("#runs input") == "seed9"
        page.locator("#runs tbody a").click()
        page.wait_for_selector("#run .chart svg")
        append(going, 3_000_000, 2.5)
        found.wait_until("document.querySelector('#run .facts').innerText.includes('3,000,000 of')")
        assert page.evaluate("window.lost") == 0
        page.get_by_role("link", name="all runs").click()
        page.locator("[data-draw]").click()
        page.wait_for_selector("#figures img", timeout=60_000)
        write_run(runs, make_run("strq", GAME, steps=5e6), 3.0)  # a new agent: the page is loaded anew by itself
        found.wait_until("window.kept === undefined && document.querySelectorAll('.chip').length === 3")


def test_a_port_that_is_taken_is_named(runs, capsys):
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["watch", str(runs), "--port", str(port)]) == 1
    assert f"port {port} of 127.0.0.1 is in use" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere"], "nowhere does not exist"),
        (["{runs}", "--port", "99999"], "port must be a whole number from 0 to 65,535"),
        (["{runs}", "--every", "0"], "--every must be from 0.2 to 3600"),
    ],
)
def test_bad_words_get_a_sentence(runs, words, said, capsys):
    assert main(["watch", *(word.format(runs=runs) for word in words)]) == 1
    assert said in capsys.readouterr().err


def test_an_error_is_told_unless_the_connection_is_closed(capsys):
    server, (ours, theirs) = object.__new__(Server), socket.socketpair()
    with ours, theirs:
        for _ in range(2):
            try:
                raise OSError("told while the connection is open")
            except OSError:
                server.handle_error(ours, (HOST, 1))
            ours.close()
    assert capsys.readouterr().err.count("OSError: told while the connection is open") == 1


def test_ctrl_c_ends_it_cleanly(runs):
    words = [sys.executable, "-m", "headrace", "watch", str(runs), "--port", "0", "--json"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, **pipes) as process:
        address = json.loads(process.stdout.readline())["address"]
        try:
            with socket.create_connection((HOST, int(address.rstrip("/").rpartition(":")[2]))):  # a reader is connected
                process.send_signal(signal.SIGINT)
                _, err = process.communicate(timeout=60)
        finally:
            process.kill()  # one that does not listen must not hold up the tests
    assert process.returncode == 0
    assert err == ""


def test_a_request_that_drips_is_hung_up_on(monkeypatch, server):
    monkeypatch.setattr("headrace.analysis.report.server.PATIENCE", 0.3)
    deadline = time.monotonic() + 60
    with socket.create_connection((HOST, server.server_port)) as dripping:
        dripping.settimeout(0.05)
        dripping.sendall(b"GET / HTTP/1.1\r\nX: ")
        closed = False
        while not closed:
            assert time.monotonic() < deadline, "the server listened on and on"
            try:
                dripping.sendall(b"x")
                closed = dripping.recv(1) == b""
            except TimeoutError:
                continue
            except ConnectionError:
                closed = True
    assert ask(server, "/digest.json")[0] == 200
