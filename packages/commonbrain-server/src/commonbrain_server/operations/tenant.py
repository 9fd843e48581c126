"""The operation tenant: administer tenants, on the machine of the store only."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import Field

from commonbrain.api.operation import Command, Cursor, Operation, Transport, Verb, VerbRequest
from commonbrain.client import Brain
from commonbrain.model.escaping import inert_line
from commonbrain.model.limits import ITEMS_PER_CALL_MAX
from commonbrain.model.paging import Listing, more_line
from commonbrain.model.parameters import POLICY_PARAMETERS
from commonbrain.model.scope import Role
from commonbrain.model.timestamps import show_instant
from commonbrain.storage.interface import Tenant
from commonbrain_server.operations.admin import policy_change, render_policy, render_usage
from commonbrain_server.tenants import PolicyChange, Usage, tenants_of


class TenantRequest(VerbRequest):
    """The tenant, the verb and its arguments."""

    VERBS: ClassVar = {
        "list": Verb(optional=("limit", "cursor"), is_read_only=True),
        "create": Verb(required=("name",)),
        "show": Verb(required=("name",), is_read_only=True),
        "suspend": Verb(required=("name",)),
        "resume": Verb(required=("name",)),
        "policy": Verb(
            required=("name",),
            optional=(
                "key_calls_per_minute",
                "tenant_calls_per_minute",
                "memories_max",
                "boot_required",
                "auto_promote",
                "audit_reads",
                "retention",
                "parameters",
            ),
        ),
    }

    op: Literal["list", "create", "show", "suspend", "resume", "policy"] = Field(
        default="list", description="What to do"
    )
    name: str = Field(default="", max_length=63, description="The tenant's name: a-z, 0-9, - and _")
    limit: int = Field(
        default=20, ge=1, le=ITEMS_PER_CALL_MAX, description="list: how many, 1 to 100"
    )
    cursor: Cursor = None
    key_calls_per_minute: int | None = Field(
        default=None, ge=0, description="Per credential; 0: the server's limit"
    )
    tenant_calls_per_minute: int | None = Field(
        default=None, ge=0, description="For the whole tenant; 0: the server's limit"
    )
    memories_max: int | None = Field(
        default=None, ge=-1, description="Maximum number of memories; -1: no limit"
    )
    boot_required: bool | None = Field(default=None, description="Whether sessions must boot first")
    auto_promote: bool | None = Field(
        default=None, description="Whether proven canaries are promoted automatically"
    )
    audit_reads: bool | None = Field(default=None, description="Whether reads are in the audit")
    retention: list[str] = Field(
        default=[],
        description="Retention rules, each like kind=event label=log scope=team "
        "days=30 action=archive; none: keep everything",
    )
    parameters: list[str] = Field(
        default=[],
        description="NAME=VALUE, such as trust_min=0.6; NAME= restores the server's; names are "
        + ", ".join(POLICY_PARAMETERS),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantsReply:
    """The tenants requested or changed."""

    op: str
    tenants: tuple[Tenant, ...]
    usage: Usage | None = None
    next: str | None = None
    """The cursor of the next page of the list; None on the last one."""
    more: int = 0
    """Tenants after this page; 1,000 means 1,000 or more."""


def _handle(brain: Brain, request: TenantRequest) -> TenantsReply:
    tenants, usage = tenants_of(brain), None
    match request.op:
        case "list":
            listing = Listing(name="tenants", limit=request.limit, cursor=request.cursor)
            page = listing.page_of_all(tenants.list(), key=lambda one: (one.name,))
            return TenantsReply(op=request.op, tenants=page.rows, next=page.next, more=page.more)
        case "create":
            one = tenants.make(request.name)
        case "show":
            one, usage = tenants.get(request.name), tenants.usage(request.name)
        case "suspend" | "resume":
            one = tenants.suspend(request.name, is_suspended=request.op == "suspend")
        case "policy":
            one = tenants.policy(request.name, **_change(request))
    return TenantsReply(op=request.op, tenants=(one,), usage=usage)


def _change(request: TenantRequest) -> PolicyChange:
    change = policy_change(
        boot_required=request.boot_required,
        auto_promote=request.auto_promote,
        audit_reads=request.audit_reads,
        retention=request.retention,
        parameters=request.parameters,
    )
    if request.key_calls_per_minute is not None:
        change["key_calls_per_minute"] = request.key_calls_per_minute or None
    if request.tenant_calls_per_minute is not None:
        change["tenant_calls_per_minute"] = request.tenant_calls_per_minute or None
    if request.memories_max is not None:
        change["memories_max"] = None if request.memories_max < 0 else request.memories_max
    return change


def _changes(request: TenantRequest) -> bool:
    """Return whether a request changes anything; a policy without values is shown."""
    is_shown = request.op == "policy" and request.model_fields_set <= {"op", "name"}
    return not (request.verb.is_read_only or is_shown)


def _preview(brain: Brain, request: TenantRequest) -> TenantsReply | None:
    """Show the tenant that would be suspended."""
    if request.op != "suspend":
        return None
    return TenantsReply(
        op="show",
        tenants=(tenants_of(brain).get(request.name),),
        usage=tenants_of(brain).usage(request.name),
    )


def _render(reply: TenantsReply) -> str:
    lines: list[str] = []
    for tenant in reply.tenants:
        since = f" | suspended {show_instant(tenant.suspended_at)}" if tenant.suspended_at else ""
        lines.append(f"{tenant.name} | made {show_instant(tenant.created_at)}{since}")
    if reply.usage is not None:
        lines.append(render_usage(reply.usage))
    elif reply.op == "policy":
        limit = reply.tenants[0].policy.memories_max
        lines.append(f"memories: {'no limit' if limit is None else f'at most {limit}'}")
        lines.append(render_policy(reply.tenants[0].policy))
    lines += more_line(reply.more, reply.next)
    return "\n".join(inert_line(line) for line in lines)


def _command(op: str, purpose: str) -> Command:
    names = TenantRequest.VERBS[op].required
    return Command(
        name=f"tenant {op}",
        purpose=purpose,
        preset={"op": op},
        positional=names,
        required=frozenset(names),
        needs_confirmation=op == "suspend",
    )


TENANT = Operation(
    name="tenant",
    title="Tenant",
    purpose="List, create, show, suspend and limit the tenants of this store.",
    request=TenantRequest,
    reply=TenantsReply,
    handle=_handle,
    render_text=_render,
    role=Role.ADMIN,
    needs_person=_changes,
    transports=frozenset({Transport.CLI}),
    is_destructive=True,
    preview=_preview,
    positional=("op", "name"),
    commands=(
        _command("list", "List every tenant of this store."),
        _command("create", "Create a tenant."),
        _command("show", "Show a tenant's usage and limits."),
        _command("suspend", "Refuse network access to a tenant; its data stays."),
        _command("resume", "Restore network access to a suspended tenant."),
        _command("policy", "Show or change what a tenant may use."),
    ),
)
