"""What a credential's holder is in its tenant: the rows behind it, and the caller made of them."""

from dataclasses import dataclass

from commonbrain.domain.credentials import Agent
from commonbrain.domain.errors import Refused, Unknown
from commonbrain.domain.scope import Admission, Caller, Role
from commonbrain.domain.trust import Trust
from commonbrain.ports.credentials import Tenant


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A tenant and one of its agents as they were read; None where there is none."""

    tenant: Tenant | None
    agent: Agent | None
    read_at_ms: float

    @property
    def is_good(self) -> bool:
        """Say whether there is such a tenant, and the agent, if it is known, may call."""
        return self.tenant is not None and (self.agent is None or self.agent.disabled_at is None)


def unknown() -> Unknown:
    """Say that a credential will not do, in the same words whatever is wrong with it."""
    return Unknown(
        "The credential is not valid.",
        code="invalid_credential",
        hint="Give a key or token that is neither wrong, over nor revoked.",
    )


def check_open(tenant: Tenant) -> None:
    """Refuse whoever comes to a suspended tenant with a good credential.

    Raises:
        Refused: `tenant_suspended`.

    """
    if tenant.suspended_at is not None:
        raise Refused(
            "This tenant is suspended.",
            code="tenant_suspended",
            hint="Ask who runs the server.",
        )


def a_caller(standing: Standing, *, agent: str, role: Role, admission: Admission) -> Caller:
    """Make the caller of a networked door; an agent without a row has the usual trust."""
    tenant, known = standing.tenant, standing.agent
    if tenant is None:
        raise unknown()
    return Caller(
        tenant=tenant.name,
        agent=agent,
        role=role,
        trust_default=known.trust_default if known else Trust.USER_CLAIM,
        trust_ceiling=known.trust_ceiling if known else Trust.USER_CLAIM,
        admission=admission,
    )
