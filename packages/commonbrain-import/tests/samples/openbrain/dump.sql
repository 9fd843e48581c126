/*M!999999\- enable the sandbox mode */ 
-- MariaDB dump 10.19  Distrib 10.11.19-MariaDB, for debian-linux-gnu (x86_64)
--
-- Database: agentic
-- ------------------------------------------------------
-- Server version	10.11.19-MariaDB-0+deb12u1

/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */;
/*!40101 SET @OLD_CHARACTER_SET_RESULTS=@@CHARACTER_SET_RESULTS */;
/*!40101 SET @OLD_COLLATION_CONNECTION=@@COLLATION_CONNECTION */;
/*!40101 SET NAMES utf8mb4 */;
/*!40103 SET @OLD_TIME_ZONE=@@TIME_ZONE */;
/*!40103 SET TIME_ZONE='+00:00' */;
/*!40014 SET @OLD_UNIQUE_CHECKS=@@UNIQUE_CHECKS, UNIQUE_CHECKS=0 */;
/*!40014 SET @OLD_FOREIGN_KEY_CHECKS=@@FOREIGN_KEY_CHECKS, FOREIGN_KEY_CHECKS=0 */;
/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO' */;
/*!40111 SET @OLD_SQL_NOTES=@@SQL_NOTES, SQL_NOTES=0 */;

--
-- Table structure for table `agent_plans`
--

DROP TABLE IF EXISTS `agent_plans`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `agent_plans` (
  `id` int(11) NOT NULL,
  `title` varchar(100) DEFAULT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `agent_plans`
--

LOCK TABLES `agent_plans` WRITE;
/*!40000 ALTER TABLE `agent_plans` DISABLE KEYS */;
INSERT INTO `agent_plans` VALUES
(1,'Not a memory'),
(2,'Nor this');
/*!40000 ALTER TABLE `agent_plans` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `brain_memories`
--

DROP TABLE IF EXISTS `brain_memories`;
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

--
-- Dumping data for table `brain_memories`
--

LOCK TABLES `brain_memories` WRITE;
/*!40000 ALTER TABLE `brain_memories` DISABLE KEYS */;
INSERT INTO `brain_memories` VALUES
('019c0000-0000-7000-8000-000000000001',1,NULL,'virgil','decision','Verdicts are classified by the small model.','[\"verdict\"]','eaas',0.60,'manual',NULL,NULL,NULL,'2026-03-01 10:00:00','2026-03-05 10:00:00','2026-03-05 10:00:00'),
('019c0000-0000-7000-8000-000000000002',1,NULL,'charon','decision','Verdicts are classified by the large model, since the small one is blind to irony.','[\"verdict\",\"model\"]','eaas',0.90,NULL,'019c0000-0000-7000-8000-000000000001',NULL,NULL,'2026-03-05 10:00:00','2026-03-05 10:00:00',NULL),
('019c0000-0000-7000-8000-000000000003',1,'core','virgil','bug','LEM\'s \"emotional_register\" was blind to negative emotions;\nfixed by 8 pattern groups. INSERT INTO `brain_memories` VALUES (1);','[\"scoring\",\"lem\"]','lem',0.95,'ingest:plans',NULL,NULL,NULL,'2026-03-06 10:00:00','2026-03-06 10:00:00',NULL),
('019c0000-0000-7000-8000-000000000004',1,NULL,'darbs','convention','Never commit generated code.',NULL,NULL,0.80,NULL,NULL,NULL,NULL,'2026-03-07 10:00:00','2026-03-07 10:00:00',NULL),
('019c0000-0000-7000-8000-000000000005',1,NULL,'lem','observation','Der Lauf heute nacht war grün, 港 😀 und C:\\temp.','[]','lem',0.50,NULL,NULL,'2031-01-01 00:00:00',NULL,'2026-03-08 10:00:00','2026-03-08 10:00:00',NULL),
('019c0000-0000-7000-8000-000000000006',1,NULL,'lem','research','This was forgotten.','[]','lem',0.50,NULL,NULL,NULL,NULL,'2026-03-08 10:00:00','2026-03-09 10:00:00','2026-03-09 10:00:00'),
('019c0000-0000-7000-8000-000000000007',1,NULL,'virgil','service','Qdrant listens on port 6334 of de1.','[\"qdrant\"]',NULL,0.80,'ingest:claude-md',NULL,NULL,NULL,'2026-03-10 10:00:00','2026-03-10 10:00:00',NULL);
/*!40000 ALTER TABLE `brain_memories` ENABLE KEYS */;
UNLOCK TABLES;
/*!40103 SET TIME_ZONE=@OLD_TIME_ZONE */;

/*!40101 SET SQL_MODE=@OLD_SQL_MODE */;
/*!40014 SET FOREIGN_KEY_CHECKS=@OLD_FOREIGN_KEY_CHECKS */;
/*!40014 SET UNIQUE_CHECKS=@OLD_UNIQUE_CHECKS */;
/*!40101 SET CHARACTER_SET_CLIENT=@OLD_CHARACTER_SET_CLIENT */;
/*!40101 SET CHARACTER_SET_RESULTS=@OLD_CHARACTER_SET_RESULTS */;
/*!40101 SET COLLATION_CONNECTION=@OLD_COLLATION_CONNECTION */;
/*!40111 SET SQL_NOTES=@OLD_SQL_NOTES */;

-- Dump completed on 2026-11-26 13:07:28
