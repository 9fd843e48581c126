"""Training data of salience models: features at the time of writing, and later use.

Features use only what was known at that time: of an author's earlier memories, those that had
settled by then. No word of a text is a feature, so that models contain none.
"""

import math
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from commonbrain.model.kinds import RuleDetail, Severity, TaskDetail, kinds_where
from commonbrain.model.limits import SETTLED_DAYS
from commonbrain.model.memory import Memory, confidence
from commonbrain.model.query import FeedbackMark
from commonbrain.model.scope import Scope
from commonbrain.model.values import dataclass, field
from commonbrain.text.salience import salience

SETTLED_AFTER: Final = timedelta(days=SETTLED_DAYS)
"""A memory has settled after this time: memories that are used at all are used by then."""
KINDS_SCORED: Final = kinds_where(lambda policy: policy.is_salience_learned)
LABELS: Final = tuple(
    "decision convention insight bug architecture research person meeting handoff".split()
)
"""Common labels; any other is `other`."""
UNKNOWN_AUTHOR: Final = 0.5
"""Share of useful memories of an unknown author, by Laplace's rule of succession."""
_ACCESSES_PER_USE: Final = 3
"""Accesses that count as one use: most accesses are results that were merely shown."""
_ACCESS_USES_MAX: Final = 3
_COUNT_MAX: Final = 10
_CHARS: Final = 500.0
_LEARNT_SHARE: Final = 0.7

FEATURES: Final = (
    *(f"kind_{kind}" for kind in KINDS_SCORED),
    *(f"label_{label}" for label in LABELS),
    "label_other",
    "rule",
    "confidence",
    "trust",
    "length",
    "tags",
    "people",
    "topics",
    "references",
    "sourced",
    "captured",
    "private",
    "project",
    "due",
    "blocker",
    "digits",
    "author",
)
"""Features of a salience model, in order."""


def rule(memory: Memory) -> float:
    """Score a memory by the fixed rule, as if written now."""
    detail = memory.detail
    names = (memory.people, memory.topics, memory.references)
    return salience(
        memory.kind,
        memory.text,
        due=isinstance(detail, TaskDetail) and detail.due_at is not None,
        entities=sum(map(len, names)),
    )


def features_of(memory: Memory, *, author: float) -> Mapping[str, float]:
    """Return the features of a memory when written.

    `author` is its author's share of useful ones.
    """
    label = memory.label if memory.label in LABELS else "other"
    is_sourced, detail = memory.source_ref is not None, memory.detail
    values = {
        f"kind_{memory.kind}": 1.0,
        f"label_{label}": float(memory.label is not None),
        "rule": rule(memory),
        "confidence": confidence(
            memory.kind, memory.text, trust=memory.trust, is_sourced=is_sourced
        ),
        "trust": memory.trust.weight,
        "length": math.log1p(len(memory.text) / _CHARS),
        "sourced": float(is_sourced),
        "captured": float(memory.auto_captured),
        "private": float(memory.scope is Scope.PRIVATE),
        "project": float(memory.project is not None),
        "due": float(isinstance(detail, TaskDetail) and detail.due_at is not None),
        "blocker": float(isinstance(detail, RuleDetail) and detail.severity is Severity.BLOCKER),
        "digits": float(any(map(str.isdigit, memory.text))),
        "author": author,
        **{
            name: float(min(len(getattr(memory, name)), _COUNT_MAX))
            for name in ("tags", "people", "topics", "references")
        },
    }
    return {name: values.get(name, 0.0) for name in FEATURES}


def use_of(memory: Memory, marks: Sequence[tuple[datetime, FeedbackMark]]) -> int:
    """Count the uses of a memory within a month of its writing; 0 if it misled.

    A recall after which it was used counts once and explicit praise twice; votes and accesses have
    no dates and count in full.
    """
    until = memory.recorded_at + SETTLED_AFTER
    recent = [mark for at, mark in marks if at < until]
    if FeedbackMark.WRONG in recent or memory.rating < 0:
        return 0
    uses = recent.count(FeedbackMark.USED) + 2 * recent.count(FeedbackMark.USEFUL)
    return uses + memory.rating + min(memory.access_count // _ACCESSES_PER_USE, _ACCESS_USES_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledMemory:
    """A settled memory: its features when written, and its use since."""

    recorded_at: datetime
    group: str
    """The session; without one, the author and the day."""
    features: Mapping[str, float]
    use: int

    @property
    def is_useful(self) -> bool:
        """Whether the memory was used at all."""
        return self.use > 0


@dataclass(slots=True)
class Authors:
    """Usefulness of each author's memories over time."""

    _known: defaultdict[str, list[int]] = field(
        default_factory=lambda: defaultdict[str, list[int]](lambda: [0, 0])
    )
    _coming: deque[tuple[datetime, str, bool]] = field(
        default_factory=deque[tuple[datetime, str, bool]]
    )

    def share(self, agent: str, *, at: datetime) -> float:
        """Return the share of useful memories among those settled by then."""
        while self._coming and self._coming[0][0] <= at:
            _, author, is_useful = self._coming.popleft()
            counts = self._known[author]
            counts[0] += is_useful
            counts[1] += 1
        useful, all_ = self._known.get(agent, (0, 0))
        return (useful + 1) / (all_ + 2)

    def note(self, agent: str, *, at: datetime, is_useful: bool) -> None:
        """Record the use of one memory, known once it has settled; oldest first."""
        self._coming.append((at + SETTLED_AFTER, agent, is_useful))

    def shares(self, *, at: datetime, most: int) -> Mapping[str, float]:
        """Return the shares of the authors with the most memories."""
        self.share("", at=at)
        by_count = sorted(self._known, key=lambda name: (-self._known[name][1], name))
        return {name: round(self.share(name, at=at), 4) for name in sorted(by_count[:most])}


def sample(memory: Memory, authors: Authors, *, use: int) -> SettledMemory:
    """Create a sample of a settled memory; call it from oldest to newest."""
    at, author = memory.recorded_at, memory.agent
    features = features_of(memory, author=authors.share(author, at=at))
    made = SettledMemory(
        recorded_at=at,
        group=memory.session or f"{author} {at:%Y-%m-%d}",
        features=features,
        use=use,
    )
    authors.note(author, at=at, is_useful=made.is_useful)
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSplit:
    """Samples split by time and by session, so that evaluation data is never trained on."""

    learnt: tuple[SettledMemory, ...]
    held: tuple[SettledMemory, ...]
    """Newer than the training samples, in sessions without training samples."""


def split_samples(samples: Sequence[SettledMemory]) -> SampleSplit:
    """Split samples (oldest first) at a time; sessions that span it are held out."""
    if not samples:
        return SampleSplit(learnt=(), held=())
    since = samples[int(len(samples) * _LEARNT_SHARE)].recorded_at
    late = {one.group for one in samples if one.recorded_at >= since}
    return SampleSplit(
        learnt=tuple(one for one in samples if one.group not in late),
        held=tuple(one for one in samples if one.recorded_at >= since),
    )
