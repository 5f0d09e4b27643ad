//! The export to an OpenTelemetry collector: real MCP calls, decoded with the official messages.

use std::collections::BTreeMap;

use context_guard_test_support::gateway::{Gateway, HttpClient};
use context_guard_test_support::scripted::{ScriptedResponse, ScriptedServer};
use context_guard_test_support::wait::{wait_for, wait_until};
use context_guard_test_support::{Context, Result, artifacts, ensure};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value as Any};
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::metrics::v1::{Metric, metric::Data};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use serde_json::json;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";
const OTHER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn collector() -> Result<ScriptedServer> {
    ScriptedServer::from_fn(|_| ScriptedResponse::with_type("application/x-protobuf", ""))
}

/// Returns the decoded bodies that the collector received for a signal.
fn received<M: Message + Default>(collector: &ScriptedServer, signal: &str) -> Result<Vec<M>> {
    let line = format!("POST /v1/{signal} ");
    let requests = collector.requests();
    let bodies = requests.iter().filter(|request| request.line.starts_with(&line));
    bodies
        .map(|request| {
            ensure!(request.header("content-type") == "application/x-protobuf", "{request:?}");
            ensure!(request.header("x-tenant") == "tests", "{request:?}");
            Ok(M::decode(request.body.as_slice())?)
        })
        .collect()
}

fn attributes(all: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |one: &KeyValue| match one.value.as_ref()?.value.as_ref()? {
        Any::StringValue(text) => Some((one.key.clone(), text.clone())),
        _ => None,
    };
    all.iter().filter_map(text).collect()
}

fn spans(collector: &ScriptedServer) -> Result<Vec<Span>> {
    let requests = received::<ExportTraceServiceRequest>(collector, "traces")?;
    let mut spans = Vec::new();
    for resource in requests.into_iter().flat_map(|request| request.resource_spans) {
        let process = attributes(&resource.resource.context("no resource")?.attributes);
        ensure!(process["service.name"] == "edge", "{process:?}");
        ensure!(process["deployment.environment"] == "tests", "{process:?}");
        spans.extend(resource.scope_spans.into_iter().flat_map(|scope| scope.spans));
    }
    Ok(spans)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Starts a gateway that exports to the collector. Its upstream writes what it receives to a file
/// in `folder`.
fn start(collector: &ScriptedServer, name: &str) -> Result<(Gateway, std::path::PathBuf)> {
    let seen = context_guard_test_support::peers::folder(name)?.join("seen");
    let server = artifacts::property_server()?;
    let script = format!("tee '{}' | '{}'", seen.display(), server.display());
    let gateway = Gateway::start_with(
        json!([{"name": "houses", "command": ["sh", "-c", script]}]),
        json!({"telemetry": {"otlp": {
            "endpoint": collector.url(), "headers": {"x-tenant": "tests"},
        }}}),
        &[
            ("OTEL_SERVICE_NAME", "edge"),
            ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=tests"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "1000"),
        ],
    )?;
    Ok((gateway, seen))
}

#[test]
fn calls_are_exported_as_spans_metrics_and_logs() -> Result<()> {
    let collector = collector()?;
    let (gateway, seen) = start(&collector, "otlp-spans")?;
    let headers = [("traceparent", OTHER)];
    let mut client = HttpClient::open(&gateway.url(), &headers, json!({}))?;
    client.request("tools/list", json!({}))?;
    let meta = json!({"traceparent": format!("00-{TRACE}-{PARENT}-01"), "baggage": "k=v"});
    client
        .request("tools/call", json!({"name": "list_bookings", "arguments": {}, "_meta": meta}))?;
    client.call("chosen_by_a_client", json!({}))?;
    let exported = wait_for("spans", || {
        let spans = spans(&collector)?;
        let calls = spans.iter().filter(|span| span.name.starts_with("tools/call")).count();
        Ok((calls >= 4).then_some(spans))
    })?;
    let of_trace = |kind: i32| {
        let mut found =
            exported.iter().filter(|span| hex(&span.trace_id) == TRACE && span.kind == kind);
        let span = found.next().with_context(|| format!("no span of kind {kind}: {exported:?}"))?;
        ensure!(found.next().is_none(), "two spans of kind {kind}: {exported:?}");
        anyhow::Ok(span)
    };
    let (server, client_span) = (of_trace(2)?, of_trace(3)?);
    ensure!(hex(&server.parent_span_id) == PARENT, "{server:?}");
    ensure!(client_span.parent_span_id == server.span_id, "{client_span:?}");
    ensure!(server.name == "tools/call list_bookings" && client_span.name == server.name);
    let link = server.links.first().context("no link to the HTTP context")?;
    ensure!(OTHER.contains(&hex(&link.trace_id)) && OTHER.contains(&hex(&link.span_id)));
    ensure!(server.start_time_unix_nano <= client_span.start_time_unix_nano);
    ensure!(client_span.end_time_unix_nano <= server.end_time_unix_nano);
    let found = attributes(&server.attributes);
    for (name, expected) in [
        ("mcp.method.name", "tools/call"),
        ("gen_ai.tool.name", "list_bookings"),
        ("gen_ai.operation.name", "execute_tool"),
        ("mcp.protocol.version", "2025-11-25"),
        ("jsonrpc.request.id", "2"),
        ("network.transport", "tcp"),
        ("context_guard.outcome", "shaped"),
        ("context_guard.upstream", "houses"),
    ] {
        ensure!(found.get(name).map(String::as_str) == Some(expected), "{name}: {found:?}");
    }
    ensure!(found.contains_key("mcp.session.id") && found["mcp.session.id"] != client.session);
    ensure!(found["context_guard.tokens.original"].parse::<u64>()? > 4_000, "{found:?}");
    ensure!(!found.contains_key("error.type"), "{found:?}");
    // The list is one operation of the client, whatever the gateway asked its upstreams before.
    let lists: Vec<_> =
        exported.iter().filter(|span| span.name == "tools/list" && span.kind == 2).collect();
    ensure!(lists.len() == 1, "{lists:?}");
    let error = exported.iter().find(|span| span.name == "tools/call" && span.kind == 2);
    let error = error.context("no span of the invented tool")?;
    let found = attributes(&error.attributes);
    ensure!(found["gen_ai.tool.name"] == "_OTHER" && found.contains_key("error.type"), "{found:?}");
    ensure!(error.status.as_ref().is_some_and(|status| status.code == 2), "{error:?}");
    // The upstream received the context of the CLIENT span, and the client's baggage.
    let seen = std::fs::read_to_string(seen)?;
    let sent = format!("00-{TRACE}-{}-01", hex(&client_span.span_id));
    ensure!(seen.contains(&sent) && seen.contains("\"baggage\":\"k=v\""), "{seen}");
    metrics_are_exported(&collector)?;
    logs_are_exported(&collector, &server.span_id)
}

fn metrics_are_exported(collector: &ScriptedServer) -> Result<()> {
    let find = |name: &str, matching: &dyn Fn(&BTreeMap<String, String>) -> bool| {
        wait_for(name, || {
            let requests = received::<ExportMetricsServiceRequest>(collector, "metrics")?;
            let resources = requests.into_iter().flat_map(|request| request.resource_metrics);
            let scopes = resources.flat_map(|resource| resource.scope_metrics);
            let metrics = scopes.flat_map(|scope| scope.metrics);
            let found: Option<Metric> =
                metrics.filter(|metric| metric.name == name).find(|metric| {
                    let Some(Data::Histogram(histogram)) = &metric.data else { return false };
                    histogram
                        .data_points
                        .iter()
                        .any(|point| matching(&attributes(&point.attributes)))
                });
            Ok(found)
        })
    };
    for name in ["mcp.server.operation.duration", "mcp.client.operation.duration"] {
        let metric = find(name, &|found| {
            found.get("gen_ai.tool.name").is_some_and(|tool| tool == "list_bookings")
        })?;
        let Some(Data::Histogram(histogram)) = metric.data else { continue };
        ensure!(metric.unit == "s" && histogram.aggregation_temporality == 2, "{histogram:?}");
        let bounds =
            [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];
        for point in &histogram.data_points {
            ensure!(point.explicit_bounds == bounds, "{point:?}");
            ensure!(point.bucket_counts.iter().sum::<u64>() == point.count, "{point:?}");
            let found = attributes(&point.attributes);
            let tool = found.get("gen_ai.tool.name").map_or("", String::as_str);
            ensure!(matches!(tool, "" | "list_bookings" | "_OTHER"), "{found:?}");
        }
    }
    for side in ["original", "sent"] {
        let metric = find("context_guard.result.tokens", &|found| found["side"] == side)?;
        ensure!(metric.unit == "{token}", "{metric:?}");
    }
    Ok(())
}

fn logs_are_exported(collector: &ScriptedServer, span: &[u8]) -> Result<()> {
    let record: LogRecord = wait_for("a log event", || {
        let requests = received::<ExportLogsServiceRequest>(collector, "logs")?;
        let resources = requests.into_iter().flat_map(|request| request.resource_logs);
        let scopes = resources.flat_map(|resource| resource.scope_logs);
        Ok(scopes.flat_map(|scope| scope.log_records).find(|record| record.span_id == span))
    })?;
    let body = record.body.and_then(|body| body.value);
    ensure!(body == Some(Any::StringValue("request answered".to_owned())), "{body:?}");
    ensure!(record.severity_text == "INFO" && record.severity_number == 9);
    let found = attributes(&record.attributes);
    ensure!(found["endpoint"] == "houses::list_bookings", "{found:?}");
    Ok(())
}

#[test]
fn missing_collector_does_not_affect_calls() -> Result<()> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    drop(listener);
    let server = artifacts::property_server()?;
    let upstreams = json!([{"name": "houses", "command": [server]}]);
    let endpoint = format!("http://{address}");
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str())];
    let gateway = Gateway::start_with(upstreams, json!({}), &variables)?;
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    let failed = || gateway.process.output().matches("cannot be exported").count();
    wait_until("a failed export", || {
        client.call("short_note", json!({}))?;
        Ok(failed() > 0)
    })?;
    let dropped = |text: &str| {
        text.lines().any(|line| {
            line.strip_prefix("context_guard_otlp_dropped_total ").is_some_and(|count| count != "0")
        })
    };
    wait_until("counted losses", || Ok(dropped(&gateway.get_admin("/metrics")?.1)))?;
    ensure!(failed() == 1, "{}", gateway.process.output());
    Ok(())
}

#[test]
fn requests_are_unchanged_without_a_collector() -> Result<()> {
    let seen = context_guard_test_support::peers::folder("otlp-off")?.join("seen");
    let server = artifacts::property_server()?;
    let script = format!("tee '{}' | '{}'", seen.display(), server.display());
    let upstreams = json!([{"name": "houses", "command": ["sh", "-c", script]}]);
    let gateway = Gateway::start(upstreams, json!({}))?;
    let headers = [("traceparent", OTHER)];
    let mut client = HttpClient::open(&gateway.url(), &headers, json!({}))?;
    client.call("short_note", json!({}))?;
    ensure!(!std::fs::read_to_string(seen)?.contains("traceparent"));
    Ok(())
}
