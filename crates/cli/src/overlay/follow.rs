//! Use of the local node's overlay by a session of this process.

use std::{net::SocketAddr, path::PathBuf};

use anabranch::{
    Session,
    base::NodeId,
    control::{self, ControlError, PathsQuery, Request},
    net::limited,
    overlay::{Follower, PathFeedback},
};

use crate::{control::rows, exit::Failure};

/// User of the overlay: the control socket of the local node, and the destination.
#[derive(Clone, Debug)]
pub(crate) struct User {
    control: PathBuf,
    number: u64,
    to: NodeId,
    bytes: u64,
}

impl User {
    /// Sends the node a first request, so that it opens circuits while the peer is being called.
    ///
    /// # Errors
    /// No node runs there, or its overlay has no path to `to`.
    pub(crate) async fn new(control: PathBuf, to: NodeId, bytes: u64) -> Result<Self, Failure> {
        let mut number = [0; 8];
        getrandom::fill(&mut number).map_err(Failure::other)?;
        let user = Self {
            control,
            // The node itself uses small numbers.
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

    async fn paths(&self, feedback: PathFeedback) -> Result<Vec<SocketAddr>, ControlError> {
        let request = Request::OverlayPaths {
            paths: PathsQuery {
                to: self.to.to_string(),
                user: self.number,
                bytes: self.bytes,
                failed: feedback.failed,
                unanswered: feedback.unanswered,
                used: feedback.used,
            },
        };
        let answer = control::ask(&self.control, &request).await?;
        let near = rows(&answer)
            .iter()
            .filter_map(|row| row["near"].as_str()?.parse().ok());
        Ok(near.collect())
    }

    /// Keeps the paths of a session in step with those of the overlay, until the session ends.
    pub(crate) async fn follow(self, session: Session) {
        let mut follower = Follower::new(session);
        while let Some(feedback) = follower.next().await {
            match self.paths(feedback).await {
                Ok(near) => follower.set(&near),
                Err(error) => limited!(warn, %error, "the overlay cannot be used at present"),
            }
        }
    }
}
