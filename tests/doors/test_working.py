"""`brain worker` and `brain job`: what is done behind the calls, from the command line."""

import json
import re
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from commonbrain.api.operations import load_operations
from commonbrain.jobs.registry import JOBS
from commonbrain.runtime.bootstrap import open_brain
from tests.processes import PATIENCE_S, clean_environment, command

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def brain(path: Path) -> Run:
    """Run `brain` as a process of its own on the test's store."""
    environment = clean_environment(COLUMNS="200")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command(path, *arguments),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            env=environment,
            check=False,
        )

    return run


def test_jobs_are_asked_for_worked_off_and_shown(brain: Run) -> None:
    asked = json.loads(brain("job", "run", "atomize", "--arg", "project=tea", "--json").stdout)
    id_ = asked["jobs"][0]["id"]
    assert f"{id_} | atomize | queued" in brain("job", "list").stdout

    worked = brain("worker", "--once", "--concurrency", "2")
    assert f"{id_}  atomize  done  Read 0 memories and found 0 atoms." in worked.stdout
    assert worked.returncode == 0
    shown = json.loads(brain("job", "show", id_, "--json").stdout)["jobs"][0]
    assert (shown["state"], shown["given"]) == ("done", {"project": "tea"})
    assert "jobs: 2 done" in brain("status").stdout

    again = brain("job", "retry", id_)
    assert again.returncode != 0
    assert "job_over" in again.stderr


def test_who_waits_for_a_job_has_it_done_where_nobody_else_works(brain: Run) -> None:
    given = ("--arg", "kinds=fact", "--arg", "kinds=rule", "--arg", "project=3")
    waited = brain("job", "run", "atomize", *given, "--wait", "--json")

    (job,) = json.loads(waited.stdout)["jobs"]
    assert (job["state"], job["result"]) == ("done", {"read": 0, "atoms": 0, "rejected": 0})
    assert job["given"] == {"kinds": ["fact", "rule"], "project": "3"}
    one = json.loads(brain("job", "run", "atomize", "--arg", "kinds=fact", "--json").stdout)
    assert one["jobs"][0]["given"] == {"kinds": ["fact"]}


def test_what_happens_is_told_to_programs_line_by_line(brain: Run) -> None:
    worked = brain("worker", "--once", "--kinds", "maintain", "--json")

    lines = [json.loads(line) for line in worked.stdout.splitlines()]
    first, *between, last = lines
    assert (first["event"], {one["event"] for one in between}) == ("taken", {"moved"})
    assert (last["event"], set(last["result"].values())) == ("done", {0})
    assert (last["kind"], last["attempt"], last["tenant"]) == (
        "maintain", 1, "default",
    )  # fmt: skip


@pytest.mark.parametrize(
    "arguments",
    [
        ("worker", "--kinds", "fly"),
        ("worker", "--concurrency", "0"),
        ("job", "run", "fly"),
        ("job", "run", "atomize", "--arg", "project"),
        ("job", "run", "atomize", "--arg", "pot=3", "--wait"),
        ("job", "list", "--state", "odd"),
        ("job", "show", "job_0000000000000"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_next_step(brain: Run, arguments: list[str]) -> None:
    refused = brain(*arguments)

    assert refused.returncode not in {0, 1}
    assert len(refused.stderr.strip().splitlines()) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="signals and pipes that can be waited for")
def test_a_worker_that_is_told_to_stop_ends_well(path: Path) -> None:
    line = command(path, "worker", "--kinds", "maintain", "--json")
    with subprocess.Popen(line, stdout=subprocess.PIPE, env=clean_environment()) as process:
        assert process.stdout is not None
        readable, _, _ = select.select([process.stdout], [], [], PATIENCE_S)
        assert readable, "It says nothing."
        assert json.loads(process.stdout.readline())["event"] == "taken"
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate(timeout=PATIENCE_S)

    assert process.returncode == 0
    assert json.loads(rest.splitlines()[-1])["event"] in {"done", "given_back"}
    with open_brain(path) as brain:
        (job,) = brain.jobs().jobs
        assert (job.state, job.attempts) in {("done", 1), ("queued", 0)}


def test_agents_and_people_are_told_of_every_kind_that_they_may_ask_for() -> None:
    (job,) = [one for one in load_operations() if one.name == "job"]
    (run,) = [one for one in job.commands if one.name == "job run"]

    told = re.sub(r"\(.*?\)", "", str(job.request.model_fields["kind"].description)).split(", ")
    assert told == [name for name, kind in JOBS.items() if kind.asked_by is None]
    assert ", ".join(JOBS) in run.purpose
