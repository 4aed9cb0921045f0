//! An origin and a proxy in a program without consoles (feature `console`).

use serde_json::Value;

use crate::exit::{Failure, Outcome};

#[derive(Clone, Debug, clap::Args)]
pub(super) struct Flag {}

/// Program that would be shown.
pub(super) enum Shown {
    Origin(#[allow(dead_code, reason = "it is not shown")] anabranch_video::origin::Monitor),
    Proxy(#[allow(dead_code, reason = "it is not shown")] anabranch_video::proxy::Monitor),
}

pub(super) struct Running;

#[expect(
    clippy::unused_self,
    clippy::unnecessary_wraps,
    reason = "they have the signatures of programs with consoles"
)]
impl Flag {
    pub(super) fn start(&self, _: Shown) -> Result<Running, Failure> {
        Ok(Running)
    }
}

#[expect(
    clippy::unused_self,
    clippy::unnecessary_wraps,
    reason = "they have the signatures of programs with consoles"
)]
impl Running {
    pub(super) fn add_to(&self, _: &mut Value) -> Outcome {
        Ok(())
    }

    pub(super) fn print(&self, _: bool) -> Outcome {
        Ok(())
    }

    pub(super) async fn more_links(&self) {
        std::future::pending().await
    }
}
