//! Place of a node's local interface, as programs name it: the path of the Unix socket, or `tcp:127.0.0.1:PORT` with a token file.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use super::ClientError;
use crate::config;

/// Beginning of a TCP address.
const TCP: &str = "tcp:";

/// Place of a local interface.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LocalAddress {
    /// A Unix socket.
    Unix(PathBuf),
    /// A TCP socket on loopback.
    Tcp {
        /// Its address.
        address: SocketAddr,
        /// File with the token of the node.
        token: PathBuf,
    },
}

impl LocalAddress {
    /// Reads a path, or `tcp:IP:PORT` with the file of the token.
    ///
    /// # Errors
    /// The address is none, or not one of loopback: the token would travel in the clear; there is no file of a token.
    pub fn parse(place: &Path, token: Option<&Path>) -> Result<Self, ClientError> {
        let wrong = |why: &'static str| ClientError::Address {
            place: place.display().to_string(),
            why,
        };
        let Some(address) = place.to_str().and_then(|text| text.strip_prefix(TCP)) else {
            return Ok(Self::Unix(place.to_owned()));
        };
        let address = address.parse::<SocketAddr>();
        let address = address.map_err(|_| wrong("give tcp:127.0.0.1:PORT"))?;
        if !address.ip().is_loopback() {
            return Err(wrong(
                "only addresses of this machine are permitted, such as 127.0.0.1",
            ));
        }
        let missing =
            "name the file of the node's token in ANABRANCH_LOCAL_TOKEN, or with --local-token";
        Ok(Self::Tcp {
            address,
            token: token.ok_or_else(|| wrong(missing))?.to_owned(),
        })
    }

    /// The node of this user: that of the environment variables `ANABRANCH_LOCAL` and `ANABRANCH_LOCAL_TOKEN`, or else the socket of
    /// [`config::default_local`]. `variable` looks up a variable.
    ///
    /// # Errors
    /// As [`LocalAddress::parse`]; there is no default for this user.
    pub fn usual(variable: impl Fn(&str) -> Option<String>) -> Result<Self, ClientError> {
        let named = |name: &str| variable(name).filter(|path| !path.is_empty());
        let token = named("ANABRANCH_LOCAL_TOKEN").map(PathBuf::from);
        match named("ANABRANCH_LOCAL") {
            Some(place) => Self::parse(place.as_ref(), token.as_deref()),
            None => config::default_local(variable)
                .map(Self::Unix)
                .ok_or(ClientError::NoSocket),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_path_or_an_address_of_this_machine() {
        let token = Path::new("/t");
        let parse = |text: &str, token| LocalAddress::parse(text.as_ref(), token);
        assert_eq!(
            parse("/run/x", None).unwrap(),
            LocalAddress::Unix("/run/x".into())
        );
        for text in ["127.0.0.1:7", "[::1]:7"] {
            let expected = LocalAddress::Tcp {
                address: text.parse().unwrap(),
                token: token.to_owned(),
            };
            assert_eq!(
                parse(&format!("tcp:{text}"), Some(token)).unwrap(),
                expected
            );
        }
        for (text, token, word) in [
            ("tcp:127.0.0.1", Some(token), "PORT"),
            ("tcp:localhost:7", Some(token), "PORT"),
            (
                "tcp:192.0.2.7:7",
                Some(token),
                "only addresses of this machine",
            ),
            ("tcp:127.0.0.1:7", None, "ANABRANCH_LOCAL_TOKEN"),
        ] {
            let error = parse(text, token).unwrap_err().to_string();
            assert!(error.contains(word) && error.contains(text), "{error}");
        }
    }

    #[test]
    fn the_usual_place_is_in_the_environment() {
        let usual = |pairs: &[(&str, &str)]| {
            LocalAddress::usual(|name| {
                let found = pairs.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        let local = ("ANABRANCH_LOCAL", "tcp:127.0.0.1:7");
        assert!(usual(&[local]).is_err());
        let tcp = usual(&[local, ("ANABRANCH_LOCAL_TOKEN", "/t")]).unwrap();
        assert!(matches!(tcp, LocalAddress::Tcp { .. }));
        let unix = usual(&[("ANABRANCH_LOCAL", ""), ("XDG_RUNTIME_DIR", "/run/user/7")]).unwrap();
        assert_eq!(
            unix,
            LocalAddress::Unix("/run/user/7/anabranch-local.sock".into())
        );
        assert!(matches!(usual(&[]), Err(ClientError::NoSocket)));
    }
}
