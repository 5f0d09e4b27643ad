import type { Policy, Rule, Settings } from "./policy.js";

export type { Policy, Rule, Settings };

/** A JSON-RPC message: an object, its text, or its bytes. */
export type Message = object | string | Uint8Array;

/** The record of a decision. Token counts are estimates. */
export interface TelemetryRecord {
  endpoint: string;
  /** `full`, `page`, `chunk`, `part`, `preview`, `selection`, `compact`, `description`, `catalog` or `error`. */
  mode: string;
  loss: "none" | "lossless" | "partial" | "condensed" | "described";
  estimatedTokens: number;
  responseBytes: number;
  originalTokens: number;
  originalTokensSampled: boolean;
  originalBytes: number;
  budget: number;
  itemCount: number | null;
  responseMode?: "ids_only" | "metadata" | "preview" | "full";
  readOnly?: boolean;
}

/** A store that holds the rest of an answer until its cursor expires. */
export interface CursorStore {
  /** Returns the values of these keys, in their order; undefined for an absent key. */
  get(keys: string[]): MaybePromise<(Uint8Array | undefined)[]>;
  /** Stores all these entries with this time to live, or fails. */
  put(entries: { key: string; value: Uint8Array }[], ttlMs: number): MaybePromise<void>;
  /** Renews the time to live of these keys. Ignores absent keys. */
  extend?(keys: string[], ttlMs: number): MaybePromise<void>;
  delete?(keys: string[]): MaybePromise<void>;
}

type MaybePromise<T> = T | Promise<T>;

export interface GuardOptions {
  /** The policy, as an object or as JSON. Default: the default of every setting. */
  policy?: Policy | string;
  /** Secrets of at least 16 bytes that sign cursors: the first signs, all verify. Default: a random one, so cursors end with the page. */
  keys?: string | Uint8Array | (string | Uint8Array)[];
  /** Default: a store in memory. `null`: nothing is stored, and read-only tools are called again. */
  store?: CursorStore | null;
  /** Returns the time in milliseconds since 1970. */
  now?: () => number;
  /** The owner of the answers: snapshots and cursors are bound to it. */
  principal?: string;
  /** The server's name, part of the endpoint `upstream::tool` that policy rules match. */
  upstream?: string;
  /** Called with the record of each decision. */
  onRecord?: (record: TelemetryRecord) => void;
}

/** The caller, where it differs from the options of the guard. */
export interface CallContext {
  principal?: string;
  upstream?: string;
  protocolVersion?: string;
  /** A text that tells the server from others of the same name: the guard keeps a catalogue of its tools. The same for a request
   * and its response. */
  server?: string;
}

/** Passed with the response. Undefined: the guard need not see the response. */
export type Ticket = Uint8Array | undefined;

export interface Forwarded<M> {
  /** The request for the server. */
  forward: M;
  changed: boolean;
  ticket: Ticket;
  /** The reason why the guard failed on it. */
  fault?: unknown;
  answer?: undefined;
}

export interface Answered<M> {
  /** The complete response. */
  answer: M;
  record?: TelemetryRecord;
  forward?: undefined;
}

export interface Response<M> {
  /** The response for the client. */
  message: M;
  changed: boolean;
  record?: TelemetryRecord;
  /** The reason why the guard failed on it. The byte limit was applied instead. */
  fault?: unknown;
}

export declare class ContextGuard {
  /** Throws `PolicyError` if the policy is invalid. */
  constructor(options?: GuardOptions);
  /** Issues that do not stop the policy. */
  readonly warnings: string[];
  /** Decides about a request on its way to the server. */
  onRequest<M extends Message>(message: M, context?: CallContext): Promise<Forwarded<M> | Answered<M>>;
  /** Shapes the response to a request that was forwarded with this ticket. */
  onResponse<M extends Message>(ticket: Ticket, message: M, context?: CallContext): Promise<Response<M>>;
  /** Returns the tokens of a text, or of a value as JSON, as the policy estimates them. */
  estimateTokens(value: unknown, endpoint?: { upstream?: string; name?: string }): number;
}

/** An invalid policy. The message lists each issue with its path. */
export declare class PolicyError extends Error {}

/** A store in memory. Evicts the least recently used entries. */
export declare class MemoryStore implements CursorStore {
  constructor(options?: { bytes?: number; now?: () => number });
  /** The size of all entries in bytes. */
  readonly bytes: number;
  get(keys: string[]): (Uint8Array | undefined)[];
  put(entries: { key: string; value: Uint8Array }[], ttlMs: number): void;
  extend(keys: string[], ttlMs: number): void;
  delete(keys: string[]): void;
}

/** A store in the browser's database. Cursors outlive the page if `keys` do. */
export declare class IndexedDBStore implements CursorStore {
  constructor(options?: { name?: string; now?: () => number });
  get(keys: string[]): Promise<(Uint8Array | undefined)[]>;
  put(entries: { key: string; value: Uint8Array }[], ttlMs: number): Promise<void>;
  extend(keys: string[], ttlMs: number): Promise<void>;
  delete(keys: string[]): Promise<void>;
}

/** The members of a client transport that the guard uses, in both SDK versions. */
export interface ClientTransport {
  send(message: any, options?: any): Promise<void>;
  onmessage?: ((...message: any[]) => void) | undefined;
}

/**
 * Wraps a client transport: `client.connect(guardTransport(new StreamableHTTPClientTransport(url), guard))`.
 * Keeps the order of messages. Passes all but requests and responses, also those in batches, unchanged.
 */
export declare function guardTransport<T extends ClientTransport>(transport: T, guard: ContextGuard): T;
