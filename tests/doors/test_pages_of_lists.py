"""The lists of sessions, tasks, skills and models have pages, over every transport."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import pytest
from pydantic import BaseModel

from commonbrain.api.operations import Operation, load_operations
from commonbrain.client import Brain
from commonbrain.model.errors import InvalidInputError, RejectedError
from commonbrain.model.model_card import ModelCard, ModelRole, ModelState
from commonbrain.testing.builders import FakeClock
from tests.flows.asking import stored
from tests.server.serving import an_app, calling

OPERATIONS: Final = {one.name: one for one in load_operations()}
COUNT = 5


def with_sessions(brain: Brain, clock: FakeClock) -> None:
    for number in range(COUNT):
        clock.move(timedelta(seconds=number % 2))
        brain.acting_as(agent=f"bo-{number}", session=f"s{number}").boot()


def with_tasks(brain: Brain, _: FakeClock) -> None:
    dues = ("2027-01-01", "2027-01-01", None, None, "2026-12-01")
    for number, due_at in enumerate(dues):
        text = f"Count shelf {number} of the shop"
        if due_at is None:
            stored(brain, text, kind="task")
        else:
            stored(brain, text, kind="task", due_at=due_at)


def with_skills(brain: Brain, _: FakeClock) -> None:
    for number in range(COUNT):
        skill = {"name": f"skill-{number % 3}-{number}", "keywords": [f"word{number}"]}
        text = f"Restart worker {number} with systemctl"
        stored(brain, text, kind="rule", skill=skill, distinct_because="another worker")


def with_models(brain: Brain, clock: FakeClock) -> None:
    with brain.services.store.begin(brain.caller.tenant) as tx:
        for number in range(COUNT):
            card = ModelCard(
                id=number + 1, role=ModelRole.RERANKER, state=ModelState.RETIRED, digest="",
                features=(), told={}, made_at=clock.now(), moved_at=clock.now(),
            )  # fmt: skip
            assert tx.models.add(card)


LISTS: Final[dict[str, tuple[str, str, Callable[[Brain, FakeClock], None]]]] = {
    "sessions": ("session", "list", with_sessions),
    "tasks": ("session", "tasks", with_tasks),
    "skills": ("skill", "list", with_skills),
    "models": ("model", "list", with_models),
}


def asked(brain: Brain, name: str, **given: object) -> tuple[Operation[Any, Any], Any]:
    operation, op, _ = LISTS[name]
    found = OPERATIONS[operation]
    request: BaseModel = found.request.model_validate({"op": op, **given})
    return found, found.handle(brain, request)


@pytest.mark.requirement("OB-14")
@pytest.mark.parametrize("name", LISTS)
def test_pages_hold_every_row_once_in_order(brain: Brain, clock: FakeClock, name: str) -> None:
    LISTS[name][2](brain, clock)
    _, whole = asked(brain, name)
    assert (len(getattr(whole, name)), whole.more, whole.next) == (COUNT, 0, None)
    shown: tuple[object, ...] = ()
    left: list[int] = []
    cursor: str | None = None
    while cursor is not None or not left:
        operation, page = asked(brain, name, limit=2, cursor=cursor)
        shown += getattr(page, name)
        left.append(page.more)
        cursor = page.next
        line = f"{page.more} more: --cursor {cursor}"
        assert (line in operation.render_text(page)) is (cursor is not None)
    assert (shown, left) == (getattr(whole, name), [3, 1, 0])


@pytest.mark.requirement("OB-14")
@pytest.mark.parametrize("name", LISTS)
def test_a_cursor_of_another_list_and_a_limit_out_of_range_are_refused(
    brain: Brain, clock: FakeClock, name: str
) -> None:
    other = "skills" if name != "skills" else "tasks"
    LISTS[other][2](brain, clock)
    cursor = asked(brain, other, limit=2)[1].next
    LISTS[name][2](brain, clock)
    with pytest.raises(InvalidInputError, match="not a cursor of this list"):
        asked(brain, name, cursor=cursor)
    for limit in (0, 101):
        with pytest.raises(RejectedError, match="1 to 100 is allowed"):
            asked(brain, name, limit=limit)


def test_a_session_that_ends_between_two_pages_hides_no_other(
    brain: Brain, clock: FakeClock
) -> None:
    with_sessions(brain, clock)
    whole = brain.session.list().sessions or ()
    first = brain.session.list(limit=2)
    for one in whole[1:3]:
        brain.acting_as(agent=one.agent, session=one.session).session.end()
    rest = brain.session.list(limit=9, cursor=first.next)
    assert rest.sessions == whole[3:]


@pytest.mark.requirement("OB-14")
@pytest.mark.parametrize("name", LISTS)
def test_rest_and_the_schema_for_agents_take_limit_and_cursor(
    brain: Brain, clock: FakeClock, name: str
) -> None:
    operation, op, fill = LISTS[name]
    fill(replace_agent(brain), clock)
    path, body = f"/v1/{operation}", {"op": op, "limit": 4}
    with calling(an_app(brain), "key-of-ada") as client:
        first = client.post(path, json=body).json()
        rest = client.post(path, json={**body, "cursor": first["next"]}).json()
    assert (len(first[name]), first["more"]) == (4, 1)
    assert (len(rest[name]), rest["more"], rest["next"]) == (1, 0, None)
    assert {"limit", "cursor"} <= set(OPERATIONS[operation].request.model_fields)


def replace_agent(brain: Brain) -> Brain:
    """Act as another agent than the client of the server, who does not see its own session."""
    return Brain(brain.services, replace(brain.caller, agent="ann"))
