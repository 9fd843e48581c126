"""The operation skill: list skills, or those that a query triggers."""

from collections.abc import Iterator
from typing import Literal

from commonbrain.api.operation import Command, Cursor, Name, Operation, Request, Transport, argument
from commonbrain.client import Brain
from commonbrain.model.escaping import inert_line
from commonbrain.model.limits import SKILLS_PAGE_MAX
from commonbrain.model.paging import more_line
from commonbrain.retrieval.skills import ListedSkill, SkillList


class SkillRequest(Request):
    """Whether to list all skills or those that a query triggers."""

    op: Literal["list", "test"] = argument("test: skills that a query triggers", "list")
    query: str = argument("The query to test", "")
    project: Name = argument("The project of the query")
    limit: int = argument("How many at most, 1 to 100", SKILLS_PAGE_MAX)
    cursor: Cursor = None


def _handle(brain: Brain, request: SkillRequest) -> SkillList:
    if request.op == "test":
        return brain.skills.firing(request.query, project=request.project)
    return brain.skills(limit=request.limit, cursor=request.cursor)


def _render(reply: SkillList) -> str:
    lines = [inert_line(" | ".join(_describe_trigger(one))) for one in reply.skills]
    return "\n".join([*lines, *more_line(reply.more, reply.next)]) or "No skill."


def _describe_trigger(one: ListedSkill) -> Iterator[str]:
    yield one.name
    yield one.id
    yield one.headline
    if one.keywords:
        yield f"keywords {', '.join(one.keywords)}"
    if one.projects:
        yield f"projects {', '.join(one.projects)}"
    if one.always_on:
        yield "always on"


SKILL = Operation(
    name="skill",
    title="Skill",
    purpose="List skills, or those that a query triggers.",
    request=SkillRequest,
    reply=SkillList,
    handle=_handle,
    render_text=_render,
    transports=frozenset({Transport.CLI, Transport.REST}),
    is_read_only=True,
    is_idempotent=True,
    commands=(
        Command(
            name="skill list",
            purpose="List every skill with its keywords and projects.",
            preset={"op": "list"},
            fields=frozenset({"limit", "cursor"}),
        ),
        Command(
            name="skill test",
            purpose="Show the skills that a query triggers, in their order.",
            preset={"op": "test"},
            fields=frozenset({"query", "project"}),
            positional=("query",),
            required=frozenset({"query"}),
        ),
    ),
)
