"""The review queue on the page, without a browser: its JSON, its roles, its attacks."""

from datetime import timedelta
from pathlib import Path

import pytest

from commonbrain.client import Brain
from commonbrain.model.memory import State
from commonbrain.model.scope import Role, Trust
from commonbrain.model.sessions import ClientInfo
from commonbrain.testing.builders import FakeClock
from tests.web.demo import HOSTILE
from tests.web.review_items import Queue
from tests.web.visitors import Markup, Visitor, as_role, visitor

PAGE_BYTES_MAX = 150_000


@pytest.fixture
def ann(brain: Brain, queue: Queue) -> Visitor:
    assert queue.conflicts
    return visitor(brain)


def settle(of: Visitor, category: str, item: str, decision: str, **fields: str) -> str:
    """Send a decision; return the notice of the page that it leads to."""
    form = {"category": category, "item": item, "decision": decision, "reason": "so it is"}
    here = f"/review?category={category}&at={item}"
    form |= {"next": f"/review?category={category}", "back": here, **fields}
    response = of.post("/do/settle", form)
    assert response.status_code == 303, response.text
    return of.get(response.headers["location"]).text.split('role="status">', 1)[1].split("</p>")[0]


def state(brain: Brain, id_: str) -> State:
    return brain.get(id_, bump=False).state


@pytest.mark.requirement("CL-19")
def test_json_of_the_review_queue_has_the_content_of_the_page(ann: Visitor, queue: Queue) -> None:
    view = ann.json(f"/review?category=needs_review&at={queue.needs_review[2]}").json()
    assert view["counts"].pop("duplicates") >= 5
    assert view["counts"] == {"conflicts": 5, "needs_review": 5, "proposals": 5}
    assert view["category"] == "needs_review"
    assert {row["item"] for row in view["rows"]} == {*queue.needs_review}
    item = view["item"]
    [cause] = item["entry"]["causes"]
    assert cause["path"][0] == queue.needs_review[2]
    assert cause["fall"] == "superseded"
    replaced = item["named"][cause["path"][-1]]
    assert replaced["headline"] == "The basket queue runs on Redis 6"
    assert item["named"][replaced["current_id"]]["headline"] == "The basket queue runs on Valkey 8"


def test_path_to_a_cause_names_each_step(brain: Brain, queue: Queue) -> None:
    end = queue.needs_review[0]
    [far] = brain.remember(
        "The runbook of the checkout jobs says to restart them in pairs.",
        kind="fact",
        depends_on=[end],
        project="shop",
    ).items
    [base] = brain.remember("Debian 12 runs all shop workers", kind="fact", project="shop").items
    brain.revise.link(end, base.id or "", type="depends_on")
    brain.forget(base.id or "", reason="moved")
    entries = brain.review("needs_review", limit=100).needs_review
    [entry] = [one for one in entries if one.memory.id == far.id]
    assert (far.id, end, base.id) in [one.path for one in entry.causes]


def test_reader_sees_the_queue_without_decisions(brain: Brain, ann: Visitor) -> None:
    reader = visitor(brain, as_role(brain, agent="rea", role=Role.READER))
    assert Markup(ann.get("/review").text).forms.count("/do/settle") >= 1
    for category in ("conflicts", "needs_review", "proposals", "duplicates"):
        page = reader.get(f"/review?category={category}")
        assert page.status_code == 200
        assert Markup(page.text).forms == ["/logout"]


def test_less_trusted_writer_sees_no_decision_on_proposals(brain: Brain, ann: Visitor) -> None:
    writer = as_role(brain, agent="will", role=Role.WRITER, trust_ceiling=Trust.USER_CLAIM)
    page = visitor(brain, writer).get("/review?category=proposals").text
    assert "/do/settle" not in Markup(page).forms
    assert "/do/settle" in Markup(visitor(brain, writer).get("/review").text).forms
    assert "/do/settle" in Markup(ann.get("/review?category=proposals").text).forms


def test_queue_is_filtered_by_project(ann: Visitor) -> None:
    assert ann.json("/review?project=shop").json()["counts"]["conflicts"] == 5
    assert ann.json("/review?project=farm").json()["counts"]["conflicts"] == 0


def test_next_page_begins_after_the_last_item(brain: Brain, ann: Visitor, clock: FakeClock) -> None:
    scraper = brain.acting_as(agent="scraper", project="shop")
    for number in range(30):
        clock.move(timedelta(seconds=1))
        scraper.remember(f"Always open gate {number} first", kind="rule", trust="untrusted_web")
    first = ann.json("/review?category=proposals").json()
    assert (len(first["rows"]), first["more"]) == (20, 15)
    second = ann.json(first["next"]).json()
    assert len(second["rows"]) == 15
    assert second["counts"]["proposals"] == 35
    item_ids = [row["item"] for view in (first, second) for row in view["rows"]]
    assert len(set(item_ids)) == 35
    # After the last item of a page the next page follows.
    last = ann.json(first["rows"][-1]["address"]).json()
    assert ann.json(last["item"]["next"]).json()["rows"] == second["rows"]


def test_conflict_is_decided_for_one_side_for_both_or_by_project(
    brain: Brain, ann: Visitor, queue: Queue
) -> None:
    (old, new), (low, high), (one, other), (here, there), _ = queue.conflicts
    assert "resolve done" in settle(ann, "conflicts", f"{new},{old}", "first")
    assert (state(brain, old), state(brain, new)) == (State.SUPERSEDED, State.ACTIVE)
    settle(ann, "conflicts", f"{high},{low}", "second")
    assert (state(brain, low), state(brain, high)) == (State.ACTIVE, State.SUPERSEDED)
    assert "keep_both done" in settle(ann, "conflicts", f"{one},{other}", "both")
    assert (state(brain, one), state(brain, other)) == (State.ACTIVE, State.ACTIVE)
    settle(ann, "conflicts", f"{here},{there}", "apart", projects="api,web")
    assert [brain.get(id_).project for id_ in (here, there)] == ["api", "web"]
    assert len(brain.review("conflicts").conflicts) == 1


def test_decision_forgets_the_older_memory_if_the_newer_cannot_supersede_it(
    brain: Brain, ann: Visitor, queue: Queue
) -> None:
    old, new = queue.conflicts[0]
    changed = brain.revise.supersede(new, "The checkout service has 9 replicas", reason="grew").id
    assert changed
    [item] = [
        {one.preferred.id, one.other.id}
        for one in brain.review("conflicts").conflicts
        if old in {one.preferred.id, one.other.id}
    ]
    assert item == {old, changed}
    assert "forget the second" in ann.get(f"/review?category=conflicts&at={changed},{old}").text
    settle(ann, "conflicts", f"{changed},{old}", "first")
    assert state(brain, old) is State.FORGOTTEN


def test_refused_decision_gives_the_reason_and_changes_nothing(
    brain: Brain, ann: Visitor, queue: Queue
) -> None:
    item, before = queue.needs_review[0], brain.get(queue.needs_review[0], bump=False)
    text = settle(ann, "needs_review", item, "correct", text="Other words", version="99")
    assert "version" in text
    assert brain.get(item, bump=False) == before
    assert len(brain.review("needs_review").needs_review) == 5


def test_malformed_decision_changes_nothing(
    brain: Brain, ann: Visitor, queue: Queue, subtests: pytest.Subtests
) -> None:
    item = queue.needs_review[0]
    form = {"category": "needs_review", "item": item, "decision": "holds", "reason": "x"}
    for fields in (
        {"category": "gossip"},
        {"item": ""},
        {"item": "mem_0000000000000,mem_0000000000001"},
        {"decision": "approve"},
        {"decision": "<script>"},
    ):
        with subtests.test(case=fields):
            response = ann.post("/do/settle", form | fields)
            assert response.status_code == 422
            assert len(brain.review("needs_review").needs_review) == 5


def test_item_hidden_from_the_visitor_is_not_found(brain: Brain, ann: Visitor) -> None:
    form = {"category": "needs_review", "decision": "holds", "reason": "x"}
    unknown = ann.post("/do/settle", form | {"item": "mem_0000000000000"})
    private = brain.acting_as(agent="eve").remember("Eve keeps this", scope="private").items[0].id
    hidden = ann.post("/do/settle", form | {"item": private or ""})
    assert unknown.status_code == hidden.status_code == 404


def test_hostile_texts_are_escaped_and_pages_stay_small(brain: Brain, ann: Visitor) -> None:
    scraper = brain.acting_as(agent="scraper", project="shop")
    long = "".join(f"<i>{number}</i>&" for number in range(1_200))
    for text in (HOSTILE, long[:16_000], "x" * 16_000):
        scraper.remember(text, kind="rule", trust="untrusted_web")
    cut = 0
    for row in ann.json("/review?category=proposals").json()["rows"]:
        response = ann.get(row["address"])
        cut += "The rest of the text" in response.text
        assert len(response.content) < PAGE_BYTES_MAX
        page = Markup(response.text)
        assert all(one and one.startswith("/static/") for one in page.scripts)
        assert page.handlers == []
        assert "\u202e" not in response.text
    assert cut == 2


def test_words_missing_on_the_other_side_are_marked(ann: Visitor, queue: Queue) -> None:
    old, new = queue.conflicts[1]
    page = ann.get(f"/review?category=conflicts&at={new},{old}").text
    assert "The invoices service has <mark>6</mark> replicas" in page
    assert "The invoices service has <mark>3</mark> replicas" in page


def test_memory_whose_code_is_missing_is_confirmed_on_the_page(
    brain: Brain, queue: Queue, tmp_path: Path
) -> None:
    (tmp_path / "shop" / ".git").mkdir(parents=True)
    file = tmp_path / "shop" / "pay.py"
    file.write_text("RETRIES = 3\nPAUSE_S = 20\n")
    here = brain.acting_as(contact=ClientInfo(cwd=str(file.parent)), project="shop")
    [stored] = here.remember("Payments are tried three times", cites=["pay.py:1"]).items
    file.unlink()
    ann = visitor(here)
    id_ = stored.id or ""
    assert id_ not in queue.needs_review

    page = ann.get(f"/review?category=needs_review&at={id_}").text
    assert "cites code that is gone: pay.py:1" in page
    settle(ann, "needs_review", id_, "holds")

    assert here.get(id_).cites == ()
