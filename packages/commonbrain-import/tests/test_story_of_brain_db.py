"""Two agents talked in brain-db in the evening; the morning after, they ask what they imported."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from brain_db_samples import insert, make_brain_db

from commonbrain.client import Brain

EVENING = datetime(2026, 2, 1, 18, tzinfo=UTC)
TALK = (
    ("gateway", "nova", "helios", "The gateway refuses all clients since the new certificate."),
    ("gateway", "helios", "nova", "Restart the gateway after each certificate change, then."),
    ("gateway", "nova", "helios", "Restarted, and the clients are back."),
    ("berths", "helios", "nova", "Which berth does the night ferry get?"),
)


def at(minute: int) -> str:
    return (EVENING + timedelta(minutes=minute)).isoformat()


@pytest.fixture
def evening(tmp_path: Path) -> Path:
    """Give the database of an evening; only the last message is unread, and its thread open."""
    with make_brain_db(tmp_path / "evening.db", has_integers=True) as connection:
        for number, subject in enumerate(("gateway", "berths"), 1):
            status, tags = ("closed", '["outage"]') if number == 1 else ("active", None)
            insert(
                connection,
                "threads",
                id=number,
                subject=subject,
                created_by="nova",
                created_at=at(0),
                status=status,
                tags=tags,
            )
        for number, (subject, sender, receiver, body) in enumerate(TALK, 1):
            insert(
                connection,
                "messages",
                id=number,
                thread_id=1 if subject == "gateway" else 2,
                from_agent=sender,
                to_agent=receiver,
                subject=subject,
                body=body,
                created_at=at(number),
            )
            if subject == "gateway":
                receipt = {"message_id": number, "agent_id": receiver}
                insert(connection, "read_receipts", **receipt, read_at=at(number + 1))
                insert(connection, "acks", **receipt, acked_at=at(number + 2))
        insert(
            connection,
            "stm",
            id=1,
            content="The gateway needs a restart after a certificate change.",
            categories=json.dumps(["ops"]),
            importance=2.5,
            source="synapse:helios",
            source_message_id=2,
            created_at=at(9),
        )
        for number, fields in enumerate(
            (
                ("the certificate", "expires", "the gateway refuses clients", "agents stall"),
                ("stalled agents", "retry at once", "the queue fills up", "the ferry waits"),
            ),
            1,
        ):
            names = ("subject", "action", "outcome", "consequences")
            atom = dict(zip(names, fields, strict=True))
            insert(
                connection, "atoms", id=number, **atom, source_message_id=1, created_at=at(number)
            )
        insert(
            connection,
            "causal_links",
            id=1,
            from_atom_id=1,
            to_atom_id=2,
            link_type="causes",
            strength=0.9,
            created_at=at(9),
        )
    return tmp_path / "evening.db"


@pytest.mark.requirement("MG-15")
def test_morning_after_the_import_the_evening_is_remembered(brain: Brain, evening: Path) -> None:
    report = brain.import_("brain-db", evening)
    assert (report.read, report.stored, report.rejected) == (7, 7, 0)
    nova, helios = brain.acting_as(agent="nova"), brain.acting_as(agent="helios")

    # Who said it, and in which talk.
    entry, *_ = nova.recall("When does the gateway need a restart?", kinds=["event"]).items
    assert entry.body == "The gateway needs a restart after a certificate change."
    assert entry.source is not None
    assert (entry.source.by, entry.source.to, entry.source.date) == ("helios", "nova", "2026-02-01")
    assert {one.headline for one in brain.list(agent="helios").memories} >= {entry.headline}

    # What is closed stays closed, and what was read does not wait in an inbox.
    threads = {one.subject: (str(one.status), one.tags) for one in nova.message.threads().threads}
    assert threads == {"gateway": ("closed", ("outage",)), "berths": ("open", ())}
    assert [one.headline for one in nova.message.inbox().messages] == [TALK[3][3]]
    assert not helios.message.inbox().messages
    answered = next(one for one in helios.message.inbox(all=True).messages if one.sender == "nova")
    assert [ack.agent for ack in answered.acks] == ["helios"]

    # What led to what.
    (cause,) = (one for one in brain.list(kinds=["atom"]).memories if "expires" in one.headline)
    effects = brain.trace.effects(cause.id)
    assert "the queue fills up" in str(effects)

    # What was known that evening, before anything was imported.
    then = nova.recall("When does the gateway need a restart?", as_of=EVENING + timedelta(hours=1))
    assert entry.id in {one.id for one in then.items}
    before = nova.recall("When does the gateway need a restart?", as_of=EVENING)
    assert not before.items
