//! Connections that the server makes for its clients, which split theirs.
//!
//! They leave from addresses of the server itself, so that its firewall for forwarded packets does not see them: where they may go is
//! decided here.

use std::net::IpAddr;

use anabranch::{
    Session, Stream,
    rights::{Right, Rights},
};
use anabranch_gateway as gateway;
use tokio::sync::watch;

use crate::destinations::Destinations;

/// Maker of the connections.
#[derive(Debug)]
pub(super) struct Making {
    maker: gateway::Server,
    rights: Rights,
    destinations: watch::Sender<Destinations>,
    /// Kept for as long as the server is there.
    _connections: gateway::Connections,
}

impl Making {
    pub(super) fn new(
        rights: Rights,
        connections: gateway::Connections,
        destinations: Destinations,
    ) -> Self {
        Self {
            maker: gateway::Server::beside(rights.clone(), &connections),
            rights,
            destinations: watch::Sender::new(destinations),
            _connections: connections,
        }
    }

    /// Changes the destinations. Connections to others end.
    pub(super) fn set_destinations(&self, destinations: Destinations) {
        self.destinations.send_if_modified(|now| {
            let is_other = *now != destinations;
            *now = destinations;
            is_other
        });
    }

    /// Serves a stream on which a client asks for a connection.
    pub(super) async fn serve(&self, session: &Session, stream: &Stream) {
        let peer = session.peer();
        if !self.rights.may(&peer, Right::Tunnel) {
            self.rights.note_refused(Right::Tunnel);
            super::service::abort(stream, anabranch::rights::CODE_NO_RIGHT);
            return;
        }
        let allows = |address: IpAddr| self.destinations.borrow().allows(address);
        let withdrawn = |address: IpAddr| async move {
            let mut destinations = self.destinations.subscribe();
            let right = self
                .rights
                .until_not(|table| table.may(&peer, Right::Tunnel));
            tokio::select! {
                () = right => {}
                // This value holds the sender.
                _ = destinations.wait_for(|now| !now.allows(address)) => {}
            }
        };
        let serving = self.maker.connect_by(session, stream, allows, withdrawn);
        serving.await;
    }
}
