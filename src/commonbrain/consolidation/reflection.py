"""Reflection: summarize events and messages as episodes, and propose facts from them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, cast

from commonbrain.consolidation.episodes import (
    RAW_KINDS,
    Drafts,
    EventPage,
    SourceFilter,
    already_summarized,
    compatibility_key,
    drafts,
    gather_events,
    to_reflection_inputs,
)
from commonbrain.ingestion.batch import WriteOptions
from commonbrain.ingestion.result import ItemResult, OnCommit
from commonbrain.ingestion.service import Remember
from commonbrain.model import ids, limits
from commonbrain.model.errors import RejectedError, UnavailableError
from commonbrain.model.kinds import COMPACTED, CORRECTION, KINDS, Kind, Severity
from commonbrain.model.links import LinkType
from commonbrain.model.memory import CURRENT_STATES, Draft, Memory, State
from commonbrain.model.query import Filter
from commonbrain.model.revision import Action, Revision
from commonbrain.model.scope import Caller, Role, Scope, Trust, is_visible, isolates
from commonbrain.retrieval.recall import Recall
from commonbrain.security.guard import note_shown
from commonbrain.services import Capability, Services
from commonbrain.storage.change_log import annotation_of
from commonbrain.storage.interface import QueryScope
from commonbrain.text.normalisation import normalise_line
from commonbrain.text.reports import read_content
from commonbrain.text.summaries import Reflection, TokenCost, digest
from commonbrain.text.tokens import estimate

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

CORRECTIONS_MIN: Final = 3
"""Two may be a coincidence."""
_WORDS_MIN: Final = 4
"""Corrections with fewer content words, such as "outdated", say the same of everything."""
_ALIKE: Final = 0.6
"""Share of common words from which two corrections say the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """One correction: of which memory, and its text."""

    of: int
    """The newest revision of the corrected memory."""
    text: str
    by: tuple[str, str | None]
    """The agent and its session."""
    trust: Trust | None = None
    """The trust of an annotation or forget reason; None for a change of the memory itself."""


def repeated(corrections: Sequence[Correction]) -> list[tuple[Correction, ...]]:
    """Group corrections that say the same, and return groups from three or more sessions."""
    groups: list[list[Correction]] = []
    for one in corrections:
        if len(read_content(one.text).words) < _WORDS_MIN:
            continue
        group = next((group for group in groups if is_alike(group[0].text, one.text)), None)
        if group is None:
            groups.append([one])
        else:
            group.append(one)
    return [tuple(group) for group in groups if len({one.by for one in group}) >= CORRECTIONS_MIN]


def is_alike(one: str, other: str) -> bool:
    """Return whether two texts share most words and neither negates the other."""
    first, second = read_content(one), read_content(other)
    every = first.words | second.words
    shared = first.words & second.words
    is_same_claim = first.is_denied == second.is_denied and first.numbers == second.numbers
    return bool(every) and is_same_claim and len(shared) >= _ALIKE * len(every)


_LOOKBACK: Final = timedelta(days=30)
"""Older corrections say little about current work."""
_CHAIN_MAX: Final = 50
"""Revisions followed from a memory to its newest."""
_QUOTED: Final = 3
"""Reasons quoted in a proposed rule, latest first."""


def rules(tx: Transaction, caller: Caller, *, project: str | None, now: datetime) -> list[Draft]:
    """Propose rules, with the corrected memories as their sources.

    One for each correction that three sessions gave in similar words, and one for each memory that
    was corrected three times. At most one is ever proposed for a memory.
    """
    corrections, heads = _load_corrections(tx, caller, project=project, since=now - _LOOKBACK)
    settled = _settled(tx, list(heads))
    fresh = [one for one in corrections if one.of not in settled]
    with_text = [one for one in fresh if one.text]
    made: list[Draft] = []
    covered: set[int] = set()
    for group in repeated(with_text):
        covered.update(one.of for one in group)
        made.append(_rule(group[-1].text, group, heads=heads, caller=caller))
    by_head: defaultdict[int, list[Correction]] = defaultdict(list)
    for one in fresh:
        by_head[one.of].append(one)
    for head, those in by_head.items():
        if head not in covered and len(those) >= CORRECTIONS_MIN:
            caution = _caution(heads[head], those)
            made.append(_rule(caution, those, heads=heads, caller=caller))
    return made


def _load_corrections(
    tx: Transaction, caller: Caller, *, project: str | None, since: datetime
) -> tuple[list[Correction], Mapping[int, Memory]]:
    """Return recent corrections, and the newest revisions of the corrected memories by id."""
    changes = tx.changes.by(
        agent=None, session=None, since=since, until=None, limit=limits.CORRECTIONS_MAX
    )
    read = [(one.memory_id, correction) for one in reversed(changes) for correction in _read(one)]
    known = tx.memories.get(sorted({id_ for id_, _ in read}))
    heads = {
        id_: head
        for id_, head in _heads(tx, known).items()
        # The correction of a private memory stays private if a shared one replaces that.
        if _is_shareable(known[id_], caller)
        and _can_support_rule(head, caller)
        and not (project and isolates(project, head.project))
    }
    corrections = [replace(one, of=heads[id_].id) for id_, one in read if id_ in heads]
    return corrections, {head.id: head for head in heads.values()}


def _read(change: Revision) -> Iterator[Correction]:
    """Parse a change as a correction, if it is one; a vote has no text.

    Untrusted annotations do not count, or three strangers could make a rule.
    """
    by = change.agent, change.session
    match change.action:
        case Action.SUPERSEDE:
            yield Correction(of=change.memory_id, text=change.reason or "", by=by)
        case Action.ANNOTATE if "annotation" in change.after:
            noted = annotation_of(cast("Mapping[str, Any]", change.after["annotation"]))
            if noted.trust is not Trust.UNTRUSTED_WEB:
                yield Correction(of=noted.memory_id, text=noted.text, by=by, trust=noted.trust)
        case Action.RATE:
            before, after = (image.get("rating") for image in (change.before, change.after))
            if isinstance(before, int) and isinstance(after, int) and after < before:
                yield Correction(of=change.memory_id, text="", by=by)
        case _:
            return


def _heads(tx: Transaction, known: Mapping[int, Memory]) -> dict[int, Memory]:
    """Follow memories to their newest revisions."""
    heads = {**known}
    for _ in range(_CHAIN_MAX):
        successors = {id_: one.superseded_by for id_, one in heads.items() if one.superseded_by}
        if not successors:
            break
        later = tx.memories.get(sorted(set(successors.values())))
        heads |= {id_: later[to] for id_, to in successors.items() if to in later}
        if not any(to in later for to in successors.values()):
            break
    return heads


def _can_support_rule(memory: Memory, caller: Caller) -> bool:
    """Return whether a rule may be derived from a memory.

    Current, visible and not another's private.
    """
    is_claimed = memory.trust.weight <= caller.trust_ceiling.weight
    # An untrusted rule would be quarantined and reveal the author of its sources.
    is_trusted = memory.trust is not Trust.UNTRUSTED_WEB
    holds = KINDS[memory.kind].learns_from_corrections and memory.state in CURRENT_STATES
    return is_claimed and is_trusted and holds and _is_shareable(memory, caller)


def _is_shareable(memory: Memory, caller: Caller) -> bool:
    """Return whether derived memories may repeat a memory; a private one is its author's only."""
    is_own = memory.scope is not Scope.PRIVATE or memory.agent == caller.agent
    return is_own and is_visible(caller, memory)


def _settled(tx: Transaction, heads: Sequence[int]) -> set[int]:
    """Return the memories for which a rule was proposed before."""
    links = tx.links.touching(heads, types=[LinkType.DERIVED_FROM]) if heads else []
    made = [one for one in links if one.to_id in set(heads)]
    known = tx.memories.get([one.from_id for one in made])
    return {
        one.to_id for one in made if one.from_id in known and known[one.from_id].label == CORRECTION
    }


def _caution(head: Memory, corrections: Sequence[Correction]) -> str:
    """Return the text of the rule and the reasons, in the words of the corrections."""
    reasons = list(dict.fromkeys(one.text for one in corrections if one.text))[-_QUOTED:]
    why = "".join(f"\n- {reason}" for reason in reasons)
    known = f" Reasons given:{why}" if reasons else ""
    return (
        f'Check before relying on "{head.headline}": it was corrected {len(corrections)} times.'
        f"{known}"
    )


def _rule(
    text: str, corrections: Sequence[Correction], *, heads: Mapping[int, Memory], caller: Caller
) -> Draft:
    """Draft a rule derived from the largest compatible group of corrected memories."""
    classes: defaultdict[tuple[object, ...], dict[int, Memory]] = defaultdict(dict)
    for one in corrections:
        head = heads[one.of]
        classes[head.project, head.scope, head.trust][head.id] = head
    most = max(classes.values(), key=len)
    first = next(iter(most.values()))
    trusts = [one.trust for one in corrections if one.trust is not None]
    is_beyond = first.scope is Scope.GLOBAL and caller.role is not Role.ADMIN
    return Draft(
        body=text,
        kind=Kind.RULE,
        severity=Severity.PATTERN,
        label=CORRECTION,
        project=first.project,
        scope=Scope.TEAM if is_beyond else first.scope,
        trust=min([first.trust, *trusts], key=lambda one: one.weight),
        auto_captured=True,
        is_candidate=True,
        derived_from=tuple(most)[: limits.SOURCES_MAX],
    )


_SOURCES_MIN: Final = 2
"""A single memory needs no summary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryResult:
    """An episode or its preview; without a body there is none."""

    id: str | None = None
    status: str | None = None
    """Its status, as from `remember`; None for a preview."""
    headline: str = ""
    body: str = ""
    sources: tuple[str, ...] = ()
    reduction_ratio: float = 0.0
    """The share of its sources' tokens that it saves, 0..1."""
    warnings: tuple[str, ...] = ()


def summarize(
    services: Services, caller: Caller, *, query: str, source_filter: SourceFilter, is_preview: bool
) -> SummaryResult:
    """Summarize events and messages that recall finds, using the largest compatible group.

    If two groups are equal in size, the one with the best match is used.
    """
    recalled = Recall(services, caller)(
        query,
        kinds=RAW_KINDS,
        project=source_filter.project,
        max_items=limits.COMPACT_SOURCES_MAX,
        max_tokens=limits.COMPACT_TOKENS_MAX,
        bump=False,
    )
    with services.store.snapshot(caller.tenant) as tx:
        best = [ids.parse(ids.MEMORY, one.id) for one in recalled.items]
        known = tx.memories.get(best)
    # The store returns memories in its own order, recall best first.
    seen = [known[id_] for id_ in best if id_ in known and source_filter.accepts(known[id_])]
    [(most, _)] = Counter(map(compatibility_key, seen)).most_common(1) or [((), 0)]
    alike = [one for one in seen if compatibility_key(one) == most]
    whole = list(_within(alike))
    warnings = [
        *recalled.degraded,
        *_warnings(total=len(known), alike=len(alike), whole=len(whole)),
    ]
    sources = sorted(whole, key=lambda one: (one.occurred_at, one.id))
    summary = digest(to_reflection_inputs(sources))
    if len(sources) < _SOURCES_MIN or not summary.points:
        return SummaryResult(warnings=(*warnings, "There is too little to summarize."))
    episode = replace(drafts(summary, of=sources, caller=caller).episode, label=COMPACTED)
    saved = 1 - estimate(episode.body) / sum(estimate(one.text) for one in sources)
    result = None
    if not is_preview:
        [result] = (
            Remember(services, caller).write([episode], WriteOptions(is_user_write=False)).items
        )
        warnings += [*result.warnings, *([result.reason] if result.reason else [])]
    return SummaryResult(
        id=result.id if result else None,
        status=result.status if result else None,
        headline=episode.headline or "",
        body=episode.body,
        sources=tuple(ids.show(ids.MEMORY, one.id) for one in sources),
        reduction_ratio=round(max(saved, 0.0), 4),
        warnings=tuple(warnings),
    )


def _within(memories: Sequence[Memory]) -> Iterator[Memory]:
    """Return the best memories, as many as can be read in full."""
    left = limits.COMPACT_TOKENS_MAX
    for one in memories:
        left -= estimate(one.text)
        if left < 0:
            return
        yield one


def _warnings(*, total: int, alike: int, whole: int) -> Iterator[str]:
    if alike < total:
        yield f"{total - alike} have another project, scope or trust and are left out."
    if whole < alike:
        yield f"{alike - whole} exceed {limits.COMPACT_TOKENS_MAX:,} tokens and are left out."


_DOWN_MAX: Final = 3
"""Consecutive failures after which the model is not asked again in this run."""
_PROPOSED_MAX: Final = 1000
"""Open proposals that a new one is compared with."""


class AlreadySummarizedError(Exception):
    """Another run has summarized the same memories meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectOptions:
    """The options of one reflection."""

    window_hours: int = limits.REFLECT_HOURS_DEFAULT
    max_candidates: int = limits.REFLECT_CANDIDATES_DEFAULT
    project: str | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> ReflectOptions:
        """Parse the arguments of a job."""
        names = ("window_hours", "max_candidates", "project")
        return cls(**{name: given[name] for name in names if name in given})

    def __post_init__(self) -> None:
        """Check that both numbers are in range.

        Raises:
            RejectedError: `limit_exceeded`, one is out of range.

        """
        for what, number, most in (
            ("window_hours", self.window_hours, limits.REFLECT_HOURS_MAX),
            ("max_candidates", self.max_candidates, limits.REFLECT_CANDIDATES_MAX),
        ):
            if not 1 <= number <= most:
                raise RejectedError(
                    f"{what} is {number}; 1 to {most} is allowed.",
                    code="limit_exceeded",
                    hint="Bring it within bounds.",
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftPreview:
    """A memory that a reflection would store."""

    kind: Kind
    headline: str
    body: str
    sources: int
    """The number of its sources."""
    started_at: datetime | None = None
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectPreview:
    """What a reflection would store now, from the first page of memories."""

    read: int
    episodes: tuple[DraftPreview, ...] = ()
    candidates: tuple[DraftPreview, ...] = ()
    is_more: bool = False
    """Whether there are more memories than were read."""


@dataclass(slots=True, kw_only=True)
class TokenBudget:
    """The tokens of a language model that one run has spent and may spend."""

    tokens_max: int
    spent: TokenCost = field(default_factory=TokenCost)
    fallbacks: int = 0
    """Episodes summarized by rule because the model was unavailable or out of budget."""
    down: int = 0

    @property
    def is_open(self) -> bool:
        """Whether the model may be asked again."""
        return self.down < _DOWN_MAX and self.spent.tokens < self.tokens_max


class Reflect(Capability):
    """Reflection for one caller: on visible memories, and no private ones of others."""

    def __call__(
        self,
        *,
        window_hours: int = limits.REFLECT_HOURS_DEFAULT,
        max_candidates: int = limits.REFLECT_CANDIDATES_DEFAULT,
        project: str | None = None,
    ) -> ReflectPreview:
        """Return what a reflection would store now, by rule and without a language model.

        Nothing is stored; `jobs.run("reflect")` does that.

        Args:
            window_hours: the age of recorded memories to include, 1 to 168.
            max_candidates: the largest number of proposed facts and rules, 1 to 32.
            project: only this project and global memories.

        Raises:
            RejectedError: `limit_exceeded`, a number is out of range.

        """
        options = ReflectOptions(
            window_hours=window_hours,
            max_candidates=max_candidates,
            project=normalise_line(project),
        )
        since = self.services.clock.now() - timedelta(hours=options.window_hours)
        page = self.page(options, after=ids.make_id(since, 0) - 1, until=ids.LAST)
        episodes: list[DraftPreview] = []
        candidates: list[DraftPreview] = []
        for cluster in page.clusters:
            reflection = digest(to_reflection_inputs(cluster), claims_max=options.max_candidates)
            if reflection.points:
                made = drafts(reflection, of=cluster, caller=self.own)
                episodes.append(_preview_draft(made.episode))
                candidates += map(_preview_draft, made.facts)
        candidates += map(_preview_draft, self.corrections(options))
        return ReflectPreview(
            read=page.read,
            episodes=tuple(episodes),
            candidates=tuple(candidates[: options.max_candidates]),
            is_more=page.last is not None,
        )

    def compact(
        self, query: str, *, project: str | None = None, is_preview: bool = False
    ) -> SummaryResult:
        """Summarize what events and messages say about a query, by rule and at once.

        Args:
            query: the topic, as for `recall`.
            project: only this project and global memories.
            is_preview: return the episode without storing it.

        """
        source_filter = self.source_filter(ReflectOptions(project=normalise_line(project)))
        return summarize(
            self.services, self.own, query=query, source_filter=source_filter, is_preview=is_preview
        )

    @property
    def own(self) -> Caller:
        """The caller as the author of what is stored in the sources' project."""
        return replace(self.caller, project=None, session=None)

    def source_filter(self, options: ReflectOptions) -> SourceFilter:
        """Return the filter of the current run."""
        return SourceFilter(
            caller=self.caller,
            project=options.project,
            now=self.services.clock.now(),
            space=self.services.store.space,
        )

    def page(self, options: ReflectOptions, *, after: int, until: int) -> EventPage:
        """Read the next page of memories without an episode."""
        with self.services.store.snapshot(self.caller.tenant) as tx:
            return gather_events(tx, self.source_filter(options), after=after, until=until)

    def make(
        self, cluster: tuple[Memory, ...], *, budget: TokenBudget, claims_max: int
    ) -> Drafts | None:
        """Summarize a group of memories; None if there is nothing to say.

        A model may take long, so no transaction is open meanwhile. If it fails, answers unusably or
        has spent its budget, sentences are chosen by rule.
        """
        reflection = self._ask(cluster, budget=budget, claims_max=claims_max)
        if reflection is None or not reflection.points:
            reflection = digest(to_reflection_inputs(cluster), claims_max=claims_max)
        return drafts(reflection, of=cluster, caller=self.own) if reflection.points else None

    def unsummarized(self, cluster: Sequence[Memory]) -> tuple[Memory, ...]:
        """Return the memories that still have no episode."""
        with self.services.store.snapshot(self.caller.tenant) as tx:
            reflection = already_summarized(tx, [one.id for one in cluster])
        return tuple(one for one in cluster if one.id not in reflection)

    def store_episode(self, made: Drafts, *, of: Sequence[Memory], on_commit: OnCommit) -> None:
        """Store an episode with its proposals in one transaction.

        Raises:
            AlreadySummarizedError: the same memories have an episode now; nothing was stored.

        """
        fresh = self._fresh(made.facts) if made.facts else []

        def check_and_commit(tx: Transaction, outcomes: Sequence[ItemResult]) -> None:
            """Check in the transaction that stores, where nothing else can interfere."""
            own = {ids.parse(ids.MEMORY, one.id) for one in outcomes if one.id is not None}
            if already_summarized(tx, [one.id for one in of], exclude_ids=own):
                raise AlreadySummarizedError
            on_commit(tx, outcomes)

        self.write([made.episode, *fresh], on_commit=check_and_commit)

    def corrections(self, options: ReflectOptions) -> list[Draft]:
        """Return rules to propose because of repeated corrections."""
        now = self.services.clock.now()
        with self.services.store.snapshot(self.caller.tenant) as tx:
            return rules(tx, self.own, project=options.project, now=now)

    def _ask(
        self, cluster: tuple[Memory, ...], *, budget: TokenBudget, claims_max: int
    ) -> Reflection | None:
        reflector = self.services.reflector
        is_free = not self.services.reflector_tokens
        if not is_free and not budget.is_open:
            budget.fallbacks += 1
            return None
        try:
            reflection = reflector.reflect(to_reflection_inputs(cluster), claims_max=claims_max)
        except UnavailableError:
            budget.down += 1
            budget.fallbacks += 1
            return None
        budget.down = 0
        budget.spent = budget.spent.plus(reflection.spent)
        budget.fallbacks += not reflection.points
        return reflection

    def _fresh(self, facts: Sequence[Draft]) -> list[Draft]:
        """Drop facts that are already proposed."""
        source_filter = Filter(kinds=(Kind.FACT,), states=(State.CANDIDATE,), trust_min=0.0)
        now = self.services.clock.now()
        query_scope = QueryScope(caller=self.caller, filter=source_filter, now=now)
        with self.services.store.snapshot(self.caller.tenant) as tx:
            hits = tx.memories.newest(query_scope, limit=_PROPOSED_MAX)
            known = tx.memories.get([hit.id for hit in hits]).values()
        reflection = {(one.body, one.project, one.scope) for one in known}
        return [one for one in facts if (one.body, one.project, one.scope) not in reflection]

    def write(self, batch: list[Draft], *, on_commit: OnCommit) -> None:
        """Store an episode or proposed rules in one transaction."""
        options = WriteOptions(is_user_write=False, on_commit=on_commit)
        Remember(self.services, self.own).write(batch, options)


def _preview_draft(draft: Draft) -> DraftPreview:
    detail: Any = draft.detail
    note_shown(draft.derived_from)
    return DraftPreview(
        kind=Kind(draft.kind or Kind.FACT),
        headline=draft.headline or draft.body,
        body=draft.body,
        sources=len(draft.derived_from),
        **{name: getattr(detail, name, None) for name in ("started_at", "ended_at")},
    )
