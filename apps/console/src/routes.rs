//! Requests and their answers.

use std::sync::Arc;

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, Method, Request, Response, StatusCode, header},
};
use tokio::sync::{Notify, watch};

use crate::{
    feed::Newest,
    metrics::{Form, Metrics},
    page,
    requests::permitted,
    site::{Site, Visitors, body, refused, streamed},
    source::Asked,
};

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

/// All that answers depend on.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) source: Asked,
    pub(crate) visitors: Visitors,
    pub(crate) metrics: Metrics,
    pub(crate) newest: watch::Sender<Bytes>,
    /// Notified when there is one more receiver of `newest`.
    pub(crate) looked: Notify,
}

impl Site for Shared {
    async fn answer(self: Arc<Self>, request: Request<Body>) -> Response<Body> {
        answer(self, request).await
    }
}

/// Answers a request.
async fn answer(shared: Arc<Shared>, request: Request<Body>) -> Response<Body> {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let is_read = method == Method::GET || method == Method::HEAD;
    match path.as_str() {
        "/health" if is_read => page::answer(StatusCode::OK, TEXT, "serving\n"),
        "/ready" if is_read => ready(&shared).await,
        "/metrics" if is_read => metrics(&shared, request.headers()).await,
        "/api/enter" if method == Method::POST => shared.visitors.enter(request).await,
        "/api/events" | "/api/ask" => {
            if let Some(refusal) = shared.visitors.refusal(request.headers()) {
                return refusal;
            }
            match path.as_str() {
                "/api/events" if method == Method::GET => {
                    let newest = shared.newest.subscribe();
                    shared.looked.notify_one();
                    events(newest)
                }
                "/api/ask" if method == Method::POST => ask(&shared, request).await,
                _ => refused(StatusCode::NOT_FOUND, "there is nothing at this address"),
            }
        }
        _ => match page::file(&path, shared.source.word()) {
            Some(response) if is_read => response,
            Some(_) => refused(StatusCode::METHOD_NOT_ALLOWED, "this is read only"),
            None => refused(StatusCode::NOT_FOUND, "there is nothing at this address"),
        },
    }
}

/// Events for as long as the page reads them.
fn events(newest: Newest) -> Response<Body> {
    streamed("text/event-stream", newest, async |mut newest: Newest| {
        newest.changed().await.ok()?;
        let event = newest.borrow_and_update().clone();
        Some((event, newest))
    })
}

async fn ask(shared: &Shared, request: Request<Body>) -> Response<Body> {
    let body = match body(request).await {
        Ok(body) => body,
        Err(response) => return response,
    };
    let request = match permitted(&body) {
        Ok(request) => request,
        Err(reason) => return refused(StatusCode::BAD_REQUEST, &reason),
    };
    let answer = shared.source.ask(&request.line).await;
    if request.is_act {
        let outcome = match &answer {
            Ok(answer) if answer.starts_with("{\"error\"") => "refused",
            Ok(_) => "done",
            Err(_) => "failed",
        };
        tracing::info!(
            request = request.line,
            outcome,
            "asked by a page of the console"
        );
    }
    match answer {
        Ok(answer) => page::answer(StatusCode::OK, JSON, answer),
        Err(error) => refused(StatusCode::BAD_GATEWAY, &error.to_string()),
    }
}

async fn ready(shared: &Shared) -> Response<Body> {
    match shared.source.is_ready().await {
        Ok(()) => page::answer(StatusCode::OK, TEXT, "ready\n"),
        Err(reason) => page::answer(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("{reason}\n")),
    }
}

async fn metrics(shared: &Shared, headers: &HeaderMap) -> Response<Body> {
    let accept = headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok());
    let form = Form::accepted(accept.unwrap_or_default());
    match shared.metrics.scrape(&shared.source, form).await {
        Ok(text) => page::answer(StatusCode::OK, form.mime(), text),
        Err(error) => page::answer(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("{error}\n")),
    }
}
