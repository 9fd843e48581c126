--
-- PostgreSQL database dump
--


-- Dumped from database version 18.4
-- Dumped by pg_dump version 18.4

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET transaction_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: v2; Type: SCHEMA; Schema: -; Owner: -
--

CREATE SCHEMA v2;


SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: action_items; Type: TABLE; Schema: v2; Owner: -
--

CREATE TABLE v2.action_items (
    id integer NOT NULL,
    source_kind text NOT NULL,
    source_id integer NOT NULL,
    text text NOT NULL,
    project text DEFAULT ''::text NOT NULL,
    status text DEFAULT 'pending'::text NOT NULL,
    kind text DEFAULT 'task'::text NOT NULL,
    ack_reason text,
    ack_source text,
    ack_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);


--
-- Name: action_items_id_seq; Type: SEQUENCE; Schema: v2; Owner: -
--

CREATE SEQUENCE v2.action_items_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: action_items_id_seq; Type: SEQUENCE OWNED BY; Schema: v2; Owner: -
--

ALTER SEQUENCE v2.action_items_id_seq OWNED BY v2.action_items.id;


--
-- Name: active_sessions; Type: TABLE; Schema: v2; Owner: -
--

CREATE TABLE v2.active_sessions (
    id integer NOT NULL,
    source text NOT NULL,
    project text DEFAULT ''::text NOT NULL,
    cwd text DEFAULT ''::text NOT NULL,
    pid integer,
    host text DEFAULT ''::text NOT NULL,
    current_task text,
    started_at timestamp with time zone DEFAULT now() NOT NULL,
    heartbeat_at timestamp with time zone DEFAULT now() NOT NULL,
    ended_at timestamp with time zone,
    status text DEFAULT 'active'::text NOT NULL,
    metadata jsonb,
    pid_create_time double precision
);


--
-- Name: active_sessions_id_seq; Type: SEQUENCE; Schema: v2; Owner: -
--

CREATE SEQUENCE v2.active_sessions_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: active_sessions_id_seq; Type: SEQUENCE OWNED BY; Schema: v2; Owner: -
--

ALTER SEQUENCE v2.active_sessions_id_seq OWNED BY v2.active_sessions.id;


--
-- Name: facts; Type: TABLE; Schema: v2; Owner: -
--

CREATE TABLE v2.facts (
    id integer NOT NULL,
    headline text NOT NULL,
    body text NOT NULL,
    project text DEFAULT ''::text NOT NULL,
    tags text[] DEFAULT ARRAY[]::text[] NOT NULL,
    ttl timestamp with time zone,
    confidence real DEFAULT 1.0 NOT NULL,
    access_count integer DEFAULT 0 NOT NULL,
    last_accessed timestamp with time zone,
    source text DEFAULT ''::text NOT NULL,
    supersedes integer,
    superseded_by integer,
    supersede_reason text,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);


--
-- Name: facts_id_seq; Type: SEQUENCE; Schema: v2; Owner: -
--

CREATE SEQUENCE v2.facts_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: facts_id_seq; Type: SEQUENCE OWNED BY; Schema: v2; Owner: -
--

ALTER SEQUENCE v2.facts_id_seq OWNED BY v2.facts.id;


--
-- Name: handoffs; Type: TABLE; Schema: v2; Owner: -
--

CREATE TABLE v2.handoffs (
    id integer NOT NULL,
    session_id integer,
    source text NOT NULL,
    project text DEFAULT ''::text NOT NULL,
    content text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);


--
-- Name: handoffs_id_seq; Type: SEQUENCE; Schema: v2; Owner: -
--

CREATE SEQUENCE v2.handoffs_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: handoffs_id_seq; Type: SEQUENCE OWNED BY; Schema: v2; Owner: -
--

ALTER SEQUENCE v2.handoffs_id_seq OWNED BY v2.handoffs.id;


--
-- Name: incidents; Type: TABLE; Schema: v2; Owner: -
--

CREATE TABLE v2.incidents (
    id integer NOT NULL,
    headline text NOT NULL,
    body text NOT NULL,
    project text DEFAULT ''::text NOT NULL,
    root_cause text,
    resolution text,
    linked_rule_ids integer[] DEFAULT ARRAY[]::integer[] NOT NULL,
    occurred_at timestamp with time zone DEFAULT now() NOT NULL,
    last_accessed timestamp with time zone,
    archived boolean DEFAULT false NOT NULL,
    source text DEFAULT ''::text NOT NULL
);


--
-- Name: incidents_id_seq; Type: SEQUENCE; Schema: v2; Owner: -
--

CREATE SEQUENCE v2.incidents_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: incidents_id_seq; Type: SEQUENCE OWNED BY; Schema: v2; Owner: -
--

ALTER SEQUENCE v2.incidents_id_seq OWNED BY v2.incidents.id;


--
-- Name: maintenance_runs; Type: TABLE; Schema: v2; Owner: -
--

CREATE TABLE v2.maintenance_runs (
    id integer NOT NULL,
    started_at timestamp with time zone DEFAULT now() NOT NULL,
    finished_at timestamp with time zone,
    report jsonb,
    source text DEFAULT ''::text NOT NULL
);


--
-- Name: maintenance_runs_id_seq; Type: SEQUENCE; Schema: v2; Owner: -
--

CREATE SEQUENCE v2.maintenance_runs_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: maintenance_runs_id_seq; Type: SEQUENCE OWNED BY; Schema: v2; Owner: -
--

ALTER SEQUENCE v2.maintenance_runs_id_seq OWNED BY v2.maintenance_runs.id;


--
-- Name: memory_index; Type: TABLE; Schema: v2; Owner: -
--

CREATE TABLE v2.memory_index (
    kind text NOT NULL,
    memory_id integer NOT NULL,
    project text DEFAULT ''::text NOT NULL,
    headline text NOT NULL,
    severity text,
    skill_trigger jsonb,
    embedding public.vector(3),
    pinned boolean DEFAULT false NOT NULL,
    active boolean DEFAULT true NOT NULL,
    forgotten_at timestamp with time zone,
    forgotten_reason text,
    forgotten_by text,
    annotation text,
    upvotes integer DEFAULT 0 NOT NULL,
    downvotes integer DEFAULT 0 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);


--
-- Name: rules; Type: TABLE; Schema: v2; Owner: -
--

CREATE TABLE v2.rules (
    id integer NOT NULL,
    headline text NOT NULL,
    body text NOT NULL,
    severity text NOT NULL,
    project text DEFAULT ''::text NOT NULL,
    source text DEFAULT ''::text NOT NULL,
    supersedes integer,
    superseded_by integer,
    supersede_reason text,
    linked_incident_ids integer[] DEFAULT ARRAY[]::integer[] NOT NULL,
    skill_trigger jsonb,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);


--
-- Name: rules_id_seq; Type: SEQUENCE; Schema: v2; Owner: -
--

CREATE SEQUENCE v2.rules_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: rules_id_seq; Type: SEQUENCE OWNED BY; Schema: v2; Owner: -
--

ALTER SEQUENCE v2.rules_id_seq OWNED BY v2.rules.id;


--
-- Name: tasks; Type: TABLE; Schema: v2; Owner: -
--

CREATE TABLE v2.tasks (
    id integer NOT NULL,
    content text NOT NULL,
    project text DEFAULT ''::text NOT NULL,
    priority text DEFAULT 'medium'::text NOT NULL,
    status text DEFAULT 'open'::text NOT NULL,
    due_condition text,
    created_session text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL
);


--
-- Name: tasks_id_seq; Type: SEQUENCE; Schema: v2; Owner: -
--

CREATE SEQUENCE v2.tasks_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: tasks_id_seq; Type: SEQUENCE OWNED BY; Schema: v2; Owner: -
--

ALTER SEQUENCE v2.tasks_id_seq OWNED BY v2.tasks.id;


--
-- Name: tool_events; Type: TABLE; Schema: v2; Owner: -
--

CREATE TABLE v2.tool_events (
    id bigint NOT NULL,
    session_id integer,
    tool_name text NOT NULL,
    project text DEFAULT ''::text NOT NULL,
    source text DEFAULT ''::text NOT NULL,
    duration_ms integer,
    success boolean DEFAULT true NOT NULL,
    error_msg text,
    occurred_at timestamp with time zone DEFAULT now() NOT NULL
);


--
-- Name: tool_events_id_seq; Type: SEQUENCE; Schema: v2; Owner: -
--

CREATE SEQUENCE v2.tool_events_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: tool_events_id_seq; Type: SEQUENCE OWNED BY; Schema: v2; Owner: -
--

ALTER SEQUENCE v2.tool_events_id_seq OWNED BY v2.tool_events.id;


--
-- Name: v2_audit; Type: TABLE; Schema: v2; Owner: -
--

CREATE TABLE v2.v2_audit (
    audit_id integer NOT NULL,
    operation text NOT NULL,
    kind text DEFAULT ''::text NOT NULL,
    memory_id integer DEFAULT 0 NOT NULL,
    snapshot jsonb,
    source text,
    changed_at timestamp with time zone DEFAULT now() NOT NULL
);


--
-- Name: v2_audit_audit_id_seq; Type: SEQUENCE; Schema: v2; Owner: -
--

CREATE SEQUENCE v2.v2_audit_audit_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: v2_audit_audit_id_seq; Type: SEQUENCE OWNED BY; Schema: v2; Owner: -
--

ALTER SEQUENCE v2.v2_audit_audit_id_seq OWNED BY v2.v2_audit.audit_id;


--
-- Name: action_items id; Type: DEFAULT; Schema: v2; Owner: -
--

ALTER TABLE ONLY v2.action_items ALTER COLUMN id SET DEFAULT nextval('v2.action_items_id_seq'::regclass);


--
-- Name: active_sessions id; Type: DEFAULT; Schema: v2; Owner: -
--

ALTER TABLE ONLY v2.active_sessions ALTER COLUMN id SET DEFAULT nextval('v2.active_sessions_id_seq'::regclass);


--
-- Name: facts id; Type: DEFAULT; Schema: v2; Owner: -
--

ALTER TABLE ONLY v2.facts ALTER COLUMN id SET DEFAULT nextval('v2.facts_id_seq'::regclass);


--
-- Name: handoffs id; Type: DEFAULT; Schema: v2; Owner: -
--

ALTER TABLE ONLY v2.handoffs ALTER COLUMN id SET DEFAULT nextval('v2.handoffs_id_seq'::regclass);


--
-- Name: incidents id; Type: DEFAULT; Schema: v2; Owner: -
--

ALTER TABLE ONLY v2.incidents ALTER COLUMN id SET DEFAULT nextval('v2.incidents_id_seq'::regclass);


--
-- Name: maintenance_runs id; Type: DEFAULT; Schema: v2; Owner: -
--

ALTER TABLE ONLY v2.maintenance_runs ALTER COLUMN id SET DEFAULT nextval('v2.maintenance_runs_id_seq'::regclass);


--
-- Name: rules id; Type: DEFAULT; Schema: v2; Owner: -
--

ALTER TABLE ONLY v2.rules ALTER COLUMN id SET DEFAULT nextval('v2.rules_id_seq'::regclass);


--
-- Name: tasks id; Type: DEFAULT; Schema: v2; Owner: -
--

ALTER TABLE ONLY v2.tasks ALTER COLUMN id SET DEFAULT nextval('v2.tasks_id_seq'::regclass);


--
-- Name: tool_events id; Type: DEFAULT; Schema: v2; Owner: -
--

ALTER TABLE ONLY v2.tool_events ALTER COLUMN id SET DEFAULT nextval('v2.tool_events_id_seq'::regclass);


--
-- Name: v2_audit audit_id; Type: DEFAULT; Schema: v2; Owner: -
--

ALTER TABLE ONLY v2.v2_audit ALTER COLUMN audit_id SET DEFAULT nextval('v2.v2_audit_audit_id_seq'::regclass);


--
-- Data for Name: action_items; Type: TABLE DATA; Schema: v2; Owner: -
--

COPY v2.action_items (id, source_kind, source_id, text, project, status, kind, ack_reason, ack_source, ack_at, created_at) FROM stdin;
1	incident	1	Forbid force-pushes to release branches.	harbour	pending	rule	\N	\N	\N	2026-02-02 16:00:00+00
2	incident	1	Tell the pilots about the outage.	harbour	already_done	task	Ana called them.	cursor	2026-02-03 08:00:00+00	2026-02-02 16:00:00+00
\.


--
-- Data for Name: active_sessions; Type: TABLE DATA; Schema: v2; Owner: -
--

COPY v2.active_sessions (id, source, project, cwd, pid, host, current_task, started_at, heartbeat_at, ended_at, status, metadata, pid_create_time) FROM stdin;
\.


--
-- Data for Name: facts; Type: TABLE DATA; Schema: v2; Owner: -
--

COPY v2.facts (id, headline, body, project, tags, ttl, confidence, access_count, last_accessed, source, supersedes, superseded_by, supersede_reason, created_at) FROM stdin;
1	Trello holds the tickets	Tickets are in Trello.	harbour	{tickets}	\N	0.75	3	\N	claude	\N	2	switched tools	2026-02-05 09:00:00+00
2	Linear holds the tickets	Tickets are in Linear now.	harbour	{tickets,tools}	2031-01-01 00:00:00+00	0.9	0	\N	claude	\N	\N	\N	2026-02-06 09:00:00+00
3	The old crane is blue	The old crane is blue.		{}	\N	1	0	\N	claude	\N	\N	\N	2026-02-07 09:00:00+00
\.


--
-- Data for Name: handoffs; Type: TABLE DATA; Schema: v2; Owner: -
--

COPY v2.handoffs (id, session_id, source, project, content, created_at) FROM stdin;
1	\N	claude	harbour	The tag job works; the key still has to be rotated.	2026-02-11 18:00:00+00
\.


--
-- Data for Name: incidents; Type: TABLE DATA; Schema: v2; Owner: -
--

COPY v2.incidents (id, headline, body, project, root_cause, resolution, linked_rule_ids, occurred_at, last_accessed, archived, source) FROM stdin;
1	A branch went live	A half-done branch was deployed to production.	harbour	The branch was force-pushed.	Rolled back within ten minutes.	{2}	2026-02-02 15:00:00+00	\N	t	claude
\.


--
-- Data for Name: maintenance_runs; Type: TABLE DATA; Schema: v2; Owner: -
--

COPY v2.maintenance_runs (id, started_at, finished_at, report, source) FROM stdin;
\.


--
-- Data for Name: memory_index; Type: TABLE DATA; Schema: v2; Owner: -
--

COPY v2.memory_index (kind, memory_id, project, headline, severity, skill_trigger, embedding, pinned, active, forgotten_at, forgotten_reason, forgotten_by, annotation, upvotes, downvotes, created_at) FROM stdin;
rule	1	harbour	Deploy only from main	\N	\N	\N	t	f	\N	\N	\N	\N	0	0	2026-11-30 12:12:51.368573+00
rule	2	harbour	Deploy only from signed tags	\N	\N	\N	t	t	\N	\N	\N	\N	2	0	2026-11-30 12:12:51.368573+00
rule	3		Times are in UTC	\N	\N	\N	f	t	\N	\N	\N	\N	0	0	2026-11-30 12:12:51.368573+00
rule	4	harbour	Deploy at night	\N	\N	\N	f	f	\N	\N	\N	\N	0	0	2026-11-30 12:12:51.368573+00
fact	1	harbour	Trello holds the tickets	\N	\N	\N	f	f	\N	\N	\N	\N	0	0	2026-11-30 12:12:51.368573+00
fact	2	harbour	Linear holds the tickets	\N	\N	\N	f	t	\N	\N	\N	The team calls it the board.	0	3	2026-11-30 12:12:51.368573+00
fact	3		The old crane is blue	\N	\N	\N	f	f	2026-02-10 09:00:00+00	\N	\N	\N	0	0	2026-11-30 12:12:51.368573+00
task	1	harbour	Rotate the key	\N	\N	\N	f	t	\N	\N	\N	\N	0	0	2026-11-30 12:12:51.368573+00
task	2		Describe the release	\N	\N	\N	f	f	\N	\N	\N	\N	0	0	2026-11-30 12:12:51.368573+00
incident	1	harbour	A branch went live	\N	\N	\N	f	t	\N	\N	\N	\N	0	0	2026-02-02 15:30:00+00
\.


--
-- Data for Name: rules; Type: TABLE DATA; Schema: v2; Owner: -
--

COPY v2.rules (id, headline, body, severity, project, source, supersedes, superseded_by, supersede_reason, linked_incident_ids, skill_trigger, created_at) FROM stdin;
2	Deploy only from signed tags	Never deploy anything but a signed tag.	BLOCKER	harbour	claude	1	\N	Branches can be moved.	{1}	{"name": "deploy-tags", "keywords": ["deploy", "release"], "always_on": true}	2026-02-03 09:00:00+00
3	Times are in UTC	Write every time in UTC.	CONTEXT		cursor	\N	\N	\N	{}	\N	2026-02-04 09:00:00+00
4	Deploy at night	Deploy at night alone.	PATTERN	harbour	cursor	\N	\N	It was undone.	{}	\N	2026-02-05 09:00:00+00
1	Deploy only from main	Never deploy from a branch.	DEPRECATED	harbour	claude	\N	2	\N	{}	\N	2026-02-01 09:00:00+00
\.


--
-- Data for Name: tasks; Type: TABLE DATA; Schema: v2; Owner: -
--

COPY v2.tasks (id, content, project, priority, status, due_condition, created_session, created_at, updated_at) FROM stdin;
1	Rotate the key of the signing machine	harbour	high	blocked	2026-04-01	\N	2026-02-08 09:00:00+00	2026-11-30 12:12:51.368573+00
2	Describe the release in the runbook		low	done	after the next release	\N	2026-02-09 09:00:00+00	2026-11-30 12:12:51.368573+00
\.


--
-- Data for Name: tool_events; Type: TABLE DATA; Schema: v2; Owner: -
--

COPY v2.tool_events (id, session_id, tool_name, project, source, duration_ms, success, error_msg, occurred_at) FROM stdin;
\.


--
-- Data for Name: v2_audit; Type: TABLE DATA; Schema: v2; Owner: -
--

COPY v2.v2_audit (audit_id, operation, kind, memory_id, snapshot, source, changed_at) FROM stdin;
1	INSERT		0	\N	\N	2026-11-30 12:12:51.368573+00
2	SUPERSEDE		0	\N	\N	2026-11-30 12:12:51.368573+00
3	FORGET		0	\N	\N	2026-11-30 12:12:51.368573+00
\.


--
-- Name: action_items_id_seq; Type: SEQUENCE SET; Schema: v2; Owner: -
--

SELECT pg_catalog.setval('v2.action_items_id_seq', 1, false);


--
-- Name: active_sessions_id_seq; Type: SEQUENCE SET; Schema: v2; Owner: -
--

SELECT pg_catalog.setval('v2.active_sessions_id_seq', 1, false);


--
-- Name: facts_id_seq; Type: SEQUENCE SET; Schema: v2; Owner: -
--

SELECT pg_catalog.setval('v2.facts_id_seq', 1, false);


--
-- Name: handoffs_id_seq; Type: SEQUENCE SET; Schema: v2; Owner: -
--

SELECT pg_catalog.setval('v2.handoffs_id_seq', 1, false);


--
-- Name: incidents_id_seq; Type: SEQUENCE SET; Schema: v2; Owner: -
--

SELECT pg_catalog.setval('v2.incidents_id_seq', 1, false);


--
-- Name: maintenance_runs_id_seq; Type: SEQUENCE SET; Schema: v2; Owner: -
--

SELECT pg_catalog.setval('v2.maintenance_runs_id_seq', 1, false);


--
-- Name: rules_id_seq; Type: SEQUENCE SET; Schema: v2; Owner: -
--

SELECT pg_catalog.setval('v2.rules_id_seq', 1, false);


--
-- Name: tasks_id_seq; Type: SEQUENCE SET; Schema: v2; Owner: -
--

SELECT pg_catalog.setval('v2.tasks_id_seq', 1, false);


--
-- Name: tool_events_id_seq; Type: SEQUENCE SET; Schema: v2; Owner: -
--

SELECT pg_catalog.setval('v2.tool_events_id_seq', 1, false);


--
-- Name: v2_audit_audit_id_seq; Type: SEQUENCE SET; Schema: v2; Owner: -
--

SELECT pg_catalog.setval('v2.v2_audit_audit_id_seq', 3, true);


--
-- Name: action_items action_items_pkey; Type: CONSTRAINT; Schema: v2; Owner: -
--

ALTER TABLE ONLY v2.action_items
    ADD CONSTRAINT action_items_pkey PRIMARY KEY (id);


--
-- Name: active_sessions active_sessions_pkey; Type: CONSTRAINT; Schema: v2; Owner: -
--

ALTER TABLE ONLY v2.active_sessions
    ADD CONSTRAINT active_sessions_pkey PRIMARY KEY (id);


--
-- Name: facts facts_pkey; Type: CONSTRAINT; Schema: v2; Owner: -
--

ALTER TABLE ONLY v2.facts
    ADD CONSTRAINT facts_pkey PRIMARY KEY (id);


--
-- Name: handoffs handoffs_pkey; Type: CONSTRAINT; Schema: v2; Owner: -
--

ALTER TABLE ONLY v2.handoffs
    ADD CONSTRAINT handoffs_pkey PRIMARY KEY (id);


--
-- Name: incidents incidents_pkey; Type: CONSTRAINT; Schema: v2; Owner: -
--

ALTER TABLE ONLY v2.incidents
    ADD CONSTRAINT incidents_pkey PRIMARY KEY (id);


--
-- Name: maintenance_runs maintenance_runs_pkey; Type: CONSTRAINT; Schema: v2; Owner: -
--

ALTER TABLE ONLY v2.maintenance_runs
    ADD CONSTRAINT maintenance_runs_pkey PRIMARY KEY (id);


--
-- Name: memory_index memory_index_pkey; Type: CONSTRAINT; Schema: v2; Owner: -
--

ALTER TABLE ONLY v2.memory_index
    ADD CONSTRAINT memory_index_pkey PRIMARY KEY (kind, memory_id);


--
-- Name: rules rules_pkey; Type: CONSTRAINT; Schema: v2; Owner: -
--

ALTER TABLE ONLY v2.rules
    ADD CONSTRAINT rules_pkey PRIMARY KEY (id);


--
-- Name: tasks tasks_pkey; Type: CONSTRAINT; Schema: v2; Owner: -
--

ALTER TABLE ONLY v2.tasks
    ADD CONSTRAINT tasks_pkey PRIMARY KEY (id);


--
-- Name: tool_events tool_events_pkey; Type: CONSTRAINT; Schema: v2; Owner: -
--

ALTER TABLE ONLY v2.tool_events
    ADD CONSTRAINT tool_events_pkey PRIMARY KEY (id);


--
-- Name: v2_audit v2_audit_pkey; Type: CONSTRAINT; Schema: v2; Owner: -
--

ALTER TABLE ONLY v2.v2_audit
    ADD CONSTRAINT v2_audit_pkey PRIMARY KEY (audit_id);


--
-- Name: rules rules_superseded_by_fkey; Type: FK CONSTRAINT; Schema: v2; Owner: -
--

ALTER TABLE ONLY v2.rules
    ADD CONSTRAINT rules_superseded_by_fkey FOREIGN KEY (superseded_by) REFERENCES v2.rules(id) ON DELETE SET NULL;


--
-- Name: rules rules_supersedes_fkey; Type: FK CONSTRAINT; Schema: v2; Owner: -
--

ALTER TABLE ONLY v2.rules
    ADD CONSTRAINT rules_supersedes_fkey FOREIGN KEY (supersedes) REFERENCES v2.rules(id) ON DELETE SET NULL;


--
-- PostgreSQL database dump complete
--


