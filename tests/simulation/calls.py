"""The calls of agents, each with what it changes in the model once it is acknowledged."""

from collections.abc import Callable
from functools import partial
from random import Random

from commonbrain.model.memory import State
from commonbrain.model.scope import LOCAL_TENANT
from tests.simulation.world import AGENTS, TENANTS, WHY, Modelled, World

Effect = Callable[[], None]
Call = Callable[[], Effect]
"""Does it, and returns how the model changes; on an error nothing has changed."""
KINDS = ("fact", "event", "rule", "task")


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
        made = Modelled(str(outcome.id), tenant, agent, word, readers, tags=set(tags))
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
        return partial(_change, memory, state=State.FORGOTTEN, is_erased=True)

    return call


def send(world: World, draw: Random) -> Call:
    agent, tenant = draw.choice(AGENTS), _tenant(draw)
    to = draw.choice([one for one in AGENTS if one != agent])
    word = world.word()
    brain = world.view(draw, tenant=tenant, agent=agent)

    def call() -> Effect:
        sent = brain.message.send(to, f"{word} {word}")
        made = Modelled(sent.id, tenant, agent, word, frozenset({agent, to}), is_message=True)
        return partial(world.known.append, made)

    return call


ON_ACTIVE = {
    "supersede": (8, supersede),
    "forget": (7, forget),
    "retag": (5, retag),
    "pin": (4, pin),
    "annotate": (3, annotate),
    "erase": (2, erase),
}


def draw_call(world: World, draw: Random) -> tuple[str, set[str], Call] | None:
    """Draw a call; return its name, the memories that it is about, and the call itself."""
    weights = {
        "remember": 16,
        "send": 4,
        "restore": 6,
        **{name: one[0] for name, one in ON_ACTIVE.items()},
    }
    (name,) = draw.choices(list(weights), list(weights.values()))
    if name == "remember":
        return name, set(), remember(world, draw, agent=draw.choice(AGENTS), tenant=_tenant(draw))
    if name == "send":
        return name, set(), send(world, draw)
    if name == "restore":
        memory = world.choose(
            draw, lambda one: is_restorable(one) and (one.by is None or one.by.id not in world.busy)
        )
        if memory is None:
            return None
        about = {memory.id, *([memory.by.id] if memory.by else [])}
        return name, about, restore(world, draw, memory, memory.agent)
    memory = world.choose(draw, is_active)
    if memory is None:
        return None
    agent = memory.agent if memory.readers else draw.choice(AGENTS)
    return name, {memory.id}, ON_ACTIVE[name][1](world, draw, memory, agent)


def is_active(memory: Modelled) -> bool:
    return memory.state is State.ACTIVE and not memory.is_message


def is_restorable(memory: Modelled) -> bool:
    if memory.is_message or memory.state not in {State.FORGOTTEN, State.SUPERSEDED}:
        return False
    return memory.by is None or (memory.by.state is State.ACTIVE and not memory.by.is_erased)


def _change(memory: Modelled, **values: object) -> None:
    for name, value in values.items():
        setattr(memory, name, value)
    memory.changes += 1


def _tenant(draw: Random) -> str:
    return LOCAL_TENANT if draw.random() < 0.75 else TENANTS[1]
