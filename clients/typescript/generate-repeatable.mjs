// Writes which requests may run twice, which the generator of the client leaves out.
import { readFileSync, writeFileSync } from "node:fs";

const source = new URL("../../packages/commonbrain-client/openapi.json", import.meta.url);
const target = new URL("src/generated/repeatable.gen.ts", import.meta.url);

const { paths } = JSON.parse(readFileSync(source, "utf8"));
const rows = Object.entries(paths).flatMap(([path, routes]) =>
  Object.values(routes).map((route) => [path, route["x-repeatable"] ?? true]),
);
const table = JSON.stringify(Object.fromEntries(rows), null, 2);
writeFileSync(
  target,
  `export const repeatable: Record<string, boolean | string[]> = ${table};\n`,
);
