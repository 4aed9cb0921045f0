//! Responses: common headers, and the form of refusals.

use std::time::Duration;

use anabranch::base::text::{REASON_CHARS, printable};
use axum::{
    body::Body,
    http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header},
    response::Response,
};
use bytes::Bytes;

use super::range::{Asked, asked};
use crate::wire::{Refusal, RefusalKind};

const CMSD_STATIC: HeaderName = HeaderName::from_static("cmsd-static");
const CMSD_DYNAMIC: HeaderName = HeaderName::from_static("cmsd-dynamic");

/// Properties of a request that every response depends on.
pub(super) struct Answer {
    pub(super) is_head: bool,
    pub(super) range: Option<String>,
}

impl Answer {
    pub(super) fn new(request: &Request<()>) -> Self {
        let range = request.headers().get(header::RANGE);
        Self {
            is_head: request.method() == Method::HEAD,
            range: range
                .and_then(|value| value.to_str().ok())
                .map(str::to_owned),
        }
    }

    /// All of `bytes`, or the requested range of them.
    pub(super) fn whole(&self, mime: &'static str, bytes: &Bytes) -> Response<Body> {
        let total = bytes.len() as u64;
        let Some(range) = self.range(total) else {
            return self.not_satisfiable(total);
        };
        let (from, to) = (range.start as usize, range.end as usize);
        let mut response = self.begin(mime, total, &range);
        if !self.is_head {
            *response.body_mut() = bytes.slice(from..to).into();
        }
        response
    }

    /// The requested range of `total` bytes; `None`: it contains none.
    pub(super) fn range(&self, total: u64) -> Option<std::ops::Range<u64>> {
        match asked(self.range.as_deref(), total) {
            Asked::Everything => Some(0..total),
            Asked::Range(range) => Some(range),
            Asked::Nothing => None,
        }
    }

    /// The head of a response with this range of `total` bytes.
    pub(super) fn begin(
        &self,
        mime: &'static str,
        total: u64,
        range: &std::ops::Range<u64>,
    ) -> Response<Body> {
        let mut response = self.head_only(mime);
        let is_part = matches!(asked(self.range.as_deref(), total), Asked::Range(_));
        let headers = response.headers_mut();
        headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        headers.insert(header::CONTENT_LENGTH, (range.end - range.start).into());
        if is_part {
            let text = format!("bytes {}-{}/{total}", range.start, range.end - 1);
            put(headers, header::CONTENT_RANGE, &text);
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        }
        response
    }

    pub(super) fn not_satisfiable(&self, total: u64) -> Response<Body> {
        let mut response = self.words(
            StatusCode::RANGE_NOT_SATISFIABLE,
            "the range is beyond the end",
        );
        let text = format!("bytes */{total}");
        put(response.headers_mut(), header::CONTENT_RANGE, &text);
        response
    }

    /// A response without a body and without a length.
    pub(super) fn head_only(&self, mime: &'static str) -> Response<Body> {
        let mut response = Response::new(Body::empty());
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(mime));
        // Frames that are missing now may be there the next time.
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        response
    }

    pub(super) fn options(&self) -> Response<Body> {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        response
    }

    /// A response with a text.
    pub(super) fn words(&self, status: StatusCode, words: &str) -> Response<Body> {
        let mut response = self.head_only("text/plain; charset=utf-8");
        *response.status_mut() = status;
        let text = format!("{words}\n");
        response
            .headers_mut()
            .insert(header::CONTENT_LENGTH, text.len().into());
        if !self.is_head {
            *response.body_mut() = text.into();
        }
        response
    }
}

/// A refusal as an HTTP response.
pub(super) fn refused(answer: &Answer, refusal: &Refusal) -> Response<Body> {
    let status = match refusal.kind {
        RefusalKind::NotFound => StatusCode::NOT_FOUND,
        RefusalKind::Changed => StatusCode::GONE,
        RefusalKind::Unusable => StatusCode::UNPROCESSABLE_ENTITY,
        RefusalKind::Ticket | RefusalKind::Full | RefusalKind::Failed => {
            StatusCode::SERVICE_UNAVAILABLE
        }
    };
    let mut response = answer.words(status, &printable(&refusal.reason, REASON_CHARS));
    if status == StatusCode::SERVICE_UNAVAILABLE
        && let Some(seconds) = refusal.retry_after_s
    {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

fn put(headers: &mut HeaderMap, name: HeaderName, text: &str) {
    if let Ok(value) = HeaderValue::from_str(text) {
        headers.insert(name, value);
    }
}

/// Media server data on a segment, for players that evaluate it (Common Media Server Data, CTA-5006).
pub(super) struct ServerData {
    pub(super) is_video: bool,
    pub(super) duration: Duration,
    pub(super) bytes: u64,
    /// Time between the request and its response.
    pub(super) waited: Duration,
    pub(super) left_out: u32,
}

impl ServerData {
    pub(super) fn put(&self, headers: &mut HeaderMap) {
        let millis = self.duration.as_millis().max(1);
        let kbps = u128::from(self.bytes) * 8 / millis;
        let kind = if self.is_video { "v" } else { "a" };
        put(
            headers,
            CMSD_STATIC,
            &format!("ot={kind},sf=h,st=v,d={millis},br={kbps}"),
        );
        // Under duress while the pipe does not carry everything.
        let duress = if self.left_out > 0 { ";du" } else { "" };
        let text = format!(
            "\"anabranch\";rd={}{duress};org.anabranch-left-out={}",
            self.waited.as_millis(),
            self.left_out
        );
        put(headers, CMSD_DYNAMIC, &text);
    }
}
