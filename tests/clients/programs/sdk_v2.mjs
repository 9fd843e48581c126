// The second version of the TypeScript SDK asks the server at SHARED_URL who it is.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const headers = { Authorization: `Bearer ${process.env.COMMONBRAIN_KEY}` };
const options = { versionNegotiation: { mode: "auto" } };
const client = new Client({ name: "sdk-v2", version: "1" }, options);
const url = new URL(process.env.SHARED_URL);
await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }));
const told = await client.callTool({ name: "status", arguments: {} });
console.log(told.content[0].text);
await client.close();
