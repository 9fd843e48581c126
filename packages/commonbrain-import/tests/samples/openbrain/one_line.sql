/*M!999999\- enable the sandbox mode */ 
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `agent_plans` (
  `id` int(11) NOT NULL,
  `title` varchar(100) DEFAULT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
/*!40101 SET character_set_client = @saved_cs_client */;
INSERT INTO `agent_plans` (`id`, `title`) VALUES (1,'Not a memory');
INSERT INTO `agent_plans` (`id`, `title`) VALUES (2,'Nor this');
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `brain_memories` (
  `id` char(36) NOT NULL,
  `workspace_id` bigint(20) unsigned NOT NULL,
  `org` varchar(255) DEFAULT NULL,
  `agent_id` varchar(64) NOT NULL,
  `type` varchar(32) NOT NULL,
  `content` text NOT NULL,
  `tags` longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT NULL CHECK (json_valid(`tags`)),
  `project` varchar(128) DEFAULT NULL,
  `confidence` double(8,2) NOT NULL DEFAULT 0.80,
  `source` varchar(100) DEFAULT NULL COMMENT 'Origin: manual, ingest:claude-md, ...',
  `supersedes_id` char(36) DEFAULT NULL,
  `expires_at` timestamp NULL DEFAULT NULL,
  `indexed_at` timestamp NULL DEFAULT NULL,
  `created_at` timestamp NULL DEFAULT NULL,
  `updated_at` timestamp NULL DEFAULT NULL,
  `deleted_at` timestamp NULL DEFAULT NULL,
  PRIMARY KEY (`id`),
  KEY `brain_memories_type_index` (`type`),
  KEY `brain_memories_supersedes_id_foreign` (`supersedes_id`),
  CONSTRAINT `brain_memories_supersedes_id_foreign` FOREIGN KEY (`supersedes_id`) REFERENCES `brain_memories` (`id`) ON DELETE SET NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;
/*!40101 SET character_set_client = @saved_cs_client */;
INSERT INTO `brain_memories` (`id`, `workspace_id`, `org`, `agent_id`, `type`, `content`, `tags`, `project`, `confidence`, `source`, `supersedes_id`, `expires_at`, `indexed_at`, `created_at`, `updated_at`, `deleted_at`) VALUES ('019c0000-0000-7000-8000-000000000001',1,NULL,'virgil','decision','Verdicts are classified by the small model.','[\"verdict\"]','eaas',0.60,'manual',NULL,NULL,NULL,'2026-03-01 10:00:00','2026-03-05 10:00:00','2026-03-05 10:00:00');
INSERT INTO `brain_memories` (`id`, `workspace_id`, `org`, `agent_id`, `type`, `content`, `tags`, `project`, `confidence`, `source`, `supersedes_id`, `expires_at`, `indexed_at`, `created_at`, `updated_at`, `deleted_at`) VALUES ('019c0000-0000-7000-8000-000000000002',1,NULL,'charon','decision','Verdicts are classified by the large model, since the small one is blind to irony.','[\"verdict\",\"model\"]','eaas',0.90,NULL,'019c0000-0000-7000-8000-000000000001',NULL,NULL,'2026-03-05 10:00:00','2026-03-05 10:00:00',NULL);
INSERT INTO `brain_memories` (`id`, `workspace_id`, `org`, `agent_id`, `type`, `content`, `tags`, `project`, `confidence`, `source`, `supersedes_id`, `expires_at`, `indexed_at`, `created_at`, `updated_at`, `deleted_at`) VALUES ('019c0000-0000-7000-8000-000000000003',1,'core','virgil','bug','LEM\'s \"emotional_register\" was blind to negative emotions;\nfixed by 8 pattern groups. INSERT INTO `brain_memories` VALUES (1);','[\"scoring\",\"lem\"]','lem',0.95,'ingest:plans',NULL,NULL,NULL,'2026-03-06 10:00:00','2026-03-06 10:00:00',NULL);
INSERT INTO `brain_memories` (`id`, `workspace_id`, `org`, `agent_id`, `type`, `content`, `tags`, `project`, `confidence`, `source`, `supersedes_id`, `expires_at`, `indexed_at`, `created_at`, `updated_at`, `deleted_at`) VALUES ('019c0000-0000-7000-8000-000000000004',1,NULL,'darbs','convention','Never commit generated code.',NULL,NULL,0.80,NULL,NULL,NULL,NULL,'2026-03-07 10:00:00','2026-03-07 10:00:00',NULL);
INSERT INTO `brain_memories` (`id`, `workspace_id`, `org`, `agent_id`, `type`, `content`, `tags`, `project`, `confidence`, `source`, `supersedes_id`, `expires_at`, `indexed_at`, `created_at`, `updated_at`, `deleted_at`) VALUES ('019c0000-0000-7000-8000-000000000005',1,NULL,'lem','observation','Der Lauf heute nacht war grün, 港 😀 und C:\\temp.','[]','lem',0.50,NULL,NULL,'2031-01-01 00:00:00',NULL,'2026-03-08 10:00:00','2026-03-08 10:00:00',NULL);
INSERT INTO `brain_memories` (`id`, `workspace_id`, `org`, `agent_id`, `type`, `content`, `tags`, `project`, `confidence`, `source`, `supersedes_id`, `expires_at`, `indexed_at`, `created_at`, `updated_at`, `deleted_at`) VALUES ('019c0000-0000-7000-8000-000000000006',1,NULL,'lem','research','This was forgotten.','[]','lem',0.50,NULL,NULL,NULL,NULL,'2026-03-08 10:00:00','2026-03-09 10:00:00','2026-03-09 10:00:00');
INSERT INTO `brain_memories` (`id`, `workspace_id`, `org`, `agent_id`, `type`, `content`, `tags`, `project`, `confidence`, `source`, `supersedes_id`, `expires_at`, `indexed_at`, `created_at`, `updated_at`, `deleted_at`) VALUES ('019c0000-0000-7000-8000-000000000007',1,NULL,'virgil','service','Qdrant listens on port 6334 of de1.','[\"qdrant\"]',NULL,0.80,'ingest:claude-md',NULL,NULL,NULL,'2026-03-10 10:00:00','2026-03-10 10:00:00',NULL);
