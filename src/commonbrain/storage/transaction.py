"""One transaction of a tenant: its repositories, each imported and made when it is first used."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from commonbrain.model.values import dataclass
from commonbrain.storage.interface import Index
from commonbrain.storage.sql.context import SqlContext

if TYPE_CHECKING:
    from commonbrain.storage.repositories.action_items import AckRepository, BriefingRepository
    from commonbrain.storage.repositories.audit import AuditRepository
    from commonbrain.storage.repositories.changes import ChangeRepository
    from commonbrain.storage.repositories.credentials import CredentialRepository
    from commonbrain.storage.repositories.embedding_spaces import MissingEmbeddings
    from commonbrain.storage.repositories.jobs import JobRepository
    from commonbrain.storage.repositories.learning import (
        EvaluationRepository,
        ModelRepository,
        RecallLogRepository,
    )
    from commonbrain.storage.repositories.links import (
        AnnotationRepository,
        GraphRepository,
        LinkRepository,
    )
    from commonbrain.storage.repositories.listing import ListingRepository
    from commonbrain.storage.repositories.memories import MemoryRepository
    from commonbrain.storage.repositories.messages import MessageRepository
    from commonbrain.storage.repositories.page_sessions import PageSessionRepository
    from commonbrain.storage.repositories.records import RecordRepository, ToolEventRepository
    from commonbrain.storage.repositories.reviews import ConflictRepository, ReviewRepository
    from commonbrain.storage.repositories.sessions import ScratchpadRepository, SessionRepository
    from commonbrain.storage.repositories.threads import ThreadRepository
    from commonbrain.storage.repositories.trends import TrendRepository


@dataclass(frozen=True)
class Transaction:
    """The repositories of one tenant, read from one snapshot and changed together or not at all."""

    work: SqlContext

    @cached_property
    def index(self) -> Index:
        """Full text and vectors."""
        return self.work.dialect.index(self.work)

    @cached_property
    def missing_embeddings(self) -> MissingEmbeddings:
        """Memories without vectors; counting them needs no index."""
        from commonbrain.storage.repositories.embedding_spaces import MissingEmbeddings  # noqa: PLC0415

        return MissingEmbeddings(work=self.work, space_id=self.work.dialect.space_id)

    @cached_property
    def memories(self) -> MemoryRepository:
        """The memories."""
        from commonbrain.storage.repositories.memories import MemoryRepository  # noqa: PLC0415

        return MemoryRepository(self.work)

    @cached_property
    def listing(self) -> ListingRepository:
        """Lists of memories for people."""
        from commonbrain.storage.repositories.listing import ListingRepository  # noqa: PLC0415

        return ListingRepository(self.work)

    @cached_property
    def threads(self) -> ThreadRepository:
        """Threads of messages."""
        from commonbrain.storage.repositories.threads import ThreadRepository  # noqa: PLC0415

        return ThreadRepository(self.work)

    @cached_property
    def sessions(self) -> SessionRepository:
        """Sessions of agents."""
        from commonbrain.storage.repositories.sessions import SessionRepository  # noqa: PLC0415

        return SessionRepository(self.work)

    @cached_property
    def messages(self) -> MessageRepository:
        """Messages and their recipients."""
        from commonbrain.storage.repositories.messages import MessageRepository  # noqa: PLC0415

        return MessageRepository(self.work)

    @cached_property
    def links(self) -> LinkRepository:
        """Links between memories."""
        from commonbrain.storage.repositories.links import LinkRepository  # noqa: PLC0415

        return LinkRepository(self.work)

    @cached_property
    def changes(self) -> ChangeRepository:
        """The versions of memories."""
        from commonbrain.storage.repositories.changes import ChangeRepository  # noqa: PLC0415

        return ChangeRepository(self.work)

    @cached_property
    def annotations(self) -> AnnotationRepository:
        """Annotations of memories."""
        from commonbrain.storage.repositories.links import AnnotationRepository  # noqa: PLC0415

        return AnnotationRepository(self.work)

    @cached_property
    def records(self) -> RecordRepository:
        """Receipts, feedback and other records about memories."""
        from commonbrain.storage.repositories.records import RecordRepository  # noqa: PLC0415

        return RecordRepository(self.work)

    @cached_property
    def audit(self) -> AuditRepository:
        """The audit."""
        from commonbrain.storage.repositories.audit import AuditRepository  # noqa: PLC0415

        return AuditRepository(self.work)

    @cached_property
    def graph(self) -> GraphRepository:
        """Walks over links."""
        from commonbrain.storage.repositories.links import GraphRepository  # noqa: PLC0415

        return GraphRepository(self.work)

    @cached_property
    def reviews(self) -> ReviewRepository:
        """Reviews of invalidated memories."""
        from commonbrain.storage.repositories.reviews import ReviewRepository  # noqa: PLC0415

        return ReviewRepository(self.work)

    @cached_property
    def conflicts(self) -> ConflictRepository:
        """Conflicts between memories."""
        from commonbrain.storage.repositories.reviews import ConflictRepository  # noqa: PLC0415

        return ConflictRepository(self.work)

    @cached_property
    def acks(self) -> AckRepository:
        """Acknowledgements of action items."""
        from commonbrain.storage.repositories.action_items import AckRepository  # noqa: PLC0415

        return AckRepository(self.work)

    @cached_property
    def briefing(self) -> BriefingRepository:
        """The rows of a briefing."""
        from commonbrain.storage.repositories.action_items import BriefingRepository  # noqa: PLC0415

        return BriefingRepository(self.work)

    @cached_property
    def scratchpad(self) -> ScratchpadRepository:
        """Notes of sessions."""
        from commonbrain.storage.repositories.sessions import ScratchpadRepository  # noqa: PLC0415

        return ScratchpadRepository(self.work)

    @cached_property
    def credentials(self) -> CredentialRepository:
        """Agents and their keys."""
        from commonbrain.storage.repositories.credentials import CredentialRepository  # noqa: PLC0415

        return CredentialRepository(self.work)

    @cached_property
    def page_sessions(self) -> PageSessionRepository:
        """Sessions of the web page."""
        from commonbrain.storage.repositories.page_sessions import PageSessionRepository  # noqa: PLC0415

        return PageSessionRepository(self.work)

    @cached_property
    def jobs(self) -> JobRepository:
        """Background jobs."""
        from commonbrain.storage.repositories.jobs import JobRepository  # noqa: PLC0415

        return JobRepository(self.work)

    @cached_property
    def events(self) -> ToolEventRepository:
        """Events of calls."""
        from commonbrain.storage.repositories.records import ToolEventRepository  # noqa: PLC0415

        return ToolEventRepository(self.work)

    @cached_property
    def trends(self) -> TrendRepository:
        """Figures over time."""
        from commonbrain.storage.repositories.trends import TrendRepository  # noqa: PLC0415

        return TrendRepository(self.work)

    @cached_property
    def recall_log(self) -> RecallLogRepository:
        """Traces of recalls."""
        from commonbrain.storage.repositories.learning import RecallLogRepository  # noqa: PLC0415

        return RecallLogRepository(self.work)

    @cached_property
    def models(self) -> ModelRepository:
        """Trained models."""
        from commonbrain.storage.repositories.learning import ModelRepository  # noqa: PLC0415

        return ModelRepository(self.work)

    @cached_property
    def evaluations(self) -> EvaluationRepository:
        """Evaluations of this store."""
        from commonbrain.storage.repositories.learning import EvaluationRepository  # noqa: PLC0415

        return EvaluationRepository(self.work)

    def scrub(self, memory_id: int) -> Mapping[str, int]:
        """Remove the text of a memory from every table; its id stays as a forgotten memory.

        Returns:
            The number of rows that were emptied or deleted, for every place searched.

        """
        from commonbrain.storage.repositories.erasure import erase_text  # noqa: PLC0415
        from commonbrain.storage.repositories.memory_rows import forget_decoded  # noqa: PLC0415

        known = self.memories.get([memory_id])
        forget_decoded(memory_id)
        self.index.drop(memory_id)
        kind = known[memory_id].kind
        return {"full text": 1, **erase_text(self.work, memory_id, kind=kind)}
