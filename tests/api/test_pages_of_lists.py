"""The lists of sessions, tasks, skills and models have pages, over every transport."""

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from commonbrain.api.operations import Operation, load_operations
from commonbrain.client import Brain
from commonbrain.model.errors import InvalidInputError, RejectedError
from commonbrain.model.memory import Draft
from commonbrain.model.model_card import ModelCard, ModelRole, ModelState
from commonbrain.model.scope import Trust
from commonbrain.testing.builders import FakeClock, a_brain
from tests.asking import stored
from tests.serving import an_app, calling

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


def list_page(brain: Brain, name: str, **given: object) -> tuple[Operation[Any, Any], Any]:
    operation, op, _ = LISTS[name]
    row = OPERATIONS[operation]
    request: BaseModel = row.request.model_validate({"op": op, **given})
    return row, row.handle(brain, request)


@pytest.mark.requirement("OB-14")
@pytest.mark.parametrize("name", LISTS)
def test_pages_hold_every_row_once_in_order(brain: Brain, clock: FakeClock, name: str) -> None:
    LISTS[name][2](brain, clock)
    _, whole = list_page(brain, name)
    assert (len(getattr(whole, name)), whole.more, whole.next) == (COUNT, 0, None)
    shown: tuple[object, ...] = ()
    left: list[int] = []
    cursor: str | None = None
    while cursor is not None or not left:
        operation, page = list_page(brain, name, limit=2, cursor=cursor)
        shown += getattr(page, name)
        left.append(page.more)
        cursor = page.next
        line = f"{page.more} more: --cursor {cursor}"
        assert (line in operation.render_text(page)) is (cursor is not None)
    assert (shown, left) == (getattr(whole, name), [3, 1, 0])


@pytest.mark.requirement("OB-14")
@pytest.mark.parametrize("name", LISTS)
def test_cursor_of_another_list_and_limit_out_of_range_are_refused(
    brain: Brain, clock: FakeClock, name: str
) -> None:
    other = "skills" if name != "skills" else "tasks"
    LISTS[other][2](brain, clock)
    cursor = list_page(brain, other, limit=2)[1].next
    LISTS[name][2](brain, clock)
    with pytest.raises(InvalidInputError, match="not a cursor of this list"):
        list_page(brain, name, cursor=cursor)
    for limit in (0, 101):
        with pytest.raises(RejectedError, match="1 to 100 is allowed"):
            list_page(brain, name, limit=limit)


def test_session_that_ends_between_two_pages_hides_no_other(brain: Brain, clock: FakeClock) -> None:
    with_sessions(brain, clock)
    whole = brain.session.list().sessions or ()
    first = brain.session.list(limit=2)
    for one in whole[1:3]:
        brain.acting_as(agent=one.agent, session=one.session).session.end()
    rest = brain.session.list(limit=9, cursor=first.next)
    assert rest.sessions == whole[3:]


@pytest.mark.requirement("OB-14")
def test_rest_and_the_schema_for_agents_take_limit_and_cursor(
    brain: Brain, clock: FakeClock, subtests: pytest.Subtests
) -> None:
    for _, _, fill in LISTS.values():
        fill(replace_agent(brain), clock)
    with calling(an_app(brain), "key-of-ada") as client:
        for name, (operation, op, _) in LISTS.items():
            path, body = f"/v1/{operation}", {"op": op, "limit": 4}
            with subtests.test(list=name):
                first = client.post(path, json=body).json()
                rest = client.post(path, json={**body, "cursor": first["next"]}).json()
                assert (len(first[name]), first["more"]) == (4, 1)
                assert (len(rest[name]), rest["more"], rest["next"]) == (1, 0, None)
                assert {"limit", "cursor"} <= set(OPERATIONS[operation].request.model_fields)


def replace_agent(brain: Brain) -> Brain:
    """Act as another agent than the client of the server, who does not see its own session."""
    return Brain(brain.services, replace(brain.caller, agent="ann"))


Page = tuple[str, dict[str, object]]
PAGES: Final[tuple[Page, ...]] = (
    *((operation, {"op": op, "limit": 1}) for operation, op, _ in LISTS.values()),
    ("message", {"op": "inbox", "all": True, "limit": 1}),
    ("message", {"op": "history", "agent": "ann", "limit": 1}),
    ("message", {"op": "threads", "limit": 1}),
    ("message", {"op": "delegated", "limit": 1}),
    ("job", {"op": "list", "limit": 1}),
    ("audit", {"limit": 1}),
    ("recalls", {"limit": 1}),
    ("review", {"limit": 1}),
    ("recall", {"max_items": 1}),
    ("list", {"limit": 1}),
    ("list", {"limit": 1, "order": "occurred_oldest"}),
)
"""Every list whose cursor has numbers, which are places in the store."""
NUMBERS: Final = st.one_of(
    st.sampled_from(
        [sign * (2**bits - 1) for bits in (31, 53, 62, 63, 64, 70) for sign in (1, -1)]
    ),
    st.integers(-(2**63), 2**63),
    st.integers(0, 3),
)


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brain]:
    """Fill a store so that every list has a second page."""
    clock = FakeClock()
    with a_brain(tmp_path_factory.mktemp("pages") / "brain.db", clock=clock) as brain:
        for _, _, fill in LISTS.values():
            fill(brain, clock)
        for name, job in (("Lisbon", "maintain"), ("Porto", "export")):
            clock.move(timedelta(minutes=1))
            brain.message.delegate("bo", f"Ship the crates to {name}")
            brain.recall(f"crates to {name}")
            brain.jobs.run(job)
            draft = Draft(body=f"Never ship to {name}", kind="rule", trust=Trust.UNTRUSTED_WEB)
            brain.acting_as(trust_ceiling=Trust.UNTRUSTED_WEB).remember(draft)
        brain.services.journal.flush()
        yield brain


@pytest.mark.requirement("OB-14")
@pytest.mark.parametrize(
    "page", PAGES, ids=lambda page: f"{page[0]} {page[1].get('op') or page[1].get('order', '')}"
)
@given(data=st.data())
def test_cursor_with_any_numbers_gives_a_page_or_is_refused(
    full: Brain, page: Page, data: st.DataObject
) -> None:
    operation, fields = page
    agent = "bo" if operation == "message" else "ann"
    brain = full.acting_as(agent=agent, session="s-1")
    row = OPERATIONS[operation]

    def listed(**more: object) -> Any:  # noqa: ANN401 each list has its own
        return row.handle(brain, row.request.model_validate({**fields, **more}))

    cursor = listed().next
    checksum, *key = json.loads(base64.urlsafe_b64decode(cursor + "=="))
    forged = [data.draw(NUMBERS) if isinstance(one, int) else one for one in key]
    text = json.dumps([checksum, *forged]).encode()
    with suppress(InvalidInputError):
        listed(cursor=base64.urlsafe_b64encode(text).decode().rstrip("="))
