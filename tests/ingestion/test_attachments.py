import json
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.client import Brain
from commonbrain.ingestion.result import ItemStatus
from commonbrain.model.attachments import attachment_text
from commonbrain.model.errors import InvalidInputError, RejectedError
from commonbrain.model.limits import ATTACHMENT_BYTES_MAX
from commonbrain.model.memory import Draft
from commonbrain.model.parameters import Parameters
from commonbrain.model.scope import OnSecret
from commonbrain.testing.builders import FakeClock, a_brain
from commonbrain.text.normalisation import normalise_draft
from tests.asking import stored
from tests.secrets import SECRETS

EXACT: dict[str, object] = {
    "  a\r\n": [1.5, -0.0, 10**30, None, True, "", " x \x00é e\u0301 \r\n", {}, []]
}
TEXT, SECRET = SECRETS["github classic"]
FINITE = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | FINITE | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def test_attachment_is_returned_unchanged(brain: Brain) -> None:
    id_ = stored(brain, "Tea is green", attachment=EXACT)
    assert json.dumps(brain.get(id_).attachment) == json.dumps(EXACT)


@given(st.dictionaries(st.text(), JSON))
def test_normalisation_does_not_change_an_attachment(attachment: dict[str, object]) -> None:
    draft = normalise_draft(Draft(body=" a ", attachment=attachment))
    assert draft.attachment is not None
    assert attachment_text(draft.attachment) == attachment_text(attachment)


def test_attachment_is_not_searched(brain: Brain) -> None:
    id_ = stored(brain, "Tea is green", attachment={"note": "zanzibar"})
    assert brain.recall("zanzibar").items == ()
    assert [one.id for one in brain.recall("tea").items] == [id_]


def test_revision_inherits_the_attachment_unless_it_has_one(brain: Brain) -> None:
    first = stored(brain, "Tea is green", attachment={"n": 1})
    second = brain.revise.supersede(first, "Tea is black", reason="new").id or ""
    third = brain.revise.supersede(second, "Tea is red", reason="new", attachment={"n": 3}).id or ""
    assert [brain.get(id_).attachment for id_ in (first, second, third)] == [
        {"n": 1},
        {"n": 1},
        {"n": 3},
    ]


def test_forgotten_memory_does_not_show_its_attachment(brain: Brain) -> None:
    id_ = stored(brain, "Tea is green", attachment=EXACT)
    brain.forget(id_, reason="wrong")
    assert brain.get(id_).attachment is None
    brain.revise.restore(id_, reason="right")
    assert brain.get(id_).attachment is not None


def test_attachment_is_exported_and_merged(brain: Brain, tmp_path: Path) -> None:
    id_ = stored(brain, "Tea is green", attachment=EXACT)
    brain.export(tmp_path / "all.jsonl")
    with a_brain(tmp_path / "other.db") as other:
        other.merge(tmp_path / "all.jsonl")
        assert json.dumps(other.get(id_).attachment) == json.dumps(EXACT)


@pytest.mark.of_a_file
def test_erasing_a_memory_erases_its_attachment(brain: Brain, path: Path) -> None:
    id_ = stored(brain, "Tea is green", attachment={"note": "zanzibar"})
    brain.revise.supersede(id_, "Tea is black", reason="new", attachment={"note": "zanzibar"})
    every = [id_, brain.get(id_).current_id]
    brain.erase(every, reason="on request", confirm=len(every))
    brain.close()
    files = path.parent.glob(f"{path.name}*")
    assert not any(b"zanzibar" in file.read_bytes() for file in files)


PASSWORD = "Tr0ub4dor&3xyzzy9"  # noqa: S105 an example
NAMED: tuple[dict[str, object], ...] = (
    {"password": PASSWORD},
    {"config": {"db_password": [PASSWORD]}},
    {"api_key": "a8f5f167f44f4964e6c998de"},
)


def test_attachment_with_a_secret_is_refused(brain: Brain, subtests: pytest.Subtests) -> None:
    for attachment in [{"a": [{"b": TEXT}]}, {SECRET: 1}, *NAMED]:
        with subtests.test(attachment=attachment):
            [outcome] = brain.remember([Draft(body="A token", attachment=attachment)]).items
            assert (outcome.status, outcome.code) == (ItemStatus.REJECTED, "secret_detected")


def test_secret_in_an_attachment_is_redacted_if_configured(path: Path) -> None:
    with a_brain(path, parameters=Parameters(secrets=OnSecret.REDACT)) as brain:
        id_ = stored(brain, "A token was found", attachment={"a": [TEXT, "", 1]})
        attachment = brain.get(id_).attachment or {}
    assert SECRET not in json.dumps(attachment)
    assert attachment["a"][1:] == ["", 1]  # pyright: ignore[reportIndexIssue]


@pytest.mark.parametrize("attachment", NAMED)
def test_value_under_a_secret_name_in_an_attachment_is_redacted_if_configured(
    path: Path, attachment: dict[str, object]
) -> None:
    with a_brain(path, parameters=Parameters(secrets=OnSecret.REDACT)) as brain:
        id_ = stored(brain, "A secret was found", attachment=attachment)
        saved = brain.get(id_).attachment or {}
    assert saved.keys() == attachment.keys()
    assert "[redacted: " in json.dumps(saved)
    assert not {PASSWORD, "a8f5f167f44f4964e6c998de"} & {*json.dumps(saved).split('"')}


def test_names_in_an_attachment_are_never_redacted(path: Path) -> None:
    with a_brain(path, parameters=Parameters(secrets=OnSecret.REDACT)) as brain:
        [outcome] = brain.remember([Draft(body="A token", attachment={SECRET: 1})]).items
    assert (outcome.status, outcome.code) == (ItemStatus.REJECTED, "secret_detected")


def test_total_size_of_an_attachment_is_limited(brain: Brain) -> None:
    half = "x" * (ATTACHMENT_BYTES_MAX // 2)
    fits, over = brain.remember(
        [
            Draft(body="One half", attachment={"a": half}),
            Draft(body="Two halves", attachment={"a": half, "b": half}),
        ]
    ).items
    assert fits.status is ItemStatus.STORED
    assert (over.status, over.code) == (ItemStatus.REJECTED, "limit_exceeded")


def test_attachment_that_is_not_json_is_refused(brain: Brain, subtests: pytest.Subtests) -> None:
    for value in [{1, 2}, float("nan"), "\ud800", b""]:
        with subtests.test(value=repr(value)):
            with pytest.raises(InvalidInputError, match="JSON"):
                brain.remember("Tea is green", attachment={"a": value})
            assert brain.recall("tea").items == ()


def test_expiry_of_a_memory_can_be_moved(brain: Brain, clock: FakeClock) -> None:
    id_ = stored(brain, "Tea is green", expires_at=clock.now() + timedelta(hours=1))
    brain.revise.set_expiry(id_, clock.now() + timedelta(hours=3))
    clock.move(timedelta(hours=2))
    assert brain.recall("tea").items
    brain.revise.set_expiry(id_, None)
    clock.move(timedelta(hours=2))
    assert brain.recall("tea").items
    brain.revise.set_expiry(id_, clock.now() + timedelta(hours=1))
    clock.move(timedelta(hours=2))
    assert not brain.recall("tea").items
    with pytest.raises(RejectedError, match="expired"):
        brain.revise.set_expiry(id_, None)


def test_expiry_must_be_in_the_future(brain: Brain, clock: FakeClock) -> None:
    id_ = stored(brain, "Tea is green")
    with pytest.raises(InvalidInputError, match="not ahead"):
        brain.revise.set_expiry(id_, clock.now())
