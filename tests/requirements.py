"""Every requirement in one table: built and proved, decided otherwise, not ours, or missing.

An id names a group and a line in it: `DM-08` is the eighth requirement on the data model. A test
says what it proves by `@pytest.mark.requirement("DM-08")`; `test_requirements.py` holds both sides
to each other. When a capability is built, its row turns from `Gap` to `Adopted` and keeps its
sentence; an id that shares a row and comes sooner than the others gets a row of its own.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Requirement:
    """One row: the ids it speaks for, parted by spaces, and one sentence about them."""

    ids: str
    sentence: str


class Adopted(Requirement):
    """The sentence is true today, and each id is carried by at least one test."""

    __slots__ = ()


class Gap(Requirement):
    """The capability is wanted and not whole: the sentence will be true, or says what misses."""

    __slots__ = ()


class Replaced(Requirement):
    """The product decides otherwise: the sentence says by what."""

    __slots__ = ()


class NotApplicable(Requirement):
    """Nothing to build: the sentence says why."""

    __slots__ = ()


# How many ids each group has, numbered from 1, so that no line can be lost unseen.
GROUPS: Final = {
    "DM": 75,  # data model
    "WP": 53,  # write path
    "RT": 45,  # retrieval
    "CT": 14,  # causes and time
    "LC": 24,  # lifecycle: revision, decay, forgetting
    "SE": 42,  # sessions and boot
    "MS": 11,  # messages
    "PV": 12,  # provenance and conflicts
    "ST": 26,  # security and tenancy
    "JB": 18,  # jobs and learning
    "OB": 20,  # observability
    "PF": 15,  # performance
    "DO": 33,  # deployment and operations
    "MG": 36,  # migration and import
    "EV": 15,  # evaluations and tests
    "CL": 23,  # clients
}

# A row that speaks for several groups stands with the first of its ids.
REQUIREMENTS: Final[tuple[Adopted | Gap | Replaced | NotApplicable, ...]] = (
    # Data model
    Adopted("DM-01", "Kinds have tables; lifecycle and the sections of boot are rows of KINDS."),
    Adopted("DM-02", "Rule, fact, incident and task are kinds that the schema tells apart."),
    Adopted("DM-03 LC-03", "A rule never fades and is never pruned; its chain stays, audited."),
    Adopted("DM-04", "A rule is BLOCKER or PATTERN; a superseded one reads DEPRECATED."),
    Adopted("DM-05 LC-01", "A fact halves in 7 days, is revived by recall, and ends with its ttl."),
    Adopted("DM-06 LC-02", "An incident unread for 90 days sleeps: found, behind what is awake."),
    Adopted("DM-07", "A task has status, priority, due, assignee; long overdue it is stale."),
    Adopted("DM-08", "One narrow projection row per memory is searched; bodies come later."),
    Adopted("DM-09", "A skill is a rule with a trigger, checked, which every door can set."),
    Adopted("DM-10 SE-22 SE-23", "Boot loads pinned rules without a trigger and always_on skills."),
    Adopted("DM-11", "Every mutation is audited and leaves an image of what was before."),
    Adopted("DM-12 OB-06", "Writes are audited; every call leaves a tool event of its session."),
    Adopted("DM-13", "A session keeps agent, project, folder, pid, task, pulse and end."),
    Adopted("DM-35", "A session keeps its client, host, branch, worktree, model and free fields."),
    Adopted("DM-14", "How to behave and what is the case are two kinds, with two lifecycles."),
    Replaced("DM-15", "Ids are 63-bit integers in order of time with a prefix, not UUIDs."),
    Adopted("DM-16", "Every row carries its tenant, and every key begins with it."),
    Adopted("DM-17", "Every memory names the agent who wrote it."),
    Adopted("DM-18 DM-28 DM-29", "Older type names are aliases, stored as a kind and a label."),
    Adopted("DM-19", "A body is markdown text; its tags are free words to filter by."),
    Adopted("DM-20", "A memory belongs to one project, or with null to every project."),
    Adopted("DM-21", "Confidence is 0 to 1, and every door lets its author say it."),
    Adopted("DM-22", "The old names its successor; its history tells time, reason and author."),
    Adopted("DM-33", "A superseded row names its successor and when; its change says why."),
    Adopted("DM-23 LC-06", "Expiry ends recall and get says so; what is forgotten stays a row."),
    Replaced("DM-24", "Vectors derive from rows in the same store, of 384 dimensions at first."),
    Adopted("DM-25", "Vector search obeys filters by tenant, agent, kind, tag and project."),
    NotApplicable("DM-26", "No second product keeps its vectors in the same index."),
    Adopted("DM-27", "Notes, accesses, the last of them and the balance of votes are kept."),
    Adopted("DM-30", "People, also without an @, and topics are typed entities, found by rule."),
    Adopted("DM-31", "Sentences that state a duty become tasks when the caller asks for it."),
    Adopted("DM-32 OB-10", "Hashtags become tags; get tells the author and what was captured."),
    Adopted("DM-34", "A trigger's name is unique; no projects means all, always_on is off."),
    Replaced("DM-36 DM-54", "Indexes follow queries; none is by scope, last access or payload."),
    Adopted("DM-37", "Chains and triggers have an index each; one of states misleads the planner."),
    Adopted("DM-38", "Live sessions have an index by heartbeat, project, and agent with folder."),
    Adopted("DM-39 MS-03 RT-14", "One recall spans messages and knowledge, by word and meaning."),
    Adopted("DM-40 DM-41 MS-01", "Messages have threads, receipts, acks and an endless history."),
    Adopted("DM-42", "An event has importance, a count of recurrences, a source message."),
    Adopted("DM-43 DM-58", "An atom has a source message and four fields, each with its vector."),
    Adopted("DM-44", "Atoms are units of cause and effect, chained by typed links."),
    Adopted("DM-45 DO-04", "A vector carries its space: model and dimensions, 384 by default."),
    Adopted(
        "DM-46", "A full text spans bodies, subjects, fields of atoms; a second the fields apart."
    ),
    Adopted("DM-47", "Working notes, pins and labels are rows of the store, not side files."),
    Adopted("DM-48", "A tenant has a policy; an agent is reader, writer or admin."),
    Adopted("DM-49", "A memory holds tenant, author, kind, scope, its clean text, a JSON payload."),
    Adopted("DM-50", "Trust, confidence, salience, source_ref, hash and times are columns."),
    Adopted("DM-51", "Edges between memories are typed and weighted rows; a chain is a column."),
    Adopted("DM-52", "The audit has actor, action, memory and request; reads if policy says so."),
    Adopted("DM-53", "A registry keeps each model's role, artifact, state, metrics and moves."),
    Adopted("DM-55", "A memory has author, session, source, trust, and links to its origins."),
    NotApplicable("DM-56", "Tool and test counts of earlier systems ask for nothing."),
    Adopted("DM-57", "Replies are structured, so that any session and model can take them."),
    Replaced("DM-59", "Two times; one is indexed, ids in order of recording stand for the other."),
    Adopted("PV-04 PV-08", "Supersession keeps its times; as_of reads what was believed then."),
    Replaced("DM-60", "Decay runs on time since last access, not on a server's uptime."),
    Adopted("DM-61", "A rule knows its chain, its source and, linked, the incidents behind it."),
    Adopted("DM-62", "A fact has tags, a chain, a ttl, and accesses that lengthen its life."),
    Adopted("DM-63", "Cause, resolution, priority, due date and links to rules have a door."),
    Adopted("DM-64", "The projection says pinned, state, rating; history who forgot and why."),
    Adopted("DM-65", "An action item keeps its decision, the reason, who decided and when."),
    Adopted("DM-66", "Handoffs are memories, upkeep runs are jobs, a tool event is kept once."),
    Adopted("DM-67", "Messages have parent, priority, expiry; threads author, status and tags."),
    Adopted("DM-68", "Links count observations; atoms keep confidence, source and delays."),
    Replaced("DM-69", "Todos, categories and insights are tasks and labels, not tables."),
    Replaced("DM-70", "Labels are an open vocabulary; a text ends at 16 KiB, not 50,000."),
    Adopted("DM-71", "Text, query, items and tokens have limits that the error states."),
    Adopted("DM-72", "A person is recalled by first, full and account name."),
    Adopted("DM-73", "Every column of every kind can be set on every transport."),
    Adopted("DM-74", "A thread's subject, author and tags show to who sees its first message."),
    Adopted("DM-75", "A change of a thread takes a writer and is in the audit."),
    # Write path
    Adopted("WP-01", "Every write passes the gate's five steps, without a language model."),
    Adopted("WP-02", "gate_kind: the kind is declared and one of KINDS."),
    Adopted("WP-03", "gate_severity: a rule alone has one, BLOCKER or PATTERN."),
    Adopted("WP-04", "gate_headline: there is one, of at most 15 words."),
    Adopted("WP-05 WP-09", "gate_atomicity: at most 400 words, and no stack of dated updates."),
    Adopted("WP-06", "A near-duplicate rule or fact is refused with the call to supersede."),
    Adopted("WP-07", "A refusal is a value that names its step; what passes is audited."),
    Adopted("WP-08", "There is no merge; supersede changes a rule, the old reads DEPRECATED."),
    Adopted("WP-10", "remember takes kind, tags, project, confidence at every door."),
    Adopted("WP-11", "Row, full text and vector are committed in one transaction."),
    Adopted("WP-12", "What is superseded is out of every arm when the call returns."),
    Adopted("WP-13", "Agents choose what to keep; a hook captures what a stop tells of note."),
    Adopted("WP-14 SE-12", "A handoff is an episode with next steps and blockers, and is found."),
    Adopted("WP-15", "Told and raw texts meet their neighbours in calibrated bands."),
    Replaced("WP-16", "A longer duplicate overwrites nothing: supersede is offered."),
    Adopted("WP-17", "The chain being superseded is left out of the duplicate check."),
    Adopted("WP-18", "supersede needs a reason and takes the new text through every stage."),
    Adopted("WP-19 WP-21", "A pin passes to a successor, a trigger only when asked for."),
    Adopted("WP-20", "Rules alone find kind, people, topics, tags and tasks in a text."),
    Adopted("WP-22", "SQLite writes are immediate transactions that carry the full text."),
    Adopted("WP-23", "The atomizer stores atoms beside all other memories."),
    Adopted("WP-24 PV-01", "What a message gave rise to names it; get tells message and thread."),
    Adopted("WP-25", "The write stages keep their order, are timed, end in an audit row."),
    Adopted("WP-26", "A caller may lower trust, never raise it above its credential."),
    Adopted("WP-27", "The same hash is the same memory; conflicts are kept and linked."),
    Adopted("WP-28", "Every transport takes 100 items a call, each with a result of its own."),
    Adopted("WP-29", "An idempotency key replays its reply; other content is a conflict."),
    Adopted("WP-30", "Constraints, commitments, open points, dates, recurrence raise salience."),
    Adopted("WP-31", "What says nothing has a salience below 0.2 and starts archived."),
    Adopted("WP-32", "Confidence starts by trust, capped unsourced; age and conflict lower it."),
    Adopted("WP-33", "Facts that contradict are both kept, under a conflicts_with link."),
    Adopted("WP-34", "A memory is durable and found by its words while a vector is pending."),
    Adopted("WP-35", "Forget and supersede both need a reason and share one audit."),
    Replaced("WP-36", "Raw text is split by rule in milliseconds, not by a language model."),
    Replaced("WP-37", "In the grey zone no model decides: stored, with similar hints."),
    Adopted("WP-38", "A tenant may demand boot before any other call: boot_required."),
    Adopted("WP-39", "Raw text is cut in passages, classified by keywords and gated."),
    Adopted("WP-40", "A headline has a letter; a derived one loses its list marker."),
    Adopted("WP-41", "Incidents recur and are stored, with up to 5 similar hints."),
    Adopted("WP-42", "Each passage has a status; a duplicate says how to supersede."),
    NotApplicable("WP-43", "Action items share the store that takes the write: no half is down."),
    Adopted("WP-44", "@-tags and causes told in messages make memories with provenance."),
    Adopted("WP-45", "The atomizer's patterns read causal English and score their quality."),
    Adopted("WP-46", "At a turn's end a hook captures what its trigger phrases mark."),
    Adopted("WP-47", "Salience starts by kind, confidence by trust, less 0.05 for a hedge."),
    Adopted("WP-48", "A remote embedder is retried, backed off from, and left alone when down."),
    Adopted("WP-49", "Causes in incident reports have a precision of .9 and a recall of .7."),
    Adopted("WP-50", "Amounts, destinations, denials and repairs are no causes."),
    Adopted("WP-51", "A very long text is embedded in part, and the reply says how much."),
    Adopted("WP-53", "A policy may cap the confidence that is given to a fact without a source."),
    Adopted("WP-52", "A server stores a long text at once and embeds it after the reply."),
    # Retrieval
    Adopted("RT-01", "recall packs bodies, then headlines, then ids; get fetches a body."),
    Adopted("RT-02 RT-28", "A skill comes by its keywords, or by name through get."),
    Adopted("RT-03 SE-21", "Boot takes pinned blockers, patterns near the task, open tasks."),
    Adopted("RT-04", "recall ranks with scores, by project, kinds and least confidence."),
    Adopted("RT-05 PV-05", "Only a chain's head is recalled, with its superseded_count."),
    Adopted("RT-06", "Without a query recall browses, newest first, and embeds nothing."),
    Adopted("RT-07", "The rating, votes up less votes down, shows in recall."),
    Adopted("RT-08", "Every recall counts an access to what it shows and renews the last."),
    Adopted("RT-09", "The superseded is left out unless the filter states asks for it."),
    Adopted("LC-07", "What is superseded is kept and readable, and out of every plain recall."),
    Adopted("RT-10", "A stale id still gives its body, under a banner to the current one."),
    Adopted("RT-11", "Any keyword fires a skill; at most 5 stand above other results."),
    Adopted("RT-12", "A superseded skill never fires, a scoped one in its projects only."),
    Adopted("RT-13", "Annotations come with the memory they speak about."),
    Adopted("RT-15", "A file scans codes and scores 500 exactly; Postgres walks HNSW."),
    Adopted("RT-16", "recall answers questions of time; trace follows causes to their roots."),
    Adopted(
        "RT-17", "recall plans, retrieves, loads, scores, orders and packs, with links and filters."
    ),
    Replaced("RT-18", "As measured, words and meaning bring 60 each, 40 are weighed, 12 answer."),
    Replaced(
        "RT-19", "Similarity, strength and trust are weighed; kind and salience helped nothing."
    ),
    Adopted("RT-20", "A pack keeps a trusted rule or fact, near-duplicates, conflicts."),
    Adopted("RT-21", "The reply has source, salience, tokens, conflicts and trace_id."),
    Adopted("RT-22", "The reply sums up confidence and lists the conflicts left open."),
    Adopted("RT-23", "More trusted, then newer, then surer is preferred; a small gap is told."),
    Adopted("RT-24", "Low trust stays out of recall unless asked for."),
    Adopted("RT-25", "get has views of provenance, revisions and policy checks."),
    Adopted(
        "RT-26 SE-07", "Boot shows no incident, no skill that waits, and of facts what changed."
    ),
    Adopted("RT-27", "An item comes with body, score and tags; get tells its chain."),
    Replaced("RT-29", "Weights tuned on evaluations rank, not 0.7 to 0.3 with uptime decay."),
    Replaced("RT-30", "Same session is a rerank feature; no session keeps a cache of boosts."),
    Adopted("RT-31", "Names found by rule relate memories, and get shows which."),
    Adopted("RT-32", "recall narrows to times by since, and to one field of atoms by field."),
    Adopted("RT-33", "Expansion adds 4 items or half at most, with a half-life of 168 h."),
    Replaced("RT-34", "Arms are fused, with no boost for keywords; max_items ends at 100."),
    Adopted("RT-35", "Filters mean the same with kinds and aliases, mixed, in every operation."),
    Adopted("RT-36", "Agents see confidence, trust and tokens of a recall."),
    Adopted("RT-38", "What is archived for low salience is left out while others answer."),
    Adopted("RT-37", "A small budget shows the text of the best match before its metadata."),
    Adopted("RT-39", "What repeats the words of questions comes after what answers them."),
    Adopted("RT-40", "Lists, tables and glossaries that answer a question come first."),
    Adopted("RT-41", "Words and names are found in every script, with or without blanks."),
    Adopted("RT-42", "Limits in words, headlines and excerpts hold in every script."),
    Adopted("RT-43", "Words that many memories have make none of them best by words."),
    Adopted("RT-44", "English words claim nothing of foreign notes; what holds in all, holds."),
    Adopted("RT-45", "Times such as gestern, ayer, hier, ontem and last week in Chinese are read."),
    # Causes and time
    Adopted("CT-01", "Atoms are causal units; trace walks the chains that links make of them."),
    Adopted("CT-03", "trace deepen analyses chains of causes; recall looks for times it is told."),
    Replaced("CT-02", "Causes and time are views of the one operation trace."),
    Adopted("CT-04", "Atoms are made, linked by type, searched by field, traced to causes."),
    Adopted("CT-05", "trace tells what came before an outcome or a time, patterns and roots."),
    Adopted("CT-06", "Time phrases prefer their time, and alone select it; bounds may be words."),
    Replaced("CT-07", "A plan tells questions for a time; other intents changed no answer."),
    Adopted("CT-08", "deepen ranks roots over episodes and states its limits of evidence."),
    Adopted("CT-09", "patterns tells delays, top precursors and the hour of the day."),
    Adopted("CT-10", "Linking again strengthens and counts; roots lack parents; circles end."),
    Adopted("CT-11", "A chain never jumps between incidents that share only words."),
    Adopted("CT-12", "Precursors group by subject and action, and count without the outcome."),
    Adopted("CT-13", "A name that many things have joins no incidents."),
    Adopted("CT-14", "A cause stated before or after an incident is found from it."),
    # Lifecycle: revision, decay, forgetting
    Adopted("LC-04", "forget, prune, erase and undo are audited like every mutation."),
    Adopted("LC-05", "forget takes a reason, clears every index at once, keeps the audit."),
    Adopted("LC-08", "supersede notes time and reason; restore takes it back."),
    Adopted("LC-09", "rate and annotate mark a memory and leave its body alone."),
    Adopted("LC-10 LC-18", "prune previews, spares pins and rules, takes old and unread rows."),
    Adopted("LC-11", "What is pinned loads by itself, a trigger by its keyword or always."),
    Adopted("LC-12 LC-15", "Retention is policy by kind, label and scope; the audit stays."),
    Adopted("LC-13", "Full text follows every change and every removal of a memory."),
    Adopted("LC-14", "forget takes a selector and previews; erase scrubs, with a receipt."),
    Adopted("LC-16", "Contradicted, fallen or stale: less sure as read; dull: born archived."),
    Adopted("LC-17", "Strength below 0.1 sleeps: found last, woken by an access, never removed."),
    Adopted("LC-19", "A non-head is refused with the head's id; restore retires the corrector."),
    Adopted("LC-20", "Decay revives nothing superseded; consolidate reports cliques."),
    Replaced("LC-21", "Confidence rests on trust and contradiction, not on access."),
    Replaced("LC-22", "consolidate merges, promotes and archives nothing by itself."),
    Replaced("LC-23", "reflect makes episodes out of events and archives no source."),
    Adopted("LC-24", "Upkeep ends what expired; a query has what it finds summed up at once."),
    # Sessions and boot
    Adopted("SE-01 SE-19 PF-01", "Boot is 2,000 tokens at most: 5 blockers, 5 patterns, 20 tasks."),
    Adopted("SE-02", "Boot cuts tasks first and blockers last, and reports each cut."),
    Adopted("SE-03", "Working context is made from the task at boot and never stored."),
    Adopted("SE-04", "Boot shows the previous session's handoff, up to 2,000 characters."),
    Adopted("SE-05 SE-14", "Boot opens a session, ends dead ones and lists its siblings."),
    Adopted("SE-06", "Must-ack items block a project's writes until acknowledged."),
    Adopted("SE-08", "A session ends on evidence: told, closed, pid dead or rebooted."),
    Adopted("SE-09", "A session changes its task and ends when told, with a handoff."),
    Adopted("SE-24", "A session says its task and its end; who crashed is found out."),
    Adopted("SE-10", "A reboot of the same agent, folder and pid ends the one before."),
    Adopted("SE-11", "A prompt, and an edit of a file, bring up what others decided of it."),
    Adopted("SE-20", "Memory is durable, shared, within a budget, and boot brings it unasked."),
    Adopted("SE-13", "Notes are gone a week after their session last wrote; memories stay."),
    Replaced("SE-15", "Five silent minutes show a session as idle and do not end it."),
    Adopted("SE-16", "Sessions are listed by agent and project, without one's own."),
    Adopted("SE-17", "Every call over MCP or by a session's command is a heartbeat, unasked."),
    Replaced("SE-18", "Leases on tasks and a shared server go beyond a lockless registry."),
    Adopted("SE-25", "checkpoint names the rules on a risky act; notes hold key and value."),
    Adopted("SE-26", "An ack is will_execute, already_done, not_relevant or deferred."),
    Adopted("SE-27", "A rule cannot be already_done; a blocked write counts what waits."),
    Adopted("SE-28", "Boot's reply has all sections, the session, its tokens, its cuts."),
    Adopted("SE-29", "Liveness is pid with creation time; the unprobed end in 24 hours."),
    Adopted("SE-30", "A task is leased to one; rival updates are a version_conflict."),
    Adopted("SE-31", "A call over HTTP is of the session it names, else of its connection's."),
    Replaced("SE-32", "The project's last handoff is shown; no score picks past sessions."),
    Replaced("SE-33", "One operation covers sessions; notes and events stand for logs."),
    Adopted("SE-34", "Two live clients of one key are two sessions on the server."),
    Adopted("SE-35", "A shell or program has one session, which needs no name and ends with it."),
    Adopted("SE-36", "An action item blocks its own project; without one it needs an admin."),
    Adopted("SE-37", "Boot leaves out nothing within its caps that would fit."),
    Adopted("SE-38", "A call over HTTP ends a session only by its name."),
    Adopted("SE-39", "When a session is idle, and when silence ends it, are settings."),
    Adopted("SE-40", "A merge waits for the action items of its own projects only."),
    Adopted("SE-41", "A program that booted sets its task, hands over and ends without a name."),
    Adopted(
        "SE-42", "A pinned memory of any kind is at boot, by what fits the task; cuts are named."
    ),
    # Messages
    Replaced("MS-02 PF-04", "Benchmarks time send, poll and full text at 100,000; no test does."),
    Adopted("MS-04", "People and agents send messages through the command as well."),
    Adopted("MS-05 MS-08", "send to one, some or all; inbox, read, ack, history, threads."),
    Adopted("MS-06", "A delegation is a message with a linked task, a status, an expiry."),
    Replaced("MS-07", "Threads stay whole: neither age nor number prunes or shortens them."),
    Adopted("MS-09", "A decision marked in a direct message is known to the team with its source."),
    Adopted("MS-10", "Each message says who can read it."),
    Adopted("MS-11", "A project may share its discussions; elsewhere replies say who learns what."),
    # Provenance and conflicts
    Adopted("PV-02", "get names the sources of a memory, the message and the thread."),
    Adopted("PV-06", "get walks from an atom to message and thread in ten steps; cycles end."),
    Adopted("PV-03", "Every recalled item has its source_ref; get lists its revisions."),
    Adopted("PV-09", "Plain notes that change each other read as one history, and say so."),
    Adopted("PV-10", "A fact from a message or event comes with the sentence it came from."),
    Replaced("PV-07", "Subject, value, number and negation show conflicts, not shared words."),
    Adopted("PV-11", "Recall names the message, its people and its thread for what is derived."),
    Adopted(
        "PV-12", "A fact with another value and a rule in other words are reported as similar."
    ),
    # Security and tenancy
    Adopted("ST-01", "Queries are filtered by tenant; a credential names tenant and author."),
    Adopted("ST-02", "Networked doors check credential, tenant, scope and size, in this order."),
    Adopted("ST-03", "No tenant, an unearned scope or a raised trust is refused."),
    Adopted("ST-04", "No query, no index and no model that learns crosses a tenant."),
    Adopted("ST-05", "Roles are reader, writer, admin; scopes private, team, global."),
    Adopted("ST-06", "From the web a rule, what is global and must_ack wait in quarantine."),
    Adopted("ST-07", "Attacks through every operation and networked door find no leak."),
    Adopted("ST-08", "A tenant has its policy, its quotas and its audit."),
    Adopted("ST-09", "Injected orders are tested; recall renders memories as evidence."),
    Adopted("ST-10 MG-01", "An import only reads what it takes in, and leaves it as it was."),
    Adopted("ST-11", "Secrets are found before embedding, and rejected or redacted."),
    Adopted("ST-12", "No door hands a stranger a credential, and CORS is closed."),
    Adopted("ST-13", "API keys are argon2id with scopes, expiry, allow list and a rate."),
    Adopted("ST-14", "A credential gives tenant, agent and role, or a code that says why."),
    Adopted("ST-15", "Poison, floods, forged times and links, and injection are tried and held."),
    Adopted("EV-11", "Poison, operators and crowds have hostile tests; load soak is a benchmark."),
    Adopted("ST-16", "Nothing listens beyond loopback without authentication."),
    Adopted("ST-17", "A login to the page ends idle, in time, at logout, with its credential."),
    Adopted("ST-18", "People log in to the page at their OpenID provider, on both engines."),
    Adopted("ST-19", "A forged, foreign, late or repeated answer of a provider logs nobody in."),
    Adopted("ST-20", "A sealed store has no readable byte and opens with its key alone."),
    Adopted("ST-21", "An invitation is exchanged for a key once, and opens nothing else."),
    Adopted("ST-22", "Servers that start on a store without keys log one link for an admin."),
    Adopted("ST-23", "A link is exchanged only where its key can be written, and kept for reuse."),
    Adopted(
        "ST-24", "Of two runs that exchange one link at once, one connects, one leaves nothing."
    ),
    Adopted("ST-25", "A server makes no first link while its port is taken."),
    Adopted(
        "ST-26", "A narrow search of a large tenant misses nothing where the index ends early."
    ),
    # Jobs and learning
    Adopted("JB-01", "reflect makes episodes and candidate facts out of recent events."),
    Adopted("JB-02", "train fits a reranker on marked traces, a salience model on use."),
    Adopted("JB-03 JB-11", "A candidate serves a sticky 5%, then is promoted or rolled back."),
    NotApplicable("JB-04", "There is no large shared model that could be trained online."),
    Adopted("JB-05", "Workers run upkeep, reflection, training and evaluation as jobs."),
    Adopted("JB-06", "With a reflector set, reflect starts daily, by events, by a session's end."),
    NotApplicable("JB-07", "Plan runners and curators are clients like any other."),
    Replaced("JB-08", "The default embedder runs in-process; no daemon serves vectors."),
    Adopted("JB-09", "maintain runs itself when due; decay is computed, never written."),
    Adopted("JB-10", "A job has three attempts with back-off, then a dead letter."),
    Adopted("JB-12", "embed fills missing vectors as a job; repeated corrections propose rules."),
    Adopted("JB-13", "A queued job names what runs it and where its result is."),
    Adopted("JB-14", "An episode drops an open point only if its own subject settles it."),
    Adopted("JB-15", "An episode leaves out no open point for its length."),
    Adopted("JB-16", "An episode of a day has more than one of its events."),
    Adopted("JB-17", "An episode leaves out no question that a label calls open."),
    Adopted("JB-18", "Without one, reflect runs only when asked, and doctor says why."),
    # Observability
    Adopted("OB-01", "The log is JSON lines in rotating files; the last errors are in memory."),
    Adopted("OB-02", "status counts calls and errors and gives latencies by tool."),
    Adopted("OB-03", "status probes dependencies within 5 s; it shows errors and counts."),
    Adopted("OB-04 OB-11", "Events before boot wait on disk and are flushed exactly once."),
    Adopted("OB-05", "A desktop notice tells of errors when wanted."),
    Adopted("OB-07", "Both paths tell stages, rejects, tokens and vector space to who listens."),
    Adopted("OB-08", "A dashboard draws latency, growth, hit quality and tokens saved."),
    Adopted("OB-09", "Alert rules watch p95, 5xx and authorisation failures."),
    Adopted("OB-12", "Only instrumented code writes metrics: no operation offers it."),
    Adopted("OB-13", "OpenTelemetry spans cover every stage of both paths."),
    Adopted(
        "OB-14", "Lists of memories, messages, sessions, tasks, models, jobs, audits have pages."
    ),
    Adopted("OB-15", "Who audits can list who changed what and when, across memories."),
    Adopted("OB-16", "Status and doctor say when each hook last ran, and who is silent."),
    Adopted("OB-17", "The end of a session says the tokens shown and spent in the background."),
    Adopted("OB-18", "Each call outside the library has a request id."),
    Adopted("OB-19", "Where policy says so, every call and hook that shows text is audited."),
    Adopted("OB-20", "People list memories by filter and order, with counts by facet."),
    # Performance
    Adopted("PF-02 EV-01", "Suites run on a real SQLite, Postgres and embedder, without mocks."),
    Replaced("PF-03", "Benchmarks ask 10,000 memories, embedded on a processor; no test does."),
    Adopted("PF-05", "Readers of the file go on beside its one writer."),
    Replaced("PF-06", "p95 of 350 and 250 ms holds at 60 a second on two cores, by a benchmark."),
    Replaced("PF-07", "A month is the operator's; a benchmark counts reads while each part fails."),
    Replaced("PF-08", "Load is proved at 1,000,000 memories of 20 tenants, then extrapolated."),
    Adopted("PF-09", "Evaluations show tokens saved and the gain over a last session alone."),
    Replaced("PF-10", "Benchmarks measure speed and memory; no test asserts a time."),
    Adopted("PF-11", "Connections are pooled; boot embeds the task once, or nothing at all."),
    Replaced("PF-12", "Processes that write and search are tested; a benchmark soaks the server."),
    Adopted("PF-13", "No pattern takes quadratic time on hostile text."),
    Adopted("PF-14", "A command imports what it uses: no Postgres for a file, no model to count."),
    Adopted("PF-15", "Tenants of a server take turns at its model; a full queue refuses at once."),
    # Deployment and operations
    Replaced("DO-01", "Settings name the store; no port or database name is fixed."),
    Adopted("CL-01", "Any client that speaks MCP, old protocol or new, connects to the server."),
    Adopted("DO-02", "Any MCP client connects; the server's own name sets its tools apart."),
    Replaced("DO-03", "One relational store holds rows and vectors, with no second database."),
    Adopted("DO-05", "The store is one SQLite file in WAL mode, behind command and stdio."),
    Replaced("DO-06", "Connections are kept open and pooled, not opened per operation."),
    Adopted("DO-07", "Servers, workers, Postgres, replicas, Redis, and a bucket for models."),
    Replaced("DO-08", "Two deployments, embedded and server, stand for three tiers."),
    Adopted("DO-09", "One operation table draws commands, MCP tools and REST, with schemas."),
    Adopted("DO-10", "REST mirrors /v0/memory with the paths and the bodies of Brainstem."),
    Replaced("DO-11", "The graph is rows of links, and no template is public."),
    Adopted("DO-12", "Ollama is one embedder of several; audit, metrics and log ship inside."),
    Adopted("DO-13", "A light stdio bridge joins an MCP client to a running server."),
    NotApplicable("DO-14", "Memory infrastructure runs no agents and executes no tasks."),
    NotApplicable("DO-15", "Neither reasoning nor recall beyond doubt is promised."),
    Adopted("DO-16", "A packaged MiniLM is the default; global means the whole tenant."),
    Adopted("DO-17", "A store changes its embedder online, with a preview and a way back."),
    Adopted("DO-18", "Packages install and run from their wheels; backups restore under test."),
    Adopted("DO-19", "export and import carry a store as JSON lines without loss."),
    Adopted("DO-20", "brain connect registers clients and their hooks and clobbers nothing."),
    Adopted("DO-21", "What is called a default or configurable is a setting with bounds."),
    Adopted("DO-22", "A tenant's policy sets trust, budgets, thresholds and redaction of its own."),
    Adopted("DO-23", "The documentation is a site with working links and reproducible pictures."),
    Adopted("DO-24", "A store is distributed by tenant; an upgrade distributes what it adds."),
    Adopted("DO-25", "A lost server loses no acknowledged write and stops only its own tenants."),
    Adopted("DO-26", "Tenants have the names of Brainstem's, and /v0 keeps a json_payload."),
    Adopted("DO-27", "A server takes calls only when its model is loaded."),
    Adopted("DO-28", "Servers are replaced one by one under load, and no call is lost."),
    Adopted("DO-29", "A read waits for a database that restarts, and is repeated once."),
    Adopted("DO-30", "While a database restarts, new calls wait without taking a thread."),
    Adopted("DO-31", "Readiness is answered within two seconds while the database is away."),
    Adopted("DO-32", "A multilingual model is a package; new stores have it, old keep theirs."),
    Adopted("DO-33", "Setup and doctor recommend it where a tenth of what is new is not English."),
    # Migration and import
    Adopted("MG-02", "MEMORY.md trees become single memories that recall finds."),
    Adopted("MG-05", "Memories, handoffs and summaries of compactions stand for MEMORY.md."),
    Adopted("MG-03", "An imported pinned rule without a trigger boots as it did before."),
    Adopted("MG-04", "brain-db's database and the six files before it are read, each once."),
    Adopted("MG-06", "Markdown splits at headings, which give types; paths give the project."),
    Adopted("MG-07", "Import may be repeated, and reports read, stored and duplicate."),
    Replaced("MG-08", "Named formats and raw text stand for files of one note a line."),
    Adopted(
        "MG-09", "A migration backs a file up first, is done whole, and is undone by a restore."
    ),
    Adopted("MG-11", "An import keeps links, pins and replacements; a second one changes nothing."),
    Adopted("MG-12", "Sources on this machine are listed unread, and imported when chosen."),
    Adopted("MG-13", "Sessions and exports of chats become threads that push on nobody."),
    Adopted("MG-10", "The page imports after a preview, exports, backs up, and reports refusals."),
    Adopted("MG-14", "Origins in brain-db are read by their columns, whatever form its ids have."),
    Adopted("MG-15", "Closed threads, recipients and receipts of brain-db come over as they are."),
    Adopted("MG-16", "Each column of brain-db comes over or is counted in the report."),
    Adopted(
        "MG-17", "A heading of notes gives kind and label, unless it does not say what is below."
    ),
    Adopted("MG-18", "Each column of Brainstem comes over, from Postgres too, or is counted."),
    Adopted("MG-19", "An import lowers trust only to what its caller may claim, and counts it."),
    Adopted("MG-20", "Brainstem's tenants are imported apart, and its calls work afterwards."),
    Adopted("MG-21", "Authors of a source are agents; private memories stay theirs."),
    Adopted("MG-22", "Times, reasons, accesses and salience of a source are kept."),
    Adopted("MG-23", "Notes, receipts and threads of a source are kept, each once."),
    Adopted("MG-24", "Each column of Open Brain 1 and 2 comes over or is counted in the report."),
    Adopted("MG-25", "Each column of OpenBrain comes over or is counted in the report."),
    Adopted("MG-26", "After an import the questions of the day before have the same answers."),
    Adopted("MG-27", "A memory is found by its `source_ref`, also after it was superseded."),
    Adopted("MG-28", "An import reports what it cuts and redacts in notes, answers and reasons."),
    Adopted("MG-29", "What a model imports is its own and waits in no inbox of others."),
    Adopted("MG-30", "Recall shows a decision once, not with a message that says no more."),
    Adopted("MG-31", "A history has a memory's making before what was made of it, as its source."),
    Adopted("MG-32", "A text from the web does not say how salient it is; that is counted."),
    Adopted("MG-33", "A dry run counts what an import would add, and nothing that is there."),
    Adopted("MG-34", "Receipts and threads of what another import stored are counted as left."),
    Adopted("MG-35", "No error shows the password of an address, whatever signs it has."),
    Adopted("MG-36", "Killed, continued, repeated, each predecessor's import has every column."),
    # Evaluations and tests
    Adopted("EV-02", "Evaluations report ranking, gain and thrift; one tells leaks and lies."),
    Adopted("EV-03", "brain eval run measures recall and tokens saved on public data."),
    Adopted("EV-04", "Who may see, keep, change and roll back is tested through all floors."),
    Adopted("EV-05", "Concurrency, full text and provenance have tests of their own."),
    Adopted("EV-06", "Audited writes, recall in budget, measured gain, canary: all hold."),
    Adopted(
        "EV-07", "Capabilities have suites; without a setting, tests open stores of their own."
    ),
    Adopted("EV-08", "Evaluations class questions: one hop, several, changed, distracted."),
    Adopted("EV-09", "Each evaluation run is a record to compare, by category and system."),
    Adopted("EV-10", "MCP over stdio is tested for tools, flow, tokens and what roles may."),
    Adopted("EV-12", "Filters, payloads and tool schemas have tests of their own."),
    Adopted("EV-13", "Recall is measured in thirteen languages, by words, model and both."),
    Adopted("EV-14", "LongMemEval is read as published: blank turns, sessions that come twice."),
    Adopted("EV-15", "Sessions are ranked too, with the share of questions whose first is right."),
    # Clients
    Adopted("CL-02 CL-03", "All clients use the same tools, each under its own agent name."),
    Adopted("CL-04", "The command and the MCP server offer the same operations."),
    Adopted("CL-05", "Agent frameworks call by MCP, four are driven; others by REST or library."),
    Adopted("CL-06", "Hooks boot, recall, capture, end, and show a commit the rules that bind it."),
    Adopted("CL-07", "The prompt startup boots a client; upkeep asks for itself when it is due."),
    Adopted("CL-08", "A hook puts pins and recalled memories before the agent, quoted."),
    Adopted("CL-09", "The command serves, upgrades, measures, compares, reports, checks health."),
    Adopted("CL-10", "Tool schemas list every argument, and nothing else is accepted."),
    Adopted("CL-11", "An edit brings up what names its file, symbol or folder, once a session."),
    Adopted("CL-12", "A commit is shown only rules about commits, however it is written."),
    Adopted("CL-13", "A running server answers hooks; the next one follows when it is killed."),
    Adopted(
        "CL-14", "Agents on one store share a process; no write is lost or doubled by its end."
    ),
    Adopted("CL-15", "A running server runs commands, which print the same as without it."),
    Adopted("CL-16", "A prompt is answered by words if the model is not ready by its limit."),
    Adopted("CL-17", "People search, browse, correct and settle memories on a page after a login."),
    Adopted("CL-18", "A person corrects a memory on the page, and agents recall the correction."),
    Adopted("CL-19", "People settle the review queue by one key an item, each item only once."),
    Adopted("CL-20", "People see who is at work, and what a boot would tell, without one."),
    Adopted("CL-21", "A typed async client calls a server and repeats only what is safe to."),
    Adopted("CL-22", "A typed TypeScript client calls a server, generated from its description."),
    Adopted("CL-23", "Recall's JSON for agents has score and tags, where the budget has room."),
)
