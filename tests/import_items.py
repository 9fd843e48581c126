"""What an importer read, by sort."""

from collections.abc import Mapping, Sequence

from commonbrain.model.kinds import Kind, MessageDetail
from commonbrain.model.memory import Draft
from commonbrain.transfer.importer import ImportItem, OmittedContent, Unreadable


def drafts(pieces: Sequence[ImportItem]) -> list[Draft]:
    return [one.content for one in pieces if isinstance(one.content, Draft)]


def messages(pieces: Sequence[ImportItem]) -> list[tuple[str | None, str]]:
    return [
        (one.detail.sender if isinstance(one.detail, MessageDetail) else None, one.body)
        for one in drafts(pieces)
        if one.kind == Kind.MESSAGE
    ]


def omitted(pieces: Sequence[ImportItem]) -> Mapping[str, int]:
    return {
        one.content.what: one.content.count
        for one in pieces
        if isinstance(one.content, OmittedContent)
    }


def unreadable(pieces: Sequence[ImportItem]) -> list[str]:
    return [one.content.where for one in pieces if isinstance(one.content, Unreadable)]


def subjects(pieces: Sequence[ImportItem]) -> list[str]:
    return list(dict.fromkeys(one.thread.subject for one in drafts(pieces) if one.thread))
