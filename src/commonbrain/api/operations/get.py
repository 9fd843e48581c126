"""The operation get."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, Literal, cast

from commonbrain.api.operation import (
    Command,
    Name,
    OneOrMore,
    Operation,
    Profile,
    Request,
    argument,
)
from commonbrain.client import Brain
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.escaping import inert, inert_line, inert_part
from commonbrain.model.memory import CURRENT_STATES
from commonbrain.model.scope import Scope
from commonbrain.model.timestamps import show_day, show_instant
from commonbrain.model.values import dataclass, fields
from commonbrain.retrieval.get import MemoryView, View
from commonbrain.retrieval.provenance import Origin, Provenance
from commonbrain.text.time_expressions.mentions import time_notes

ViewName = Literal["history", "provenance", "links", "annotations", "policy", "dependents"]


class GetRequest(Request):
    """The memories to fetch, and the views to show."""

    id: OneOrMore = argument(
        "The id of a memory, mem_..., or its source_ref; several are allowed",
        [],
        agents="mem_..., one or several",
    )
    skill: Name = argument(
        "The name of a skill, instead of an id", agents="A skill's name, instead of id"
    )
    views: list[ViewName] = argument(
        "A view to add: history, provenance, links and others", [], agents=""
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GetResponse(MemoryView):
    """The first memory; the others are in `more`."""

    more: tuple[MemoryView, ...] = ()

    @classmethod
    def of(cls, shown: Sequence[MemoryView]) -> "GetResponse":
        """Make the response from at least one memory."""
        first, *more = shown
        own = {field.name: getattr(first, field.name) for field in fields(MemoryView)}
        return cls(**own, more=tuple(more))


def _handle(brain: Brain, request: GetRequest) -> GetResponse:
    if not request.skill and not request.id:
        raise InvalidInputError(
            "Nothing to get.", hint="Give id, one or several, or the name of a skill."
        )
    if request.skill:
        return GetResponse.of([brain.get(skill=request.skill, views=request.views)])
    return GetResponse.of(brain.get_several(request.id, views=request.views))


def _lines(reply: MemoryView) -> Iterator[str]:
    if reply.banner:
        yield inert_line(reply.banner)
    if reply.section:
        yield inert_line(f"section: {reply.section}")
    yield " | ".join(map(inert_part, _about(reply)))
    yield from (f"> {inert(line)}" for line in (reply.body or reply.headline).splitlines())
    yield from map(inert_line, time_notes(reply.body or "", reply.occurred_at))
    yield from (f"> {inert_line(line)}" for line in _render_fields(reply))
    if reply.earlier:
        yield inert_line(f"earlier: {reply.earlier}")
    yield from (conflict.line() for conflict in reply.conflicts or ())
    if reply.namesakes:
        yield f"Others have this name or source: {', '.join(reply.namesakes)}"
    for view in View:
        for row in view_rows(getattr(reply, view)):
            value_text = (
                f"{name} {value}" for name, value in row.items() if value not in (None, ())
            )
            yield f"{view}: {inert_line(', '.join(value_text))}"
    for one in reply.related or ():
        yield inert_line(f"related {one.confidence:.2f}, {one.basis}: {one.id} {one.headline}")
    if reply.provenance is not None:
        yield from _render_provenance(reply.provenance)


def _about(reply: MemoryView) -> Iterator[str]:
    """List what is known of a memory, for one line."""
    yield from (reply.id, reply.kind, show_instant(reply.occurred_at), f"by {reply.agent}")
    yield from (f"trust {reply.trust}", f"authority {reply.authority}")
    yield f"confidence {reply.confidence:.2g}"
    named = {
        "scope": None if reply.scope is Scope.TEAM else reply.scope,
        "project": reply.project,
        "label": reply.label,
        "tags": ", ".join(reply.tags),
        "source": reply.source_ref,
        "rated": f"{reply.rating:+}" if reply.rating else None,
    }
    yield from (f"{name} {value}" for name, value in named.items() if value)


def _render_fields(reply: MemoryView) -> Iterator[str]:
    """Render the headline, unless it is the text, and the columns of the kind, a line each."""
    if reply.body and reply.headline != reply.body:
        yield f"headline: {reply.headline}"
    for name, value in reply.detail.items():
        if value not in (None, (), "", 0, False):
            yield f"{name}: {_shown(value)}"
    yield from (f"cites: {one.line()}" for one in reply.cites)


def _shown(value: object) -> str:
    if isinstance(value, datetime):
        return show_instant(value)
    if isinstance(value, Mapping):
        parts = cast("Mapping[str, object]", value).items()
        return "; ".join(f"{name} {_shown(part)}" for name, part in parts if part)
    if isinstance(value, tuple | list):
        return ", ".join(map(str, cast("Sequence[object]", value)))
    return str(value)


def _render_provenance(provenance: Provenance) -> Iterator[str]:
    yield from (f"{'  ' * one.depth}{origin_line(one)}" for one in provenance.origins)
    if provenance.is_cut:
        yield "It goes on beyond what is shown."
    if provenance.because:
        yield provenance.because


def view_rows(side: object) -> Sequence[Mapping[str, object]]:
    """Return the rows of a view as name-value mappings; none if it was not requested.

    The derivation tree of a provenance is left out: `_render_provenance` renders it.
    """
    if side is None:
        return ()
    rows = cast("tuple[object, ...]", side) if isinstance(side, tuple) else (side,)
    return [
        {name: getattr(row, name) for name in getattr(row, "__slots__", ()) if name not in _TREE}
        for row in rows
    ]


_TREE: Final = frozenset({"origins", "is_cut", "because"})


def origin_line(one: Origin) -> str:
    """Render one step of the provenance on one line."""
    known = (
        f"{one.via} {one.id}",
        one.kind,
        f"by {one.agent}",
        show_day(one.occurred_at),
        f"trust {one.trust}",
        f"session {one.session}" if one.session else "",
        f"source {one.source_ref}" if one.source_ref else "",
        f"in {one.thread} {one.thread_subject}" if one.thread else "",
        f"{one.state}" if one.state not in CURRENT_STATES else "",
    )
    return inert_line(f"{' | '.join(part for part in known if part)}: {one.headline}")


GET = Operation(
    name="get",
    title="Get",
    purpose="Fetch full memories by id, or a skill by name, with views such as provenance.",
    request=GetRequest,
    profile=Profile.LITE,
    reply=GetResponse,
    handle=_handle,
    render_text=lambda reply: "\n\n".join("\n".join(_lines(one)) for one in (reply, *reply.more)),
    positional=("id",),
    is_read_only=True,
    is_idempotent=True,
    commands=(
        Command(
            name="skill show",
            purpose="Show a skill by name, the project's before a global one.",
            preset={},
            fields=frozenset({"skill", "views"}),
            positional=("skill",),
            required=frozenset({"skill"}),
        ),
    ),
)
