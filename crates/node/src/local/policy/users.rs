//! Users by name and number, and their table at a reload.

use std::fs;

use anabranch_net::Host;

use super::{Policy, Table};
use crate::{
    config::{LocalConfig, LocalUser},
    local::LocalError,
    socket_file::{EVERYONE, OWNER_ONLY},
};

/// File with the names and numbers of users.
const USERS: &str = "/etc/passwd";

/// The table of users of a configuration.
///
/// # Errors
/// A user does not exist.
pub(in crate::local) fn resolve(config: &LocalConfig) -> Result<Table, LocalError> {
    let users = config.users.iter();
    users
        .map(|(user, limits)| Ok((uid(user)?, *limits)))
        .collect()
}

/// Mode of the socket: others can connect only if there are such users; who they are is checked in any case.
pub(in crate::local) fn mode(config: &LocalConfig) -> u32 {
    if config.users.is_empty() {
        OWNER_ONLY
    } else {
        EVERYONE
    }
}

/// Applies a table of users, or at the start the one that is there, and notifies the host of their shares of what can be promised.
pub(in crate::local) fn put_into_force(policy: &Policy, table: Option<Table>, host: &Host) {
    let mut shares = policy.promised_shares();
    if let Some(table) = table {
        // Those who are no longer listed have none.
        shares.values_mut().for_each(|share| *share = None);
        policy.replace(table);
        shares.append(&mut policy.promised_shares());
    }
    for (tenant, share) in shares {
        host.set_promised_share(tenant, share);
    }
}

/// The number of a user.
fn uid(user: &LocalUser) -> Result<u32, LocalError> {
    let name = match user {
        LocalUser::Uid(uid) => return Ok(*uid),
        LocalUser::Name(name) => name,
    };
    let users = fs::read_to_string(USERS).unwrap_or_default();
    find(&users, name).ok_or_else(|| LocalError::User(name.clone()))
}

fn find(users: &str, name: &str) -> Option<u32> {
    users.lines().find_map(|line| {
        let mut parts = line.split(':');
        let is_it = parts.next() == Some(name);
        let uid = parts.nth(1)?.parse().ok()?;
        is_it.then_some(uid)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name() {
        let users = "root:x:0:0:root:/root:/bin/sh\n\nbroken\nada:x:1000:1000::/home/ada:/bin/sh\n";
        assert_eq!(find(users, "ada"), Some(1000));
        assert_eq!(find(users, "root"), Some(0));
        assert_eq!(find(users, "ad"), None);
        assert_eq!(find(users, "broken"), None);
        let error = uid(&LocalUser::Name("no such user".to_owned())).unwrap_err();
        assert!(error.to_string().contains("no such user"), "{error}");
    }
}
