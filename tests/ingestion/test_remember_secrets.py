import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from commonbrain.client import Brain
from commonbrain.ingestion.result import ItemStatus
from commonbrain.model.kinds import MessageDetail
from commonbrain.model.memory import Draft, ThreadRef
from commonbrain.model.parameters import Parameters
from commonbrain.model.scope import OnSecret
from commonbrain.testing.builders import a_brain
from tests.asking import remember_one, stored
from tests.secrets import SECRETS

TEXT, SECRET = SECRETS["github classic"]
PLACES = {
    "body": Draft(body=TEXT),
    "headline": Draft(body="A token was found", headline=TEXT),
    "label": Draft(body="A token was found", label=SECRET),
    "project": Draft(body="A token was found", project=SECRET),
    "tags": Draft(body="A token was found", tags=("ci", SECRET)),
    "people": Draft(body="A token was found", people=(SECRET,)),
    "source_ref": Draft(body="A token was found", source_ref=f"https://x/{SECRET}"),
    "distinct_because": Draft(body="A token was found", distinct_because=TEXT),
    "sender": Draft(body="Good day", kind="message", detail=MessageDetail(sender=SECRET)),
    "recipients": Draft(
        body="Good day", kind="message", detail=MessageDetail(recipients=("bob", SECRET))
    ),
    "attachment": Draft(body="A token was found", attachment={"a": [{"b": TEXT}]}),
    "thread key": Draft(
        body="Good day", kind="message", thread=ThreadRef(key=SECRET, subject="Hello")
    ),
    "root_cause": Draft(body="It broke", kind="incident", columns={"root_cause": TEXT}),
    "skill": Draft(
        body="Never push", kind="rule", columns={"skill": {"name": "x", "keywords": [SECRET]}}
    ),
}


def redacting(path: Path) -> Brain:
    """Open a store that redacts secrets."""
    return a_brain(path, parameters=Parameters(secrets=OnSecret.REDACT))


@pytest.fixture
def lenient(path: Path) -> Iterator[Brain]:
    with redacting(path) as brain:
        yield brain


def everything_in(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in path.parent.glob(f"{path.name}*"))


@pytest.mark.requirement("ST-11")
def test_secret_in_any_field_is_refused_and_leaves_no_trace(
    brain: Brain, path: Path, caplog: pytest.LogCaptureFixture, subtests: pytest.Subtests
) -> None:
    caplog.set_level(logging.DEBUG)
    for place, draft in PLACES.items():
        with subtests.test(place=place):
            tea = Draft(body=f"Tea is ready {place}", kind="fact", distinct_because="another tea")
            fine, refused = brain.remember([tea, draft]).items
            assert (fine.status, refused.status) == (ItemStatus.STORED, ItemStatus.REJECTED)
            assert refused.code == "secret_detected"
            assert "GitHub token" in (refused.reason or "")
            assert "line 1, column" in (refused.reason or "")
            assert SECRET not in str(refused) + caplog.text
            brain.services.journal.flush()
            assert SECRET.encode() not in everything_in(path)


@pytest.mark.of_a_file
@pytest.mark.requirement("ST-11")
def test_secret_is_redacted_if_the_setting_requires_it(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    for place in sorted(PLACES.keys() - {"skill"}):
        with subtests.test(place=place):
            path = tmp_path / f"{place}.db"
            with redacting(path) as brain:
                [outcome] = brain.remember(PLACES[place]).items
            assert outcome.status is ItemStatus.STORED, outcome
            assert any("GitHub token" in warning for warning in outcome.warnings)
            content = everything_in(path)
            assert SECRET.encode() not in content
            assert b"[redacted: github token]" in content.lower()


def test_refusal_of_a_secret_names_its_line_and_column(brain: Brain) -> None:
    outcome = remember_one(brain, f"one\ntwo {SECRET}", kind="event")
    assert "body, line 2, column 5" in (outcome.reason or "")


def test_commit_hash_is_stored_without_a_warning(brain: Brain) -> None:
    outcome = remember_one(brain, "Commit 2fc01319f7b1c0a84ddc2b1d6a5c3f1e7a9b8c7d broke the build")
    assert (outcome.status, outcome.warnings) == (ItemStatus.STORED, ())


@pytest.mark.of_a_file
def test_secret_in_a_query_is_not_stored_in_the_trace(brain: Brain, path: Path) -> None:
    stored(brain, "Tea is ready", kind="fact")
    brain.recall(f"whose is {SECRET}")
    brain.services.journal.flush()
    brain.close()
    assert b"whose is [redacted: GitHub token]" in everything_in(path)
    assert SECRET.encode() not in everything_in(path)


def test_superseding_text_is_scanned_for_secrets(brain: Brain, path: Path) -> None:
    id_ = stored(brain, "The token is in the vault", kind="fact")
    outcome = brain.revise.supersede(id_, TEXT, reason="newer")
    assert (outcome.status, outcome.code) == (ItemStatus.REJECTED, "secret_detected")
    brain.close()
    assert SECRET.encode() not in everything_in(path)


def test_import_report_does_not_contain_a_refused_secret(brain: Brain, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Notes\n\n{TEXT}\n\n# Tea\n\nTea is ready at five.\n")
    report = brain.import_("markdown", page)
    assert report.rejected == 1
    assert SECRET not in str(report)
