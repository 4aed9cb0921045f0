//! Exported directories of a peer (`docs/exports.md`): `anabranch ls` and `anabranch get`.

pub(crate) mod get;
pub(crate) mod ls;
mod origin;
mod window;

use anabranch::{
    base::text::printable,
    exports::{ExportError, Fault},
};

use crate::exit::Failure;

/// A place in the exports of a peer: `PEER:/EXPORT/PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    peer: String,
    /// Parts joined by `/`; empty: the list of exports.
    path: String,
}

impl Place {
    /// Reads `PEER:/EXPORT/PATH`, `PEER:` or `PEER`.
    fn parse(text: &str) -> Result<Self, Failure> {
        // Neither names nor tickets contain a slash.
        let (peer, path) = match text.split_once(":/") {
            Some((peer, path)) => (peer, path.trim_matches('/')),
            None if text.contains('/') => {
                return Err(Failure::usage(format!(
                    "'{}': give PEER:/EXPORT/PATH, such as studio:/data/film.mp4",
                    printable(text, 200)
                )));
            }
            None => (text, ""),
        };
        let peer = peer.trim().trim_end_matches(':');
        if peer.is_empty() {
            return Err(Failure::usage(
                "there is no peer before ':'; give PEER:/EXPORT/PATH, such as studio:/data/film.mp4",
            ));
        }
        Ok(Self {
            peer: peer.to_owned(),
            path: path.to_owned(),
        })
    }
}

/// Failure of a command that reads.
fn failure(error: ExportError) -> Failure {
    match &error {
        ExportError::Over(_) => Failure::interrupted(error),
        _ if error.fault() == Some(Fault::Invalid) => Failure::usage(error),
        ExportError::Fault { .. } | ExportError::NotExported | ExportError::Busy => {
            Failure::refused(error)
        }
        _ => Failure::other(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_peer_and_a_path() {
        let ticket = "anabranch1:abc::192.0.2.1:4433,[2001:db8::1]:4433";
        for (text, peer, path) in [
            ("studio:/data/a b", "studio", "data/a b"),
            ("studio:/", "studio", ""),
            ("studio:", "studio", ""),
            ("studio", "studio", ""),
            ("studio:/data/sub/", "studio", "data/sub"),
            ("id@host:4433:/data", "id@host:4433", "data"),
            (&format!("{ticket}:/data/x"), ticket, "data/x"),
        ] {
            let expected = Place {
                peer: peer.to_owned(),
                path: path.to_owned(),
            };
            assert_eq!(Place::parse(text).unwrap(), expected, "{text}");
        }
        for text in [":/data", "data/x", ""] {
            let failure = Place::parse(text).unwrap_err();
            assert!(failure.message().contains("PEER:/EXPORT/PATH"), "{text}");
        }
    }
}
