import { defineConfig } from "@hey-api/openapi-ts";

export default defineConfig({
  input: "../../packages/commonbrain-client/openapi.json",
  output: { path: "src/generated", module: { extension: ".js" } },
  parser: { filters: { tags: { include: ["v1", "health"] } } },
  plugins: ["@hey-api/client-fetch", "@hey-api/typescript", "@hey-api/sdk"],
});
