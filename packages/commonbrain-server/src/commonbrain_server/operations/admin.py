"""The operation admin: agents, keys, policy, usage and refusals of a tenant."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Final, Literal
from urllib.parse import urlsplit

from pydantic import Field

from commonbrain.api.operation import (
    Command,
    Cursor,
    Name,
    Operation,
    Profile,
    Verb,
    VerbRequest,
    verb_command,
)
from commonbrain.client import Brain
from commonbrain.hosts import is_local_host, is_url
from commonbrain.model.escaping import inert_line
from commonbrain.model.limits import ITEMS_PER_CALL_MAX, ROTATION_MINUTES_DEFAULT
from commonbrain.model.paging import Listing, Page, more_line
from commonbrain.model.scope import Policy, Role, Trust
from commonbrain.model.timestamps import show_instant, to_millis
from commonbrain.storage.interface import AccessEntry
from commonbrain_server.security.key_texts import KEY_SIGN
from commonbrain_server.security.keys import Agent, ApiKey, KeyScope
from commonbrain_server.settings import ANY_ADDRESS, ServerSettings, load_server_settings
from commonbrain_server.tenants import (
    AdministerTenant,
    AgentRequest,
    KeyRequest,
    NewKey,
    PolicyChange,
    Usage,
    admin_of,
)

_PAGED: Final = ("limit", "cursor")
_AGENT: Final = frozenset({"agent"})
_KEY: Final = frozenset({"key"})

ADMIN_COMMANDS: Final = (
    verb_command("agent list", "List agents with their role and trust.", op="agents"),
    Command(
        name="agent set",
        purpose="Create an agent, or change its role and trust.",
        preset={"op": "agent_set"},
        fields=_AGENT | {"role", "trust_default", "trust_ceiling"},
        positional=("agent",),
        required=_AGENT,
    ),
    Command(
        name="agent disable",
        purpose="Disable an agent; its keys and memories stay.",
        preset={"op": "agent_set", "disabled": True},
        fields=_AGENT,
        positional=("agent",),
        required=_AGENT,
        needs_confirmation=True,
    ),
    Command(
        name="agent enable",
        purpose="Enable a disabled agent.",
        preset={"op": "agent_set", "disabled": False},
        fields=_AGENT,
        positional=("agent",),
        required=_AGENT,
    ),
    verb_command("key list", "List keys, valid or not, the newest first.", op="keys"),
    verb_command(
        "key create", "Create a key for an agent and show it once.", "agent", op="key_create"
    ),
    Command(
        name="key invite",
        purpose="Make a link that gives a colleague a key of their own, once, within a week.",
        preset={"op": "key_create", "scopes": ["join"]},
        fields=_AGENT | {"role", "label"},
        positional=("agent",),
        required=_AGENT,
    ),
    verb_command(
        "key rotate",
        "Replace a key; the old one expires after some minutes.",
        "key",
        op="key_rotate",
    ),
    Command(
        name="key revoke",
        purpose="Revoke a key immediately.",
        preset={"op": "key_revoke"},
        positional=("key",),
        required=_KEY,
        needs_confirmation=True,
    ),
    verb_command("tenant usage", "Show the tenant's usage and limits."),
    verb_command(
        "tenant refusals",
        "List recent refusals and administrative changes, the newest first.",
    ),
)


Op = Literal[
    "agents",
    "agent_set",
    "keys",
    "key_create",
    "key_rotate",
    "key_revoke",
    "policy",
    "usage",
    "refusals",
]


class AdminRequest(VerbRequest):
    """The verb and its arguments."""

    VERBS: ClassVar = {
        "agents": Verb(optional=_PAGED, is_read_only=True),
        "agent_set": Verb(
            required=("agent",), optional=("role", "trust_default", "trust_ceiling", "disabled")
        ),
        "keys": Verb(optional=("agent", *_PAGED), is_read_only=True),
        "key_create": Verb(
            required=("agent",), optional=("role", "label", "scopes", "networks", "days")
        ),
        "key_rotate": Verb(required=("key",), optional=("minutes",)),
        "key_revoke": Verb(required=("key",)),
        "policy": Verb(
            optional=("boot_required", "auto_promote", "audit_reads", "retention", "parameters")
        ),
        "usage": Verb(is_read_only=True),
        "refusals": Verb(optional=_PAGED, is_read_only=True),
    }

    op: Op = Field(
        description="agent_set: create or change one; key_create, key_rotate: show the key once; "
        "refusals: recent refusals and changes"
    )
    agent: Name = Field(default=None, description="Of agent_set, key_create, keys")
    role: Role | None = Field(
        default=None, description="agent_set; key_create: role of a new agent"
    )
    trust_default: Trust | None = Field(default=None, description="agent_set: the default")
    trust_ceiling: Trust | None = Field(
        default=None, description="agent_set: the highest it may claim"
    )
    disabled: bool | None = Field(default=None, description="agent_set: refuse its calls")
    key: Name = Field(default=None, description="The 8 digits of key_rotate, key_revoke")
    label: Name = Field(default=None, description="key_create: its purpose")
    scopes: list[KeyScope] = Field(
        default=[],
        description="key_create: read, write, admin; none: all of the agent's role; join: an "
        "invitation; its link is exchanged for a key once",
    )
    networks: list[str] = Field(
        default=[], description="key_create: allowed addresses or networks; none: any"
    )
    days: float | None = Field(default=None, description="key_create: until it expires")
    minutes: int = Field(
        default=ROTATION_MINUTES_DEFAULT, description="key_rotate: until the old one expires"
    )
    boot_required: bool | None = Field(
        default=None, description="policy: whether sessions must boot first"
    )
    auto_promote: bool | None = Field(
        default=None, description="policy: whether proven canaries are promoted automatically"
    )
    audit_reads: bool | None = Field(
        default=None, description="policy: whether reads are in the audit"
    )
    retention: list[str] = Field(
        default=[],
        description="policy: retention rules, each like kind=event label=log "
        "scope=team days=30 action=archive (or forget); none: keep everything",
    )
    parameters: list[str] = Field(
        default=[],
        description="policy: NAME=VALUE, such as trust_min=0.6; NAME= restores the server's",
    )
    limit: int = Field(
        default=20, ge=1, le=ITEMS_PER_CALL_MAX, description="agents, keys, refusals: how many"
    )
    cursor: Cursor = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyView:
    """A key without its secret."""

    key: str
    agent: str
    label: str | None
    scopes: tuple[KeyScope, ...]
    networks: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminReply:
    """The reply; only the verb's fields are set."""

    op: str
    tenant: str
    agents: tuple[Agent, ...] | None = None
    keys: tuple[KeyView, ...] | None = None
    secret: str | None = None
    """A new key, or the link of an invitation; it is not stored and cannot be shown again."""
    policy: Policy | None = None
    usage: Usage | None = None
    refusals: tuple[AccessEntry, ...] | None = None
    next: str | None = None
    """The cursor of the next page of a list; None on the last one."""
    more: int = 0
    """Rows after this page; 1,000 means 1,000 or more."""


_Parts = dict[str, Any]
_Call = Callable[[AdministerTenant, AdminRequest], _Parts]


def _new_key_parts(new: NewKey) -> _Parts:
    secret = link_of(new, load_server_settings()) if new.key.is_invitation else str(new.text)
    return {"keys": (_to_key_view(new.key),), "secret": secret}


def link_of(invitation: NewKey, settings: ServerSettings) -> str:
    """Return the link of an invitation."""
    # Browsers do not send what follows the #, so that no log of a server has it.
    return f"{settings.public_url}/join#{invitation.text}"


def _create(govern: AdministerTenant, request: AdminRequest) -> _Parts:
    options = KeyRequest(
        agent=request.agent or "",
        label=request.label,
        scopes=tuple(request.scopes),
        networks=tuple(request.networks),
        days=request.days,
        role=request.role,
    )
    return _new_key_parts(govern.create_key(options))


def _set_agent(govern: AdministerTenant, request: AdminRequest) -> _Parts:
    changes = AgentRequest(
        role=request.role,
        trust_default=request.trust_default,
        trust_ceiling=request.trust_ceiling,
        is_disabled=request.disabled,
    )
    return {"agents": (govern.set_agent(request.agent or "", changes),)}


def _policy(govern: AdministerTenant, request: AdminRequest) -> _Parts:
    change = policy_change(
        boot_required=request.boot_required,
        auto_promote=request.auto_promote,
        audit_reads=request.audit_reads,
        retention=request.retention,
        parameters=request.parameters,
    )
    return {"policy": govern.policy(**change)}


def policy_change(
    *,
    boot_required: bool | None,
    auto_promote: bool | None,
    audit_reads: bool | None,
    retention: Sequence[str],
    parameters: Sequence[str],
) -> PolicyChange:
    """Return the policy fields that are set; the single rule `none` removes all retention rules."""
    change = PolicyChange()
    if boot_required is not None:
        change["is_boot_required"] = boot_required
    if auto_promote is not None:
        change["is_promotion_automatic"] = auto_promote
    if audit_reads is not None:
        change["are_reads_audited"] = audit_reads
    if retention:
        change["retention"] = () if list(retention) == ["none"] else tuple(retention)
    if parameters:
        change["parameters"] = tuple(parameters)
    return change


def _agents(govern: AdministerTenant, request: AdminRequest) -> _Parts:
    page = _listing(request).page_of_all(govern.agents(), key=lambda one: (one.name,))
    return _page_parts("agents", page)


def _keys(govern: AdministerTenant, request: AdminRequest) -> _Parts:
    """List valid keys first, each group newest first."""
    now = govern.services.clock.now()
    page = _listing(request).page_of_all(
        govern.keys(agent=request.agent),
        key=lambda one: (int(not one.is_good(now)), -to_millis(one.created_at), one.prefix),
    )
    return _page_parts("keys", page) | {"keys": tuple(map(_to_key_view, page.rows))}


def _listing(request: AdminRequest) -> Listing:
    return Listing(
        name=request.op,
        limit=request.limit,
        cursor=request.cursor,
        filters={"agent": request.agent},
    )


def _page_parts(name: str, page: Page[Any]) -> _Parts:
    return {name: page.rows, "next": page.next, "more": page.more}


_CALLS: Final[Mapping[Op, _Call]] = {
    "agents": _agents,
    "agent_set": _set_agent,
    "keys": _keys,
    "key_create": _create,
    "key_rotate": lambda govern, request: _new_key_parts(
        govern.rotate_key(_prefix(request), minutes=request.minutes)
    ),
    "key_revoke": lambda govern, request: {
        "keys": (_to_key_view(govern.revoke_key(_prefix(request))),)
    },
    "policy": _policy,
    "usage": lambda govern, _: {"usage": govern.usage()},
    "refusals": lambda govern, request: _page_parts(
        "refusals", govern.noted(limit=request.limit, cursor=request.cursor)
    ),
}


def _handle(brain: Brain, request: AdminRequest) -> AdminReply:
    parts = _CALLS[request.op](admin_of(brain), request)
    return AdminReply(op=request.op, tenant=brain.caller.tenant, **parts)


def _preview(brain: Brain, request: AdminRequest) -> AdminReply | None:
    """Show the key or agent that would lose access."""
    tenant = brain.caller.tenant
    if request.op == "key_revoke":
        prefix = _prefix(request)
        keys_of_tenant = admin_of(brain).keys()
        keys = tuple(_to_key_view(key) for key in keys_of_tenant if key.prefix == prefix)
        return AdminReply(op="keys", tenant=tenant, keys=keys)
    if request.op == "agent_set" and request.disabled:
        agents = tuple(one for one in admin_of(brain).agents() if one.name == request.agent)
        return AdminReply(op="agents", tenant=tenant, agents=agents)
    return None


def _prefix(request: AdminRequest) -> str:
    """Return the key's prefix; accepts the prefix as `key list` shows it, too."""
    value = request.key or ""
    return value.rpartition("_")[2] if value.startswith(KEY_SIGN) else value


def _to_key_view(key: ApiKey) -> KeyView:
    return KeyView(
        key=key.prefix,
        agent=key.agent,
        label=key.label,
        scopes=key.scopes,
        networks=key.networks,
        created_at=key.created_at,
        expires_at=key.expires_at,
        revoked_at=key.revoked_at,
        last_used_at=key.last_used_at,
    )


def _render(reply: AdminReply) -> str:
    lines = [*(_render_agent(one) for one in reply.agents or ())]
    lines += (_render_key(one) for one in reply.keys or ())
    if reply.secret is not None:
        if is_url(reply.secret):
            lines += render_link(reply.secret)
        else:
            lines.append(f"The key, which is not stored and never shown again: {reply.secret}")
    if reply.policy is not None:
        lines.append(render_policy(reply.policy))
    if reply.usage is not None:
        lines.append(render_usage(reply.usage))
    lines += (_render_denial(one) for one in reply.refusals or ())
    lines += more_line(reply.more, reply.next)
    return "\n".join(inert_line(line) for line in lines) or f"No {reply.op} in {reply.tenant}."


def render_link(link: str) -> Iterator[str]:
    """Render the link of an invitation, and what to do with it."""
    yield "The link, which works once and is never shown again. The person who gets it runs:"
    yield f"brain connect CLIENT --url '{link}'"
    host = urlsplit(link).hostname or ""
    if is_local_host(host) or host in ANY_ADDRESS:
        yield (
            "Only this machine reaches it: set COMMONBRAIN_SERVE_URL to the server's public URL "
            "and start brain serve anew."
        )


def render_usage(usage: Usage) -> str:
    """Render a tenant's usage and limits."""
    limit = usage.policy.memories_max
    of_limit = "" if limit is None else f" of {limit}"
    return (
        f"memories: {usage.memories}{of_limit}; agents: {usage.agents}; valid keys: {usage.keys}; "
        f"{render_policy(usage.policy)}"
    )


def render_policy(policy: Policy) -> str:
    """Render a policy."""
    server_default = "the server's limit"
    parts = [
        f"calls a minute of a key: {policy.key_calls_per_minute or server_default}, "
        f"of the tenant: {policy.tenant_calls_per_minute or server_default}",
        f"boot: {'required' if policy.is_boot_required else 'not required'}",
    ]
    if policy.is_promotion_automatic:
        parts.append("models are promoted by guards")
    if policy.are_reads_audited:
        parts.append("reads are audited")
    if policy.retention:
        parts.append(f"retention: {', '.join(policy.retention)}")
    if policy.parameters:
        parts.append(f"parameters: {', '.join(policy.parameters)}")
    return "; ".join(parts)


def _render_agent(one: Agent) -> str:
    state = " | disabled" if one.disabled_at else ""
    return (
        f"{one.name} | {one.role} | trust {one.trust_default}, at most {one.trust_ceiling}{state}"
    )


def _render_key(one: KeyView) -> str:
    parts = [one.key, one.agent, *([one.label] if one.label else [])]
    parts.append(f"scopes {', '.join(one.scopes) or 'all'}")
    parts += [f"from {', '.join(one.networks)}"] if one.networks else []
    for label, at in (
        ("made", one.created_at),
        ("used", one.last_used_at),
        ("ends", one.expires_at),
        ("revoked", one.revoked_at),
    ):
        parts += [f"{label} {show_instant(at)}"] if at else []
    return " | ".join(parts)


def _render_denial(one: AccessEntry) -> str:
    author = one.agent or "unknown"
    action = f"refused: {one.code}" if one.code else f"done {one.subject or ''}".strip()
    times = f" ({one.count} times)" if one.count > 1 else ""
    return f"{show_instant(one.at)} | {author} | {one.action} | {action}{times}"


def _changes(request: AdminRequest) -> bool:
    """Return whether a request changes anything; a policy without values is shown."""
    is_shown = request.op == "policy" and request.model_fields_set <= {"op"}
    return not (request.verb.is_read_only or is_shown)


ADMIN = Operation(
    name="admin",
    title="Admin",
    purpose="Manage your tenant's agents, API keys and policy; list refused calls.",
    request=AdminRequest,
    profile=Profile.OPERATOR,
    reply=AdminReply,
    handle=_handle,
    render_text=_render,
    role=Role.ADMIN,
    needs_person=_changes,
    is_destructive=True,
    preview=_preview,
    positional=("op",),
    commands=ADMIN_COMMANDS,
)
