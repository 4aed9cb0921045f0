//! Change of the sockets of a local interface: what it needs, acquired before anything changes.

use std::path::PathBuf;

use tokio::net::TcpListener;

use super::{
    LocalError, policy,
    token::{TokenDraft, TokenFile},
};
use crate::{
    config::{LocalConfig, LocalTcp},
    socket_file::SocketFile,
};

/// Changes of a local interface; of each, `None` is none. Dropping it releases what was acquired.
#[derive(Debug, Default)]
pub(crate) struct Change {
    /// The Unix socket, or that there is none any more.
    pub(super) unix: Option<Option<SocketFile>>,
    /// The same for TCP.
    pub(super) tcp: Option<Option<TcpListener>>,
    /// The same for the token.
    pub(super) token: Option<Option<TokenDraft>>,
    /// Mode of a socket that stays.
    pub(super) mode: Option<(PathBuf, u32)>,
    /// The users in force.
    pub(super) users: Option<policy::Table>,
}

impl Change {
    /// Acquires what the change from one configuration to another one needs.
    ///
    /// # Errors
    /// As [`LocalServer::open`](super::LocalServer::open).
    pub(crate) async fn prepare(
        before: Option<&LocalConfig>,
        now: Option<&LocalConfig>,
    ) -> Result<Self, LocalError> {
        let mut change = Self::default();
        let Some(config) = now else {
            if before.is_some() {
                // Those who are attached stay, and so do their limits.
                (change.unix, change.tcp, change.token) = (Some(None), Some(None), Some(None));
            }
            return Ok(change);
        };
        change.users = Some(policy::resolve(config)?);
        let mode = policy::mode(config);
        if before.is_some_and(|before| before.path == config.path) {
            change.mode = Some((config.path.clone(), mode));
        } else {
            let opened = SocketFile::open(&config.path, mode).await;
            let file = opened.map_err(|error| LocalError::of(config.path.clone(), error))?;
            change.unix = Some(Some(file));
        }
        let tcp_before = before.and_then(|before| before.tcp.as_ref());
        let address = |tcp: Option<&LocalTcp>| tcp.map(|tcp| tcp.address);
        let token = |tcp: Option<&LocalTcp>| tcp.map(|tcp| tcp.token.clone());
        let tcp_now = config.tcp.as_ref();
        if address(tcp_before) != address(tcp_now) {
            change.tcp = Some(match tcp_now {
                Some(tcp) => Some(listen(tcp).await?),
                None => None,
            });
        }
        if token(tcp_before) != token(tcp_now) {
            let draft = |tcp: &LocalTcp| {
                TokenFile::draft(&tcp.token).map_err(|source| LocalError::Token {
                    path: tcp.token.clone(),
                    source,
                })
            };
            change.token = Some(tcp_now.map(draft).transpose()?);
        }
        Ok(change)
    }
}

async fn listen(config: &LocalTcp) -> Result<TcpListener, LocalError> {
    let listener = TcpListener::bind(config.address).await;
    listener.map_err(|source| LocalError::Tcp {
        address: config.address,
        source,
    })
}
