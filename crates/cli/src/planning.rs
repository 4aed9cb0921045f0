//! Options for the scheduling of a command's own sessions: a policy, and objectives of a file or by name.

use std::path::PathBuf;

use anabranch::{HostConfig, Policy, objectives};

use crate::exit::Outcome;

/// Policy and objectives of all sessions of a command.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Planning {
    /// Scheduling policy: which path takes what [default: default; with --objectives: assign].
    #[arg(long, value_name = "POLICY")]
    pub(crate) policy: Option<Policy>,
    /// File of objectives that the policies assign and random_walk follow; or names of the library, such as 'avoid_metered' or
    /// 'keep_whole("clinic/1/video", "group")' (anabranch hose list).
    #[arg(long, value_name = "FILE|NAMES")]
    pub(crate) objectives: Option<PathBuf>,
}

impl Planning {
    /// Sets policy and objectives of all sessions.
    ///
    /// # Errors
    /// The objectives cannot be read, or have errors.
    pub(crate) fn apply(&self, config: &mut HostConfig) -> Outcome {
        let file = self.objectives.as_deref();
        config.engine.objectives = file.map(objectives::read_text).transpose()?;
        config.engine.policy = match (self.policy, file) {
            (Some(policy), _) => policy,
            (None, Some(_)) => Policy::Assign,
            (None, None) => Policy::default(),
        };
        Ok(())
    }
}
