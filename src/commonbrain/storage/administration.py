"""The shelf of access: a tenant's standing, its agents, their keys, and the audit of refusals."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from commonbrain.embeddings.interface import EmbeddingSpace, StoredSpace
from commonbrain.model.agents import Agent, ApiKey
from commonbrain.model.errors import StoreCorruptError
from commonbrain.model.jobs import Job, JobState
from commonbrain.model.model_card import ModelCard, ModelRole
from commonbrain.model.scope import NO_POLICY, Policy
from commonbrain.storage.evaluation import Evaluation

ADMITTING: Final = "admit"
"""The action under which the audit tells of who was turned away at the door."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """One tenant, as its owner sees it."""

    name: str
    created_at: datetime
    policy: Policy = NO_POLICY
    suspended_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessEntry:
    """One line of the audit of access: who was refused what and why, or governed what."""

    at: datetime
    action: str
    """The operation that was asked for, or what was done to whom can call."""
    code: str | None = None
    """Why it was refused; None when it was done."""
    agent: str | None = None
    """None when nobody could be told from the credential."""
    credential: str | None = None
    request_id: str | None = None
    subject: str | None = None
    """The agent or key that was governed."""
    count: int = 1
    """How many alike this line stands for."""


class CredentialRepository(Protocol):
    """The shelf of who may call."""

    def tenant(self) -> Tenant | None:
        """Give the tenant; None where there is none of that name."""
        ...

    def set_policy(self, policy: Policy) -> None:
        """Put a policy in the place of the tenant's."""
        ...

    def suspend(self, at: datetime | None) -> None:
        """Shut the networked doors to the whole tenant, or open them again with None."""
        ...

    def agents(self, *, limit: int) -> list[Agent]:
        """List the agents by name."""
        ...

    def agent(self, name: str) -> Agent | None:
        """Give an agent; None when there is none of that name."""
        ...

    def save_agent(self, agent: Agent) -> None:
        """Write an agent whole, over what is there under its name; when it was made stays."""
        ...

    def keys(self, *, limit: int, now: datetime, agent: str | None = None) -> list[ApiKey]:
        """List keys, those of one agent if one is named: the good first, then the newest."""
        ...

    def good_keys(self, now: datetime) -> int:
        """Count the keys that are good."""
        ...

    def key(self, prefix: str) -> ApiKey | None:
        """Give a key, good or not; None when there is none."""
        ...

    def held(self, prefixes: Sequence[str]) -> dict[str, tuple[ApiKey, Agent | None]]:
        """Give keys, good or not, with the agents they are of; what there is none of is absent."""
        ...

    def add_key(self, key: ApiKey) -> bool:
        """Store a new key; say whether its prefix was free, for nothing is stored otherwise."""
        ...

    def end_key(self, prefix: str, *, revoked_at: datetime | None, expires_at: datetime) -> None:
        """Let a key end no later than that; a moment that is set already is never put off."""
        ...

    def used(self, prefixes: Sequence[str], *, at: datetime) -> None:
        """Note when keys were last used; a moment is never moved back."""
        ...

    def note(self, entry: AccessEntry) -> None:
        """Append one line that is never changed."""
        ...

    def noted(self, *, limit: int) -> list[AccessEntry]:
        """List the newest lines, the newest first."""
        ...


class ModelRepository(Protocol):
    """The models of one tenant; of each role at most one is active, and one a canary."""

    def add(self, card: ModelCard) -> bool:
        """Put a card there, unless its id is taken; say whether."""
        ...

    def get(self, id_: int) -> ModelCard | None:
        """Give a card; None where there is none."""
        ...

    def listed(
        self, role: ModelRole | None = None, *, before: int | None = None, limit: int
    ) -> list[ModelCard]:
        """List cards, the newest first, or from before one of them on."""
        ...

    def serving(self, role: ModelRole) -> list[ModelCard]:
        """Give the active model and the canary of a role, as far as there are any."""
        ...

    def is_held(self, digest: str) -> bool:
        """Say whether any card has an artifact of this digest."""
        ...

    def move(self, before: ModelCard, after: ModelCard) -> bool:
        """Write what differs but for what a model is; say whether it was still as `before`.

        The digest may go, never become another. Nothing is written either where another of its role
        is active, or a canary, already.
        """
        ...


class EvaluationRepository(Protocol):
    """Measurements of one tenant's memory; of each name the latest stay."""

    def add(self, evaluation: Evaluation) -> bool:
        """Keep one, unless its id is taken; say whether."""
        ...

    def listed(self, name: str, *, limit: int) -> list[Evaluation]:
        """List those of a name, the newest first."""
        ...

    def surplus(self, *, keep: int) -> int:
        """Count those that have so many newer ones of their name."""
        ...

    def drop(self, *, keep: int, limit: int) -> int:
        """Drop those, the oldest first and at most `limit`; say how many."""
        ...


class SpaceRepository(Protocol):
    """The spaces of a store, which all of its tenants share."""

    def listed(self) -> Sequence[StoredSpace]:
        """List those that there are, the oldest first.

        Raises:
            UnavailableError: `store_down`, the store cannot be read.

        """
        ...

    def lacking(self, space_id: int) -> Mapping[str, int]:
        """Count by tenant the findable memories that lack vectors in a space; none are left out.

        Raises:
            UnavailableError: `store_down`, the store cannot be read.

        """
        ...

    def is_indexed(self, space_id: int) -> bool:
        """Say whether the engine has all that it searches a large space by."""
        ...

    def add(self, space: EmbeddingSpace) -> StoredSpace:
        """Give what there is of a space; where there is none it is made, to be built.

        Raises:
            InvalidInputError: `space_mismatch`, there is one of that name with other dimensions.
            UnavailableError: the store stayed locked, is full or read-only; nothing was made.

        """
        ...

    def switch(self, name: str) -> StoredSpace:
        """Let another space serve: for every process at once, and in one transaction.

        Nobody writes while it is looked for what the space lacks, so that nothing is overlooked.

        Returns:
            The space that served until then.

        Raises:
            NotFoundError: there is none of that name.
            RejectedError: `space_incomplete`, memories lack vectors in it; nothing was changed.
            UnavailableError: the store stayed locked, is full or read-only; nothing was changed.

        """
        ...

    def drop(self, name: str) -> StoredSpace:
        """Let a space be none of the store's any more; its vectors are there until swept.

        Raises:
            NotFoundError: there is none of that name.
            RejectedError: `space_in_use`, it serves.

        """
        ...

    def dropped(self) -> int:
        """Count the vectors that are left of dropped spaces."""
        ...

    def sweep(self, *, limit: int) -> int:
        """Delete up to so many vectors of dropped spaces of a tenant each; count them."""
        ...


class SpaceMismatch(StoreCorruptError):
    """A store's vectors live in another space, `known` by name; it was left as found."""

    default_code = "space_mismatch"

    def __init__(self, known: str, *, made: str) -> None:
        super().__init__(
            f"This store's vectors live in the space {known}; the embedder makes {made}.",
            hint="Vectors of two spaces cannot be compared. Open it with the embedder that serves; "
            "`brain embeddings build` moves it to another one.",
        )
        self.known = known


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs are listed; what is left out does not matter."""

    state: JobState | None = None
    kind: str | None = None
    agent: str | None = None
    """For whom they are done."""
    key: str | None = None


class JobRepository(Protocol):
    """The shelf of jobs of one tenant."""

    def add(self, job: Job) -> bool:
        """Put a job there, unless its id is taken or an unfinished one has its key; say whether."""
        ...

    def get(self, id_: int) -> Job | None:
        """Give a job; None where there is none."""
        ...

    def keyed(self, key: str) -> Job | None:
        """Give the unfinished job of a key."""
        ...

    def due(self, kinds: Collection[str], *, now: datetime, limit: int) -> list[Job]:
        """List what anybody may take up of these kinds, the longest due first."""
        ...

    def move(self, before: Job, after: Job) -> bool:
        """Write what differs between two states of one job; say whether anything was written.

        Nothing is where the row was claimed, ended or put back since `before`, nor where `after`
        claims it and its lease was renewed: of several who want one job, one has it, and who has
        lost it writes nothing more.
        """
        ...

    def listed(self, wanted: JobFilter, *, before: int | None, limit: int) -> list[Job]:
        """List jobs, the newest first, or from before one of them on."""
        ...

    def counts(self) -> Mapping[JobState, int]:
        """Count the jobs of every state that has any."""
        ...

    def newest(self, kind: str, *, key: str | None = None) -> datetime | None:
        """Give when a job of a kind, and of a key, was last made or ended; None: none is known."""
        ...

    def drop(self, *, before: datetime, dead_before: datetime, limit: int) -> int:
        """Delete what ended well or was cancelled before a moment; count the rows.

        Dead letters stay longer, for somebody has to look at them: those given up before
        `dead_before` are counted with the rest.
        """
        ...


class AccessDenials(Protocol):
    """Takes what was refused to the audit of access, counted where there are many alike."""

    def note(self, tenant: str, entry: AccessEntry) -> None:
        """Take one in; it never raises, and never tells by its time what is known of the tenant."""
        ...

    def used(self, tenant: str, prefix: str, *, lost: Callable[[], None]) -> None:
        """Note that a key was used, some time soon; what cannot be written calls `lost`.

        It is called at once or by another thread.
        """
        ...

    def close(self) -> None:
        """Write what is left; afterwards nothing is taken in."""
        ...


class PasswordHasher(Protocol):
    """Hashes and verifies secrets."""

    def hash(self, secret: str) -> str:
        """Return a salted hash of a secret."""
        ...

    def verify(self, hashed: str | None, *, secret: str) -> bool:
        """Whether the hash is of this secret; without a hash the check takes as long.

        Raises:
            UnavailableError: Too many secrets are being verified.

        """
        ...
