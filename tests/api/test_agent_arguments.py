"""Arguments as models send them: what each tool takes for the same."""

import json
from collections.abc import Iterator
from typing import Any, get_args, get_origin

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from commonbrain.api.operation import BY_AGENT, Request, arguments_for_agents
from commonbrain.api.operations import Profile
from commonbrain.api.operations.get import GetRequest
from commonbrain.api.operations.message import MessageRequest
from commonbrain.api.operations.recall import RecallRequest
from commonbrain.api.operations.remember import InvalidItem, RememberRequest
from commonbrain.api.operations.revise import ReviseRequest
from commonbrain.api.operations.session import SessionRequest
from commonbrain.api.operations.trace import TraceRequest
from commonbrain.mcp.server import tools_of
from commonbrain.model.errors import InvalidInputError
from commonbrain.text.tokens import estimate

REQUESTS = [operation.request for operation in tools_of(Profile.CORE).values()]
every_request = pytest.mark.parametrize("request_", REQUESTS, ids=lambda one: one.__name__)
ERROR_TOKENS_MAX = 40


def read(request: type[Request], **arguments: object) -> Request:
    return request.model_validate(arguments, context=BY_AGENT)


def minimal(request: type[Request]) -> dict[str, object]:
    """The least that a request takes."""
    needed: dict[type[Request], dict[str, object]] = {
        RememberRequest: {"text": "Tea is at four."},
        ReviseRequest: {"op": "pin", "id": "mem_1"},
        SessionRequest: {"op": "list"},
        MessageRequest: {"op": "inbox"},
        TraceRequest: {"op": "causes"},
    }
    return needed.get(request, {})


def fields_of(request: type[Request], kind: type) -> Iterator[str]:
    for name in arguments_for_agents(request):
        if get_origin(request.model_fields[name].annotation) is kind:
            yield name


@every_request
def test_null_is_an_argument_that_was_not_given(request_: type[Request]) -> None:
    least = minimal(request_)
    nulls = dict.fromkeys(arguments_for_agents(request_))
    assert read(request_, **(nulls | least)) == read(request_, **least)
    assert read(request_, **least, unknown=None) == read(request_, **least)


@every_request
def test_details_are_read_like_other_arguments(request_: type[Request]) -> None:
    least = minimal(request_)
    if request_.SHOWN:
        assert read(request_, details=least) == read(request_, **least)
        assert read(request_, details=json.dumps(least)) == read(request_, **least)
        assert read(request_, **least, details=None) == read(request_, **least)
        with pytest.raises(InvalidInputError, match="There is no argument 'colour'"):
            read(request_, **least, details={"colour": "red"})


@every_request
def test_unknown_argument_is_an_error_of_few_tokens(request_: type[Request]) -> None:
    for name in ("colour", "colour" * 100, "querry_", "textt", "zz\ud800"):
        with pytest.raises(InvalidInputError) as refused:
            read(request_, **minimal(request_), **{name: "red"})
        assert "There is no argument" in str(refused.value)
        if len(name) < 40:
            assert estimate(f"invalid: {refused.value}") <= ERROR_TOKENS_MAX


@pytest.mark.parametrize(
    ("request_", "sent", "meant"),
    [
        (RecallRequest, {"q": "tea"}, {"query": "tea"}),
        (RecallRequest, {"text": "tea", "limit": "3"}, {"query": "tea", "max_items": 3}),
        (RecallRequest, {"kind": "fact"}, {"kinds": ["fact"]}),
        (RecallRequest, {"kinds": "fact, rule"}, {"kinds": ["fact", "rule"]}),
        (RecallRequest, {"kinds": '["fact", "rule"]'}, {"kinds": ["fact", "rule"]}),
        (RecallRequest, {"tag": "night shift"}, {"tags": ["night shift"]}),
        (RecallRequest, {"query": ["tea"]}, {"query": "tea"}),
        (RecallRequest, {"trust_min": "0.3"}, {"trust_min": 0.3}),
        (RecallRequest, {"q": "tea", "query": "tea"}, {"query": "tea"}),
        (RememberRequest, {"content": "Tea", "tags": "a"}, {"text": "Tea", "tags": ["a"]}),
        (RememberRequest, {"text": "T", "always_on": "true"}, {"text": "T", "always_on": True}),
        (RememberRequest, {"items": {"text": "T"}}, {"items": [{"text": "T"}]}),
        (RememberRequest, {"items": '[{"body": "T"}]'}, {"items": [{"text": "T"}]}),
        (
            RememberRequest,
            {"text": "T", "details": {"due_at": "2026-12-01", "kind": "task"}},
            {"text": "T", "due_at": "2026-12-01", "kind": "task"},
        ),
        (GetRequest, {"ids": "mem_1,mem_2"}, {"id": ["mem_1", "mem_2"]}),
        (GetRequest, {"id": "mem_1", "view": "links"}, {"id": ["mem_1"], "views": ["links"]}),
        (ReviseRequest, {"op": "pin", "ids": ["mem_1"]}, {"op": "pin", "id": "mem_1"}),
        (TraceRequest, {"op": "before", "query": "tea"}, {"op": "before", "text": "tea"}),
        (
            MessageRequest,
            {"op": "send", "to": "bo", "body": "Tea, then cake"},
            {"op": "send", "to": ["bo"], "text": "Tea, then cake"},
        ),
        (
            SessionRequest,
            {"op": "task", "text": "T", "metadata": '{"branch": "b"}'},
            {"op": "task", "text": "T", "metadata": {"branch": "b"}},
        ),
    ],
)
def test_slip_of_a_model_is_read_as_it_is_meant(
    request_: type[Request], sent: dict[str, object], meant: dict[str, object]
) -> None:
    assert read(request_, **sent) == read(request_, **meant)


def test_other_name_never_wins_over_the_argument_itself() -> None:
    for sent in ({"q": "cake", "query": "tea"}, {"query": "tea", "q": "cake"}):
        with pytest.raises(InvalidInputError, match="query is given twice"):
            read(RecallRequest, **sent)
    with pytest.raises(InvalidInputError, match="kind is given twice"):
        read(RememberRequest, text="T", kind="fact", details={"kind": "rule"})


def test_text_with_commas_is_no_list_where_a_value_may_contain_one() -> None:
    for name in ("tags", "people", "labels"):
        with pytest.raises(ValidationError):
            read(RecallRequest, **{name: "a,b"})


def test_programs_send_arguments_by_their_names_and_types() -> None:
    unread: tuple[dict[str, object], ...] = ({"q": "tea"}, {"details": {}})
    for sent in unread:
        with pytest.raises(InvalidInputError, match="There is no argument"):
            RecallRequest.model_validate(sent)
    with pytest.raises(ValidationError):
        RecallRequest.model_validate({"kinds": "fact"})


def test_item_that_is_no_object_is_refused_by_itself() -> None:
    request: Any = read(RememberRequest, items=["Tea", {"text": "Cake"}])
    assert isinstance(request.items[0], InvalidItem)
    assert request.items[1].text == "Cake"


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda one: one.__name__)
@given(data=st.data())
def test_single_text_is_a_list_of_one(request_: type[Request], data: st.DataObject) -> None:
    names = [
        name
        for name in fields_of(request_, list)
        if get_args(request_.model_fields[name].annotation) == (str,)
    ]
    if not names:
        return
    name = data.draw(st.sampled_from(names))
    value = data.draw(st.from_regex(r"\A[a-z][a-z ]{0,8}[a-z]\Z"))
    assert _outcome(request_, **{name: value}) == _outcome(request_, **{name: [value]})


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda one: one.__name__)
@given(
    sent=st.dictionaries(
        st.text(max_size=9) | st.sampled_from(["details", "id", "text", "q", "limit", "items"]),
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.text(max_size=5), inner, max_size=3)
            ),
            max_leaves=6,
        ),
        max_size=5,
    )
)
def test_whatever_a_model_sends_is_read_or_refused(
    request_: type[Request], sent: dict[str, object]
) -> None:
    _outcome(request_, **sent)


def _outcome(request: type[Request], **sent: object) -> object:
    try:
        return read(request, **(minimal(request) | sent))
    except (InvalidInputError, ValidationError) as error:
        return type(error)
