"""Three people share one server for a month, each by MCP over plain HTTP with a key of its own."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from mcp import Client

from commonbrain.testing.builders import FakeClock, a_brain
from tests.serving import an_app, client_at, listening

pytestmark = pytest.mark.part("server")

DAY, HOUR = timedelta(days=1), timedelta(hours=1)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def url(path: Path, clock: FakeClock) -> Iterator[str]:
    with listening(an_app(a_brain(path, clock=clock))) as url:
        yield url


class Person:
    """One person's agent at work in one connection."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        result = await self.client.call_tool(tool, arguments)
        assert not result.is_error, result.content
        return cast("dict[str, Any]", result.structured_content)

    async def says(self, tool: str, **arguments: object) -> str:
        result = await self.client.call_tool(tool, arguments)
        return "\n".join(getattr(one, "text", "") for one in result.content)

    async def remembers(self, text: str, **more: object) -> str:
        [item] = (await self.call("remember", text=text, project="shop", **more))["items"]
        assert item["status"] == "stored", item
        return item["id"]

    async def recalls(self, query: str, **more: object) -> list[str]:
        reply = await self.call("recall", query=query, project="shop", **more)
        return [str(one.get("body") or one.get("headline")) for one in reply["items"]]


@asynccontextmanager
async def at_work(url: str, name: str, task: str) -> AsyncGenerator[tuple[Person, dict[str, Any]]]:
    """Connect, and boot into the project."""
    async with client_at(url, key=f"key-of-{name}") as client:
        person = Person(client)
        yield person, await person.call("boot", project="shop", task=task)


@pytest.mark.requirement("SE-34", "MS-03")
async def test_team_of_agents_shares_a_store_for_a_month(url: str, clock: FakeClock) -> None:
    await _hand_over(url, clock)
    await _stop_for_an_action_item(url)
    await _suffer_outages(url, clock)
    await _decide_between_two(url)
    await _find_the_cause(url)
    clock.move(7 * DAY)
    await _review_the_month(url)


async def _hand_over(url: str, clock: FakeClock) -> None:
    """Start, see each other at work, and go on where the last session of the project ended."""
    async with at_work(url, "ann", "Set up the shop") as (ann, first):
        assert first.get("handoff") is None
        await ann.remembers("The shop stores orders in Postgres", kind="decision")
        async with at_work(url, "ben", "Write the cart") as (ben, seen):
            assert [peer["task"] for peer in seen["siblings"]] == ["Set up the shop"]
            peers = (await ann.call("session", op="list"))["sessions"]
            assert [peer["task"] for peer in peers] == ["Write the cart"]
            await ben.call("session", op="end", text="The cart adds items.", next_steps=["totals"])
        await ann.call("session", op="end", text="Orders are stored.", next_steps=["invoices"])
    clock.move(DAY)
    async with at_work(url, "ben", "Totals") as (_, next_day):
        assert "invoices" in next_day["handoff"]["text"]


async def _stop_for_an_action_item(url: str) -> None:
    """Block the writers of the project until they answer, and no others."""
    async with at_work(url, "ada", "Audit") as (ada, _), at_work(url, "ben", "Totals") as (ben, _):
        item = await ada.remembers("Rotate the payment keys", kind="task", must_ack=True)
        refusal = await ben.says("remember", text="Totals are rounded", kind="fact", project="shop")
        assert "action_items_pending" in refusal
        assert item in refusal
        assert "ada" in refusal
        elsewhere = await ben.call("remember", text="The blog is blue", kind="fact", project="blog")
        assert elsewhere["items"][0]["status"] == "stored"
        await ben.call("revise", op="ack", id=item, value="will_execute")
        await ben.remembers("Totals are rounded to cents", kind="fact")


async def _suffer_outages(url: str, clock: FakeClock) -> None:
    """Follow four pushes by an outage each, and four by none."""
    for number in (1, 8, 15, 22):
        async with at_work(url, "ben", "Deploy") as (ben, _):
            await ben.remembers(f"Config push number {number}", kind="event")
            clock.move(HOUR)
            await ben.remembers(
                f"Checkout outage {number}: the cart-api timed out", kind="incident"
            )
            clock.move(2 * DAY)
            await ben.remembers(f"Config push number {number + 2}", kind="event")
            clock.move(2 * DAY)


async def _decide_between_two(url: str) -> None:
    """Settle something in a direct message, which the team learns and only its two agents read."""
    async with (
        at_work(url, "ann", "Outages") as (ann, _),
        at_work(url, "ben", "Outages") as (ben, _),
    ):
        text = "@decision Config pushes wait for a canary"
        sent = await ann.says("message", op="send", to=["ben"], text=text)
        assert "a fact of the team" in sent
        inbox = await ben.says("message", op="inbox")
        assert "Config pushes wait for a canary" in inbox
        assert "private to you and ann" in inbox
        cause = "The cart-api timed out because the push reset the pool"
        await ann.remembers(cause, kind="event", extract_causes=True)


async def _find_the_cause(url: str) -> None:
    """Answer a third person: the decision, what usually came before, and the cause."""
    async with at_work(url, "ada", "Review") as (ada, _):
        results = await ada.says("recall", query="When may config pushes go out?", project="shop")
        assert "Config pushes wait for a canary" in results
        assert "ann to ben" in results
        before = await ada.says("trace", op="before", text="Checkout outage", hours=4)
        assert "Config push number" in before
        assert "4x" in before
        assert "4x without it" in before
        causes = await ada.says("trace", op="causes", text="Why did the cart-api time out?")
        assert "the push | reset the pool" in causes


async def _review_the_month(url: str) -> None:
    """Ask for a week, and for every time that something came again."""
    async with at_work(url, "ann", "Look back") as (ann, _):
        texts = await ann.recalls("What happened last week?")
        assert texts, texts
        assert not any("Postgres" in text or "number 1" in text for text in texts), texts
        timeline = await ann.recalls("checkout outage", order="timeline", max_items=20)
        assert sum("Checkout outage" in text for text in timeline) == 4, timeline
        await ann.call("session", op="end", text="The month is closed.", next_steps=["rest"])
    async with at_work(url, "ada", "Plan") as (_, last):
        assert "The month is closed." in last["handoff"]["text"]
