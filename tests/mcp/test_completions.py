"""Completions of the arguments of the prompt and of resource templates."""

import pytest
from mcp import Client
from mcp.types import PromptReference, ResourceTemplateReference

from commonbrain.client import Brain
from commonbrain.mcp.resources import STARTUP
from commonbrain.mcp.server import build_server
from tests.asking import stored

STARTING = PromptReference(name=STARTUP)


def template(uri: str) -> ResourceTemplateReference:
    return ResourceTemplateReference(uri=uri)


@pytest.fixture(params=["auto", "legacy"])
def client(request: pytest.FixtureRequest, brain: Brain) -> Client:
    return Client(build_server(lambda: brain, agent="ann"), mode=request.param)


async def completed(
    client: Client, ref: PromptReference | ResourceTemplateReference, name: str, *, value: str = ""
) -> list[str]:
    return (await client.complete(ref, {"name": name, "value": value})).completion.values


async def test_projects_are_completed_those_with_most_memories_first(
    client: Client, brain: Brain
) -> None:
    for number in range(3):
        brain.remember(f"Shelf {number} is oak.", kind="fact", project="web-shop")
    brain.remember("The depot is in Kiel.", kind="fact", project="Shop")
    brain.remember("Tea is at four.", kind="fact")
    async with client:
        for ref in (STARTING, template("boot://{project}")):
            assert await completed(client, ref, "project") == ["web-shop", "Shop"]
            assert await completed(client, ref, "project", value="sh") == ["Shop", "web-shop"]
            assert await completed(client, ref, "project", value="zoo") == []


async def test_ids_of_memories_and_threads_are_completed(client: Client, brain: Brain) -> None:
    ids = [stored(brain, f"Shelf {number} is oak.", kind="fact") for number in range(3)]
    sent = brain.message.send("bo", "Tea?")
    async with client:
        memories = template("memory://{id}")
        assert set(await completed(client, memories, "id", value="mem_")) == {*ids, sent.id}
        assert await completed(client, memories, "id", value=ids[1]) == [ids[1]]
        assert await completed(client, template("thread://{id}"), "id") == [sent.thread]


async def test_others_secrets_are_not_completed(client: Client, brain: Brain) -> None:
    other = brain.acting_as(agent="bo")
    hidden = stored(other, "The merger is secret.", kind="fact", scope="private", project="merger")
    async with client:
        assert await completed(client, STARTING, "project") == []
        assert hidden not in await completed(client, template("memory://{id}"), "id")


async def test_what_has_no_completions_has_none(client: Client) -> None:
    async with client:
        assert await completed(client, STARTING, "task", value="Me") == []
        assert await completed(client, PromptReference(name="unknown"), "project") == []
        assert await completed(client, template("file:///{path}"), "path") == []
