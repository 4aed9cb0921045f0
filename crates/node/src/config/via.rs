//! The relay at which this machine meets others, in the text form of the configuration.

use anabranch_net::Remotes;

use super::{ConfigError, Layer, PeerLayer, node, refused};
use crate::rendezvous::Via;

/// Accepted forms.
const FORMS: &str = "write ID@HOST:PORT, the line that `anabranch node` prints there, the name of a [[peer]] with addresses, or \"\" for none";

impl Layer {
    /// The relay of the key `via`; `None`: there is none. The rest of the configuration may have faults.
    ///
    /// # Errors
    /// The text names no relay.
    pub fn via(&self) -> Result<Option<Via>, ConfigError> {
        match self.via.as_deref() {
            None => Ok(None),
            Some(text) => self.relay("via", text),
        }
    }

    /// The relay that a text names; `None` for the empty one.
    pub(super) fn relay(&self, key: &str, text: &str) -> Result<Option<Via>, ConfigError> {
        if text.is_empty() {
            return Ok(None);
        }
        if let Ok(via) = text.parse() {
            return Ok(Some(via));
        }
        let mut peers = self.peer.iter().flatten();
        let named = peers.find(|peer| peer.name == text);
        let named = named.ok_or_else(|| refused(key, text, FORMS))?;
        let remotes = named.remotes()?;
        if remotes.is_empty() {
            let reason = "this [[peer]] has no addresses at which a relay could be reached; give it some, or write ID@HOST:PORT";
            return Err(refused(key, text, reason));
        }
        let node = node("peer.node", &named.node)?;
        Ok(Some(Via { node, remotes }))
    }
}

impl PeerLayer {
    /// Its addresses.
    pub(super) fn remotes(&self) -> Result<Remotes, ConfigError> {
        let mut remotes = Remotes::default();
        for text in &self.addresses {
            let added = remotes.add(text);
            added.map_err(|error| refused("peer.addresses", text, error.to_string()))?;
        }
        Ok(remotes)
    }
}

#[cfg(test)]
mod tests {
    use anabranch_base::NodeId;

    use super::*;

    fn resolve(text: &str) -> Result<crate::config::NodeConfig, String> {
        let layer = Layer::from_toml(text).map_err(|error| error.to_string())?;
        let config = layer.resolve(|name| (name == "HOME").then(|| "/home/ada".to_owned()));
        config.map_err(|error| error.to_string())
    }

    fn id(number: u8) -> NodeId {
        anabranch_session::SecretKey::from_seed([number; 32]).node_id()
    }

    fn peer(name: &str, number: u8, more: &str) -> String {
        let node = id(number);
        format!("[[peer]]\nname = \"{name}\"\nnode = \"{node}\"\nmay = [\"call\"]\n{more}\n")
    }

    #[test]
    fn a_relay_is_named_in_each_form() {
        let relay = id(9);
        let expected: Via = format!("{relay}@192.0.2.1:4433").parse().unwrap();
        let listed = peer("relay", 9, "addresses = [\"192.0.2.1:4433\"]");
        for text in [
            format!("{relay}@192.0.2.1:4433"),
            format!("anabranch1:{relay}::192.0.2.1:4433"),
            "relay".to_owned(),
        ] {
            let config = resolve(&format!("via = \"{text}\"\n{listed}")).unwrap();
            assert_eq!(config.via.as_ref(), Some(&expected), "{text}");
        }
        assert_eq!(resolve("via = \"\"").unwrap().via, None);
        assert_eq!(resolve("").unwrap().via, None);
    }

    #[test]
    fn peers_meet_this_node_there_unless_they_have_their_own_relay_or_none() {
        let text = format!(
            "via = \"relay\"\n{}{}{}{}",
            peer("relay", 9, "addresses = [\"192.0.2.1:4433\"]"),
            peer("ship", 1, ""),
            peer("van", 2, "via = \"\"\naddresses = [\"192.0.2.2:1\"]"),
            peer("hut", 3, "via = \"ship@x\""),
        );
        assert!(resolve(&text).unwrap_err().contains("peer.via"));
        let other = format!("{}@192.0.2.7:1", id(7));
        let config = resolve(&text.replace("ship@x", &other)).unwrap();
        let of = |name: &str| config.peers.iter().find(|peer| peer.name == name).unwrap();
        assert_eq!(of("ship").via, config.via);
        // The relay is not met at itself.
        assert_eq!((&of("relay").via, &of("van").via), (&None, &None));
        assert_eq!(of("hut").via, other.parse().ok());
    }

    #[test]
    fn faults_are_explained() {
        for (text, word) in [
            ("via = \"relay.example:4433\"".to_owned(), "ID@HOST:PORT"),
            ("via = \"studio\"".to_owned(), "name of a [[peer]]"),
            (
                format!("via = \"ship\"\n{}", peer("ship", 1, "")),
                "no addresses",
            ),
            ("via = 3".to_owned(), "line 1"),
        ] {
            let error = resolve(&text).unwrap_err();
            assert!(
                error.contains(word) && error.contains("via"),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn nothing_else_of_the_file_matters() {
        let text = format!(
            "via = \"{}@192.0.2.1:1\"\ncurrency = \"euro\"\n[[peer]]\nname = \"x\"\nnode = \"?\"\n",
            id(9)
        );
        assert!(resolve(&text).is_err());
        assert!(Layer::from_toml(&text).unwrap().via().unwrap().is_some());
    }
}
