"""The calls of agents, each with what it changes in the model once it is acknowledged."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from random import Random
from typing import Final, Literal

from commonbrain.model.errors import RejectedError
from commonbrain.model.memory import State
from commonbrain.model.scope import LOCAL_TENANT
from tests.simulation.world import AGENTS, TENANTS, WHY, Modelled, World

Effect = Callable[[], None]
Call = Callable[[], Effect]
"""Does it, and returns how the model changes; on an error nothing has changed."""
KINDS = ("fact", "event", "rule", "task")
LINKS: Final = ("about", "relates_to")
"""Types of links that change nothing of the memories that they join."""


def remember(world: World, draw: Random, *, agent: str, tenant: str) -> Call:
    is_private, word, kind = draw.random() < 0.3, world.word(), draw.choice(KINDS)
    brain = world.view(draw, tenant=tenant, agent=agent)
    tags = {world.word()} if draw.random() < 0.4 else set[str]()

    def call() -> Effect:
        [outcome] = brain.remember(
            f"{word} {word}",
            kind=kind,
            tags=sorted(tags),
            scope="private" if is_private else "team",
        ).items
        assert outcome.status == "stored", outcome
        readers = frozenset({agent}) if is_private else None
        made = Modelled(str(outcome.id), tenant, agent, word, readers, kind=kind, tags=set(tags))
        return partial(world.known.append, made)

    return call


def supersede(world: World, draw: Random, memory: Modelled, agent: str) -> Call:
    brain, word = world.view(draw, tenant=memory.tenant, agent=agent), world.word()

    def call() -> Effect:
        outcome = brain.revise.supersede(memory.id, f"{word} {word}", reason=WHY)
        assert outcome.status == "stored", outcome
        made = Modelled(
            str(outcome.id), memory.tenant, agent, word, memory.readers, tags=set(memory.tags)
        )
        made.kind, made.status, made.lease = memory.kind, memory.status, memory.lease

        def effect() -> None:
            world.known.append(made)
            memory.state, memory.by = State.SUPERSEDED, made
            memory.changes += 1

        return effect

    return call


def forget(world: World, draw: Random, memory: Modelled, agent: str) -> Call:
    brain = world.view(draw, tenant=memory.tenant, agent=agent)

    def call() -> Effect:
        brain.forget(memory.id, reason=WHY)
        return partial(_change, memory, state=State.FORGOTTEN)

    return call


def restore(world: World, draw: Random, memory: Modelled, agent: str) -> Call:
    brain = world.view(draw, tenant=memory.tenant, agent=agent)

    def call() -> Effect:
        brain.revise.restore(memory.id, reason=WHY)

        def effect() -> None:
            if memory.by is not None:
                _change(memory.by, state=State.FORGOTTEN)
            _change(memory, state=State.ACTIVE)
            memory.by = None

        return effect

    return call


def retag(world: World, draw: Random, memory: Modelled, agent: str) -> Call:
    brain, tag = world.view(draw, tenant=memory.tenant, agent=agent), world.word()
    old = draw.choice(sorted(memory.tags)) if memory.tags and draw.random() < 0.3 else None

    def call() -> Effect:
        brain.revise.retag(memory.id, add=[tag], remove=[old] if old else [])
        return partial(_change, memory, tags=(memory.tags | {tag}) - {old})

    return call


def pin(world: World, draw: Random, memory: Modelled, agent: str) -> Call:
    revise = world.view(draw, tenant=memory.tenant, agent=agent).revise

    def call() -> Effect:
        (revise.unpin if memory.is_pinned else revise.pin)(memory.id)
        return partial(_change, memory, is_pinned=not memory.is_pinned)

    return call


def annotate(world: World, draw: Random, memory: Modelled, agent: str) -> Call:
    brain, text = world.view(draw, tenant=memory.tenant, agent=agent), world.word()

    def call() -> Effect:
        brain.revise.annotate(memory.id, text)
        return partial(_change, memory, notes=memory.notes | {text})

    return call


def erase(world: World, draw: Random, memory: Modelled, agent: str) -> Call:
    brain = world.view(draw, tenant=memory.tenant, agent=agent)

    def call() -> Effect:
        brain.erase(memory.id, reason=WHY, confirm=1)

        def effect() -> None:
            _change(memory, state=State.FORGOTTEN, is_erased=True, links=set[tuple[str, str]]())
            for one in world.known:
                one.links = {link for link in one.links if link[0] != memory.id}

        return effect

    return call


def rate(world: World, draw: Random, memory: Modelled, agent: str) -> Call:
    brain = world.view(draw, tenant=memory.tenant, agent=agent)
    vote: Literal["up", "down"] = draw.choice(("up", "down"))

    def call() -> Effect:
        brain.revise.rate(memory.id, vote)
        votes = {**memory.votes, agent: 1 if vote == "up" else -1}
        return partial(_change, memory, votes=votes, changes=int(votes != memory.votes))

    return call


def link(world: World, draw: Random, memory: Modelled, agent: str) -> Call:
    """Link a memory to another, or take away one of its links."""
    revise = world.view(draw, tenant=memory.tenant, agent=agent).revise
    fitting = [
        one
        for one in world.known
        if is_active(one)
        and (one.tenant, one.readers) == (memory.tenant, memory.readers)
        and one.id not in world.busy | {memory.id}
    ]
    old = draw.choice(sorted(memory.links)) if memory.links and draw.random() < 0.4 else None
    type_ = draw.choice(LINKS)

    def call() -> Effect:
        if old is not None:
            revise.unlink(memory.id, old[0], type=old[1])
            return partial(_change, memory, links=memory.links - {old})
        if not fitting:
            return lambda: None
        to = draw.choice(fitting)
        revise.link(memory.id, to.id, type=type_, reason=WHY)
        made, is_new = (to.id, type_), (to.id, type_) not in memory.links

        def effect() -> None:
            # Another call may have erased it since.
            links = memory.links | ({made} if not to.is_erased else set[tuple[str, str]]())
            _change(memory, links=links, changes=int(is_new))

        return effect

    return call


def claim(world: World, draw: Random, memory: Modelled, agent: str) -> Call:
    """Claim a task, or release one that the agent holds."""
    session = world.view(draw, tenant=memory.tenant, agent=agent).session
    minutes = draw.choice((1, 60, 1_440))

    def call() -> Effect:
        now = world.clock.now()
        holder = memory.lease[0] if memory.lease and memory.lease[1] > now else None
        if holder == agent and minutes == 1:
            session.release(memory.id)
            return partial(_change, memory, lease=None)
        is_free = holder in {None, agent}
        try:
            session.claim(memory.id, minutes=minutes)
        except RejectedError as error:
            if is_free and error.code == "lease_held":
                raise AssertionError(f"{agent} cannot claim it: {memory}") from error
            raise
        assert is_free, f"{agent} claims what {holder} holds: {memory}"
        lease = (agent, now + timedelta(minutes=minutes))
        return partial(_change, memory, lease=lease, changes=int(lease != memory.lease))

    return call


def finish(world: World, draw: Random, memory: Modelled, agent: str) -> Call:
    """Set the status of a task."""
    revise = world.view(draw, tenant=memory.tenant, agent=agent).revise
    status = draw.choice(("open", "blocked", "done"))

    def call() -> Effect:
        revise.status(memory.id, status)
        lease = memory.lease if status != "done" else None
        changes = int((status, lease) != (memory.status, memory.lease))
        return partial(_change, memory, status=status, lease=lease, changes=changes)

    return call


def answer(world: World, draw: Random, message: Modelled) -> Call:
    """Read a message, acknowledge it, or reply to it, as one of its recipients."""
    assert message.readers is not None
    agent = draw.choice(sorted(message.readers - {message.agent}))
    messages = world.view(draw, tenant=message.tenant, agent=agent).message
    way, word = draw.choice(("read", "ack", "reply")), world.word()

    def call() -> Effect:
        if way == "read":
            messages.read(message.id)
            return partial(message.read.add, agent)
        if way == "ack":
            messages.ack(message.id)

            def effect() -> None:
                message.read.add(agent)
                message.acked.add(agent)

            return effect
        sent = messages.reply(message.id, f"{word} {word}")
        made = Modelled(sent.id, message.tenant, agent, word, message.readers, kind="message")
        return partial(world.known.append, made)

    return call


def send(world: World, draw: Random) -> Call:
    agent, tenant = draw.choice(AGENTS), _tenant(draw)
    to = draw.choice([one for one in AGENTS if one != agent])
    word = world.word()
    brain = world.view(draw, tenant=tenant, agent=agent)

    def call() -> Effect:
        sent = brain.message.send(to, f"{word} {word}")
        made = Modelled(sent.id, tenant, agent, word, frozenset({agent, to}), kind="message")
        return partial(world.known.append, made)

    return call


ON_ACTIVE = {
    "supersede": (8, supersede),
    "forget": (7, forget),
    "retag": (5, retag),
    "pin": (4, pin),
    "annotate": (3, annotate),
    "erase": (2, erase),
    "rate": (4, rate),
    "link": (6, link),
    "claim": (6, claim),
    "finish": (2, finish),
}
OF_TASKS = {"claim", "finish"}


def draw_call(world: World, draw: Random) -> tuple[str, set[str], Call] | None:
    """Draw a call; return its name, the memories that it is about, and the call itself."""
    weights = {
        "remember": 16,
        "send": 4,
        "answer": 4,
        "restore": 6,
        **{name: one[0] for name, one in ON_ACTIVE.items()},
    }
    (name,) = draw.choices(list(weights), list(weights.values()))
    if name == "remember":
        return name, set(), remember(world, draw, agent=draw.choice(AGENTS), tenant=_tenant(draw))
    if name == "send":
        return name, set(), send(world, draw)
    memory = world.choose(draw, FITTING.get(name, is_active))
    if memory is None:
        return None
    if name == "answer":
        return name, {memory.id}, answer(world, draw, memory)
    if name == "restore":
        about = {memory.id, *([memory.by.id] if memory.by else [])}
        return name, about, restore(world, draw, memory, memory.agent)
    agent = memory.agent if memory.readers else draw.choice(AGENTS)
    return name, {memory.id}, ON_ACTIVE[name][1](world, draw, memory, agent)


def is_active(memory: Modelled) -> bool:
    return memory.state is State.ACTIVE and not memory.is_message


def is_task(memory: Modelled) -> bool:
    return is_active(memory) and memory.kind == "task"


def is_restorable(memory: Modelled) -> bool:
    if memory.is_message or memory.state not in {State.FORGOTTEN, State.SUPERSEDED}:
        return False
    return memory.by is None or (memory.by.state is State.ACTIVE and not memory.by.is_erased)


FITTING: Final[dict[str, Callable[[Modelled], bool]]] = {
    "answer": lambda memory: memory.is_message,
    "restore": is_restorable,
    **dict.fromkeys(OF_TASKS, is_task),
}
"""What a call can be about; other calls are about active memories."""


def _change(memory: Modelled, *, changes: int = 1, **values: object) -> None:
    for name, value in values.items():
        setattr(memory, name, value)
    memory.changes += changes


def _tenant(draw: Random) -> str:
    return LOCAL_TENANT if draw.random() < 0.75 else TENANTS[1]
