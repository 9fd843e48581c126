import pytest

from commonbrain.client import Brain
from commonbrain.ingestion.result import ItemStatus
from commonbrain.model.errors import RejectedError
from commonbrain.model.kinds import Kind
from commonbrain.model.limits import RAW_TEXT_BYTES_MAX
from commonbrain.model.memory import Draft
from tests.asking import bodies, remember_one
from tests.secrets import SECRETS

MINUTES = """# Minutes

Never deploy to production on a Friday afternoon.

The outage at noon was caused by a full disk, search failed for an hour.

We need to rotate the certificates before March.

The staging database listens on port 5433 these days."""


@pytest.mark.requirement("WP-39")
def test_raw_text_is_split_classified_and_checked_by_passage(brain: Brain) -> None:
    done = brain.remember(MINUTES, project="api", tags=["minutes"])
    assert [one.kind for one in done.items] == [Kind.RULE, Kind.INCIDENT, Kind.TASK, Kind.FACT]
    assert {one.status for one in done.items} == {ItemStatus.STORED}
    last = brain.get(str(done.items[3].id))
    assert (last.tags, last.section) == (("minutes",), "Minutes")
    assert bodies(brain, "certificates", project="api") == [MINUTES.split("\n\n")[3]]


def test_no_passage_is_lost_and_titles_are_context(brain: Brain) -> None:
    text = "The API is written in Go.\n\nPort: 8080\n\n# Postmortem 12\n\n## Cause\nDisk full."
    done = brain.remember(text).items
    assert [brain.get(str(one.id)).body for one in done] == [
        "The API is written in Go.\n\nPort: 8080",
        "# Postmortem 12\n\n## Cause\n\nDisk full.",
    ]
    [item, *_] = brain.recall("cause of postmortem 12").items
    assert (item.id, item.context) == (done[1].id, "Postmortem 12 > Cause")
    brain.revise.supersede(item.id, text="## Cause\n\nDisk full of logs.", reason="more")
    assert brain.get(brain.get(item.id).current_id).section == "Postmortem 12 > Cause"


@pytest.mark.requirement("WP-42", "WP-15")
def test_every_passage_has_its_own_outcome(brain: Brain) -> None:
    existing = remember_one(
        brain, "The staging database listens on port 5433 these days.", kind="fact"
    )
    leak = f"This is what leaked: {SECRETS['npm'][0]}"
    done = brain.remember(f"{MINUTES}\n\n{leak}").items
    assert [one.status for one in done] == [ItemStatus.STORED] * 3 + [
        ItemStatus.EXISTS,
        ItemStatus.REJECTED,
    ]
    assert (done[3].id, done[4].code) == (existing.id, "secret_detected")


@pytest.mark.parametrize("known", [{"kind": "event"}, {"headline": "Minutes"}, {"chunks": False}])
def test_text_with_a_given_kind_or_headline_is_not_split(
    brain: Brain, known: dict[str, str | bool]
) -> None:
    done = brain.remember(MINUTES, **known)  # type: ignore[arg-type]
    assert [one.status for one in done.items] == [ItemStatus.STORED]
    assert brain.get(str(done.items[0].id)).body == MINUTES


def test_text_too_long_for_its_kind_is_split_into_memories_of_that_kind(brain: Brain) -> None:
    words = "which its team keeps a runbook for in the wiki and pages the person on call about"
    text = "\n\n".join(f"Service {n} listens on port {8000 + n}, {words}" for n in range(30))
    done = brain.remember(text, kind="decision", project="api", source_ref="wiki/services")
    assert {one.status for one in done.items} == {ItemStatus.STORED}
    memories = [brain.get(str(one.id)) for one in done.items]
    assert [one.body for one in memories] == text.split("\n\n")
    assert {(one.kind, one.label, one.project, one.source_ref) for one in memories} == {
        (Kind.FACT, "decision", "api", "wiki/services")
    }


def test_text_too_long_for_its_kind_is_refused_if_it_may_not_be_split(
    brain: Brain, subtests: pytest.Subtests
) -> None:
    text = "\n\n".join(f"Service {n} listens on port {8000 + n} of the host" for n in range(60))
    for fields in ({"headline": "Services"}, {"chunks": False}):
        with subtests.test(fields=fields):
            done = brain.remember(text, kind="fact", **fields)  # type: ignore[arg-type]
            assert [one.code for one in done.items] == ["gate_atomicity"]


def test_heading_over_a_single_statement_stays_with_the_statement(brain: Brain) -> None:
    text = "# Port\n\nThe staging database listens on port 5433."
    [outcome] = brain.remember(text).items
    assert brain.get(str(outcome.id)).body == text


def test_ten_megabytes_are_refused_at_once(brain: Brain) -> None:
    [outcome] = brain.remember("a b c d e f\n\n" * 800_000).items
    assert (outcome.status, outcome.code) == (ItemStatus.REJECTED, "limit_exceeded")
    [of_a_kind] = brain.remember(Draft(body="x" * (RAW_TEXT_BYTES_MAX + 1), kind="event")).items
    assert of_a_kind.code == "limit_exceeded"


def test_text_with_too_many_passages_is_refused_whole(brain: Brain) -> None:
    with pytest.raises(RejectedError, match="passages"):
        brain.remember("one two three four five\n\n" * 1001)
    assert brain.status().memories == 0


@pytest.mark.requirement("WP-25")
def test_each_stage_is_timed(brain: Brain) -> None:
    timed = brain.remember(MINUTES).stages_ms or {}
    assert list(timed) == [
        *("normalise", "screen", "classify", "gate", "embed", "decide", "commit"),
    ]


def test_texts_with_sql_markup_or_control_characters_are_stored_as_data(
    brain: Brain, subtests: pytest.Subtests
) -> None:
    for text in (
        *("'; DROP TABLE memories; --", '" OR 1=1 NEAR(a b) *', "<script>alert(1)</script> & <b>"),
        *("שלום עולם זה מבחן", "👩‍🔬 🎉 shipped it", "\x00\x01binary\x07 \x1b[31mred", "a\ud83db"),
        *("%s %d {} {0} ${x}", "NULL", "\u202eevil right to left override", "ﬀ ligature ½"),
    ):
        with subtests.test(text=text):
            outcome = remember_one(brain, text, kind="event")
            assert outcome.status is ItemStatus.STORED
            assert not {"\x00", "\x07", "\x1b"} & set(brain.get(str(outcome.id)).body or "")
            assert brain.recall(text.encode("utf-8", "replace").decode()).items
            assert all(finding.is_sound for finding in brain.doctor().findings)


def test_empty_text_is_rejected(brain: Brain, subtests: pytest.Subtests) -> None:
    for text in ("", "   ", "\n\n\n", "\x00\x07"):
        with subtests.test(text=text):
            outcome = remember_one(brain, text)
            assert (outcome.status, outcome.id) == (ItemStatus.REJECTED, None)
            assert brain.status().memories == 0
