"""What jobs do: each goes on where it was, and done twice leaves what once leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, cast

from commonbrain.administration.embedding_spaces import Place, fill, house_beside, places
from commonbrain.administration.self_evaluation import Answer, Evaluate
from commonbrain.causality.extraction import Atomize
from commonbrain.consolidation.artifacts import discard_later
from commonbrain.ingestion.embedding import Embedded, EmbedPending
from commonbrain.model import ids
from commonbrain.model.errors import Refused
from commonbrain.model.limits import ARCHIVE_KEPT_H, EVALUATED_AT_ONCE, EVALUATED_DEFAULT
from commonbrain.model.timestamps import from_millis, to_millis
from commonbrain.storage.interface import Transaction
from commonbrain.storage.job_queue import Lost, Stopped, Task, TookTooLong
from commonbrain.storage.uploads import Parcel
from commonbrain.transfer.export import KEEPING, Export, Exported, parcel_of, read_parcel
from commonbrain.transfer.imports import Going, Import, Refusal, Report, Source
from commonbrain.transfer.merge import OWN_FORMAT, Merge


def embed(task: Task) -> None:
    """Give vectors to what was stored while the embedder was down, batch by batch."""
    made = _count(task, "embedded")

    def tell(tx: Transaction, done: Embedded) -> None:
        """Count in the very transaction that keeps the vectors: no death counts them twice."""
        nonlocal made
        made += done.count
        counts = {"embedded": made}
        if done.left and done.count:
            task.reach(tx, made / (made + done.left), reached=counts)
        else:
            # What is stored from here on without a vector asks for a job of its own.
            task.finish(tx, counts)

    pending = EmbedPending(task.house, task.caller)
    while task.is_live:
        with task.kept():
            pending(beside=tell)


def atomize(task: Task) -> None:
    """Find in memories what caused what, page by page from the newest."""
    given, house = task.job.given, task.house
    counts = {name: _count(task, name) for name in ("read", "atoms", "rejected")}
    before = cast("str | None", task.job.reached.get("before"))
    find = Atomize(house, task.caller)
    with house.store.snapshot(task.caller.tenant) as tx:
        total = sum(tx.memories.counts().values())
    while task.is_live:
        task.pause()
        page = find(**_wanted(given), before=before)
        counts["read"] += page.read
        # One that is found again was stored by an attempt that did not come to tell of it.
        counts["atoms"] += page.stored + page.known
        counts["rejected"] += page.rejected
        before = page.next
        with task.step() as tx:
            if before is None:
                task.finish(tx, counts)
            else:
                share = counts["read"] / max(total, counts["read"], 1)
                task.reach(tx, share, reached={**counts, "before": before})


def reword(task: Task) -> None:
    """Write the full text of the store anew from its rows."""

    def tell(progress: float) -> None:
        with task.step() as tx:
            task.reach(tx, progress, reached={})

    words = task.house.store.rebuild_text(tell)
    with task.step() as tx:
        task.finish(tx, {"reworded": words})


def _count(task: Task, name: str) -> int:
    """Give what was counted before this attempt."""
    return cast("int", task.job.reached.get(name, 0))


def _wanted(given: Mapping[str, object]) -> dict[str, Any]:
    """Give what atomize is asked with, as its table of fields has checked it."""
    return {name: given[name] for name in ("kinds", "project") if name in given}


def respace(task: Task) -> None:
    """Give every memory vectors in another space, beside those it has; people switch.

    A memory that has them is passed over, so that a batch that nobody came to tell of is not lost.
    """
    other = house_beside(task.house, cast("str | None", task.job.given.get("space")))
    spaces, space_id = other.store.spaces, other.store.spaces.add(other.store.space).id
    total = max(sum(spaces.lacking(space_id).values()), 1)
    made = 0
    reached = _reached(task)
    for start in places(other, since=reached.tenant):
        place = reached if start.tenant == reached.tenant else start
        while place is not None:
            task.pause()
            done = fill(other, place)
            made, place = made + done.count, done.next
            at = place or start
            with task.step() as tx:
                where = {"tenant": at.tenant, "after": at.after, "passes": at.passes}
                task.reach(tx, min(made / total, 1.0), reached=where)
    left = sum(spaces.lacking(space_id).values())
    with task.step() as tx:
        task.finish(tx, {"space": other.store.space.name, "lacking": left})


def _reached(task: Task) -> Place:
    """Give where an earlier attempt was."""
    known = task.job.reached
    return Place(
        tenant=cast("str", known.get("tenant", "")),
        after=cast("int", known.get("after", 0)),
        passes=cast("int", known.get("passes", 0)),
    )


_SHOWN: Final = ("hit_1", "hit_5", "mrr", "packed", "abstained")
"""What the job tells itself; the rest is in the history."""


def evaluate(task: Task) -> None:
    """Ask some questions a step, of the moment at which it began."""
    given, flow = task.job.given, Evaluate(task.house, task.caller)
    at = _begun(task)
    try:
        exam = flow.prepare(
            at,
            questions=cast("int", given.get("questions", EVALUATED_DEFAULT)),
            seed=cast("int", given.get("seed", 0)),
        )
    except Refused as refusal:
        # Trying again in a minute would find no more: it ends well, as training does.
        with task.step() as tx:
            task.finish(tx, {"outcome": "too_little_data", "why": refusal.message})
        return
    told = dict(cast("dict[str, Sequence[object]]", task.job.reached["answers"]))
    rest = [one for one in exam.questions if one.key not in told]
    for start in range(0, len(rest), EVALUATED_AT_ONCE):
        task.pause()
        some = rest[start : start + EVALUATED_AT_ONCE]
        told |= {one.key: exam.ask(one).plain() for one in some}
        with task.step() as tx:
            reached = {"at": to_millis(at), "answers": told}
            task.reach(tx, len(told) / max(len(exam.questions), 1), reached=reached)
    answers = [Answer.read(told[one.key]) for one in exam.questions]
    with task.step() as tx:
        done = flow.result(exam, answers, id_=task.job.id)
        tx.evaluations.add(done)
        shown = {name: done.figures[name].mean for name in _SHOWN}
        task.finish(tx, {"evaluation": ids.show(ids.EVALUATION, done.id), **shown})


def _begun(task: Task) -> datetime:
    """Give the moment that all attempts ask about; the first of them settles it."""
    if "at" not in task.job.reached:
        with task.step() as tx:
            at = to_millis(task.house.clock.now())
            task.reach(tx, 0.0, reached={"at": at, "answers": {}})
    return from_millis(cast("int", task.job.reached["at"]))


ARCHIVE_KEPT: Final = timedelta(hours=ARCHIVE_KEPT_H)
_ARCHIVE: Final = "commonbrain.jsonl"
_UPLOADED: Final = 0.9
"""How far an export is when all is written and nothing is kept of it yet."""


def import_(task: Task) -> None:
    """Take in what was sent, batch by batch; its report is the result."""
    given = task.job.given
    parcel = read_parcel(given["parcel"])
    with task.house.staging.opened(parcel) as path:
        known = _report(task.job.reached)
        since = known or Report(format=str(given["format"]), source=parcel.name)
        report = _taken_in(task, path, since=since)
    with task.step() as tx:
        task.finish(tx, {**asdict(replace(report, source=parcel.name))})
    task.house.staging.drop(parcel)


def _taken_in(task: Task, path: Path, *, since: Report) -> Report:
    house, caller, given = task.house, task.caller, task.job.given

    def keep(tx: Transaction, report: Report) -> None:
        task.reach(tx, report.progress, reached=asdict(report))

    if since.format == OWN_FORMAT:
        return Merge(house, caller)(path, going=Going(since=since, around=task.kept, beside=keep))

    def tell(report: Report) -> None:
        with task.step() as tx:
            keep(tx, report)

    source = Source(
        format=since.format,
        path=path,
        project=cast("str | None", given.get("project")),
        finds_causes=bool(given.get("finds_causes")),
    )
    # What a batch came to is kept under its key: done again, it tells the same.
    key = ids.show(ids.JOB, task.job.id)
    return Import(house, caller).go_on(source, since=since, key=key, on_progress=tell)


def export(task: Task) -> None:
    """Write everything into an archive, which whoever asked for it can fetch for a day."""
    house, exported = task.house, list[Exported]()
    left = parcel_of(task.job)
    if left is not None:
        # Of an attempt that died while it kept its archive.
        house.staging.drop(left)

    def move(share: float) -> None:
        with task.step() as tx:
            task.reach(tx, _UPLOADED * share, reached={})

    def write(path: Path) -> None:
        exported.append(Export(house, task.caller)(path, on_progress=move))

    def tell(parcel: Parcel) -> None:
        # It is fetched for a day from its end on, which comes within the limit.
        due_at = house.clock.now() + task.limit + ARCHIVE_KEPT
        with task.step() as tx:
            discard_later(tx, house, caller=task.caller, parcel=parcel, due_at=due_at)
            task.reach(tx, _UPLOADED, reached={KEEPING: asdict(parcel)})

    parcel = house.staging.made(_ARCHIVE, write, tell=tell)
    try:
        with task.step() as tx:
            task.reach(tx, 1.0, reached={"parcel": asdict(parcel)})
            counts = {"memories": exported[0].memories, "records": exported[0].records}
            task.finish(tx, {**counts, "bytes": parcel.size, "kept_h": ARCHIVE_KEPT_H})
    except (Lost, Stopped, TookTooLong):
        # Nobody will know of it: what was erased since is in it.
        house.staging.drop(parcel)
        raise


def _report(reached: Mapping[str, object]) -> Report | None:
    if not reached:
        return None
    told: dict[str, Any] = {**reached}
    told["refusals"] = tuple(Refusal(**one) for one in told["refusals"])
    return Report(**told)
