"""Fills the memory from what agents left on this machine: sessions, notes and instructions."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from commonbrain.api.switches import check_import_is_on
from commonbrain.cli.context import GlobalOptions
from commonbrain.cli.terminal import progress
from commonbrain.client import Brain
from commonbrain.hooks.runner import run_detached
from commonbrain.hosts import is_url
from commonbrain.model.errors import CommonbrainError, InvalidInputError, RejectedError
from commonbrain.model.kinds import Kind
from commonbrain.retrieval.plan import search_terms
from commonbrain.runtime.callers import may_share
from commonbrain.transfer.importers import IMPORTERS
from commonbrain.transfer.imports import FoundSource, ImportReport, find_sources

_SESSIONS: Final = frozenset({"claude-code", "codex"})
"""Formats whose files are sessions of an agent."""
_QUERY_TERMS_MIN: Final = 3
_QUERY_TERMS_MAX: Final = 5
_EXAMPLES_MAX: Final = 20
"""Memories of which one gives the example of a query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilledSource:
    """A source, with the report of its import, the job that imports it, or an error."""

    source: FoundSource
    report: ImportReport | None = None
    job: str | None = None
    error: CommonbrainError | None = None

    def as_json(self) -> Mapping[str, object]:
        """Return it for programs."""
        outcome = "queued" if self.job else "refused" if self.error else "imported"
        shown = {
            "format": self.source.format,
            "path": str(self.source.path),
            "files": self.source.count,
            "size_bytes": self.source.size_bytes,
            "outcome": outcome,
        }
        if self.report is not None:
            names = ("read", "stored", "exists", "quarantined", "rejected", "unreadable", "kinds")
            return {**shown, **{name: getattr(self.report, name) for name in names}}
        if self.error is not None:
            return {**shown, "reason": self.error.message, "hint": self.error.hint}
        return {**shown, "job": self.job}


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """What was imported or waits for its import."""

    sources: tuple[FilledSource, ...] = ()
    is_running: bool = False
    """Whether a process imports what waits."""
    query: str | None = None
    """A query that finds something of it."""

    @property
    def queued(self) -> Sequence[FilledSource]:
        """The sources that wait for their import."""
        return [one for one in self.sources if one.job]

    @property
    def reports(self) -> Sequence[ImportReport]:
        """The reports of those that were imported."""
        return [one.report for one in self.sources if one.report]

    @property
    def needs_review(self) -> bool:
        """Whether something waits for a person, such as rules that an agent imported."""
        return any(one.quarantined for one in self.reports)

    def describe(self) -> str:
        """Count what was imported, new rules that wait for a person too."""
        done = [one.source for one in self.sources if one.report]
        new = sum(one.stored + one.quarantined for one in self.reports)
        rules = sum(one.kinds.get(Kind.RULE, 0) for one in self.reports)
        known = sum(one.exists for one in self.reports)
        parts = [_count(new, "new memory")]
        parts += [f"of these {_count(rules, 'rule')}"] if rules else []
        parts += [f"{known:,} known before"] if known else []
        return f"Imported {describe_sources(done)}: {', '.join(parts)}."


def agent_sources() -> list[FoundSource]:
    """Return what agents left below the user's home; none of it is opened."""
    return list(find_sources(IMPORTERS, Path.home()))


def describe_sources(sources: Sequence[FoundSource]) -> str:
    """Count sessions, agents and files of notes."""
    sessions = [one for one in sources if one.format in _SESSIONS]
    notes = sum(one.count for one in sources) - sum(one.count for one in sessions)
    agents = len({one.format for one in sessions})
    parts = (
        f"{_count(sum(one.count for one in sessions), 'session')} of {_count(agents, 'agent')}",
        _count(notes, "file") + " of notes",
    )
    return " and ".join(part for part in parts if not part.startswith("0 ")) or "nothing"


def _count(number: int, noun: str) -> str:
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun.removesuffix('y')}ies" if noun[-1] == "y" else f"{number:,} {noun}s"


def fill(
    state: GlobalOptions, sources: Sequence[FoundSource], *, waits: bool, is_shown: bool
) -> Filling:
    """Import sources now or by jobs; an interrupted import goes on as jobs.

    Args:
        state: the options of the command.
        sources: what the user chose.
        waits: import them in this process.
        is_shown: show a progress bar.

    Raises:
        UnavailableError: the store cannot be opened.

    """
    done = list[FilledSource]()
    with state.open() as brain:
        check_import_is_on(brain.caller)
        if waits:
            try:
                _import_all(brain, sources, is_shown=is_shown, done=done)
            except KeyboardInterrupt:
                # What is stored stays; the job skips it.
                waits = False
        queued = [_enqueue(brain, one) for one in sources[len(done) :]]
        query = _find_query(brain) if waits else None
    is_running = any(one.job for one in queued) and may_share(os.environ)
    if is_running:
        _start_worker(state)
    return Filling(sources=(*done, *queued), is_running=is_running, query=query)


def _import_all(
    brain: Brain, sources: Sequence[FoundSource], *, is_shown: bool, done: list[FilledSource]
) -> None:
    """Import one source after the other; each that is done is added to `done`."""
    with progress(is_shown=is_shown) as shown:
        task = shown.add_task("importing", total=max(sum(one.size_bytes for one in sources), 1))
        for source in sources:
            before = sum(one.source.size_bytes for one in done)

            def move(
                report: ImportReport, *, before: int = before, size: int = source.size_bytes
            ) -> None:
                counts = f"{report.format}: {report.read:,} read, {report.stored:,} stored"
                shown.update(task, completed=before + report.progress * size, description=counts)

            done.append(_import_one(brain, source, on_progress=move))


def _import_one(
    brain: Brain, source: FoundSource, *, on_progress: Callable[[ImportReport], None]
) -> FilledSource:
    try:
        report = brain.import_(source.format, source.path, on_progress=on_progress)
    except (InvalidInputError, RejectedError) as error:
        # The next source has nothing to do with this one.
        return FilledSource(source=source, error=error)
    return FilledSource(source=source, report=report)


def _enqueue(brain: Brain, source: FoundSource) -> FilledSource:
    try:
        return FilledSource(source=source, job=brain.jobs.import_(source.format, source.path).id)
    except (InvalidInputError, RejectedError) as error:
        return FilledSource(source=source, error=error)


def _start_worker(state: GlobalOptions) -> None:
    """Start a process that runs the jobs that wait, and ends."""
    options = {"--store": state.store, "--tenant": state.tenant}
    if is_url(state.store or ""):
        # Others can read a command line, and a URL may hold a password.
        os.environ["COMMONBRAIN_STORE"] = str(options.pop("--store"))
    words = [word for name, value in options.items() if value for word in (name, value)]
    run_detached([*words, "worker", "--once", "--kinds", "import"], b"")


def _find_query(brain: Brain) -> str | None:
    """Return words of a memory that find it: of a rule or a fact, else of another."""
    for kinds in ((Kind.RULE, Kind.FACT), ()):
        for one in brain.list(kinds=kinds, limit=_EXAMPLES_MAX).memories:
            terms = search_terms(one.headline)[:_QUERY_TERMS_MAX]
            if len(terms) < _QUERY_TERMS_MIN:
                continue
            query = " ".join(terms)
            items = brain.recall(query, max_items=3, bump=False).items
            if any(item.id == one.id for item in items):
                return query
    return None
