"""Who wrote what an import brings, when its source recorded and corrected it, and why."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from commonbrain.client import Brain
from commonbrain.model import ids
from commonbrain.model.errors import NotFoundError
from commonbrain.model.kinds import MessageDetail
from commonbrain.model.links import LinkType
from commonbrain.model.memory import Draft, Memory, ThreadRef
from commonbrain.model.scope import Role, Scope, Trust
from commonbrain.retrieval.get import ChangeEvent, MemoryView
from commonbrain.transfer.importer import SourceAnnotation, SourceRelation
from tests.asking import bodies
from tests.transfer.test_import_relations import NEW, OLD, id_of, piece, run

JANUARY, MARCH = datetime(2025, 1, 10, tzinfo=UTC), datetime(2025, 3, 2, tzinfo=UTC)
QUESTION = "which Postgres does the shop run on?"
CHANGED = SourceRelation(first="a#2", second="a#1", type=None, reason="new policy", at=MARCH)
PIECES = (
    piece(replace(OLD, believed_since=JANUARY)),
    piece(replace(NEW, believed_since=MARCH)),
    piece(CHANGED),
)


def agent_of(brain: Brain, agent: str, role: Role = Role.WRITER) -> Brain:
    return Brain(brain.services, replace(brain.caller, agent=agent, role=role))


def row(brain: Brain, text: str) -> Memory:
    id_ = ids.parse(ids.MEMORY, id_of(brain, text))
    with brain.services.store.snapshot(brain.caller.tenant) as tx:
        return tx.memories.get([id_])[id_]


def last_change(shown: MemoryView) -> ChangeEvent:
    assert shown.history is not None
    return shown.history[-1]


@pytest.mark.requirement("MG-21")
def test_author_of_a_source_is_the_agent_of_the_memory(brain: Brain) -> None:
    report = run(brain, [piece(replace(OLD, author="charon")), piece(NEW)])
    assert report.carried["authors"] == 1
    [listed] = brain.list(agent="charon").memories
    assert listed.headline == OLD.body
    assert bodies(brain, QUESTION, agent="charon") == [OLD.body]
    origin = brain.get(listed.id, views=["provenance"]).provenance
    assert origin is not None
    assert (origin.agent, origin.imported_by) == ("charon", brain.caller.agent)


@pytest.mark.requirement("MG-21")
def test_private_memory_of_a_source_is_its_authors_alone(brain: Brain) -> None:
    secret = replace(OLD, author="charon", scope=Scope.PRIVATE)
    pieces = [piece(secret), piece(NEW), piece(CHANGED)]
    run(brain, pieces)
    again = run(brain, pieces)
    assert (again.stored, again.exists) == (0, 2)
    assert OLD.body not in bodies(brain, QUESTION)
    charon = agent_of(brain, "charon")
    old = charon.get(id_of(charon, OLD.body))
    assert (old.agent, old.current_id) == ("charon", id_of(charon, NEW.body))
    with pytest.raises(NotFoundError):
        brain.get(old.id)


@pytest.mark.requirement("MG-21")
def test_import_of_no_admin_stays_the_importers_and_names_the_author(brain: Brain) -> None:
    writer = agent_of(brain, "eve")
    report = run(writer, [piece(replace(OLD, author="charon", scope=Scope.PRIVATE))])
    assert "authors" not in report.carried
    assert report.omitted == {"authors, kept as names: only an admin imports as others": 1}
    shown = writer.get(id_of(writer, OLD.body), views=["provenance"])
    assert shown.provenance is not None
    assert (shown.agent, shown.provenance.author) == ("eve", "charon")
    assert not agent_of(brain, "charon").list().memories


@pytest.mark.requirement("MG-21")
def test_importer_undoes_what_it_imported_for_others(brain: Brain) -> None:
    run(brain, [piece(replace(OLD, author="charon")), piece(replace(NEW, author="vision"))])
    preview = brain.undo(agent=brain.caller.agent, reason="the wrong file")
    brain.undo(agent=brain.caller.agent, reason="the wrong file", confirm=preview.count)
    assert not brain.list().memories


@pytest.mark.parametrize("name", ["*", "all", "\u202e\x07", ""])
def test_name_that_no_agent_may_have_is_no_author(brain: Brain, name: str) -> None:
    run(brain, [piece(replace(OLD, author=name))])
    assert row(brain, OLD.body).agent == brain.caller.agent


def test_mail_is_from_its_sender_and_a_chat_from_the_importer(brain: Brain) -> None:
    thread = ThreadRef(key="t", subject="Deploy")
    mail = MessageDetail(sender="charon", recipients=("vision",))
    run(
        brain,
        [
            piece(Draft(body=text, kind="message", source_ref=text, thread=thread, detail=detail))
            for text, detail in {
                "The deploy is out": mail,
                "What is the deploy?": MessageDetail(sender="user"),
            }.items()
        ],
    )
    assert row(brain, "The deploy is out").agent == "charon"
    assert row(brain, "What is the deploy?").agent == brain.caller.agent


@pytest.mark.requirement("MG-22")
def test_question_about_the_time_before_the_import_has_the_answer_of_then(brain: Brain) -> None:
    run(brain, PIECES)
    assert bodies(brain, QUESTION, as_of=JANUARY + timedelta(days=1)) == [OLD.body]
    assert bodies(brain, QUESTION, as_of=MARCH + timedelta(days=1)) == [NEW.body]
    assert not bodies(brain, QUESTION, as_of=JANUARY - timedelta(days=1))


@pytest.mark.requirement("MG-22")
def test_history_has_reason_and_time_of_a_correction_in_the_source(brain: Brain) -> None:
    report = run(brain, PIECES)
    assert (report.carried["reasons"], report.carried["supersessions"]) == (1, 1)
    change = last_change(brain.get(id_of(brain, OLD.body), views=["history"]))
    assert (change.reason, change.at) == ("imported from lines: new policy", MARCH)
    assert row(brain, OLD.body).superseded_at == MARCH


@pytest.mark.requirement("MG-31")
def test_history_of_an_import_has_causes_before_effects(brain: Brain) -> None:
    note = SourceAnnotation(about="a#1", text="Checked in May", at=MARCH)
    run(brain, [*PIECES[:2], piece(note), PIECES[2]])
    events = brain.get(id_of(brain, OLD.body), views=["history"]).history or ()
    assert [one.at for one in events] == sorted(one.at for one in events)
    assert [(one.action, one.at) for one in events[:3]] == [
        ("create", JANUARY),
        ("create", MARCH),
        ("supersede", MARCH),
    ]


@pytest.mark.requirement("MG-32")
def test_text_from_the_web_does_not_say_how_important_it_is(brain: Brain) -> None:
    given = [
        piece(replace(one, trust=trust, salience=0.97))
        for one, trust in ((OLD, Trust.UNTRUSTED_WEB), (NEW, None))
    ]
    report = run(brain, given)
    assert report.omitted["salience of texts from the web, which is computed anew"] == 1
    assert report.carried["salience"] == 1
    assert (row(brain, OLD.body).salience < 0.7, row(brain, NEW.body).salience) == (True, 0.97)


def test_dry_run_counts_authors_times_and_reasons(brain: Brain) -> None:
    pieces = [piece(replace(OLD, author="charon", access_count=3, salience=0.7)), *PIECES[1:]]
    dry = run(brain, pieces, dry_run=True)
    assert dry == run(brain, pieces)
    assert {"authors", "recorded times", "accesses", "salience", "reasons"} <= dry.carried.keys()


def test_link_has_the_time_and_reason_of_its_source(brain: Brain) -> None:
    about = SourceRelation(
        first="a#2", second="a#1", type=LinkType.RELATES_TO, reason="same host", at=MARCH
    )
    run(brain, [*PIECES[:2], piece(replace(about, strength=7.0))])
    id_ = ids.parse(ids.MEMORY, id_of(brain, NEW.body))
    with brain.services.store.snapshot(brain.caller.tenant) as tx:
        [link] = tx.links.touching([id_])
    assert (link.basis, link.created_at) == ("imported from lines: same host", MARCH)
    assert link.strength == 1.0


def test_reason_with_a_secret_is_stored_without_it(brain: Brain) -> None:
    secret = "sk-ant-" + "a8Kd0" * 8
    run(brain, [*PIECES[:2], piece(replace(CHANGED, reason=f"key {secret} leaked"))])
    change = last_change(brain.get(id_of(brain, OLD.body), views=["history"]))
    assert secret not in str(change.reason)


@pytest.mark.requirement("MG-22")
def test_accesses_and_salience_of_a_source_are_stored(brain: Brain) -> None:
    old = replace(OLD, access_count=12, last_access_at=MARCH, salience=0.9)
    run(brain, [piece(old), piece(NEW)])
    stored = row(brain, OLD.body)
    assert (stored.access_count, stored.last_access_at, stored.salience) == (12, MARCH, 0.9)


@pytest.mark.requirement("MG-22")
def test_memory_that_its_source_read_long_ago_is_fresh_on_the_day_of_its_import(
    brain: Brain,
) -> None:
    run(brain, [piece(replace(OLD, believed_since=JANUARY, last_access_at=JANUARY))])
    policy = brain.get(id_of(brain, OLD.body), views=["policy"]).policy
    assert policy is not None
    assert (policy.strength, policy.dormant) == (1.0, False)


END = datetime.max.replace(tzinfo=UTC)


def test_values_that_no_store_writes_are_bounded(brain: Brain) -> None:
    late = datetime.max.replace(tzinfo=UTC) - timedelta(days=1)
    odd = replace(
        OLD, access_count=-5, last_access_at=END, believed_since=late, salience=7.0, rating=10**12
    )
    huge = replace(NEW, access_count=10**18, believed_since=datetime.min.replace(tzinfo=UTC))
    run(brain, [piece(odd), piece(huge), piece(replace(CHANGED, at=END))])
    now = brain.services.clock.now()
    stored = row(brain, OLD.body)
    assert (stored.access_count, stored.salience) == (0, 1.0)
    assert stored.last_access_at == stored.believed_since == stored.recorded_at
    assert stored.superseded_at == now
    assert row(brain, NEW.body).access_count == 10**6
