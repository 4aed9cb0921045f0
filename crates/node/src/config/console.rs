//! Console in the configuration.

use std::net::SocketAddr;

use super::{ConfigError, refused};

/// The address of the console; none where there is no text, or an empty one.
pub(super) fn address(text: Option<&str>) -> Result<Option<SocketAddr>, ConfigError> {
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let address = super::address("console", text)?;
    if !address.ip().is_loopback() {
        let why = "only this machine may reach it; give an address of loopback, such as 127.0.0.1:8470, and use `ssh -L 8470:127.0.0.1:8470` from elsewhere";
        return Err(refused("console", text, why));
    }
    Ok(Some(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_machine_alone() {
        assert_eq!(address(None).unwrap(), None);
        assert_eq!(address(Some("")).unwrap(), None);
        for text in ["127.0.0.1:8470", "[::1]:0", "127.0.0.2:1"] {
            assert_eq!(address(Some(text)).unwrap(), text.parse().ok());
        }
        for text in [
            "0.0.0.0:8470",
            "192.0.2.1:8470",
            "localhost:8470",
            "8470",
            "127.0.0.1",
        ] {
            let error = address(Some(text)).unwrap_err().to_string();
            assert!(error.starts_with("console = "), "{error}");
        }
    }
}
