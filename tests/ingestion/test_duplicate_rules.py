"""Rules in other words are reported and listed for review; none that differs is refused."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import commonbrain
from commonbrain.client import Brain
from commonbrain.history.review_queue import DuplicateItem
from commonbrain.ingestion.result import ItemStatus
from commonbrain.model.errors import RejectedError
from commonbrain.testing.builders import a_brain
from tests.asking import FailingEmbedder, remember_one, stored

PARAPHRASES = [
    ("Prefer composition over inheritance", "Favor composition rather than inheritance"),
    ("Never commit secrets to the repository", "Do not check credentials into git"),
    ("Run the test suite before every push", "Always execute all tests prior to pushing"),
    ("Write log messages in English", "Log output must be in the English language"),
    ("Keep functions short and focused", "Functions should be small and do one thing"),
    ("Use UTC for all timestamps", "All times are stored in UTC"),
    (
        "Review every pull request before merging",
        "No pull request is merged without a review",
    ),
    (
        "Handle errors explicitly instead of ignoring them",
        "Do not swallow errors silently; deal with them",
    ),
]
DIFFERENT = [
    ("Prefer composition over inheritance", "Prefer inheritance over composition"),
    ("Run the test suite before every push", "Run the linter before every push"),
    ("Keep backups for 30 days", "Keep backups for 90 days"),
    ("Deploy on Fridays", "Never deploy on Fridays"),
    ("Use tabs in Makefiles", "Use spaces in Makefiles"),
    ("All endpoints require a token", "All endpoints require a token except health checks"),
    ("All routes require a login except /health", "All routes require a login"),
    ("Use Postgres for the billing service", "Use Postgres for the search service"),
    ("Review every pull request before merging", "Review every pull request before releasing"),
    ("Ask Ana before changing the schema", "Ask Bo before changing the schema"),
    ("Cache responses for five minutes", "Cache responses for ten minutes"),
    ("Write unit tests for new code", "Write integration tests for new code"),
    ("Rotate API keys every quarter", "Rotate TLS certificates every quarter"),
    ("Never force push to main without two approvals", "Never force push to main"),
    ("The client calls the server first", "The server calls the client first"),
    ("Format code with black before ruff", "Format code with ruff before black"),
    ("Do not log personal data", "Log personal data only in debug mode"),
    ("Merge with squash commits", "Merge with rebase commits"),
]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brain]:
    """Open a store with the model that everybody has."""
    with commonbrain.open(tmp_path_factory.mktemp("rules") / "brain.db") as brain:
        yield brain


def both(brain: Brain, texts: tuple[str, str], project: str) -> tuple[str, str]:
    """Store two rules in a project of their own; return the ids, lower first."""
    done = [remember_one(brain, text, kind="rule", project=project) for text in texts]
    assert [one.status for one in done] == [ItemStatus.STORED] * 2, texts
    one, other = sorted(str(item.id) for item in done)
    return one, other


def suspects(brain: Brain, project: str | None = None) -> list[DuplicateItem]:
    return list(brain.review("duplicates", project=project, limit=100).duplicates)


@pytest.mark.of_a_file
@pytest.mark.requirement("WP-06")
def test_all_paraphrases_are_reported_and_six_of_eight_listed(real: Brain) -> None:
    reported = listed = 0
    for number, texts in enumerate(PARAPHRASES):
        project = f"same-{number}"
        one = stored(real, texts[0], kind="rule", project=project)
        done = remember_one(real, texts[1], kind="rule", project=project)
        assert done.status is ItemStatus.STORED
        reported += one in {near.id for near in done.similar}
        pairs = [{item.newer.id, item.older.id} for item in suspects(real, project)]
        listed += pairs == [{done.id, one}]
    assert (reported, listed) == (8, 6)


CONTRADICTIONS = [
    ("Alice drinks tea", "Alice drinks coffee"),
    ("The team meets on Tuesdays", "The team meets every Thursday"),
    ("Postgres is our main database", "Our main database is MySQL"),
    ("The billing service uses Postgres", "The billing service uses MySQL"),
    ("The backend is written in Go", "The backend is written in Rust"),
    ("Dave owns the deploy", "Erin owns the deploy"),
    ("Dave leads the platform team", "Erin leads the platform team"),
    ("The timeout is 30 seconds", "The timeout is 60 seconds"),
    ("Deploys run on Fridays", "Deploys never run on Fridays"),
    ("The API is public", "The API is private"),
]


@pytest.mark.of_a_file
@pytest.mark.requirement("PV-12")
def test_fact_that_contradicts_another_is_reported_as_similar(
    real: Brain, subtests: pytest.Subtests
) -> None:
    for number, (first, second) in enumerate(CONTRADICTIONS):
        with subtests.test(second=second):
            one = stored(real, first, kind="fact", project=f"fact-{number}")
            done = remember_one(real, second, kind="fact", project=f"fact-{number}")
            assert [near.id for near in done.similar] == [one]


@pytest.mark.of_a_file
def test_different_rule_is_neither_refused_nor_suspected(
    real: Brain, subtests: pytest.Subtests
) -> None:
    for texts in DIFFERENT:
        with subtests.test(texts=texts):
            project = f"other-{DIFFERENT.index(texts)}"
            both(real, texts, project)
            assert suspects(real, project) == []


def test_rule_restated_without_news_is_refused_as_a_duplicate(
    brain: Brain, subtests: pytest.Subtests
) -> None:
    stored(brain, "Run the tests before every push", kind="rule")
    for text in ["Tests are run before every push", "Before every push, run the tests, please"]:
        with subtests.test(text=text):
            assert remember_one(brain, text, kind="rule").status is ItemStatus.DUPLICATE


SAME = (
    "Review every pull request before merging it",
    "Before merging it, a colleague reads every pull request",
)


def test_accepted_or_forgotten_rule_is_no_longer_suspected(brain: Brain) -> None:
    one, other = both(brain, SAME, "api")
    [item] = suspects(brain)
    assert (item.newer.id, item.older.id) == (other, one)
    assert {item.newer.headline, item.older.headline} == set(SAME)
    assert item.settle == (
        f"forget {other} --reason WHY",
        f"forget {one} --reason WHY",
        f"revise keep_both {other} --other {one} --reason WHY",
    )
    brain.revise.keep_both(other, other=one, reason="two teams")
    assert suspects(brain) == []

    one, other = both(brain, SAME, "web")
    assert len(suspects(brain)) == 1
    brain.forget(other, reason="it repeats the first")
    assert suspects(brain) == []


def test_rules_of_two_projects_and_hidden_rules_are_not_suspected_as_duplicates(
    brain: Brain,
) -> None:
    stored(brain, SAME[0], kind="rule", project="api")
    stored(brain, SAME[1], kind="rule", project="web")
    assert suspects(brain) == []
    stored(brain, SAME[1], kind="rule", project="api", scope="private")
    assert len(suspects(brain)) == 1
    assert suspects(brain.acting_as(agent="bob")) == []


@pytest.mark.requirement("WP-06")
@pytest.mark.parametrize("differs_by", ["project", "number"])
def test_suspected_duplicate_is_listed_after_hundreds_of_nearer_pairs_without_suspicion(
    brain: Brain, differs_by: str
) -> None:
    for number in range(34):
        is_of_project = differs_by == "project"
        text = "Keep the backups of database for ninety days"
        stored(
            brain,
            text if is_of_project else text.replace("database", f"database {number + 2}"),
            kind="rule",
            project=f"shop-{number}" if is_of_project else "shops",
            distinct_because="another database",
        )
    pair = {*both(brain, SAME, "api")}
    assert [{item.newer.id, item.older.id} for item in suspects(brain)] == [pair]


def test_pair_that_is_not_suspected_cannot_be_accepted(brain: Brain) -> None:
    one = stored(brain, "Use tabs in Makefiles", kind="rule")
    other = stored(brain, "The office opens at nine", kind="fact")
    with pytest.raises(RejectedError, match="not in conflict"):
        brain.revise.keep_both(one, other=other, reason="so")


@pytest.mark.requirement("OB-14")
def test_suspected_duplicates_are_listed_in_pages(brain: Brain) -> None:
    for number in range(5):
        both(brain, SAME, f"project-{number}")
    pages = [brain.review("duplicates", limit=2)]
    while pages[-1].next is not None:
        pages.append(brain.review("duplicates", limit=2, cursor=pages[-1].next))
    assert [(len(page.duplicates), page.more) for page in pages] == [(2, 3), (2, 1), (1, 0)]
    newest = [item.newer.id for page in pages for item in page.duplicates]
    assert newest == sorted(newest, reverse=True)


@pytest.mark.of_a_file
@pytest.mark.requirement("WP-34")
def test_rule_stored_without_vectors_has_a_warning_and_is_suspected_later(tmp_path: Path) -> None:
    embedder = FailingEmbedder()
    with a_brain(tmp_path / "brain.db", embedder=embedder) as brain:
        stored(brain, SAME[0], kind="rule")
        embedder.is_down = True
        done = remember_one(brain, SAME[1], kind="rule")
        assert (done.status, done.embedding_pending) == (ItemStatus.STORED, True)
        assert done.warnings == (
            "It was compared with no similar rule: the embedder is unavailable. "
            "`brain review duplicates` lists it if it repeats one.",
        )
        assert suspects(brain) == []
        embedder.is_down = False
        brain.embed_pending()
        [item] = suspects(brain)
        assert done.id in {item.newer.id, item.older.id}
