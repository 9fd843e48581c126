"""The admin screens: who may open them, what they change, and how that is undone."""

import logging
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from commonbrain_server.admin_page import ADMIN_PART, TENANT_PART
from commonbrain_server.tenants import AgentRequest, KeyRequest, admin_of, tenants_of

from commonbrain.client import Brain
from commonbrain.model.scope import Role, Trust
from tests.web.people import rows_of, visiting
from tests.web.visitors import Visitor, notice, offers_undo, sentence, visitor

ADMIN_PATHS = ["/admin", *(one.path for one in (*ADMIN_PART.screens, *TENANT_PART.screens))]
KEY = re.compile(r"cb_default_[0-9a-f]{8}_[0-9a-f]{48}")
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def ann(brain: Brain) -> Visitor:
    return visitor(brain)


@pytest.mark.parametrize("role", [Role.READER, Role.WRITER])
def test_non_admins_are_refused_and_see_no_link_to_admin_screens(
    brain: Brain, role: Role, subtests: pytest.Subtests
) -> None:
    with visiting(brain, role) as rea:
        for address in ADMIN_PATHS:
            with subtests.test(address=address):
                assert rea.read(address, status=403)["code"] == "insufficient_role"
                assert "Ask an admin." in rea.see(address, status=403)
        assert 'href="/admin' not in rea.see("/")


def test_non_admins_cannot_send_forms_of_the_administration(
    brain: Brain, subtests: pytest.Subtests
) -> None:
    with visiting(brain, Role.WRITER) as rea:
        for operation, fields in (
            ("admin", {"op": "key_create", "agent": "bo", "role": "admin"}),
            ("admin", {"op": "agent_set", "agent": "ann", "disabled": "true"}),
            ("tenant", {"op": "create", "name": "acme"}),
        ):
            with subtests.test(operation=operation, fields=fields):
                assert "insufficient_role" in rea.send(operation, status=403, **fields)
                assert admin_of(brain).agents() == []


def test_each_admin_screen_has_a_json_view(brain: Brain, subtests: pytest.Subtests) -> None:
    with visiting(brain) as ann:
        for address in ADMIN_PATHS:
            with subtests.test(address=address):
                assert ann.read(f"{address}?format=json")
                assert "This view as JSON" in ann.see(address)


@pytest.mark.of_a_file
def test_new_key_is_shown_once_and_is_in_no_cookie_log_or_event(
    brain: Brain, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with visiting(brain) as ann:
        csrf = re.findall(r'name="csrf" value="(\w+)"', ann.see("/"))[0]
        fields = {"op": "key_create", "agent": "bo", "role": "writer", "label": "laptop"}
        form = {"csrf": csrf, "next": "/admin/keys", **fields}
        response = ann.client.post("/do/admin", data=form, follow_redirects=False)
        [key] = KEY.findall(response.text)
        elsewhere = [ann.see(path) + str(ann.read(path)) for path in ("/health", *ADMIN_PATHS)]

    assert response.status_code == 200
    assert response.headers["cache-control"] == "no-store"
    assert "set-cookie" not in response.headers
    secret = key.rpartition("_")[2]
    assert not any(secret in page for page in elsewhere)
    assert secret not in caplog.text
    assert secret.encode() not in b"".join(one.read_bytes() for one in _files_of(brain))
    assert key.split("_")[2] in elsewhere[ADMIN_PATHS.index("/admin/keys") + 1]


def _files_of(brain: Brain) -> list[Path]:
    location = Path(brain.services.store.location)
    return [one for one in location.parent.glob(f"{location.name}*") if one.is_file()]


def test_key_is_rotated_at_once_and_revoked_after_confirmation(brain: Brain) -> None:
    old = admin_of(brain).create_key(KeyRequest(agent="bo", role=Role.WRITER)).key
    with visiting(brain) as ann:
        rotated = ann.send("admin", op="key_rotate", key=old.prefix, minutes="0")
        new = KEY.findall(rotated)[0].split("_")[2]
        question = ann.send("admin", op="key_revoke", key=new)
        before = admin_of(brain).keys()
        done = ann.confirm(question)
    after = admin_of(brain).keys()

    assert "Revoke a key immediately." in question
    assert [one.revoked_at for one in before] == [None, None]
    assert [one.prefix for one in after if one.revoked_at] == [new]
    assert "Undo" not in done


def test_agent_is_disabled_after_confirmation_and_enabled_by_undo(brain: Brain) -> None:
    admin_of(brain).set_agent(
        "bo", AgentRequest(role=Role.READER, trust_ceiling=Trust.TRUSTED_TOOL)
    )
    with visiting(brain) as ann:
        question = ann.send("admin", op="agent_set", agent="bo", disabled="true")
        [still] = admin_of(brain).agents()
        done = ann.confirm(question)
        [disabled] = admin_of(brain).agents()
        ann.confirm(done)
        [enabled] = admin_of(brain).agents()

    assert "Disable an agent; its keys and memories stay." in question
    assert still.disabled_at is None
    assert disabled.disabled_at is not None
    assert enabled == still


def test_roles_and_trust_are_changed_and_undone(brain: Brain) -> None:
    with visiting(brain) as ann:
        ann.send("admin", op="agent_set", agent="bo", role="reader")
        [made] = admin_of(brain).agents()
        done = ann.send(
            "admin",
            op="agent_set",
            agent="bo",
            role="admin",
            trust_default="untrusted_web",
            trust_ceiling="trusted_tool",
        )
        [changed] = admin_of(brain).agents()
        ann.confirm(done)
        [undone] = admin_of(brain).agents()

    assert (made.role, changed.role, changed.trust_default) == (
        Role.READER,
        Role.ADMIN,
        Trust.UNTRUSTED_WEB,
    )
    assert undone == made


def test_policy_changes_can_be_undone(brain: Brain) -> None:
    archive, forget = "kind=event label=log days=30 action=archive", "kind=event days=90"
    admin_of(brain).policy(retention=(forget,), parameters=("trust_min=0.5",))
    before = admin_of(brain).policy()
    each: list[dict[str, Any]] = [
        {"boot_required": "true"},
        {"retention": [forget, archive]},
        {"retention": "none"},
        {"parameters": "trust_min="},
        {"parameters": "salience_min=0.2"},
    ]
    with visiting(brain) as ann:
        for changes in each:
            done = ann.send("admin", op="policy", **changes)
            assert admin_of(brain).policy() != before, changes
            ann.confirm(done)
            assert admin_of(brain).policy() == before, changes


def test_owner_can_set_quotas_and_undo_the_change(brain: Brain) -> None:
    with visiting(brain) as ann:
        done = ann.send("tenant", op="policy", name="default", memories_max="5")
        limited = tenants_of(brain).get("default").policy.memories_max
        page = ann.see("/admin")
        ann.confirm(done)

    assert limited == 5
    assert '<meter aria-label="Memories" min="0" max="5"' in page
    assert tenants_of(brain).get("default").policy.memories_max is None


def test_tenants_are_created_suspended_after_confirmation_and_resumed(brain: Brain) -> None:
    with visiting(brain) as ann:
        ann.send("tenant", op="create", name="acme")
        question = ann.send("tenant", op="suspend", name="acme")
        assert tenants_of(brain).get("acme").suspended_at is None
        done = ann.confirm(question)
        assert tenants_of(brain).get("acme").suspended_at is not None
        ann.confirm(done)
        view = ann.read("/admin/tenants?name=acme")

    assert tenants_of(brain).get("acme").suspended_at is None
    assert [one["name"] for one in view["tenants"]] == ["acme", "default"]
    assert view["usage"]["memories"] == 0


def test_remote_admin_cannot_manage_tenants(brain: Brain) -> None:
    with visiting(brain, is_remote=True) as ada:
        page = ada.see("/admin")
        ada.read("/admin/tenants", status=403)
        ada.send("tenant", status=403, op="create", name="acme")
        ada.send("tenant", status=403, op="suspend", name="default")

    assert "/admin/tenants" not in page
    assert "Change the quotas" not in page
    assert [one.name for one in tenants_of(brain).list()] == ["default"]


def test_hostile_name_is_shown_as_text_and_its_forms_work(brain: Brain) -> None:
    admin_of(brain).create_key(KeyRequest(agent=HOSTILE, role=Role.READER, label=HOSTILE))
    with visiting(brain) as ann:
        pages = [ann.see(path) for path in ("/admin", "/admin/agents", "/admin/keys")]
        keys = re.findall(r'href="(/admin/keys\?agent=[^"]+)"', pages[1])
        of_it = ann.read(unescape(keys[0]))
        ann.confirm(ann.send("admin", op="agent_set", agent=HOSTILE, disabled="true"))

    assert not any("<script>alert" in page for page in pages)
    assert [one["agent"] for one in of_it["keys"]] == [HOSTILE]
    assert admin_of(brain).agents()[0].disabled_at is not None


def test_lists_are_paged_without_repeating_a_row(brain: Brain) -> None:
    for number in range(45):
        admin_of(brain).set_agent(f"agent-{number:02}", AgentRequest(role=Role.READER))
    with visiting(brain) as ann:
        agents = rows_of(ann, "/admin/agents", "agents")
        refusals = rows_of(ann, "/admin/refusals", "refusals")

    assert len(agents) == len(set(agents)) == 45
    assert len(refusals) == 45


def test_notice_of_an_undone_role_change_names_the_role(ann: Visitor, brain: Brain) -> None:
    admin_of(brain).set_agent("zed", AgentRequest(role=Role.WRITER))
    changed = notice(ann, "admin", op="agent_set", agent="zed", role="reader")
    assert sentence(changed).startswith("zed | reader |")
    undone = notice(ann, "admin", **dict(re.findall(r'name="([^"]+)" value="([^"]*)"', changed)))
    assert sentence(undone).startswith("zed | writer |")


def test_unchanged_policy_offers_no_undo(ann: Visitor) -> None:
    changed = notice(ann, "admin", op="policy", boot_required="true")
    assert "boot: required" in sentence(changed)
    assert offers_undo(changed)
    again = notice(ann, "admin", op="policy", boot_required="true")
    assert sentence(again).startswith("Nothing was changed.")
    assert not offers_undo(again)


def test_resuming_a_resumed_tenant_offers_no_undo(ann: Visitor) -> None:
    assert sentence(notice(ann, "tenant", op="create", name="acme")).startswith("acme | made")
    again = notice(ann, "tenant", op="resume", name="acme")
    assert sentence(again).startswith("Nothing was changed.")
    assert not offers_undo(again)


def test_form_of_a_reading_call_is_not_found(ann: Visitor, subtests: pytest.Subtests) -> None:
    for operation, fields in (("admin", {"op": "keys"}), ("tenant", {"op": "list"})):
        with subtests.test(operation=operation):
            assert ann.post(f"/do/{operation}", fields).status_code == 404
