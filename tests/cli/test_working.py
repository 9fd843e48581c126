"""`brain worker` and `brain job`: what is done in the background, from the command line."""

import json
import re
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from commonbrain.api.operations import load_operations
from commonbrain.jobs.registry import JOBS
from commonbrain.runtime.bootstrap import open_brain
from tests.in_process import Finished, run_brain
from tests.laid_out_stores import lay_out_store
from tests.processes import TIMEOUT_S, clean_environment, command

Run = Callable[..., Finished]


@pytest.fixture
def brain(path: Path) -> Run:
    """Run `brain` on the test's store."""
    lay_out_store(path)
    return partial(run_brain, "--store", str(path), COLUMNS="200")


def test_jobs_are_queued_run_and_shown(brain: Run) -> None:
    queued = json.loads(brain("job", "run", "atomize", "--arg", "project=tea", "--json").out)
    id_ = queued["jobs"][0]["id"]
    assert f"{id_} | atomize | queued" in brain("job", "list").out

    worked = brain("worker", "--once", "--concurrency", "2")
    assert f"{id_}  atomize  done  Read 0 memories and found 0 atoms." in worked.out
    assert worked.status == 0
    shown = json.loads(brain("job", "show", id_, "--json").out)["jobs"][0]
    assert (shown["state"], shown["given"]) == ("done", {"project": "tea"})
    assert "Jobs: 2 done" in brain("status").out

    again = brain("job", "retry", id_)
    assert again.status != 0
    assert "job_over" in again.err


def test_command_that_waits_for_a_job_runs_it_without_a_worker(brain: Run) -> None:
    given = ("--arg", "kinds=fact", "--arg", "kinds=rule", "--arg", "project=3")
    waited = brain("job", "run", "atomize", *given, "--wait", "--json")

    (job,) = json.loads(waited.out)["jobs"]
    assert (job["state"], job["result"]) == ("done", {"read": 0, "atoms": 0, "rejected": 0})
    assert job["given"] == {"kinds": ["fact", "rule"], "project": "3"}
    one = json.loads(brain("job", "run", "atomize", "--arg", "kinds=fact", "--json").out)
    assert one["jobs"][0]["given"] == {"kinds": ["fact"]}


def test_worker_reports_events_to_programs_line_by_line(brain: Run) -> None:
    worked = brain("worker", "--once", "--kinds", "maintain", "--json")

    lines = [json.loads(line) for line in worked.out.splitlines()]
    first, *between, last = lines
    assert (first["event"], {one["event"] for one in between}) == ("taken", {"moved"})
    assert (last["event"], set(last["result"].values())) == ("done", {0})
    assert (last["kind"], last["attempt"], last["tenant"]) == (
        "maintain", 1, "default",
    )  # fmt: skip


def test_invalid_options_are_refused_with_a_next_step(
    brain: Run, subtests: pytest.Subtests
) -> None:
    for words in (
        ("worker", "--kinds", "fly"),
        ("worker", "--concurrency", "0"),
        ("job", "run", "fly"),
        ("job", "run", "atomize", "--arg", "project"),
        ("job", "run", "atomize", "--arg", "pot=3", "--wait"),
        ("job", "list", "--state", "odd"),
        ("job", "show", "job_0000000000000"),
    ):
        with subtests.test(words=words):
            refused = brain(*words)

            assert refused.status not in {0, 1}
            assert len(refused.err.strip().splitlines()) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="signals and pipes that can be waited for")
def test_worker_ends_cleanly_by_a_signal(path: Path) -> None:
    line = command(path, "worker", "--kinds", "maintain", "--json")
    with subprocess.Popen(line, stdout=subprocess.PIPE, env=clean_environment()) as process:
        assert process.stdout is not None
        readable, _, _ = select.select([process.stdout], [], [], TIMEOUT_S)
        assert readable, "It says nothing."
        assert json.loads(process.stdout.readline())["event"] == "taken"
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate(timeout=TIMEOUT_S)

    assert process.returncode == 0
    assert json.loads(rest.splitlines()[-1])["event"] in {"done", "given_back"}
    with open_brain(path) as brain:
        (job,) = brain.jobs().jobs
        assert (job.state, job.attempts) in {("done", 1), ("queued", 0)}


def test_help_names_every_kind_of_job_that_can_be_queued() -> None:
    (job,) = [one for one in load_operations() if one.name == "job"]
    (run,) = [one for one in job.commands if one.name == "job run"]

    named = re.sub(r"\(.*?\)", "", str(job.request.model_fields["kind"].description)).split(", ")
    assert named == [name for name, kind in JOBS.items() if kind.asked_by is None]
    assert ", ".join(JOBS) in run.purpose
