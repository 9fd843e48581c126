"""What must hold after every crash and at the end of a simulation."""

# ruff: noqa: S608 the statements are made of constants

from collections import defaultdict
from dataclasses import dataclass

from commonbrain.client import Brain
from commonbrain.model.errors import NotFoundError
from commonbrain.model.memory import CURRENT_STATES
from tests.simulation.world import Modelled, Rows, World

TEXTS = " UNION ALL ".join(
    f"SELECT memory_id, body FROM {kind}"
    for kind in ("facts", "events", "rules", "tasks", "messages")
)
WRITTEN = "SELECT id, state, superseded_by, pinned FROM memories WHERE agent <> 'upkeep'"
"""Memories of agents; maintenance proposes rules of its own."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What the tables hold, by memory."""

    memories: dict[int, tuple[str, int | None, int]]
    texts: dict[int, str]
    tags: dict[int, set[str]]
    notes: dict[int, set[str]]
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
        state, by, pinned = stored.memories[one.number]
        assert state == one.state, f"it is {state}: {one}"
        assert stored.audit.get(one.number, 0) >= one.changes, f"the audit lacks a line: {one}"
        assert one.by is None or by == one.by.number, f"superseded by {by}: {one}"
        assert one.is_erased or bool(pinned) == one.is_pinned, f"pinned is {pinned}: {one}"
        _check_text(stored, one)
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


def _stored(world: World) -> Stored:
    with world.rows() as rows:
        match = "SELECT rowid FROM memory_text WHERE memory_text MATCH ?"
        words = {word for one in world.known for word in (one.word, *one.tags)}
        return Stored(
            memories={id_: (state, by, pinned) for id_, state, by, pinned in rows(WRITTEN)},
            texts=dict(rows(TEXTS)),
            tags=_by_memory(rows("SELECT memory_id, name FROM entities WHERE type = 'tag'")),
            notes=_by_memory(rows("SELECT memory_id, text FROM annotations")),
            embedded=_ids(rows("SELECT memory_id FROM vectors WHERE vector IS NOT NULL")),
            audit=dict(rows("SELECT memory_id, count(*) FROM audit GROUP BY 1")),
            changed=_ids(rows("SELECT memory_id FROM changes")),
            matches={word: _ids(rows(match, word)) for word in words},
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
