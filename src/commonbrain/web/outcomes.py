"""What the form of an operation did, in sentences for the person who sent it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Generic

from commonbrain.api.operation import ReplyT, Request, RequestT, VerbRequest
from commonbrain.api.operations.bulk import BulkRequest
from commonbrain.api.operations.forget import ForgetRequest
from commonbrain.api.operations.job import JobRequest
from commonbrain.api.operations.message import MessageRequest, MessageResponse
from commonbrain.api.operations.revise import ReviseRequest
from commonbrain.api.operations.session import SessionRequest
from commonbrain.coordination.session_views import LeaseStatus, SessionResponse
from commonbrain.history.change_plan import ChangeStatus, ReviseResult
from commonbrain.history.selection import BulkChangeResult, MemoryRef, Phase
from commonbrain.invalidation.dependents import AffectedDependents
from commonbrain.jobs.service import JobsReply
from commonbrain.model.errors import CommonbrainError, InvalidInputError, RejectedError
from commonbrain.model.jobs import JobState
from commonbrain.model.scope import EVERYBODY
from commonbrain.web.rendering import ago, relation, words_of

_HEADLINE_CHARS: Final = 80
"""Of a headline in a sentence, which a cookie has to hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSecret:
    """A new key, shown in one response: it is in no cookie, log or address."""

    text: str = field(repr=False)
    prefix: str
    """The part by which the key is listed and revoked."""
    agent: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionOutcome:
    """One or more sentences, in which the name of what was changed can be a link."""

    text: str
    subject: str = ""
    """The words of the text that name what was changed; empty for none."""
    page: str | None = None
    """The page of what was changed."""
    secret: NewSecret | None = None
    """What is shown instead, once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done(Generic[RequestT, ReplyT]):
    """An operation that was run."""

    request: RequestT
    reply: ReplyT
    is_changed: bool
    """Whether anything differs from before."""
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """A change of memories that waits for a confirmation."""

    verb: str
    """What it would do, with `{}` for the memories."""
    subject: str = "it"
    """The memories in words."""
    is_forgetting: bool = False
    memories: tuple[MemoryRef, ...] = ()
    """The first of those that it would change."""
    more: int = 0
    """The number of those that are not listed."""
    notes: tuple[str, ...] = ()
    """What it would leave out, and what depends on the memories."""

    @property
    def question(self) -> str:
        """What a person is asked."""
        return f"{self.verb.format(self.subject)}?"

    @property
    def button(self) -> str:
        """The label of the button that carries it out."""
        return self.verb.format("").removesuffix(" of ").strip()


def describe_outcome(name: str, done: Done[Any, Any]) -> ActionOutcome:
    """Say what an operation did."""
    return _OUTCOMES[name](done)


def is_reading(request: Request) -> bool:
    """Return whether a request only reads, so that there is no outcome to describe."""
    return isinstance(request, VerbRequest) and request.verb.is_read_only


def describe_preview(request: Request, preview: object) -> Preview | None:
    """Say what a change would do; None if the operation itself says it."""
    match request, preview:
        case ReviseRequest(), ReviseResult():
            return Preview(verb=_VERBS["supersede"], notes=_notes_of(preview.affected))
        case ((ForgetRequest() | BulkRequest()), BulkChangeResult()):
            is_one = preview.count == 1 and preview.items
            named = quoted(preview.items[0].headline) if is_one else _count(preview.count)
            notes = (_left_out(preview), _dependents(preview), *_notes_of(preview.affected))
            return Preview(
                verb=_VERBS[request.op],
                subject=named,
                is_forgetting=request.op in _FORGETTING,
                memories=preview.items,
                more=preview.count - len(preview.items),
                notes=tuple(filter(None, (*notes, _MORE_MATCH if preview.is_more else ""))),
            )
        case _:
            return None


_VERBS: Final[Mapping[str, str]] = {
    "supersede": "Correct {}",
    "forget": "Forget {}",
    "prune": "Forget {}",
    "erase": "Erase {}",
    "undo": "Undo the changes of {}",
    "retag": "Change the tags of {}",
    "pin": "Pin {}",
    "unpin": "Unpin {}",
    "archive": "Archive {}",
    "review": "Confirm {}",
}
_FORGETTING: Final = frozenset({"forget", "prune", "erase"})
_MORE_MATCH: Final = "More match than can be changed at once."


def describe_nothing(preview: object) -> str | None:
    """Say why a change would change nothing; None if it would change something."""
    if not isinstance(preview, BulkChangeResult) or preview.count:
        return None
    return _join("There is nothing to change.", _left_out(preview))


def _dependents(preview: BulkChangeResult) -> str:
    """Say how many others depend on the memories, unless the effect on them is known."""
    count = preview.dependents_count
    if not count or preview.affected is not None:
        return ""
    them = "it" if preview.count == 1 else "them"
    return f"{_count(count, one='memory depends', many='memories depend')} on {them}."


def _notes_of(affected: AffectedDependents | None) -> tuple[str, ...]:
    """Say which dependents would need review, with the headlines of the first."""
    if affected is None or not affected.count:
        return ()
    more = " or more" if affected.is_more else ""
    counted = f"{affected.count:,}{more} {'depends' if affected.count == 1 else 'depend'}"
    first = (f"{quoted(one.headline)} ({one.id})" for one in affected.first)
    return (f"{counted} on it and would need review.", *first)


def refusal(error: CommonbrainError) -> CommonbrainError:
    """Return an error of an operation with the next step of a person.

    The hints of operations name the calls of an agent.
    """
    hint = _HINTS.get(error.code)
    is_refusal = isinstance(error, InvalidInputError | RejectedError)
    return type(error)(error.message, code=error.code, hint=hint) if hint and is_refusal else error


_HINTS: Final[Mapping[str, str]] = {
    "action_items_pending": "The boot preview lists action items; answer them with brain task ack.",
    "already_superseded": "Open what holds now, and correct that.",
    "duplicate": "Write what differs, or open the other memory and correct that.",
    "exists": "Open it, and correct that.",
    "mid_chain": "Open what holds now, and change that.",
    "not_an_action_item": "Mark the task as done instead.",
    "not_current": "Open what holds now, restore it, or decide on it in the review queue.",
    "version_conflict": "Load the page again to see what was changed, then decide again.",
}
"""The next step on the page, by the code of an error."""


def quoted(headline: str) -> str:
    """Return a headline in quotation marks, without its end if it is long."""
    is_long = len(headline) > _HEADLINE_CHARS
    shown = f"{headline[: _HEADLINE_CHARS - 1]}…" if is_long else headline.removesuffix(".")
    return f"“{shown}”"


def _memory(
    sentence: str, *, id_: str, headline: str | None, more: Sequence[str] = ()
) -> ActionOutcome:
    """Return a sentence about a memory, with its headline in place of `{}`, and more sentences."""
    subject = quoted(headline) if headline else id_
    text = _join(sentence.format(subject), *more)
    return ActionOutcome(text=text, subject=subject, page=f"/memory/{id_}")


def _join(*sentences: str) -> str:
    return " ".join(filter(None, sentences))


def _count(count: int, *, one: str = "memory", many: str = "memories") -> str:
    return f"{count:,} {one if count == 1 else many}"


def _affected(affected: AffectedDependents | None) -> str:
    """Say how many dependents need review, if any."""
    if affected is None or not affected.count:
        return ""
    if affected.count == 1:
        return "One memory that depends on it needs review now."
    more = " or more" if affected.is_more else ""
    return f"{affected.count:,}{more} memories that depend on it need review now."


def _revised(done: Done[ReviseRequest, ReviseResult]) -> ActionOutcome:
    request, reply = done.request, done.reply
    if reply.status is ChangeStatus.PROPOSED:
        return _proposed(reply.id)
    if reply.status is ChangeStatus.REFUSED:
        return ActionOutcome(text=_reason_of(reply))
    headline = reply.outcome.headline if reply.outcome else reply.headline
    if reply.status in {ChangeStatus.UNCHANGED, ChangeStatus.DRY_RUN}:
        sentence = _UNCHANGED.get(request.op, "{} was not changed.")
        return _memory(sentence, id_=reply.id, headline=headline)
    sentence = _REVISED.get(f"{request.op} {request.value}") or _REVISED[request.op]
    if request.op == "link":
        how = relation(request.value or "", is_outgoing=True)
        sentence = f"Added the link: {{}} {how} {request.other}."
    if request.op == "keep_both" and request.value:
        sentence = "Each holds in its own project now."
    more = (reply.hint or "", _affected(reply.affected))
    return _memory(sentence, id_=reply.id, headline=headline, more=more)


_REVISED: Final[Mapping[str, str]] = {
    "supersede": "Corrected: {} holds now, and the old text stays in the history.",
    "restore": "Restored {}.",
    "keep_both": "Both hold.",
    "resolve": "{} holds; it superseded the other.",
    "annotate": "Added a note to {}.",
    "rate": "Rated {}.",
    "rate up": "Rated {} as useful.",
    "rate down": "Rated {} as not useful.",
    "pin": "Pinned {}.",
    "unpin": "Unpinned {}.",
    "retag": "Changed the tags of {}.",
    "link": "Linked {}.",
    "unlink": "Removed a link of {}.",
    "status done": "Marked {} as done.",
    "status blocked": "Marked {} as blocked.",
    "status open": "Reopened {}.",
    "status": "Changed the status of {}.",
    "ack": "Answered {}.",
    "approve": "Approved {}.",
    "reject": "Rejected {}.",
    "review": "{} still holds.",
}
"""By verb, and by verb and value where the value decides."""
_UNCHANGED: Final[Mapping[str, str]] = {
    "annotate": "{} has this note already.",
    "pin": "{} was pinned already.",
    "unpin": "{} was not pinned.",
    "rate": "You rated {} this way already.",
    "retag": "{} had these tags already.",
    "review": "{} needed no review.",
    "restore": "{} holds already.",
    "status": "{} had this status already.",
}


def _proposed(id_: str) -> ActionOutcome:
    """Say that a change waits for a decision."""
    subject = "Your proposal"
    text = f"{subject} waits in the review queue for a person or agent with enough trust."
    return ActionOutcome(text=text, subject=subject, page=f"/memory/{id_}")


def _reason_of(reply: ReviseResult) -> str:
    """Return why a new text was refused."""
    refused = reply.outcome
    reason = (refused.reason if refused else None) or "The new text was refused."
    hint = _HINTS.get(refused.code or "", refused.hint or "") if refused else ""
    return _join(reason, hint)


def _forgotten(done: Done[ForgetRequest, BulkChangeResult]) -> ActionOutcome:
    request, reply = done.request, done.reply
    if request.op == "erase":
        # The cookie of the notice must not contain what was erased.
        return ActionOutcome(text=f"Erased {_count(reply.count)}. No copy of the text is left.")
    if reply.status is Phase.PROPOSED:
        return _proposed(reply.items[0].id)
    one, many, nothing = _FORGOTTEN[request.op]
    return _changed(reply, one=one, many=many, nothing=nothing)


_FORGOTTEN: Final = {
    "forget": ("Forgot {}.", "Forgot {}.", "There was nothing to forget."),
    "prune": ("Forgot {}.", "Forgot {}.", "There was nothing to forget."),
    "undo": (
        "Undone: {} is as it was before.",
        "Undone: {} are as they were before.",
        "There was nothing to undo.",
    ),
}
"""What is said of one memory, of several, and of none."""


def _edited(done: Done[BulkRequest, BulkChangeResult]) -> ActionOutcome:
    request, reply = done.request, done.reply
    one, many = _EDITED[request.op]
    return _changed(reply, one=one, many=many, nothing="None of them was changed.")


_EDITED: Final = {
    "retag": ("Changed the tags of {}.", "Changed the tags of {}."),
    "pin": ("Pinned {}.", "Pinned {}."),
    "unpin": ("Unpinned {}.", "Unpinned {}."),
    "archive": ("Archived {}.", "Archived {}."),
    "review": ("{} still holds.", "{} still hold."),
}


def _changed(reply: BulkChangeResult, *, one: str, many: str, nothing: str) -> ActionOutcome:
    """Say what a change of any number of memories did, and what it left out."""
    more = (_left_out(reply), _affected(reply.affected))
    if reply.status is not Phase.DONE or not reply.count:
        return ActionOutcome(text=_join(nothing, *more))
    if reply.count == 1 and reply.items:
        [only] = reply.items
        return _memory(one, id_=only.id, headline=only.headline, more=more)
    return ActionOutcome(text=_join(many.format(_count(reply.count)), *more))


def _left_out(reply: BulkChangeResult) -> str:
    if not reply.skipped:
        return ""
    first = reply.skipped[0]
    if reply.skipped_count == 1:
        return f"{quoted(first.headline)} stays as it is. {first.why or ''}".strip()
    named = f"{quoted(first.headline)}, for example: {first.why}" if first.why else ""
    return _join(f"{reply.skipped_count:,} stay as they are.", named)


def _messaged(done: Done[MessageRequest, MessageResponse]) -> ActionOutcome:
    request, reply = done.request, done.reply
    if reply.sent is not None:
        everybody = EVERYBODY in reply.sent.to
        to = "all" if everybody else ", ".join(reply.sent.to)
        subject = "the reply" if request.op == "reply" else "the message"
        text = _join(f"Sent {subject} to {to}.", *reply.sent.warnings)
        return ActionOutcome(text=text, subject=subject, page=f"/thread/{reply.sent.thread}")
    if reply.threads:
        return _thread_changed(reply, request.status, is_changed=done.is_changed)
    messages = reply.messages or ()
    if request.op == "ack" and messages:
        [one] = messages
        sentence = "Acknowledged {}."
        return _memory(sentence, id_=one.id, headline=one.headline)
    return ActionOutcome(
        text=f"Marked {_count(len(messages), one='message', many='messages')} as read."
    )


def _thread_changed(
    reply: MessageResponse, status: str | None, *, is_changed: bool
) -> ActionOutcome:
    assert reply.threads is not None  # noqa: S101 the verb returns it
    [thread] = reply.threads
    subject = quoted(thread.subject)
    if status is None:
        text = f"Changed the tags of {subject}."
    elif not is_changed:
        text = f"{subject} was {status} already."
    else:
        text = f"{'Closed' if status == 'closed' else 'Reopened'} {subject}."
    return ActionOutcome(text=text, subject=subject, page=f"/thread/{thread.id}")


def _leased(done: Done[SessionRequest, SessionResponse]) -> ActionOutcome:
    request, reply = done.request, done.reply
    lease = reply.lease
    if lease is None:
        return ActionOutcome(text=f"Saved the {words_of(request.op)}.")
    ends = f" The claim ends {ago(lease.until, done.now)}." if lease.until else ""
    return _memory(_LEASED[lease.status] + ends, id_=lease.id, headline=lease.headline)


_LEASED: Final[Mapping[LeaseStatus, str]] = {
    LeaseStatus.CLAIMED: "Claimed {} for you.",
    LeaseStatus.RENEWED: "Renewed your claim of {}.",
    LeaseStatus.RELEASED: "Released {}.",
    LeaseStatus.FREE: "{} was not claimed.",
}


def _job_changed(done: Done[JobRequest, JobsReply]) -> ActionOutcome:
    request, reply = done.request, done.reply
    [job] = reply.jobs
    name = f"the {words_of(job.kind)} job"
    match request.op:
        case "cancel" if job.state is JobState.CANCELLED:
            text = f"Cancelled {name}. What it had completed stays."
        case "cancel":
            text = f"{name.capitalize()} is {job.state} and was not cancelled."
        case "retry":
            text = f"Started {name} again; it waits for a worker."
        case _:
            text = f"Started {name}; it waits for a worker."
    return ActionOutcome(text=text)


_OUTCOMES: Final[Mapping[str, Callable[[Done[Any, Any]], ActionOutcome]]] = {
    "bulk": _edited,
    "forget": _forgotten,
    "job": _job_changed,
    "message": _messaged,
    "revise": _revised,
    "session": _leased,
}
"""By operation."""
