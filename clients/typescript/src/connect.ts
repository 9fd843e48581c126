import pRetry from "p-retry";

import { retryAfterS, toError } from "./errors.js";
import { type Client, createClient } from "./generated/client/index.js";
import { repeatable } from "./generated/repeatable.gen.js";

const RATE_LIMITED = 429;
const UNAVAILABLE = 503;
/** A response that asks for a longer wait, such as a daily quota, is an error at once. */
const RETRY_AFTER_MAX_S = 30;
const KEY_HEADER = "Idempotency-Key";
const SESSION_HEADER = "Commonbrain-Session";

export interface ConnectOptions {
  /** The server's address, such as `http://127.0.0.1:8377`. */
  url: string;
  /** An API key or a token; none for a server that was started with `--open`. */
  key?: string;
  /** The agent's session; by default the one that `boot` starts. */
  session?: string;
  /** Milliseconds of one attempt; a server ends a call after 30 seconds by default. */
  timeoutMs?: number;
  /** How often a request is repeated at most. */
  retries?: number;
}

/** What each operation takes in addition to its request. */
export interface Connection {
  client: Client;
  throwOnError: true;
}

/**
 * Makes a connection to a server: `recall({ ...connection, body: { query } })`.
 *
 * Requests that fail because of a rate limit or an outage are repeated if that is safe.
 */
export function connect(options: ConnectOptions): Connection {
  const { url, key, timeoutMs = 35_000, retries = 4 } = options;
  let session = options.session;
  const client = createClient({
    baseUrl: url,
    ...(key === undefined ? {} : { auth: key }),
    fetch: (input, init) => fetchWithRetries(new Request(input, init), { url, timeoutMs, retries }),
  });
  client.interceptors.request.use((request, { body }) => {
    if (operationPath(request, url) === "/v1/remember" && !request.headers.has(KEY_HEADER)) {
      const own = (body as { idempotency_key?: string | null } | undefined)?.idempotency_key;
      request.headers.set(KEY_HEADER, own || crypto.randomUUID());
    }
    if (session !== undefined && !request.headers.has(SESSION_HEADER)) {
      request.headers.set(SESSION_HEADER, session);
    }
    return request;
  });
  client.interceptors.response.use((response) => {
    session ??= response.headers.get(SESSION_HEADER) ?? undefined;
    return response;
  });
  client.interceptors.error.use(toError);
  return { client, throwOnError: true };
}

/** A response that is worth another attempt. */
class Retry extends Error {
  readonly response: Response;

  constructor(response: Response) {
    super(response.statusText);
    this.response = response;
  }
}

async function fetchWithRetries(
  request: Request,
  { url, timeoutMs, retries }: { url: string; timeoutMs: number; retries: number },
): Promise<Response> {
  const isSafe = await isRepeatable(request, url);
  const attempt = async (): Promise<Response> => {
    const signal = AbortSignal.any([request.signal, AbortSignal.timeout(timeoutMs)]);
    const response = await fetch(request.clone(), { signal });
    if (isPassing(response, isSafe)) {
      throw new Retry(response);
    }
    return response;
  };
  try {
    return await pRetry(attempt, {
      retries,
      signal: request.signal,
      minTimeout: 250,
      randomize: true,
      shouldRetry: ({ error }) => error instanceof Retry || isSafe,
      onFailedAttempt: async ({ error, retriesLeft }) => {
        const waitS = error instanceof Retry ? retryAfterS(error.response) : undefined;
        if (waitS !== undefined && retriesLeft > 0) {
          await wait(waitS * 1000, request.signal);
        }
      },
    });
  } catch (error) {
    if (error instanceof Retry) {
      return error.response;
    }
    throw error;
  }
}

/** Waits; an abort of the request ends it with the reason. */
async function wait(ms: number, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  await new Promise<void>((resolve, reject) => {
    const aborted = (): void => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", aborted);
      resolve();
    }, ms);
    signal.addEventListener("abort", aborted, { once: true });
  });
}

/** Returns the path of an operation; the server may be below a path of its address. */
function operationPath(request: Request, url: string): string {
  const { pathname } = new URL(request.url);
  const base = new URL(url).pathname.replace(/\/+$/, "");
  return pathname.startsWith(`${base}/`) ? pathname.slice(base.length) : pathname;
}

function isPassing(response: Response, isSafe: boolean): boolean {
  const waitS = retryAfterS(response);
  if ((waitS ?? 0) > RETRY_AFTER_MAX_S) {
    return false;
  }
  // A rate limit refuses a request before it is run; without a time it is a quota.
  return response.status === RATE_LIMITED
    ? waitS !== undefined
    : response.status === UNAVAILABLE && isSafe;
}

/** Returns whether a request may run twice. */
async function isRepeatable(request: Request, url: string): Promise<boolean> {
  if (request.headers.has(KEY_HEADER)) {
    return true;
  }
  const rule = repeatable[operationPath(request, url)] ?? request.method === "GET";
  if (typeof rule === "boolean") {
    return rule;
  }
  const body = (await request.clone().json()) as { op?: string };
  return rule.includes(body.op ?? "");
}
