"""Attacks on the page: each line of its security is tried."""

import logging
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import httpx2
import pytest
from starlette.routing import Route
from starlette.testclient import TestClient

from commonbrain.api.thread_limiter import ThreadLimiter
from commonbrain.client import Brain
from commonbrain.model.scope import NO_POLICY, Admission, Role
from commonbrain.testing.builders import FakeClock, a_brain
from commonbrain.web.app import BODY_BYTES_MAX, LOGIN_BYTES_MAX, make_page
from commonbrain.web.logins import LinkLogins
from commonbrain.web.screens import all_screens
from tests.tenant_rows import add_tenant
from tests.web.demo import Demo
from tests.web.visitors import Markup, Visitor, as_role, visitor

OTHER_PATHS = ("/nothing", "/login")


def paths(demo: Demo) -> list[str]:
    """An address of each screen, about a memory with a hostile text where it is about one."""
    return [
        one.path.replace("{id}", demo.hostile) for one in all_screens() if "{" not in one.path
    ] + [
        "/search?query=click",
        f"/memory/{demo.hostile}",
        f"/memory/{demo.postgres_17}",
        f"/graph/{demo.postgres_15}",
    ]


def pin(demo: Demo, **fields: str) -> dict[str, str]:
    return {"op": "pin", "id": demo.redis, "next": f"/memory/{demo.redis}", **fields}


def is_pinned(brain: Brain, id_: str) -> bool:
    policy = brain.get(id_, views=["policy"]).policy
    return policy is not None and policy.pinned


@pytest.fixture(scope="module")
def responses(
    filled_shop: tuple[Path, Demo], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, httpx2.Response]]:
    """What an admin gets of each screen, and of a page that is missing and the login."""
    file, demo = filled_shop
    path = tmp_path_factory.mktemp("screens") / "brain.db"
    shutil.copy(file, path)
    with a_brain(path) as brain:
        ann = visitor(brain)
        yield {one: ann.get(one) for one in [*paths(demo), *OTHER_PATHS]}


def test_no_page_contains_inline_code_or_style(responses: dict[str, httpx2.Response]) -> None:
    for path, response in responses.items():
        if path in OTHER_PATHS:
            continue
        assert response.status_code == 200, path
        page = Markup(response.text)
        assert all(source and source.startswith("/static/") for source in page.scripts), path
        assert (page.styles, page.handlers) == (0, []), path
        assert all(one.startswith(("/", "#")) for one in page.links), path


def test_policy_of_a_page_forbids_foreign_and_inline_code_and_frames(
    responses: dict[str, httpx2.Response],
) -> None:
    for path, response in responses.items():
        headers = response.headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy, path
        assert "frame-ancestors 'none'" in policy, path
        assert "unsafe" not in policy, path
        assert headers["cache-control"] == "no-store", path
        assert headers["x-content-type-options"] == "nosniff", path


def test_hostile_text_is_shown_as_text(ann: Visitor, demo: Demo) -> None:
    text = ann.get(f"/memory/{demo.hostile}").text
    assert "&lt;script&gt;" in text
    assert "<img src=x" not in text
    # A form holds the text as it is stored, so that a correction changes nothing else.
    form = text[text.index("<textarea") : text.index("</textarea>")]
    assert "\u202e" not in text.replace(form, "")
    assert not [one for one in Markup(text).links if one.startswith("javascript:")]


def test_very_long_words_and_lines_are_displayed(brain: Brain, ann: Visitor) -> None:
    text = f"The longest word of the language is {'ban' * 2_500}ana {'and so on ' * 700}"
    [stored] = brain.remember(text, kind="message", label="note", chunks=False).items
    assert stored.id is not None, stored
    assert ann.get(f"/memory/{stored.id}").status_code == 200


def test_get_request_changes_nothing(brain: Brain, ann: Visitor, demo: Demo) -> None:
    response = ann.get(f"/do/revise?op=pin&id={demo.redis}")
    assert response.status_code == 405
    assert not is_pinned(brain, demo.redis)


def test_form_without_the_sessions_token_is_refused(brain: Brain, ann: Visitor, demo: Demo) -> None:
    other = visitor(brain)
    for token in ("", "0" * 64, other.csrf()):
        response = ann.post("/do/revise", pin(demo, csrf=token))
        assert response.status_code == 403
    assert not is_pinned(brain, demo.redis)
    assert ann.post("/do/revise", pin(demo)).status_code == 303
    assert is_pinned(brain, demo.redis)


def test_form_from_another_site_is_refused(
    brain: Brain, ann: Visitor, demo: Demo, *, subtests: pytest.Subtests
) -> None:
    for name, value, status in (
        ("origin", "http://evil.example", 403),
        ("origin", "http://127.0.0.1:9999", 403),
        ("origin", "null", 403),
        ("sec-fetch-site", "same-site", 403),
        ("sec-fetch-site", "cross-site", 403),
        ("host", "evil.example", 421),
    ):
        with subtests.test(header=name, value=value):
            response = ann.post("/do/revise", pin(demo), headers={name: value})
            assert response.status_code == status
            assert not is_pinned(brain, demo.redis)


def test_page_is_not_served_to_an_unknown_host_name(ann: Visitor) -> None:
    assert ann.get("/", host="rebound.example").status_code == 421


def test_body_of_unknown_or_excessive_length_is_refused(ann: Visitor) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"op=pin"

    assert ann.client.post("/do/revise", content=chunks()).status_code == 411
    large = {"text": "x" * (BODY_BYTES_MAX + 1)}
    assert ann.client.post("/do/revise", data=large).status_code == 413


def test_form_of_many_fields_or_of_another_encoding_is_refused(ann: Visitor) -> None:
    fields = {"csrf": ann.csrf(), **{f"field{number}": "" for number in range(500)}}
    assert ann.client.post("/do/revise", data=fields).status_code == 422
    parts = {"csrf": (None, ann.csrf()), "op": (None, "pin")}
    assert ann.client.post("/do/revise", files=parts).status_code == 403


@pytest.mark.parametrize(
    ("screen", "project"),
    [("/work", "\0"), ("/work", "\N{BOMB}" * 200), ("/review", "\N{BOMB}" * 200)],
)
def test_address_with_an_unsuitable_value_names_the_field(
    ann: Visitor, screen: str, project: str
) -> None:
    answer = ann.client.get(screen, params={"project": project})
    assert answer.status_code == 422
    assert "project" in answer.text


def test_form_that_anyone_may_send_is_small(ann: Visitor) -> None:
    large = {"token": "x" * LOGIN_BYTES_MAX}
    assert ann.client.post("/open", data=large).status_code == 413


def test_cookies_are_inaccessible_to_scripts_and_other_sites(brain: Brain) -> None:
    ann = visitor(brain)
    sent = ann.post("/do/revise", {"op": "pin", "id": "mem_0000000000000"}).headers
    assert "set-cookie" not in sent
    ann.post("/logout", {})
    page = visitor(brain).client
    [cookie] = list(page.cookies.jar)
    assert cookie.has_nonstandard_attr("HttpOnly")
    assert cookie.get_nonstandard_attr("SameSite") == "strict"
    assert cookie.path == "/"
    assert not cookie.domain_specified


def test_login_link_works_once(brain: Brain, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    sessions = LinkLogins(brain.caller, brain.services.clock)
    page = make_page(brain, sessions, threads=ThreadLimiter(1))
    form = {"token": sessions.make_link()}
    first, second = (TestClient(page, base_url="http://127.0.0.1") for _ in range(2))
    assert first.post("/open", data=form).status_code == 200
    assert second.post("/open", data=form).status_code == 401
    assert second.get("/").status_code == 401
    # Whoever logged in by the link can follow it again.
    assert "Learnt today" in first.get("/open", params=form).text
    # The client of this test logs what it asks.
    ours = [one.getMessage() for one in caplog.records if not one.name.startswith("httpx")]
    assert not [line for line in ours if form["token"] in line]


def test_reading_the_login_link_does_not_use_it_up(brain: Brain) -> None:
    sessions = LinkLogins(brain.caller, brain.services.clock)
    page = TestClient(
        make_page(brain, sessions, threads=ThreadLimiter(1)), base_url="http://127.0.0.1"
    )
    form = {"token": sessions.make_link()}
    for purpose in ("", "prefetch", "prefetch;prerender"):
        for method in ("HEAD", "GET"):
            headers = {"sec-purpose": purpose, "sec-fetch-dest": "document"}
            read = page.request(method, "/open", params=form, headers=headers)
            assert (read.status_code, read.headers.get("set-cookie")) == (200, None)
    # Without scripts, the person sends the form.
    assert set(Markup(page.get("/open", params=form).text).forms) == {"/open"}
    assert page.post("/open", data=form).status_code == 200


def test_wrong_login_link_is_refused_and_does_not_use_up_the_right_one(brain: Brain) -> None:
    sessions = LinkLogins(brain.caller, brain.services.clock)
    page = TestClient(
        make_page(brain, sessions, threads=ThreadLimiter(1)), base_url="http://127.0.0.1"
    )
    link = sessions.make_link()
    assert page.post("/open", data={"token": "wrong"}).status_code == 401
    assert page.post("/open", data={"token": link}).status_code == 200


@pytest.mark.parametrize(
    ("step", "count", "status"),
    [(timedelta(hours=11), 1, 200), (timedelta(hours=13), 1, 401), (timedelta(hours=11), 16, 401)],
)
def test_session_ends_when_idle_and_after_its_lifetime(
    brain: Brain, ann: Visitor, *, step: timedelta, count: int, status: int
) -> None:
    clock = brain.services.clock
    assert isinstance(clock, FakeClock)
    statuses: list[int] = []
    for _ in range(count):
        clock.move(step)
        statuses.append(ann.get("/").status_code)
    assert statuses[-1] == status


def test_logging_out_ends_the_session(ann: Visitor) -> None:
    token = ann.client.cookies["commonbrain"]
    ann.post("/logout", {})
    ann.client.cookies.set("commonbrain", token)
    assert ann.get("/").status_code == 401


def test_action_redirects_to_no_other_site(ann: Visitor, demo: Demo) -> None:
    for path in ("//evil.example", "https://evil.example", "/\\evil.example", "javascript:x"):
        response = ann.post("/do/revise", pin(demo, next=path))
        assert response.headers["location"] == "/"


def test_notice_of_another_session_is_ignored(brain: Brain, ann: Visitor, demo: Demo) -> None:
    other = visitor(brain)
    other.post("/do/revise", pin(demo))
    ann.client.cookies.set("commonbrain-notice", other.client.cookies["commonbrain-notice"])
    assert "Undo" not in Markup(ann.get("/").text).buttons
    assert "Undo" in Markup(other.get("/").text).buttons


def test_reader_sees_no_button_that_would_be_refused(brain: Brain, demo: Demo) -> None:
    rita = visitor(brain, as_role(brain, role=Role.READER, agent="rita"))
    for path in paths(demo):
        assert set(Markup(rita.get(path).text).forms) <= {"/logout"}, path
    response = rita.post("/do/revise", {"op": "pin", "id": demo.redis})
    assert response.status_code == 403
    assert not is_pinned(brain, demo.redis)


def test_writer_sees_no_button_of_an_admin(brain: Brain, demo: Demo) -> None:
    will = visitor(brain, as_role(brain, role=Role.WRITER, agent="will"))
    assert "Erase" not in Markup(will.get(f"/memory/{demo.redis}").text).buttons
    assert "Forget" in Markup(will.get(f"/memory/{demo.redis}").text).buttons


def test_memory_of_another_agent_or_tenant_is_shown_as_missing(brain: Brain, demo: Demo) -> None:
    [secret] = brain.remember("The launch code is in the blue folder", scope="private").items
    bob = visitor(brain, as_role(brain, role=Role.READER, agent="bob"))
    missing = "mem_0000000000000"

    def shown(path: str) -> tuple[int, str]:
        response = bob.get(path)
        return response.status_code, response.text.replace(str(secret.id), missing)

    for screen in ("memory", "graph"):
        assert shown(f"/{screen}/{secret.id}") == shown(f"/{screen}/{missing}")
        assert shown(f"/{screen}/{missing}")[0] == 404
    add_tenant(brain, "other")
    stranger = visitor(brain, as_role(brain, tenant="other"))
    assert stranger.get(f"/memory/{demo.redis}").status_code == 404


def test_every_route_with_side_effects_accepts_only_post(brain: Brain) -> None:
    sessions = LinkLogins(brain.caller, brain.services.clock)
    page = make_page(brain, sessions, threads=ThreadLimiter(1))
    methods = {route.path: route.methods for route in page.routes if isinstance(route, Route)}
    assert methods["/do/{operation}"] == {"POST"}
    assert methods["/logout"] == {"POST"}


def test_erase_needs_a_typed_confirmation(brain: Brain, ann: Visitor, demo: Demo) -> None:
    fields = {"op": "erase", "ids": demo.redis, "reason": "a customer asked"}
    preview = ann.post("/do/forget", fields)
    assert preview.status_code == 200
    assert "cannot be undone" in preview.text
    assert ann.post("/do/forget", {**fields, "confirm": "1", "confirmed": "yes"}).status_code == 200
    assert brain.get(demo.redis).body is not None
    done = ann.post("/do/forget", {**fields, "confirm": "1", "confirmed": "yes", "typed": "erase"})
    assert done.status_code == 303
    assert brain.get(demo.redis).body is None


def test_unknown_action_is_not_found(ann: Visitor) -> None:
    assert ann.post("/do/doctor", {}).status_code == 404


def test_json_view_needs_a_session_too(ann: Visitor, demo: Demo) -> None:
    view = ann.json(f"/memory/{demo.redis}").json()
    assert view["memory"]["id"] == demo.redis
    ann.client.cookies.clear()
    assert ann.json(f"/memory/{demo.redis}").status_code == 401


def test_undo_reverts_only_its_own_action(brain: Brain, ann: Visitor, demo: Demo) -> None:
    # The clock stands still: the agent of the same name stores something at the same time.
    ann.post("/do/revise", pin(demo))
    [other] = brain.remember("The office has a new coffee machine", kind="fact").items
    assert other.id is not None
    undo = Markup(ann.get("/").text)
    assert undo.hidden["request"]
    ann.client.post("/do/forget", data=undo.hidden)
    assert not is_pinned(brain, demo.redis)
    assert brain.get(other.id).state == "active"


def test_result_in_any_alphabet_is_shown_with_its_undo(brain: Brain, ann: Visitor) -> None:
    texts = (f"Магазин номер {number} работает на Постгресе семнадцать 🐘" for number in range(40))
    ids = [str(brain.remember(text, kind="fact").items[0].id) for text in texts]
    fields = {"op": "pin", "ids": ids, "confirm": str(len(ids)), "confirmed": "yes"}
    sent = ann.post("/do/bulk", {**fields, "next": "/browse"})
    assert len(sent.headers["set-cookie"]) < 4_000
    assert "Undo" in " ".join(Markup(ann.get("/browse").text).buttons)


def test_notice_of_an_erase_does_not_contain_its_text(ann: Visitor, demo: Demo) -> None:
    fields = {"op": "erase", "ids": demo.redis, "reason": "asked for", "confirm": "1"}
    ann.post("/do/forget", {**fields, "confirmed": "yes", "typed": "erase"})
    page = ann.get("/").text
    assert "erase done: 1" in page
    assert "Redis is used" not in page


def test_texts_that_repeat_a_word_very_often_are_not_compared_word_by_word(
    brain: Brain, ann: Visitor
) -> None:
    worst = "ha " * 300
    [stored] = brain.remember(f"He laughed: {worst}", kind="event").items
    assert stored.id is not None, stored
    new = brain.revise.supersede(stored.id, f"She laughed: {worst * 2}", reason="it was her")
    assert new.id is not None, new
    page = ann.get(f"/memory/{new.id}").text
    assert "<del>He laughed" in page


def test_memory_of_the_last_representable_month_is_listed(brain: Brain, ann: Visitor) -> None:
    brain.remember("The certificate expires", kind="fact", occurred_at="9999-12-15T00:00:00Z")
    assert ann.get("/browse").status_code == 200


def test_page_is_available_although_agents_of_the_tenant_must_boot(brain: Brain) -> None:
    policy = replace(NO_POLICY, is_boot_required=True)
    admission = Admission(credential="0a1b2c3d", role=Role.ADMIN, policy=policy)
    ann = visitor(brain, as_role(brain, admission=admission))
    assert ann.get("/").status_code == 200


def test_internal_error_has_the_headers_of_every_page(brain: Brain, ann: Visitor) -> None:
    brain.close()
    response = ann.get("/")
    assert response.status_code >= 500
    assert "default-src 'none'" in response.headers["content-security-policy"]
    assert response.headers["cache-control"] == "no-store"


def test_only_the_correction_form_contains_the_marks_of_right_to_left_text(
    brain: Brain, ann: Visitor
) -> None:
    text = "\u05d4\u05d7\u05e0\u05d5\u05ea \u200f(shop) \u05e4\u05ea\u05d5\u05d7\u05d4"
    [stored] = brain.remember(text, kind="fact").items
    page = ann.get(f"/memory/{stored.id}").text
    form = page[page.index("<textarea") : page.index("</textarea>")]
    assert "\u200f" in form
    assert "\u200f" not in page.replace(form, "")


def test_only_known_themes_are_applied_to_a_page(ann: Visitor, subtests: pytest.Subtests) -> None:
    session = ann.client.cookies["commonbrain"]
    for theme, is_shown in (("dark", True), ("light", True), ("x", False), ('"><script>', False)):
        with subtests.test(theme=theme):
            cookies = f"commonbrain={session}; commonbrain-theme={theme}"
            page = ann.get("/", cookie=cookies).text
            assert ("data-theme=" in page.split(">", 2)[1]) is is_shown
