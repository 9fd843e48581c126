"""Parameters of recall, decay and writing that settings and a tenant's policy may change."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cache
from typing import Final, NamedTuple

from commonbrain.model import limits
from commonbrain.model.errors import InvalidInputError, parse_choice
from commonbrain.model.kinds import KINDS, Kind
from commonbrain.model.scope import OnSecret
from commonbrain.model.values import dataclass, field, fields, replace


class Bounds(NamedTuple):
    """The range of a parameter; both ends are allowed."""

    low: float
    high: float


BOUNDS: Final[Mapping[str, Bounds]] = {
    "trust_min": Bounds(0, 1),
    "recall_items": Bounds(1, limits.RECALL_ITEMS_MAX),
    "recall_tokens": Bounds(limits.RECALL_TOKENS_MIN, limits.RECALL_TOKENS_MAX),
    "lexical_candidates": Bounds(1, 500),
    "vector_candidates": Bounds(1, 500),
    "skills_max": Bounds(0, 50),
    "dormant_below": Bounds(0, 1),
    "salience_min": Bounds(0, 1),
    "unsourced_confidence_max": Bounds(0.1, 1),
    "given_confidence_max": Bounds(0.1, 1),
    "similar_threshold": Bounds(-1, 1),
}
KIND_DAYS: Final = Bounds(0.01, 36_500)
"""The range of half-lives and archive times, in days: a quarter of an hour to a century."""
POLICY_PARAMETERS: Final = (
    *("trust_min", "recall_items", "recall_tokens", "salience_min"),
    *("given_confidence_max", "similar_threshold", "secrets", "share_discussions"),
)
"""The parameters that a tenant's policy may set."""
_WHOLE: Final = frozenset({"recall_items", "recall_tokens"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """The parameters in force for one caller; the defaults are those of the product."""

    # Recall.
    trust_min: float = limits.TRUST_MIN_DEFAULT
    """Trust below which recall skips memories, unless the caller names another."""
    recall_items: int = limits.RECALL_ITEMS_DEFAULT
    """Memories in one result, unless the caller names another number."""
    recall_tokens: int = limits.RECALL_TOKENS_DEFAULT
    """Tokens of one result, unless the caller names another number."""
    lexical_candidates: int = limits.LEXICAL_CANDIDATES
    vector_candidates: int = limits.VECTOR_CANDIDATES
    skills_max: int = limits.SKILLS_MAX
    """Skills above the other results of one recall."""

    # Decay.
    half_life_days: Mapping[Kind, float] = field(default_factory=dict[Kind, float])
    """Days in which a kind's strength halves, where it differs from the kind's own."""
    archive_days: Mapping[Kind, float] = field(default_factory=dict[Kind, float])
    """Days without access after which a kind is archived, where it differs from its own."""
    dormant_below: float = limits.DORMANT_BELOW
    """Strength below which a memory is dormant."""

    # Writing.
    salience_min: float = limits.SALIENCE_MIN
    """Salience below which a new memory starts archived."""
    unsourced_confidence_max: float | None = None
    """Highest confidence of a claim without a source; None uses the kind's own."""
    given_confidence_max: float | None = None
    """Highest confidence that an author may give a claim without a source; None sets no limit."""
    similar_threshold: float | None = None
    """Cosine from which a similar memory is reported; None uses the embedding space's own."""
    secrets: OnSecret = OnSecret.REJECT
    """What happens to a text that contains a secret."""
    share_discussions: str = ""
    """Projects, separated by commas, whose direct messages the team can recall."""

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            InvalidInputError: a parameter is out of range, or a kind never decays or is archived.

        """
        for name, bounds in BOUNDS.items():
            check_bounds(name, getattr(self, name), bounds=bounds)
        for name in ("half_life_days", "archive_days"):
            for kind, days in getattr(self, name).items():
                check_bounds(f"{name} of {kind}", days, bounds=KIND_DAYS)
                if KINDS[kind].is_binding:
                    raise InvalidInputError(
                        f"A {kind} never fades.", hint=f"Leave it out of {name}."
                    )

    @property
    def proactive_trust_min(self) -> float:
        """Trust below which nothing is shown without a query; a policy can only raise it."""
        return max(self.trust_min, limits.TRUST_MIN_DEFAULT)

    def shares_discussions(self, project: str | None) -> bool:
        """Return whether the team can recall the direct messages of a project."""
        shared = (one.strip() for one in self.share_discussions.split(","))
        return project is not None and project in shared

    def half_life(self, kind: Kind) -> timedelta | None:
        """Return the time in which the strength of a kind halves; None if it never decays."""
        days = self.half_life_days.get(kind)
        return KINDS[kind].half_life if days is None else timedelta(days=days)

    def archived_after(self, kind: Kind) -> timedelta | None:
        """Return the time without access after which a kind is archived; None never."""
        days = self.archive_days.get(kind)
        return KINDS[kind].archived_after if days is None else timedelta(days=days)

    def unsourced_confidence(self, kind: Kind) -> float:
        """Return the highest confidence of a memory of this kind without a source."""
        ceiling, own = KINDS[kind].unsourced_confidence_max, self.unsourced_confidence_max
        return ceiling if own is None or ceiling == 1 else own

    def given_confidence(self, kind: Kind, given: float) -> float:
        """Return the confidence that an author gives a memory of this kind without a source."""
        ceiling = self.given_confidence_max
        if ceiling is None or KINDS[kind].unsourced_confidence_max == 1:
            return given
        return min(given, ceiling)

    def under(self, policy: Sequence[str]) -> "Parameters":
        """Return these parameters with those that a tenant's policy sets."""
        # A newer or older program may have stored a name that this one does not know.
        known = tuple(one for one in policy if one.split("=", 1)[0] in POLICY_PARAMETERS)
        return replace(self, **read_policy_parameters(known)) if known else self


def check_bounds(name: str, value: float | None, *, bounds: Bounds) -> None:
    """Reject a number that is out of range.

    Raises:
        InvalidInputError: it is.

    """
    if value is not None and not bounds.low <= value <= bounds.high:
        raise InvalidInputError(
            f"{name} is {value:g}; {bounds.low:g} to {bounds.high:,g} is allowed."
        )


@cache
def read_policy_parameters(written: tuple[str, ...]) -> Mapping[str, float | str]:
    """Parse parameters such as `trust_min=0.6` and `secrets=redact`; the last of a name counts.

    Raises:
        InvalidInputError: a name is unknown, or a value is invalid.

    """
    return dict(_read_parameter(one) for one in written)


def _read_parameter(written: str) -> tuple[str, float | str]:
    name, _, value = (part.strip() for part in written.partition("="))
    if name not in POLICY_PARAMETERS:
        raise InvalidInputError(
            f"{written[:80]!r} sets no parameter of a tenant.",
            hint=f"Write NAME=VALUE; a name is one of {', '.join(POLICY_PARAMETERS)}.",
        )
    if name == "secrets":
        return name, parse_choice(OnSecret, value)
    if name == "share_discussions":
        return name, value
    try:
        number = int(value) if name in _WHOLE else float(value)
    except ValueError:
        raise InvalidInputError(
            f"{name} is {value[:40]!r}, which is no number.", hint=f"Write {name}=NUMBER."
        ) from None
    check_bounds(name, number, bounds=BOUNDS[name])
    return name, number


def change_parameters(known: Sequence[str], changes: Sequence[str]) -> tuple[str, ...]:
    """Apply changes to a policy's parameters; `NAME=` removes one.

    Raises:
        InvalidInputError: a name is unknown, or a value is invalid.

    """
    values = dict(one.split("=", 1) for one in known)
    for change in changes:
        name, _, value = (part.strip() for part in change.partition("="))
        if value:
            name, read = _read_parameter(change)
            values[name] = str(read)
        elif name in values or name in POLICY_PARAMETERS:
            values.pop(name, None)
        else:
            _read_parameter(change)
    return tuple(f"{name}={value}" for name, value in sorted(values.items()))


PARAMETERS: Final = tuple(one.name for one in fields(Parameters))
"""The names of all parameters, which are the names of their settings."""
DEFAULTS: Final = Parameters()
