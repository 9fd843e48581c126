// The first version of the TypeScript SDK asks the server at SHARED_URL who it is.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const headers = { Authorization: `Bearer ${process.env.COMMONBRAIN_KEY}` };
const client = new Client({ name: "sdk-v1", version: "1" });
const url = new URL(process.env.SHARED_URL);
await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }));
const told = await client.callTool({ name: "status", arguments: {} });
console.log(told.content[0].text);
await client.close();
