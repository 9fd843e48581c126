"""The admin screens in a browser: by keys, and with what cannot be taken back asked first."""

import re

import pytest
from commonbrain_server.tenants import admin_of
from playwright.sync_api import Page, expect

from commonbrain.model.scope import Role
from tests.browser.axe import serious_faults
from tests.browser.conftest import Site

KEY = re.compile(r"cb_default_[0-9a-f]{8}_[0-9a-f]{48}")


@pytest.fixture
def admin(page: Page, site: Site) -> Page:
    page.goto(f"{site.url}/")
    page.keyboard.press("g")
    page.keyboard.press("a")
    page.wait_for_url("**/admin")
    return page


def test_api_key_is_created_by_keyboard_shown_once_and_revoked(admin: Page, site: Site) -> None:
    admin.get_by_role("navigation", name="Admin").get_by_role("link", name="Keys").click()
    admin.wait_for_url("**/admin/keys")
    admin.keyboard.press("n")
    admin.keyboard.type("build-bot")
    admin.get_by_label("Role, if the agent is new").select_option("reader")
    admin.get_by_label("read", exact=True).check()
    admin.keyboard.press("Enter")
    shown = admin.get_by_label("The new key", exact=True)
    expect(shown).to_have_text(KEY)
    assert serious_faults(admin) == []
    admin.get_by_role("link", name="Done").click()
    expect(admin.get_by_text(KEY)).to_have_count(0)
    row = admin.locator("[data-row]", has_text="build-bot")
    expect(row).to_contain_text("never used")

    row.get_by_role("button", name="Revoke").click()
    expect(admin.get_by_text("Revoke a key immediately.")).to_be_visible()
    assert serious_faults(admin) == []
    admin.get_by_role("button", name="Confirm").click()
    expect(admin.locator("[data-row]", has_text="build-bot")).to_contain_text("revoked")
    assert [one.name for one in admin_of(site.brain).agents() if one.role is Role.READER] == [
        "build-bot"
    ]


def test_role_is_changed_and_the_undo_key_restores_it(admin: Page, site: Site) -> None:
    admin.goto(f"{site.url}/admin/agents")
    admin.keyboard.press("n")
    admin.keyboard.type("<script>alert(1)</script>")
    admin.keyboard.press("Enter")
    row = admin.locator("[data-row]", has_text="<script>alert(1)</script>")
    row.get_by_text("Change").click()
    row.get_by_label("Role").select_option("admin")
    row.get_by_role("button", name="Save").click()
    expect(row.locator(".facts")).to_contain_text("admin")
    admin.keyboard.press("u")
    expect(row.locator(".facts")).to_contain_text("writer")


def test_retention_rule_is_added_and_removed(admin: Page) -> None:
    admin.get_by_label("New rule").fill("kind=event days=90 action=archive")
    admin.get_by_role("button", name="Add the rule").click()
    remove = admin.get_by_role("button", name=re.compile("Remove the rule kind=event"))
    remove.click()
    expect(admin.get_by_text("Everything is kept.")).to_be_visible()


def test_job_is_started_cancelled_and_retried(admin: Page, site: Site) -> None:
    admin.goto(f"{site.url}/admin/jobs")
    admin.get_by_role("button", name="Run maintenance now").click()
    row = admin.locator("[data-row]", has_text="maintain")
    row.get_by_role("button", name="Cancel").click()
    expect(row).to_contain_text("cancelled")
    row.get_by_role("button", name="Retry").click()
    expect(row).to_contain_text("queued")
