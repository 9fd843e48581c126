"""Tenants, as who owns the store sees them: listed, made, shut and opened."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Unpack

from commonbrain.model.agents import (
    PREFIX_CHARS,
    SECRET_CHARS,
    Agent,
    ApiKey,
    KeyScope,
    KeyText,
    check_networks,
    check_tenant_name,
)
from commonbrain.model.errors import Invalid, Limited, NotFound, Refused
from commonbrain.model.limits import (
    ITEMS_PER_CALL_MAX,
    KEYS_MAX,
    ROTATION_MINUTES_DEFAULT,
    ROTATION_MINUTES_MAX,
)
from commonbrain.model.retention import Retention
from commonbrain.model.scope import NO_POLICY, OWNERS, Caller, Policy, PolicyChange, Role
from commonbrain.model.trust import Trust
from commonbrain.security.quotas import held
from commonbrain.services import House
from commonbrain.storage.administration import AccessEntry, Tenant
from commonbrain.storage.interface import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """A key that was made, with its text: nobody can be told that again."""

    key: ApiKey
    text: KeyText


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyWish:
    """What a new key is to be."""

    agent: str
    label: str | None = None
    scopes: tuple[KeyScope, ...] = ()
    networks: tuple[str, ...] = ()
    days: float | None = None
    """How long it holds; None is until it is revoked."""
    role: Role | None = None
    """With which the agent is made, where there is none of that name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentWish:
    """What is to change of an agent; None stays, or for a new one is the usual."""

    role: Role | None = None
    trust_default: Trust | None = None
    trust_ceiling: Trust | None = None
    is_disabled: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a tenant uses of what it may."""

    memories: int
    agents: int
    keys: int
    """Those that are good."""
    policy: Policy


@dataclass(frozen=True, slots=True)
class Govern:
    """What an admin can do in its own tenant; all of it is in the audit of access."""

    house: House
    caller: Caller

    def agents(self) -> list[Agent]:
        """List the agents by name."""
        self._check()
        with self.house.store.snapshot(self.caller.tenant) as tx:
            return tx.credentials.agents(limit=KEYS_MAX)

    def set_agent(self, name: str, wish: AgentWish) -> Agent:
        """Make an agent or change one.

        Raises:
            Invalid: the name, or the default trust above the ceiling.
            Limited: `quota_exceeded`, there are too many agents.

        """
        self._check()
        with self.house.store.begin(self.caller.tenant) as tx:
            known = tx.credentials.agent(name)
            agent = self._wished(name, wish, known=known)
            if known is None and len(tx.credentials.agents(limit=KEYS_MAX)) >= KEYS_MAX:
                raise _full("agents")
            tx.credentials.save_agent(agent)
            self._note(tx, "agent_set", subject=name)
        return agent

    def keys(self, *, agent: str | None = None) -> list[ApiKey]:
        """List keys, every good one before those that are not, the newest first."""
        self._check()
        now = self.house.clock.now()
        with self.house.store.snapshot(self.caller.tenant) as tx:
            return tx.credentials.keys(limit=KEYS_MAX, now=now, agent=agent)

    def create_key(self, wish: KeyWish) -> NewKey:
        """Make a key for an agent.

        Raises:
            NotFound: there is no such agent, and no role to make it with.
            Invalid: a network is none, or the days are not more than none.
            Limited: `quota_exceeded`, there are too many keys.

        """
        self._check()
        now = self.house.clock.now()
        if wish.days is not None and not 0 < wish.days <= 36_500:  # noqa: PLR2004 a century
            raise Invalid("A key holds for more than 0 and up to 36,500 days.")
        expires = None if wish.days is None else now + timedelta(days=wish.days)
        networks = check_networks(wish.networks)
        text = self._drawn()
        key = ApiKey(
            prefix=text.prefix,
            agent=wish.agent,
            label=wish.label,
            scopes=wish.scopes,
            networks=networks,
            seal=self.house.seals().seal(text.secret),
            created_at=now,
            expires_at=expires,
        )
        with self.house.store.begin(self.caller.tenant) as tx:
            if tx.credentials.agent(wish.agent) is None:
                if wish.role is None:
                    raise _no_agent(wish.agent)
                made = Agent(name=wish.agent, role=wish.role, created_at=now)
                tx.credentials.save_agent(made)
                self._note(tx, "agent_set", subject=wish.agent)
            self._add(tx, key, action="key_create")
        return NewKey(key=key, text=text)

    def rotate_key(self, prefix: str, *, minutes: int = ROTATION_MINUTES_DEFAULT) -> NewKey:
        """Make a key like another one, which ends after some minutes.

        Raises:
            NotFound: there is no such key, or it is not good any more.
            Invalid: the minutes are out of bounds.

        """
        self._check()
        if not 0 <= minutes <= ROTATION_MINUTES_MAX:
            raise Invalid(
                f"The old key cannot go on for {minutes} minutes.",
                hint=f"Give 0 to {ROTATION_MINUTES_MAX}.",
            )
        now = self.house.clock.now()
        text = self._drawn()
        seal = self.house.seals().seal(text.secret)
        with self.house.store.begin(self.caller.tenant) as tx:
            old = tx.credentials.key(prefix)
            if old is None or not old.is_good(now):
                raise _no_key(prefix)
            key = replace(old, prefix=text.prefix, seal=seal, created_at=now, last_used_at=None)
            self._add(tx, key, action="key_rotate")
            end = now + timedelta(minutes=minutes)
            tx.credentials.end_key(prefix, revoked_at=None, expires_at=end)
        return NewKey(key=key, text=text)

    def revoke_key(self, prefix: str) -> ApiKey:
        """End a key at once; every process has learnt of it within `ACCESS_KEPT_S` seconds.

        Raises:
            NotFound: there is no such key.

        """
        self._check()
        now = self.house.clock.now()
        with self.house.store.begin(self.caller.tenant) as tx:
            if tx.credentials.key(prefix) is None:
                raise _no_key(prefix)
            tx.credentials.end_key(prefix, revoked_at=now, expires_at=now)
            self._note(tx, "key_revoke", subject=prefix)
            revoked = tx.credentials.key(prefix)
        if revoked is None:
            raise _no_key(prefix)
        return revoked

    def policy(self, **change: Unpack[PolicyChange]) -> Policy:
        """Give the tenant's policy, changed where something is to be another.

        Raises:
            Refused: `insufficient_role`, only who owns the store may move a tenant's bounds.
            Invalid: a bound lets nothing through, or a rule of retention is none.

        """
        self._check()
        if self.caller.admission is not None and OWNERS & set(change):
            raise Refused(
                "A tenant's rates and quota are not for its own admins to change.",
                code="insufficient_role",
                hint="Ask who runs the server: brain tenant policy.",
            )
        if not change:
            return self.usage().policy
        if "retention" in change:
            # Written as it is read: upkeep must never meet a rule that is none.
            change["retention"] = tuple(str(Retention.read(one)) for one in change["retention"])
        with self.house.store.begin(self.caller.tenant) as tx:
            tenant = tx.credentials.tenant()
            policy = replace(tenant.policy if tenant else NO_POLICY, **change)
            tx.credentials.set_policy(policy)
            self._note(tx, "policy", subject=None)
        return policy

    def usage(self) -> Usage:
        """Count what the tenant uses, and give its policy."""
        self._check()
        now = self.house.clock.now()
        with self.house.store.snapshot(self.caller.tenant) as tx:
            shelf = tx.credentials
            tenant = shelf.tenant()
            return Usage(
                memories=held(tx),
                agents=len(shelf.agents(limit=KEYS_MAX)),
                keys=shelf.good_keys(now),
                policy=tenant.policy if tenant else NO_POLICY,
            )

    def noted(self, *, limit: int = ITEMS_PER_CALL_MAX) -> Sequence[AccessEntry]:
        """List what was refused and governed of late, the newest first."""
        self._check()
        with self.house.store.snapshot(self.caller.tenant) as tx:
            return tx.credentials.noted(limit=min(limit, ITEMS_PER_CALL_MAX))

    def _check(self) -> None:
        if self.caller.role is not Role.ADMIN:
            raise Refused(
                f"Agent {self.caller.agent} is a {self.caller.role}; governing takes an admin.",
                code="insufficient_role",
                hint="Ask an admin.",
            )

    def _wished(self, name: str, wish: AgentWish, *, known: Agent | None) -> Agent:
        now = self.house.clock.now()
        before = known or Agent(name=name, role=Role.WRITER, created_at=now)
        is_disabled = wish.is_disabled
        if is_disabled is None:
            is_disabled = before.disabled_at is not None
        return replace(
            before,
            role=wish.role or before.role,
            trust_default=wish.trust_default or before.trust_default,
            trust_ceiling=wish.trust_ceiling or before.trust_ceiling,
            disabled_at=(before.disabled_at or now) if is_disabled else None,
        )

    def _drawn(self) -> KeyText:
        """Draw a key; a hexadecimal digit is four bits."""
        bits = self.house.chance.bits
        return KeyText(
            tenant=self.caller.tenant,
            prefix=f"{bits(4 * PREFIX_CHARS):0{PREFIX_CHARS}x}",
            secret=f"{bits(4 * SECRET_CHARS):0{SECRET_CHARS}x}",
        )

    def _add(self, tx: Transaction, key: ApiKey, *, action: str) -> None:
        """Store a key, where there are not too many."""
        good = tx.credentials.good_keys(key.created_at)
        if good >= KEYS_MAX or not tx.credentials.add_key(key):
            raise _full("keys")
        self._note(tx, action, subject=key.prefix)

    def _note(self, tx: Transaction, action: str, *, subject: str | None) -> None:
        admission = self.caller.admission
        tx.credentials.note(
            AccessEntry(
                at=self.house.clock.now(),
                action=action,
                agent=self.caller.agent,
                credential=admission.credential if admission else None,
                request_id=self.caller.request_id,
                subject=subject,
            )
        )


def _no_agent(name: str) -> NotFound:
    return NotFound(
        f"There is no agent {name[:40]!r}.", hint="Make it first, or give the role it is to have."
    )


def _no_key(prefix: str) -> NotFound:
    return NotFound(f"There is no such key {prefix[:40]!r}.", hint="The list of keys tells them.")


def _full(what: str) -> Limited:
    return Limited(
        f"A tenant has up to {KEYS_MAX} {what}.",
        code="quota_exceeded",
        hint="Revoke or disable those that nobody uses.",
    )


@dataclass(frozen=True, slots=True)
class Tenants:
    """What is done across tenants; nobody who came through a networked door may."""

    house: House
    caller: Caller

    def list(self) -> list[Tenant]:
        """List all of them by name."""
        self._check()
        return [self.get(name) for name in self.house.store.tenants()]

    def make(self, name: str) -> Tenant:
        """Make one.

        Raises:
            Invalid: no tenant may be called so, or there is one already.

        """
        self._check()
        if not self.house.store.make_tenant(check_tenant_name(name), at=self.house.clock.now()):
            raise Invalid(f"There is a tenant {name} already.", hint="Take another name.")
        return self.get(name)

    def get(self, name: str) -> Tenant:
        """Give one.

        Raises:
            NotFound: there is none of that name.

        """
        self._check()
        with self.house.store.snapshot(check_tenant_name(name)) as tx:
            tenant = tx.credentials.tenant()
        if tenant is None:
            raise NotFound(f"There is no tenant {name}.", hint="brain tenant list tells them.")
        return tenant

    def usage(self, name: str) -> Usage:
        """Count what one uses."""
        return self._govern(self.get(name).name).usage()

    def suspend(self, name: str, *, is_suspended: bool) -> Tenant:
        """Shut the networked doors to one, or open them again; what it holds stays."""
        known = self.get(name)
        now = self.house.clock.now()
        at = (known.suspended_at or now) if is_suspended else None
        with self.house.store.begin(name) as tx:
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
        """Give a tenant, whose policy is changed where something is to be another."""
        policy = self._govern(self.get(name).name).policy(**change)
        return replace(self.get(name), policy=policy)

    def _govern(self, tenant: str) -> Govern:
        return Govern(self.house, replace(self.caller, tenant=tenant))

    def _check(self) -> None:
        if self.caller.admission is not None:
            raise Refused(
                "Tenants are governed by who owns the store, at the machine it is on.",
                code="insufficient_role",
                hint="Use brain tenant there.",
            )
