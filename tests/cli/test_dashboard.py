"""`evenflow dashboard`: what it refuses, the address that it prints, and how it ends."""

import json
import os
import signal
import subprocess
import sys
import urllib.request

import pytest

from evenflow.cli import dashboard, demo
from evenflow.cli.app import main
from recorded_batches import write_checkpoint

pytest.importorskip("fastapi")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "there is nothing to show"),
        (["x", "--group", "clicks:sessions"], "--group needs --bootstrap"),
        (["x", "--group", "clicks", "--bootstrap", "b:1"], "--group takes TOPIC:GROUP"),
        (["--fleet", "/nowhere/fleet.toml"], "fleet.toml"),
        (["x", "--idle", "0"], "--idle"),
        (["x", "--port", "99999"], "a port is a number from 0 to 65535"),
        (["x", "--host", "no.such.host.invalid"], "cannot listen on no.such.host.invalid"),
        (["ftp://host/x"], "ftp"),
    ],
)
def test_a_wrong_call_is_refused_in_one_line(arguments, reason, capsys):
    assert main(["dashboard", *arguments]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert reason in said
    assert len(said.splitlines()) == 1


def test_a_short_token_is_refused(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv(dashboard.TOKEN, "guess")
    assert main(["dashboard", str(tmp_path)]) == 2
    assert "a token needs at least 16" in capsys.readouterr().err


def test_names_come_before_locations():
    sources = dashboard.sources_of(["hits=/a/b", "/data/day=3", "s3://bucket/x=1"], [])
    assert [one.name for one in sources.queries] == ["hits", "day=3", "x=1"]


@pytest.mark.slow
def test_the_printed_address_opens_the_page_until_ctrl_c(tmp_path):
    write_checkpoint(tmp_path / "hits", 3, 4)
    command = [sys.executable, "-m", "evenflow.cli", "dashboard", str(tmp_path / "hits")]
    process = subprocess.Popen(
        [*command, "--port", "0", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        text = ""
        while not text.rstrip().endswith("}"):
            text += process.stdout.readline()
        found = json.loads(text)
        assert found["host"] == "127.0.0.1"
        assert len(found["token"]) >= 43
        with urllib.request.urlopen(found["url"], timeout=20) as answer:
            assert b"<!doctype html>" in answer.read()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=20)
        assert process.returncode in (0, 130)
        assert "Traceback" not in said
        assert found["token"] not in said
    finally:
        process.kill()


@pytest.mark.slow
def test_the_page_of_a_demo_that_nobody_looks_at_ends_by_itself(tmp_path, monkeypatch, capsys):
    write_checkpoint(tmp_path / "run", 2, 3)
    monkeypatch.setattr(demo, "_IDLE", 3)
    demo.serve_runs([f"auto={tmp_path / 'run'}"])
    lines = capsys.readouterr().out.splitlines()
    url = lines[0].removeprefix("The page is at ")
    with urllib.request.urlopen(url, timeout=20) as answer:
        assert answer.status == 200
    number = int(lines[1].rpartition(" ")[2].rstrip("."))
    assert os.waitpid(number, 0)[1] == 0
