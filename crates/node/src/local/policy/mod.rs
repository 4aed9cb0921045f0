//! Users of the local interface: who may attach, what the applications of each may have together, and what they have.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | [`Policy`]: the table of users in force, changed by a reload |
//! | `account` | what the applications of one user have |
//! | `users` | users by name and number, and their table at a reload |

mod account;
mod users;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError, Weak},
};

use anabranch_session::{Share, Tenant};
use tokio::sync::watch;

pub(super) use self::{
    account::{Account, Reservation},
    users::{mode, put_into_force, resolve},
};
use crate::{config::LocalLimits, socket_file::is_owner};

/// Limits of users, by number.
pub(super) type Table = BTreeMap<u32, LocalLimits>;

/// Users in force, and the accounts of those that are attached.
#[derive(Debug)]
pub(super) struct Policy {
    table: watch::Sender<Arc<Table>>,
    accounts: Mutex<HashMap<u32, Weak<Account>>>,
}

impl Policy {
    pub(super) fn new(table: Table) -> Arc<Self> {
        Arc::new(Self {
            table: watch::Sender::new(Arc::new(table)),
            accounts: Mutex::default(),
        })
    }

    /// Applies another table. What is open stays.
    pub(super) fn replace(&self, table: Table) {
        self.table.send_replace(Arc::new(table));
    }

    /// The shares of what can be promised in force, of the users in the table.
    pub(super) fn promised_shares(&self) -> BTreeMap<Tenant, Option<Share>> {
        let table = self.table.borrow();
        let share =
            |(&user, limits): (&u32, &LocalLimits)| (tenant(user), limits.promised_share_max);
        table.iter().map(share).collect()
    }

    /// Limits of a user; `None` if this user may not attach.
    pub(super) fn limits(&self, user: u32) -> Option<LocalLimits> {
        limits(&self.table.borrow(), user)
    }

    /// Waits until a user may no longer attach.
    pub(super) async fn until_not_allowed(&self, user: u32) {
        let mut table = self.table.subscribe();
        // `self` holds the other end.
        let _ = table.wait_for(|table| limits(table, user).is_none()).await;
    }

    /// The account of a user, shared by the user's applications.
    pub(super) fn account(self: &Arc<Self>, user: u32) -> Arc<Account> {
        let accounts = self.accounts.lock();
        let mut accounts = accounts.unwrap_or_else(PoisonError::into_inner);
        accounts.retain(|_, account| account.strong_count() > 0);
        if let Some(account) = accounts.get(&user).and_then(Weak::upgrade) {
            return account;
        }
        let account = Arc::new(Account::new(user, self.clone()));
        accounts.insert(user, Arc::downgrade(&account));
        account
    }
}

/// The tenant of the streams of a user.
pub(super) fn tenant(user: u32) -> Tenant {
    Tenant::new(user.into())
}

/// Limits of a user in a table. The one who runs the node and root have none unless they are listed.
fn limits(table: &Table, user: u32) -> Option<LocalLimits> {
    let listed = table.get(&user).copied();
    listed.or_else(|| is_owner(user).then_some(LocalLimits::NONE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_those_who_are_listed_or_run_the_node_may_attach() {
        let own = rustix::process::geteuid().as_raw();
        let stranger = own + 4711;
        let policy = Policy::new(Table::from([(own + 1, LocalLimits::NONE)]));
        assert_eq!(policy.limits(own), Some(LocalLimits::NONE));
        assert_eq!(policy.limits(0), Some(LocalLimits::NONE));
        assert_eq!(policy.limits(own + 1), Some(LocalLimits::NONE));
        assert_eq!(policy.limits(stranger), None);
        let few = LocalLimits {
            streams_max: Some(1),
            ..LocalLimits::NONE
        };
        // Those who run the node may be limited, too.
        policy.replace(Table::from([(own, few), (stranger, few)]));
        assert_eq!(policy.limits(own), Some(few));
        assert_eq!(policy.limits(stranger), Some(few));
        assert_eq!(policy.limits(own + 1), None);
    }

    #[tokio::test]
    async fn one_who_is_listed_no_more_is_noticed() {
        let stranger = rustix::process::geteuid().as_raw() + 4711;
        let policy = Policy::new(Table::from([(stranger, LocalLimits::NONE)]));
        let withdrawn = policy.until_not_allowed(stranger);
        tokio::pin!(withdrawn);
        tokio::select! {
            biased;
            () = &mut withdrawn => panic!("it is allowed"),
            () = std::future::ready(()) => {}
        }
        policy.replace(Table::new());
        withdrawn.await;
    }

    #[test]
    fn the_applications_of_a_user_share_an_account_while_they_are_attached() {
        let policy = Policy::new(Table::new());
        let (one, other) = (policy.account(0), policy.account(0));
        assert!(Arc::ptr_eq(&one, &other));
        assert!(!Arc::ptr_eq(&one, &policy.account(1)));
        drop((one, other));
        policy.account(1);
        let accounts = policy.accounts.lock().unwrap();
        assert!(!accounts.contains_key(&0));
    }
}
