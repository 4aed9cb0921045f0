//! Name under which a web server on this machine serves a page to others, over TLS.

use std::{fmt, net::IpAddr, str::FromStr};

use axum::http::uri::Authority;

/// Longest name, its port included, in bytes.
const NAME_BYTES_MAX: usize = 255;
/// Port of HTTPS, which browsers leave out.
const HTTPS: u16 = 443;

/// Name of a web server in front of a page, `HOST` or `HOST:PORT`. That server has a certificate for it, and passes requests on with their `Host`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicName {
    /// In lower case, as a browser sends it: without the port of HTTPS.
    text: String,
}

/// A text is no name of a web server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "give the name for which the web server has a certificate, such as ward.example, with its port if that is not 443: ward.example:8443"
)]
pub struct NameError;

impl PublicName {
    /// Origin of the pages under the name, `https://HOST`.
    pub fn origin(&self) -> String {
        format!("https://{self}")
    }

    /// True if a request names it in its header `Host`.
    pub(crate) fn is(&self, host: &str) -> bool {
        read(host).is_some_and(|text| text == self.text)
    }
}

/// Host and port in lower case, without the port of HTTPS.
fn read(text: &str) -> Option<String> {
    let is_plain = text.len() <= NAME_BYTES_MAX && !text.contains('@');
    let authority: Authority = is_plain.then(|| text.parse().ok())??;
    let host = authority.host().to_ascii_lowercase();
    // A port that cannot be read is not one that is left out.
    let has_port = authority.as_str().len() > host.len();
    match (has_port, authority.port_u16()) {
        (false, _) | (true, Some(HTTPS)) => Some(host),
        (true, Some(port)) if port > 0 => Some(format!("{host}:{port}")),
        _ => None,
    }
}

impl FromStr for PublicName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let text = read(text).ok_or(NameError)?;
        let host = text.split(':').next().unwrap_or_default();
        let is_label = |label: &str| {
            let is_edge = |end: Option<char>| end.is_some_and(|end| end.is_ascii_alphanumeric());
            is_edge(label.chars().next())
                && is_edge(label.chars().last())
                && label
                    .chars()
                    .all(|one| one.is_ascii_alphanumeric() || one == '-')
        };
        // Addresses need no name, and those of loopback are served as they are.
        let is_name = host.split('.').all(is_label) && host.parse::<IpAddr>().is_err();
        let is_elsewhere = is_name && host != "localhost";
        is_elsewhere.then_some(Self { text }).ok_or(NameError)
    }
}

impl fmt::Display for PublicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_a_browser_sends() {
        for (text, origin) in [
            ("ward.example", "https://ward.example"),
            ("Ward.Example:443", "https://ward.example"),
            ("ward.example:8443", "https://ward.example:8443"),
            ("hospital-2", "https://hospital-2"),
        ] {
            let name: PublicName = text.parse().unwrap();
            assert_eq!(name.origin(), origin);
            assert!(name.is(text), "{text}");
        }
        let name: PublicName = "ward.example".parse().unwrap();
        assert!(name.is("WARD.example:443"));
        for other in [
            "ward.example:80",
            "ward.example.evil.example",
            "a@ward.example",
            "ward.example:",
            "",
        ] {
            assert!(!name.is(other), "{other}");
        }
    }

    #[test]
    fn what_is_no_name_is_answered_with_one() {
        for wrong in [
            "",
            "https://ward.example",
            "ward.example/page",
            "ward.example:0",
            "ward.example:http",
            "ward..example",
            "-ward.example",
            "a@ward.example",
            "ward example",
            "127.0.0.1",
            "[::1]:443",
            "localhost",
            &"x".repeat(256),
        ] {
            let error = wrong.parse::<PublicName>().unwrap_err();
            assert!(error.to_string().contains("ward.example:8443"), "{wrong}");
        }
    }
}
