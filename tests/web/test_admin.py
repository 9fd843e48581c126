"""The admin screens of the core: who may open them, what they list, and what undo restores."""

import pytest

from commonbrain.client import Brain
from commonbrain.model.scope import Role
from commonbrain.web.screens import SCREENS
from tests.web.people import rows_of, visiting

ADMIN_PATHS = [one.path for one in SCREENS if one.role is Role.ADMIN]


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


def test_each_admin_screen_has_a_json_view(brain: Brain, subtests: pytest.Subtests) -> None:
    with visiting(brain) as ann:
        for address in ADMIN_PATHS:
            with subtests.test(address=address):
                assert ann.read(f"{address}?format=json")
                assert "This view as JSON" in ann.see(address)


def test_cancelled_job_is_queued_again_by_undo(brain: Brain) -> None:
    job = brain.jobs.run("maintain")
    with visiting(brain) as ann:
        done = ann.send("job", op="cancel", id=job.id)
        cancelled = ann.read("/admin/jobs?state=cancelled")["page"]["jobs"]
        ann.confirm(done)
        queued = ann.read("/admin/jobs?state=queued")["page"]["jobs"]

    assert [one["id"] for one in cancelled] == [one["id"] for one in queued] == [job.id]


def test_audit_is_paged_without_repeating_a_line(brain: Brain) -> None:
    for number in range(60):
        brain.remember(f"Ferry {number} leaves at {number}.", kind="fact")
    with visiting(brain) as ann:
        created = rows_of(ann, "/admin/audit?action=create", "page", "lines")

    assert len(created) == len(set(created)) == 60


def test_invalid_filter_is_refused_with_the_expected_form(brain: Brain) -> None:
    with visiting(brain) as ann:
        error = ann.read("/admin/audit?memory=nonsense", status=422)

    assert "mem_" in error["hint"] + error["message"]
