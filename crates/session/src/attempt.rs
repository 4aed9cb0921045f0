//! Attempts to reach a peer, and what came of each.

use std::{collections::BTreeMap, fmt, net::SocketAddr, sync::Arc, time::Duration};

use anabranch_base::{SocketId, duration};
use anabranch_channel::CloseReason;

/// Latest result on one link of a session that is being opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The local socket.
    pub socket: SocketId,
    /// Name of its interface, if it is known.
    pub interface: Option<Arc<str>>,
    /// The peer's address.
    pub remote: SocketAddr,
    /// Failure of the latest attempt that ended; `None`: nothing has come back yet.
    pub failure: Option<CloseReason>,
}

impl Attempt {
    /// True if nothing has come back from the address.
    pub fn is_silent(&self) -> bool {
        matches!(
            self.failure,
            None | Some(CloseReason::NoReply(_) | CloseReason::TimedOut | CloseReason::Local)
        )
    }
}

/// Result of all attempts to open a session. Its text states the addresses that were tried, and what came of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempts {
    /// Time for which the peer was tried.
    pub after: Duration,
    /// One for each link.
    pub links: Vec<Attempt>,
}

impl fmt::Display for Attempts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Links with one result and several addresses make one item; so do several links to one address.
        let mut items: Vec<(String, Vec<String>)> = Vec::new();
        let mut places: BTreeMap<SocketAddr, Vec<&Attempt>> = BTreeMap::new();
        for link in &self.links {
            places.entry(link.remote).or_default().push(link);
        }
        let mut add = |result: String, place: String| match items
            .iter_mut()
            .find(|(known, _)| *known == result)
        {
            Some((_, places)) => places.push(place),
            None => items.push((result, vec![place])),
        };
        for (remote, links) in places {
            let results: Vec<String> = links.iter().map(|link| self.result(link)).collect();
            if results.windows(2).all(|pair| pair[0] == pair[1]) {
                let result = results.into_iter().next().unwrap_or_default();
                add(result, remote.to_string());
                continue;
            }
            for (link, result) in links.iter().zip(results) {
                let place = match &link.interface {
                    Some(interface) => format!("{interface} → {remote}"),
                    None => remote.to_string(),
                };
                add(result, place);
            }
        }
        for (index, (result, places)) in items.iter().enumerate() {
            let sign = if index == 0 { "" } else { "; " };
            let places = places.join(", ");
            match result.as_str() {
                "" => write!(
                    f,
                    "{sign}no reply in {} from {places}",
                    duration::format_seconds(self.after)
                )?,
                result => write!(f, "{sign}{places}: {result}")?,
            }
        }
        if items.is_empty() {
            f.write_str("no address of the peer answered")?;
        }
        Ok(())
    }
}

impl Attempts {
    /// Words for the result on a link; empty for silence.
    fn result(&self, link: &Attempt) -> String {
        match &link.failure {
            Some(failure) if !link.is_silent() => failure.to_string(),
            _ => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_channel::Undeliverable;

    use super::*;

    fn attempt(interface: &str, host: u8, failure: Option<CloseReason>) -> Attempt {
        Attempt {
            socket: SocketId(0),
            interface: Some(interface.into()),
            remote: SocketAddr::from(([192, 0, 2, host], 4433)),
            failure,
        }
    }

    fn text(links: Vec<Attempt>) -> String {
        let after = Duration::from_secs(30);
        Attempts { after, links }.to_string()
    }

    #[test]
    fn silence_is_one_item_with_all_its_addresses() {
        let late = Some(CloseReason::NoReply(Duration::from_secs(8)));
        let links = vec![
            attempt("eth0", 1, late.clone()),
            attempt("wlan0", 1, None),
            attempt("eth0", 2, late),
        ];
        assert_eq!(
            text(links),
            "no reply in 30 s from 192.0.2.1:4433, 192.0.2.2:4433"
        );
    }

    #[test]
    fn different_results_name_the_interface_where_it_matters() {
        let refused = Some(CloseReason::Undeliverable(Undeliverable::Port));
        let links = vec![
            attempt("eth0", 1, refused.clone()),
            attempt("wlan0", 1, refused),
            attempt("eth0", 2, None),
            attempt(
                "wlan0",
                2,
                Some(CloseReason::Undeliverable(Undeliverable::Network)),
            ),
        ];
        assert_eq!(
            text(links),
            "192.0.2.1:4433: refused, nothing listens on this port; no reply in 30 s from eth0 → 192.0.2.2:4433; \
             wlan0 → 192.0.2.2:4433: the network is unreachable"
        );
    }

    #[test]
    fn without_any_link_there_are_words_still() {
        assert_eq!(text(Vec::new()), "no address of the peer answered");
    }
}
