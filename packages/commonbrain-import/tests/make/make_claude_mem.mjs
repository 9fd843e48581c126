// Makes samples/claude-mem/claude-mem.db with claude-mem's own store; see make_claude_mem.sh.
import { pathToFileURL } from "node:url";
import path from "node:path";

const [, , folder, file] = process.argv;
const store = await import(pathToFileURL(path.resolve(folder, "plugin/sqlite/SessionStore.js")));
const SessionStore = store.SessionStore ?? store.default.SessionStore;
const db = new SessionStore(path.resolve(file));

const at = Date.UTC(2026, 2, 1, 9, 0, 0);
const session = db.createSDKSession("content-1", "harbour", "Why does the booking page crash?");
db.ensureMemorySessionIdRegistered(session, "memory-1");
db.saveUserPrompt("content-1", 1, "Why does the booking page crash?", session);
db.saveUserPrompt("content-1", 2, "Then fix it, and note why.", session);
const observation = (fields) => ({
  title: null, subtitle: null, facts: [], narrative: null, concepts: [], files_read: [],
  files_modified: [], ...fields,
});
db.storeObservation("memory-1", "harbour", observation({
  type: "bugfix", title: "Booking page crash on leap days",
  subtitle: "The tide table had no row for 29 February.",
  narrative: "The page crashed because the tide table had no row for a leap day. The row was added.",
  facts: ["tides.sql had 365 rows", "The test now covers leap years"],
  concepts: ["problem-solution", "gotcha"], files_read: ["src/booking.py"],
  files_modified: ["sql/tides.sql"],
}), 1, 1200, at, "claude-sonnet");
db.storeObservation("memory-1", "harbour", observation({
  type: "decision", title: "Tides are computed, not stored",
  narrative: "The team decided to compute tides from the harmonic constants.",
  concepts: ["trade-off"],
}), 2, 300, at + 60_000, "claude-sonnet");
db.storeObservation("memory-1", "harbour", observation({
  type: "discovery", title: "Berths are locked by row", narrative: "A booking locks its berth row.",
}), 2, 100, at + 120_000);
db.storeSummary("memory-1", "harbour", {
  request: "Fix the crash of the booking page", investigated: "The tide table and its loader",
  learned: "Leap days had no row", completed: "The row was added and tested",
  next_steps: "Compute tides", notes: null,
}, 2, 50, at + 180_000);
db.markSessionCompleted(session);
db.close?.();
process.exit(0);
