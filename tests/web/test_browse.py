"""Browse: facets, pages, CSV and changes of many memories."""

import csv
from io import StringIO

from commonbrain.client import Brain
from tests.web.demo import Demo
from tests.web.visitors import Visitor


def test_facets_narrow_and_widen_the_list(ann: Visitor) -> None:
    everything = ann.json("/browse/facets").json()
    [rules] = [one for one in everything["facets"]["kind"] if one["value"] == "rule"]
    narrowed = ann.json(f"/browse?kinds={rules['parameters']['kinds']}").json()
    assert {one["kind"] for one in narrowed["page"]["memories"]} == {"rule"}
    assert len(narrowed["page"]["memories"]) == rules["count"]
    counted = ann.json(f"/browse/facets?kinds={rules['parameters']['kinds']}").json()
    [chosen] = [one for one in counted["facets"]["kind"] if one["is_chosen"]]
    assert chosen["parameters"] == {}


def test_each_filter_in_use_can_be_removed(ann: Visitor) -> None:
    filters = ann.json("/browse?kinds=rule&agent=ann&order=occurred").json()["filters"]
    assert [(one["name"], one["value"], one["parameters"]) for one in filters] == [
        ("kind", "rule", {"agent": "ann", "order": "occurred"}),
        ("agent", "ann", {"kinds": "rule", "order": "occurred"}),
    ]


def test_month_is_shown_as_one_filter(ann: Visitor) -> None:
    page = ann.json("/browse?since=2026-02-01&until=2026-02-28&tags=ops").json()
    assert [(one["name"], one["value"], one["parameters"]) for one in page["filters"]] == [
        ("month", "2026-02", {"tags": "ops"}),
        ("tag", "ops", {"since": "2026-02-01", "until": "2026-02-28"}),
    ]


def test_pages_list_every_memory_once(ann: Visitor) -> None:
    all_ids = [one["id"] for one in ann.json("/browse?limit=200").json()["page"]["memories"]]
    paged: list[str] = []
    address = "/browse?limit=3"
    while True:
        page = ann.json(address).json()["page"]
        paged += [one["id"] for one in page["memories"]]
        if page["next"] is None:
            break
        address = f"/browse?limit=3&cursor={page['next']}"
    assert paged == all_ids


def test_month_of_the_timeline_lists_its_memories(ann: Visitor) -> None:
    first, *_ = ann.json("/browse/facets").json()["months"]
    query = "&".join(f"{name}={value}" for name, value in first["parameters"].items())
    assert len(ann.json(f"/browse?{query}").json()["page"]["memories"]) == first["count"]


def test_csv_has_a_row_for_each_memory(ann: Visitor) -> None:
    response = ann.get("/browse?format=csv")
    assert response.headers["content-type"].startswith("text/csv")
    rows = list(csv.DictReader(StringIO(response.text)))
    assert [one["id"] for one in rows] == [
        one["id"] for one in ann.json("/browse").json()["page"]["memories"]
    ]


def test_many_memories_are_tagged_after_a_preview_and_undone(
    brain: Brain, ann: Visitor, demo: Demo
) -> None:
    fields = {
        "op": "retag",
        "ids": [demo.redis, demo.incident],
        "tags": "urgent",
        "next": "/browse",
    }
    preview = ann.post("/do/bulk", fields)
    assert preview.status_code == 200
    assert "Change the tags of 2 memories?" in preview.text
    assert "urgent" not in brain.get(demo.redis).tags
    done = ann.post("/do/bulk", {**fields, "confirm": "2", "confirmed": "yes"})
    assert done.headers["location"] == "/browse"
    assert "urgent" in brain.get(demo.redis).tags


def test_invalid_filter_is_refused_with_the_given_value(ann: Visitor) -> None:
    response = ann.get("/browse?kinds=wish")
    assert response.status_code == 422
    assert "wish" in response.text
