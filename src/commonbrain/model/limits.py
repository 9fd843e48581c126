"""Limits: how much one call may pass, request, or wait for."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from commonbrain.model.values import dataclass, field

TEXT_BYTES_MAX: Final = 16 * 1024
"""Longest body of any kind, in bytes of UTF-8."""
ATTACHMENT_BYTES_MAX: Final = 256 * 1024
"""Longest attachment as JSON: a recall reads those of its candidates, about a hundred."""
HEADLINE_WORDS_MAX: Final = 15
HEADLINE_CHARS_MAX: Final = 120
ATOMIC_WORDS_MAX: Final = 400
"""Longest body of a kind that must state one thing (rule, fact, task), in words."""
ATOMIC_WORDS_ADVISED: Final = 200
"""Above it such a body is stored with a warning."""
NAME_CHARS_MAX: Final = 128
"""Characters of agents, projects, labels, tags and session names."""
SOURCE_REF_CHARS_MAX: Final = 512
REASON_CHARS_MAX: Final = 1000
ITEMS_PER_CALL_MAX: Final = 100
LIST_VALUES_MAX: Final = 1000
"""Values in one list among the arguments of a call; most lists have a lower limit of their own."""
ARGUMENT_VALUES_MAX: Final = 20_000
"""Values in all arguments of a call, without attachments: a hundred items with full lists fit."""
ARGUMENT_DEPTH_MAX: Final = 16
"""Levels of lists and objects in the arguments of a call, without attachments."""
INVALID_FIELDS_SHOWN_MAX: Final = 20
"""Invalid fields that the refusal of one call names."""
TAGS_MAX: Final = 50
CITATIONS_MAX: Final = 8
"""Places in code that one memory cites; a recall checks those of all that it shows."""
ENTITIES_MAX: Final = 50
"""Entities of each type found in one text: tags, people, references, topics."""
HANDOFF_CHARS_MAX: Final = 2000
"""Characters of a handoff, all parts together as stored."""
NOTE_CHARS_MAX: Final = 2000
"""Characters of an annotation."""
FORGET_AT_ONCE_MAX: Final = 500
"""Memories that one call forgets or erases; the reply says if more are left."""
CASCADE_AT_ONCE: Final = 2000
"""Reviews written in the transaction of the change, in addition to direct dependents."""
CASCADE_STEP: Final = 5000
"""Reviews written in each further transaction; other writers run in between."""
CASCADE_STEPS_MAX: Final = 100
"""Further transactions on the caller's time; the next writer continues."""
CAUSES_AT_ONCE: Final = 500
"""Invalid memories processed in one step."""
PREVIEW_COUNT_MAX: Final = 2000
"""Dependents that a preview counts."""
FORGET_ALONE_MAX: Final = 20
"""Memories of other sessions that a model forgets within a day without a person."""
CONFIRM_ABOVE: Final = 5
"""Dependents that a change may affect before it has to be confirmed."""
SCANNED_MAX: Final = 10_000
"""Memories that a selector searches."""
PRUNE_AT_ONCE_MAX: Final = 50
PRUNE_DAYS_MIN: Final = 30
"""Days since the last access within which nothing is pruned."""
DAYS_MAX: Final = 36_500
"""A century: the longest time that a caller may give."""
UNDO_CHANGES_MAX: Final = 2000
UNDO_DAYS_MAX: Final = 31

QUERY_CHARS_MAX: Final = 2000
RECALL_ITEMS_DEFAULT: Final = 12
RECALL_ITEMS_MAX: Final = 100
RECALL_TOKENS_DEFAULT: Final = 1400
RECALL_TOKENS_MIN: Final = 64
RECALL_TOKENS_MAX: Final = 32_000
TRUST_MIN_DEFAULT: Final = 0.5
"""Trust below which recall skips memories; untrusted web content has 0.35."""
DORMANT_BELOW: Final = 0.1
"""Strength of a dormant memory; a fact that is never accessed falls below it after 23 days."""
SALIENCE_MIN: Final = 0.2
"""Salience below which a new memory starts archived."""
LEXICAL_CANDIDATES: Final = 60
"""Candidates of the lexical retriever; far more than fit into a result."""
VECTOR_CANDIDATES: Final = 60
"""Candidates of the vector retriever."""
PERIOD_CANDIDATES: Final = 20
"""Candidates of the period that a query names, by words, by meaning and by recency each."""
PERIOD_LISTED: Final = 100
"""Newest memories of a period, among which a question for that time alone chooses."""
PERIOD_CHANGES_SEARCHED: Final = 2000
"""Latest changes of a period that are searched for events that came again; some milliseconds."""
SKILLS_MAX: Final = 5
"""Skills above the other results of one recall."""
EXPANSION_MAX: Final = 4
"""Memories added to one recall for their links; never more than half of its items."""
ANNOTATIONS_MAX: Final = 2
"""Annotations shown with one item, the newest; get shows all."""
DEADLINE_MS_MAX: Final = 600_000
RERANK_MS_MAX: Final = 50.0
"""Milliseconds for a model to rank the candidates of one recall; after that fixed weights apply."""
MODELS_LOADED_MAX: Final = 64
"""Models that one process holds in memory, some hundred KB each.

The least recently used is dropped.
"""
MODELS_SHOWN_MAX: Final = 100
CANARY_AGENTS_MAX: Final = 50
"""Agents that a canary can name."""
EMBEDDINGS_AT_ONCE_MAX: Final = 4
"""Threads that wait for an embedder on behalf of recalls with a deadline."""
IDS_PER_GET_MAX: Final = 20
SIMILAR_HINTS_MAX: Final = 5
OMITTED_IDS_MAX: Final = 20

JOURNAL_ENTRIES_MAX: Final = 5000
"""Traces, accesses, heartbeats and events waiting in memory; beyond it the oldest are dropped."""
IMPORT_BATCH: Final = 64
"""Drafts embedded and committed together by an import."""
IMPORT_BATCH_BYTES: Final = 4 * 1024 * 1024
"""Bytes after which a batch of foreign pieces ends: in memory they can take five times as many."""
EMBED_BATCH: Final = 64
"""Pending memories embedded and committed together."""
EMBED_BATCH_BYTES: Final = 64 * 1024
"""Bytes of their texts, unless one is longer: at most some seconds between two commits."""
EMBEDDED_WINDOWS_MAX: Final = 64
"""Windows of one text that are embedded; what follows is found by its words.

Prose of 16 KiB has 20 to 35 in English, German or Chinese, and 56 in Korean, the most of those
measured; a log has 55, and only lists of numbers and runs of punctuation have up to 110.
"""
AWAITED_WINDOWS_MAX: Final = 8
"""Windows of a text that a shared server embeds before it answers; a longer text is embedded later.

A statement of 400 words, the longest rule, fact or task, has 4 in English and 6 in German. Eight
take half a second of one slow core.
"""
CALL_WINDOWS_MAX: Final = 256
"""Windows that a shared server embeds before it answers one call.

It is as many as the calls of one tenant may have waiting: some seconds of work on two cores.
"""
SPACE_PASSES_MAX: Final = 3
"""Passes over a tenant for missing vectors; texts that the embedder rejects are left."""
SPACE_DELETED_AT_ONCE: Final = 2000
"""Vectors of a dropped space deleted in one transaction."""
COMPARED_MAX: Final = 200
"""Queries by which two spaces are compared; some seconds with the default embedder."""
COMPARED_PAGE: Final = 500
COMPARED_PAGES_MAX: Final = 40
"""Pages of the recall log read for them: 20,000 recalls."""
EVENT_ARGS_CHARS_MAX: Final = 80
"""Characters of a call's arguments in a tool event."""
SLOW_CALL_MS: Final = 10_000.0
"""Milliseconds from which a call counts as slow."""
EVENTS_WINDOW: Final = 10_000
"""Latest calls used for the figures."""
FAULTS_MAX: Final = 500
"""Latest failed calls that a process remembers."""
EARLY_EVENTS_MAX: Final = 1000
"""Tool events that wait on disk for a session to boot; beyond it the oldest are dropped."""
EARLY_EVENTS_RETENTION_H: Final = 24
PROBE_S: Final = 5.0
"""Seconds for a health probe of one dependency."""
LOCK_TIMEOUT_S: Final = 30.0
"""Seconds that a writer waits for others; the measured worst case with 8 processes is 5 s."""
RAW_TEXT_BYTES_MAX: Final = 1024 * 1024
"""Longest text that is split into chunks, in bytes; import longer ones."""
CHUNKS_MAX: Final = 1000
"""Chunks of one raw text, which are embedded and stored together."""
SOURCES_MAX: Final = 50
"""Sources of one derived memory."""
REPLY_RETENTION_S: Final = 24 * 3600
"""Seconds for which a reply is available under its idempotency key."""

HOOK_START_TIMEOUT_S: Final = 5.0
"""Seconds for the hook at the start of a session, while its client shows nothing."""
HOOK_PROMPT_TIMEOUT_S: Final = 1.5
"""Seconds that a user waits for the hook between prompt and agent.

A cold start takes about 0.8 s on a laptop, the embedding model included.
"""
HOOK_WRITE_TIMEOUT_S: Final = 10.0
"""Seconds for a hook that writes, mostly waiting for other writers."""
SHOWN_MAX: Final = 300
"""Memories remembered as shown per session: sixty prompts with the most that a hook shows."""
HOOK_NOTES_TOKENS: Final = 500
"""Tokens of a session's notes shown to it after a compaction."""
HOOK_PROMPT_TOKENS: Final = 600
"""Tokens that a hook may add to each prompt; each turn of a session pays for them."""
HOOK_EDIT_TIMEOUT_S: Final = 3.0
"""Seconds that an agent waits for the hook on an edit or a command.

Most end within 0.2 s, before the store is opened.
"""
HOOK_EDIT_TOKENS: Final = 200
"""Tokens that a hook may add to an edit or a command."""
HOOK_PRIMER_TOKENS: Final = 300
"""Tokens that a hook may show to a subagent that starts."""
EDIT_CHARS_MAX: Final = 50_000
"""Characters of an edit that are read for symbols."""
EDIT_SYMBOLS_MAX: Final = 60
"""Symbols of an edit that are looked up, the first ones."""
HOOK_SILENT_DAYS: Final = 7
"""Days after which a connected client whose hooks did not run is reported."""
PATH_CHARS_MAX: Final = 4096
"""Characters of a session's folder, as many as Linux allows; a longer one is not stored."""
SESSION_IDLE_MINUTES: Final = 5
"""As long as prompt caches live; an idle session goes on."""
SESSION_SILENT_HOURS: Final = 24
"""A day, so that a night does not end the session of another host."""
HTTP_SESSION_IDLE_MINUTES: Final = 120
"""Longer than a break: most clients do not say when they leave, and a later call goes on."""
TASK_CHARS_MAX: Final = 500
"""Characters of a session's task."""
SESSION_METADATA_MAX: Final = 16
"""Metadata of a session: branch, worktree, model and more."""
METADATA_NAME_CHARS_MAX: Final = 64
METADATA_CHARS_MAX: Final = 200
"""Characters of one value, enough for most paths."""
SESSIONS_SHOWN_MAX: Final = 100
"""Sessions on one page, latest heartbeat first."""
SKILLS_PAGE_MAX: Final = 100
"""Skills on one page, by name."""
PROBES_MAX: Final = 20
"""Session processes checked by one boot or list; the next call checks others."""
SILENT_ENDED_MAX: Final = 200
"""Silent sessions that one boot or list ends."""
RECIPIENTS_MAX: Final = 100
"""Named recipients of one message."""
SUBJECT_CHARS_MAX: Final = 255
MESSAGES_PAGE_DEFAULT: Final = 20
MESSAGES_PAGE_MAX: Final = 100
"""Messages, threads or assignments that one call lists."""
TASKS_SHOWN_MAX: Final = 100
"""Tasks on one page, most urgent first."""
AGENDA_DEFAULT: Final = 10
"""Default number of review queue items of each category."""
AGENDA_MAX: Final = 100
REVIEW_CHARS_MAX: Final = 5_000
"""Of each text in the review queue; two with every word marked stay below 150 kB on the page."""
NETWORKS_MAX: Final = 50
"""Entries in the allow list of one key."""
KEYS_MAX: Final = 1000
"""Valid keys, and agents, of one tenant, so that every list is complete."""
ACCESS_CACHE_S: Final = 10.0
"""Seconds for which a process caches a key, an agent and a policy.

Within this time every process learns that a key was revoked or a tenant suspended.
"""
USES_APART_S: Final = 300.0
"""Seconds between two records of the last use of a key by one process."""
VERIFIED_MAX: Final = 10_000
"""Verified credentials that one process caches; the least recently used is dropped."""
ROTATION_MINUTES_DEFAULT: Final = 60
"""Minutes for which a rotated key remains valid."""
ROTATION_MINUTES_MAX: Final = 7 * 24 * 60
KEY_CALLS_PER_MINUTE: Final = 600
TENANT_CALLS_PER_MINUTE: Final = 6000
WRONG_CREDENTIALS_PER_MINUTE: Final = 30
"""Wrong credentials from one address; beyond it unknown ones are rejected without hashing."""
PAGE_LOGINS_PER_MINUTE: Final = 30
"""Logins to the web page from one address, right or wrong: enough for an office behind one."""
PROVIDER_LOGIN_MINUTES: Final = 10
"""Time to log in at the identity provider; RFC 6749 recommends that codes live no longer."""
PAGE_SESSIONS_MAX: Final = 20
"""Sessions of the web page of one agent; the next login ends the oldest."""
PAGE_USES_APART_S: Final = 60.0
"""Seconds between two records of the last use of a session of the page; it may end so much earlier.
"""
REFUSALS_APART_S: Final = 60.0
"""Seconds within which equal rejections share one audit row with a counter."""
REFUSALS_APART_MAX: Final = 1000
"""Types of rejections that one process counts at once; beyond it they are only logged."""
REFUSAL_WRITE_WAIT_S: Final = 1.0
"""Seconds for which a rejected call waits until the access audit has it; it is written anyway."""
USAGE_CACHE_S: Final = 60.0
"""Seconds for which a process uses its count of a tenant's memories, adding its own writes."""

JOB_ATTEMPTS: Final = 3
"""Failures after which a job is a dead letter."""
JOB_LEASE_S: Final = 60.0
"""Seconds of a job's lease unless renewed.

After that another worker takes the job of a killed one.
"""
JOB_BACKOFF_MAX_S: Final = 3600.0
JOB_FAULT_CHARS_MAX: Final = 500
JOB_GIVEN_BYTES_MAX: Final = 16 * 1024
"""Bytes of a job's arguments as JSON."""
JOB_REACHED_BYTES_MAX: Final = 2 * 1024 * 1024
"""Bytes of a job's progress as JSON, which is written at each step."""
JOBS_PAGE_DEFAULT: Final = 20
JOBS_PAGE_MAX: Final = 100
JOBS_DUE_AT_ONCE: Final = 8
"""Due jobs read by one search for work; each of several workers takes another."""
JOB_SLICE_S: Final = 10.0
"""Seconds after which a long job yields to jobs that wait; other tenants wait for that long."""
JOBS_LIVE_MAX: Final = 1000
"""Unfinished jobs of one tenant."""
RETAINED_AT_ONCE: Final = 1000
"""Rows that retention deletes in one transaction."""
CURSOR_CHARS_MAX: Final = 1024
"""Characters of a cursor: a key of a few ids, times and names."""
MORE_COUNTED_MAX: Final = 1000
"""Rows after a page that are counted; beyond it a count says at least so many."""
SUSPECT_RULES_MAX: Final = 1000
"""Rules that are compared with each other when the review queue is listed, the newest."""
SUSPECT_PAIRS_MAX: Final = 10_000
"""Similar pairs of them whose texts are compared, the nearest ones that nobody settled: 0.5 s."""
LIST_PAGE_DEFAULT: Final = 50
LIST_PAGE_MAX: Final = 200
LIST_WALKED_MAX: Final = 4096
"""Memories that a page walks in the order of its list before all are filtered and then sorted.

Walking them takes a few milliseconds, as much as sorting a few thousand.
"""
FACET_VALUES_MAX: Final = 20
"""Values of a facet, the most frequent ones."""
FACET_MONTHS_MAX: Final = 240
"""Months of a timeline: twenty years."""
AUDIT_PAGE_DEFAULT: Final = 50
AUDIT_PAGE_MAX: Final = 200
LEDGER_PAGE_DEFAULT: Final = 20
LEDGER_PAGE_MAX: Final = 100
"""Recalls in one page of the recall log."""
SALIENCE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes of one salience model; one of 150 small trees has some hundred thousand."""
SALIENCE_MS_MAX: Final = 50.0
"""Milliseconds for a model to score the memories of one call; after that the rule applies."""
SETTLED_MIN: Final = 200
"""Memories with a known outcome required for training."""
USEFUL_MIN: Final = 30
"""Useful memories, and as many others, required for training.

Fewer teach names instead of reasons.
"""
SAMPLES_MAX: Final = 50_000
"""Latest memories that one model is trained on."""
AUTHORS_MAX: Final = 1000
"""Authors whose history a model contains, the most active ones."""
LEARNING_PAGE: Final = 200
"""Memories or recalls read at once for training."""
BLOB_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes of one artifact; a model of a thousand trees has a few million."""
BLOBS_S: Final = 10.0
"""Seconds for an object store to answer; no reader waits for it."""
RETENTION_DAYS_MAX: Final = 36_500
"""A century; use no limit for longer."""
RETENTIONS_MAX: Final = 50
"""Retention rules of one tenant, each a condition of one query."""
MAINTAINED_AT_ONCE: Final = 100
"""Memories that maintenance changes in one transaction; other writers run in between."""
MAINTAINED_SHOWN_MAX: Final = 5
"""Examples of each type in a maintenance preview."""
CHECKED_AT_ONCE: Final = 1000
"""Rows that maintenance checks in one page."""
CLIQUES_MAX: Final = 200
"""Groups of near duplicates that one search returns, most similar first."""
CLIQUE_STEPS_MAX: Final = 20_000
"""Steps of the search for groups: about a second if all memories are similar."""
CONSOLIDATED_RULES_MAX: Final = 500
"""Rules in one consolidation report."""
CONSOLIDATED_SHOWN_MAX: Final = 50
"""Groups that one report names."""
NEAR_PAIRS_MAX: Final = 2000
"""Similar pairs that a report is made from; they are stored with the job between steps."""
JOB_RETENTION_DAYS: Final = 30
"""Days for which a finished job is kept."""
DEAD_LETTER_RETENTION_DAYS: Final = 180
"""Days for which a dead letter is kept."""
OUTBOX_RETENTION_DAYS: Final = 7
"""Days for which events wait for a worker."""
STAGED_BYTES_MAX: Final = 2 * 1024 * 1024 * 1024
"""Bytes of a file that a job reads or writes: enough for a million memories."""
STAGED_PART_BYTES: Final = 16 * 1024 * 1024
"""Bytes of such a file held in memory at once."""
STAGED_FILES_MAX: Final = 100_000
"""Files in an uploaded folder."""
UNPACKED_BYTES_MAX: Final = 4 * 1024 * 1024 * 1024
"""Bytes of all files of such a folder, unpacked."""
UPLOAD_BYTES_MAX: Final = 32 * 1024 * 1024
"""Bytes of one upload to a server."""
SENT_UNPACKED_BYTES_MAX: Final = 512 * 1024 * 1024
"""Bytes of all files of an upload to a server, unpacked: a year of sessions of one person."""
SENT_FILES_MAX: Final = 10_000
"""Files in an upload to a server."""
SENT_PIECES_MAX: Final = 100_000
"""Pieces that the import of an upload to a server reads: twenty minutes of embedding."""
PACKED_RATIO_MAX: Final = 100
"""Bytes that a byte of a sent zip unpacks to; text gives 4 to 20, zeros a thousand."""
PACKED_RATIO_FROM_BYTES: Final = 16 * 1024 * 1024
"""Unpacked bytes from which that counts; less harms nobody."""
PACKED_DEPTH_MAX: Final = 64
"""Folders above a file in an uploaded folder."""
PACKED_ENTRY_BYTES: Final = 400
"""Bytes that the list of files in a zip takes for each file on average, with long paths."""
SENT_IMPORTS_MAX: Final = 20
"""Unfinished imports of uploads to a server of one tenant: their files take disk space."""
UPLOADS_AT_ONCE_MAX: Final = 4
"""Uploads that one process receives at once, each into a temporary file."""
UPLOADS_PER_TENANT_MAX: Final = 2
"""Those of one tenant, so that slow senders of one cannot keep out all others."""
UPLOAD_RETENTION_DAYS: Final = 7
"""Days for which an upload waits for its job."""
ARCHIVE_RETENTION_H: Final = 24
"""Hours for which the output of a job waits to be fetched."""
EVALUATED_DEFAULT: Final = 100
"""Questions of each kind in a self-evaluation, for intervals of 0.08 at most."""
EVALUATED_MIN: Final = 20
"""With fewer questions, intervals are wider than any difference."""
EVALUATED_MAX: Final = 1000
EVALUATED_AT_ONCE: Final = 20
"""Questions between two steps of the evaluation job."""
EVALUATION_MEMORIES_MIN: Final = 200
"""Memories from which a store is evaluated automatically."""
EVALUATIONS_RETAINED: Final = 1000
"""Stored results of one evaluation: twenty years if weekly."""
EVALUATION_SCANNED_MAX: Final = 1_000_000
"""Memories from which questions are sampled, oldest first."""
WORKERS_MAX: Final = 64
"""Jobs that one process works on at once."""
FEATURES_MAX: Final = 64
"""Features of one model; recalls compute about forty."""
MODEL_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bytes of one artifact; 100 trees of 8 leaves have 100 kB."""
ARTIFACT_RETENTION_DAYS: Final = 90
"""Days for which a retired model keeps its artifact and can serve again: as long as traces."""
MODELS_AT_ONCE: Final = 50
"""Model cards that maintenance checks in one transaction."""
DISCARDS_AT_ONCE: Final = 100
"""Failed deletion jobs that one maintenance run retries."""
LESSONS_MAX: Final = 20_000
"""Latest recalls that one training uses; each has about 12 memories."""
LESSONS_MIN: Final = 100
"""Recalls with feedback required for training."""
LESSON_GROUPS_MIN: Final = 20
"""Sessions required for training, so that a model does not learn the habits of one."""
LEDGER_PAGE: Final = 200
"""Recalls of the log read in one transaction; each has about 40 candidates."""
LOOKBACK_DAYS_MIN: Final = 14
LOOKBACK_DAYS_MAX: Final = 180
SETTLED_DAYS: Final = 30
"""Days after which a memory that was never used will not be; salience learns from older ones."""
TRACE_RETENTION_DAYS_DEFAULT: Final = 90
"""Days for which the recall log is stored."""
EVENT_RETENTION_DAYS_DEFAULT: Final = 30
"""Days for which tool events are stored."""
LOOKBACK_DAYS_DEFAULT: Final = TRACE_RETENTION_DAYS_DEFAULT
"""Days of the recall log used for training by default: all of it."""
SCORING_MS_MAX: Final = 5.0
"""Median milliseconds for scoring 80 candidates above which a model is not offered."""
LESSONS_ASKED_MIN: Final = 40
"""Lowest number of recalls that a user may declare sufficient."""

COMPACT_SOURCES_MAX: Final = 16
COMPACT_TOKENS_MAX: Final = 4_000
"""Tokens of the sources of one episode that answers a query."""
REFLECT_HOURS_DEFAULT: Final = 24
REFLECT_HOURS_MAX: Final = 168
"""Hours of recorded memories that a reflection reads; it also continues what the last one left."""
REFLECT_CANDIDATES_DEFAULT: Final = 8
REFLECT_CANDIDATES_MAX: Final = 32
"""Facts and rules that one reflection may propose, because each has to be reviewed."""
REFLECT_PAGE: Final = 400
"""Memories grouped at once, since all pairs are compared."""
REFLECT_MEMORIES_MAX: Final = 10_000
"""Memories that one reflection reads; the next continues."""
REFLECT_SOON: Final = 40
"""New events after which a reflection starts before its daily schedule."""
CORRECTIONS_MAX: Final = 2000
"""Changes of the last month searched for repeated corrections."""
BOOT_TOKENS: Final = 2000
"""Tokens of a briefing, unless a setting says otherwise."""
BOOT_NOTE_CHARS: Final = 200
"""Characters of a pinned note in a briefing."""
BOOT_CAPS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "blockers": 20,
        "skills": 5,
        "notes": 10,
        "action_items": 10,
        "unconfirmed": 2,
        "urgent": 5,
        "siblings": 10,
        "pinned": 20,
        "patterns": 40,
        "tasks": 20,
        "changes": 3,
    }
)
"""Entries shown of each section of a briefing; of rules, as many as its tokens allow."""
BOOT_SHARES: Final[Mapping[str, float]] = MappingProxyType(
    {
        "blockers": 0.2,
        "skills": 0.1,
        "notes": 0.1,
        "action_items": 0.1,
        "unconfirmed": 0.04,
        "handoff": 0.12,
        "urgent": 0.05,
        "siblings": 0.05,
        "pinned": 0.04,
        "patterns": 0.12,
        "tasks": 0.04,
        "changes": 0.04,
    }
)
"""Share of the tokens of a briefing that each section gets before what is unused is given away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BriefingLimits:
    """How much a briefing shows; caps and shares are those of its sections."""

    tokens: int = BOOT_TOKENS
    caps: Mapping[str, int] = field(default_factory=lambda: BOOT_CAPS)
    shares: Mapping[str, float] = field(default_factory=lambda: BOOT_SHARES)
    handoff_chars: int = HANDOFF_CHARS_MAX
    note_chars: int = BOOT_NOTE_CHARS


CHILD_LINE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Longest value from a process that reads foreign bytes: far above the longest memory."""
CHILD_SILENCE_S_MAX: Final = 600.0
"""Seconds in which such a process must give a value: it skips some gigabytes of JSON in it."""
SENT_CHILD_BYTES_MAX: Final = 512 * 1024 * 1024
"""Memory of such a process for what was sent here: half of what the containers of a server have."""
LOCAL_CHILD_BYTES_MAX: Final = 4 * 1024 * 1024 * 1024
"""Memory of such a process for a file of whoever runs it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildLimits:
    """What a process that reads foreign bytes may take."""

    memory_bytes_max: int
    silence_s_max: float = CHILD_SILENCE_S_MAX
    """Seconds without a value, of waiting or of the processor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportLimits:
    """The limits of an upload to a server, whose sender does not own the machine."""

    unpacked_bytes_max: int = SENT_UNPACKED_BYTES_MAX
    files_max: int = SENT_FILES_MAX
    packed_ratio_max: int | None = PACKED_RATIO_MAX
    """Unpacked bytes for each byte of a zip."""
    pieces_max: int | None = SENT_PIECES_MAX
    """Pieces to read; None without a limit."""
    child: ChildLimits = ChildLimits(memory_bytes_max=SENT_CHILD_BYTES_MAX)
    """Of the process that reads it."""


LOCAL_IMPORT: Final = ImportLimits(
    unpacked_bytes_max=UNPACKED_BYTES_MAX,
    files_max=STAGED_FILES_MAX,
    packed_ratio_max=None,
    pieces_max=None,
    child=ChildLimits(memory_bytes_max=LOCAL_CHILD_BYTES_MAX),
)
"""The limits of a file that `brain import` reads on this machine."""
