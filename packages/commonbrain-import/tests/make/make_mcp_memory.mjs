// Makes samples/mcp-memory/memory.jsonl with the reference MCP memory server itself.
//
//     npm install @modelcontextprotocol/server-memory
//     node make_mcp_memory.mjs node_modules/@modelcontextprotocol/server-memory FILE
import path from "node:path";
import { pathToFileURL } from "node:url";

const [, , folder, file] = process.argv;
process.env.MEMORY_FILE_PATH = path.resolve(file);
const server = await import(pathToFileURL(path.resolve(folder, "dist/index.js")));
const graph = new server.KnowledgeGraphManager(path.resolve(file));

await graph.createEntities([
  { name: "Ann", entityType: "person", observations: ["Prefers short answers.", "Ann lives in Bergen."] },
  { name: "harbour", entityType: "project", observations: ["Never book a berth twice for one night."] },
  { name: "Postgres", entityType: "technology", observations: [] },
]);
await graph.addObservations([
  { entityName: "harbour", contents: ["The staging port is 8080."] },
]);
await graph.deleteObservations([{ entityName: "Ann", observations: ["Prefers short answers."] }]);
await graph.addObservations([{ entityName: "Ann", contents: ["Prefers long answers."] }]);
await graph.createRelations([
  { from: "Ann", to: "harbour", relationType: "works_on" },
  { from: "harbour", to: "Postgres", relationType: "depends_on" },
  { from: "harbour", to: "Redis", relationType: "depends_on" },
]);
process.exit(0);
