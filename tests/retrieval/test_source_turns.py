"""What was derived from a message or event says so, and a fact brings the sentence."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from commonbrain.client import Brain
from commonbrain.embeddings.interface import Embedder
from commonbrain.model.kinds import Kind, MessageDetail
from commonbrain.model.memory import Draft, ThreadRef
from commonbrain.model.recall_result import RecallResult
from commonbrain.model.scope import Role, Scope
from commonbrain.retrieval.plan import RetrievalOverrides
from commonbrain.retrieval.recall import Recall
from commonbrain.runtime.models import make_embedder
from commonbrain.runtime.settings_loading import load_settings
from commonbrain.testing.builders import FakeClock, a_brain
from commonbrain.text.tokens import estimate
from tests.asking import stored

# Two friends talk; a fact was taken from some of the turns, and each question asks for a detail
# that only the turn has.
TALK = (
    ("mia", "Hey! I finally signed up for that pottery class at the Kiln House on Mill Road.", ""),
    ("olof", "Nice! Is it on Tuesdays again?", ""),
    ("mia", "Wednesdays this time, seven to nine, and Petra is coming along.", ""),
    ("olof", "I went to the doctor about my knee, it is the meniscus, so no running until June.",
     "Olof has a knee injury."),
    ("mia", "Oh no. My brother Tom had the same, he swam every morning at the Eriksdal pool.",
     "Tom, Mia's brother, once had a knee injury."),
    ("olof", "Swimming sounds good. We adopted a dog by the way, a grey whippet called Biscuit!",
     "Olof adopted a dog."),
    ("mia", "Aww. I start the new job on the ninth, at the museum, in the textile archive.",
     "Mia has a new job."),
    ("olof", "Congratulations! We fly to Lisbon for our anniversary, from the 3rd to the 8th.",
     "Olof and his partner celebrate their anniversary abroad."),
    ("olof", "I will bring tiles! The boat went to a student from Uppsala, for 2,300.",
     "Olof's boat has another owner."),
)  # fmt: skip
ASKED = {
    "Until when may Olof not run because of his knee injury?": "June",
    "What did Tom, Mia's brother, do for his knee injury?": "Eriksdal",
    "What is the dog called that Olof adopted?": "Biscuit",
    "In which department of the museum is Mia's new job?": "textile",
    "Where do Olof and his partner celebrate their anniversary abroad?": "Lisbon",
    "For how much did Olof's boat go to another owner?": "2,300",
}


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return make_embedder(load_settings())


@pytest.fixture(scope="module")
def talk(tmp_path_factory: pytest.TempPathFactory, embedder: Embedder) -> Iterator[Brain]:
    clock = FakeClock()
    path = tmp_path_factory.mktemp("talk") / "brain.db"
    with a_brain(path, clock=clock, embedder=embedder) as brain:
        for who, text, fact in TALK:
            clock.move(timedelta(minutes=3))
            turn = say(brain, text, who=who)
            if fact:
                stored(brain, fact, kind="fact", source_message=turn)
        yield brain


def say(brain: Brain, body: str, *, who: str = "mia", scope: Scope = Scope.TEAM) -> str:
    """Store one message of a thread; give its id."""
    draft = Draft(
        kind=Kind.MESSAGE,
        body=body,
        scope=scope,
        thread=ThreadRef(key="talk", subject="Talk"),
        detail=MessageDetail(sender=who),
    )
    [item] = brain.remember([draft]).items
    return str(item.id)


def facts(brain: Brain, query: str, *without: str, **options: object) -> RecallResult:
    """Recall facts only, as an agent does that wants conclusions instead of conversations."""
    recall = Recall(brain.services, brain.caller, RetrievalOverrides(without=frozenset(without)))
    return recall(query, kinds=["fact"], bump=False, **options)  # type: ignore[arg-type]


@pytest.mark.requirement("PV-10")
def test_facts_are_recalled_by_words_of_their_source_turns(talk: Brain) -> None:
    answered = [word in facts(talk, query).evidence for query, word in ASKED.items()]
    without = [word in facts(talk, query, "source_turns").evidence for query, word in ASKED.items()]
    assert (sum(answered), sum(without)) == (len(ASKED), 0)


def test_source_turn_fits_into_the_remaining_token_budget(talk: Brain) -> None:
    for max_tokens in range(64, 480, 16):
        result = facts(talk, "What is the dog called that Olof adopted?", max_tokens=max_tokens)
        assert estimate(result.evidence) <= result.tokens <= max_tokens
        assert result.items[0].source is None or max_tokens > 100


def test_source_turn_that_is_also_an_item_is_not_repeated(talk: Brain) -> None:
    result = talk.recall("What is the dog called that Olof adopted?", bump=False)
    item_ids = [item.id for item in result.items]
    turns = [item.source.id for item in result.items if item.source and item.source.kind]
    assert not {*item_ids} & {*turns}
    assert result.evidence.count("Biscuit") == 1


TURN = "We took Biscuit home from the shelter in Farsta on Friday."
FACT = "Olof has a dog."
QUERY = "Does Olof have a dog?"


def turn_of(brain: Brain, query: str = QUERY, **options: object) -> str | None:
    """Give the text of the turn that comes with the first fact."""
    [first, *_] = facts(brain, query, **options).items
    return first.source and first.source.text


def test_source_turn_is_quoted_with_its_speaker_and_day(brain: Brain) -> None:
    turn = say(brain, TURN, who="olof")
    stored(brain, FACT, source_message=turn)
    result = facts(brain, QUERY)
    [source] = [item.source for item in result.items if item.source]
    line = f"> (from {turn}, a message of olof in thread {source.thread}, 2026-03-02: {TURN})"
    assert line in result.evidence.splitlines()


def send(brain: Brain, body: str, *, to: str, scope: Scope = Scope.TEAM) -> str:
    """Send one message, with whatever is extracted from it; give its id."""
    message = Draft(
        kind=Kind.MESSAGE,
        body=body,
        scope=scope,
        thread=ThreadRef(key="outage", subject="Outage"),
        detail=MessageDetail(sender="ann", recipients=(to,)),
    )
    return str(brain.remember([message]).items[0].id)


CAUSE = "Checkout failed because the disk of the shop was full."


@pytest.mark.requirement("PV-10")
@pytest.mark.requirement("PV-11")
def test_atom_names_its_source_message_people_and_thread_in_one_line(brain: Brain) -> None:
    message = send(brain, CAUSE, to="bo")
    result = brain.recall("why did checkout fail", kinds=["atom"])
    [thread] = [item.source.thread for item in result.items if item.source]
    line = f"> (from {message}, a message of ann to bo in thread {thread}, 2026-03-02)"
    assert line in result.evidence.splitlines()
    assert thread
    assert result.tokens <= 64 + estimate(result.evidence)


def test_atom_of_an_event_names_the_event(brain: Brain) -> None:
    event = stored(brain, CAUSE, kind="event", extract_causes=True)
    result = brain.recall("why did checkout fail", kinds=["atom"])
    assert f"> (from {event}, an event of ann, 2026-03-02)" in result.evidence.splitlines()


def test_episode_names_one_source_message_and_that_there_are_others(brain: Brain) -> None:
    first = send(brain, "We move the shop to the new hall.", to="bo")
    other = stored(brain, "The new hall has a loading bay.", kind="event")
    stored(brain, "The shop moved into the new hall.", kind="episode", derived_from=[other, first])
    [item] = brain.recall("where did the shop move", kinds=["episode"]).items
    assert item.source is not None
    assert (item.source.id, item.source.has_others, item.source.text) == (first, True, None)


def test_source_shared_by_two_items_is_described_once(brain: Brain) -> None:
    message = send(brain, f"{CAUSE} The queue was blocked by a stuck consumer of mail.", to="bo")
    result = brain.recall("why did checkout fail, what blocked the queue", kinds=["atom"])
    lines = [line for line in result.evidence.splitlines() if line.startswith("> (from")]
    assert len(lines) == 2
    assert lines[0].startswith(f"> (from {message}, a message of ann to bo")
    assert lines[1] == f"> (from {message})"


def test_source_message_hidden_from_the_caller_is_not_named(brain: Brain) -> None:
    message = send(brain, "The vault moved to hall 9.", to="bo", scope=Scope.PRIVATE)
    fact = stored(brain, "The vault is in hall 9.", kind="fact")
    shared = stored(brain, "The vault was moved.", kind="event")
    stored(
        brain, "Hall 9 is where the steel vault is.", kind="fact", derived_from=[message, shared]
    )
    for name in ("ann", "bo"):
        assert message in brain.acting_as(agent=name).recall("which hall has the vault").evidence
    stranger = brain.acting_as(agent="cy").recall("which hall has the vault", kinds=["fact"])
    assert fact in stranger.evidence
    assert message not in str(stranger)
    assert all(item.source is None or not item.source.has_others for item in stranger.items)


def test_memory_derived_from_an_event_shows_the_sentence_of_the_event(brain: Brain) -> None:
    event = stored(brain, TURN, kind="event")
    stored(brain, FACT, kind="fact", derived_from=[event])
    assert turn_of(brain) == TURN


def test_only_sentences_that_support_a_fact_are_quoted_from_a_long_turn(brain: Brain) -> None:
    talk = "The weather was lovely and the train was late again. " * 30
    turn = say(brain, f"{talk}Olof has a dog named Biscuit now. {talk}", who="olof")
    stored(brain, FACT, source_message=turn)
    text = turn_of(brain) or ""
    assert "Biscuit" in text
    assert estimate(text) <= 70


def test_source_turn_that_adds_nothing_to_its_fact_is_omitted(brain: Brain) -> None:
    turn = say(brain, "Olof has a small grey dog.", who="olof")
    stored(brain, "Olof has a small grey dog!", source_message=turn)
    assert turn_of(brain) is None


@pytest.mark.parametrize("end", ["forget", "supersede", "erase"])
def test_forgotten_erased_or_superseded_source_turn_is_not_shown(brain: Brain, end: str) -> None:
    event = stored(brain, TURN, kind="event")
    other = stored(brain, "Olof feeds something twice a day.", kind="event")
    stored(brain, FACT, kind="fact", derived_from=[event, other])
    admin = Brain(brain.services, replace(brain.caller, role=Role.ADMIN))
    match end:
        case "forget":
            brain.forget(event, reason="not so")
        case "erase":
            admin.erase(event, reason="asked for", confirm=1)
        case _:
            brain.revise.supersede(event, "We visited a shelter.", reason="it was another day")
    assert "Farsta" not in facts(brain, QUERY).evidence


def test_source_turn_of_lower_trust_or_another_project_is_not_shown(brain: Brain) -> None:
    web = stored(brain, TURN, kind="event", trust="untrusted_web")
    stored(brain, FACT, kind="fact", derived_from=[web])
    assert turn_of(brain, trust_min=0.0) == TURN
    assert "Farsta" not in facts(brain, QUERY).evidence
    elsewhere = stored(brain, "Olof walks his dog at the lake.", kind="event", project="farm")
    stored(brain, "Olof walks his dog.", kind="fact", derived_from=[elsewhere])
    assert "lake" not in facts(brain, "Does Olof walk his dog?", project="shop").evidence


def test_private_source_turn_is_shown_only_to_its_readers(brain: Brain) -> None:
    event = stored(brain, TURN, kind="event", scope="private")
    fact = stored(brain, FACT, kind="fact", derived_from=[event])
    assert turn_of(brain) == TURN
    stranger = brain.acting_as(agent="cy")
    assert "Farsta" not in str(facts(stranger, QUERY))
    assert fact not in str(facts(stranger, QUERY))


def test_proactive_recall_and_recall_about_the_past_show_no_source_turn(
    brain: Brain, clock: FakeClock
) -> None:
    stored(brain, FACT, source_message=say(brain, TURN))
    clock.move(timedelta(days=1))
    assert turn_of(brain) == TURN
    assert turn_of(brain, as_of=clock.now()) is None
    assert all(item.source is None for item in facts(brain, QUERY, proactive=True).items)
