//! Files of objectives that apply to sessions from their start.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use anabranch_session::hose::{Report, Vocabulary, compile};

use crate::config::NodeConfig;

/// A file of objectives cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectivesFileError {
    /// It cannot be read.
    #[error("cannot read objectives {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// It has errors.
    #[error("{}", report.render(&path.display().to_string()))]
    Text {
        /// The file.
        path: PathBuf,
        /// Errors, with their positions.
        report: Box<Report>,
    },
}

/// Contents of the objective files of a configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Objectives {
    /// For every session.
    pub all: Option<Arc<str>>,
    /// For sessions with each peer, in the order of the peers.
    pub peers: Vec<Option<Arc<str>>>,
}

impl Objectives {
    /// Reads and checks the files that the configuration names. A field has the same type in all of them.
    ///
    /// # Errors
    /// The first file that cannot be read or has errors.
    pub fn read(config: &NodeConfig) -> Result<Self, ObjectivesFileError> {
        let mut vocabulary = Vocabulary::default();
        let mut read = |path: &Option<PathBuf>| {
            let path = path.as_deref();
            path.map(|path| read(path, &mut vocabulary)).transpose()
        };
        let all = read(&config.objectives)?;
        let peers = config.peers.iter().map(|peer| read(&peer.objectives));
        Ok(Self {
            all,
            peers: peers.collect::<Result<_, _>>()?,
        })
    }
}

fn read(path: &Path, vocabulary: &mut Vocabulary) -> Result<Arc<str>, ObjectivesFileError> {
    let text = std::fs::read_to_string(path).map_err(|source| ObjectivesFileError::Read {
        path: path.to_owned(),
        source,
    })?;
    match compile(&text, vocabulary) {
        Ok(_) => Ok(text.into()),
        Err(report) => Err(ObjectivesFileError::Text {
            path: path.to_owned(),
            report: Box::new(report),
        }),
    }
}
