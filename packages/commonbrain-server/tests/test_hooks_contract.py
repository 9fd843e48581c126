"""The same sessions leave the same memories in a file, on a server, and in Postgres."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import pytest

import commonbrain
from commonbrain.model.memory import Memory, State
from commonbrain.model.query import Filter
from commonbrain.model.scope import Caller
from commonbrain.runtime.settings_loading import login_name
from commonbrain.storage.interface import QueryScope
from tests.hooking import PATIENT, Answered
from tests.hooks.test_hook_failures import COMMAND, ELSEWHERE, FILE, OUTPUT
from tests.hooks.test_user_statements import ATTENDED
from tests.in_process import default_model, run_brain
from tests.postgres import Server
from tests.serving import free_port, started

_STATES: Final = (State.ACTIVE, State.SUPERSEDED, State.QUARANTINED)
RULE: Final = "use pnpm instead of npm"
SECRET: Final = "ghp_TramMango81xTramMango81xTramMango81x"  # noqa: S105 invented


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the memory of a client is: a store, and the options by which hooks reach it."""

    store: str
    folder: Path
    words: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict[str, str])

    def call(self, event: str, *, session: str, **fields: Any) -> Answered:  # noqa: ANN401
        variables = {name: fields.pop(name) for name in list(fields) if name.isupper()}
        environment = {
            **PATIENT,
            "COMMONBRAIN_STATE": str(self.folder / "state"),
            **self.environment,
            **variables,
        }
        payload = {"session_id": session, "cwd": str(self.folder), **fields}
        # What a prompt says is stored by a process in the background, for which this one waits.
        detached = ["--detached"] if event in {"user-prompt-submit", "session-end"} else []
        words = ("hook", "claude-code", event, *self.words, *detached)
        done = run_brain(*words, stdin=json.dumps(payload), **environment)
        assert (done.status, done.err) == (0, "")
        return Answered(status=done.status, out=done.out, err=done.err)

    def says(self, prompt: str, **variables: str) -> None:
        self.call("user-prompt-submit", session="said", prompt=prompt, prompt_id="p1", **variables)

    def fails(self, session: str, output: str = OUTPUT) -> str:
        tool = {"tool_name": "Bash", "tool_input": {"command": COMMAND}}
        error = f"Exit code 1\n{output}"
        return self.call("post-tool-use-failure", session=session, error=error, **tool).context

    def edits(self, session: str, file: str = FILE) -> None:
        given = {
            "file_path": str(self.folder / file),
            "old_string": "select(Order)",
            "new_string": "select(Order).options(selectinload(Order.customer))",
        }
        self.call("post-tool-use", session=session, tool_name="Edit", tool_input=given)

    def passes(self, session: str) -> None:
        tool = {"tool_name": "Bash", "tool_input": {"command": COMMAND}}
        response = {"stdout": "1 passed in 0.21s", "stderr": "", "interrupted": False}
        self.call("post-tool-use", session=session, tool_response=response, **tool)

    @property
    def memories(self) -> list[tuple[str, ...]]:
        """Every memory in any state, as its author sees it."""
        with commonbrain.open(self.store) as brain:
            read: dict[int, Memory] = {}
            with brain.services.store.snapshot(brain.caller.tenant) as tx:
                for author in ("claude-code", login_name()):
                    scope = QueryScope(
                        caller=Caller(agent=author),
                        filter=Filter(trust_min=0, states=_STATES),
                        now=brain.services.clock.now(),
                    )
                    hits = tx.memories.newest(scope, limit=100)
                    read |= tx.memories.get([hit.id for hit in hits])
        return sorted(
            (
                *(one.kind, one.state, one.scope, one.authority, str(one.source_ref)),
                _shortened(one.body or one.headline),
            )
            for one in read.values()
        )


def _shortened(text: str) -> str:
    """Return a text without the line that an error and a fix have in common with the script."""
    error, _, fix = text.partition("; can't call await_only() here\nIt passed after an edit of ")
    return f"{error} {fix.partition(':')[0]}".strip()


@pytest.fixture(params=["file", "server", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    folder = tmp_path / "shop"
    (folder / ".git").mkdir(parents=True)
    store = str(tmp_path / "brain.db")
    match request.param:
        case "file":
            yield Place(store=store, folder=folder, words=("--store", store))
        case "server":
            port = free_port()
            words = ("--url", f"http://127.0.0.1:{port}", "--no-key")
            elsewhere = {"COMMONBRAIN_STORE": "/dev/null/brain.db"}
            # What to store is up to each client.
            with started(store, port=port, COMMONBRAIN_CAPTURE="off"):
                yield Place(store=store, folder=folder, words=words, environment=elsewhere)
        case _:
            postgres: Server = request.getfixturevalue("postgres")
            with postgres.database(space=default_model().space) as database:
                url = {"COMMONBRAIN_STORE": database.program}
                yield Place(store=database.program, folder=folder, environment=url)


def test_same_sessions_leave_the_same_memories_wherever_the_store_is(place: Place) -> None:
    assert place.fails("first") == ""
    place.edits("first")
    place.passes("first")

    shown = place.fails("later", ELSEWHERE)
    # A client may cut the output within an emoji.
    assert place.fails("later", ELSEWHERE + "\ud83d") == ""
    place.edits("later", "src/shop/api.py")
    place.passes("later")

    place.says(f"From now on {RULE}")
    place.says(f"From now on {RULE}")
    place.says("From now on use tabs \ud83d in code")
    place.says("<private>From now on use yarn instead of npm.</private> I prefer tabs over spaces")
    place.says(f"Remember that {SECRET} is the token of the shop")
    place.says("From now on run the linter first #nomemory")

    pair = f"`{COMMAND}` failed: sqlalchemy.exc.MissingGreenlet: greenlet_spawn has not been called"
    assert f"It passed after an edit of {FILE}:" in shown
    assert "+ select(Order).options(selectinload(Order.customer))" in shown
    assert place.memories == [
        ("fact", "quarantined", "team", "captured", "said#p1", "I prefer tabs over spaces"),
        ("incident", "active", "private", "model", "later", f"{pair} src/shop/api.py"),
        ("incident", "active", "team", "model", "first", f"{pair} {FILE}"),
        ("incident", "superseded", "private", "model", "first", f"{pair} {FILE}"),
        ("rule", "quarantined", "team", "captured", "said#p1", RULE),
        ("rule", "quarantined", "team", "captured", "said#p1", "use tabs \ufffd in code"),
    ]


def test_what_a_client_switches_off_is_stored_nowhere(place: Place) -> None:
    for number, switch in enumerate(("", "memory = false", 'capture = "off"')):
        folder = place.folder / str(number)
        folder.mkdir()
        (folder / ".commonbrain.toml").write_text(f"{switch}\n")
        here = replace(place, folder=folder)
        if not switch:
            assert run_brain("pause", COMMONBRAIN_STATE=str(folder / "state")).status == 0

        assert here.fails("off") == ""
        here.edits("off")
        here.passes("off")
        here.says(f"From now on {RULE}", **ATTENDED)

        assert not list((folder / "state" / "hooks").glob("failures/*"))
    assert place.memories == []
