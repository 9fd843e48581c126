BEGIN TRANSACTION;
CREATE TABLE graph_edges (
                    tenant_id TEXT NOT NULL,
                    src_memory_id TEXT NOT NULL,
                    dst_memory_id TEXT NOT NULL,
                    relation TEXT NOT NULL,
                    weight REAL NOT NULL,
                    created_at TEXT NOT NULL,
                    PRIMARY KEY (tenant_id, src_memory_id, dst_memory_id, relation)
                );
INSERT INTO "graph_edges" VALUES('t_123','mem_4e8742dfd3','mem_f8612f1361','keyword',1.0,'2026-11-26T12:40:50.193166+00:00');
INSERT INTO "graph_edges" VALUES('t_123','mem_f8612f1361','mem_4e8742dfd3','keyword',1.0,'2026-11-26T12:40:50.193166+00:00');
INSERT INTO "graph_edges" VALUES('t_123','mem_51cc6fc5c6','mem_d325356d93','keyword',3.0,'2026-11-26T12:40:50.229255+00:00');
INSERT INTO "graph_edges" VALUES('t_123','mem_d325356d93','mem_51cc6fc5c6','keyword',3.0,'2026-11-26T12:40:50.229255+00:00');
INSERT INTO "graph_edges" VALUES('t_123','mem_51cc6fc5c6','mem_d325356d93','phrase',2.0,'2026-11-26T12:40:50.229255+00:00');
INSERT INTO "graph_edges" VALUES('t_123','mem_d325356d93','mem_51cc6fc5c6','phrase',2.0,'2026-11-26T12:40:50.229255+00:00');
CREATE TABLE graph_terms (
                    tenant_id TEXT NOT NULL,
                    term TEXT NOT NULL,
                    memory_id TEXT NOT NULL,
                    created_at TEXT NOT NULL,
                    PRIMARY KEY (tenant_id, term, memory_id)
                );
INSERT INTO "graph_terms" VALUES('t_123','keyword:before','mem_1303ffce65','2026-11-26T12:40:50.074017+00:00');
INSERT INTO "graph_terms" VALUES('t_123','keyword:april','mem_1303ffce65','2026-11-26T12:40:50.074017+00:00');
INSERT INTO "graph_terms" VALUES('t_123','keyword:wants','mem_1303ffce65','2026-11-26T12:40:50.074017+00:00');
INSERT INTO "graph_terms" VALUES('t_123','keyword:user','mem_1303ffce65','2026-11-26T12:40:50.074017+00:00');
INSERT INTO "graph_terms" VALUES('t_123','keyword:migration','mem_1303ffce65','2026-11-26T12:40:50.074017+00:00');
INSERT INTO "graph_terms" VALUES('t_123','keyword:done','mem_1303ffce65','2026-11-26T12:40:50.074017+00:00');
INSERT INTO "graph_terms" VALUES('t_123','keyword:planning','mem_1303ffce65','2026-11-26T12:40:50.074017+00:00');
INSERT INTO "graph_terms" VALUES('t_123','phrase:user_wants','mem_1303ffce65','2026-11-26T12:40:50.074017+00:00');
INSERT INTO "graph_terms" VALUES('t_123','phrase:done_before','mem_1303ffce65','2026-11-26T12:40:50.074017+00:00');
INSERT INTO "graph_terms" VALUES('t_123','phrase:before_april','mem_1303ffce65','2026-11-26T12:40:50.074017+00:00');
INSERT INTO "graph_terms" VALUES('t_123','phrase:wants_migration','mem_1303ffce65','2026-11-26T12:40:50.074017+00:00');
INSERT INTO "graph_terms" VALUES('t_123','phrase:migration_done','mem_1303ffce65','2026-11-26T12:40:50.074017+00:00');
INSERT INTO "graph_terms" VALUES('t_123','phrase:april_planning','mem_1303ffce65','2026-11-26T12:40:50.074017+00:00');
INSERT INTO "graph_terms" VALUES('t_123','keyword:postgres','mem_d325356d93','2026-11-26T12:40:50.113149+00:00');
INSERT INTO "graph_terms" VALUES('t_123','keyword:staging','mem_d325356d93','2026-11-26T12:40:50.113149+00:00');
INSERT INTO "graph_terms" VALUES('t_123','keyword:frankfurt','mem_d325356d93','2026-11-26T12:40:50.113149+00:00');
INSERT INTO "graph_terms" VALUES('t_123','keyword:runs','mem_d325356d93','2026-11-26T12:40:50.113149+00:00');
INSERT INTO "graph_terms" VALUES('t_123','keyword:database','mem_d325356d93','2026-11-26T12:40:50.113149+00:00');
INSERT INTO "graph_terms" VALUES('t_123','phrase:staging_database','mem_d325356d93','2026-11-26T12:40:50.113149+00:00');
INSERT INTO "graph_terms" VALUES('t_123','phrase:postgres_frankfurt','mem_d325356d93','2026-11-26T12:40:50.113149+00:00');
INSERT INTO "graph_terms" VALUES('t_123','phrase:database_runs','mem_d325356d93','2026-11-26T12:40:50.113149+00:00');
INSERT INTO "graph_terms" VALUES('t_123','phrase:runs_postgres','mem_d325356d93','2026-11-26T12:40:50.113149+00:00');
INSERT INTO "graph_terms" VALUES('t_123','keyword:after','mem_bc357b6dfb','2026-11-26T12:40:50.135710+00:00');
INSERT INTO "graph_terms" VALUES('t_123','keyword:friday','mem_bc357b6dfb','2026-11-26T12:40:50.135710+00:00');
INSERT INTO "graph_terms" VALUES('t_123','keyword:deploy','mem_bc357b6dfb','2026-11-26T12:40:50.135710+00:00');
INSERT INTO "graph_terms" VALUES('t_123','keyword:noon','mem_bc357b6dfb','2026-11-26T12:40:50.135710+00:00');
INSERT INTO "graph_terms" VALUES('t_123','keyword:never','mem_bc357b6dfb','2026-11-26T12:40:50.135710+00:00');
INSERT INTO "graph_terms" VALUES('t_123','phrase:friday_after','mem_bc357b6dfb','2026-11-26T12:40:50.135710+00:00');
INSERT INTO "graph_terms" VALUES('t_123','phrase:after_noon','mem_bc357b6dfb','2026-11-26T12:40:50.135710+00:00');
INSERT INTO "graph_terms" VALUES('t_123','phrase:deploy_friday','mem_bc357b6dfb','2026-11-26T12:40:50.135710+00:00');
INSERT INTO "graph_terms" VALUES('t_123','phrase:never_deploy','mem_bc357b6dfb','2026-11-26T12:40:50.135710+00:00');
INSERT INTO "graph_terms" VALUES('t_123','temporal:friday','mem_bc357b6dfb','2026-11-26T12:40:50.135710+00:00');
INSERT INTO "graph_terms" VALUES('t_123','keyword:three','mem_f8612f1361','2026-11-26T12:40:50.157190+00:00');
INSERT INTO "graph_terms" VALUES('t_123','keyword:sprint','mem_f8612f1361','2026-11-26T12:40:50.157190+00:00');
INSERT INTO "graph_terms" VALUES('t_123','keyword:services','mem_f8612f1361','2026-11-26T12:40:50.157190+00:00');
INSERT INTO "graph_terms" VALUES('t_123','keyword:left','mem_f8612f1361','2026-11-26T12:40:50.157190+00:00');
INSERT INTO "graph_terms" VALUES('t_123','keyword:were','mem_f8612f1361','2026-11-26T12:40:50.157190+00:00');
INSERT INTO "graph_terms" VALUES('t_123','keyword:two','mem_f8612f1361','2026-11-26T12:40:50.157190+00:00');
INSERT INTO "graph_terms" VALUES('t_123','keyword:march','mem_f8612f1361','2026-11-26T12:40:50.157190+00:00');
INSERT INTO "graph_terms" VALUES('t_123','keyword:moved','mem_f8612f1361','2026-11-26T12:40:50.157190+00:00');
INSERT INTO "graph_terms" VALUES('t_123','keyword:cluster','mem_f8612f1361','2026-11-26T12:40:50.157190+00:00');
INSERT INTO "graph_terms" VALUES('t_123','keyword:tickets','mem_f8612f1361','2026-11-26T12:40:50.157190+00:00');
INSERT INTO "graph_terms" VALUES('t_123','keyword:new','mem_f8612f1361','2026-11-26T12:40:50.157190+00:00');
INSERT INTO "graph_terms" VALUES('t_123','phrase:were_left','mem_f8612f1361','2026-11-26T12:40:50.157190+00:00');
INSERT INTO "graph_terms" VALUES('t_123','phrase:sprint_moved','mem_f8612f1361','2026-11-26T12:40:50.157190+00:00');
INSERT INTO "graph_terms" VALUES('t_123','phrase:cluster_two','mem_f8612f1361','2026-11-26T12:40:50.157190+00:00');
INSERT INTO "graph_terms" VALUES('t_123','phrase:march_sprint','mem_f8612f1361','2026-11-26T12:40:50.157190+00:00');
INSERT INTO "graph_terms" VALUES('t_123','phrase:services_new','mem_f8612f1361','2026-11-26T12:40:50.157190+00:00');
INSERT INTO "graph_terms" VALUES('t_123','phrase:three_services','mem_f8612f1361','2026-11-26T12:40:50.157190+00:00');
INSERT INTO "graph_terms" VALUES('t_123','phrase:new_cluster','mem_f8612f1361','2026-11-26T12:40:50.157190+00:00');
INSERT INTO "graph_terms" VALUES('t_123','phrase:moved_three','mem_f8612f1361','2026-11-26T12:40:50.157190+00:00');
INSERT INTO "graph_terms" VALUES('t_123','phrase:tickets_were','mem_f8612f1361','2026-11-26T12:40:50.157190+00:00');
INSERT INTO "graph_terms" VALUES('t_123','phrase:two_tickets','mem_f8612f1361','2026-11-26T12:40:50.157190+00:00');
INSERT INTO "graph_terms" VALUES('t_123','keyword:blog','mem_4e8742dfd3','2026-11-26T12:40:50.193166+00:00');
INSERT INTO "graph_terms" VALUES('t_123','keyword:deprecated','mem_4e8742dfd3','2026-11-26T12:40:50.193166+00:00');
INSERT INTO "graph_terms" VALUES('t_123','keyword:will','mem_4e8742dfd3','2026-11-26T12:40:50.193166+00:00');
INSERT INTO "graph_terms" VALUES('t_123','keyword:says','mem_4e8742dfd3','2026-11-26T12:40:50.193166+00:00');
INSERT INTO "graph_terms" VALUES('t_123','keyword:year','mem_4e8742dfd3','2026-11-26T12:40:50.193166+00:00');
INSERT INTO "graph_terms" VALUES('t_123','keyword:next','mem_4e8742dfd3','2026-11-26T12:40:50.193166+00:00');
INSERT INTO "graph_terms" VALUES('t_123','keyword:cluster','mem_4e8742dfd3','2026-11-26T12:40:50.193166+00:00');
INSERT INTO "graph_terms" VALUES('t_123','phrase:deprecated_next','mem_4e8742dfd3','2026-11-26T12:40:50.193166+00:00');
INSERT INTO "graph_terms" VALUES('t_123','phrase:next_year','mem_4e8742dfd3','2026-11-26T12:40:50.193166+00:00');
INSERT INTO "graph_terms" VALUES('t_123','phrase:cluster_will','mem_4e8742dfd3','2026-11-26T12:40:50.193166+00:00');
INSERT INTO "graph_terms" VALUES('t_123','phrase:blog_says','mem_4e8742dfd3','2026-11-26T12:40:50.193166+00:00');
INSERT INTO "graph_terms" VALUES('t_123','phrase:says_cluster','mem_4e8742dfd3','2026-11-26T12:40:50.193166+00:00');
INSERT INTO "graph_terms" VALUES('t_123','phrase:will_deprecated','mem_4e8742dfd3','2026-11-26T12:40:50.193166+00:00');
INSERT INTO "graph_terms" VALUES('t_123','keyword:runs','mem_51cc6fc5c6','2026-11-26T12:40:50.229255+00:00');
INSERT INTO "graph_terms" VALUES('t_123','keyword:database','mem_51cc6fc5c6','2026-11-26T12:40:50.229255+00:00');
INSERT INTO "graph_terms" VALUES('t_123','keyword:staging','mem_51cc6fc5c6','2026-11-26T12:40:50.229255+00:00');
INSERT INTO "graph_terms" VALUES('t_123','keyword:mysql','mem_51cc6fc5c6','2026-11-26T12:40:50.229255+00:00');
INSERT INTO "graph_terms" VALUES('t_123','phrase:staging_database','mem_51cc6fc5c6','2026-11-26T12:40:50.229255+00:00');
INSERT INTO "graph_terms" VALUES('t_123','phrase:runs_mysql','mem_51cc6fc5c6','2026-11-26T12:40:50.229255+00:00');
INSERT INTO "graph_terms" VALUES('t_123','phrase:database_runs','mem_51cc6fc5c6','2026-11-26T12:40:50.229255+00:00');
CREATE TABLE idempotency_records (
                    tenant_id TEXT NOT NULL,
                    idempotency_key TEXT NOT NULL,
                    response_json TEXT NOT NULL,
                    created_at TEXT NOT NULL,
                    PRIMARY KEY (tenant_id, idempotency_key)
                );
INSERT INTO "idempotency_records" VALUES('t_123','key-0','{"accepted":1,"rejected":0,"memory_ids":["mem_1303ffce65"],"warnings":[]}','2026-11-26T12:40:50.053439+00:00');
INSERT INTO "idempotency_records" VALUES('t_123','key-1','{"accepted":1,"rejected":0,"memory_ids":["mem_d325356d93"],"warnings":[]}','2026-11-26T12:40:50.097220+00:00');
INSERT INTO "idempotency_records" VALUES('t_123','key-2','{"accepted":1,"rejected":0,"memory_ids":["mem_bc357b6dfb"],"warnings":[]}','2026-11-26T12:40:50.133278+00:00');
INSERT INTO "idempotency_records" VALUES('t_123','key-3','{"accepted":1,"rejected":0,"memory_ids":["mem_f8612f1361"],"warnings":[]}','2026-11-26T12:40:50.142077+00:00');
INSERT INTO "idempotency_records" VALUES('t_123','key-4','{"accepted":1,"rejected":0,"memory_ids":["mem_4e8742dfd3"],"warnings":[]}','2026-11-26T12:40:50.173228+00:00');
INSERT INTO "idempotency_records" VALUES('t_123','key-5','{"accepted":1,"rejected":0,"memory_ids":["mem_51cc6fc5c6"],"warnings":[]}','2026-11-26T12:40:50.213173+00:00');
CREATE TABLE memory_items (
                    memory_id TEXT PRIMARY KEY,
                    tenant_id TEXT NOT NULL,
                    agent_id TEXT NOT NULL,
                    type TEXT NOT NULL,
                    scope TEXT NOT NULL,
                    text TEXT NOT NULL,
                    trust_level TEXT NOT NULL,
                    confidence REAL NOT NULL,
                    salience REAL NOT NULL,
                    source_ref TEXT,
                    created_at TEXT NOT NULL,
                    expires_at TEXT,
                    tombstoned INTEGER NOT NULL DEFAULT 0
                );
INSERT INTO "memory_items" VALUES('mem_1303ffce65','t_123','a_ops','event','team','The user wants the migration done before April planning.','trusted_tool',0.82,0.45,'trace_8742','2026-11-26T12:40:50.053439+00:00',NULL,0);
INSERT INTO "memory_items" VALUES('mem_d325356d93','t_123','a_ops','fact','team','The staging database runs Postgres 16 in Frankfurt.','user_claim',0.66,0.7,'trace_8743','2026-11-26T12:40:50.097220+00:00','2031-01-01T00:00:00+00:00',0);
INSERT INTO "memory_items" VALUES('mem_bc357b6dfb','t_123','a_ops','policy','global','Never deploy on a Friday after noon.','user_claim',0.66,0.9,NULL,'2026-11-26T12:40:50.133278+00:00',NULL,0);
INSERT INTO "memory_items" VALUES('mem_f8612f1361','t_123','a_planner','episode','private','The March sprint moved three services to the new cluster; two tickets were left.','user_claim',0.66,0.6,NULL,'2026-11-26T12:40:50.142077+00:00',NULL,0);
INSERT INTO "memory_items" VALUES('mem_4e8742dfd3','t_123','a_planner','fact','team','A blog says the cluster will be deprecated next year.','untrusted_web',0.38,0.7,'https://blog.example/cluster','2026-11-26T12:40:50.173228+00:00',NULL,0);
INSERT INTO "memory_items" VALUES('mem_51cc6fc5c6','t_123','a_planner','fact','team','The staging database runs MySQL.','user_claim',0.66,0.7,NULL,'2026-11-26T12:40:50.213173+00:00',NULL,1);
CREATE INDEX idx_memory_tenant_created
                    ON memory_items (tenant_id, created_at);
CREATE INDEX idx_memory_tenant_scope
                    ON memory_items (tenant_id, scope);
CREATE INDEX idx_graph_edges_src
                ON graph_edges (tenant_id, src_memory_id);
CREATE INDEX idx_graph_terms_term
                ON graph_terms (tenant_id, term);
COMMIT;
