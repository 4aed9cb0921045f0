//! HTTP interface for players and people.
//!
//! | address | what |
//! |---|---|
//! | `/` | the catalogue, with a player |
//! | `/stats.json` | statistics of the proxy |
//! | `/v/NAME.mp4` | the video as one fragmented MP4, with byte ranges |
//! | `/v/NAME/master.m3u8` | the video as HLS |
//! | `/v/NAME/TRACK/index.m3u8` | a track's playlist |
//! | `/v/NAME/TRACK/init.mp4`, `/v/NAME/TRACK/N.m4s` | its segments, CMAF |
//!
//! `serve` accepts connections, `guests` limits them, `rules` decides which requests are answered.
//!
//! Names are looked up in the catalogue of the origin; no path of the file system is ever derived from a URL.

mod answer;
mod guests;
mod page;
mod progressive;
mod range;
mod rules;
mod serve;

use std::{hash::Hasher, net::SocketAddr, sync::Arc};

use anabranch_media::{
    hls::{master_playlist, media_playlist},
    write::{Layout, Options, fragment, init_segment},
};
use axum::{
    body::Body,
    http::{Method, Request, StatusCode, header},
    response::Response,
};
use tokio::net::TcpListener;

use self::{
    answer::{Answer, refused},
    rules::Rules,
};
use super::{Shared, cached_video::CachedVideo, monitor};
use crate::wire::{NAME_BYTES_MAX, Refusal, RefusalKind};

/// Default maximum number of connections of players.
const CONNECTIONS: usize = 512;

/// Settings of the HTTP side of a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Maximum number of connections of players; fewer where the system allows the process fewer descriptors. Beyond it, a
    /// connection that has no request in progress, or whose player reads nothing, gives its place to a new one; otherwise new
    /// ones get 503.
    pub connections: usize,
    /// Maximum number of connections from one address; of IPv6, from one network of 64 bits.
    pub per_address: usize,
    /// Names of the proxy, besides `localhost`, addresses, and the machine's own name. Requests under other names are refused.
    pub names: Vec<String>,
    /// Sites whose pages may read responses, as `https://example.org`, or `*` for all; none: only the proxy's own page.
    pub cors: Vec<String>,
}

impl Default for Settings {
    /// 512 connections, half of them from one address; no other names, no other sites.
    fn default() -> Self {
        Self {
            connections: CONNECTIONS,
            per_address: CONNECTIONS / 2,
            names: Vec::new(),
            cors: Vec::new(),
        }
    }
}

/// Serves until `stop` is ready.
pub(super) async fn serve(
    shared: Arc<Shared>,
    listener: TcpListener,
    stop: impl Future<Output = ()> + Send,
) {
    let settings = &shared.config.http;
    let limits = guests::Limits {
        total: settings.connections,
        per_address: settings.per_address,
    };
    let rules = Arc::new(Rules::new(&settings.names, &settings.cors));
    let clock = shared.clock;
    serve::serve(Front { shared, rules }, clock, listener, limits, stop).await;
}

/// Handler of all requests.
#[derive(Clone)]
struct Front {
    shared: Arc<Shared>,
    rules: Arc<Rules>,
}

impl serve::Handler for Front {
    async fn answer(self, peer: SocketAddr, request: Request<()>) -> Response<Body> {
        self.shared.stats.responses.add(1);
        let answer = Answer::new(&request);
        let (mut response, sharing) = match self.rules.check(&request) {
            Err((status, words)) => (answer.words(status, words), rules::Sharing::default()),
            Ok(sharing) if *request.method() == Method::OPTIONS => {
                let mut response = answer.options();
                sharing.put_options(response.headers_mut());
                return response;
            }
            Ok(sharing) => (get(&self.shared, &answer, peer, &request).await, sharing),
        };
        sharing.put(response.headers_mut());
        response
    }
}

/// Target of a request.
#[derive(Debug, PartialEq, Eq)]
enum Target {
    Page,
    Stats,
    Progressive(String),
    Master(String),
    Playlist(String, usize),
    Init(String, usize),
    Segment(String, usize, u32),
}

/// Target of a path; `None`: there is nothing at this address, whatever is in the catalogue.
fn target(path: &str) -> Option<Target> {
    let path = decode(path)?;
    match path.as_str() {
        "/" => return Some(Target::Page),
        "/stats.json" => return Some(Target::Stats),
        _ => {}
    }
    let rest = path.strip_prefix("/v/")?;
    let is_name = |name: &str| !name.is_empty() && name.len() <= NAME_BYTES_MAX;
    if let Some(name) = rest.strip_suffix("/master.m3u8") {
        return is_name(name).then(|| Target::Master(name.to_owned()));
    }
    let (before, file) = rest.rsplit_once('/').unwrap_or(("", rest));
    let in_track = before.rsplit_once('/').and_then(|(name, track)| {
        let track: usize = number(track)?;
        let name = is_name(name).then(|| name.to_owned())?;
        match file {
            "index.m3u8" => Some(Target::Playlist(name, track)),
            "init.mp4" => Some(Target::Init(name, track)),
            _ => Some(Target::Segment(
                name,
                track,
                number(file.strip_suffix(".m4s")?)?,
            )),
        }
    });
    in_track.or_else(|| {
        let name = rest.strip_suffix(".mp4")?;
        is_name(name).then(|| Target::Progressive(name.to_owned()))
    })
}

/// A number in plain digits.
fn number<T: std::str::FromStr + ToString>(text: &str) -> Option<T> {
    let number: T = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

/// Decodes a path; `None` when the result is not text, or has characters that no name contains.
fn decode(path: &str) -> Option<String> {
    let mut out = Vec::with_capacity(path.len());
    let mut bytes = path.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digits = [bytes.next()?, bytes.next()?];
        let digits = std::str::from_utf8(&digits).ok()?;
        if !digits.bytes().all(|c| c.is_ascii_hexdigit()) {
            return None;
        }
        out.push(u8::from_str_radix(digits, 16).ok()?);
    }
    let text = String::from_utf8(out).ok()?;
    (!text.chars().any(char::is_control)).then_some(text)
}

/// A name as a part of a URL.
fn encode(name: &str) -> String {
    let mut out = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
                out.push(byte.into());
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Identifies a viewer as well as possible.
fn viewer(peer: SocketAddr, request: &Request<()>) -> u64 {
    let agent = request.headers().get(header::USER_AGENT);
    let mut hasher = std::hash::DefaultHasher::new();
    std::hash::Hash::hash(&peer.ip(), &mut hasher);
    hasher.write(agent.map_or(&[], |agent| agent.as_bytes()));
    hasher.finish()
}

async fn get(
    shared: &Arc<Shared>,
    answer: &Answer,
    peer: SocketAddr,
    request: &Request<()>,
) -> Response<Body> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let words = "only GET and HEAD are supported";
        return answer.words(StatusCode::METHOD_NOT_ALLOWED, words);
    }
    let Some(target) = target(request.uri().path()) else {
        return answer.words(StatusCode::NOT_FOUND, "there is nothing at this address");
    };
    let viewer = viewer(peer, request);
    match respond(shared, answer, target, viewer).await {
        Ok(response) => response,
        Err(refusal) => refused(answer, &refusal),
    }
}

async fn respond(
    shared: &Arc<Shared>,
    answer: &Answer,
    target: Target,
    viewer: u64,
) -> Result<Response<Body>, Refusal> {
    match target {
        Target::Page => Ok(answer.whole("text/html; charset=utf-8", &page::page(shared).into())),
        Target::Stats => Ok(answer.whole(
            "application/json",
            &monitor::state(shared).to_string().into(),
        )),
        Target::Progressive(name) => {
            let cached_video = shared.cached_video(&name).await?;
            progressive::respond(answer, cached_video, viewer).await
        }
        Target::Master(name) => {
            let cached_video = shared.cached_video(&name).await?;
            let video = &cached_video.video;
            let uri = |track: usize| format!("{track}/index.m3u8");
            let text = master_playlist(&video.index, &video.chunks, &uri);
            Ok(answer.whole("application/vnd.apple.mpegurl", &text.into()))
        }
        Target::Playlist(name, track) => {
            let cached_video = video_with_track(shared, &name, track).await?;
            let video = &cached_video.video;
            let uri = |chunk: u32| format!("{chunk}.m4s");
            let text = media_playlist(&video.index, track, &video.chunks, "init.mp4", &uri);
            Ok(answer.whole("application/vnd.apple.mpegurl", &text.into()))
        }
        Target::Init(name, track) => {
            let cached_video = video_with_track(shared, &name, track).await?;
            let bytes = init_segment(&cached_video.video.index, &[track]);
            Ok(answer.whole(mime(&cached_video, track), &bytes))
        }
        Target::Segment(name, track, chunk) => {
            let cached_video = video_with_track(shared, &name, track).await?;
            segment(shared, answer, &cached_video, (track, chunk), viewer).await
        }
    }
}

async fn segment(
    shared: &Arc<Shared>,
    answer: &Answer,
    cached_video: &Arc<CachedVideo>,
    (track, chunk): (usize, u32),
    viewer: u64,
) -> Result<Response<Body>, Refusal> {
    if chunk >= cached_video.video.count() {
        let words = format!("the video has {} segments", cached_video.video.count());
        return Err(Refusal::new(RefusalKind::NotFound, words));
    }
    let mime = mime(cached_video, track);
    if answer.is_head {
        // The length depends on the frames that arrive; nothing is fetched to find it out.
        return Ok(answer.head_only(mime));
    }
    let asked = shared.clock.now();
    let content = cached_video.content(chunk, viewer).await?;
    let video = content.video();
    let options = Options {
        layout: Layout::Compact,
        ..Options::default()
    };
    let place = &video.chunks[chunk as usize];
    let fragment = fragment(&video.index, &[track], place, &*content, options);
    shared.stats.frames.left_out(&fragment.left_out);
    shared.stats.response_bytes.add(fragment.bytes.len() as u64);
    let mut response = answer.whole(mime, &fragment.bytes);
    let is_video = video.index.tracks[track].is_video();
    let server_data = answer::ServerData {
        is_video,
        duration: place.duration,
        bytes: fragment.bytes.len() as u64,
        waited: shared.clock.since(asked),
        left_out: fragment.left_out.total(),
    };
    server_data.put(response.headers_mut());
    Ok(response)
}

async fn video_with_track(
    shared: &Arc<Shared>,
    name: &str,
    track: usize,
) -> Result<Arc<CachedVideo>, Refusal> {
    let cached_video = shared.cached_video(name).await?;
    if track >= cached_video.video.index.tracks.len() {
        let words = format!(
            "the video has {} tracks",
            cached_video.video.index.tracks.len()
        );
        return Err(Refusal::new(RefusalKind::NotFound, words));
    }
    Ok(cached_video)
}

fn mime(cached_video: &CachedVideo, track: usize) -> &'static str {
    if cached_video.video.index.tracks[track].is_video() {
        "video/mp4"
    } else {
        "audio/mp4"
    }
}

/// A decoded name encodes to the same target; ranges are within the total.
#[cfg(feature = "fuzzing")]
pub(super) fn fuzz(text: &str) {
    let (path, range) = text.split_once('\n').unwrap_or((text, ""));
    if let Some(Target::Progressive(name)) = target(path) {
        assert!(!name.is_empty() && name.len() <= NAME_BYTES_MAX);
        let again = target(&format!("/v/{}.mp4", encode(&name)));
        assert_eq!(again, Some(Target::Progressive(name)));
    }
    for total in [0, 1, 100, u64::MAX] {
        if let range::Asked::Range(range) = range::asked(Some(range), total) {
            assert!(range.start < range.end && range.end <= total);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(path: &str) -> Option<Target> {
        target(path)
    }

    #[test]
    fn addresses_are_read() {
        let name = || "films/a b".to_owned();
        assert_eq!(at("/"), Some(Target::Page));
        assert_eq!(at("/v/films/a%20b.mp4"), Some(Target::Progressive(name())));
        assert_eq!(
            at("/v/films/a%20b/master.m3u8"),
            Some(Target::Master(name()))
        );
        assert_eq!(
            at("/v/films/a%20b/1/index.m3u8"),
            Some(Target::Playlist(name(), 1))
        );
        assert_eq!(
            at("/v/films/a%20b/0/init.mp4"),
            Some(Target::Init(name(), 0))
        );
        assert_eq!(
            at("/v/films/a%20b/0/17.m4s"),
            Some(Target::Segment(name(), 0, 17))
        );
        assert_eq!(encode("films/ä b"), "films/%C3%A4%20b");
    }

    #[test]
    fn what_is_no_address_leads_nowhere() {
        for path in [
            "/v",
            "/v/",
            "/v/.mp4",
            "/x",
            "/v/a/0/017.m4s",
            "/v/a/0/-1.m4s",
            "/v/a%00.mp4",
            "/v/a%zz.mp4",
            "/v/a%ff.mp4",
            "/v/a%0a.mp4",
            "/v/a%2",
        ] {
            assert_eq!(at(path), None, "{path}");
        }
    }
}
