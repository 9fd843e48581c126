"""Texts that differ in one sign, capital or small word say different things: all are stored."""

from datetime import timedelta

import pytest

from commonbrain.client import Brain
from commonbrain.ingestion.batch import WriteOptions
from commonbrain.ingestion.preparation import DraftFields, draft_of
from commonbrain.ingestion.result import ItemStatus
from commonbrain.ingestion.service import Remember
from commonbrain.testing.builders import FakeClock
from tests.asking import remember_one, stored

DIFFERENT = (
    ("Retry when attempts > 5.", "Retry when attempts >= 5."),
    ("A latency < 200 ms is fine.", "A latency > 200 ms is fine."),
    ("Compare the ids with == here.", "Compare the ids with === here."),
    ("The temperature limit is -10 degrees.", "The temperature limit is 10 degrees."),
    ("The cron runs at 08:00+02:00.", "The cron runs at 08:00-02:00."),
    ("The version ^1.2.3 is pinned.", "The version ~1.2.3 is pinned."),
    ("$HOME is mounted in the container.", "HOME is mounted in the container."),
    ("Import the helpers from ./lib here.", "Import the helpers from ../lib here."),
    ("Only admins can delete projects.", "Admins can delete projects."),
    ("All tests must pass before a merge.", "Some tests must pass before a merge."),
    ("Access is granted until Friday.", "Access is granted from Friday."),
    ("The variable is called userId.", "The variable is called userID."),
    ("Import from 'React', not elsewhere.", "Import from 'react', not elsewhere."),
    ("The header is X-Request-Id.", "The header is X-Request-ID."),
    ("run make Test first", "run make test first"),
    ("Use rm -r on the cache.", "Use rm -R on the cache."),
    ("grep -v is used in the hook.", "grep -V is used in the hook."),
    ("Tag images as V1.", "Tag images as v1."),
    ("The flag is set to True.", "The flag is set to true."),
    ("The file is src/Main.ts.", "The file is src/main.ts."),
    ("Ask Will about the keys.", "Ask will about the keys."),
    ("The migration is planned.", "The migration is done."),
    ("Upgrade Django to 5.2 in the shop.", "Upgraded Django to 5.2 in the shop."),
    ("Fix the flaky test in ci.yml.", "I fixed the flaky test in ci.yml."),
    ("Add retries to the mailer.", "Added retries to the mailer."),
    ("The service for invoices is called billing-api.", "billing-api is now called invoices."),
)


@pytest.mark.requirement("WP-06")
@pytest.mark.parametrize("kind", [None, "fact", "rule"])
def test_texts_that_differ_in_one_sign_are_all_stored_and_found(
    brain: Brain, subtests: pytest.Subtests, kind: str | None
) -> None:
    given = DraftFields() if kind is None else DraftFields(kind=kind)
    for number, texts in enumerate(DIFFERENT):
        with subtests.test(texts=texts):
            view = brain.acting_as(project=f"p{number}")
            ids = {stored(view, text, **given) for text in texts}
            items = view.recall(texts[0], project=f"p{number}", max_items=12).items
            assert ids <= {one.id for one in items}


def test_first_letter_of_a_sentence_does_not_make_another_text(brain: Brain) -> None:
    first = stored(brain, "Use tabs in Makefiles. Never use spaces.", kind="rule")
    again = remember_one(brain, "use tabs in Makefiles. never use spaces.", kind="rule")
    assert (again.status, again.id) == (ItemStatus.EXISTS, first)


def test_preview_of_an_import_separates_identifiers_by_their_capitals(brain: Brain) -> None:
    texts = ("The variable is userId", "The variable is userID", "the variable is userID")

    writer = Remember(brain.services, brain.caller)
    drafts = [draft_of(text, kind="fact") for text in texts]
    previewed = writer.preview_drafts(drafts, WriteOptions())
    assert [one.status for one in previewed] == ["stored", "stored", "exists"]


SIBLINGS = (
    ("Sprint {} ended with two open bugs in the checkout form.", "how did sprint {} end?"),
    ("Build {} failed in the unit tests of the cart.", "why did build {} fail?"),
    ("Ticket {} is about the login page being slow.", "what is ticket {} about?"),
    ("Migration {} adds an index to the orders table.", "what does migration {} do?"),
)


@pytest.mark.parametrize("kind", ["fact", "event"])
def test_every_sibling_is_shown_first_when_its_number_is_asked_for(
    brain: Brain, subtests: pytest.Subtests, clock: FakeClock, kind: str
) -> None:
    for text, question in SIBLINGS:
        ids: dict[int, str] = {}
        for number in range(3, 9):
            clock.move(timedelta(days=7))
            ids[number] = stored(brain, text.format(number), kind=kind)
        for number, id_ in ids.items():
            with subtests.test(text=text, number=number):
                assert brain.recall(question.format(number)).items[0].id == id_
