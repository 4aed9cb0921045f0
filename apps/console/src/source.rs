//! Source of what is shown: a node, asked at its control socket, or a program that carries stored video, which runs in this process.

use std::{fmt::Write as _, path::PathBuf, sync::Arc};

use serde_json::json;

use crate::control::{AskError, Control};

/// A program that carries stored video.
pub trait Video: std::fmt::Debug + Send + Sync {
    /// Its state now, as an object of JSON without line breaks: what `docs/console.md` lists for an origin or a proxy. It is
    /// asked for four times a second while a page looks, and for each scrape, and must not block.
    fn state(&self) -> String;
}

/// Subject of a console.
#[derive(Clone, Debug)]
pub enum Source {
    /// A node, by its control socket. It need not run yet.
    Node(PathBuf),
    /// A program that carries stored video.
    Video(Arc<dyn Video>),
}

/// A source that can be asked.
#[derive(Debug)]
pub(crate) enum Asked {
    Node(Control),
    Video(Arc<dyn Video>),
}

/// Requests of each state of a node, whose answers are its members.
const PARTS: [&str; 3] = ["status", "paths", "streams"];

impl Asked {
    pub(crate) fn new(source: Source) -> Self {
        match source {
            Source::Node(path) => Self::Node(Control::new(path)),
            Source::Video(video) => Self::Video(video),
        }
    }

    /// The word for it that the page has in its head.
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            Self::Node(_) => "node",
            Self::Video(_) => "video",
        }
    }

    /// The state for pages: an object with the answer to each part, with `video`, or with `error`.
    pub(crate) async fn state(&self) -> String {
        match self {
            Self::Node(control) => state_of_node(control).await,
            Self::Video(video) => format!("{{\"video\":{}}}", video.state()),
        }
    }

    /// The answer to a request of a page.
    ///
    /// # Errors
    /// There is none.
    pub(crate) async fn ask(&self, request: &str) -> Result<String, AskError> {
        match self {
            Self::Node(control) => control.ask(request).await,
            Self::Video(_) => Err(AskError::Nothing),
        }
    }

    /// Succeeds if it can do its work.
    ///
    /// # Errors
    /// The reason for which it cannot.
    pub(crate) async fn is_ready(&self) -> Result<(), String> {
        match self {
            Self::Node(control) => {
                let answer = control.ask("{\"show\":\"status\"}").await;
                answer.map(drop).map_err(|error| error.to_string())
            }
            Self::Video(video) => {
                let state: serde_json::Value =
                    serde_json::from_str(&video.state()).unwrap_or_default();
                match state["trouble"].as_str() {
                    Some(trouble) => Err(trouble.to_owned()),
                    None => Ok(()),
                }
            }
        }
    }
}

async fn state_of_node(control: &Control) -> String {
    let mut text = String::from("{");
    for part in PARTS {
        match control.ask(&format!("{{\"show\":\"{part}\"}}")).await {
            Ok(answer) => {
                let _ = write!(text, "\"{part}\":{answer},");
            }
            Err(error) => return json!({ "error": error.to_string() }).to_string(),
        }
    }
    text.pop();
    text.push('}');
    text
}
