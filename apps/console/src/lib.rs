//! The console: what a running node, or a program that carries stored video, does, shown in a browser, and as metrics for
//! monitoring.
//!
//! It is a client of the node's control socket, and computes nothing: it passes on what the node says. A program that carries
//! stored video has one in its own process, and hands over its state by the trait [`Video`].
//!
//! | address | what |
//! |---|---|
//! | `/` | the page; it holds no data of the node |
//! | `POST /api/enter` | exchanges the one-time token of a link for a cookie |
//! | `GET /api/events` | the state of the node four times a second, as server-sent events; needs the cookie |
//! | `POST /api/ask` | one request to the node, of those in [`requests`]; needs the cookie |
//! | `GET /metrics` | OpenMetrics |
//! | `GET /health`, `GET /ready` | whether this process serves, and whether the node answers |
//!
//! `listen` accepts and limits connections, `guard` decides which requests are answered, `access` holds tokens and cookies,
//! `source` and `feed` ask the node, `page` has the files of the browser. [`site`] is what other programs with a page share with it.

mod access;
mod control;
mod feed;
mod guard;
mod listen;
mod metrics;
mod name;
mod page;
pub mod requests;
mod routes;
mod serve;
mod served;
pub mod site;
mod source;

pub use self::{
    serve::{Console, Settings, StartError},
    source::{Source, Video},
};
