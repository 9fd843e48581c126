import type { Problem, ProblemDetail } from "./generated/index.js";

/** The server refused a request or failed; `code` is stable, `hint` is the next step. */
export class ProblemError extends Error {
  override readonly name = "ProblemError";
  readonly code: string;
  readonly hint: string;
  readonly detail: string;
  readonly status: number;
  /** The fields of the request that are not valid. */
  readonly invalidFields: readonly ProblemDetail[];
  /** Seconds after which the server may accept the request, if it says so. */
  readonly retryAfterS: number | undefined;

  constructor(problem: Problem, retryAfterS?: number) {
    super(`${problem.code}: ${problem.detail} ${problem.hint}`.trim());
    this.code = problem.code;
    this.hint = problem.hint;
    this.detail = problem.detail;
    this.status = problem.status;
    this.invalidFields = problem.errors ?? [];
    this.retryAfterS = retryAfterS;
  }
}

/** The server did not answer: it cannot be reached, or the timeout passed. */
export class ConnectionFailedError extends Error {
  override readonly name = "ConnectionFailedError";
}

/** The response is a proxy's, or one of a server of another version. */
export class UnexpectedResponseError extends Error {
  override readonly name = "UnexpectedResponseError";
  readonly status: number;

  constructor(status: number) {
    super(`The response, of status ${status}, is not one that this client knows.`);
    this.status = status;
  }
}

function isProblem(body: unknown): body is Problem {
  return typeof body === "object" && body !== null && "code" in body && "hint" in body;
}

/** The seconds of a `Retry-After` header. */
export function retryAfterS(response: Response): number | undefined {
  const value = response.headers.get("Retry-After") ?? "";
  return /^\d+$/.test(value) ? Number(value) : undefined;
}

/** Converts the body of a failed response, or the reason why there is none. */
export function toError(reason: unknown, response: Response | undefined): Error {
  if (response === undefined) {
    return new ConnectionFailedError("The server did not answer.", { cause: reason });
  }
  if (isProblem(reason)) {
    return new ProblemError(reason, retryAfterS(response));
  }
  return new UnexpectedResponseError(response.status);
}
