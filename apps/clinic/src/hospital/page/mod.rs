//! Page in which a browser shows the newest case of a hospital.
//!
//! | address | answer |
//! |---|---|
//! | `/` | the page; it holds no data |
//! | `POST /api/enter` | exchanges the one-time token of a link for a cookie, which the others need |
//! | `GET /api/feed` | records of states, samples, pictures and speech, as long as the page reads |
//! | `GET /api/clock` | the hospital's clock: `{"now_us": …}` |
//! | `GET /api/state` | the state, in JSON |
//! | `GET /api/stills/N` | file N of the case, if it is a picture |
//! | `POST /api/key` | asks for a key picture: `{"case": …, "after": …}`, the number of the last picture that came |
//! | `POST /api/speak` | sends speech to the ambulance; 409 if it does not listen, or another page speaks |

mod files;
mod record;
mod speak;
mod stills;

use std::{sync::Arc, time::Duration};

pub use anabranch_console::site::{Address, PublicName};
use anabranch_console::{
    StartError,
    site::{
        Body, Bytes, Method, Request, Response, Served, Site, StatusCode, answer, body, refused,
        streamed,
    },
};
use serde::Deserialize;
use serde_json::json;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::live::{Live, VIEWERS_MAX, Viewer};

/// Time between two states.
const STATE_PERIOD: Duration = Duration::from_millis(250);
/// Policy of the page: its own scripts, styles and pictures only, and video that a script of it has made.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src blob:; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const JSON: &str = "application/json";
const BYTES: &str = "application/octet-stream";

/// A page of a hospital; it ends when this is dropped.
pub type Page = Served;

/// Serves the page at an address of this machine from now on, and under the name of a web server in front of it. Within a runtime.
///
/// # Errors
/// The address is not of this machine alone, or cannot be listened on.
pub fn serve_page(at: impl Into<Address>, live: Arc<Live>) -> Result<Page, StartError> {
    let remedy = "press Enter where `anabranch clinic hospital` runs for another one";
    Served::start(at, ("anabranch-clinic", remedy), Shared { live })
}

#[derive(Debug)]
struct Shared {
    live: Arc<Live>,
}

impl Site for Shared {
    async fn answer(self: Arc<Self>, request: Request<Body>) -> Response<Body> {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        if path == "/api/key" && method == Method::POST {
            return self.key(request).await;
        }
        if path == "/api/speak" && method == Method::POST {
            return speak::answer(&self.live, request).await;
        }
        let is_read = method == Method::GET || method == Method::HEAD;
        if !is_read {
            return refused(StatusCode::METHOD_NOT_ALLOWED, "this is read only");
        }
        match path.as_str() {
            "/api/feed" if method == Method::GET => self.feed(),
            "/api/clock" => {
                let clock = json!({ "now_us": self.live.now_us() });
                answer(StatusCode::OK, JSON, clock.to_string())
            }
            "/api/state" => answer(StatusCode::OK, JSON, state(&self.live, [0; 3])),
            _ => match path.strip_prefix("/api/stills/") {
                Some(number) => self.still(number).await,
                None => file(&path),
            },
        }
    }
}

/// The state, with what a page did not read in time.
fn state(live: &Live, dropped: [u64; 3]) -> String {
    let mut state = json!(live.state());
    let [samples, pictures, speech] = dropped;
    state["dropped"] = json!({ "samples": samples, "pictures": pictures, "speech": speech });
    state.to_string()
}

fn file(path: &str) -> Response<Body> {
    let Some((mime, text)) = files::file(path) else {
        return refused(StatusCode::NOT_FOUND, "there is nothing at this address");
    };
    let mut response = answer(StatusCode::OK, mime, text);
    if let Ok(policy) = POLICY.parse() {
        response
            .headers_mut()
            .insert("content-security-policy", policy);
    }
    response
}

impl Shared {
    async fn still(&self, number: &str) -> Response<Body> {
        let place = number
            .parse()
            .ok()
            .and_then(|number| self.live.still(number));
        match place {
            Some(path) => stills::answer(&path).await,
            None => refused(StatusCode::NOT_FOUND, "the case has no such file any more"),
        }
    }

    async fn key(&self, request: Request<Body>) -> Response<Body> {
        let wish = match body(request).await {
            Ok(body) => serde_json::from_slice::<KeyWish>(&body),
            Err(response) => return response,
        };
        match wish {
            Ok(wish) => {
                self.live.want_key(wish.case, wish.after);
                answer(StatusCode::NO_CONTENT, JSON, Body::empty())
            }
            Err(error) => refused(StatusCode::BAD_REQUEST, &error.to_string()),
        }
    }

    fn feed(&self) -> Response<Body> {
        let Some(viewer) = self.live.view() else {
            let words = format!("{VIEWERS_MAX} pages are open already; close one");
            return refused(StatusCode::SERVICE_UNAVAILABLE, &words);
        };
        let mut states = interval(STATE_PERIOD);
        states.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let reading = Reading { viewer, states };
        streamed(BYTES, reading, async |mut reading: Reading| {
            // One that did not read ends when it does again.
            let is_seated = reading.viewer.reads();
            is_seated.then_some(())?;
            Some((reading.next().await, reading))
        })
    }
}

/// Wish of a page for a key picture.
#[derive(Debug, Deserialize)]
struct KeyWish {
    case: u32,
    after: u64,
}

/// A page that reads.
struct Reading {
    viewer: Viewer,
    states: Interval,
}

impl Reading {
    /// The next record.
    async fn next(&mut self) -> Bytes {
        tokio::select! {
            biased;
            _ = self.states.tick() => record::state(&state(self.viewer.live(), self.viewer.dropped())),
            item = self.viewer.next() => record::item(&item),
        }
    }
}
