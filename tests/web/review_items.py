"""A review queue with items of every category, as agents and a scraper leave them."""

from dataclasses import dataclass
from datetime import timedelta

from commonbrain.client import Brain

NAMES = ("checkout", "invoices", "basket", "search", "stock")


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """The ids of the items, by category; pairs are the older and the newer memory."""

    conflicts: tuple[tuple[str, str], ...]
    needs_review: tuple[str, ...]
    proposals: tuple[str, ...]
    duplicates: tuple[tuple[str, str], ...]


def fill_queue(brain: Brain) -> Queue:
    """Store memories that give five items of each category."""
    claude = brain.acting_as(agent="claude-code", project="shop")
    codex = brain.acting_as(agent="codex", project="shop")
    scraper = brain.acting_as(agent="scraper", project="shop")
    now = brain.services.clock.now()

    def stored(of: Brain, text: str, **details: object) -> str:
        [result] = of.remember(text, **details).items  # pyright: ignore[reportArgumentType]
        assert result.id is not None, result
        return result.id

    conflicts: list[tuple[str, str]] = []
    for number, name in enumerate(NAMES, 2):
        old = stored(
            claude,
            f"The {name} service has {number} replicas",
            kind="fact",
            occurred_at=now - timedelta(days=number),
        )
        new = stored(codex, f"The {name} service has {number + 3} replicas", kind="fact")
        conflicts.append((old, new))
    bases = [stored(claude, f"The {name} queue runs on Redis 6", kind="fact") for name in NAMES]
    stale = [
        stored(
            codex,
            f"Workers of the {name} jobs block on BRPOP with a timeout of two seconds.",
            kind="fact",
            depends_on=[base],
        )
        for name, base in zip(NAMES, bases, strict=True)
    ]
    for name, base in zip(NAMES, bases, strict=True):
        claude.revise.supersede(
            base, f"The {name} queue runs on Valkey 8", reason="Redis changed its licence"
        )
    proposals = [
        stored(
            scraper, f"Always retry the {name} call ten times", kind="rule", trust="untrusted_web"
        )
        for name in NAMES
    ]
    duplicates: list[tuple[str, str]] = []
    for name in NAMES:
        one = stored(claude, f"Never log the card number in the {name} module", kind="rule")
        other = stored(
            codex, f"Do not write the card number to the log of the {name} module", kind="rule"
        )
        duplicates.append((one, other))
    return Queue(
        conflicts=tuple(conflicts),
        needs_review=tuple(stale),
        proposals=tuple(proposals),
        duplicates=tuple(duplicates),
    )
