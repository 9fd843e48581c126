"""The operation job: list, start, retry and cancel background jobs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, Literal, cast

from pydantic import Field, JsonValue

from commonbrain.api.operation import (
    OMIT_DESCRIPTION,
    Command,
    Cursor,
    Name,
    Operation,
    Verb,
    VerbRequest,
    argument,
)
from commonbrain.client import Brain
from commonbrain.jobs.registry import JOBS, parse_arguments
from commonbrain.jobs.service import JobsReply, JobView
from commonbrain.model.escaping import inert_line, pluralize
from commonbrain.model.jobs import JobState
from commonbrain.model.limits import JOBS_PAGE_DEFAULT, JOBS_PAGE_MAX
from commonbrain.model.paging import more_line
from commonbrain.model.scope import Role
from commonbrain.model.timestamps import show_instant, show_second

Result = Mapping[str, Any]
"""The stored result of a job; another version may have stored other keys."""


def describe_result(kind: str, result: Mapping[str, object], *, is_preview: bool = False) -> str:
    """Describe the result of a job; for an unknown kind, list its values."""
    if result.get("outcome") == "too_little_data":
        why = str(result.get("why", "")).rstrip(".")
        return f"{why}." if kind == "eval" else f"Too little training data: this store {why}."
    render_text = _SENTENCES.get(kind)
    if render_text is None:
        return ", ".join(f"{name} {_value_or_length(value)}" for name, value in result.items())
    sentence = render_text(result)
    return f"Dry run: {sentence}" if is_preview and any(result.values()) else sentence


def render_entries(result: Mapping[str, object]) -> Iterator[str]:
    """Yield the entries of every list in a result, each on lines of its own."""
    for name, value in result.items():
        for entry in cast("list[Any]", value) if isinstance(value, list) else ():
            render = _ENTRIES.get(name)
            yield from render(entry) if render else (f"{name}: {entry}",)


def _value_or_length(value: object) -> object:
    """Return a value, or the length of a list."""
    return len(cast("list[object]", value)) if isinstance(value, list) else value


def _count(result: Result, name: str, *, one: str, many: str) -> str:
    """Count a value or a list in words."""
    return pluralize(cast("int", _value_or_length(result.get(name, 0))), one, many=many)


def _memories(result: Result, name: str) -> str:
    return _count(result, name, one="memory", many="memories")


def _nonzero_counts(result: Result, **labels: str) -> list[str]:
    """Render the counts that are not 0, each with its label."""
    return [f"{result[name]:,} {label}" for name, label in labels.items() if result.get(name)]


def _embedded(result: Result) -> str:
    if not result.get("embedded"):
        return "Every memory has vectors."
    return f"Embedded {_memories(result, 'embedded')}."


def _atomized(result: Result) -> str:
    atoms = _count(result, "atoms", one="atom", many="atoms")
    sentence = f"Read {_memories(result, 'read')} and found {atoms}"
    return ", ".join([sentence, *_nonzero_counts(result, rejected="refused")]) + "."


def _trained(result: Result) -> str:
    """Describe the training result by the metric that decides for the model's role."""
    model, outcome = result.get("model"), result.get("outcome")
    metric = "nDCG@10" if "nDCG@10" in result else "auc"
    outcome_text = f"{metric} {result.get(metric)}, gain {result.get('gain')}"
    match outcome:
        case "better":
            return f"{model} is better ({outcome_text}); next: brain model show {model}."
        case "too_slow":
            return f"{model} orders better ({outcome_text}), but too slowly to serve."
        case _:
            return (
                f"{model} is not proven better ({outcome_text}): it is stored but does not serve."
            )


def _reflected(result: Result) -> str:
    sentence = ", ".join([
        f"Read {_count(result, 'read', one='event or message', many='events and messages')}",
        f"made {_count(result, 'episodes', one='episode', many='episodes')}",
        f"proposed {_count(result, 'candidates', one='fact or rule', many='facts and rules')}",
        *_nonzero_counts(result, known="known already", rejected="refused"),
    ])  # fmt: skip
    if not result.get("calls"):
        return f"{sentence}."
    calls = (
        f"{result.get('reflector')} was asked {_count(result, 'calls', one='time', many='times')}"
    )
    spent = _nonzero_counts(
        result, tokens_in="tokens in", tokens_out="tokens out", fallbacks="in vain"
    )
    return f"{sentence}. {', '.join([calls, *spent])}."


def _evaluated(result: Result) -> str:
    def percent(name: str) -> str:
        value = result.get(name)
        return "-" if value is None else f"{value:.0%}"

    return (
        f"The expected memory came first in {percent('hit_1')} of questions, among the first five "
        f"in {percent('hit_5')}; {percent('abstained')} of unanswerable questions got no answer. "
        "brain eval history shows the rest."
    )


def _imported(result: Result) -> str:
    counts = _nonzero_counts(
        result, stored="stored", exists="known already", changed="updated",
        quarantined="held for review", rejected="refused", unreadable="unreadable",
    )  # fmt: skip
    read = f"Read {_count(result, 'read', one='piece', many='pieces')} of {result.get('source')}"
    return f"{read}: {', '.join(counts)}." if counts else f"{read}."


def _exported(result: Result) -> str:
    records = _count(result, "records", one="record", many="records")
    contents = f"{_memories(result, 'memories')}, {records} in all"
    size = _count(result, "bytes", one="byte", many="bytes")
    return f"Wrote {contents}, {size}, available for {result.get('kept_h')} hours."


def _reembedded(result: Result) -> str:
    space = result.get("space")
    if result.get("missing"):
        return f"{_memories(result, 'missing')} still without vectors of {space}: run it again."
    return f"Every memory has vectors of {space}: compare it, then brain embeddings switch {space}."


def _consolidated(result: Result) -> str:
    return (
        f"Compared {_count(result, 'read', one='rule or fact', many='rules and facts')}: "
        f"{_count(result, 'near_pairs', one='pair says', many='pairs say')} nearly the same, in "
        f"{_count(result, 'cliques', one='group', many='groups')}; "
        f"{_count(result, 'revised', one='was', many='were')} corrected twice or more."
    )


def _maintained(result: Result) -> str:
    counts = _nonzero_counts(
        result, expired="expired", stale="overdue (tasks)", archived="archived",
        forgotten="forgotten", affected="without support",
        jobs="old jobs deleted", events="old events deleted",
        evaluations="old evaluation results deleted",
        page_sessions="ended sessions of the web page deleted",
        artifacts="artifacts of ended models deleted",
        discards="failed discard jobs retried",
        reworded="added to full text", reread="read again for recall",
        bodiless="without text (see brain doctor)", unembedded="waiting for vectors",
        suspects="pairs of rules alike (see brain review duplicates)",
    )  # fmt: skip
    return f"{', '.join(counts)}." if counts else "Nothing was due."


def _clique(entry: Result) -> Iterator[str]:
    near, ids = entry.get("weakest"), cast("Sequence[str]", entry.get("ids", ()))
    yield f"nearly the same (cosine {near} or more): {', '.join(ids)}"
    yield from (f"to merge them: brain {call}" for call in entry.get("settle", ()))


def _revised(entry: Result) -> Iterator[str]:
    yield f"corrected {_count(entry, 'revisions', one='time', many='times')}: {entry.get('id')}"


def _refused(entry: Result) -> Iterator[str]:
    yield f"{entry.get('where')}: {entry.get('reason')}"


_SENTENCES: Final[Mapping[str, Callable[[Result], str]]] = {
    "embed": _embedded,
    "atomize": _atomized,
    "train_salience": _trained,
    "train_reranker": _trained,
    "reflect": _reflected,
    "reword": lambda result: f"Wrote the full text of {_memories(result, 'reworded')} anew.",
    "eval": _evaluated,
    "import": _imported,
    "export": _exported,
    "discard": lambda result: (
        f"Dropped files of {_count(result, 'bytes', one='byte', many='bytes')}."
    ),
    "respace": _reembedded,
    "consolidate": _consolidated,
    "maintain": _maintained,
}
"""By kind of job; a test compares the kinds with `JOBS`."""
_ENTRIES: Final[Mapping[str, Callable[[Result], Iterator[str]]]] = {
    "cliques": _clique,
    "revised": _revised,
    "refusals": _refused,
}
"""By the name of the list."""


_KINDS: Final = ", ".join(JOBS)
_KINDS_WITH_ARGUMENTS: Final = ", ".join(
    f"{name}({', '.join(kind.parameters)})" if kind.parameters else name
    for name, kind in JOBS.items()
    if kind.asked_by is None
)
"""The kinds that can be started, with their arguments."""


class JobRequest(VerbRequest):
    """The verb and its arguments."""

    VERBS: ClassVar = {
        "list": Verb(optional=("state", "kind", "limit", "cursor"), is_read_only=True),
        "show": Verb(required=("id",), is_read_only=True),
        "run": Verb(required=("kind",), optional=("given",)),
        "retry": Verb(required=("id",)),
        "cancel": Verb(required=("id",)),
    }
    SHOWN: ClassVar = ("op", "kind", "given", "id")

    op: Literal["list", "show", "run", "retry", "cancel"] = argument(
        "What to do", "list", agents=""
    )
    id: str | None = argument("The id of a job, job_...", agents="job_...")
    kind: Name = Field(default=None, description=_KINDS_WITH_ARGUMENTS)
    given: dict[str, JsonValue] = argument(
        "An argument of the kind, as NAME=VALUE", {}, agents="Arguments of the kind by name"
    )
    state: Name = argument("Only jobs that are queued, running, done, dead or cancelled", agents="")
    limit: int = argument(f"How many at most, 1 to {JOBS_PAGE_MAX}", JOBS_PAGE_DEFAULT, agents="")
    cursor: Cursor = Field(default=None, json_schema_extra=OMIT_DESCRIPTION)


def _handle(brain: Brain, request: JobRequest) -> JobsReply:
    id_ = request.id or ""
    match request.op:
        case "list":
            return brain.jobs(**request.model_dump(exclude={"op"}, exclude_defaults=True))
        case "show":
            job = brain.jobs.show(id_)
        case "run":
            kind = request.kind or ""
            job = brain.jobs.run(kind, parse_arguments(kind, request.given))
        case "retry":
            job = brain.jobs.retry(id_)
        case "cancel":
            job = brain.jobs.cancel(id_)
    return JobsReply(jobs=(job,))


def _render(reply: JobsReply) -> str:
    if len(reply.jobs) == 1 and reply.next is None:
        [job] = reply.jobs
        entries = (f"  {inert_line(one)}" for one in render_entries(job.result or {}))
        return "\n".join([render_single_job(job), *entries])
    lines = [render_job(one) for one in reply.jobs] or ["No job."]
    return "\n".join([*lines, *more_line(reply.more, reply.next)])


def render_single_job(job: JobView) -> str:
    """Render a job, and the next step if it waits for a worker."""
    line = render_job(job)
    if job.state is not JobState.QUEUED:
        return line
    return (
        f"{line}\nNext: brain worker --once runs it, unless a worker is running; "
        f"brain job show {job.id} shows the result."
    )


def render_job(one: JobView) -> str:
    """Render a job on one line."""
    parts = [one.id, one.kind, f"{one.state} {one.progress:.0%}"]
    if one.attempts:
        parts.append(f"attempt {one.attempts}")
    parts.extend(_progress(one))
    if one.result is not None:
        is_preview = bool((one.given or {}).get("dry_run"))
        parts.append(describe_result(one.kind, one.result, is_preview=is_preview))
    if one.error is not None:
        parts.append(f"{one.error}: {one.reason}")
    return inert_line(" | ".join(parts))


def _progress(one: JobView) -> Iterator[str]:
    """Describe what an unfinished job has done, and when it may end."""
    if one.done is not None and one.total is not None:
        yield f"{one.done:,} of {one.total:,} {one.unit}"
    if one.started_at is not None and one.finished_at is None:
        yield f"started {show_second(one.started_at)}"
    if one.estimated_end is not None:
        yield f"ends about {show_instant(one.estimated_end)}, at its pace since the start"


_PURPOSES: Final = {
    "list": "List jobs, the newest first; --state dead: those that failed for good.",
    "show": "Show one job: its progress, and its result or error.",
    "run": f"Start a job: {_KINDS}.",
    "retry": "Retry a failed or cancelled job with all its attempts.",
    "cancel": "Cancel a waiting or running job; its completed steps stay.",
}

JOB = Operation(
    name="job",
    title="Job",
    purpose="List or start background jobs.",
    request=JobRequest,
    reply=JobsReply,
    handle=_handle,
    render_text=_render,
    role=Role.WRITER,
    is_idempotent=True,
    commands=tuple(
        Command(
            name=f"job {op}",
            purpose=purpose,
            preset={"op": op},
            positional=JobRequest.VERBS[op].required,
            required=frozenset(JobRequest.VERBS[op].required),
            is_awaited=op == "run",
        )
        for op, purpose in _PURPOSES.items()
    ),
)
