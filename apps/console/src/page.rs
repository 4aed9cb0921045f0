//! Files of the page, which are part of the program. They ask nothing of any other place.

use axum::{
    body::Body,
    http::{HeaderValue, Response, StatusCode, header},
};

/// Scripts and styles of the page itself only, and no frames around it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

macro_rules! files {
    ($($path:literal $mime:ident $file:literal),* $(,)?) => {
        &[$(($path, $mime, include_str!(concat!("../page/", $file)))),*]
    };
}

/// Path, type and content of each.
const FILES: &[(&str, &str, &str)] = files![
    "/" HTML "index.html",
    "/style.css" STYLE "style.css",
    "/app.js" SCRIPT "app.js",
    "/node.js" SCRIPT "node.js",
    "/format.js" SCRIPT "format.js",
    "/dom.js" SCRIPT "dom.js",
    "/timer.js" SCRIPT "timer.js",
    "/history.js" SCRIPT "history.js",
    "/chart.js" SCRIPT "chart.js",
    "/views/paths.js" SCRIPT "views/paths.js",
    "/views/streams.js" SCRIPT "views/streams.js",
    "/views/promises.js" SCRIPT "views/promises.js",
    "/views/overlay.js" SCRIPT "views/overlay.js",
    "/views/objectives.js" SCRIPT "views/objectives.js",
    "/views/video.js" SCRIPT "views/video.js",
    "/vendor/uPlot.js" SCRIPT "vendor/uPlot.iife.min.js",
    "/vendor/uPlot.css" STYLE "vendor/uPlot.min.css",
    "/vendor/LICENSE" HTML "vendor/uPlot.LICENSE",
];

/// Mark in the page of what it shows.
const SHOWN: &str = "data-shows=\"node\"";

/// The file at a path, for a console that shows `shown`: "node" or "video".
pub(crate) fn file(path: &str, shown: &str) -> Option<Response<Body>> {
    let (_, mime, text) = FILES.iter().find(|(own, ..)| *own == path)?;
    let mime = if path.ends_with("LICENSE") {
        "text/plain"
    } else {
        mime
    };
    if *mime == *HTML && shown != "node" {
        let text = text.replacen(SHOWN, &format!("data-shows=\"{shown}\""), 1);
        return Some(answer(StatusCode::OK, mime, text));
    }
    Some(answer(StatusCode::OK, mime, *text))
}

/// A response with the headers that all have.
pub fn answer(status: StatusCode, mime: &str, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    if let Ok(mime) = HeaderValue::from_str(mime) {
        headers.insert(header::CONTENT_TYPE, mime);
    }
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
