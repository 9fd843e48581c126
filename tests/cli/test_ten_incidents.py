"""Ten incidents from a text file: the command line finds why, from what source, with what gaps."""

import json
from pathlib import Path

import pytest

from tests.conftest import Command

INCIDENTS = (
    ("ann", "2026-03-01T08:00", "Somebody switched the nightly log rotation off."),
    ("ann", "2026-03-01T20:00", "The disk of db1 filled up with old logs."),
    ("bob", "2026-03-01T21:00", "The database on db1 stopped accepting writes."),
    ("bob", "2026-03-01T21:30", "The order queue grew to a million messages."),
    ("eve", "2026-03-01T22:00", "The order queue of a million messages exhausted the broker."),
    ("eve", "2026-03-05T09:00", "Checkout answered with an error to every customer."),
    ("ann", "2026-03-02T11:00", "The certificate of the gateway ran out."),
    ("bob", "2026-03-02T12:00", "The gateway refused every partner."),
    ("eve", "2026-03-03T10:00", "A cron job was started twice."),
    ("eve", "2026-03-03T11:00", "Invoices went out twice."),
)
ROTATION, DISK, DATABASE, QUEUE, BROKER, CHECKOUT = range(6)


@pytest.fixture
def incidents(command: Command, tmp_path: Path) -> list[str]:
    """Import the file, and link what was discovered; give the ids in its order."""
    turns = [
        {"speaker": who, "time": f"{when}:00Z", "text": text, "session": "postmortem"}
        for who, when, text in INCIDENTS
    ]
    source = tmp_path / "incidents.json"
    source.write_text(json.dumps(turns), "utf-8")
    code, out = command("import", "conversations", str(source), "--json")
    assert (code, json.loads(out)["stored"]) == (0, len(INCIDENTS)), out
    _, out = command("recall", "", "--kind", "message", "--max-items", "20", "--json")
    known = {item["body"] or item["headline"]: item["id"] for item in json.loads(out)["items"]}
    ids = [known[text] for _, _, text in INCIDENTS]
    for cause, effect in ((0, 1), (1, 2), (2, 3), (4, 5), (6, 7), (8, 9)):
        code, out = command(
            "revise", "link", ids[cause], "--other", ids[effect], "--value", "causes"
        )
        assert code == 0, out
    return ids


@pytest.mark.requirement("CT-01", "CT-10")
def test_chain_of_incidents_is_traced_to_its_root_with_sources_and_gaps(
    command: Command, incidents: list[str]
) -> None:
    code, out = command("trace", "causes", incidents[CHECKOUT], "--json")
    assert code == 0, out
    traced = json.loads(out)
    steps = traced["steps"]
    chain = [CHECKOUT, BROKER, QUEUE, DATABASE, DISK, ROTATION]
    assert [step["id"] for step in steps] == [incidents[one] for one in chain]
    assert [step["depth"] for step in steps] == list(range(6))
    assert [step["via"] for step in steps] == [None, "causes", "by name", *["causes"] * 3]
    assert [root["id"] for root in traced["roots"]] == [incidents[ROTATION]]
    assert {step["agent"] for step in steps} == {"ann", "bob", "eve"}
    assert all(step["thread"] and step["source_ref"] for step in steps)
    assert any("both name order queue" in gap for gap in traced["gaps"])
    assert any("3 days lie between" in gap for gap in traced["gaps"])
    assert any("seen fewer than 3 times" in limit for limit in traced["limits"])

    # The text indents each step below the one before.
    code, out = command("trace", "causes", incidents[CHECKOUT])
    assert (code, "\n  causes" in out, "gap: " in out, "limit: " in out) == (0, True, True, True)
    code, out = command("trace", "effects", incidents[ROTATION])
    assert code == 0
    assert incidents[CHECKOUT] in out

    # A question in words finds its incident.
    code, out = command("trace", "causes", "Why were invoices sent out twice?", "--json")
    assert code == 0, out
    assert [step["id"] for step in json.loads(out)["steps"]] == [incidents[9], incidents[8]]
