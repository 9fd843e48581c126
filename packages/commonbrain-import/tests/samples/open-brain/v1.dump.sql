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
-- Name: v1; Type: SCHEMA; Schema: -; Owner: -
--

CREATE SCHEMA v1;


SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: active_sessions; Type: TABLE; Schema: v1; Owner: -
--

CREATE TABLE v1.active_sessions (
    id bigint NOT NULL,
    source text NOT NULL,
    project text,
    cwd text,
    pid integer,
    host text,
    current_task text,
    started_at timestamp with time zone DEFAULT now() NOT NULL,
    heartbeat_at timestamp with time zone DEFAULT now() NOT NULL,
    ended_at timestamp with time zone,
    status text DEFAULT 'active'::text NOT NULL,
    metadata jsonb,
    pid_create_time double precision
);


--
-- Name: active_sessions_id_seq; Type: SEQUENCE; Schema: v1; Owner: -
--

CREATE SEQUENCE v1.active_sessions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: active_sessions_id_seq; Type: SEQUENCE OWNED BY; Schema: v1; Owner: -
--

ALTER SEQUENCE v1.active_sessions_id_seq OWNED BY v1.active_sessions.id;


--
-- Name: memories; Type: TABLE; Schema: v1; Owner: -
--

CREATE TABLE v1.memories (
    id integer NOT NULL,
    content text NOT NULL,
    embedding public.vector(3),
    metadata jsonb DEFAULT '{}'::jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    project text DEFAULT ''::text NOT NULL,
    annotation text DEFAULT ''::text NOT NULL,
    access_count integer DEFAULT 0 NOT NULL,
    last_accessed timestamp with time zone,
    upvotes integer DEFAULT 0 NOT NULL,
    downvotes integer DEFAULT 0 NOT NULL,
    pinned boolean DEFAULT false NOT NULL,
    updated_at timestamp with time zone,
    projects text[] DEFAULT ARRAY[]::text[] NOT NULL,
    valid_time timestamp with time zone DEFAULT now() NOT NULL,
    transaction_time timestamp with time zone DEFAULT now() NOT NULL,
    superseded_by_id integer,
    superseded_at timestamp with time zone,
    superseded_reason text,
    skill_trigger jsonb,
    last_accessed_uptime double precision
);


--
-- Name: memories_audit; Type: TABLE; Schema: v1; Owner: -
--

CREATE TABLE v1.memories_audit (
    audit_id integer NOT NULL,
    operation text NOT NULL,
    memory_id integer NOT NULL,
    content text,
    metadata jsonb,
    project text,
    pinned boolean,
    changed_at timestamp with time zone DEFAULT now() NOT NULL,
    changed_by text DEFAULT ''::text NOT NULL
);


--
-- Name: memories_audit_audit_id_seq; Type: SEQUENCE; Schema: v1; Owner: -
--

CREATE SEQUENCE v1.memories_audit_audit_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: memories_audit_audit_id_seq; Type: SEQUENCE OWNED BY; Schema: v1; Owner: -
--

ALTER SEQUENCE v1.memories_audit_audit_id_seq OWNED BY v1.memories_audit.audit_id;


--
-- Name: memories_id_seq; Type: SEQUENCE; Schema: v1; Owner: -
--

CREATE SEQUENCE v1.memories_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: memories_id_seq; Type: SEQUENCE OWNED BY; Schema: v1; Owner: -
--

ALTER SEQUENCE v1.memories_id_seq OWNED BY v1.memories.id;


--
-- Name: server_uptime; Type: TABLE; Schema: v1; Owner: -
--

CREATE TABLE v1.server_uptime (
    id integer DEFAULT 1 NOT NULL,
    total_seconds double precision DEFAULT 0 NOT NULL,
    last_heartbeat timestamp with time zone DEFAULT now(),
    CONSTRAINT server_uptime_id_check CHECK ((id = 1))
);


--
-- Name: active_sessions id; Type: DEFAULT; Schema: v1; Owner: -
--

ALTER TABLE ONLY v1.active_sessions ALTER COLUMN id SET DEFAULT nextval('v1.active_sessions_id_seq'::regclass);


--
-- Name: memories id; Type: DEFAULT; Schema: v1; Owner: -
--

ALTER TABLE ONLY v1.memories ALTER COLUMN id SET DEFAULT nextval('v1.memories_id_seq'::regclass);


--
-- Name: memories_audit audit_id; Type: DEFAULT; Schema: v1; Owner: -
--

ALTER TABLE ONLY v1.memories_audit ALTER COLUMN audit_id SET DEFAULT nextval('v1.memories_audit_audit_id_seq'::regclass);


--
-- Data for Name: active_sessions; Type: TABLE DATA; Schema: v1; Owner: -
--

COPY v1.active_sessions (id, source, project, cwd, pid, host, current_task, started_at, heartbeat_at, ended_at, status, metadata, pid_create_time) FROM stdin;
\.


--
-- Data for Name: memories; Type: TABLE DATA; Schema: v1; Owner: -
--

COPY v1.memories (id, content, embedding, metadata, created_at, project, annotation, access_count, last_accessed, upvotes, downvotes, pinned, updated_at, projects, valid_time, transaction_time, superseded_by_id, superseded_at, superseded_reason, skill_trigger, last_accessed_uptime) FROM stdin;
3	The web server starts when a client connects, by its socket.	[1,2,5]	{"type": "decision", "people": ["Ana", "Ben"], "source": "cursor", "auto_captured": true}	2026-01-09 10:00:00+00	harbour	The socket unit is in the infra repository.	0	\N	3	1	f	\N	{harbour,dock,"north quay"}	2026-01-08 09:00:00+00	2026-01-09 10:00:00+00	\N	\N	\N	\N	\N
4	Never restart the database while a crane moves.	\N	{"type": "note", "source": "claude"}	2026-01-10 10:00:00+00	harbour		0	\N	0	0	t	\N	{}	2026-01-10 10:00:00+00	2026-01-10 10:00:00+00	\N	\N	\N	\N	\N
5	Shut Ollama down with SIGTERM and wait for its models to unload.	\N	{"type": "procedural", "source": "claude"}	2026-01-11 10:00:00+00			0	\N	0	0	t	\N	{}	2026-01-11 10:00:00+00	2026-01-11 10:00:00+00	\N	\N	\N	{"name": "ollama-shutdown-graceful", "keywords": ["ollama", "shutdown"], "projects": [], "always_on": false}	\N
6	We need to follow up with the pilots about the new berth plan.	\N	{"type": "task", "source": "claude", "action_items": ["follow up with the pilots"]}	2026-01-12 10:00:00+00			0	\N	0	0	f	\N	{}	2026-01-12 10:00:00+00	2026-01-12 10:00:00+00	\N	\N	\N	\N	\N
7	Tab\there, a backslash \\ and two\nlines: Grüße, 港.	\N	{"type": "recipe", "source": "windsurf"}	2026-01-13 10:00:00+00			0	\N	0	0	f	\N	{}	2026-01-13 10:00:00+00	2026-01-13 10:00:00+00	\N	\N	\N	{"name": "Not A Name"}	\N
1	The web server starts with the first client.	[1,2,3]	{"tags": ["boot"], "type": "insight", "source": "claude", "topics": ["Server"]}	2026-01-02 10:00:00+00	harbour		4	2026-01-20 10:00:00+00	0	1	f	\N	{}	2026-01-02 10:00:00+00	2026-01-02 10:00:00+00	2	2026-01-05 11:00:00+00	It moved to systemd.	\N	\N
2	The web server starts with the machine, by systemd.	[1,2,4]	{"type": "insight", "source": "cursor"}	2026-01-05 10:00:00+00	harbour		0	\N	0	0	f	\N	{}	2026-01-05 10:00:00+00	2026-01-05 10:00:00+00	3	\N	It has a socket now.	\N	\N
\.


--
-- Data for Name: memories_audit; Type: TABLE DATA; Schema: v1; Owner: -
--

COPY v1.memories_audit (audit_id, operation, memory_id, content, metadata, project, pinned, changed_at, changed_by) FROM stdin;
1	INSERT	1	The web server starts with the first client.	\N	\N	\N	2026-11-30 12:12:50.916861+00	
2	UPDATE	1	\N	\N	\N	\N	2026-11-30 12:12:50.916861+00	
\.


--
-- Data for Name: server_uptime; Type: TABLE DATA; Schema: v1; Owner: -
--

COPY v1.server_uptime (id, total_seconds, last_heartbeat) FROM stdin;
\.


--
-- Name: active_sessions_id_seq; Type: SEQUENCE SET; Schema: v1; Owner: -
--

SELECT pg_catalog.setval('v1.active_sessions_id_seq', 1, false);


--
-- Name: memories_audit_audit_id_seq; Type: SEQUENCE SET; Schema: v1; Owner: -
--

SELECT pg_catalog.setval('v1.memories_audit_audit_id_seq', 2, true);


--
-- Name: memories_id_seq; Type: SEQUENCE SET; Schema: v1; Owner: -
--

SELECT pg_catalog.setval('v1.memories_id_seq', 1, false);


--
-- Name: active_sessions active_sessions_pkey; Type: CONSTRAINT; Schema: v1; Owner: -
--

ALTER TABLE ONLY v1.active_sessions
    ADD CONSTRAINT active_sessions_pkey PRIMARY KEY (id);


--
-- Name: memories_audit memories_audit_pkey; Type: CONSTRAINT; Schema: v1; Owner: -
--

ALTER TABLE ONLY v1.memories_audit
    ADD CONSTRAINT memories_audit_pkey PRIMARY KEY (audit_id);


--
-- Name: memories memories_pkey; Type: CONSTRAINT; Schema: v1; Owner: -
--

ALTER TABLE ONLY v1.memories
    ADD CONSTRAINT memories_pkey PRIMARY KEY (id);


--
-- Name: server_uptime server_uptime_pkey; Type: CONSTRAINT; Schema: v1; Owner: -
--

ALTER TABLE ONLY v1.server_uptime
    ADD CONSTRAINT server_uptime_pkey PRIMARY KEY (id);


--
-- Name: memories memories_superseded_by_id_fkey; Type: FK CONSTRAINT; Schema: v1; Owner: -
--

ALTER TABLE ONLY v1.memories
    ADD CONSTRAINT memories_superseded_by_id_fkey FOREIGN KEY (superseded_by_id) REFERENCES v1.memories(id) ON DELETE SET NULL;


--
-- PostgreSQL database dump complete
--


