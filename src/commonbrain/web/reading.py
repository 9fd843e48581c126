"""The operations by which people read: as for agents, but what a person sees is no use.

An agent's recall and get restore a memory's strength and teach the ranking; a person who reads the
page to check a memory should change neither.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from commonbrain.api.operations.boot import BOOT, BootRequest
from commonbrain.api.operations.get import GET, GetRequest, GetResponse
from commonbrain.api.operations.recall import RECALL, RecallRequest
from commonbrain.client import Brain
from commonbrain.coordination.briefing import Briefing
from commonbrain.model.errors import NotFoundError
from commonbrain.model.limits import IDS_PER_GET_MAX
from commonbrain.model.recall_result import RecallResult
from commonbrain.retrieval.get import MemoryView
from commonbrain.retrieval.plan import RecallOptions
from commonbrain.web.visit import Visit


def _recall(brain: Brain, request: RecallRequest) -> RecallResult:
    options = RecallOptions(**request.model_dump(exclude={"query"}), bump=False)
    return brain.recall(request.query, **options)


def _get(brain: Brain, request: GetRequest) -> GetResponse:
    return GetResponse.of(brain.get_several(request.id, views=request.views, bump=False))


def _preview_boot(brain: Brain, request: BootRequest) -> Briefing:
    return brain.preview_boot(request.project, request.task)


def read_headlines(visit: Visit, ids: Iterable[str]) -> Mapping[str, str]:
    """Return the headlines of memories by id; none if one of them is gone or not visible."""
    distinct = list(dict.fromkeys(ids))[:IDS_PER_GET_MAX]
    if not distinct:
        return {}
    try:
        shown = visit.call(READ_GET, GetRequest(id=distinct))
    except NotFoundError:
        return {}
    return {one.id: one.headline for one in (shown, *shown.more)}


def revision_ids(memory: MemoryView) -> list[str]:
    """Return the ids of a memory's chain of revisions, oldest first; needs the view history."""
    return list(dict.fromkeys(one.id for one in memory.history or ()))


READ_RECALL: Final = replace(RECALL, handle=_recall)
READ_GET: Final = replace(GET, handle=_get)
"""Takes ids only, no skill."""
PREVIEW_BOOT: Final = replace(BOOT, handle=_preview_boot)
"""Starts no session; takes the project and the task."""
