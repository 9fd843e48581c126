// Stores, finds and corrects a memory: COMMONBRAIN_URL and COMMONBRAIN_KEY name the server.
import { boot, connect, get, ProblemError, recall, remember, revise } from "./index.js";

const { COMMONBRAIN_URL: url = "http://127.0.0.1:8377", COMMONBRAIN_KEY: key } = process.env;
const brain = connect(key === undefined ? { url } : { url, key });

await boot({ ...brain, body: { project: "shop" } });
await remember({ ...brain, body: { text: "The kettle is in the blue cupboard.", kind: "fact" } });

const { data: found } = await recall({ ...brain, body: { query: "Where is the kettle?" } });
const [first] = found.items;
console.log(first?.headline);

if (first !== undefined) {
  const { data: changed } = await revise({
    ...brain,
    body: {
      op: "supersede",
      id: first.id,
      text: "The kettle is in the red cupboard.",
      reason: "It was moved.",
    },
  });
  console.log(changed.status);
}

try {
  await get({ ...brain, body: { id: ["mem_0000000000000"] } });
} catch (error) {
  if (!(error instanceof ProblemError)) {
    throw error;
  }
  console.log(error.status, error.code, error.hint);
}
