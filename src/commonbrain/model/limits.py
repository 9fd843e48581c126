"""A bound on everything: how much one call may give, ask for, or wait."""

from typing import Final

TEXT_BYTES_MAX: Final = 16 * 1024
"""The longest body of any kind, as UTF-8."""
HEADLINE_WORDS_MAX: Final = 15
HEADLINE_CHARS_MAX: Final = 120
ATOMIC_WORDS_MAX: Final = 400
"""The longest body of a kind that must say one thing (rule, fact, task)."""
ATOMIC_WORDS_ADVISED: Final = 200
"""Above it such a body is stored with a warning."""
NAME_CHARS_MAX: Final = 128
"""Agents, projects, labels, tags and session names."""
SOURCE_REF_CHARS_MAX: Final = 512
REASON_CHARS_MAX: Final = 1000
ITEMS_PER_CALL_MAX: Final = 100
TAGS_MAX: Final = 50
ENTITIES_MAX: Final = 50
"""Of each sort that are found in one text: tags, people, references, topics."""
HANDOFF_CHARS_MAX: Final = 2000
"""What one session leaves to the next, all parts together as they are stored."""
NOTE_CHARS_MAX: Final = 2000
"""Of an annotation: a sentence or a paragraph beside a memory."""
FORGET_AT_ONCE_MAX: Final = 500
"""Memories that one call forgets or erases; past it the reply says that more are left."""
CASCADE_AT_ONCE: Final = 2000
"""Reviews written in the transaction of the change itself, beyond what rests on it directly."""
CASCADE_STEP: Final = 5000
"""Reviews of a larger fan written in each transaction after it; others write in between."""
CASCADE_STEPS_MAX: Final = 100
"""Steps on the caller's time; what is left then is taken on by the next that writes."""
CAUSES_AT_ONCE: Final = 500
"""Fallen memories that one step follows up."""
FORETOLD_MAX: Final = 2000
"""What a preview counts of all that rests on a memory."""
HANDFUL: Final = 5
"""Memories that a change may unseat before a person is asked."""
SCANNED_MAX: Final = 10_000
"""Memories that a selector looks through."""
PRUNE_AT_ONCE_MAX: Final = 50
PRUNE_DAYS_MIN: Final = 30
"""What was touched within this time is never pruned."""
UNDO_CHANGES_MAX: Final = 2000
UNDO_DAYS_MAX: Final = 31

QUERY_CHARS_MAX: Final = 2000
RECALL_ITEMS_DEFAULT: Final = 12
RECALL_ITEMS_MAX: Final = 100
RECALL_TOKENS_DEFAULT: Final = 1400
RECALL_TOKENS_MIN: Final = 64
RECALL_TOKENS_MAX: Final = 32_000
LEXICAL_CANDIDATES: Final = 60
"""How many the word arm brings; far more than answers have room for."""
VECTOR_CANDIDATES: Final = 60
"""How many the meaning arm brings; more than the words, for their order is less sure."""
PERIOD_CANDIDATES: Final = 20
"""How many are brought of the time that a query names, by words and as the newest of it."""
SKILLS_MAX: Final = 5
"""Skills above the other results of one answer."""
EXPANSION_MAX: Final = 4
"""What one answer takes in for its links alone; never more than half of its items."""
ANNOTATIONS_MAX: Final = 2
"""Annotations shown beside one item of an answer, the newest; get shows all."""
NEAR_DUPLICATES_MAX: Final = 2
"""Items of one answer that say nearly the same."""
DEADLINE_MS_MAX: Final = 600_000
RERANK_MS_MAX: Final = 50.0
"""What a model may take to order the candidates of one recall; past it fixed weights stand."""
MODELS_LOADED_MAX: Final = 64
"""Models that one process holds, some hundred KB each; past it the longest unused one goes."""
MODELS_SHOWN_MAX: Final = 100
CANARY_AGENTS_MAX: Final = 50
"""Agents that a canary serves by name."""
EMBEDDINGS_AT_ONCE_MAX: Final = 4
"""Threads that wait for an embedder on behalf of recalls with a deadline."""
IDS_PER_GET_MAX: Final = 20
SIMILAR_HINTS_MAX: Final = 5
OMITTED_IDS_MAX: Final = 20

JOURNAL_ENTRIES_MAX: Final = 5000
"""Recall traces, and accesses, that may wait in memory; past it the oldest are dropped."""
IMPORT_BATCH: Final = 64
"""Drafts embedded and committed together by an import."""
EMBED_BATCH: Final = 64
"""Memories that get their vectors later, embedded and committed together."""
SPACE_PASSES_MAX: Final = 3
"""Times that a tenant is gone through for what lacks vectors; what an embedder refuses is left."""
SPACE_SWEPT_AT_ONCE: Final = 2000
"""Vectors of a dropped space that are deleted in one transaction: some hundredths of a second."""
COMPARED_MAX: Final = 200
"""Questions that two spaces are compared by: with the default embedder some seconds."""
COMPARED_PAGE: Final = 500
COMPARED_PAGES_MAX: Final = 40
"""Pages of the ledger that are read for them: 20,000 recalls."""
EVENT_ARGS_CHARS_MAX: Final = 80
"""What an event tells of the arguments of a call."""
SLOW_CALL_MS: Final = 10_000.0
"""A call that takes longer is told apart as slow."""
EVENTS_WINDOW: Final = 10_000
"""The latest calls that figures are made of."""
FAULTS_MAX: Final = 500
"""Failed calls that a process remembers, the latest."""
EARLY_EVENTS_MAX: Final = 1000
"""Events that wait on disk for a session that boots; past it the oldest give way."""
EARLY_EVENTS_KEPT_H: Final = 24
PROBE_S: Final = 5.0
"""How long one dependency may take to show that it is there."""
LOCK_TIMEOUT_S: Final = 30.0
"""How long a writer waits for the others; measured worst case under 8 processes is about 5 s."""
RAW_TEXT_BYTES_MAX: Final = 1024 * 1024
"""The longest text that is cut into passages; what is longer is imported."""
CHUNKS_MAX: Final = 1000
"""Passages of one raw text: they are embedded and stored together, in some seconds."""
SOURCES_MAX: Final = 50
"""Memories that one may be derived from."""
REPLY_KEPT_S: Final = 24 * 3600
"""How long a reply can be asked for again by its idempotency key."""

HOOK_START_TIMEOUT_S: Final = 5.0
"""Seconds from the start of a hook to what a new session is told: its client shows nothing yet."""
HOOK_PROMPT_TIMEOUT_S: Final = 1.5
"""Seconds that somebody waits between a prompt and the agent for what is known about it.

A cold start takes about 0.8 on a laptop, the embedding model included.
"""
HOOK_WRITE_TIMEOUT_S: Final = 10.0
"""Seconds to keep what was said, most of them on a store that others write to."""
HOOK_NOTES_TOKENS: Final = 500
"""What a session is told of its own notes after a compaction."""
HOOK_PROMPT_TOKENS: Final = 600
"""What a hook may put beside each prompt; more would cost every turn of a long session."""
TASK_CHARS_MAX: Final = 500
"""What a session says it is at: a sentence or two."""
SESSIONS_SHOWN_MAX: Final = 100
"""Sessions in one list, latest heartbeat first."""
PROBES_MAX: Final = 20
"""Processes' sessions looked at by one boot or list; the others have their turn the next time."""
SILENT_ENDED_MAX: Final = 200
"""Sessions that one boot or list ends for their silence."""
RECIPIENTS_MAX: Final = 100
"""Of one message, by name; all are reached at once."""
SUBJECT_CHARS_MAX: Final = 255
MESSAGES_PAGE_DEFAULT: Final = 20
MESSAGES_PAGE_MAX: Final = 100
"""Messages, threads or delegations that one call lists."""
TASKS_SHOWN_MAX: Final = 100
"""Tasks in one list, the most urgent first."""
AGENDA_DEFAULT: Final = 10
"""Things to decide that are listed of each sort, when nobody says."""
AGENDA_MAX: Final = 100
AGENDA_SKIP_MAX: Final = 10_000
NETWORKS_MAX: Final = 50
"""Entries in the allow list of one key."""
KEYS_MAX: Final = 1000
"""Good keys, and agents, of one tenant: every list of them is whole."""
ACCESS_KEPT_S: Final = 10.0
"""How long a process goes by what it read of a key, an agent and a policy.

Within this time every process has learnt of a key that was revoked and of a tenant that was
suspended.
"""
USES_APART_S: Final = 300.0
"""How often one process notes that a key is used, at most: it is known to so many seconds."""
VERIFIED_MAX: Final = 10_000
"""Credentials of which one process knows that they are right; the longest unused goes first."""
ROTATION_MINUTES_DEFAULT: Final = 60
"""How long a key that was replaced goes on to be good, so that its holder can change over."""
ROTATION_MINUTES_MAX: Final = 7 * 24 * 60
KEY_CALLS_PER_MINUTE: Final = 600
TENANT_CALLS_PER_MINUTE: Final = 6000
WRONG_CREDENTIALS_PER_MINUTE: Final = 30
"""From one address; past it none is looked at that is not known to be right, for a hash is dear."""
REFUSALS_APART_S: Final = 60.0
"""Refusals alike within this time are one line of the audit that counts them."""
REFUSALS_APART_MAX: Final = 1000
"""Sorts of refusals that one process counts at once; past it they are told to the log only."""
USAGE_KEPT_S: Final = 60.0
"""How long a process goes by its count of a tenant's memories, adding what it stores itself."""

JOB_ATTEMPTS: Final = 3
"""After so many failures a job is a dead letter."""
JOB_LEASE_S: Final = 60.0
"""How long a job is one worker's unless renewed: so long nobody takes up what a killed one had."""
JOB_BACKOFF_MAX_S: Final = 3600.0
JOB_FAULT_CHARS_MAX: Final = 500
JOB_GIVEN_BYTES_MAX: Final = 16 * 1024
"""Of what a job is given by whoever asks for it, as JSON."""
JOB_REACHED_BYTES_MAX: Final = 2 * 1024 * 1024
"""Of where a job goes on, as JSON: it is written with each step."""
JOBS_PAGE_DEFAULT: Final = 20
JOBS_PAGE_MAX: Final = 100
JOBS_DUE_AT_ONCE: Final = 8
"""Due jobs looked at by one look for work; when several workers look, each takes another."""
JOBS_LIVE_MAX: Final = 1000
"""Unfinished jobs that one tenant may have."""
RETAINED_AT_ONCE: Final = 1000
"""Rows that retention deletes in one transaction."""
LEDGER_PAGE_DEFAULT: Final = 20
LEDGER_PAGE_MAX: Final = 100
"""Recalls told at once of the ledger."""
SALIENCE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Of one model of salience: one of 150 small trees takes some hundred thousand."""
SALIENCE_MS_MAX: Final = 50.0
"""How long a model may take for what one call stores; then the rule scores it."""
SETTLED_MIN: Final = 200
"""Memories that must have settled before anything is learnt of them."""
USEFUL_MIN: Final = 30
"""Of those, so many useful ones, and as many others, or the trees learn names and no reasons."""
SAMPLES_MAX: Final = 50_000
"""Memories that one model is made of, the latest."""
AUTHORS_MAX: Final = 1000
"""Authors whose history a model holds, those who wrote most."""
LEARNING_PAGE: Final = 200
"""Memories, or recalls, that are read at once for training."""
BLOB_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of one artifact: a model of a thousand trees takes a few million."""
BLOBS_S: Final = 10.0
"""How long a bucket may take to answer; who waits for it is no reader."""
RETENTION_DAYS_MAX: Final = 36_500
"""A century: longer is for ever."""
RETENTIONS_MAX: Final = 50
"""Rules of retention of one tenant: each is a condition of one query."""
MAINTAINED_AT_ONCE: Final = 100
"""Memories that upkeep turns in one transaction; others write in between."""
MAINTAINED_SHOWN_MAX: Final = 5
"""Examples of each sort that a preview of upkeep shows."""
CHECKED_AT_ONCE: Final = 1000
"""Rows that upkeep looks at for what they lack, in one page."""
CLIQUES_MAX: Final = 200
"""Groups of near memories that one search gives, the surest."""
CLIQUE_STEPS_MAX: Final = 20_000
"""Steps of the search for groups: about a second, where memories are near in every way."""
CONSOLIDATED_RULES_MAX: Final = 500
"""Rules that one report is about: nobody goes through more."""
CONSOLIDATED_SHOWN_MAX: Final = 50
"""Groups, and lineages, that one report names."""
NEAR_PAIRS_MAX: Final = 2000
"""Near pairs that a report is made of: they are kept with the job from step to step."""
JOBS_KEPT_DAYS: Final = 30
"""How long a job that has ended can be looked at."""
DEAD_LETTERS_KEPT_DAYS: Final = 180
"""How long a job that was given up waits for somebody to look at it."""
OUTBOX_KEPT_DAYS: Final = 7
"""How long events wait for a worker that reads them."""
PARCEL_BYTES_MAX: Final = 2 * 1024 * 1024 * 1024
"""Of a file that a job is to read, or has written: what a million memories take."""
PARCEL_PART_BYTES: Final = 16 * 1024 * 1024
"""Of such a file held in memory at once."""
PARCEL_FILES_MAX: Final = 100_000
"""In a folder that was sent."""
UNPACKED_BYTES_MAX: Final = 4 * 1024 * 1024 * 1024
"""Of all files of such a folder."""
UPLOAD_BYTES_MAX: Final = 32 * 1024 * 1024
"""Of one upload to a server, which holds it in memory until it is all there."""
UPLOAD_KEPT_DAYS: Final = 7
"""How long what was sent waits for the job that reads it."""
ARCHIVE_KEPT_H: Final = 24
"""How long what a job wrote waits to be fetched."""
EVALUATED_DEFAULT: Final = 100
"""Questions of each sort that an evaluation asks: intervals of some eight hundredths at most."""
EVALUATED_MIN: Final = 20
"""Fewer tell nothing: their intervals are wider than any difference."""
EVALUATED_MAX: Final = 1000
EVALUATED_AT_ONCE: Final = 20
"""Questions between two steps of the job that evaluates: half a second where it is slow."""
EVALUATED_FROM: Final = 200
"""Memories from which on a store is measured by itself."""
EVALUATIONS_KEPT: Final = 1000
"""Results of one name: twenty years of a weekly evaluation, or half a year of some a day."""
EVALUATION_SCANNED_MAX: Final = 1_000_000
"""Memories that those which are asked for are drawn from, the oldest first."""
WORKERS_MAX: Final = 64
"""Jobs that one process works on at once."""
FEATURES_MAX: Final = 64
"""Features of one model; recalls know some forty."""
MODEL_BYTES_MAX: Final = 8 * 1024 * 1024
"""Of one artifact: 100 trees of 8 leaves have 100 kB."""
ARTIFACTS_KEPT_DAYS: Final = 90
"""How long a model that has ended keeps its artifact, and may serve again: as long as traces."""
MODELS_AT_ONCE: Final = 50
"""Cards that upkeep looks at in one transaction: the digests of all are one job's to drop."""
DISCARDS_AT_ONCE: Final = 100
"""Jobs that drop artifacts and were given up, which one run of upkeep takes up again."""
LESSONS_MAX: Final = 20_000
"""Recalls that one training learns from, the latest; each is some 12 memories."""
LESSONS_MIN: Final = 100
"""Recalls with a mark below which nothing is learnt."""
LESSON_GROUPS_MIN: Final = 20
"""Sessions below which it cannot be told what is learnt from what is one session's way."""
LEDGER_PAGE: Final = 200
"""Recalls of the ledger read in one transaction: each has some 40 candidates."""
LOOKBACK_DAYS_MIN: Final = 14
LOOKBACK_DAYS_MAX: Final = 180
LOOKBACK_DAYS_DEFAULT: Final = 90
"""How far back training reads; the ledger keeps as many days unless told otherwise."""
SCORING_MS_MAX: Final = 5.0
"""What scoring 80 candidates may take for a model to be offered: the median, for a machine that
trains is busy."""
LESSONS_ASKED_MIN: Final = 40
"""The least that somebody may declare to be enough recalls."""

COMPACT_SOURCES_MAX: Final = 16
COMPACT_TOKENS_MAX: Final = 4_000
"""What one episode that answers a question is made of at most."""
REFLECT_HOURS_DEFAULT: Final = 24
REFLECT_HOURS_MAX: Final = 168
"""How far back a reflection looks at what was recorded; what it missed before that counts too."""
REFLECT_CANDIDATES_DEFAULT: Final = 8
REFLECT_CANDIDATES_MAX: Final = 32
"""Facts and rules that one reflection may propose: somebody has to look at each."""
REFLECT_PAGE: Final = 400
"""Memories that are put together at once: every two of them are compared."""
REFLECT_MEMORIES_MAX: Final = 10_000
"""Memories that one reflection looks through; the next goes on from there."""
REFLECT_SOON: Final = 40
"""New events after which a reflection does not wait for its day."""
CORRECTIONS_MAX: Final = 2000
"""Changes of the last month that are looked through for what is corrected again and again."""
