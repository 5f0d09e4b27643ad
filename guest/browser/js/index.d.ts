/** What policy says: see the JSON Schema of policies, docs/policy.schema.json. */
export type Policy = Record<string, unknown>;

/** A JSON-RPC message: an object, its text, or its bytes. */
export type Message = object | string | Uint8Array;

/** What the guard did with an answer. Counts are estimates in tokens. */
export interface TelemetryRecord {
  endpoint: string;
  mode: string;
  loss: "none" | "lossless" | "partial" | "condensed" | "described";
  estimatedTokens: number;
  responseBytes: number;
  originalTokens: number;
  originalTokensSampled: boolean;
  originalBytes: number;
  budget: number;
  itemCount: number | null;
  responseMode?: string;
  readOnly?: boolean;
}

/** Where the rest of an answer is kept until its cursor has expired. */
export interface CursorStore {
  /** The values of these keys, in their order; undefined where there is none. */
  get(keys: string[]): MaybePromise<(Uint8Array | undefined)[]>;
  /** Keeps all these entries for so long, or fails. */
  put(entries: { key: string; value: Uint8Array }[], ttlMs: number): MaybePromise<void>;
  /** Keeps what is there of these for so long again. */
  extend?(keys: string[], ttlMs: number): MaybePromise<void>;
  delete?(keys: string[]): MaybePromise<void>;
}

type MaybePromise<T> = T | Promise<T>;

export interface GuardOptions {
  /** The policy, as an object or as JSON. Default: every setting's default. */
  policy?: Policy | string;
  /** Secrets that sign cursors, at least 16 bytes each: the first signs, all verify. Default: one that is made up, so that cursors end with the page. */
  keys?: string | Uint8Array | (string | Uint8Array)[];
  /** Default: in memory. `null`: nothing is kept, read-only tools are called again. */
  store?: CursorStore | null;
  /** The time in milliseconds since 1970. */
  now?: () => number;
  /** Whose answers these are: snapshots and cursors are bound to it. */
  principal?: string;
  /** The server's name, part of the endpoint `upstream::tool` that policy rules match. */
  upstream?: string;
  /** Hears what was done with each answer. */
  onRecord?: (record: TelemetryRecord) => void;
}

/** Who asks, where it differs from what the guard was made with. */
export interface CallContext {
  principal?: string;
  upstream?: string;
  protocolVersion?: string;
}

/** Handed back with the response. Undefined: the response needs no look. */
export type Ticket = Uint8Array | undefined;

export interface Forwarded<M> {
  /** The request as the server gets it. */
  forward: M;
  changed: boolean;
  ticket: Ticket;
  /** Why the guard could not look at it. */
  fault?: unknown;
  answer?: undefined;
}

export interface Answered<M> {
  /** The response, complete. */
  answer: M;
  record?: TelemetryRecord;
  forward?: undefined;
}

export interface Response<M> {
  /** The response as the client gets it. */
  message: M;
  changed: boolean;
  record?: TelemetryRecord;
  /** Why the guard could not shape it: it was held to the byte limit. */
  fault?: unknown;
}

export declare class ContextGuard {
  /** Throws `PolicyError` where the policy has faults. */
  constructor(options?: GuardOptions);
  /** What is odd in the policy, but allowed. */
  readonly warnings: string[];
  /** Looks at a request on its way to the server. */
  onRequest<M extends Message>(message: M, context?: CallContext): Promise<Forwarded<M> | Answered<M>>;
  /** Looks at the response to a request that was sent on with this ticket. */
  onResponse<M extends Message>(ticket: Ticket, message: M, context?: CallContext): Promise<Response<M>>;
  /** Tokens of a text, or of a value as JSON, as the policy estimates them. */
  estimateTokens(value: unknown, endpoint?: { upstream?: string; name?: string }): number;
}

/** A policy that has faults; each is in the message, with its path. */
export declare class PolicyError extends Error {}

/** In memory; the least recently used give way. */
export declare class MemoryStore implements CursorStore {
  constructor(options?: { bytes?: number; now?: () => number });
  /** Bytes that are held. */
  readonly bytes: number;
  get(keys: string[]): (Uint8Array | undefined)[];
  put(entries: { key: string; value: Uint8Array }[], ttlMs: number): void;
  extend(keys: string[], ttlMs: number): void;
  delete(keys: string[]): void;
}

/** In the browser's database: cursors outlive the page, given `keys` that do. */
export declare class IndexedDBStore implements CursorStore {
  constructor(options?: { name?: string; now?: () => number });
  get(keys: string[]): Promise<(Uint8Array | undefined)[]>;
  put(entries: { key: string; value: Uint8Array }[], ttlMs: number): Promise<void>;
  extend(keys: string[], ttlMs: number): Promise<void>;
  delete(keys: string[]): Promise<void>;
}

/** A client transport as both generations of the SDK have it, as far as the guard touches it. */
export interface ClientTransport {
  send(message: any, options?: any): Promise<void>;
  onmessage?: ((...message: any[]) => void) | undefined;
}

/**
 * A client transport with the guard in it: `client.connect(guardTransport(new StreamableHTTPClientTransport(url), guard))`.
 * Messages keep their order; what is no request and no answer passes as it is.
 */
export declare function guardTransport<T extends ClientTransport>(transport: T, guard: ContextGuard): T;
