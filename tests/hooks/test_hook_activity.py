"""Hooks that run are counted, and clients that fall silent are reported with the way out."""

import os
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from commonbrain.api.dispatch import dispatch
from commonbrain.api.operation import Transport
from commonbrain.api.operations import Profile
from commonbrain.api.operations.doctor import DOCTOR
from commonbrain.api.operations.session import SESSION
from commonbrain.api.operations.status import STATUS
from commonbrain.client import Brain
from commonbrain.mcp.server import tools_of
from commonbrain.model import ids
from commonbrain.model.jobs import Job
from commonbrain.model.limits import EVENT_ARGS_CHARS_MAX
from commonbrain.model.scope import Role
from commonbrain.observability.hook_runs import BY_WORDS, TIMED_OUT, HookRuns, ShownCounts
from commonbrain.testing.builders import FakeClock
from commonbrain.text.tokens import estimate
from tests.hooking import SESSION as NAME
from tests.hooking import call_hook
from tests.hooks.test_hook_edits import NAMING, edited
from tests.in_process import run_brain

TOOLS = tools_of(Profile.CORE)


def status(brain: Brain) -> str:
    return STATUS.render_text(STATUS.handle(brain, STATUS.request()))


def doctor(brain: Brain) -> str:
    return DOCTOR.render_text(DOCTOR.handle(brain, DOCTOR.request()))


def with_runs(brain: Brain, runs: HookRuns) -> Brain:
    return Brain(replace(brain.services, hook_runs=runs), brain.caller)


def aged(folder: Path, marks: Mapping[str, datetime]) -> HookRuns:
    for name, at in marks.items():
        (folder / name).touch()
        os.utime(folder / name, (at.timestamp(), at.timestamp()))
    return HookRuns(folder)


@pytest.mark.requirement("OB-06")
@pytest.mark.requirement("OB-16")
def test_hook_run_is_counted_with_the_memories_that_it_showed(
    brain: Brain, clock: FakeClock
) -> None:
    id_ = brain.remember(NAMING, kind="rule").items[0].id
    shown = edited(brain)
    clock.move(timedelta(hours=1))
    assert edited(brain) == ""
    brain.services.journal.flush()

    [hook] = brain.status().hooks

    assert (hook.client, hook.event) == ("claude-code", "pre-tool-use")
    assert hook.last_run == clock.now()
    assert (hook.shown, hook.tokens) == (1, estimate(shown))
    assert hook.last_ids == (id_,)
    spent = f"0 tokens spent in the background, {estimate(shown)} shown by hooks in 30 days."
    assert spent in status(brain)
    assert f"1 memory shown, {estimate(shown)} tokens, last {id_}" in status(brain)


def test_agents_other_than_admins_see_only_their_own_hooks(brain: Brain) -> None:
    brain.remember(NAMING, kind="rule")
    edited(brain)
    brain.services.journal.flush()
    reader = brain.acting_as(agent="codex")
    reader = Brain(reader.services, replace(reader.caller, role=Role.READER))

    assert reader.status().hooks == ()
    assert reader.status().token_use.shown == 0
    assert brain.status().token_use.shown > 0


@pytest.mark.requirement("OB-17")
def test_end_of_a_session_reports_the_tokens_that_it_cost(brain: Brain) -> None:
    brain.remember(NAMING, kind="rule")
    shown = edited(brain)
    edited(brain, session="another")
    brain.services.journal.flush()
    own = brain.acting_as(agent="claude-code", session=NAME, project="shop")

    text = SESSION.render_text(SESSION.handle(own, SESSION.request(op="end")))

    assert f"0 tokens spent in the background, {estimate(shown)} shown." in text


@pytest.mark.requirement("OB-17")
def test_end_of_a_session_counts_the_replies_that_each_transport_showed(brain: Brain) -> None:
    brain.remember(NAMING, kind="rule", project="shop")
    boot, recall, end = (TOOLS[name] for name in ("boot", "recall", "session"))
    for transport in (Transport.CLI, Transport.MCP, Transport.REST):
        own = brain.acting_as(agent="ann", session=transport, project="shop")
        booted = dispatch(boot, own, request=boot.request(), transport=transport)
        query = recall.request.model_validate({"query": NAMING})
        recalled = dispatch(recall, own, request=query, transport=transport)

        request = end.request.model_validate({"op": "end"})
        ended = dispatch(end, own, request=request, transport=transport)

        assert ended.token_use.shown == booted.tokens + recalled.tokens > 0


@pytest.mark.requirement("OB-17")
def test_first_boot_of_a_shell_counts_for_the_session_that_it_starts(brain: Brain) -> None:
    booted = dispatch(
        TOOLS["boot"], brain, request=TOOLS["boot"].request(), transport=Transport.CLI
    )

    ended = brain.session.end()

    assert ended.session == booted.session
    assert ended.token_use
    assert ended.token_use.shown == booted.tokens > 0


@pytest.mark.requirement("OB-17")
def test_background_tokens_of_a_session_exclude_those_of_other_agents(
    brain: Brain, clock: FakeClock
) -> None:
    own = brain.acting_as(agent="claude-code", session=NAME, project="shop")
    with brain.services.store.begin(brain.caller.tenant) as tx:
        for number in range(300):
            caller = own.caller if number == 0 else replace(own.caller, session=f"s{number}")
            tx.jobs.add(
                Job(
                    id=ids.make_id(clock.now(), number),
                    kind="reflect",
                    caller=caller,
                    given={},
                    due_at=clock.now(),
                    reached={"tokens_in": 3, "tokens_out": 4},
                    created_at=clock.now(),
                )
            )
    ended = own.session.end()
    assert ended.token_use is not None
    assert ended.token_use.background == 7
    assert brain.status().token_use.background == 2100


@pytest.mark.requirement("OB-16")
def test_client_without_hook_runs_for_a_week_is_reported(
    brain: Brain, clock: FakeClock, tmp_path: Path
) -> None:
    now = clock.now()
    runs = aged(
        tmp_path,
        {
            "claude-code.session-start": now - timedelta(days=8),
            "claude-code.stop": now - timedelta(days=9),
            "codex.stop": now - timedelta(days=6),
            "gemini.connected": now - timedelta(days=7),
        },
    )
    view = with_runs(brain, runs)

    status_text, doctor_text = status(view), doctor(view)

    assert [one.client for one in view.status().silent_clients] == ["claude-code", "gemini"]
    assert "claude-code is silent: no hook ran since 2026-02-22T09:00:00Z" in status_text
    assert "gemini is silent: no hook ran since 2026-02-23T09:00:00Z" in status_text
    assert "repair with brain connect gemini --hooks." in status_text
    assert "codex is silent" not in status_text
    assert "look: hooks of claude-code, silent since 2026-02-22T09:00:00Z" in doctor_text
    assert "sound: hooks of codex, they run; last stop 2026-02-24T09:00:00Z" in doctor_text
    assert (
        "Check with brain hook status; repair with brain connect claude-code --hooks."
        in doctor_text
    )


def test_disconnected_client_is_not_reported_as_silent(clock: FakeClock, tmp_path: Path) -> None:
    runs = aged(tmp_path, {"codex.stop": clock.now(), "codex.connected": clock.now()})

    runs.disconnected("codex")

    assert runs.clients() == {}


def test_client_connected_with_hooks_is_expected_to_run_them_until_it_is_removed(
    tmp_path: Path,
) -> None:
    runs = HookRuns(tmp_path / "hooks")

    def connect(*options: str) -> None:
        variables = {"HOME": str(tmp_path), "COMMONBRAIN_STATE": str(tmp_path)}
        assert run_brain("connect", "codex", *options, **variables).status == 0

    connect("--hooks", "--dry-run")
    assert runs.clients() == {}
    connect("--hooks")
    assert list(runs.clients()) == ["codex"]
    assert runs.last() == {}
    connect("--remove")
    assert runs.clients() == {}


def test_hook_with_nothing_to_do_counts_as_run(path: Path, tmp_path: Path) -> None:
    state = {"COMMONBRAIN_STATE": str(tmp_path)}
    call_hook(path, "claude-code", "user-prompt-submit", told={"prompt": "yes"}, **state)

    [(hook, at)] = HookRuns(tmp_path / "hooks").last().items()
    assert hook == ("claude-code", "user-prompt-submit")
    assert datetime.now(UTC) - at < timedelta(minutes=5)
    assert not path.exists()


def test_output_of_a_hook_is_read_as_it_was_recorded() -> None:
    for count in (0, 1, 3, 12):
        text = " ".join(f"mem_{number:013d}" for number in range(count))
        shown = ShownCounts.of(text)

        assert shown.memories == count
        assert len(shown.args) <= EVENT_ARGS_CHARS_MAX
        assert ShownCounts.read(shown.args) == shown
    assert ShownCounts.read("anything else") == ShownCounts()


@pytest.mark.requirement("OB-16")
def test_hooks_that_timed_out_or_searched_by_words_alone_are_counted(
    brain: Brain, clock: FakeClock, tmp_path: Path
) -> None:
    runs = HookRuns(tmp_path)
    runs.note("claude-code", "user-prompt-submit")
    for outcome in (TIMED_OUT, TIMED_OUT, BY_WORDS):
        runs.count("claude-code", "user-prompt-submit", outcome=outcome)
    view = with_runs(brain, runs)

    def counted() -> list[tuple[int, int]]:
        hooks = view.status().hooks
        return [(one.timed_out, one.by_words) for one in hooks if one.event == "user-prompt-submit"]

    assert counted() == [(2, 1)]
    assert "2 timed out; 1 searched by words alone" in status(view)
    # Of thirty days, as the runs.
    clock.move(datetime.now(UTC) + timedelta(days=31) - clock.now())
    assert counted() == [(0, 0)]


def test_outcomes_of_hooks_take_a_bounded_space(tmp_path: Path) -> None:
    runs = HookRuns(tmp_path)
    for _ in range(5000):
        runs.count("claude-code", "user-prompt-submit", outcome=TIMED_OUT)
    counted = runs.outcomes(datetime(2026, 1, 1, tzinfo=UTC)).total()
    size = sum(one.stat().st_size for one in tmp_path.iterdir())
    assert 1000 < counted < 5000
    assert size < 2 * 70_000
