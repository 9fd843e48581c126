"""Where the policy says so, the audit has a line for every memory that a call shows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Unpack

import pytest
from commonbrain_server.tenants import admin_of

from commonbrain.api.dispatch import dispatch, literal_values
from commonbrain.api.operations import load_operations
from commonbrain.api.project_folder import FolderConfig
from commonbrain.client import Brain
from commonbrain.hooks.actions import HookRequest, perform
from commonbrain.hooks.table import COMMIT, EDITED, HOOKS, PROMPT, START, HookEvent
from commonbrain.ingestion.service import DraftFields
from commonbrain.model import ids
from commonbrain.model.errors import CommonbrainError, RejectedError
from commonbrain.model.revision import Action
from commonbrain.model.scope import Trust
from commonbrain.testing.builders import FakeClock
from tests.asking import remember_one, stored
from tests.reflecting import CHECKOUT
from tests.working import a_worker

PROJECT = "shop"


@dataclass(slots=True)
class Library:
    """A store in which each text has a word of its own, by which it is recognised."""

    brain: Brain
    clock: FakeClock
    words: list[str] = field(default_factory=list[str])

    def store(self, text: str, **known: Unpack[DraftFields]) -> str:
        """Store a text with a new word in it."""
        self.clock.move(timedelta(minutes=1))
        known["project"] = PROJECT
        return stored(self.brain, self.with_word(text), **known)

    def with_word(self, text: str) -> str:
        """Put a new word into a text."""
        number = len(self.words)
        self.words.append(f"zq{number:02d}{'abcdefghij'[number % 10]}")
        return text.replace("@", self.words[-1])

    def words_in(self, shown: str) -> set[str]:
        """Find the texts that are shown."""
        return {word for word in self.words if word in shown}

    def read_words(self, request_id: str) -> set[str]:
        """Find the texts of the memories that the audit names as read by a call."""
        lines = self.brain.audit(request_id=request_id, limit=200).lines
        read = {one.memory for one in lines if one.memory and one.action not in set(Action)}
        with self.brain.services.store.snapshot(self.brain.caller.tenant) as tx:
            texts = tx.memories.texts([ids.parse(ids.MEMORY, id_) for id_ in read])
        assert len(texts) == len(read)
        return self.words_in(" ".join(texts.values()))


def library(brain: Brain, clock: FakeClock) -> SimpleNamespace:
    """Fill a store with memories of all kinds, changed, linked, sent and delegated."""
    ann = brain.acting_as(agent="ann", project=PROJECT, session="s-ann")
    ann.boot()
    books = Library(ann, clock)
    known = SimpleNamespace(books=books)
    known.blocker = books.store("Never deploy @ on a Friday", kind="rule", severity="BLOCKER")
    known.pattern = books.store("Prefer small @ commits", kind="rule", severity="PATTERN")
    known.skill = books.store(
        "Write @ release notes first",
        kind="rule",
        skill={"name": "notes", "keywords": ["release"], "projects": [PROJECT]},
    )
    known.fact = books.store("The @ cache in src/cache.py holds ten entries", kind="fact")
    known.base = books.store("The @ ledger lives in Frankfurt", kind="fact")
    known.leaf = books.store(
        "So the @ invoices obey German law", kind="fact", depends_on=[known.base]
    )
    known.old = books.store("The @ timeout is 30 seconds", kind="fact")
    known.new = books.store("The @ timeout is now 45 seconds", kind="fact")
    known.task = books.store("Rotate the @ certificates", kind="task")
    known.other_task = books.store("Paint the @ fence", kind="task")
    known.events = [
        books.store(f"The disk of host {name} was full @", kind="event") for name in "uvwx"
    ]
    known.cause = books.store("The @ disk filled up overnight", kind="event")
    known.effect = books.store("Checkout @ failed for an hour", kind="incident")
    ann.revise.link(known.cause, known.effect, type="causes", reason="seen in the log")
    known.candidate = books.store("The @ orders go to Lisbon", kind="fact")
    known.rival = books.store("The @ orders go to Porto", kind="fact")
    ann.revise.link(known.candidate, known.rival, type="conflicts_with", reason="both cannot hold")
    early, late = (books.store(f"The @ stand-up begins at {at}", kind="fact") for at in (9, 10))
    ann.revise.link(early, late, type="conflicts_with", reason="both cannot hold")
    known.message = ann.message.send(
        "bob", books.with_word("The @ parcel arrived"), priority="urgent"
    ).id
    known.thread = ann.message.read(known.message).messages[0].thread
    ann.message.delegate("bob", books.with_word("Count the @ parcels"))
    ann.session.handoff(books.with_word("Moved the @ crates"))
    for text in CHECKOUT:
        # The word is in each sentence, so that it is in the headline, whichever it is taken from.
        books.store(f"@ {text}".replace(". ", ". @ "), kind="event")
    known.report = books.store("Logins @ failed because the token had expired", kind="incident")
    known.recall = ann.recall("Where do the orders go?").trace_id
    known.job = ann.jobs.run("maintain", {"dry_run": True}).id
    ann.services.journal.flush()
    known.forgotten = books.store("The @ attic is empty", kind="fact")
    ann.forget(known.forgotten, reason="it is full")
    known.precondition = books.store("The @ quay is open", kind="fact")
    known.doubtful = books.store(
        "So @ ships may land at the quay", kind="fact", depends_on=[known.precondition]
    )
    ann.forget(known.precondition, reason="it was closed")
    web = ann.acting_as(trust_ceiling=Trust.UNTRUSTED_WEB)
    for name in ("approved", "rejected"):
        text = books.with_word(f"Never leave @ {name} gates open")
        setattr(known, name, remember_one(web, text, kind="rule", trust="untrusted_web").id)
    admin_of(brain).policy(are_reads_audited=True)
    known.action_item = books.store("Read the @ handbook", kind="task", must_ack=True)
    return known


Call = tuple[str, str]
Arguments = Callable[[SimpleNamespace], Mapping[str, object]]

VIEWS = ["history", "provenance", "links", "annotations", "policy", "dependents"]
SHOWING: Mapping[Call, Arguments] = {
    # First, since the reply to a write is a refusal until the action item is acknowledged.
    ("revise", "ack"): lambda known: {"id": known.action_item, "value": "will_execute"},
    ("boot", ""): lambda _: {"project": PROJECT, "task": "write the release"},
    ("recall", ""): lambda _: {"query": "where do the orders go", "project": PROJECT},
    ("why_failed", ""): lambda _: {"text": "AuthError: because the token had expired"},
    ("list", ""): lambda _: {"facets": True},
    ("get", ""): lambda known: {"id": [known.new, known.old, known.leaf], "views": VIEWS},
    ("revise", "supersede"): lambda known: {
        "id": known.base,
        "text": "The ledger lives in Oslo",
        "dry_run": True,
    },
    ("revise", "restore"): lambda known: {"id": known.forgotten, "reason": "r"},
    ("revise", "keep_both"): lambda known: {
        "id": known.candidate,
        "other": known.rival,
        "reason": "both hold",
    },
    ("revise", "resolve"): lambda known: {
        "id": known.candidate,
        "other": known.rival,
        "reason": "r",
    },
    ("revise", "annotate"): lambda known: {"id": known.fact, "text": "checked"},
    ("revise", "rate"): lambda known: {"id": known.fact, "value": "up"},
    ("revise", "pin"): lambda known: {"id": known.fact},
    ("revise", "unpin"): lambda known: {"id": known.fact},
    ("revise", "retag"): lambda known: {"id": known.fact, "tags": ["speed"]},
    ("revise", "link"): lambda known: {
        "id": known.fact,
        "other": known.base,
        "value": "supports",
        "reason": "r",
    },
    ("revise", "unlink"): lambda known: {
        "id": known.cause,
        "other": known.effect,
        "value": "causes",
    },
    ("revise", "status"): lambda known: {"id": known.task, "value": "blocked"},
    ("revise", "approve"): lambda known: {"id": known.approved, "reason": "r"},
    ("revise", "reject"): lambda known: {"id": known.rejected, "reason": "r"},
    ("revise", "review"): lambda known: {"id": known.doubtful, "reason": "r"},
    ("revise", "preview"): lambda known: {"id": known.base},
    ("forget", "forget"): lambda known: {"ids": [known.base], "reason": "r", "dry_run": True},
    ("forget", "erase"): lambda known: {"ids": [known.base], "reason": "r"},
    ("forget", "undo"): lambda _: {"agent": "ann", "reason": "r"},
    ("bulk", "retag"): lambda known: {"ids": [known.base], "tags": ["t"]},
    ("bulk", "pin"): lambda known: {"ids": [known.base]},
    ("bulk", "unpin"): lambda known: {"ids": [known.base]},
    ("bulk", "archive"): lambda known: {"ids": [known.base]},
    ("bulk", "review"): lambda known: {"ids": [known.base]},
    ("trace", "causes"): lambda known: {"id": known.effect},
    ("trace", "effects"): lambda known: {"id": known.cause},
    ("trace", "before"): lambda known: {"id": known.effect},
    ("trace", "patterns"): lambda _: {"text": "disk host full"},
    ("trace", "deepen"): lambda _: {"text": "checkout failed for an hour"},
    ("trace", "dependents"): lambda known: {"id": known.base},
    ("trace", "provenance"): lambda known: {"id": known.leaf},
    ("session", "checkpoint"): lambda _: {"text": "commits of a release"},
    ("session", "tasks"): lambda _: {},
    ("session", "claim"): lambda known: {"id": known.task},
    ("session", "release"): lambda known: {"id": known.task},
    ("message", "inbox"): lambda _: {"all": True},
    ("message", "read"): lambda known: {"id": [known.message]},
    ("message", "ack"): lambda known: {"id": [known.message]},
    ("message", "history"): lambda known: {"thread": known.thread},
    ("message", "threads"): lambda _: {},
    ("message", "thread"): lambda known: {"thread": known.thread},
    ("message", "delegated"): lambda _: {},
    ("skill", "list"): lambda _: {},
    ("skill", "test"): lambda _: {"query": "a release", "project": PROJECT},
    ("recalls", ""): lambda known: {"trace": known.recall},
    ("review", ""): lambda _: {},
    ("reflect", ""): lambda _: {"dry_run": True, "window_hours": 24},
    ("remember", ""): lambda _: {"text": "The orders go to Porto", "kind": "fact"},
    ("atomize", ""): lambda known: {"ids": [known.report]},
    # Last, since time must pass before there is something to prune.
    ("forget", "prune"): lambda _: {"days": 30},
}
"""The arguments with which each operation shows text of memories; made in this order."""
SILENT: Mapping[Call, Arguments] = {
    ("session", "list"): lambda _: {},
    ("session", "task"): lambda _: {"text": "count parcels"},
    ("session", "handoff"): lambda _: {"text": "counted parcels"},
    ("session", "end"): lambda _: {},
    ("session", "note"): lambda _: {"key": "count", "text": "four"},
    ("session", "notes"): lambda _: {},
    ("message", "send"): lambda _: {"to": ["ann"], "text": "hello"},
    ("message", "reply"): lambda known: {"id": [known.message], "text": "thanks"},
    ("message", "delegate"): lambda _: {"to": ["ann"], "text": "count them again"},
    ("job", "list"): lambda _: {},
    ("job", "show"): lambda known: {"id": known.job},
    ("job", "run"): lambda _: {"kind": "reflect"},
    ("job", "retry"): lambda known: {"id": known.job},
    ("job", "cancel"): lambda known: {"id": known.job},
    ("status", ""): lambda _: {},
    ("doctor", ""): lambda _: {},
    ("audit", ""): lambda _: {},
}
"""Operations that show nothing but figures and what the caller gives them."""
ADMINISTRATION = frozenset({"admin", "model", "tenant"})
"""Operations on agents, models and tenants, none of which takes or gives a memory."""


@cache
def calls() -> tuple[Call, ...]:
    """Every operation of the table, with each of its verbs."""
    return tuple(
        (one.name, verb)
        for one in load_operations()
        if one.name not in ADMINISTRATION
        for verb in sorted(literal_values(one.request).get("op", ())) or [""]
    )


@pytest.fixture
def known(brain: Brain, clock: FakeClock) -> SimpleNamespace:
    """A library."""
    return library(brain, clock)


def called(known: SimpleNamespace, call: Call, arguments: Mapping[str, object]) -> str:
    """Make a call as another agent; return the reply in all its forms, or the error."""
    name, verb = call
    [operation] = [one for one in load_operations() if one.name == name]
    request = operation.request.model_validate({**({"op": verb} if verb else {}), **arguments})
    bob = known.books.brain.acting_as(agent="bob", session="s-bob", request_id=" ".join(call))
    try:
        reply = dispatch(operation, bob, request=request)
    except CommonbrainError as error:
        return f"{error.message} {error.hint}"
    forms = operation.to_json(reply), operation.to_agent_json(reply), operation.render_text(reply)
    return " ".join(map(str, forms))


@pytest.mark.requirement("DM-52", "OB-19")
def test_every_operation_is_classified_by_whether_it_shows_memories() -> None:
    assert sorted(calls()) == sorted([*SHOWING, *SILENT])


@pytest.mark.requirement("DM-52")
def test_call_leaves_an_audit_line_for_each_memory_it_shows(
    known: SimpleNamespace, subtests: pytest.Subtests
) -> None:
    for call, arguments in SHOWING.items():
        with subtests.test(call=call):
            if call == ("forget", "prune"):
                known.books.clock.move(timedelta(days=40))
            reply = called(known, call, arguments(known))
            shown, read = known.books.words_in(reply), known.books.read_words(" ".join(call))
            assert shown, reply
            assert shown <= read
            # A summary is made of more than it shows.
            assert shown == read or call[0] == "reflect"


@pytest.mark.requirement("DM-52")
def test_call_that_shows_no_memory_leaves_no_audit_line_of_a_read(
    known: SimpleNamespace, subtests: pytest.Subtests
) -> None:
    for call, arguments in SILENT.items():
        with subtests.test(call=call):
            reply = called(known, call, arguments(known))
            assert not known.books.words_in(reply), reply
            assert not known.books.read_words(" ".join(call))


def hooked(known: SimpleNamespace, name: str, event: HookEvent) -> str:
    """Run a hook of another agent."""
    request = HookRequest(
        hook=HOOKS["claude-code", name],
        event=event,
        folder=FolderConfig(),
        agent="claude-code",
        remaining_s=lambda: 5.0,
        tokens=400,
    )
    agent = known.books.brain.acting_as(agent="claude-code", session=event.session, request_id=name)
    return perform(agent, request) or ""


@pytest.mark.requirement("DM-52", "CL-11")
def test_hook_leaves_an_audit_line_for_each_memory_it_shows(
    known: SimpleNamespace, subtests: pytest.Subtests
) -> None:
    events = {
        START: HookEvent(session="h1"),
        PROMPT: HookEvent(session="h2", prompt="On what did the checkout fail?"),
        EDITED: HookEvent(session="h3", files=("/w/src/cache.py",), folder=Path("/w")),
        COMMIT: HookEvent(session="h4", command="git commit -m x"),
    }
    for name, event in events.items():
        with subtests.test(event=name):
            words = known.books.words_in(hooked(known, name, event))
            assert words
            assert known.books.read_words(name) == words


@pytest.mark.requirement("DM-52")
def test_refusal_that_quotes_an_action_item_leaves_an_audit_line(
    brain: Brain, clock: FakeClock
) -> None:
    books = Library(brain.acting_as(project=PROJECT), clock)
    books.store("Read the @ handbook", kind="task", must_ack=True)
    admin_of(brain).policy(are_reads_audited=True)
    bob = brain.acting_as(agent="bob", project=PROJECT, request_id="req-1")
    with pytest.raises(RejectedError, match=books.words[0]):
        bob.remember("The yard is swept", kind="fact")
    assert books.read_words("req-1") == set(books.words)


@pytest.mark.requirement("DM-52")
def test_job_whose_error_quotes_an_action_item_leaves_an_audit_line(
    brain: Brain, tmp_path: Path
) -> None:
    item = stored(brain, "Rotate the keys first.", kind="task", must_ack=True, project=PROJECT)
    admin_of(brain).policy(are_reads_audited=True)
    (tmp_path / "MEMORY.md").write_text("# Notes\n\n- The gate is painted each May.\n")
    bob = brain.acting_as(agent="bob", project=PROJECT)

    job = bob.jobs.import_("markdown", tmp_path / "MEMORY.md", project=PROJECT)
    a_worker(brain).sweep()

    assert "Rotate the keys" in str(bob.jobs.show(job.id).reason)
    [line] = brain.audit(action="shown by import").lines
    assert (line.agent, line.memory) == ("bob", item)


@pytest.mark.requirement("DM-52", "OB-15")
def test_export_leaves_one_audit_line_with_the_number_of_memories(
    brain: Brain, clock: FakeClock, tmp_path: Path
) -> None:
    books = Library(brain, clock)
    for name in ("gate", "wall", "roof"):
        books.store(f"The @ {name} was painted")
    brain.export(tmp_path / "before.jsonl")
    assert not brain.audit(action="export").lines

    admin_of(brain).policy(are_reads_audited=True)
    brain.acting_as(request_id="req-1").export(tmp_path / "after.jsonl")
    [line] = brain.audit(request_id="req-1").lines
    assert (line.action, line.agent, line.count) == ("export", "ann", 3)
    assert line.subject == "after.jsonl"


@pytest.mark.requirement("DM-52")
def test_backup_leaves_an_audit_line_in_each_tenant_that_audits_reads(
    brain: Brain, clock: FakeClock, tmp_path: Path
) -> None:
    books = Library(brain, clock)
    books.store("The @ gate was painted")
    brain.services.store.make_tenant("acme", at=clock.now())
    acme = Brain(brain.services, replace(brain.caller, tenant="acme"))
    brain.backup(tmp_path / "before.bak")
    assert not brain.audit(action="backup").lines

    admin_of(brain).policy(are_reads_audited=True)
    brain.acting_as(request_id="req-1").backup(tmp_path / "after.bak")
    [line] = brain.audit(request_id="req-1").lines
    assert (line.action, line.agent, line.count) == ("backup", "ann", 1)
    assert line.subject == "after.bak"
    assert not acme.audit(action="backup").lines
    admin_of(acme).policy(are_reads_audited=True)
    brain.backup(tmp_path / "later.bak")
    assert [one.subject for one in acme.audit(action="backup").lines] == ["later.bak"]


@pytest.mark.requirement("DM-52")
def test_shown_thread_subject_leaves_an_audit_line_for_the_first_message(
    brain: Brain, clock: FakeClock
) -> None:
    books = Library(brain, clock)
    sent = brain.message.send("bob", books.with_word("The @ salaries rise in May"))
    reply = brain.acting_as(agent="bob").message.reply(sent.id, books.with_word("Thanks for @"))
    admin_of(brain).policy(are_reads_audited=True)
    calls: Mapping[str, Callable[[Brain], object]] = {
        "inbox": lambda ann: ann.message.inbox(),
        "read": lambda ann: ann.message.read(reply.id),
        "threads": lambda ann: ann.message.threads(),
        "thread": lambda ann: ann.message.thread(sent.thread),
        "recall": lambda ann: ann.recall(f"thanks for {books.words[1]}", max_items=1),
        "get": lambda ann: ann.get(reply.id, views=["provenance"]),
    }
    for name, call in calls.items():
        text = str(call(brain.acting_as(request_id=name)))
        assert books.words_in(text) == books.read_words(name) == set(books.words), name


@pytest.mark.requirement("DM-52")
def test_read_without_the_policy_leaves_no_audit_line(brain: Brain, clock: FakeClock) -> None:
    books = Library(brain, clock)
    id_ = books.store("The @ gate was painted")
    bob = brain.acting_as(agent="bob", request_id="req-1")
    bob.boot()
    bob.get(id_)
    bob.message.inbox()
    assert not brain.audit(request_id="req-1").lines
