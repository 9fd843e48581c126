"""Attempts of an attacker, drawn by rule from every operation: none is named, so none is left out.

Every field that takes text or a list of texts is filled with others' ids, guessed ones, others'
names and injections; an operation whose field is a choice is tried with each choice.
"""

import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final, Literal, get_args, get_origin

from commonbrain.api.operation import VerbRequest
from commonbrain.api.operations import Operation, load_operations
from tests.security.world import ASKED, THEIRS, UNASSIGNED, World, neighbours

AnyOperation = Operation[Any, Any]
Ask = Callable[[AnyOperation, dict[str, Any]], str]
"""Takes an operation and its arguments, and returns the whole reply, errors too, as text."""

INJECTIONS: Final = (
    f"' OR tenant_id = '{THEIRS}' --",
    f'") OR tenant_id : "{THEIRS}',
    f"x'; DROP TABLE facts WHERE tenant_id = '{THEIRS}",
    "%",
    "*",
    f"{ASKED} OR 1=1",
    f'{{"tenant": "{THEIRS}"}}',
    f"../{THEIRS}",
    f"mem_{UNASSIGNED}' UNION ALL TABLE facts --",
    "\u202e\x00",
)
_PLAUSIBLE: Final[Mapping[str, object]] = {
    "text": "The tap drips {n}.",
    "reason": "Because {n}.",
    "query": ASKED,
    "to": ["cara"],
    "agent": "rita",
    "project": "projectz",
    "days": 30,
    "confirm": 1,
    "facets": True,
}
"""Values of the fields of these names while another field is tried."""


_EXISTING: Final = frozenset({"memory", "thread", "trace", "job", "model", "private"})
"""Ways that use ids that exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One call, and if it has an id, the same call for an id that is not assigned."""

    operation: AnyOperation
    given: dict[str, Any]
    field: str
    way: str
    """The kind of value in the field."""
    control: dict[str, Any] | None = None

    @property
    def text(self) -> str:
        """All arguments, as text."""
        return json.dumps(self.given, ensure_ascii=False)


def attempts(world: World, *, seed: int = 0) -> Iterator[Attempt]:
    """Draw all attempts, the same for the same seed."""
    random_source = random.Random(seed)  # noqa: S311 it is meant to be foreseen
    for operation in load_operations():
        for choice in _choices(operation):
            for base in _bases(operation, choice, world):
                how = json.dumps(base)
                yield Attempt(operation=operation, given=base, field="", way=how)
                for field in ("tenant", "tenant_id"):
                    given = {**base, field: THEIRS}
                    yield Attempt(operation=operation, given=given, field=field, way="tenant")
                for field in _texts(operation, choice):
                    for way, payload in _payloads(world, random_source).items():
                        yield _attempt(operation, base, field=field, way=(way, payload))


def drawn(world: World, *, seed: int = 0) -> Iterator[Attempt]:
    """Draw one of each operation, field and way, each with another choice of the operation.

    Where an id is asked for by choice, it is asked for by every choice.
    """
    sorts: dict[tuple[str, str, str], list[Attempt]] = defaultdict(list)
    for one in attempts(world, seed=seed):
        sorts[one.operation.name, one.field, one.way].append(one)
    for number, alike in enumerate(sorts.values()):
        if alike[0].field == "id" and alike[0].way in _EXISTING:
            yield from alike
        else:
            yield alike[number % len(alike)]


def spread(among: Sequence[Attempt], *, each: int) -> list[Attempt]:
    """Select so many attempts of each operation, spread over its fields and ways."""
    by_name: dict[str, list[Attempt]] = defaultdict(list)
    for one in among:
        by_name[one.operation.name].append(one)
    return [
        one for alike in by_name.values() for one in alike[:: max(len(alike) // each, 1)][:each]
    ]


def mixed(world: World) -> list[Attempt]:
    """Draw the same in a fixed random order, the operations in turn, so that all are met early."""
    random_source = random.Random(0)  # noqa: S311 the same in every run
    by_name: dict[str, list[Attempt]] = defaultdict(list)
    for one in drawn(world):
        by_name[one.operation.name].append(one)
    for alike in by_name.values():
        random_source.shuffle(alike)
    turns = zip_longest(*by_name.values())
    return [one for turn in turns for one in turn if one is not None]


def _attempt(
    operation: AnyOperation, base: dict[str, Any], *, field: str, way: tuple[str, str]
) -> Attempt:
    is_list = _is_list(operation, field)
    kind, payload = way

    def filled(value: str) -> dict[str, Any]:
        return base | {field: [value] if is_list else value}

    prefix, _, digits = payload.partition("_")
    is_id = len(digits) == len(UNASSIGNED) and len(prefix) == 3
    # A key of idempotency is the caller's own, and the second use of one is told from the first.
    is_comparable = is_id and field != "idempotency_key"
    control = filled(f"{prefix}_{UNASSIGNED}") if is_comparable else None
    return Attempt(
        operation=operation, given=filled(payload), field=field, way=kind, control=control
    )


def _payloads(world: World, random_source: random.Random) -> Mapping[str, str]:
    known = random_source.choice(world.of("mem"))
    return {
        "memory": known,
        "memory in capitals": random_source.choice(world.of("mem")).upper(),
        "thread": random_source.choice(world.of("thr")),
        "trace": random_source.choice(world.of("trc")),
        "job": random_source.choice(world.of("job")),
        "model": random_source.choice(world.of("mdl")),
        "private": random_source.choice(world.private[1:]),
        "guessed": random_source.choice(neighbours(known)),
        "name": random_source.choice(world.names),
        "injection": random_source.choice(INJECTIONS),
    }


def _choices(operation: AnyOperation) -> Sequence[dict[str, str]]:
    """Give each way to use an operation: the words of its first field of a closed set."""
    for name, field in operation.request.model_fields.items():
        if get_origin(field.annotation) is Literal:
            return [{name: word} for word in get_args(field.annotation)]
    return [{}]


def _bases(
    operation: AnyOperation, choice: dict[str, str], world: World
) -> Sequence[dict[str, Any]]:
    """Fill what makes a call get far: all that is plausible, or what must be there alone."""
    full: dict[str, Any] = {}
    bare: dict[str, Any] = {}
    accepted, needed = _arguments(operation, choice)
    for number, (name, field) in enumerate(operation.request.model_fields.items()):
        if name not in accepted:
            continue
        is_needed = field.is_required() or name in needed
        plausible = _PLAUSIBLE.get(name)
        is_of_bulk = operation.name == "bulk" and name == "ids"
        if is_of_bulk or (_is_list(operation, name) and name == "id"):
            full[name] = [world.own]
        elif name in {"id", "other", "key"} and is_needed:
            full[name] = world.own
        elif plausible is not None:
            value = plausible.format(n=number) if isinstance(plausible, str) else plausible
            full[name] = value
        if name in full and is_needed:
            bare[name] = full[name]
    return [{**full, **choice}] + [{**bare, **choice}] * (full != bare)


def _arguments(
    operation: AnyOperation, choice: dict[str, str]
) -> tuple[frozenset[str], frozenset[str]]:
    """Give the arguments that a choice takes, and those that it needs."""
    request = operation.request
    if not issubclass(request, VerbRequest):
        return frozenset(request.model_fields), frozenset()
    needed = frozenset((*request.SHARED.required, *request.VERBS[choice["op"]].required))
    return request.arguments_of(choice["op"]), needed


def _texts(operation: AnyOperation, choice: dict[str, str]) -> Iterator[str]:
    accepted, _ = _arguments(operation, choice)
    for name, field in operation.request.model_fields.items():
        if name not in accepted | choice.keys():
            continue
        words = str(field.annotation)
        if "str" in words or _is_list(operation, name) or "date" in words:
            yield name


def _is_list(operation: AnyOperation, name: str) -> bool:
    return "list[" in str(operation.request.model_fields[name].annotation)
