"""Many memories in one call of the command, each answered for itself."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from commonbrain.cli.main import run
from commonbrain.runtime.bootstrap import open_brain
from tests.laid_out_stores import lay_out_store
from tests.processes import AS_PERSON

Offer = Callable[..., tuple[int, Any]]


@pytest.fixture
def offer(path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Offer:
    """Run `brain remember --file -` on these bytes; give its exit code and its JSON."""
    lay_out_store(path)
    monkeypatch.setenv("COMMONBRAIN_STORE", str(path))
    for name, value in AS_PERSON.items():
        monkeypatch.setenv(name, value)

    def offer(stdin: bytes, *more: str, file: str = "-") -> tuple[int, Any]:
        arguments = ("remember", "--file", file, "--json", *more)
        monkeypatch.setattr(sys, "argv", ["brain", *arguments])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as left:
            run()
        assert isinstance(left.value.code, int)
        return left.value.code, json.loads(capsys.readouterr().out)

    return offer


def lines(*drafts: object) -> bytes:
    return "\n".join(json.dumps(draft) for draft in drafts).encode()


@pytest.mark.requirement("WP-28")
def test_every_line_of_a_file_has_a_result_of_its_own(offer: Offer, tmp_path: Path) -> None:
    file = tmp_path / "items.jsonl"
    file.write_bytes(
        lines(
            {"text": "Tea is at noon", "kind": "fact", "tags": ["tea"]},
            {"text": "", "kind": "fact"},
            {"text": "Never boil it twice", "kind": "rule", "severity": "BLOCKER"},
        )
        + b"\n\n"
    )
    code, reply = offer(b"", "--project", "kitchen", file=str(file))
    assert code == 3
    assert [one["status"] for one in reply["items"]] == ["stored", "rejected", "stored"]

    code, reply = offer(file.read_bytes().splitlines()[0], "--project", "kitchen")
    assert (code, [one["status"] for one in reply["items"]]) == (3, ["exists"])

    again = {"text": "At noon there is tea", "kind": "fact"}
    insisting = again | {"text": "Tea is at noon", "distinct_because": "the new kitchen"}
    code, reply = offer(lines(again), "--project", "kitchen")
    assert (code, [one["status"] for one in reply["items"]]) == (3, ["duplicate"])
    code, reply = offer(lines(insisting), "--project", "kitchen")
    assert (code, [one["status"] for one in reply["items"]]) == (0, ["stored"])


@pytest.mark.requirement("WP-28")
def test_invalid_item_is_rejected_without_the_others(
    offer: Offer, subtests: pytest.Subtests
) -> None:
    cases: tuple[tuple[dict[str, str], str], ...] = (
        ({"text": "x", "colour": "red"}, "colour"),
        ({"text": "x", "headlines": "y"}, "'headline'"),
        ({"text": "x", "scope": "moon"}, "moon"),
        ({"text": "x", "confidence": "sure"}, "confidence"),
        ({"text": "b", "idempotency_key": "k"}, "idempotency_key"),
    )
    code, reply = offer(lines(*(item for item, _ in cases), {"text": "Tea is at noon"}))
    assert code == 3
    *rejected, last = reply["items"]
    assert last["status"] == "stored"
    for (item, named), result in zip(cases, rejected, strict=True):
        with subtests.test(item=item):
            assert result["status"] == "rejected"
            assert named in result["reason"]


def test_file_with_a_malformed_line_stores_nothing_and_names_the_line(
    offer: Offer, subtests: pytest.Subtests
) -> None:
    cases = (
        (lines({"text": "Tea is at noon"}, ["no object"]), "Line 2"),
        (lines({"text": "Tea is at noon"}) + b"\n{broken", "Line 2"),
        (b"[" * 100_000, "Line 1"),
        (b"\xff\xfe\x00", "Line 1"),
        (b" " * (64 * 1024 * 1024 + 1), "bytes"),
    )
    for stdin, named in cases:
        with subtests.test(start=stdin[:40]):
            code, reply = offer(stdin)
            assert code == 2
            assert named in reply["error"]["message"]
    assert offer(lines({"text": "Tea is at noon"}))[1]["items"][0]["status"] == "stored"


def test_file_of_any_length_is_stored_and_a_bad_line_at_its_end_stores_nothing(
    offer: Offer, path: Path
) -> None:
    many = lines(*({"text": f"Order {n} came"} for n in range(250)), {"text": ""})
    assert offer(many + b"\n{broken")[0] == 2
    code, reply = offer(many, "--idempotency-key", "k1")
    assert code == 3
    assert [one["status"] for one in reply["items"]] == ["stored"] * 250 + ["rejected"]
    assert offer(many, "--idempotency-key", "k1")[1]["items"] == reply["items"]
    with open_brain(path) as brain:
        assert brain.status().memories == 250


def test_missing_file_and_text_next_to_a_file_are_refused(offer: Offer) -> None:
    assert offer(b"", file="/nowhere/items.jsonl")[0] == 2
    assert offer(b"", "A text")[0] == 2


def test_file_sent_again_with_its_idempotency_key_stores_nothing(offer: Offer) -> None:
    stdin = lines({"text": "The kettle broke", "kind": "incident"})
    first, again = (offer(stdin, "--idempotency-key", "k1")[1]["items"] for _ in range(2))
    assert first == again


@pytest.mark.requirement("DM-63", "DM-09", "DM-21")
def test_lines_set_the_columns_of_their_kinds(offer: Offer, path: Path) -> None:
    incident = {"text": "The kettle broke", "root_cause": "Lime", "resolution": "Vinegar"}
    task = {"text": "Buy a kettle", "priority": "high", "due_at": "2030-01-01", "assignee": "bob"}
    skill = {"text": "Never boil it twice", "kind": "rule", "skill_name": "tea"}
    skill |= {"keywords": ["kettle"], "confidence": 0.9}
    _, reply = offer(lines(incident, task, {"text": "Tea is hot", "ttl_s": 600}, skill))
    with open_brain(path) as brain:
        rule = brain.get(reply["items"][3]["id"])
        broke, buy, hot, tea = (brain.get(one["id"]).detail for one in reply["items"])
    assert (broke["root_cause"], broke["resolution"]) == ("Lime", "Vinegar")
    assert (buy["priority"], buy["assignee"], hot["ttl_s"]) == ("high", "bob", 600)
    assert (tea["skill"], rule.confidence) == (
        {"name": "tea", "keywords": ["kettle"], "projects": [], "always_on": False},
        0.9,
    )
