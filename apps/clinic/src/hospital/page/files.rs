//! Files of the page, which are part of the program. They ask nothing of any other place.

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

macro_rules! files {
    ($($path:literal $mime:ident $file:literal),* $(,)?) => {
        &[$(($path, $mime, include_str!(concat!("../../../page/", $file)))),*]
    };
}

/// Path, type and content of each.
const FILES: &[(&str, &str, &str)] = files![
    "/" HTML "index.html",
    "/style.css" STYLE "style.css",
    "/ages.js" SCRIPT "ages.js",
    "/app.js" SCRIPT "app.js",
    "/clock.js" SCRIPT "clock.js",
    "/feed.js" SCRIPT "feed.js",
    "/leads.js" SCRIPT "leads.js",
    "/mic.js" SCRIPT "mic.js",
    "/mp4.js" SCRIPT "mp4.js",
    "/speech.js" SCRIPT "speech.js",
    "/tables.js" SCRIPT "tables.js",
    "/talk.js" SCRIPT "talk.js",
    "/video.js" SCRIPT "video.js",
    "/vitals.js" SCRIPT "vitals.js",
];

/// Type and content of the file at a path.
pub(super) fn file(path: &str) -> Option<(&'static str, &'static str)> {
    let found = FILES.iter().find(|(own, ..)| *own == path);
    found.map(|(_, mime, text)| (*mime, *text))
}
