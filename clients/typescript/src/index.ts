export { type Connection, type ConnectOptions, connect } from "./connect.js";
export { ConnectionFailedError, ProblemError, UnexpectedResponseError } from "./errors.js";
export * from "./generated/index.js";
