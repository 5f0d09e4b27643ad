// Generated from the schema of policies by `cargo xtask generate`.

export type Advertise = "none" | "compact" | "full";

export type AnnotationOverride = {
  /** The tool may delete or overwrite something. */
  destructiveHint?: boolean;
  /** Repeated calls with the same arguments have no further effect. */
  idempotentHint?: boolean;
  /** The tool reaches systems beyond its server. */
  openWorldHint?: boolean;
  /** The tool changes nothing. */
  readOnlyHint?: boolean;
};

export type CallTools = "split" | "one";

export type CatalogueMode = "auto" | "full" | "tiered";

export type CatalogueSettings = {
  /** Separate call tools for read-only and other tools (`split`, default), or one (`one`). */
  callTools?: CallTools;
  /** Categories of tools. The first match wins. Default: each server is a category. */
  categories?: (CategoryRule)[];
  /** Globs over the names of clients that load tools on demand themselves. `auto` sends them up to 500 tools in full. Default `claude-code*` and `codex*`. */
  deferringClients?: (string)[];
  /** Detail of the tools that a search returns: `names`, `summary`, `signature` (default) or `full`. */
  detail?: ToolDetail;
  /** Globs over `server::tool`: these tools are neither found nor callable. A glob without `::` also matches the names of tools on all servers. */
  hide?: (string)[];
  /** The definitions that are withheld until an operator approves them: those that an upstream changed while the gateway runs (`changed`), and those with hidden characters or instructions (`suspicious`). Default: none; the gateway logs and counts them. */
  hold?: (HoldReason)[];
  /** The number of hot tools in a tiered list. Default 12, at most 15. */
  hot?: number;
  /** The base path of the catalogue's HTTP API at a gateway; null for none. Default `/api/v1/tools`. It and a JSON API of the gateway must not cover each other. */
  httpPrefix?: string | null;
  /** The list that clients get: all tools (`full`), or the tools to search and call the others, with pinned and hot tools (`tiered`). Default `auto`: `tiered` if the full list costs more than `threshold`. */
  mode?: CatalogueMode;
  /** Changes of the names, titles, descriptions and annotations of tools. The guard itself rewrites none. They apply in every form of the guard. */
  overrides?: (ToolOverride)[];
  /** Globs over `server::tool`: these tools are always listed. A glob without `::` also matches the names of tools on all servers. */
  pins?: (string)[];
  /** Seconds between updates of the scores of tools. Default 86400, from 3600 to 604800. */
  recomputeSeconds?: number;
  /** Groups of words that stand for each other, in addition to the built-in ones: a list of words, or a text of words between spaces. */
  synonyms?: (WordGroupForms)[];
  /** Tokens of the full list above which `auto` means `tiered`. Default 6000. */
  threshold?: number;
  /** Globs over `server::tool`: definitions of these tools are neither withheld nor reported as suspicious. A glob without `::` also matches the names of tools on all servers. */
  trust?: (string)[];
};

export type CategoryRule = {
  /** A sentence about its tools. */
  description?: string;
  /** The name for people. Default: the name. */
  displayName?: string;
  /** Globs over `server::tool`. A glob without `::` also matches the names of tools on all servers. */
  match: (string)[];
  /** The name. */
  name: string;
  /** The position among categories; lower comes first. Default 0. */
  order?: number;
};

export type CursorFormat = "short" | "signed";

export type CursorMode = "snapshot" | "replay";

export type EstimatorSettings = {
  /** `lexical` (default) or `chars4`. */
  method?: Method;
  /** The tokenizer that `lexical` imitates: `o200k` (default), `cl100k` or `claude-legacy`. */
  profile?: Profile;
  /** A factor on the estimate, 0.5 to 4. Default 1. */
  scale?: number;
};

export type HoldReason = "changed" | "suspicious";

export type ItemFields = {
  /** The path of the long text. */
  content?: string;
  /** The path of the id. */
  id?: string;
  /** The path of the relevance, a number. */
  score?: string;
  /** The path of the title. */
  title?: string;
  /** The path of the kind, such as `article`. */
  type?: string;
};

export type Method = "lexical" | "chars4";

export type OnFault = "pass" | "limit" | "block";

export type OrderByForms = string | OrderByMembers;

export type OrderByMembers = {
  /** Largest or latest first. Default true. */
  descending?: boolean;
  /** Dotted path to a member of each item, such as `createdAt`. */
  field: string;
};

export type Profile = "o200k" | "cl100k" | "claude-legacy";

export type Strip = "nulls" | "empty" | "repeats";

export type ToolDetail = "names" | "summary" | "signature" | "full";

export type ToolOverride = {
  /** The hints about the effects of the tool. */
  annotations?: AnnotationOverride;
  /** The description. */
  description?: string;
  /** The tools: `server::tool`, the name of a tool, or a glob. A later entry wins, an exact name over a glob. */
  match: string;
  /** The name that clients see, without that of the server. Only for an exact `match`, and without effect if the upstream has a tool of that name. */
  name?: string;
  /** The name for people. */
  title?: string;
};

export type VisibleContent = "text" | "structured" | "both";

export type WordGroupForms = string | (string)[];

/** The settings of a policy, and of the endpoints that a rule matches. */
export type Settings = {
  /** Detail of the guard's own arguments in the schemas of tools. Default `none`. Tools with strict schemas remain unchanged. */
  advertise?: Advertise;
  /** The tool catalogue: tiered lists, search, pinned and hidden tools. Applies to all endpoints. */
  catalogue?: CatalogueSettings;
  /** Lines per chunk. Default 200. Unless it or `chunkThreshold` is set, chunks grow to fill the budget. */
  chunkSize?: number;
  /** Tokens above which a text is chunked. Default 2000, at least 1000. Unless it or `chunkSize` is set, a text that fits the budget passes. A text over the budget is always chunked. */
  chunkThreshold?: number;
  /** Chunk long texts. Default true. */
  chunking?: boolean;
  /** The client whose profile applies to all clients: the beginning of its name in `clientInfo`, or `unknown`. Default: the name in the header `X-Context-Guard-Client`, else that in `clientInfo`. */
  clientProfile?: string;
  /** Write a uniform list that does not fit as a header and rows, if that makes it fit. Default false. */
  compact?: boolean;
  /** The format of cursors: `short` (about 28 characters, 20 tokens) or `signed` (about 115 characters, with a whole HMAC-SHA256). Default `short`. Replay cursors are always `signed`. */
  cursorFormat?: CursorFormat;
  /** Source of the rest of an answer: the store (`snapshot`), or the upstream, which is called again (`replay`). Default `snapshot`. `replay` applies to tools that change nothing (`readOnly`, or the tool's own hint); answers of other tools are always stored. */
  cursorMode?: CursorMode;
  /** Lifetime of a cursor in seconds. Default and minimum 600. Applies to all endpoints. */
  cursorTtl?: number;
  /** Items per page. Default 50. Unless it is set, a page of whole items grows to fill the budget: to at most `maxPageSize` records, or any number of numbers, strings and other scalars. */
  defaultPageSize?: number;
  /** Enforce the hard cap. Default true. */
  enforceHardCap?: boolean;
  /** The token estimator. */
  estimator?: EstimatorSettings;
  /** Fields that a summary keeps, as dotted paths such as `price.total` or `guests[].name`. Default: chosen by their names and costs. */
  fields?: (string)[];
  /** Maximum bytes of an answer on which the guard fails. Default 10240. Applies to all endpoints. */
  hardByteLimit?: number;
  /** Maximum tokens of an answer, whatever a caller asks for. Default 12000, at least `tokenBudgetThreshold`. */
  hardCap?: number;
  /** Add highlights of the rest to the first chunk of a text: errors of a log, an outline, the end. Default true. */
  highlights?: boolean;
  /** Paths of an item's id, title, type, score and content, for `response_mode`. Default: found by their names. */
  itemFields?: ItemFields;
  /** Dotted path to the list of an answer, such as `data.items`. Default: the array that makes up most of the answer. */
  itemsPath?: string;
  /** Words whose sentences are kept when a long text is shortened. */
  keywords?: (string)[];
  /** The maximum `limit` of a caller, and the maximum of records to which a page grows. Default 200, at most 1000. */
  maxPageSize?: number;
  /** The maximum size of the values by which the references of a call are replaced, in bytes. Default 4194304. */
  maxReferenceBytes?: number;
  /** Treatment of an answer on which the guard fails. Default `limit`. Applies to all endpoints. */
  onFault?: OnFault;
  /** The order of lists. Default: the upstream's order. */
  orderBy?: OrderByForms;
  /** Page lists. Default true. */
  pagination?: boolean;
  /** Treat `limit`, `cursor`, `startLine`, `endLine` and `pages` as the guard's arguments on tools whose parameters it has not seen. Default false. */
  plainArguments?: boolean;
  /** Characters of a preview. Default 200. */
  previewChars?: number;
  /** The tool changes nothing, so stored answers may be served. Default: the tool's `readOnlyHint`. */
  readOnly?: boolean;
  /** Replace references in the arguments of calls, such as `{"$ref": "<cursor>#/items/3/body"}`, by the values of stored answers. Default true. Only answers of the same upstream, unless `referencesFrom` names others. */
  references?: boolean;
  /** Endpoints of other upstreams whose answers may be passed to this tool by reference, such as `files::read_*`. Default: none. */
  referencesFrom?: (string)[];
  /** Refuse calls whose arguments contain truncation marks, such as ` ... [12 more words]`. Default true. */
  refuseMarks?: boolean;
  /** Shape answers. Default true. */
  shape?: boolean;
  /** Members to remove from every JSON answer, because they carry no information. Default: none. */
  strip?: (Strip)[];
  /** Names of members to remove from every JSON answer, such as `debug_*`; `*` matches any characters. Default: none. */
  stripFields?: (string)[];
  /** Condense what does not fit: show every record, with fewer fields and shorter values. Default true. */
  summarization?: boolean;
  /** Tokens above which a single object is summarized. Default 2000, at least 500. */
  summaryThreshold?: number;
  /** Maximum tokens of an answer. Default 4000, at least 200. */
  tokenBudgetThreshold?: number;
  /** The content of results that the client shows to its model: `text`, `structured` or `both`. The other content of a shaped answer then holds the result metadata alone. Default: by the client's name; `both` for unknown clients. */
  visibleContent?: VisibleContent;
};

/** The settings of some endpoints. */
export type Rule = Settings & {
  /** `tool`, `upstream::tool` or a resource URI; `*` matches any characters, `?` matches one. */
  match: string;
};

/** A policy. Default: the default of every setting. */
export type Policy = Settings & {
  /** Settings of some endpoints. All matching rules override the settings above: first globs, in their order, then exact names. */
  endpoints?: (Rule)[];
};
