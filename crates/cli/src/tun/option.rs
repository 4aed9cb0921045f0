//! Errors of settings, which arguments have given: each names the option in place of the key of a configuration.

use anabranch::config::ConfigError;

use crate::exit::Failure;

/// Keys of a configuration, and the options of this command that set them.
const OPTIONS: [(&str, &str); 13] = [
    ("tunnel.server.pools", "--pool"),
    ("tunnel.server.destinations", "--to"),
    ("tunnel.server.device", "--name"),
    ("tunnel.server.mtu", "--mtu"),
    ("tunnel.server.leases", "--leases"),
    ("tunnel.client.device", "--name"),
    ("tunnel.client.mtu", "--mtu"),
    ("tunnel.client.routes", "--route"),
    ("tunnel.client.dns", "--dns"),
    ("tunnel.client.lan", "--lan"),
    ("listen", "--listen"),
    ("port", "--port"),
    ("control", "--control"),
];

/// Failure for a setting that is refused.
#[expect(clippy::needless_pass_by_value, reason = "fits `map_err` as it is")]
pub(super) fn failure(error: ConfigError) -> Failure {
    let option = |key: &str| OPTIONS.iter().find(|(own, _)| *own == key);
    Failure::usage(match &error {
        ConfigError::Value { key, value, reason } => match option(key) {
            Some((_, option)) => format!("{option} '{value}': {reason}"),
            None => error.to_string(),
        },
        ConfigError::Missing { key, reason } => match option(key) {
            Some((_, option)) => format!("{option}: {reason}"),
            None => error.to_string(),
        },
        _ => error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_named_in_place_of_keys() {
        let error = |key: &str| ConfigError::Value {
            key: key.to_owned(),
            value: "x".to_owned(),
            reason: "give y".to_owned(),
        };
        let text = |key| failure(error(key)).message().to_owned();
        assert_eq!(text("tunnel.server.pools"), "--pool 'x': give y");
        assert_eq!(text("session.policy"), "session.policy = \"x\": give y");
    }
}
