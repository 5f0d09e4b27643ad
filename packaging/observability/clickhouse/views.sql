-- Views of the spans of all gateways, in the table that the collector's ClickHouse exporter creates
-- (otel_traces). They have the measures of `context-guard stats`, for fleets that have outgrown one
-- file. Tokens are those of first answers and reads as sent; times are those of the SERVER spans.

-- The calls and reads of clients, one row each.
CREATE VIEW IF NOT EXISTS context_guard_calls AS
SELECT
    Timestamp AS at,
    ServiceName AS gateway,
    SpanAttributes['context_guard.upstream'] AS upstream,
    SpanAttributes['gen_ai.tool.name'] AS tool,
    SpanAttributes['mcp.session.id'] AS session,
    SpanAttributes['context_guard.outcome'] AS outcome,
    SpanAttributes['error.type'] AS error,
    toUInt64OrZero(SpanAttributes['context_guard.tokens.original']) AS tokens_before,
    toUInt64OrZero(SpanAttributes['context_guard.tokens.sent']) AS tokens_sent,
    Duration / 1e6 AS milliseconds,
    TraceId AS trace
FROM otel_traces
WHERE lower(SpanKind) IN ('server', 'span_kind_server')
    AND SpanAttributes['mcp.method.name'] = 'tools/call';

-- Tools by hour.
CREATE VIEW IF NOT EXISTS context_guard_tools AS
SELECT
    toStartOfHour(at) AS hour, gateway, upstream, tool,
    count() AS calls,
    sum(source.tokens_before) AS tokens_before,
    sum(source.tokens_sent) AS tokens_sent,
    quantile(0.95)(source.tokens_before) AS tokens_p95,
    countIf(outcome = 'shaped') AS shaped,
    countIf(outcome IN ('fault', 'upstream_error')) AS faults,
    quantile(0.95)(milliseconds) AS latency_p95
FROM context_guard_calls AS source
GROUP BY hour, gateway, upstream, tool;

-- Upstreams by minute: failures and times.
CREATE VIEW IF NOT EXISTS context_guard_upstreams AS
SELECT
    toStartOfMinute(at) AS minute, gateway, upstream,
    count() AS calls,
    countIf(outcome IN ('fault', 'upstream_error')) AS faults,
    faults / calls AS fault_rate,
    quantile(0.5)(milliseconds) AS latency_p50,
    quantile(0.95)(milliseconds) AS latency_p95
FROM context_guard_calls
GROUP BY minute, gateway, upstream;

-- Sessions: those with the most calls and tokens.
CREATE VIEW IF NOT EXISTS context_guard_sessions AS
SELECT
    gateway, session,
    min(at) AS first_call, max(at) AS last_call,
    count() AS calls,
    uniqExact(tool) AS tools,
    sum(source.tokens_sent) AS tokens_sent
FROM context_guard_calls AS source
GROUP BY gateway, session;

-- Outcomes by hour.
CREATE VIEW IF NOT EXISTS context_guard_outcomes AS
SELECT toStartOfHour(at) AS hour, gateway, upstream, outcome, error, count() AS calls
FROM context_guard_calls
GROUP BY hour, gateway, upstream, outcome, error;

-- The time that the guard adds to upstream calls, by trace.
CREATE VIEW IF NOT EXISTS context_guard_overhead AS
SELECT
    server.TraceId AS trace,
    server.Timestamp AS at,
    server.SpanName AS name,
    server.Duration / 1e6 AS milliseconds,
    client.Duration / 1e6 AS upstream_milliseconds,
    milliseconds - upstream_milliseconds AS own_milliseconds
FROM otel_traces AS server
INNER JOIN otel_traces AS client
    ON client.TraceId = server.TraceId AND client.ParentSpanId = server.SpanId
WHERE lower(server.SpanKind) IN ('server', 'span_kind_server')
    AND lower(client.SpanKind) IN ('client', 'span_kind_client');
