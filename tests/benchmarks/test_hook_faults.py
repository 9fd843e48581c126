"""What the benchmark tries on a busy machine, on any: no hook fails, whatever goes wrong."""

from collections.abc import Generator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from benchmarks.hook_faults import Condition, Run, conditions_in, inputs_of
from commonbrain.hooks.table import HOOKS, SHOWS_RULES, Hook, HookAction
from tests.hooking import PATIENT
from tests.in_process import run_brain

ALL = frozenset(hook.action for hook in HOOKS.values())
SHOWING = ALL - {HookAction.CAPTURE, HookAction.SUMMARISE, HookAction.END}
NONE = frozenset[HookAction]()
IN_TIME = {
    "nothing": (SHOWING, NONE),
    **dict.fromkeys(("dead server", "server of HTML", "server of nonsense"), (NONE, ALL)),
    "broken store": (SHOWS_RULES, ALL),
    # A store that cannot be there names no command.
    "home not writable": (NONE, ALL - {HookAction.TOOL}),
    # Of clients that ask before an edit, the hook after it has nothing to show.
    "2 MB of input": (SHOWING - {HookAction.TOOL_USED}, NONE),
    "malformed input": (NONE, ALL),
}
"""Conditions in which a hook need not wait for its limit: which hooks show something in every run,
and which say in one why they do not."""


@pytest.fixture(scope="module")
def conditions() -> Generator[Mapping[str, Condition]]:
    # The path of a socket is short.
    with TemporaryDirectory() as folder, conditions_in(Path(folder), memories=10) as prepared:
        yield prepared


def run_here(hook: Hook, raw: bytes, *, condition: Condition, folder: Path) -> Run:
    words = ["--detached"] if hook.action is HookAction.END else []
    variables = {**PATIENT, "COMMONBRAIN_STATE": str(folder), **condition.variables}
    done = run_brain(
        "hook", hook.client, hook.event, *condition.words, *words, stdin=raw, **variables
    )
    out, err = done.out.encode(), done.err.encode()
    return Run(hook=hook, wall_s=0.0, status=done.status, out=out, err=err)


@pytest.mark.parametrize("name", IN_TIME)
def test_no_hook_fails_or_alarms_its_client(
    name: str, conditions: Mapping[str, Condition], tmp_path: Path
) -> None:
    condition = conditions[name]
    runs = [
        run_here(hook, raw, condition=condition, folder=tmp_path / "state")
        for hook in HOOKS.values()
        for raw in inputs_of(hook, condition, folder=tmp_path)
    ]
    assert [one for one in runs if one.is_failed or one.is_noisy] == []
    shown, explained = IN_TIME[name]
    assert {one.hook.action for one in runs if not one.out}.isdisjoint(shown)
    says_why = {(one.hook.client, one.hook.event) for one in runs if one.err}
    assert says_why >= {key for key, hook in HOOKS.items() if hook.action in explained}
