"""What must hold after every crash and at the end of a simulation."""

# ruff: noqa: S608 the statements are made of constants

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from commonbrain.client import Brain
from commonbrain.model import ids
from commonbrain.model.errors import NotFoundError
from commonbrain.model.memory import CURRENT_STATES
from commonbrain.model.scope import LOCAL_TENANT
from tests.simulation.calls import LINKS
from tests.simulation.world import Modelled, Rows, World

TEXTS = " UNION ALL ".join(
    f"SELECT memory_id, body FROM {kind}"
    for kind in ("facts", "events", "rules", "tasks", "messages")
)
WRITTEN = "SELECT id, state, superseded_by, pinned, rating FROM memories WHERE agent <> 'upkeep'"
"""Memories of agents; maintenance proposes rules of its own."""


TASKS = "SELECT memory_id, status, lease_holder FROM tasks"
RECEIPTS = "SELECT message_id, agent, read_at IS NOT NULL, acked_at IS NOT NULL FROM receipts"


@dataclass(frozen=True, slots=True)
class Stored:
    """What the tables hold, by memory."""

    memories: dict[int, tuple[str, int | None, int, int]]
    texts: dict[int, str]
    tags: dict[int, set[str]]
    notes: dict[int, set[str]]
    links: set[tuple[int, int, str]]
    tasks: dict[int, tuple[str, str | None]]
    """Status, and who holds it."""
    receipts: dict[tuple[int, str], tuple[bool, bool]]
    """Whether a message was read and acknowledged, by agent."""
    embedded: set[int]
    audit: dict[int, int]
    changed: set[int]
    matches: dict[str, set[int]]
    """What the full text finds by a word."""


def check_all(world: World) -> None:
    """Compare rows, indexes, audit and versions with what was acknowledged."""
    stored = _stored(world)
    extra = stored.memories.keys() - {one.number for one in world.known}
    assert not extra, f"memories that nothing acknowledged: {extra}"
    for one in world.known:
        assert one.number in stored.memories, f"lost: {one}"
        state, by, pinned, rating = stored.memories[one.number]
        assert state == one.state, f"it is {state}: {one}"
        assert stored.audit.get(one.number, 0) >= one.changes, f"the audit lacks a line: {one}"
        assert one.by is None or by == one.by.number, f"superseded by {by}: {one}"
        assert one.is_erased or bool(pinned) == one.is_pinned, f"pinned is {pinned}: {one}"
        assert one.is_erased or rating == sum(one.votes.values()), f"its rating is {rating}: {one}"
        _check_text(stored, one)
        _check_task(stored, one)
        _check_message(stored, one)
    links = {
        (one.number, ids.parse(ids.MEMORY, to), type_)
        for one in world.known
        for to, type_ in one.links
    }
    assert stored.links == links, f"links differ: {stored.links ^ links}"
    unsound = [one for one in world.brains[1].services.store.examine() if not one.is_sound]
    assert not unsound, unsound


def _check_text(stored: Stored, one: Modelled) -> None:
    """Compare text, tags, notes and indexes; of an erased memory nothing is left."""
    has_text = one.word in stored.texts.get(one.number, "")
    assert has_text != one.is_erased, f"its text is {stored.texts.get(one.number)!r}: {one}"
    assert (one.number in stored.embedded) == one.is_findable, f"vectors: {one}"
    for word in (one.word, *one.tags):
        is_found = one.number in stored.matches[word]
        assert is_found == one.is_findable, f"full text of {word}: {one}"
    if not one.is_erased:
        assert one.number in stored.changed, f"no version is stored: {one}"
        assert stored.tags[one.number] == one.tags, f"its tags are {stored.tags[one.number]}: {one}"
        notes = stored.notes[one.number]
        assert notes == one.notes, f"its notes are {notes}: {one}"


def adopt(world: World, words: Sequence[str], *, agent: str) -> None:
    """Add to the model what an import stored: each word once, for the team."""
    with world.rows() as rows:
        texts, kinds = dict(rows(TEXTS)), dict(rows("SELECT id, kind FROM memories"))
        for word in words:
            numbers = [number for number, text in texts.items() if word in text]
            assert len(numbers) == 1, f"an import stored {word} {len(numbers)} times"
            made = Modelled(ids.show(ids.MEMORY, numbers[0]), LOCAL_TENANT, agent, word, None)
            made.kind = kinds[numbers[0]]
            tags = rows("SELECT name FROM entities WHERE type = 'tag' AND memory_id = ?", *numbers)
            made.tags = {name for (name,) in tags}
            world.known.append(made)


def _check_task(stored: Stored, one: Modelled) -> None:
    if one.kind == "task" and not one.is_erased:
        task = stored.tasks[one.number]
        assert task == (one.status, one.lease and one.lease[0]), f"the task is {task}: {one}"


def _check_message(stored: Stored, one: Modelled) -> None:
    if one.is_message:
        for agent in one.readers - {one.agent} if one.readers else ():
            receipt = stored.receipts.get((one.number, agent), (False, False))
            marks = (agent in one.read, agent in one.acked)
            assert receipt == marks, f"{agent} has read and acknowledged {receipt}: {one}"


def _stored(world: World) -> Stored:
    with world.rows() as rows:
        match = "SELECT rowid FROM memory_text WHERE memory_text MATCH ?"
        words = {word for one in world.known for word in (one.word, *one.tags)}
        return Stored(
            memories={id_: tuple(more) for id_, *more in rows(WRITTEN)},
            links=set(rows("SELECT from_id, to_id, type FROM links WHERE type IN (?, ?)", *LINKS)),
            tasks={one: tuple(more) for one, *more in rows(TASKS)},
            receipts={(one, agent): tuple(more) for one, agent, *more in rows(RECEIPTS)},
            texts=dict(rows(TEXTS)),
            tags=_by_memory(rows("SELECT memory_id, name FROM entities WHERE type = 'tag'")),
            notes=_by_memory(rows("SELECT memory_id, text FROM annotations")),
            embedded=_ids(rows("SELECT memory_id FROM vectors WHERE vector IS NOT NULL")),
            audit=dict(rows("SELECT memory_id, count(*) FROM audit GROUP BY 1")),
            changed=_ids(rows("SELECT memory_id FROM changes")),
            matches={word: _ids(rows(match, f'"{word}"')) for word in words},
        )


def _ids(rows: Rows) -> set[int]:
    return {id_ for (id_,) in rows}


def _by_memory(rows: Rows) -> defaultdict[int, set[str]]:
    grouped: defaultdict[int, set[str]] = defaultdict(set)
    for id_, text in rows:
        grouped[id_].add(text)
    return grouped


def check_is_found(brain: Brain, memory: Modelled) -> None:
    """Recall finds a memory by its word as long as it is current."""
    items = brain.recall(memory.word).items
    recalled = {item.id for item in items if "words" in item.why}
    if memory.state in CURRENT_STATES:
        assert recalled == {memory.id} or memory.is_message, f"recall gives {recalled}: {memory}"
    else:
        assert memory.id not in recalled, f"recall gives it: {memory}"


def check_is_hidden(brain: Brain, memory: Modelled) -> None:
    """An agent that may not see a memory finds it nowhere."""
    caller = f"{brain.caller.agent} of {brain.caller.tenant}"
    recalled = repr(brain.recall(memory.word))
    # That reply repeats the query, so the word says nothing.
    assert memory.id not in recalled, f"{caller} recalls it: {memory}"
    replies = [
        repr(brain.list(limit=50)),
        repr(brain.recall("", max_items=50)),
        repr(brain.message.inbox(all=True)),
        repr(brain.preview_boot()),
    ]
    try:
        replies.append(repr(brain.get(memory.id)))
    except NotFoundError as error:
        replies.append(str(error).replace(memory.id, "that id"))
    for reply in replies:
        assert memory.id not in reply, f"{caller} sees its id: {memory}"
        assert memory.word not in reply, f"{caller} sees its word: {memory}"
