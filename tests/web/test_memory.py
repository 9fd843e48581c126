"""What Search and the screen of a memory say of conflicts and reviews."""

from commonbrain.client import Brain
from commonbrain.model.scope import Role
from tests.web.demo import Demo
from tests.web.visitors import Visitor, as_role, visitor

FRIDAYS = "The shop deploys on Fridays"
TUESDAYS = "The shop deploys on Tuesdays"


def test_conflict_names_both_memories_and_links_to_the_decision(
    brain: Brain, ann: Visitor, demo: Demo
) -> None:
    pages = [
        ann.get("/search?query=when+does+the+shop+deploy").text,
        ann.get(f"/memory/{demo.fridays}").text,
    ]
    reader = visitor(brain, as_role(brain, agent="rea", role=Role.READER))
    read = reader.get(f"/memory/{demo.fridays}").text
    for page in pages:
        [warning] = [one for one in page.split("</p>") if "disagrees with" in one]
        assert f'<a href="/memory/{demo.fridays}" dir="auto">{FRIDAYS}</a>' in warning
        assert f'<a href="/memory/{demo.tuesdays}" dir="auto">{TUESDAYS}</a>' in warning
        assert f"at={demo.tuesdays}%2C{demo.fridays}" in warning
    assert "disagrees with" in read
    assert ">Decide<" not in read


def test_memory_that_needs_review_links_to_the_queue_without_calls_for_agents(
    ann: Visitor, demo: Demo
) -> None:
    page = ann.get(f"/memory/{demo.redis}").text
    assert f'href="/review?category=needs_review&amp;at={demo.redis}"' in page
    assert "revise review" not in page
    assert "--reason" not in ann.get(f"/memory/{demo.fridays}").text


def test_search_without_conflicts_reads_no_headlines(brain: Brain) -> None:
    brain.remember("The tea is in the left drawer", kind="fact")
    view = visitor(brain).json("/search?query=where+is+the+tea").json()
    assert view["headlines"] == {}
