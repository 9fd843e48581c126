"""Administer tenants, agents and keys."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, TypedDict, Unpack

from commonbrain.ingestion.validation import check_address
from commonbrain.model.errors import (
    InvalidInputError,
    LimitExceededError,
    NotFoundError,
    RejectedError,
)
from commonbrain.model.limits import (
    ITEMS_PER_CALL_MAX,
    KEYS_MAX,
    ROTATION_MINUTES_DEFAULT,
    ROTATION_MINUTES_MAX,
)
from commonbrain.model.paging import Listing, Page
from commonbrain.model.parameters import change_parameters
from commonbrain.model.scope import NO_POLICY, Caller, Policy, Role, Trust
from commonbrain.services import Services
from commonbrain.storage.interface import (
    AccessEntry,
    AuditFilter,
    AuditLine,
    Tenant,
)
from commonbrain.storage.retention_rules import Retention
from commonbrain_server.guard import guard_of
from commonbrain_server.security.authentication import invalid_invitation
from commonbrain_server.security.key_texts import (
    PREFIX_CHARS,
    SECRET_CHARS,
    KeyText,
    check_networks,
    check_tenant_name,
)
from commonbrain_server.security.keys import Agent, ApiKey, KeyRepository, KeyScope
from commonbrain_server.security.quotas import count_stored

if TYPE_CHECKING:
    from commonbrain.client import Brain
    from commonbrain.storage.store import Transaction
    from commonbrain_server.security.passwords import Argon2PasswordHasher


class PolicyChange(TypedDict, total=False):
    """Changes of a policy; omitted fields stay."""

    key_calls_per_minute: int | None
    tenant_calls_per_minute: int | None
    memories_max: int | None
    is_boot_required: bool
    is_promotion_automatic: bool
    retention: tuple[str, ...]
    parameters: tuple[str, ...]
    are_reads_audited: bool


INVITATION_DAYS: Final = 7
OWNERS = frozenset({"key_calls_per_minute", "tenant_calls_per_minute", "memories_max"})
"""Limits of a tenant, which its own admins may not change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """A new key with its text, which is shown only once."""

    key: ApiKey
    text: KeyText


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRequest:
    """The request for a new key."""

    agent: str
    label: str | None = None
    scopes: tuple[KeyScope, ...] = ()
    networks: tuple[str, ...] = ()
    days: float | None = None
    """Lifetime; None until it is revoked, of an invitation `INVITATION_DAYS`."""
    role: Role | None = None
    """The role of the agent, if it has to be created."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRequest:
    """Changes of an agent; None keeps a value, or uses the default for a new agent."""

    role: Role | None = None
    trust_default: Trust | None = None
    trust_ceiling: Trust | None = None
    is_disabled: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a tenant uses of its quotas."""

    memories: int
    agents: int
    keys: int
    """Valid keys."""
    policy: Policy


@dataclass(frozen=True, slots=True)
class AdministerTenant:
    """What an admin may do in its own tenant; all of it is recorded in the access audit."""

    services: Services
    caller: Caller

    def agents(self) -> list[Agent]:
        """List the agents by name."""
        self._check()
        with self.services.store.snapshot(self.caller.tenant) as tx:
            return KeyRepository(tx.work).agents(limit=KEYS_MAX)

    def set_agent(self, name: str, request: AgentRequest) -> Agent:
        """Create or change an agent.

        Raises:
            InvalidInputError: the name is invalid, or the default trust is above the ceiling.
            LimitExceededError: `quota_exceeded`, there are too many agents.

        """
        self._check()
        check_address((name,), self.services.secret_scanner)
        with self.services.store.begin(self.caller.tenant) as tx:
            known = KeyRepository(tx.work).agent(name)
            agent = self._updated_agent(name, request, known=known)
            if known is None and len(KeyRepository(tx.work).agents(limit=KEYS_MAX)) >= KEYS_MAX:
                raise _full("agents")
            KeyRepository(tx.work).save_agent(agent)
            self._note(tx, "agent_set", subject=name)
        return agent

    def keys(self, *, agent: str | None = None) -> list[ApiKey]:
        """List keys, valid ones first, each group newest first."""
        self._check()
        now = self.services.clock.now()
        with self.services.store.snapshot(self.caller.tenant) as tx:
            return KeyRepository(tx.work).keys(limit=KEYS_MAX, now=now, agent=agent)

    def create_key(self, request: KeyRequest) -> NewKey:
        """Create a key for an agent.

        Raises:
            NotFoundError: there is no such agent, and no role to create it with.
            InvalidInputError: a network is invalid, the days are not positive, or the agent of an
                invitation exists with another role.
            LimitExceededError: `quota_exceeded`, there are too many keys.

        """
        self._check()
        new = self._made(request)
        with self.services.store.begin(self.caller.tenant) as tx:
            self._add_made(tx, new, role=request.role)
        return new

    def create_first_key(self, request: KeyRequest) -> NewKey | None:
        """Create a key, unless there is or was one; of several calls at once, one does.

        Invitations that ended do not count.
        """
        if self.has_key():
            return None
        new = self._made(request)
        with self.services.store.begin(self.caller.tenant) as tx:
            # Another process may have been first, while this one waited for its turn.
            keys = KeyRepository(tx.work)
            if keys.has_key() or keys.good_keys(new.key.created_at):
                return None
            self._add_made(tx, new, role=request.role)
        return new

    def has_key(self) -> bool:
        """Return whether there is or was a key, other than an invitation to one."""
        self._check()
        with self.services.store.snapshot(self.caller.tenant) as tx:
            return KeyRepository(tx.work).has_key()

    def rotate_key(self, prefix: str, *, minutes: int = ROTATION_MINUTES_DEFAULT) -> NewKey:
        """Create a key like another one, which expires after some minutes.

        Raises:
            NotFoundError: there is no such key, or it is no longer valid.
            InvalidInputError: the minutes are out of range.

        """
        self._check()
        if not 0 <= minutes <= ROTATION_MINUTES_MAX:
            raise InvalidInputError(
                f"The old key cannot stay valid for {minutes} minutes.",
                hint=f"Give 0 to {ROTATION_MINUTES_MAX}.",
            )
        now = self.services.clock.now()
        drawn = self._drawn()
        with self.services.store.begin(self.caller.tenant) as tx:
            old = KeyRepository(tx.work).key(prefix)
            if old is None or not old.is_good(now):
                raise _no_key(prefix)
            new = self._add_successor(tx, old, drawn=drawn, action="key_rotate", created_at=now)
            end = now + timedelta(minutes=0 if old.is_invitation else minutes)
            KeyRepository(tx.work).end_key(prefix, revoked_at=None, expires_at=end)
        return new

    def accept_invitation(self) -> NewKey:
        """Exchange the caller's invitation for a key with all of the agent's role, once.

        Raises:
            AuthenticationError: it is no invitation, or was used.
            LimitExceededError: `quota_exceeded`, there are too many keys.

        """
        prefix = self.caller.admission.credential if self.caller.admission else ""
        now = self.services.clock.now()
        drawn = self._drawn()
        with self.services.store.begin(self.caller.tenant) as tx:
            keys = KeyRepository(tx.work)
            old = keys.key(prefix)
            is_taken = (
                old is not None
                and old.is_invitation
                and old.is_good(now)
                and keys.end_key(prefix, revoked_at=now, expires_at=now)
            )
            if old is None or not is_taken:
                raise invalid_invitation()
            full = replace(old, scopes=(), expires_at=None)
            return self._add_successor(tx, full, drawn=drawn, action="key_join", created_at=now)

    def revoke_key(self, prefix: str) -> ApiKey:
        """Revoke a key; every process rejects it within `ACCESS_CACHE_S` seconds.

        Raises:
            NotFoundError: there is no such key.

        """
        self._check()
        now = self.services.clock.now()
        with self.services.store.begin(self.caller.tenant) as tx:
            if KeyRepository(tx.work).key(prefix) is None:
                raise _no_key(prefix)
            KeyRepository(tx.work).end_key(prefix, revoked_at=now, expires_at=now)
            self._note(tx, "key_revoke", subject=prefix)
            revoked = KeyRepository(tx.work).key(prefix)
        if revoked is None:
            raise _no_key(prefix)
        return revoked

    def policy(self, **change: Unpack[PolicyChange]) -> Policy:
        """Return the tenant's policy, with any changes applied.

        Raises:
            RejectedError: `insufficient_role`, only the owner of the store may change limits.
            InvalidInputError: a limit allows nothing, or a rule or parameter is invalid.

        """
        self._check()
        if self.caller.admission is not None and OWNERS & set(change):
            raise RejectedError(
                "A tenant's own admins cannot change its rates and quota.",
                code="insufficient_role",
                hint="Ask the server's operator: brain tenant policy.",
            )
        if not change:
            return self.usage().policy
        if "retention" in change:
            # Parsed before it is stored: maintenance must never meet an invalid rule.
            change["retention"] = tuple(str(Retention.read(one)) for one in change["retention"])
        with self.services.store.begin(self.caller.tenant) as tx:
            tenant = tx.credentials.tenant()
            known = tenant.policy if tenant else NO_POLICY
            if "parameters" in change:
                change["parameters"] = change_parameters(known.parameters, change["parameters"])
            policy = replace(known, **change)
            tx.credentials.set_policy(policy)
            self._note(tx, "policy", subject=None)
        if self.services.guard is not None:
            guard_of(self.services).policy_changed(self.caller.tenant)
        return policy

    def usage(self) -> Usage:
        """Count what the tenant uses, and return its policy."""
        self._check()
        now = self.services.clock.now()
        with self.services.store.snapshot(self.caller.tenant) as tx:
            tenant, keys = tx.credentials.tenant(), KeyRepository(tx.work)
            return Usage(
                memories=count_stored(tx),
                agents=len(keys.agents(limit=KEYS_MAX)),
                keys=keys.good_keys(now),
                policy=tenant.policy if tenant else NO_POLICY,
            )

    def noted(
        self, *, limit: int = ITEMS_PER_CALL_MAX, cursor: str | None = None
    ) -> Page[AccessEntry]:
        """List rejections and administrative actions, newest first.

        Raises:
            RejectedError: `insufficient_role`, `limit_exceeded`.
            InvalidInputError: the cursor is malformed.

        """
        self._check()
        listing = Listing(name="refusals", limit=limit, cursor=cursor).checked(ITEMS_PER_CALL_MAX)
        after = listing.after(int)
        before = None if after is None else int(after[0])
        criteria = AuditFilter(is_of_access=True)
        with self.services.store.snapshot(self.caller.tenant) as tx:
            page = listing.page(
                tx.audit.latest(criteria, before=before, limit=limit + 1),
                key=lambda line: (line.id,),
                count=lambda most: tx.audit.count(criteria, before=before, at_most=most),
            )
        return Page(rows=tuple(map(_entry, page.rows)), next=page.next, more=page.more)

    def _check(self) -> None:
        if self.caller.role is not Role.ADMIN:
            raise RejectedError(
                f"Agent {self.caller.agent} is a {self.caller.role}; this requires an admin.",
                code="insufficient_role",
                hint="Ask an admin.",
            )

    def _updated_agent(self, name: str, request: AgentRequest, *, known: Agent | None) -> Agent:
        now = self.services.clock.now()
        # An agent known by its tokens alone is a reader, and still one when it is enabled again.
        role = Role.READER if request.is_disabled else Role.WRITER
        before = known or Agent(name=name, role=role, created_at=now)
        is_disabled = request.is_disabled
        if is_disabled is None:
            is_disabled = before.disabled_at is not None
        return replace(
            before,
            role=request.role or before.role,
            trust_default=request.trust_default or before.trust_default,
            trust_ceiling=request.trust_ceiling or before.trust_ceiling,
            disabled_at=(before.disabled_at or now) if is_disabled else None,
        )

    def _drawn(self) -> tuple[KeyText, str]:
        """Generate a key, of which a hexadecimal digit is four bits, and the hash of its secret."""
        bits = self.services.random_source.bits
        text = KeyText(
            tenant=self.caller.tenant,
            prefix=f"{bits(4 * PREFIX_CHARS):0{PREFIX_CHARS}x}",
            secret=f"{bits(4 * SECRET_CHARS):0{SECRET_CHARS}x}",
        )
        return text, _hasher().hash(text.secret)

    def _made(self, request: KeyRequest) -> NewKey:
        """Make the key of a request, which is not stored yet."""
        now = self.services.clock.now()
        if request.days is not None and not 0 < request.days <= 36_500:  # noqa: PLR2004 a century
            raise InvalidInputError("A key is valid for more than 0 and at most 36,500 days.")
        is_invitation = KeyScope.JOIN in request.scopes
        if is_invitation and len(request.scopes) > 1:
            raise InvalidInputError(
                "The scope join goes with no other.", hint="Leave the rest out."
            )
        days = INVITATION_DAYS if is_invitation and request.days is None else request.days
        networks = check_networks(request.networks)
        names = (request.agent, request.label or "", *request.networks)
        check_address(names, self.services.secret_scanner)
        text, seal = self._drawn()
        key = ApiKey(
            prefix=text.prefix,
            agent=request.agent,
            label=request.label,
            scopes=request.scopes,
            networks=networks,
            seal=seal,
            created_at=now,
            expires_at=None if days is None else now + timedelta(days=days),
        )
        return NewKey(key=key, text=text)

    def _add_made(self, tx: Transaction, new: NewKey, *, role: Role | None) -> None:
        """Store a new key, and its agent with the role if there is none yet."""
        name = new.key.agent
        known = KeyRepository(tx.work).agent(name)
        if known is not None and new.key.is_invitation and role not in {None, known.role}:
            raise InvalidInputError(
                f"Agent {name} exists, as {known.role}.",
                hint="Leave out the role, change it by `brain agent set`, or take another "
                "name: who joins by this one sees what is private to it.",
            )
        if known is None:
            if role is None:
                raise NotFoundError(
                    f"There is no agent {name[:40]!r}.",
                    hint="Create it first, or give its role.",
                )
            made = Agent(name=name, role=role, created_at=new.key.created_at)
            KeyRepository(tx.work).save_agent(made)
            self._note(tx, "agent_set", subject=name)
        self._add(tx, new.key, action="key_create")

    def _add_successor(
        self,
        tx: Transaction,
        old: ApiKey,
        *,
        drawn: tuple[KeyText, str],
        action: str,
        created_at: datetime,
    ) -> NewKey:
        """Store a key like another one, with a secret of its own."""
        text, seal = drawn
        key = replace(old, prefix=text.prefix, seal=seal, created_at=created_at, last_used_at=None)
        self._add(tx, key, action=action)
        return NewKey(key=key, text=text)

    def _add(self, tx: Transaction, key: ApiKey, *, action: str) -> None:
        """Store a key, unless there are too many."""
        good = KeyRepository(tx.work).good_keys(key.created_at)
        if good >= KEYS_MAX or not KeyRepository(tx.work).add_key(key):
            raise _full("keys")
        self._note(tx, action, subject=key.prefix)

    def _note(self, tx: Transaction, action: str, *, subject: str | None) -> None:
        now = self.services.clock.now()
        tx.credentials.note(AccessEntry.by(self.caller, action, at=now, subject=subject))


def _hasher() -> Argon2PasswordHasher:
    """Create the hasher of keys, whose library takes long to load."""
    from commonbrain_server.security.passwords import Argon2PasswordHasher  # noqa: PLC0415

    return Argon2PasswordHasher()


def _entry(line: AuditLine) -> AccessEntry:
    return AccessEntry(**{one.name: getattr(line, one.name) for one in fields(AccessEntry)})


def _no_key(prefix: str) -> NotFoundError:
    return NotFoundError(
        f"There is no such key {prefix[:40]!r}.", hint="List the keys to see them."
    )


def _full(what: str) -> LimitExceededError:
    return LimitExceededError(
        f"A tenant has up to {KEYS_MAX} {what}.",
        code="quota_exceeded",
        hint="Revoke or disable unused ones.",
    )


@dataclass(frozen=True, slots=True)
class Tenants:
    """Operations across tenants; not available to network callers."""

    services: Services
    caller: Caller

    def list(self) -> list[Tenant]:
        """List all tenants by name."""
        self._check()
        return [self.get(name) for name in self.services.store.tenants()]

    def make(self, name: str) -> Tenant:
        """Create a tenant.

        Raises:
            InvalidInputError: the name is invalid or taken.

        """
        self._check()
        if not self.services.store.make_tenant(
            check_tenant_name(name), at=self.services.clock.now()
        ):
            raise InvalidInputError(f"Tenant {name} already exists.", hint="Take another name.")
        return self.get(name)

    def get(self, name: str) -> Tenant:
        """Return a tenant.

        Raises:
            NotFoundError: there is no such tenant.

        """
        self._check()
        with self.services.store.snapshot(check_tenant_name(name)) as tx:
            tenant = tx.credentials.tenant()
        if tenant is None:
            raise NotFoundError(
                f"There is no tenant {name}.", hint="`brain tenant list` shows them."
            )
        return tenant

    def usage(self, name: str) -> Usage:
        """Count what a tenant uses."""
        return self._govern(self.get(name).name).usage()

    def suspend(self, name: str, *, is_suspended: bool) -> Tenant:
        """Suspend a tenant, which blocks network access, or resume it; its data stays."""
        known = self.get(name)
        now = self.services.clock.now()
        at = (known.suspended_at or now) if is_suspended else None
        with self.services.store.begin(name) as tx:
            tx.credentials.suspend(at)
            tx.credentials.note(
                AccessEntry(
                    at=now,
                    action="suspend" if is_suspended else "resume",
                    agent=self.caller.agent,
                    subject=name,
                )
            )
        return replace(known, suspended_at=at)

    def policy(self, name: str, **change: Unpack[PolicyChange]) -> Tenant:
        """Return a tenant, with any changes of its policy applied."""
        policy = self._govern(self.get(name).name).policy(**change)
        return replace(self.get(name), policy=policy)

    def _govern(self, tenant: str) -> AdministerTenant:
        return AdministerTenant(self.services, replace(self.caller, tenant=tenant))

    def _check(self) -> None:
        if self.caller.admission is not None:
            raise RejectedError(
                "Only the owner of the store can manage tenants, on its machine.",
                code="insufficient_role",
                hint="Use brain tenant there.",
            )


def admin_of(brain: Brain) -> AdministerTenant:
    """Return what administers the tenant of a brain: its agents, keys and policy.

    Example: `admin_of(brain).create_key(KeyRequest(agent="codex", role=Role.WRITER))`.
    """
    return AdministerTenant(brain.services, brain.caller)


def tenants_of(brain: Brain) -> Tenants:
    """Return what manages the tenants of a brain's store; for its owner.

    Example: `tenants_of(brain).make("acme")`.
    """
    return Tenants(brain.services, brain.caller)
