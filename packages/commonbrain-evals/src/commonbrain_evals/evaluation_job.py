"""The job `eval`: evaluates a store on itself, some questions a step."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, cast

from commonbrain.model import ids
from commonbrain.model.errors import RejectedError
from commonbrain.model.limits import EVALUATED_AT_ONCE, EVALUATED_DEFAULT
from commonbrain.model.timestamps import from_millis, to_millis
from commonbrain.storage.job_queue import JobContext
from commonbrain_evals.self_evaluation import Evaluate, RankedAnswer

_SHOWN: Final = ("hit_1", "hit_5", "mrr", "packed", "abstained")
"""Metrics that the job shows; the history holds the others."""


def evaluate(task: JobContext) -> None:
    """Evaluate some queries per step, as of the time at which the job began."""
    given, flow = task.job.given, Evaluate(task.services, task.caller)
    at = _begun(task)
    try:
        exam = flow.prepare(
            at,
            questions=cast("int", given.get("questions", EVALUATED_DEFAULT)),
            seed=cast("int", given.get("seed", 0)),
        )
    except RejectedError as refusal:
        # A retry in a minute would not find more: the job succeeds, as training does.
        with task.step() as tx:
            task.finish(tx, {"outcome": "too_little_data", "why": refusal.message})
        return
    answered = dict(cast("dict[str, Sequence[object]]", task.job.reached["answers"]))
    rest = [question for question in exam.questions if question.key not in answered]
    for start in range(0, len(rest), EVALUATED_AT_ONCE):
        task.pause()
        some = rest[start : start + EVALUATED_AT_ONCE]
        answered |= {one.key: exam.ask(one).plain() for one in some}
        with task.step() as tx:
            reached = {"at": to_millis(at), "answers": answered}
            task.save_progress(tx, len(answered) / max(len(exam.questions), 1), reached=reached)
    answers = [RankedAnswer.read(answered[question.key]) for question in exam.questions]
    with task.step() as tx:
        done = flow.result(exam, answers, id_=task.job.id)
        tx.evaluations.add(done)
        shown = {name: done.figures[name].mean for name in _SHOWN}
        task.finish(tx, {"evaluation": ids.show(ids.EVALUATION, done.id), **shown})


def _begun(task: JobContext) -> datetime:
    """Return the time that all attempts evaluate; the first attempt sets it."""
    if "at" not in task.job.reached:
        with task.step() as tx:
            at = to_millis(task.services.clock.now())
            task.save_progress(tx, 0.0, reached={"at": at, "answers": {}})
    return from_millis(cast("int", task.job.reached["at"]))
