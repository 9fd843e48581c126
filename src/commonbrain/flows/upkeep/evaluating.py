"""The job that measures recall on its own store: killed anywhere, it ends with the same figures."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, cast

from commonbrain.domain import ids
from commonbrain.domain.errors import Refused
from commonbrain.domain.limits import EVALUATED_AT_ONCE, EVALUATED_DEFAULT
from commonbrain.domain.times import from_millis, to_millis
from commonbrain.flows.evaluating.pipeline import Answer, Evaluate
from commonbrain.flows.upkeep.task import Task

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
