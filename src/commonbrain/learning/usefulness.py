"""What can be learnt of usefulness: what was known when a memory was written, and its use since.

Only what is known at that moment may be learnt from: of an author's earlier memories, those alone
whose use had shown itself by then. No word of a text is a feature, so that no model holds one.
"""

import math
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from commonbrain.model.kinds import RuleDetail, Severity, TaskDetail, kinds_where
from commonbrain.model.memory import Memory
from commonbrain.model.query import FeedbackMark
from commonbrain.model.scope import Scope
from commonbrain.model.scoring import confidence, salience

SETTLED_AFTER: Final = timedelta(days=30)
"""After so long it has shown whether a memory is of use: what is used at all is used by then."""
KINDS_SCORED: Final = kinds_where(lambda policy: policy.is_salience_learned)
LABELS: Final = tuple(
    "decision convention insight bug architecture research person meeting handoff".split()
)
"""Those that everybody uses; any other is `other`."""
UNKNOWN_AUTHOR: Final = 0.5
"""The share of useful memories of whom nothing is known, as Laplace's rule of succession says."""
_ACCESSES: Final = 3
"""So many accesses tell as much as one use: most of them are answers that merely showed it."""
_ACCESSES_TELL_MAX: Final = 3
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
"""What a model of salience is given, in this order."""


def rule(memory: Memory) -> float:
    """Score a memory by the fixed rule, as if it were written now."""
    detail = memory.detail
    names = (memory.people, memory.topics, memory.references)
    return salience(
        memory.kind,
        memory.text,
        due=isinstance(detail, TaskDetail) and detail.due_at is not None,
        entities=sum(map(len, names)),
    )


def features_of(memory: Memory, *, author: float) -> Mapping[str, float]:
    """Say what is known of a memory as it is written; `author` is what its author's came to."""
    label = memory.label if memory.label in LABELS else "other"
    is_sourced, detail = memory.source_ref is not None, memory.detail
    told = {
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
    return {name: told.get(name, 0.0) for name in FEATURES}


def use_of(memory: Memory, marks: Sequence[tuple[datetime, FeedbackMark]]) -> int:
    """Count how often a memory was of use within a month of its writing; 0 where it misled.

    A recall of which it was used counts once, who said that it helped twice, and votes and
    accesses, of which nobody knows the days, as far as they go.
    """
    until = memory.recorded_at + SETTLED_AFTER
    told = [mark for at, mark in marks if at < until]
    if FeedbackMark.WRONG in told or memory.rating < 0:
        return 0
    said = told.count(FeedbackMark.USED) + 2 * told.count(FeedbackMark.USEFUL)
    return said + memory.rating + min(memory.access_count // _ACCESSES, _ACCESSES_TELL_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One memory that has settled: what was known of it at first, and its use since."""

    recorded_at: datetime
    group: str
    """The session it was written in; without one, the author and the day."""
    features: Mapping[str, float]
    use: int

    @property
    def is_useful(self) -> bool:
        """Whether it was of any use."""
        return self.use > 0


@dataclass(slots=True)
class Authors:
    """What came of what each author wrote, as far as it was known at a moment."""

    _known: defaultdict[str, list[int]] = field(
        default_factory=lambda: defaultdict[str, list[int]](lambda: [0, 0])
    )
    _coming: deque[tuple[datetime, str, bool]] = field(
        default_factory=deque[tuple[datetime, str, bool]]
    )

    def share(self, agent: str, *, at: datetime) -> float:
        """Give the share of an author's memories that were useful, of those settled by then."""
        while self._coming and self._coming[0][0] <= at:
            _, author, is_useful = self._coming.popleft()
            counts = self._known[author]
            counts[0] += is_useful
            counts[1] += 1
        useful, all_ = self._known.get(agent, (0, 0))
        return (useful + 1) / (all_ + 2)

    def note(self, agent: str, *, at: datetime, is_useful: bool) -> None:
        """Keep what came of one memory, to be known once it has settled; the oldest first."""
        self._coming.append((at + SETTLED_AFTER, agent, is_useful))

    def shares(self, *, at: datetime, most: int) -> Mapping[str, float]:
        """Give those of the authors who wrote most."""
        self.share("", at=at)
        by_count = sorted(self._known, key=lambda name: (-self._known[name][1], name))
        return {name: round(self.share(name, at=at), 4) for name in sorted(by_count[:most])}


def sample(memory: Memory, authors: Authors, *, use: int) -> Sample:
    """Make a sample of a settled memory; to be called from the oldest to the newest."""
    at, author = memory.recorded_at, memory.agent
    features = features_of(memory, author=authors.share(author, at=at))
    made = Sample(
        recorded_at=at,
        group=memory.session or f"{author} {at:%Y-%m-%d}",
        features=features,
        use=use,
    )
    authors.note(author, at=at, is_useful=made.is_useful)
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSplit:
    """Samples parted by time and by session, so that what is judged was never learnt from."""

    learnt: tuple[Sample, ...]
    held: tuple[Sample, ...]
    """Written later than any of the others, in sessions that they know nothing of."""


def split_samples(samples: Sequence[Sample]) -> SampleSplit:
    """Part samples, the oldest first, at a moment; sessions that go on past it are held out."""
    if not samples:
        return SampleSplit(learnt=(), held=())
    since = samples[int(len(samples) * _LEARNT_SHARE)].recorded_at
    late = {one.group for one in samples if one.recorded_at >= since}
    return SampleSplit(
        learnt=tuple(one for one in samples if one.group not in late),
        held=tuple(one for one in samples if one.recorded_at >= since),
    )
