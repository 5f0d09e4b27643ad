//! The data of the dashboard: queries, sessions, requests and health.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::Response;
use context_guard_history::Error;
use http::StatusCode;
use serde_json::{Value, json};

use super::console::Console;
use crate::history::HistorySource;
use crate::problem;
use crate::reply::value;

type UrlQuery = Result<Query<Vec<(String, String)>>, QueryRejection>;

pub(super) async fn query(State(console): State<Arc<Console>>, parameters: UrlQuery) -> Response {
    read(console, parameters, HistorySource::query).await
}

pub(super) async fn sessions(
    State(console): State<Arc<Console>>,
    parameters: UrlQuery,
) -> Response {
    read(console, parameters, HistorySource::sessions).await
}

pub(super) async fn records(State(console): State<Arc<Console>>, parameters: UrlQuery) -> Response {
    read(console, parameters, HistorySource::records).await
}

/// Answers `/admin/v1/health`. Without a history, its members are null.
pub(super) async fn health(State(console): State<Arc<Console>>, parameters: UrlQuery) -> Response {
    let gateway = console.state();
    if console.history.is_none() {
        return value(
            &json!({"calls": null, "estimates": null, "history": null, "gateway": gateway}),
        );
    }
    read(console, parameters, move |source, parameters| {
        let mut answer = source.health(parameters)?;
        if let Some(answer) = answer.as_object_mut() {
            answer.insert("gateway".to_owned(), gateway);
        }
        Ok(answer)
    })
    .await
}

/// Runs `read` on the history on a blocking thread, and returns the result as the response.
async fn read(
    console: Arc<Console>,
    parameters: UrlQuery,
    read: impl FnOnce(&HistorySource, &[(String, String)]) -> Result<Value, Error> + Send + 'static,
) -> Response {
    let Some(source) = console.history.clone() else {
        let detail = "This gateway records no history: add `history: {}` to its file.";
        return problem(StatusCode::NOT_FOUND, "no_history", detail);
    };
    let parameters = match parameters {
        Ok(Query(parameters)) => parameters,
        Err(error) => return problem(StatusCode::BAD_REQUEST, "bad_query", &error.body_text()),
    };
    let answer = tokio::task::spawn_blocking(move || read(&source, &parameters)).await;
    let unavailable =
        |text: String| problem(StatusCode::INTERNAL_SERVER_ERROR, "history_unavailable", &text);
    match answer {
        Ok(Ok(answer)) => value(&answer),
        Ok(Err(Error::Query(text))) => problem(StatusCode::BAD_REQUEST, "bad_query", &text),
        Ok(Err(error @ Error::Missing(_))) => {
            problem(StatusCode::NOT_FOUND, "no_history", &error.to_string())
        }
        Ok(Err(error)) => unavailable(error.to_string()),
        Err(error) => unavailable(error.to_string()),
    }
}
