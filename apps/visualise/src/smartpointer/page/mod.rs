//! Page in which a browser shows what a viewer receives.
//!
//! | address | answer |
//! |---|---|
//! | `/` | the page; it holds no data |
//! | `POST /api/enter` | exchanges the one-time token of a link for a cookie, which the others need |
//! | `GET /api/frames` | records of frames and states, as long as the page reads; what it does not read in time is left out by whole frames |
//! | `GET /api/elements` | atomic numbers of the atoms, one byte each |
//! | `GET /api/state` | the state, in JSON |
//! | `POST /api/view` | changes the view: `{"planes": [[a, b, c, d], …]}` |

mod files;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anabranch_console::{
    StartError,
    site::{
        self, Body, Bytes, Method, Request, Response, Served, Site, StatusCode, answer, refused,
        streamed,
    },
};
use serde::Deserialize;
use serde_json::json;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::{
    view::View,
    viewer::{Viewer, Visit},
};

/// Time between two states.
const STATE_PERIOD: Duration = Duration::from_millis(250);
const JSON: &str = "application/json";
const BYTES: &str = "application/octet-stream";

/// A page of a viewer; it ends when this is dropped.
pub type Page = Served;

/// Serves the page at an address of this machine from now on. Within a runtime.
///
/// # Errors
/// The address is not of this machine alone, or cannot be listened on.
pub fn serve_page(listen: SocketAddr, viewer: Viewer) -> Result<Page, StartError> {
    let remedy = "press Enter where `anabranch smartpointer viewer` runs for another one";
    Served::start(
        listen,
        ("anabranch-smartpointer", remedy),
        Shared { viewer },
    )
}

#[derive(Debug)]
struct Shared {
    viewer: Viewer,
}

impl Site for Shared {
    async fn answer(self: Arc<Self>, request: Request<Body>) -> Response<Body> {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let is_read = method == Method::GET || method == Method::HEAD;
        match path.as_str() {
            "/api/frames" if method == Method::GET => self.frames(),
            "/api/elements" if is_read => answer(StatusCode::OK, BYTES, self.viewer.elements()),
            "/api/state" if is_read => {
                answer(StatusCode::OK, JSON, self.viewer.state().to_string())
            }
            "/api/view" if method == Method::POST => self.look(request).await,
            _ => match files::file(&path) {
                Some((mime, text)) if is_read => answer(StatusCode::OK, mime, text),
                Some(_) => refused(StatusCode::METHOD_NOT_ALLOWED, "this is read only"),
                None => refused(StatusCode::NOT_FOUND, "there is nothing at this address"),
            },
        }
    }
}

/// A change of the view.
#[derive(Debug, Deserialize)]
struct Look {
    planes: View,
}

impl Shared {
    async fn look(&self, request: Request<Body>) -> Response<Body> {
        let body = match site::body(request).await {
            Ok(body) => body,
            Err(response) => return response,
        };
        match serde_json::from_slice::<Look>(&body) {
            Ok(look) => {
                let view = self.viewer.look(look.planes);
                answer(StatusCode::OK, JSON, json!({ "view": view }).to_string())
            }
            Err(error) => {
                let words = format!("no view: {error}; give {{\"planes\": [[a, b, c, d], …]}}");
                refused(StatusCode::BAD_REQUEST, &words)
            }
        }
    }

    fn frames(&self) -> Response<Body> {
        let Some(visit) = self.viewer.visit() else {
            let words = "as many pages as can be are open already; close one";
            return refused(StatusCode::SERVICE_UNAVAILABLE, words);
        };
        let mut states = interval(STATE_PERIOD);
        states.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let reading = Reading {
            viewer: self.viewer.clone(),
            visit,
            states,
        };
        streamed(BYTES, reading, async |mut reading: Reading| {
            Some((reading.next().await, reading))
        })
    }
}

/// A page that reads.
struct Reading {
    viewer: Viewer,
    visit: Visit,
    states: Interval,
}

impl Reading {
    /// The next record.
    async fn next(&mut self) -> Bytes {
        tokio::select! {
            biased;
            _ = self.states.tick() => self.viewer.state_record(&self.visit),
            record = self.visit.next() => record,
        }
    }
}
