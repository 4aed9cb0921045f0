//! Pings from a node of the command's own.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use anabranch::{AllowList, Host, HostConfig, Remotes, Session, Ticket, keys};
use serde_json::json;

use super::Reply;
use crate::{exit::Failure, keygen::key_path, locals, recv, ticket::TICKET_PREFIX};

#[derive(Clone, Debug, clap::Args)]
pub(super) struct Flags {
    /// Local address to send from with ID@HOST:PORT or a ticket, IP:PORT with port 0 for any; may be repeated [default: every interface].
    #[arg(long, value_name = "ADDRESS")]
    bind: Vec<SocketAddr>,
    /// Key file for ID@HOST:PORT or a ticket [default: ~/.config/anabranch/key, created if missing].
    #[arg(long, value_name = "FILE", env = "ANABRANCH_KEY")]
    key: Option<PathBuf>,
}

/// A session of this command with the peer.
pub(super) struct Direct {
    host: Host,
    session: Session,
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
    pub(super) async fn open(peer: &str, flags: &Flags) -> Result<Self, Failure> {
        let ticket = parse(peer)?;
        let remotes = ticket.remotes();
        let key = keys::load_or_create(&key_path(flags.key.as_ref()))?;
        let bind = locals::binds(&flags.bind, &remotes).await;
        let host = recv::host(&bind, 0, HostConfig::new(key, AllowList::default()))?;
        ticket.prepare(&host);
        let session = host.connect(ticket.node, remotes).await?;
        Ok(Self { host, session })
    }

    pub(super) async fn ping(&self, within: Duration) -> Result<Vec<Reply>, Failure> {
        let answers = self.session.ping(within).await;
        let answers = answers.map_err(Failure::unreachable)?;
        let channels = self.session.channels();
        let reply = |(channel, round_trip): &(_, Option<Duration>)| {
            let report = channels.iter().find(|report| report.channel == *channel)?;
            let row = json!({
                "interface": report.interface.as_deref(),
                "remote": report.remote.to_string(),
                "round_trip_ms": round_trip.map(|time| time.as_secs_f64() * 1e3),
            });
            Some(Reply::of(&row))
        };
        Ok(answers.iter().filter_map(reply).collect())
    }

    pub(super) async fn close(self) {
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
