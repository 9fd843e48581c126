"""The jobs that import and export."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, cast

from commonbrain.domain import ids
from commonbrain.domain.limits import ARCHIVE_KEPT_H
from commonbrain.flows.exporting import KEEPING, Export, Exported, parcel_of, read_parcel
from commonbrain.flows.importing import Import, Source
from commonbrain.flows.merging import OWN_FORMAT, Merge
from commonbrain.flows.report import Going, Refusal, Report
from commonbrain.flows.upkeep.discarding import discard_later
from commonbrain.flows.upkeep.task import Lost, Stopped, Task, TookTooLong
from commonbrain.ports.staging import Parcel
from commonbrain.ports.store import Transaction

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
