//! A session from a node of the command's own, with a peer that is named by its address.

use std::{net::SocketAddr, path::PathBuf};

use anabranch::{AllowList, Host, HostConfig, Remotes, Session, Ticket, keys};

use crate::{exit::Failure, keygen::key_path, locals, recv, ticket::TICKET_PREFIX};

// Other flags of the same command are a struct of the same name.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Flags {
    /// Local address to send from with ID@HOST:PORT or a ticket, IP:PORT with port 0 for any; may be repeated [default: every interface].
    #[arg(long, value_name = "ADDRESS")]
    bind: Vec<SocketAddr>,
    /// Key file for ID@HOST:PORT or a ticket [default: ~/.config/anabranch/key, created if missing].
    #[arg(long, value_name = "FILE", env = "ANABRANCH_KEY")]
    key: Option<PathBuf>,
}

/// A session of this command with the peer.
pub(crate) struct Direct {
    host: Host,
    session: Session,
}

/// True for a text that names a peer by its address.
pub(crate) fn is_meant_by(peer: &str) -> bool {
    peer.contains('@') || peer.starts_with(TICKET_PREFIX)
}

/// `ID@HOST:PORT` as a ticket, or a ticket.
fn parse(text: &str) -> Result<Ticket, Failure> {
    if text.starts_with(TICKET_PREFIX) {
        return text.parse().map_err(Failure::usage);
    }
    let (id, address) = text.split_once('@').unwrap_or((text, ""));
    let node = id.parse().map_err(|error| {
        Failure::usage(format!(
            "'{text}': {error}; give ID@HOST:PORT, or the name of a peer"
        ))
    })?;
    let mut remotes = Remotes::default();
    remotes.add(address).map_err(Failure::usage)?;
    Ok(Ticket {
        node,
        secret: None,
        addresses: remotes.addresses,
        hosts: remotes.hosts,
        via: None,
    })
}

impl Direct {
    pub(crate) async fn open(peer: &str, flags: &Flags) -> Result<Self, Failure> {
        let ticket = parse(peer)?;
        let remotes = ticket.remotes();
        let key = keys::load_or_create(&key_path(flags.key.as_ref()))?;
        let bind = locals::binds(&flags.bind, &remotes).await;
        let host = recv::host(&bind, 0, HostConfig::new(key, AllowList::default()))?;
        ticket.prepare(&host);
        let session = host.connect(ticket.node, remotes).await?;
        Ok(Self { host, session })
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    pub(crate) async fn close(self) {
        self.host.shutdown().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_an_id_with_an_address() {
        let id = anabranch::SecretKey::from_seed([1; 32]).node_id();
        let ticket = parse(&format!("{id}@192.0.2.7:4433")).unwrap();
        assert_eq!((ticket.node, ticket.remotes().len()), (id, 1));
        assert_eq!(
            parse(&format!("{id}@studio.example:4433"))
                .unwrap()
                .hosts
                .len(),
            1
        );
        for wrong in [format!("{id}@192.0.2.7"), "me@192.0.2.7:4433".to_owned()] {
            let failure = parse(&wrong).unwrap_err();
            assert!(
                failure.message().contains("HOST:PORT"),
                "{}",
                failure.message()
            );
        }
    }
}
