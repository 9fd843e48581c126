"""What comes over from Open Brain, column by column, from a server and from a dump of it."""

import json
import subprocess
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from fidelity import (
    CarriedOver,
    Exported,
    Fate,
    Left,
    Used,
    check_fidelity,
    exported,
    import_interrupted,
    postgres_columns,
)
from predecessor_stores import (
    CHAINS,
    FULL,
    MADE,
    PINS,
    day,
    dump_open_brain,
    fill_open_brain,
    first_version,
)

from commonbrain.client import Brain
from tests.postgres import Server
from tests.processes import TIMEOUT_S, clean_environment, command

FIRST, SECOND = "open-brain", "open-brain-v2"


@pytest.fixture(scope="module")
def urls(postgres: Server) -> Iterator[dict[str, str]]:
    """Give the URL of a filled database of each version."""
    with postgres.database(is_empty=True) as one, postgres.database(is_empty=True) as two:
        fill_open_brain(one.owner, "v1")
        fill_open_brain(two.owner, "v2")
        yield {"v1": one.owner, "v2": two.owner}


@pytest.fixture(scope="module")
def dumps(urls: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("dumps")
    return {one: dump_open_brain(url, folder / f"{one}.sql") for one, url in urls.items()}


def at(time: datetime) -> str:
    return time.isoformat().replace("+00:00", "Z")


def of_table(table: str, names: str, line: str) -> dict[str, Fate]:
    return {f"{table}.{name}": Left(line) for name in names.split()}


def first_fates(store: Exported) -> dict[str, Fate]:
    """Say what became of each column of the first version."""
    full, old = store.memory(f"{FIRST}#{FULL}"), store.memory(f"{FIRST}#1")
    row = next(one for one in first_version() if one["id"] == FULL)
    (note,) = store.by("annotation", f"{FIRST}#{FULL}")
    skill, pin = store.memory(f"{FIRST}#34"), store.memory(f"{FIRST}#38")
    metadata = (full["label"], full["agent"], full["auto_captured"], "ana" in full["people"])
    return {
        **{
            f"memories.{name}": fate
            for name, fate in {
                "id": CarriedOver(f"{FIRST}#{FULL}", full["source_ref"]),
                "content": CarriedOver(row["content"], full["body"]),
                "embedding": Left("vectors"),
                "metadata": CarriedOver(("decision", "claude", True, True), metadata),
                "created_at": CarriedOver(at(day(FULL)), full["believed_since"]),
                "transaction_time": Left("transaction times after the creation"),
                "valid_time": CarriedOver(at(day(FULL) - timedelta(hours=2)), full["occurred_at"]),
                "updated_at": Left("times of the last change"),
                "last_accessed": CarriedOver(at(day(FULL + 2)), full["last_access_at"]),
                "access_count": CarriedOver(FULL, full["access_count"]),
                "last_accessed_uptime": Left("uptimes at the last access"),
                "project": CarriedOver("harbour", full["project"]),
                "projects": CarriedOver(
                    "project:dock", next(t for t in full["tags"] if t.startswith("p"))
                ),
                "annotation": CarriedOver(row["annotation"], note["text"]),
                "upvotes": CarriedOver(3, full["rating"]),
                "downvotes": CarriedOver(3, full["rating"]),
                "pinned": CarriedOver(True, pin["pinned"]),  # noqa: FBT003 the value in the source
                "superseded_by_id": CarriedOver(
                    store.memory(f"{FIRST}#2")["id"], old["superseded_by"]
                ),
                "superseded_at": CarriedOver(
                    at(day(21) - timedelta(minutes=20)), old["superseded_at"]
                ),
                "superseded_reason": CarriedOver(
                    ["the vendor changed it"], reasons(store, f"{FIRST}#1")
                ),
                "skill_trigger": CarriedOver("ollama-shutdown", skill["detail"]["skill"]["name"]),
            }.items()
        },
        **of_table(
            "memories_audit",
            "audit_id operation memory_id content metadata project pinned changed_at changed_by",
            "audit entries",
        ),
        **of_table(
            "active_sessions",
            "id source project cwd pid host current_task started_at "
            "heartbeat_at ended_at status metadata pid_create_time",
            "sessions",
        ),
        **of_table("server_uptime", "id total_seconds last_heartbeat", "uptimes of the server"),
    }


def reasons(store: Exported, source_ref: str) -> list[str]:
    """Return why a memory was superseded, without what names the import."""
    changes = store.by("change", source_ref)
    return [one["reason"].rpartition(": ")[2] for one in changes if one["action"] == "supersede"]


@pytest.mark.requirement("MG-24")
@pytest.mark.parametrize("source", ["server", "dump"])
def test_each_column_of_the_first_version_comes_over_or_is_counted(
    brain: Brain, urls: dict[str, str], dumps: dict[str, Path], tmp_path: Path, source: str
) -> None:
    report = brain.import_("open-brain", urls["v1"] if source == "server" else dumps["v1"])
    assert (report.read, report.stored, report.rejected) == (MADE["v1"], MADE["v1"], 0)
    counts = {"supersessions": 2 * CHAINS, "pins": len(PINS), "annotations": 4, "reasons": 22}
    assert {name: report.carried[name] for name in counts} == counts
    fates = first_fates(exported(brain, tmp_path / "store.jsonl"))
    check_fidelity(postgres_columns(urls["v1"]), fates=fates, report=report)


def second_fates(store: Exported) -> dict[str, Fate]:
    """Say what became of each column of the second version."""
    rule, old_rule = store.memory(f"{SECOND}#rule/9"), store.memory(f"{SECOND}#rule/1")
    fact, old_fact = store.memory(f"{SECOND}#fact/7"), store.memory(f"{SECOND}#fact/1")
    incident, item = store.memory(f"{SECOND}#incident/4"), store.memory(f"{SECOND}#action-item/2")
    task, note = store.memory(f"{SECOND}#task/1"), store.memory(f"{SECOND}#handoff/1")
    (seen,) = store.by("annotation", f"{SECOND}#incident/4")
    (answer,) = store.by("annotation", f"{SECOND}#action-item/2")
    led_to = {store.memory(f"{SECOND}#incident/{n}")["id"]: n for n in range(1, 11)}
    supports = [led_to[one["from_id"]] for one in store.of("link") if one["type"] == "supports"]
    (about,) = store.by("link", f"{SECOND}#action-item/2", named="from_id")
    skill = store.memory(f"{SECOND}#rule/13")["detail"]["skill"]
    fates: dict[str, dict[str, Fate]] = {
        "rules": {
            "id": CarriedOver(f"{SECOND}#rule/9", rule["source_ref"]),
            "headline": CarriedOver("Rule 9 of the harbour", rule["headline"]),
            "body": CarriedOver("Never open the crane 9 without a second person.", rule["body"]),
            "severity": CarriedOver("BLOCKER", rule["detail"]["severity"]),
            "project": CarriedOver("harbour", rule["project"]),
            "source": CarriedOver("claude", rule["agent"]),
            "supersedes": Used("It repeats superseded_by."),
            "superseded_by": CarriedOver(
                store.memory(f"{SECOND}#rule/2")["id"], old_rule["superseded_by"]
            ),
            "supersede_reason": CarriedOver(["new policy"], reasons(store, f"{SECOND}#rule/1")),
            "linked_incident_ids": CarriedOver([9, 10], sorted(supports)[3:5]),
            "skill_trigger": CarriedOver("nginx-reload", skill["name"]),
            "created_at": CarriedOver(at(day(9)), rule["believed_since"]),
        },
        "facts": {
            "id": CarriedOver(f"{SECOND}#fact/7", fact["source_ref"]),
            "headline": CarriedOver("Fact 7 of the harbour", fact["headline"]),
            "body": CarriedOver("The dredger 7 has a spare winch.", fact["body"]),
            "project": CarriedOver("harbour", fact["project"]),
            "tags": CarriedOver(["tag7"], fact["tags"]),
            "ttl": CarriedOver(at(day(4007)), fact["expires_at"]),
            "confidence": CarriedOver(0.32, round(fact["confidence"], 3)),
            "access_count": CarriedOver(7, fact["access_count"]),
            "last_accessed": CarriedOver(at(day(9)), fact["last_access_at"]),
            "source": CarriedOver("cursor", fact["agent"]),
            "supersedes": Used("It repeats superseded_by."),
            "superseded_by": CarriedOver(
                store.memory(f"{SECOND}#fact/2")["id"], old_fact["superseded_by"]
            ),
            "supersede_reason": CarriedOver(["new policy"], reasons(store, f"{SECOND}#fact/1")),
            "created_at": CarriedOver(at(day(7)), fact["occurred_at"]),
        },
        "incidents": {
            "id": CarriedOver(f"{SECOND}#incident/4", incident["source_ref"]),
            "headline": CarriedOver("Incident 4 of the harbour", incident["headline"]),
            "body": CarriedOver("The ferry stood still for 24 minutes.", incident["body"]),
            "project": CarriedOver("harbour", incident["project"]),
            "root_cause": CarriedOver("Fuse 4 had blown.", incident["detail"]["root_cause"]),
            "resolution": CarriedOver("Fuse 4 was replaced.", incident["detail"]["resolution"]),
            "linked_rule_ids": CarriedOver([6, 7, 8], sorted(supports)[:3]),
            "occurred_at": CarriedOver(at(day(4) - timedelta(hours=3)), incident["occurred_at"]),
            "last_accessed": CarriedOver(at(day(7)), incident["last_access_at"]),
            "archived": Left("archived marks"),
            "source": CarriedOver("cursor", incident["agent"]),
        },
        "tasks": {
            "id": CarriedOver(f"{SECOND}#task/1", task["source_ref"]),
            "content": CarriedOver("Grease the bearings of tug 1.", task["body"]),
            "project": CarriedOver("harbour", task["project"]),
            "priority": CarriedOver("high", task["detail"]["priority"]),
            "status": CarriedOver("blocked", task["detail"]["status"]),
            "due_condition": CarriedOver("2027-01-09T00:00:00Z", task["detail"]["due_at"]),
            "created_session": Left("sessions that made tasks"),
            "created_at": CarriedOver(at(day(1)), task["believed_since"]),
            "updated_at": Left("times of the last change"),
        },
        "memory_index": {
            "kind": CarriedOver("incident", incident["kind"]),
            "memory_id": CarriedOver(f"{SECOND}#incident/4", incident["source_ref"]),
            "project": Used("It repeats that of the memory."),
            "headline": Used("It repeats that of the memory."),
            "severity": Used("It repeats that of the rule."),
            "skill_trigger": Used("It repeats that of the rule."),
            "embedding": Left("vectors"),
            "pinned": CarriedOver(True, store.memory(f"{SECOND}#rule/6")["pinned"]),  # noqa: FBT003
            "active": Used("A rule that was withdrawn is left, and counted."),
            "forgotten_at": Left("deleted memories"),
            "forgotten_reason": Left("deleted memories"),
            "forgotten_by": Left("deleted memories"),
            "annotation": CarriedOver("See file 4.", seen["text"]),
            "upvotes": CarriedOver(3, fact["rating"]),
            "downvotes": CarriedOver(3, fact["rating"]),
            "created_at": CarriedOver(at(day(4) + timedelta(hours=1)), incident["believed_since"]),
        },
        "action_items": {
            "id": CarriedOver(f"{SECOND}#action-item/2", item["source_ref"]),
            "source_kind": CarriedOver(2, led_to[about["to_id"]]),
            "source_id": CarriedOver(2, led_to[about["to_id"]]),
            "text": CarriedOver("Order 32 fuses.", item["body"]),
            "project": CarriedOver("harbour", item["project"]),
            "status": CarriedOver("done", item["detail"]["status"]),
            "kind": CarriedOver(["rule"], item["tags"]),
            "ack_reason": CarriedOver("not_relevant: Ben has some.", answer["text"]),
            "ack_source": CarriedOver("cursor", answer["agent"]),
            "ack_at": CarriedOver(at(day(60)), answer["at"]),
            "created_at": CarriedOver(at(day(2)), item["believed_since"]),
        },
        "handoffs": {
            "id": CarriedOver(f"{SECOND}#handoff/1", note["source_ref"]),
            "session_id": Left("sessions of handoffs"),
            "source": CarriedOver("cursor", note["agent"]),
            "project": CarriedOver("harbour", note["project"]),
            "content": CarriedOver(
                "The report for week 1 is half done; the sums are missing.", note["body"]
            ),
            "created_at": CarriedOver(at(day(1)), note["believed_since"]),
        },
    }
    return {
        **{f"{table}.{name}": fate for table, of in fates.items() for name, fate in of.items()},
        **of_table(
            "active_sessions",
            "id source project cwd pid host current_task started_at "
            "heartbeat_at ended_at status metadata pid_create_time",
            "sessions",
        ),
        **of_table(
            "maintenance_runs", "id started_at finished_at report source", "maintenance runs"
        ),
        **of_table(
            "v2_audit",
            "audit_id operation kind memory_id snapshot source changed_at",
            "audit entries",
        ),
        **of_table(
            "tool_events",
            "id session_id tool_name project source duration_ms success error_msg occurred_at",
            "tool calls",
        ),
    }


@pytest.mark.requirement("MG-24")
@pytest.mark.parametrize("source", ["server", "dump"])
def test_each_column_of_the_second_version_comes_over_or_is_counted(
    brain: Brain, urls: dict[str, str], dumps: dict[str, Path], tmp_path: Path, source: str
) -> None:
    report = brain.import_("open-brain", urls["v2"] if source == "server" else dumps["v2"])
    assert (report.read, report.stored, report.rejected) == (MADE["v2"], MADE["v2"], 0)
    fates = second_fates(exported(brain, tmp_path / "store.jsonl"))
    check_fidelity(postgres_columns(urls["v2"]), fates=fates, report=report)


def test_import_of_open_brain_that_was_interrupted_goes_on_and_doubles_nothing(
    brain: Brain, dumps: dict[str, Path], tmp_path: Path
) -> None:
    report = import_interrupted(brain, "open-brain", dumps["v1"])
    assert (report.stored + report.exists, report.carried["annotations"]) == (MADE["v1"], 4)
    fates = first_fates(exported(brain, tmp_path / "store.jsonl"))
    assert all(one.given == one.stored for one in fates.values() if isinstance(one, CarriedOver))


def test_command_imports_open_brain_and_a_second_time_stores_nothing(
    dumps: dict[str, Path], tmp_path: Path
) -> None:
    reports = [
        json.loads(
            subprocess.run(
                command(tmp_path / "brain.db", "import", "open-brain", str(dumps["v2"]), "--json"),
                env=clean_environment(),
                check=True,
                capture_output=True,
                timeout=TIMEOUT_S,
            ).stdout
        )
        for _ in range(2)
    ]
    assert [(one["stored"], one["exists"]) for one in reports] == [
        (MADE["v2"], 0),
        (0, MADE["v2"]),
    ]
    assert reports[0]["omitted"] == reports[1]["omitted"]
