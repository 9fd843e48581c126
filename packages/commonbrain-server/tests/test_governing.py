"""Tenants, agents and keys as the owner of a store governs them at its machine."""

import json
from pathlib import Path
from typing import Any

import pytest
from commonbrain_server.security.keys import KeyScope
from commonbrain_server.tenants import KeyRequest, admin_of
from mcp import Client

import commonbrain
from commonbrain.api.dispatch import dispatch
from commonbrain.api.operations import Profile, load_operations
from commonbrain.client import Brain
from commonbrain.mcp.server import build_server
from commonbrain.model.errors import CommonbrainError, InvalidInputError, RejectedError
from commonbrain.model.scope import LOCAL_TENANT, Caller, Policy, Role
from tests.conftest import Command
from tests.guarded import an_access, guarded

ADMIN = next(one for one in load_operations() if one.name == "admin")
TENANT = next(one for one in load_operations() if one.name == "tenant")


def parsed(reply: tuple[int, str]) -> dict[str, Any]:
    assert reply[0] == 0, reply
    return json.loads(reply[1])


def admitted(path: Path, secret: str) -> Caller:
    with commonbrain.open(path) as brain:
        return an_access(guarded(brain)).admit(secret, address=None)


def as_admin(brain: Brain) -> Brain:
    """See the brain as an admin who came by a key."""
    key = admin_of(brain).create_key(KeyRequest(agent="root", role=Role.ADMIN))
    return Brain(brain.services, an_access(brain).admit(str(key.text), address=None))


def call(brain: Brain, **given: object) -> dict[str, Any]:
    reply = dispatch(ADMIN, brain, request=ADMIN.request.model_validate(given))
    return ADMIN.to_agent_json(reply)


def test_owner_creates_a_tenant_and_a_key_for_it(command: Command, path: Path) -> None:
    assert command("tenant", "create", "acme")[0] == 0
    acme = ("--tenant", "acme")
    made = parsed(command(*acme, "key", "create", "bob", "--role", "writer", "--json"))

    caller = admitted(path, made["secret"])

    assert (caller.tenant, caller.agent, caller.role) == ("acme", "bob", Role.WRITER)
    assert made["secret"].startswith("cb_acme_")
    listed = command(*acme, "key", "list")[1]
    assert made["keys"][0]["key"] in listed
    assert made["secret"] not in listed
    assert "no keys in default" in command("key", "list")[1].lower()


def test_tenants_are_listed_limited_suspended_and_resumed(command: Command) -> None:
    command("tenant", "create", "acme")
    bound = command(
        "tenant", "policy", "acme", "--memories-max", "7", "--key-calls-per-minute", "60"
    )

    assert "at most 7" in bound[1]
    assert "of a key: 60" in command("tenant", "show", "acme")[1]
    assert command("tenant", "suspend", "acme", "--yes")[0] == 0
    names = [one["name"] for one in parsed(command("tenant", "list", "--json"))["tenants"]]
    assert names == ["acme", LOCAL_TENANT]
    assert "suspended" in command("tenant", "list")[1]
    command("tenant", "resume", "acme")
    assert "suspended" not in command("tenant", "list")[1]
    assert "no limit" in command("tenant", "policy", "acme", "--memories-max", "-1")[1]


def test_agents_are_set_disabled_and_enabled(command: Command) -> None:
    command("agent", "set", "bob", "--role", "reader", "--trust-ceiling", "trusted_tool")

    assert "bob | reader | trust user_claim, at most trusted_tool" in command("agent", "list")[1]
    assert "disabled" in command("agent", "disable", "bob", "--yes")[1]
    assert "disabled" not in command("agent", "enable", "bob")[1]


def test_key_is_rotated_and_revoked_by_the_prefix_in_lists(command: Command, path: Path) -> None:
    old = parsed(command("key", "create", "bob", "--role", "writer", "--json"))
    new = parsed(command("key", "rotate", old["keys"][0]["key"], "--minutes", "0", "--json"))

    assert admitted(path, new["secret"]).agent == "bob"
    assert command("key", "revoke", new["keys"][0]["key"], "--yes")[0] == 0
    for old_or_new in (old, new):
        with pytest.raises(CommonbrainError):
            admitted(path, old_or_new["secret"])
    assert command("key", "revoke", "ffffffff", "--yes")[0] == 4


def test_command_sees_one_tenant_which_must_exist(command: Command) -> None:
    command("tenant", "create", "acme")
    command("--tenant", "acme", "remember", "The kettle is in the blue cupboard.")

    assert "kettle" in command("--tenant", "acme", "recall", "kettle")[1]
    assert "kettle" not in command("recall", "where is it")[1]
    code, reply = command("--tenant", "nobody", "status")
    assert (code, "no tenant nobody" in reply) == (4, True)


@pytest.mark.parametrize("name", ["Acme", "a.b", "", "-x"])
def test_a_tenant_is_not_called_anything(command: Command, name: str) -> None:
    assert command("tenant", "create", "--", name)[0] == 2
    assert command("tenant", "create", LOCAL_TENANT)[0] == 2


@pytest.mark.requirement("DM-48")
def test_admin_of_a_tenant_manages_it_and_cannot_change_its_limits(brain: Brain) -> None:
    admin = as_admin(brain)
    made = call(
        admin,
        op="key_create",
        agent="bob",
        role="writer",
        scopes=["read"],
        networks=["192.0.2.0/24"],
        days=7,
    )
    prefix = made["keys"][0]["key"]

    assert made["keys"][0]["scopes"] == [KeyScope.READ]
    assert call(admin, op="key_revoke", key=f"cb_default_{prefix}")["keys"][0]["revoked_at"]
    assert {one["name"] for one in call(admin, op="agents")["agents"]} == {"bob", "root"}
    assert call(admin, op="policy", boot_required=True)["policy"]["is_boot_required"]
    assert call(admin, op="usage")["usage"]["keys"] == 1
    actions = {one["action"] for one in call(admin, op="refusals")["refusals"]}
    assert actions == {"agent_set", "key_create", "key_revoke", "policy"}
    with pytest.raises(RejectedError):
        admin_of(admin).policy(memories_max=1)
    with pytest.raises(RejectedError):
        dispatch(TENANT, admin, request=TENANT.request.model_validate({"op": "list"}))


def test_policy_with_impossible_limits_is_invalid() -> None:
    with pytest.raises(InvalidInputError):
        Policy(key_calls_per_minute=0)
    with pytest.raises(InvalidInputError):
        Policy(memories_max=-1)


async def test_profile_lists_its_tools_and_calls_no_others(brain: Brain) -> None:
    shown: dict[Profile, set[str]] = {}
    for profile in Profile:
        async with Client(build_server(lambda: brain, profile=profile, is_owner=True)) as client:
            shown[profile] = {tool.name for tool in (await client.list_tools()).tools}
            if profile is Profile.CORE:
                with pytest.raises(Exception, match="There is no tool 'admin'"):
                    await client.call_tool("admin", {"op": "keys"})

    assert shown[Profile.LITE] == {"boot", "recall", "get", "remember", "session"}
    assert shown[Profile.OPERATOR] - shown[Profile.CORE] == {"admin", "audit", "model"}
    assert shown[Profile.LITE] < shown[Profile.CORE]


@pytest.mark.requirement("OB-14")
def test_agents_keys_and_refusals_have_pages(brain: Brain) -> None:
    admin = as_admin(brain)
    for number in range(5):
        call(admin, op="key_create", agent=f"agent-{number}", role="writer")
    for op, expected in (("agents", 6), ("keys", 6), ("refusals", 12)):
        whole = call(admin, op=op, limit=100)[op]
        assert len(whole) >= expected
        shown: list[Any] = []
        page = call(admin, op=op, limit=4)
        while True:
            shown += page[op]
            assert page["more"] == len(whole) - len(shown)
            if "next" not in page:
                break
            page = call(admin, op=op, limit=4, cursor=page["next"])
        assert shown == whole
    cursor = call(admin, op="agents", limit=4)["next"]
    with pytest.raises(InvalidInputError, match="not a cursor of this list"):
        call(admin, op="keys", cursor=cursor)


@pytest.mark.requirement("OB-14")
def test_tenants_have_pages(command: Command) -> None:
    for name in ("acme", "birch", "cedar"):
        assert command("tenant", "create", name)[0] == 0
    first = parsed(command("tenant", "list", "--limit", "3", "--json"))
    assert ([one["name"] for one in first["tenants"]], first["more"]) == (
        ["acme", "birch", "cedar"],
        1,
    )
    shown = command("tenant", "list", "--limit", "3")[1]
    assert f"1 more: --cursor {first['next']}" in shown
    rest = command("tenant", "list", "--cursor", first["next"])[1]
    assert rest.startswith("default |")


@pytest.mark.requirement("OB-15")
async def test_admin_reads_the_audit_over_mcp(brain: Brain) -> None:
    stored = brain.acting_as(agent="codex").remember("Releases are cut on Tuesdays", kind="rule")
    async with Client(
        build_server(lambda: brain, profile=Profile.OPERATOR, is_owner=True)
    ) as client:
        reply = await client.call_tool("audit", {"agent": "codex", "limit": 1})
        assert reply.structured_content is not None
        [line] = reply.structured_content["lines"]
        assert (line["action"], line["memory"]) == ("create", stored.items[0].id)
        assert "codex | create" in str(reply.content)


def test_only_an_admin_sets_a_policy_and_no_rule_expires_by_age(brain: Brain) -> None:
    with pytest.raises(InvalidInputError, match="kept at any age"):
        admin_of(brain).policy(retention=("kind=rule days=900",))
    for rule in ("kind=event", "kind=event days=0", "days=3", "kind=event days=3 agent=bo", "x"):
        with pytest.raises(InvalidInputError):
            admin_of(brain).policy(retention=(rule,))
    writer = Brain(brain.services, Caller(agent="bo", role=Role.WRITER))
    with pytest.raises(RejectedError):
        admin_of(writer).policy(retention=())


@pytest.mark.requirement("LC-15")
def test_retention_of_a_tenant_is_set_and_shown(command: Command) -> None:
    rule = "kind=event label=log scope=team days=30 action=archive"
    _, output = command("tenant", "policy", "default", "--retention", rule)
    assert f"retention: {rule}" in output
    _, shown = command("tenant", "policy", "default")
    assert rule in shown
    code, refused = command("tenant", "policy", "default", "--retention", "kind=rule days=3")
    assert (code, "kept at any age" in refused) == (2, True)
    _, none = command("tenant", "policy", "default", "--retention", "none")
    assert "kept only" not in none
