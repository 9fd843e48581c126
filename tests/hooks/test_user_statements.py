"""What the user says in a prompt waits for a person, or counts at once as theirs."""

from pathlib import Path
from typing import Final

import pytest

import commonbrain
from commonbrain.client import Brain
from commonbrain.model.scope import Authority
from commonbrain.text.prompts import FORGET_WORD
from tests.hooking import call_hook

RULE: Final = "use pnpm instead of npm"
PROMPT: Final = f"From now on {RULE}"
ATTENDED: Final = {
    "AI_AGENT": "claude-code_2-1-330_harness",
    "CLAUDE_CODE_SESSION_ATTENDED": "1",
    "CLAUDECODE": "1",
}
"""What Claude Code gives its hooks while its user attends it."""


def say(store: Path, prompt: str, client: str = "claude-code", **environment: str) -> None:
    """Run the part of the prompt hook for which no client waits."""
    event: dict[str, object] = {"session_id": "s1", "prompt": prompt, "cwd": str(store.parent)}
    words = (client, "user-prompt-submit", "--detached")
    done = call_hook(store, *words, told=event, **environment)
    assert (done.status, done.out, done.err) == (0, "", "")


def waiting(brain: Brain) -> list[str]:
    return [one.memory.headline for one in brain.review("proposals").proposals]


def active(brain: Brain) -> dict[str, Authority]:
    listed = brain.list(limit=100).memories
    return {one.headline: brain.get(one.id).authority for one in listed}


@pytest.mark.parametrize("client", ["claude-code", "codex", "copilot", "cursor", "gemini", "qwen"])
def test_what_the_user_says_waits_and_is_a_persons_once_confirmed(
    tmp_path: Path, client: str
) -> None:
    store = tmp_path / "brain.db"
    say(store, PROMPT, client)

    with commonbrain.open(store) as brain:
        (held,) = brain.review("proposals").proposals
        assert held.memory.headline == RULE
        assert brain.get(held.memory.id).authority is Authority.CAPTURED
        assert active(brain) == {}
        brain.revise.approve(held.memory.id, reason="yes")
        assert active(brain) == {RULE: Authority.PERSON}


def test_prompt_that_an_agent_writes_for_its_subagent_is_not_the_users(tmp_path: Path) -> None:
    store = tmp_path / "brain.db"
    with commonbrain.open(store) as brain:
        brain.remember(f"We {RULE}", kind="fact")
    event: dict[str, object] = {"session_id": "s1", "prompt": PROMPT, "cwd": str(tmp_path)}

    words = ("codex", "user-prompt-submit")
    shown = call_hook(store, *words, told=event | {"agent_id": "a1"})
    call_hook(store, *words, "--detached", told=event | {"agent_id": "a1"})

    assert shown.out == ""
    with commonbrain.open(store) as brain:
        assert waiting(brain) == []


def test_repeated_and_declined_words_are_proposed_once(tmp_path: Path) -> None:
    store = tmp_path / "brain.db"
    say(store, PROMPT)
    say(store, f"{PROMPT}. I prefer tabs over spaces")

    with commonbrain.open(store) as brain:
        assert sorted(waiting(brain)) == ["I prefer tabs over spaces", RULE]
        for one in brain.review("proposals").proposals:
            brain.revise.reject(one.memory.id, reason="no")
    say(store, PROMPT)
    with commonbrain.open(store) as brain:
        assert waiting(brain) == []


def test_confirmed_correction_ends_what_it_corrects(tmp_path: Path) -> None:
    store = tmp_path / "brain.db"
    with commonbrain.open(store) as brain:
        brain.remember("The test database listens on port 5432", kind="fact")
    say(store, "that's wrong: the test database listens on port 5433, not 5432")

    with commonbrain.open(store) as brain:
        before = brain.recall("port of the test database").evidence
        assert "5433" not in before
        (held,) = brain.review("proposals").proposals
        assert "ends it" in repr(held.effects)
        brain.revise.approve(held.memory.id, reason="yes")
        assert active(brain) == {
            "the test database listens on port 5433, not 5432": Authority.PERSON
        }


def test_next_boot_shows_what_waits_in_three_lines(tmp_path: Path) -> None:
    store = tmp_path / "brain.db"
    say(store, f"{PROMPT}. I prefer tabs over spaces. Never push to main.")
    event: dict[str, object] = {"session_id": "s2", "source": "startup", "cwd": str(tmp_path)}
    shown = call_hook(store, "claude-code", "session-start", told=event).context

    lines = shown.splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("FROM PROMPTS"))
    assert "brain review" in lines[start]
    assert len([line for line in lines[start:] if line.startswith("- mem_")]) == 2
    assert "Not shown of unconfirmed: 1" in shown


def test_attended_client_stores_at_once_except_what_would_block(tmp_path: Path) -> None:
    store = tmp_path / "brain.db"
    say(store, f"{PROMPT}. Never push to main.", **ATTENDED)

    with commonbrain.open(store) as brain:
        assert active(brain) == {RULE: Authority.PERSON}
        assert waiting(brain) == ["Never push to main"]


@pytest.mark.parametrize(
    "changed",
    [
        {"CLAUDE_CODE_SESSION_ATTENDED": "0"},
        {"CLAUDE_CODE_SESSION_ATTENDED": ""},
        {"AI_AGENT": ""},
        {"AI_AGENT": "claude-code_1"},
        {"CODEX_CI": "1"},
        {"GEMINI_CLI": ""},
        {"COMMONBRAIN_CAPTURE": "propose"},
        {"COMMONBRAIN_CAPTURE": "tags"},
    ],
)
def test_prompt_that_may_be_of_an_agent_is_only_proposed(
    tmp_path: Path, changed: dict[str, str]
) -> None:
    store = tmp_path / "brain.db"
    say(store, PROMPT, **ATTENDED | changed)

    with commonbrain.open(store) as brain:
        assert (active(brain), waiting(brain)) == ({}, [RULE])


def test_what_the_agent_has_to_acknowledge_does_not_bind_its_user(tmp_path: Path) -> None:
    store = tmp_path / "brain.db"
    with commonbrain.open(store, agent="somebody") as brain:
        brain.remember("Read the new policy first.", kind="rule", must_ack=True)
    event: dict[str, object] = {"session_id": "s1", "prompt": PROMPT}
    for variables in ({}, ATTENDED):
        answered = call_hook(
            store, "claude-code", "user-prompt-submit", "--detached", told=event, **variables
        )
        assert (answered.status, answered.err) == (0, "")

    with commonbrain.open(store) as brain:
        assert active(brain) or waiting(brain)


@pytest.mark.parametrize(
    ("prompt", "environment"),
    [
        (PROMPT, ATTENDED | {"AI_AGENT": "claude-code_2-1-330_agent"}),
        (PROMPT, {"COMMONBRAIN_CAPTURE": "off"}),
        (f"{PROMPT} {FORGET_WORD}", {}),
        (f"<private>{PROMPT}</private> fix the failing test", {}),
        ("From now on the token is ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8", {}),
    ],
)
def test_nothing_is_stored_of_an_agents_command_and_where_it_is_unwanted(
    tmp_path: Path, prompt: str, environment: dict[str, str]
) -> None:
    store = tmp_path / "brain.db"
    event: dict[str, object] = {"session_id": "s1", "prompt": prompt}
    words = ("claude-code", "user-prompt-submit", "--detached")
    answered = call_hook(store, *words, told=event, **environment)
    assert (answered.status, answered.err) == (0, "")

    with commonbrain.open(store) as brain:
        assert (active(brain), waiting(brain)) == ({}, [])
