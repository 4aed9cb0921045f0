//! Requests and their answers.

use std::{convert::Infallible, sync::Arc, time::Instant};

use axum::{
    body::{Body, Bytes, to_bytes},
    http::{HeaderMap, Method, Request, Response, StatusCode, header},
};
use futures_util::stream;
use serde_json::json;
use tokio::sync::{Notify, watch};

use crate::{
    access::{Access, COOKIE_AGE_MAX},
    feed::Newest,
    guard,
    metrics::{Form, Metrics},
    page,
    requests::{REQUEST_BYTES_MAX, permitted},
    source::Asked,
};

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

/// All that answers depend on.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) source: Asked,
    pub(crate) access: Access,
    pub(crate) metrics: Metrics,
    pub(crate) newest: watch::Sender<Bytes>,
    /// Notified when there is one more receiver of `newest`.
    pub(crate) looked: Notify,
    /// Name of the cookie; browsers keep those of all ports of a host together.
    pub(crate) cookie: String,
}

/// Answers a request.
pub(crate) async fn answer(shared: Arc<Shared>, request: Request<Body>) -> Response<Body> {
    if let Some(reason) = guard::refusal(&request) {
        return refused(StatusCode::FORBIDDEN, reason);
    }
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let is_read = method == Method::GET || method == Method::HEAD;
    match path.as_str() {
        "/health" if is_read => page::answer(StatusCode::OK, TEXT, "serving\n"),
        "/ready" if is_read => ready(&shared).await,
        "/metrics" if is_read => metrics(&shared, request.headers()).await,
        "/api/enter" if method == Method::POST => enter(&shared, request).await,
        "/api/events" | "/api/ask" if !is_known(&shared, request.headers()) => refused(
            StatusCode::UNAUTHORIZED,
            "this page needs a new link; `anabranch console` prints one for a node",
        ),
        "/api/events" if method == Method::GET => {
            let newest = shared.newest.subscribe();
            shared.looked.notify_one();
            events(newest)
        }
        "/api/ask" if method == Method::POST => ask(&shared, request).await,
        _ => match page::file(&path, shared.source.word()) {
            Some(response) if is_read => response,
            Some(_) => refused(StatusCode::METHOD_NOT_ALLOWED, "this is read only"),
            None => refused(StatusCode::NOT_FOUND, "there is nothing at this address"),
        },
    }
}

fn refused(status: StatusCode, reason: &str) -> Response<Body> {
    page::answer(status, JSON, json!({ "error": reason }).to_string())
}

/// True for a request with a valid cookie.
fn is_known(shared: &Shared, headers: &HeaderMap) -> bool {
    let cookies = headers.get_all(header::COOKIE).iter();
    let pairs = cookies
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'));
    pairs
        .filter_map(|pair| pair.trim().split_once('='))
        .any(|(name, value)| name == shared.cookie && shared.access.knows(value, Instant::now()))
}

async fn body(request: Request<Body>) -> Result<Bytes, Response<Body>> {
    to_bytes(request.into_body(), REQUEST_BYTES_MAX)
        .await
        .map_err(|_| {
            refused(
                StatusCode::PAYLOAD_TOO_LARGE,
                "the request is longer than 64 kB",
            )
        })
}

async fn enter(shared: &Shared, request: Request<Body>) -> Response<Body> {
    let body = match body(request).await {
        Ok(body) => body,
        Err(response) => return response,
    };
    let token = serde_json::from_slice::<serde_json::Value>(&body).unwrap_or_default();
    let token = token
        .get("token")
        .and_then(serde_json::Value::as_str)
        .unwrap_or_default();
    match shared.access.enter(token, Instant::now()) {
        Ok(Some(secret)) => {
            tracing::info!("a page of the console is open");
            let cookie = format!(
                "{}={secret}; HttpOnly; SameSite=Strict; Path=/; Max-Age={}",
                shared.cookie,
                COOKIE_AGE_MAX.as_secs()
            );
            let mut response = page::answer(StatusCode::NO_CONTENT, JSON, Body::empty());
            if let Ok(value) = cookie.parse() {
                response.headers_mut().insert(header::SET_COOKIE, value);
            }
            response
        }
        Ok(None) => {
            tracing::warn!(
                "a link of the console was refused: it was used before, is older than 10 minutes, or is wrong"
            );
            refused(
                StatusCode::FORBIDDEN,
                "this link was used before or has expired; get a new one, for a node by `anabranch console`",
            )
        }
        Err(error) => refused(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

/// Events for as long as the page reads them.
fn events(newest: Newest) -> Response<Body> {
    let states = stream::unfold(newest, async |mut newest| {
        newest.changed().await.ok()?;
        let event = newest.borrow_and_update().clone();
        Some((Ok::<_, Infallible>(event), newest))
    });
    page::answer(
        StatusCode::OK,
        "text/event-stream",
        Body::from_stream(states),
    )
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
