"""`python -m benchmarks peers`: what each memory costs and finds, in one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from typing import Annotated, Final

import typer

from benchmarks.machine import describe_machine
from benchmarks.peers.conversations import Conversation, read_conversations
from benchmarks.peers.driver import CUTS, LIMIT, Measured, WorkerError, measure
from benchmarks.peers.environments import (
    UnavailableEnvironmentError,
    environments_folder,
    prepare,
)
from benchmarks.peers.systems import OURS, PEERS, REFERENCE, Peer

peers = typer.Typer()
_COLUMNS: Final = (
    ("", 22),
    ("write ms", 9),
    ("process", 8),
    ("writes/s", 9),
    ("recall p50", 11),
    ("p95", 7),
    ("process p50", 12),
    ("p95", 7),
    ("MB installed", 13),
    ("MB resident", 12),
    ("stored %", 9),
    *((f"R@{cut} %", 7) for cut in CUTS),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """The ratio of Commonbrain to the reference on the same questions."""

    ours: Measured
    reference: Measured

    @property
    def process(self) -> float:
        """How many times the reference's processor time a recall takes, by the medians."""
        floor = self.reference.search_timing.process_p50_ms
        return self.ours.search_timing.process_p50_ms / floor

    @property
    def wall(self) -> float:
        """The same by the clock."""
        return self.ours.search_timing.p50_ms / self.reference.search_timing.p50_ms

    @property
    def gain(self) -> float:
        """By how many points more questions have all their evidence among the results."""
        return self.ours.recall_at(LIMIT) - self.reference.recall_at(LIMIT)

    def __str__(self) -> str:
        return (
            f"{self.ours.peer.name} / {self.reference.peer.name}: recall p50"
            f" {self.process:.2f} by processor time, {self.wall:.2f} by the clock;"
            f" R@{LIMIT} {self.gain:+.1f} points"
        )


@peers.command("peers")
def compare(
    data: Annotated[Path, typer.Option(help="A file in the format of LoCoMo.")],
    *,
    memories: Annotated[
        int | None, typer.Option(help="Use the first conversations with at most this many turns.")
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(help="The folder of the environments; by default in the user's cache."),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Measure only the systems whose name contains this.")
    ] = None,
) -> None:
    """Compare memory systems with the same texts, questions and embedder.

    R@k is the share of questions all of whose evidence is among the first k results. Every
    conversation is in a store of its own. Installing the peers the first time takes minutes.
    """
    conversations = read_conversations(data, memories=memories)
    environments = folder or environments_folder()
    chosen = [one for one in PEERS if not only or any(part in one.name for part in only)]
    texts = sum(len(conversation.texts) for conversation in conversations)
    questions = sum(len(conversation.questions) for conversation in conversations)
    print(describe_machine())
    print(f"{texts:,} texts in {len(conversations)} stores, {questions:,} questions\n")
    print("".join(f"{name:>{width}}" for name, width in _COLUMNS))
    results = [_compare(peer, conversations, environments) for peer in chosen]
    print(
        "\nTimes are ms: by the clock, and of processor time, of all threads. Installed is with the"
        f" embedder.\nThe embedder is {OURS}'s own code and model for all, in their process."
    )
    for ratio in ratios([result for result in results if result is not None]):
        print(ratio)
    print()
    for peer in chosen:
        print(f"{peer.name}: {peer.settings}")


def _compare(peer: Peer, conversations: Sequence[Conversation], folder: Path) -> Measured | None:
    """Print the line of a peer; None if it could not be installed or run, which is printed too."""
    try:
        result = measure(peer, prepare(peer, folder), conversations)
    except (UnavailableEnvironmentError, WorkerError) as error:
        print(f"{peer.name:>22}   not measured: {error}", flush=True)
        return None
    print(table_line(result), flush=True)
    return result


def table_line(measured: Measured) -> str:
    """Format what one peer did."""
    searches = measured.search_timing
    values = (
        f"{measured.peer.name}",
        f"{measured.write_wall_ms:.1f}",
        f"{measured.write_process_ms:.1f}",
        f"{1000 / measured.write_wall_ms:,.0f}",
        f"{searches.p50_ms:.1f}",
        f"{quantiles((lap.wall_ms for lap in measured.searches), n=20)[-1]:.1f}",
        f"{searches.process_p50_ms:.1f}",
        f"{searches.process_p95_ms:.1f}",
        f"{measured.installed_mb:,.0f}",
        f"{measured.resident_p50_mb:,.0f}",
        f"{100 * measured.stored / measured.given:.1f}",
        *(f"{measured.recall_at(cut):.1f}" for cut in CUTS),
    )
    return "".join(f"{value:>{width}}" for value, (_, width) in zip(values, _COLUMNS, strict=True))


def ratios(results: Sequence[Measured]) -> list[Ratio]:
    """Compare each of ours with the reference, where both were measured."""
    reference = next((result for result in results if result.peer.name == REFERENCE), None)
    if reference is None:
        return []
    return [Ratio(ours=result, reference=reference) for result in results if result.peer.is_ours]
