"""Fields of atoms: made with every way in, gone with every way out, searched each by itself."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from commonbrain_causes.atomize import atomizer_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from commonbrain.client import Brain
from commonbrain.embeddings.interface import Matrix
from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import AtomDetail, CausalField, MessageDetail
from commonbrain.model.memory import Draft
from commonbrain.model.query import Filter
from commonbrain.model.scope import LOCAL_TENANT, Caller
from commonbrain.storage.interface import QueryScope
from commonbrain.testing.builders import FakeClock, WordHashEmbedder, a_brain
from tests.asking import FailingEmbedder, remember_one, stored
from tests.faults.test_repair import damage, unsound

DISK = "@atom the disk of the broker | ran full overnight | orders were lost | customers left us"
ORDERS = "@atom the lost orders | were billed twice | support drowned in calls | refunds went out"
SAID = "The release is late because the runner ran out of disk."


def vectors_of(brain: Brain, id_: str) -> set[CausalField]:
    """The fields of which a memory has a vector."""
    key = ids.parse(ids.MEMORY, id_)
    query = brain.services.embedder.query("anything")
    with brain.services.store.snapshot(LOCAL_TENANT) as tx:
        return {one for one in CausalField if tx.index.similarities(query, [key], field=one)}


def by_field(brain: Brain, query: str, field: str) -> list[str]:
    return [item.id for item in brain.recall(query, field=field).items]


@pytest.mark.requirement("CT-04", "RT-32")
def test_recall_by_field_returns_and_explains_matches_in_that_field(brain: Brain) -> None:
    disk, orders = stored(brain, DISK), stored(brain, ORDERS)
    stored(brain, "The lost orders are found.", kind="fact")

    [by_outcome] = brain.recall("lost orders", field="outcome").items
    [by_subject] = brain.recall("lost orders", field="subject").items
    assert (by_outcome.id, by_subject.id) == (disk, orders)
    assert by_outcome.why[0] == "field:outcome"
    assert set(by_outcome.why) >= {"words", "meaning"}
    assert by_field(brain, "lost orders", "consequences") == []
    assert {*by_field(brain, "", "consequences")} == {orders, disk}
    assert len(brain.recall("lost orders", max_items=12).items) == 3


@pytest.mark.requirement("CT-04")
def test_unknown_field_is_refused_with_the_known_fields(brain: Brain) -> None:
    with pytest.raises(InvalidInputError, match="'verb'") as refusal:
        brain.recall("orders", field="verb")
    assert refusal.value.hint == "Choose one of subject, action, outcome, consequences."
    with pytest.raises(InvalidInputError, match="Only atoms have fields"):
        brain.recall("orders", field="outcome", kinds=["fact"])
    assert brain.recall("orders", field="outcome", kinds=["atom"]).verdict == "nothing_stored"


def test_recall_by_field_returns_no_linked_atoms(brain: Brain) -> None:
    disk, orders = stored(brain, DISK), stored(brain, ORDERS)
    brain.revise.link(disk, orders, type="causes")

    assert by_field(brain, "customers left", "consequences") == [disk]
    assert {item.id for item in brain.recall("customers left").items} == {disk, orders}


def test_recall_by_field_hides_private_atoms_of_others(brain: Brain) -> None:
    stored(brain, DISK, scope="private")

    other = Brain(brain.services, Caller(agent="bob"))
    assert by_field(other, "orders were lost", "outcome") == []
    assert len(by_field(brain, "orders were lost", "outcome")) == 1


@pytest.mark.requirement("DM-43")
def test_every_way_of_writing_makes_the_vectors_of_fields(brain: Brain, tmp_path: Path) -> None:
    every = set(CausalField)
    by_mark = stored(brain, DISK)
    message = remember_one(brain, SAID, kind="message", detail=MessageDetail(sender="bob"))
    saved = stored(brain, "The build is slow because the cache was cold all night.", kind="event")
    later = atomizer_of(brain)(saved).items[0]
    newer = brain.revise.supersede(
        by_mark,
        "The disk was only half full.",
        reason="measured",
    )

    assert vectors_of(brain, by_mark) == every
    for id_ in (message.derived[0].id, later.id):
        assert {CausalField.SUBJECT, CausalField.OUTCOME} <= vectors_of(brain, str(id_))
    assert newer.id is not None
    brain.export(tmp_path / "a.jsonl")
    with a_brain(tmp_path / "other.db") as other:
        other.merge(tmp_path / "a.jsonl")
        assert vectors_of(other, by_mark) == every


RELAY = "@atom the relay | lost power | the mail queue stalled | none"
BURNT = "the relay | lost power | the printer caught fire | none"


@pytest.mark.parametrize("text", [BURNT, f"@atom {BURNT}"])
def test_fields_of_a_revised_atom_follow_its_new_text(brain: Brain, text: str) -> None:
    new = brain.revise.supersede(stored(brain, RELAY), text, reason="mixed up").id or ""

    assert brain.get(new).detail["outcome"] == "the printer caught fire"
    assert brain.get(new).body == BURNT
    assert by_field(brain, "printer caught fire", "outcome") == [new]
    assert by_field(brain, "mail queue stalled", "outcome") == []
    [step] = brain.trace.before("the printer caught fire").steps
    assert step.id == new


def test_revision_without_field_separators_has_only_the_given_fields(
    brain: Brain,
) -> None:
    bare = brain.revise.supersede(stored(brain, RELAY), "It was not the relay.", reason="no").id
    lamp = AtomDetail(outcome="the lamp went out")
    with_detail = brain.revise.supersede(bare or "", BURNT, reason="the lamp", detail=lamp).id

    assert not any(brain.get(bare or "").detail[name] for name in CausalField)
    atoms = brain.get(with_detail or "").detail
    assert {name: atoms[name] for name in CausalField if atoms[name]} == {"outcome": lamp.outcome}


def test_text_with_field_separators_is_parsed_into_the_fields_of_an_atom(brain: Brain) -> None:
    atom = stored(brain, BURNT, kind="atom")

    assert brain.get(atom).detail["consequences"] == "none"
    assert vectors_of(brain, atom) == set(CausalField)


def test_field_vectors_are_removed_with_the_atom_and_restored_with_the_atom(
    brain: Brain,
) -> None:
    bob = Brain(brain.services, Caller(agent="bob"))
    removed, erased, undone = (stored(bob, text) for text in (DISK, ORDERS, f"{DISK} again"))
    brain.forget(removed, reason="wrong")
    assert brain.erase(erased, reason="asked", confirm=1).count == 1
    assert vectors_of(brain, removed) == vectors_of(brain, erased) == set()

    brain.revise.restore(removed, reason="right after all")
    assert vectors_of(brain, removed) == set(CausalField)
    preview = brain.undo(agent="bob", reason="mistaken")
    brain.undo(agent="bob", reason="mistaken", confirm=preview.count)
    assert vectors_of(brain, undone) == set()


def test_fields_are_embedded_in_the_batch_of_their_texts_each_text_once(path: Path) -> None:
    embedder = CountingEmbedder()
    with a_brain(path, embedder=embedder) as brain:
        texts = (DISK, "@atom the disk of the broker | ran full overnight", "Plain fact.")
        brain.remember([Draft(body=text) for text in texts])

    [batch] = embedder.batches
    assert len(batch) == len(set(batch)) == 3 + len(CausalField)


class CountingEmbedder(WordHashEmbedder):
    """Keeps the batches that it was given."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    def passages(self, texts: Sequence[str]) -> list[Matrix]:
        self.batches.append(list(texts))
        return super().passages(texts)


def test_atom_stored_while_the_embedder_is_down_gets_its_field_vectors_later(path: Path) -> None:
    embedder = FailingEmbedder()
    with a_brain(path, embedder=embedder) as brain:
        embedder.is_down = True
        atom = stored(brain, DISK)
        assert by_field(brain, "orders", "outcome") == [atom]
        embedder.is_down = False
        assert vectors_of(brain, atom) == set()
        [missing] = brain.recall("orders", field="outcome").degraded
        assert "`brain doctor --repair`" in missing
        assert brain.recall("orders").degraded == ()

        assert brain.repair().vectors_made == 1
        assert brain.recall("orders", field="outcome").degraded == ()
        assert vectors_of(brain, atom) == set(CausalField)


@pytest.mark.requirement("DM-46")
def test_full_text_finds_an_atom_by_each_of_its_fields(
    brain: Brain, subtests: pytest.Subtests
) -> None:
    marked = stored(brain, DISK, project="here")
    distinct = stored(
        brain,
        "What became of the night of the fourth.",
        kind="atom",
        detail=AtomDetail(
            subject="the disk of the broker",
            action="ran full overnight",
            outcome="orders were lost",
            consequences="customers left us",
        ),
        project="there",
    )
    for word in ["broker", "overnight", "lost", "customers"]:
        with subtests.test(word=word):
            assert {*by_words(brain, word)} == {marked, distinct}


@pytest.mark.requirement("DM-46")
def test_full_text_search_covers_subjects_and_bodies(brain: Brain) -> None:
    message = brain.message.send("bob", "See the plan.", subject="Zinnia").id
    fact = stored(brain, "It opens at nine.", kind="fact", subject="quay")

    assert by_words(brain, "zinnia") == by_words(brain, "plan") == [message]
    assert by_words(brain, "quay") == [fact]


def by_words(brain: Brain, *words: str) -> list[str]:
    query_scope = QueryScope(caller=brain.caller, filter=Filter(), now=brain.services.clock.now())
    with brain.services.store.snapshot(LOCAL_TENANT) as tx:
        return [
            ids.show(ids.MEMORY, hit.id) for hit in tx.index.lexical(words, query_scope, limit=9)
        ]


@pytest.mark.requirement("CT-04")
def test_atom_always_has_the_time_of_its_event(brain: Brain, clock: FakeClock) -> None:
    dated = stored(brain, DISK, occurred_at="2026-01-05T08:00:00Z")
    message = (
        remember_one(brain, SAID, kind="message", occurred_at="2026-02-07T08:00:00Z").derived[0].id
    )
    now = stored(brain, ORDERS)

    times = {id_: brain.get(str(id_), bump=False).occurred_at for id_ in (dated, message, now)}
    assert {id_: at.date().isoformat() for id_, at in times.items()} == {
        dated: "2026-01-05",
        message: "2026-02-07",
        now: clock.now().date().isoformat(),
    }


@pytest.mark.requirement("CT-06")
def test_query_about_a_time_matches_atoms_by_their_time(brain: Brain) -> None:
    january = stored(brain, DISK, occurred_at="2026-01-05T08:00:00Z")
    text = DISK.replace("broker", "ledger")
    february = stored(brain, text, occurred_at="2026-02-07T08:00:00Z")

    def matches(query: str, **options: str) -> list[str]:
        return [item.id for item in brain.recall(query, kinds=["atom"], **options).items]  # pyright: ignore[reportArgumentType]

    assert matches("lost orders", since="2026-02-01") == [february]
    assert matches("lost orders", until="2026-01-31") == [january]
    assert matches("orders in January 2026")[0] == january
    assert matches("orders in February 2026")[0] == february
    assert matches("what happened in January 2026?") == [january]
    assert matches("orders", field="outcome", since="2026-01-01", until="2026-01-31") == [january]
    assert matches("orders", field="outcome", until="2025-12-31") == []


@pytest.mark.of_a_file
def test_damaged_fields_are_reported_and_repaired(path: Path) -> None:
    with a_brain(path) as brain:
        atom = stored(brain, DISK)
        stored(brain, ORDERS)
        damage(
            path,
            "UPDATE field_vectors SET vector = x'00' WHERE field = 'outcome'",
            "DELETE FROM atom_text",
            "INSERT INTO atom_text (rowid, subject) VALUES (5, 'a ghost')",
        )
        assert unsound(brain.doctor()) == {
            "fields",
            "fields, stale",
            "vectors of fields, space",
        }
        brain.repair()

        assert unsound(brain.doctor()) == set()
        assert by_field(brain, "orders were lost", "outcome") == [atom]
        assert vectors_of(brain, atom) == set(CausalField)


WORDS = ("disk", "queue", "full", "lost", "orders")
CLAUSES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    atoms=st.lists(st.tuples(CLAUSES, CLAUSES, st.booleans()), max_size=12, unique=True),
    query=CLAUSES,
)
def test_recall_by_field_returns_the_nearest_visible_atoms_only(
    tmp_path_factory: pytest.TempPathFactory,
    atoms: list[tuple[str, str, bool]],
    query: str,
) -> None:
    with a_brain(tmp_path_factory.mktemp("law") / "brain.db") as brain:
        bob = Brain(brain.services, Caller(agent="bob"))
        texts = dict[int, str]()
        for number, (subject, outcome, is_private) in enumerate(atoms):
            scope = "private" if is_private else "team"
            text = f"@atom {subject} of n{number} | fell | {outcome}"
            id_ = ids.parse(ids.MEMORY, stored(bob, text, scope=scope))
            if not is_private:
                texts[id_] = outcome
        requested = brain.services.embedder.query(query)
        query_scope = QueryScope(
            caller=brain.caller,
            filter=Filter(field=CausalField.OUTCOME),
            now=brain.services.clock.now(),
        )
        with brain.services.store.snapshot(LOCAL_TENANT) as tx:
            hits = tx.index.nearest(requested, query_scope, limit=50)

    true = {
        i: float(requested @ brain.services.embedder.query(message)) for i, message in texts.items()
    }
    assert {hit.id: hit.score for hit in hits} == pytest.approx(true, abs=1e-2)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
