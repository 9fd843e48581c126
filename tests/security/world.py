"""Two tenants whose every text is marked, and what one of them knows of the other."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from commonbrain_server.tenants import KeyRequest, NewKey, admin_of

from commonbrain.client import Brain
from commonbrain.jobs.registry import JOBS
from commonbrain.model import ids
from commonbrain.model.model_card import ModelCard, ModelRole, ModelState
from commonbrain.model.scope import Admission, Policy, Role
from commonbrain.storage.repositories.learning import Figure, StoredEvaluation
from commonbrain.storage.schema.types import METADATA
from commonbrain.storage.store import Store
from tests.tenant_rows import add_tenant
from tests.working import a_worker

OURS, THEIRS = "acme", "rival"
ASKED = "zebrawood"
"""In every text of theirs, and in queries: a reply may repeat it, but only as it was given."""
DEEP = re.compile(r"quokka[a-z]+")
"""In every text of theirs and in no query: no reply may contain it."""
UNASSIGNED = "0000000000000"
_JOB_KINDS = [kind for kind, job in JOBS.items() if not (job.asked_by or job.is_store_wide)]
"""Kinds of which they have one that was worked: all that a tenant can ask for by its name alone."""
ID = re.compile(r"(?:mem|thr|trc|ann|chg|ses|job|mdl)_[0-9a-z]{13}", re.IGNORECASE)
BOUNDLESS = Policy(key_calls_per_minute=10**6, tenant_calls_per_minute=10**6)


def mark(number: int) -> str:
    """Make a word of letters alone that is in no query."""
    return "quokka" + "".join(chr(97 + int(digit)) for digit in f"{number:03d}")


@dataclass(frozen=True, slots=True)
class World:
    """A store with both tenants, as the attacker sees it, and what it must never see."""

    attacker: Brain
    owner: Brain
    theirs: tuple[str, ...]
    """Ids of the other tenant."""
    private: tuple[str, ...]
    """Ids of private memories of another agent of the attacker's tenant."""
    names: tuple[str, ...]
    """Names that are in use there: agents, projects, tags, sessions, notes, skills, keys."""
    own: str
    """A memory of the attacker's."""
    key: str
    """The attacker's key, as an admin of its own tenant."""
    path: Path
    """Where the store is, to open it as another process would."""

    def of(self, prefix: str) -> tuple[str, ...]:
        """Return those of their ids of a kind that are in queries."""
        held = self._unqueried()
        return tuple(one for one in self.theirs if one.startswith(prefix) and one not in held)

    def leaked(self, reply: str, *, is_audit: bool = False) -> set[str]:
        """Find what no reply may contain: deep marks, and ids that are in no query.

        The audit names the private memories of its tenant to an admin, without their text.
        """
        shown = {one.upper() for one in ID.findall(reply)}
        held = self._unqueried() - ({*self.private} if is_audit else set())
        return set(DEEP.findall(reply)) | (shown & {one.upper() for one in held})

    def _unqueried(self) -> set[str]:
        """Return ids of every kind that are in no query: others may be repeated in replies."""
        return {*self.theirs[1:-6:3], self.theirs[-1], self.private[0]}

    def seen_as(self, role: Role) -> Brain:
        """Return the brain of the attacker with another role."""
        return Brain(self.attacker.services, replace(self.attacker.caller, role=role))


@dataclass(frozen=True, slots=True)
class Contents:
    """What a filled store has, for whoever opens a copy of it."""

    theirs: tuple[str, ...]
    private: tuple[str, ...]
    names: tuple[str, ...]
    own: str
    key: str

    def world(self, owner: Brain, path: Path) -> World:
        """Give the world of a store that has these contents."""
        attacker = member(owner, OURS, "mallory")
        return World(
            attacker=attacker,
            owner=owner,
            theirs=self.theirs,
            private=self.private,
            names=self.names,
            own=self.own,
            key=self.key,
            path=path,
        )


def a_world(owner: Brain, path: Path) -> World:
    """Fill a new store with both tenants."""
    return fill(owner).world(owner, path)


def fill(owner: Brain) -> Contents:
    """Fill a new store with both tenants."""
    for tenant in (OURS, THEIRS):
        add_tenant(owner, tenant)
        with owner.services.store.begin(tenant) as tx:
            tx.credentials.set_policy(BOUNDLESS)
    theirs = _filled(member(owner, THEIRS, "rita"), first=1)
    private = store_private(member(owner, OURS, "cara"), first=500)
    own = _stored(member(owner, OURS, "mallory"), "The kettle is in the blue cupboard.")
    theirs_key = _key(owner, THEIRS, agent="rita", label=f"{ASKED} {mark(900)}")
    own_key = _key(owner, OURS, agent="mallory", label="mine")
    # The traces of these calls are written now, and not while rows are compared.
    owner.services.journal.flush()
    return Contents(
        theirs=theirs,
        private=private,
        names=(
            "rita",
            "projectz",
            ASKED,
            "sessionz",
            "notez",
            "skillz",
            theirs_key.key.prefix,
            THEIRS,
        ),
        own=own,
        key=str(own_key.text),
    )


def rows_of(store: Store, tenant: str) -> dict[str, Sequence[str]]:
    """Read every row of a tenant, to be compared: nothing of it may have changed."""
    names = [table.name for table in METADATA.sorted_tables if "tenant_id" in table.c]
    with store.snapshot(tenant) as tx:
        connection = tx.work.connection
        # Each engine has columns of its own in the tables of its index.
        queries = [
            (name, sa.text(f"SELECT * FROM {name} WHERE tenant_id = :tenant"))  # noqa: S608 our own
            for name in names
        ]
        return {
            name: sorted(repr(row) for row in connection.execute(statement, {"tenant": tenant}))
            for name, statement in queries
        }


def neighbours(shown: str) -> tuple[str, str]:
    """Return the ids next to one."""
    prefix, _, _ = shown.partition("_")
    id_ = ids.parse(prefix, shown)
    return ids.show(prefix, id_ - 1), ids.show(prefix, id_ + 1)


def _key(owner: Brain, tenant: str, *, agent: str, label: str) -> NewKey:
    governing = admin_of(Brain(owner.services, replace(owner.caller, tenant=tenant)))
    return governing.create_key(KeyRequest(agent=agent, role=Role.ADMIN, label=label))


def member(owner: Brain, tenant: str, agent: str) -> Brain:
    admission = Admission(credential=agent, role=Role.ADMIN, policy=BOUNDLESS)
    caller = replace(
        owner.caller,
        tenant=tenant,
        agent=agent,
        role=Role.ADMIN,
        admission=admission,
        session=f"{agent}s",
    )
    return Brain(owner.services, caller)


def _stored(brain: Brain, text: str, *, kind: str = "fact", **more: Any) -> str:  # noqa: ANN401 fields of a draft
    stored = brain.remember(text, kind=kind, **more).items[0].id
    assert stored is not None
    return stored


def _filled(brain: Brain, *, first: int) -> tuple[str, ...]:
    """Store one of everything, every text marked."""
    rita = brain.acting_as(project="projectz", session="sessionz")
    rita.boot()
    rita.session.task(f"{ASKED} {mark(first)}")
    rita.session.note("notez", f"{ASKED} {mark(first + 1)}", pinned=True)
    rita.session.checkpoint(f"delete the {ASKED} table {mark(first + 2)}")
    ids_: list[str] = []
    kinds = "fact rule incident task event atom".split()
    for number, kind in enumerate(kinds, first + 10):
        for scope, digit in (("team", 0), ("global", 100), ("private", 200)):
            text = f"The {ASKED} {kind} {scope} says {mark(number + digit)} before noon."
            marks = {"label": mark(number + digit + 300), "tags": [ASKED, mark(number + digit)]}
            ids_.append(_stored(rita, text, kind=kind, scope=scope, **marks))
    fact, rule = ids_[0], ids_[3]
    ids_.append(
        _stored(
            rita,
            f"Use {ASKED} glue {mark(first + 40)} on every shelf.",
            kind="rule",
            skill={"name": "skillz", "keywords": [ASKED]},
        )
    )
    newer = rita.revise.supersede(
        fact, f"The {ASKED} now says {mark(first + 41)}.", reason=f"Mended {mark(first + 42)}."
    )
    assert newer.id
    ids_.append(newer.id)
    rita.revise.link(newer.id, rule, type="supports")
    rita.revise.annotate(rule, f"{ASKED} {mark(first + 43)}")
    sent = rita.message.send(
        ["all"], f"{ASKED} {mark(first + 44)}", subject=f"{ASKED} {mark(first + 45)}"
    )
    rita.message.delegate("sam", f"Sand the {ASKED} {mark(first + 46)}.")
    ids_ += _learnt(rita, first=first + 51)
    ids_ += [sent.id, sent.thread, _model(rita, f"{ASKED} {mark(first + 50)}")]
    rita.session.handoff(f"{ASKED} {mark(first + 47)}", next_steps=[mark(first + 48)])
    ids_.append(rita.recall(f"{ASKED} {mark(first + 49)}").trace_id)
    ids_ += [rita.jobs.run(kind).id for kind in ("maintain", "embed")]
    return tuple(ids_)


def _learnt(brain: Brain, *, first: int) -> Sequence[str]:
    """Leave what maintenance and learning leave: a rated recall, done jobs, an evaluation."""
    reply = brain.recall(f"{ASKED} {mark(first)}")
    brain.revise.rate(reply.items[0].id, "up")
    jobs = [brain.jobs.run(kind).id for kind in _JOB_KINDS]
    a_worker(brain).sweep()
    now = brain.services.clock.now()
    measured = StoredEvaluation(
        id=ids.make_id(now, brain.services.random_source.bits(ids.RANDOM_BITS)),
        name="self",
        at=now,
        agent=mark(first + 1),
        figures={mark(first + 2): Figure(mean=0.5, low=0.4, high=0.6, count=30)},
        setup={"of": f"{ASKED} {mark(first + 3)}"},
        took_ms={"p50": 1.0},
    )
    with brain.services.store.begin(brain.caller.tenant) as tx:
        assert tx.evaluations.add(measured)
    return reply.trace_id, *jobs


def _model(brain: Brain, reason: str) -> str:
    """Let a model serve that was trained on their recalls."""
    now = brain.services.clock.now()
    card = ModelCard(
        id=ids.make_id(now, brain.services.random_source.bits(ids.RANDOM_BITS)),
        role=ModelRole.RERANKER,
        state=ModelState.CANARY,
        digest="0" * 64,
        features=("fused",),
        told={"of": reason},
        allow=("rita",),
        made_at=now,
        moved_at=now,
        reason=reason,
    )
    with brain.services.store.begin(brain.caller.tenant) as tx:
        assert tx.models.add(card)
    return ids.show(ids.MODEL, card.id)


def store_private(brain: Brain, *, first: int) -> tuple[str, ...]:
    """Store what only its author may see."""
    ids_ = [
        _stored(
            brain,
            f"Cara's {ASKED} {kind} is {mark(number)} for nobody else.",
            kind=kind,
            scope="private",
            project="projectz",
            label=mark(number + 40),
            tags=[ASKED, mark(number)],
        )
        for number, kind in enumerate("fact rule task event".split(), first)
    ]
    sent = brain.message.send(["dan"], f"{ASKED} {mark(first + 20)}", subject=mark(first + 21))
    # An admin may read what others asked, and what came of it as far as they may see it.
    brain.recall(f"Cara's {ASKED}")
    return (*ids_, sent.id)
