//! A session of this process that uses the overlay of the node which runs here.

use std::{net::SocketAddr, path::PathBuf};

use anabranch::{
    Session,
    base::NodeId,
    control::{self, ControlError, PathsQuery, Question},
    net::limited,
    overlay::{Follower, PathFeedback},
};

use crate::{control::rows, exit::Failure};

/// Who uses the overlay, and through which node.
#[derive(Clone, Debug)]
pub(crate) struct User {
    control: PathBuf,
    number: u64,
    to: NodeId,
    bytes: u64,
}

impl User {
    /// Asks the node for the first time, so that circuits are being opened while the peer is called.
    ///
    /// # Errors
    /// No node runs there, or it cannot reach `to` by its overlay.
    pub(crate) async fn new(control: PathBuf, to: NodeId, bytes: u64) -> Result<Self, Failure> {
        let mut number = [0; 8];
        getrandom::fill(&mut number).map_err(Failure::other)?;
        let user = Self {
            control,
            // Small numbers are the node's own.
            number: u64::from_le_bytes(number) | 1 << 63,
            to,
            bytes,
        };
        user.paths(PathFeedback::default())
            .await
            .map_err(|error| match error {
                ControlError::Connect { .. } => Failure::unreachable(error),
                _ => Failure::other(error),
            })?;
        Ok(user)
    }

    async fn paths(&self, news: PathFeedback) -> Result<Vec<SocketAddr>, ControlError> {
        let question = Question {
            paths: Some(PathsQuery {
                to: self.to.to_string(),
                user: self.number,
                bytes: self.bytes,
                failed: news.failed,
                unanswered: news.unanswered,
                used: news.used,
            }),
            ..Question::show("overlay_paths")
        };
        let answer = control::ask(&self.control, &question).await?;
        let near = rows(&answer)
            .iter()
            .filter_map(|row| row["near"].as_str()?.parse().ok());
        Ok(near.collect())
    }

    /// Has a session use the ways as they come and go, until it is over.
    pub(crate) async fn follow(self, session: Session) {
        let mut follower = Follower::new(session);
        while let Some(news) = follower.next().await {
            match self.paths(news).await {
                Ok(near) => follower.set(&near),
                Err(error) => limited!(warn, %error, "the overlay is not used any more for now"),
            }
        }
    }
}
