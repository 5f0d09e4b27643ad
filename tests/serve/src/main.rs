//! Serves a wasi:http component, 0.2 or 0.3, with the crates behind `wasmtime serve`, in one
//! instance per request. Prints its URL. `/__stored` returns the store, `/__env` clears it and
//! replaces the environment.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs,
    reason = "a program of the tests"
)]

#[allow(unreachable_pub, reason = "named in generated code")]
mod keyvalue;
mod state;

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Parser;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::net::TcpListener;
use wasmtime_wasi_http::WasiBody;
use wasmtime_wasi_http::handler::ProxyHandler;

use keyvalue::Bucket;
use state::Instances;

/// Serves a wasi:http component on a free port of loopback.
#[derive(Parser)]
struct Arguments {
    /// The component.
    component: PathBuf,
    /// An environment variable, as NAME=VALUE.
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// A fixed time, in milliseconds since 1970.
    #[arg(long)]
    now_ms: Option<u64>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let bucket = Bucket::default();
    let instances =
        Instances::load(&arguments.component, &arguments.env, arguments.now_ms, &bucket)
            .map_err(from_wasmtime)?;
    let handler = Arc::new(ProxyHandler::new(instances));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}", listener.local_addr()?);
    loop {
        let (connection, _) = listener.accept().await?;
        let (handler, bucket) = (Arc::clone(&handler), bucket.clone());
        tokio::spawn(async move {
            let serve = service_fn(|request| answer(Arc::clone(&handler), &bucket, request));
            let connection = TokioIo::new(connection);
            let mut server = hyper::server::conn::http1::Builder::new();
            if let Err(error) =
                server.timer(TokioTimer::new()).serve_connection(connection, serve).await
            {
                eprintln!("a connection ended: {error:?}");
            }
        });
    }
}

async fn answer(
    handler: Arc<ProxyHandler<Instances>>,
    bucket: &Bucket,
    request: Request<Incoming>,
) -> Result<Response<WasiBody>, Infallible> {
    if request.uri().path() == "/__stored" {
        let entries = bucket.entries();
        // The expiry time precedes each value.
        let entries = entries.iter().map(|(key, value)| {
            (key.clone(), STANDARD.encode(value.get(8..).unwrap_or_default()).into())
        });
        let stored = json!(entries.collect::<serde_json::Map<_, _>>());
        return Ok(plain(StatusCode::OK, stored.to_string()));
    }
    if request.uri().path() == "/__env" {
        let body = request.into_body().collect().await.map(|body| body.to_bytes());
        let env = body.ok().and_then(|body| serde_json::from_slice::<Vec<String>>(&body).ok());
        handler.state().begin_anew(&env.unwrap_or_default());
        return Ok(plain(StatusCode::OK, String::new()));
    }
    let request = with_authority(request);
    let answered = match request {
        Ok(request) => handler.handle((), request).await.map_err(from_wasmtime),
        Err(error) => Err(error),
    };
    Ok(answered.unwrap_or_else(|error| {
        eprintln!("a request failed: {error:?}");
        plain(StatusCode::INTERNAL_SERVER_ERROR, format!("{error:#}"))
    }))
}

/// Converts a request to the form that handlers expect, with the authority in the URI.
fn with_authority(request: Request<Incoming>) -> Result<Request<WasiBody>> {
    let host = request.headers().get("host").context("no host")?.to_str()?.to_owned();
    let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
    let uri = format!("http://{host}{target}").parse()?;
    let mut request = request.map(|body| body.map_err(Into::into).boxed_unsync());
    *request.uri_mut() = uri;
    Ok(request)
}

fn from_wasmtime(error: wasmtime::Error) -> anyhow::Error {
    anyhow::anyhow!("{error:?}")
}

fn plain(status: StatusCode, text: String) -> Response<WasiBody> {
    let body = Full::new(text.into()).map_err(|never: Infallible| match never {}).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}
