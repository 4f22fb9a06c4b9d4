"""The command line: answers, exit codes, and one clear line for every mistake."""

import json
import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evenflow import __version__
from evenflow.cli import terminal
from evenflow.cli.app import main
from evenflow.grouping import schemes

pytestmark = pytest.mark.slow

SMALL = ["--workers", "5", "--keys", "100", "--messages", "50000"]


@pytest.fixture
def run(capsys):
    def run(*arguments):
        code = main([str(a) for a in arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def files(tmp_path):
    pq.write_table(
        pa.table({"page": ["a", "b", "a"] * 100, "user": range(300)}), tmp_path / "ok.parquet"
    )
    (tmp_path / "empty.csv").touch()
    (tmp_path / "wrong.csv").write_bytes((tmp_path / "ok.parquet").read_bytes())
    (tmp_path / "wrong.parquet").write_text("page\na\n")
    (tmp_path / "evil.csv").write_text('page,"[red]x[/red]\x1b[31m"\na,b\n')
    return tmp_path


def strict_json(text):
    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def python(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )


# --- answers -------------------------------------------------------------------------------------


def test_schemes_lists_everything_that_is_discovered(run):
    code, out, _ = run("schemes", "--json")
    listed = strict_json(out)
    assert code == 0
    assert [scheme["name"] for scheme in listed] == list(schemes())
    for scheme in listed:
        assert scheme["summary"].endswith(".")
        assert isinstance(scheme["splits_keys"], bool)
        assert isinstance(scheme["parameters"], dict)
    code, out, _ = run("schemes")
    assert code == 0
    assert all(name in out for name in schemes())


@pytest.mark.parametrize("name", schemes())
def test_simulate_gives_one_object_for_one_scheme(run, name):
    code, out, err = run(
        "simulate", "--grouping", name, *SMALL, "--sources", 2, "--zipf", 2.0, "--seed", 1, "--json"
    )
    answer = strict_json(out)
    assert (code, err) == (0, "")
    expected = {
        "grouping": name,
        "workers": 5,
        "sources": 2,
        "messages": 50_000,
        "zipf": 2.0,
        "drift": None,
        "seed": 1,
    }
    assert {key: answer[key] for key in expected} == expected
    assert answer["imbalance"] == pytest.approx(answer["max_load"] - 1 / 5)
    assert answer["replication"] == pytest.approx(answer["replicas"] / answer["keys"])
    assert answer["worst_sliding_window"] >= answer["worst_window"] >= 1.0
    assert answer["ns_per_message"] > 0
    assert answer["imbalance_mean"] >= 0
    assert not {"loads", "timeline"} & answer.keys()


def test_simulate_gives_a_list_for_all_and_for_several(run):
    code, out, _ = run("simulate", "--grouping", "all", *SMALL, "--json")
    assert code == 0
    assert sorted(answer["grouping"] for answer in strict_json(out)) == sorted(schemes())
    code, out, _ = run("simulate", "-g", "key", "-g", "shuffle", *SMALL, "--json")
    assert [answer["grouping"] for answer in strict_json(out)] == ["key", "shuffle"]


def test_simulate_shows_loads_and_timeline_on_demand(run):
    _, out, _ = run(
        "simulate", "-g", "key", *SMALL, "--loads", "--timeline", "--drift", 9, "--json"
    )
    answer = strict_json(out)
    assert sum(answer["loads"]) == 50_000
    assert [t for t, _ in answer["timeline"]] == [20_000, 40_000, 50_000]
    assert answer["drift"] == 9


def test_simulate_prints_a_table_without_json(run):
    code, out, err = run("simulate", "-g", "key", *SMALL)
    assert code == 0
    assert "key" in out
    assert "replication" in out
    assert "\x1b" not in out + err


def test_simulate_takes_weights_where_the_scheme_does_and_says_which_do_not(run):
    code, out, err = run("simulate", "-g", "all", "--weights", "1,1,4", *SMALL[2:], "--json")
    weighted = [name for name, scheme in schemes().items() if scheme.weighted]
    if not weighted:
        assert code == 2
        return
    answers = strict_json(out)
    assert code == 0
    assert sorted(a["grouping"] for a in answers if "error" not in a) == weighted
    assert sorted(a["grouping"] for a in answers if "error" in a) == [
        name for name in schemes() if name not in weighted
    ]
    assert all(a["workers"] == 3 for a in answers if "error" not in a)
    assert "left out: key" in err


def test_simulate_reads_a_column_of_a_file(run, files):
    code, out, _ = run(
        "simulate", "-g", "key", "--input", files / "ok.parquet", "--key", "page", "--json"
    )
    answer = strict_json(out)
    assert code == 0
    assert (answer["messages"], answer["keys"]) == (300, 2)
    assert answer["input"] == str(files / "ok.parquet")
    assert answer["worst_window"] is None
    _, out, _ = run(
        "simulate", "-g", "key", "--input", files / "ok.parquet",
        "--key", "page", "--key", "user", "--messages", 10, "--json",
    )  # fmt: skip
    assert (strict_json(out)["messages"], strict_json(out)["keys"]) == (10, 10)


def test_bench_kernels_measures_every_scheme(run):
    code, out, _ = run("bench", "kernels", "--messages", 2_000, "--rounds", 1, "--json")
    answer = strict_json(out)
    assert code == 0
    assert sorted([*answer["schemes"], *answer["not_started"]]) == sorted(schemes())
    assert "untimed" in answer["how"]
    code, out, _ = run("bench", "kernels", "--messages", 2_000, "--rounds", 1)
    assert code == 0
    assert "MB/s" in out


def test_compare_shows_every_scheme_and_draws(run, tmp_path):
    code, out, _ = run("compare", "--out", tmp_path / "a" / "b", "--messages", 60_000, "--json")
    answer = strict_json(out)
    assert code == 0
    shown = [result["grouping"] for result in answer["results"]]
    assert sorted([*shown, *answer["left_out"]]) == sorted(schemes())
    assert (tmp_path / "a" / "b" / "compare.png").read_bytes().startswith(b"\x89PNG")
    code, out, _ = run("compare", "--out", tmp_path, "--messages", 60_000)
    assert code == 0
    assert all(name in out for name in shown)
    assert str(tmp_path / "compare.png") in out.replace("\n", "")


def test_version_and_help(run):
    assert run("--version") == (0, f"evenflow {__version__}\n", "")
    for arguments in (["--help"], ["simulate", "--help"], ["bench", "kernels", "-h"]):
        code, out, _ = run(*arguments)
        assert code == 0
        assert "Usage: evenflow" in out


# --- mistakes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("--workers 0", "got 0 workers"),
        ("--workers -3", "got -3 workers"),
        ("--workers 99999999999", "at most 1000000"),
        ("--workers two", "--workers"),
        ("--sources 0", "got 0 sources"),
        ("--sources -1", "got -1 sources"),
        ("--sources 1000000000", "workers × sources"),
        ("--messages 0", "messages must be at least 1, got 0"),
        ("--messages -5", "messages must be at least 1, got -5"),
        ("--keys 0", "keys must lie in 1..100000000, got 0"),
        ("--zipf nan", "exponent must be a finite number of at least 0, got nan"),
        ("--zipf inf", "got inf"),
        ("--zipf -1", "got -1"),
        ("--drift 0", "drift must be at least 1 message, got 0"),
        ("--grouping nonsense", "no grouping scheme is called 'nonsense'"),
        ("--grouping shufle", "did you mean 'shuffle'?"),
        ("--grouping greedy-d:d=0", "got 0"),
        ("--grouping greedy-d:d=nan", "nan"),
        ("--grouping greedy-d:d", "expected parameter=value"),
        ("--grouping greedy-d:d=x", "must be a number, got 'x'"),
        ("--grouping key:d=3", "has no parameter 'd'"),
        ("--grouping random-choices:epsilon=-1", "epsilon"),
        ("--grouping random-choices:epsilon=nan", "epsilon"),
        ("--weights 1,x", "--weights takes numbers"),
        ("--weights 1,2 --workers 3", "2 weights for 3 workers"),
        ("--weights 1,nan", "weights must be finite and above 0"),
        ("--weights 1,-1", "weights must be finite and above 0"),
        ("--grouping key --weights 1,2", "cannot follow weights"),
        ("--key page", "give the file with --input"),
        ("--input {files}/ok.parquet", "needs --key"),
        ("--input {files}/ok.parquet --key pgae", "did you mean 'page'?"),
        ("--input {files}/ok.parquet --key page --zipf 2", "--zipf 2.0 describes a synthetic"),
        ("--input {files}/ok.parquet --key page --drift 2", "--drift 2 describes a synthetic"),
        ("--input {files}/ok.parquet --key page --messages 0", "messages must be at least 1"),
        ("--input {files}/missing.parquet --key page", "there is no file"),
        ("--input {files}/nothing --key page", "there is no file"),
        ("--input {files}/empty.csv --key page", "is empty"),
        ("--input {files}/wrong.csv --key page", "is not CSV, as its name says"),
        ("--input {files}/wrong.parquet --key page", "is not Parquet, as its name says"),
        ("--no-such-option", "No such option"),
        ("surplus", "unexpected extra argument"),
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_bad_input_is_one_line_and_exit_code_2(run, files, arguments, complaint, as_json):
    # Cases that name no scheme get one, so that nothing else is complained about.
    words = arguments.format(files=files).split()
    if "--grouping" not in words and "--weights" not in words:
        words += ["--grouping", "key"]
    code, out, err = run("simulate", *words, *(["--json"] if as_json else []))
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert complaint in err


@pytest.mark.parametrize("parameters", ["epsilon=-1", "epsilon=nan"])
@pytest.mark.parametrize("name", schemes())
def test_no_scheme_takes_a_bad_epsilon(run, name, parameters):
    code, out, err = run("simulate", "--grouping", f"{name}:{parameters}", *SMALL)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["bench", "kernels", "--messages", "0"],
        ["bench", "kernels", "--rounds", "0"],
        ["compare", "--messages", "0"],
        ["compare", "--messages", "many"],
        ["nonsense"],
        ["bench", "nonsense"],
        ["schemes", "surplus"],
    ],
)
def test_other_commands_refuse_in_one_line_too(run, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("arguments", [[], ["bench"]])
def test_no_command_prints_the_help_and_exit_code_2(run, arguments):
    code, out, _ = run(*arguments)
    assert code == 2
    assert "Usage: evenflow" in out


def test_compare_refuses_a_folder_that_cannot_be_written_before_it_works(
    run, tmp_path, monkeypatch
):
    monkeypatch.setattr("evenflow.simulator.simulate", None)
    occupied = tmp_path / "file"
    occupied.touch()
    for folder in (occupied, occupied / "below"):
        code, out, err = run("compare", "--out", folder)
        assert (code, out) == (2, "")
        assert "cannot be created" in err
    monkeypatch.setattr("os.access", lambda _, mode: mode == os.R_OK)
    code, out, err = run("compare", "--out", tmp_path)
    assert (code, out) == (2, "")
    assert "is not writable" in err


def test_interruption_is_exit_code_130_without_a_trace(run, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("evenflow.simulator.simulate", interrupt)
    code, out, err = run("simulate", "-g", "key", *SMALL, "--json")
    assert (code, out, err) == (130, "", "")


def test_a_bug_keeps_its_trace(run, monkeypatch):
    def fail(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr("evenflow.simulator.simulate", fail)
    with pytest.raises(ZeroDivisionError):
        run("simulate", "-g", "key", *SMALL)


# --- what is shown -------------------------------------------------------------------------------


def test_hostile_names_stay_text(run, files):
    code, _, err = run("simulate", "-g", "key", "--input", files / "evil.csv", "--key", "zzz")
    assert code == 2
    assert "[red]x[/red]" in err
    assert "\x1b" not in err
    code, out, err = run(
        "simulate", "-g", "key", "--input", files / "evil.csv", "--key", "[red]x[/red]\x1b[31m"
    )
    assert code == 0
    assert "[red]x[/red]" in out
    assert "\x1b" not in out + err
    code, _, err = run("simulate", "--grouping", "\x1b]0;title\x07[bold]")
    assert code == 2
    assert "[bold]" in err
    assert not {"\x1b", "\x07"} & set(err)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain [b]", "plain [b]"),
        ("a\nb\tc", "a\\nb\\tc"),
        ("\x1b[31m\x9b", "\\x1b[31m\\x9b"),
        ("\u202eevil", "\\u202eevil"),
        ("\udcff", "\\udcff"),
        ("größe", "größe"),
    ],
)
def test_safe_text_cannot_steer_a_terminal(text, shown):
    assert terminal.safe(text) == shown


def test_progress_is_a_bar_on_a_terminal_and_lines_elsewhere(monkeypatch, capsys):
    with terminal.progress("work") as report:
        for done in range(3):
            report("first", done, 3)
        report("second\x1b", 0, None)
    assert capsys.readouterr() == ("", "work: first\nwork: second\\x1b\n")
    with terminal.progress("work", quiet=True) as report:
        report("first", 1, 3)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with terminal.progress("work") as report:
        report("[red]first[/red]", 3, 3)
    out, err = capsys.readouterr()
    assert out == ""
    assert "work: [red]first[/red]" in err


def test_json_refuses_what_is_not_json():
    with pytest.raises(ValueError, match="not JSON compliant"):
        terminal.print_json({"x": float("nan")})


# --- what is imported ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        "import evenflow",
        "from evenflow.cli.app import main; assert main(['--help']) == 0",
        "from evenflow.cli.app import main; assert main(['simulate', '--help']) == 0",
    ],
)
def test_heavy_packages_are_not_imported_before_they_are_needed(code):
    heavy = "{'numba', 'pyspark', 'numpy', 'pyarrow', 'matplotlib'}"
    done = python(
        f"{code}\nimport sys\nloaded = {heavy} & sys.modules.keys()\nassert not loaded, loaded"
    )
    assert done.returncode == 0, done.stderr


def test_the_installed_command_reports_bad_input_without_a_trace():
    done = python(
        "import sys; sys.argv = ['evenflow', 'simulate', '--workers', '0']\n"
        "from evenflow.cli.app import main; sys.exit(main())"
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: got 0 workers; a whole number of at least 1 is needed\n"


def test_closing_the_pipe_early_is_no_crash():
    script = "from evenflow.cli.app import main; main(['schemes', '--json'])"
    done = subprocess.run(
        f'{sys.executable} -c "{script}" | head -c 1',
        shell=True,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "["
    assert "Traceback" not in done.stderr


def test_compare_without_matplotlib_shows_its_table_and_says_how_to_get_a_picture(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("evenflow.report.find_spec", lambda name: None)
    assert main(["compare", "--messages", "20000", "--out", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "d-choices" in shown
    assert "evenflow[report]" in shown.replace("\n", " ")
