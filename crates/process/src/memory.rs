//! Memory that peers share: what is kept for each is charged to its account, and never exceeds a bound together.
//!
//! A peer may have as much again as is free: `own + all ≤ bound` after each charge. One peer alone has half of the memory at most, n peers
//! with nothing to lose have a part of n + 1 each, and the last part is free for who comes next; nobody has to give up what it has. The rule
//! is that of Dynamic Queue Length Thresholds (Choudhury and Hahne, IEEE/ACM Transactions on Networking 6(2), 1998) with α = 1.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use anabranch_base::NodeId;

use crate::fuel::Share;

/// Memory of bounded size. A clone is the same memory.
#[derive(Clone, Debug)]
pub struct Memory(Arc<Pool>);

#[derive(Debug)]
struct Pool {
    bound: usize,
    used: AtomicUsize,
}

/// Account of a peer. A clone is the same account.
#[derive(Clone, Debug)]
pub struct Account(Arc<Books>);

#[derive(Debug)]
struct Books {
    pool: Arc<Pool>,
    used: AtomicUsize,
    fuel: Share,
}

/// Bytes that an account is charged for until this is dropped.
#[derive(Debug)]
pub struct Charge {
    account: Account,
    bytes: usize,
}

/// Accounts of peers, one each, as long as they are used.
#[derive(Debug)]
pub struct Accounts {
    memory: Memory,
    by_peer: BTreeMap<NodeId, Account>,
}

impl Accounts {
    /// No accounts yet, of this memory.
    pub fn new(memory: Memory) -> Self {
        let by_peer = BTreeMap::new();
        Self { memory, by_peer }
    }

    /// The memory.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The account of a peer. O(accounts) if it is a new one: those that nobody has any more are removed.
    pub fn of(&mut self, peer: NodeId) -> Account {
        if let Some(account) = self.by_peer.get(&peer) {
            return account.clone();
        }
        self.by_peer
            .retain(|_, account| Arc::strong_count(&account.0) > 1);
        let account = self.memory.account();
        self.by_peer.insert(peer, account.clone());
        account
    }
}

impl Default for Memory {
    /// Without a bound.
    fn default() -> Self {
        Self::new(usize::MAX / 4)
    }
}

impl Default for Account {
    /// Of a memory of its own, without a bound.
    fn default() -> Self {
        Memory::default().account()
    }
}

impl Memory {
    /// Memory of that many bytes, all of which are free.
    pub fn new(bound: usize) -> Self {
        let used = AtomicUsize::new(0);
        // Sums of two values below it do not overflow.
        let bound = bound.min(usize::MAX / 4);
        Self(Arc::new(Pool { bound, used }))
    }

    /// Its size, in bytes.
    pub fn bound(&self) -> usize {
        self.0.bound
    }

    /// Bytes that are charged for.
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    /// A new account.
    pub fn account(&self) -> Account {
        Account(Arc::new(Books {
            pool: self.0.clone(),
            used: AtomicUsize::new(0),
            fuel: Share::default(),
        }))
    }
}

impl Account {
    /// What modules that run for the peer may take.
    pub(crate) fn fuel(&self) -> &Share {
        &self.0.fuel
    }

    /// Bytes that it is charged for.
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    /// True if it may not have more.
    pub fn is_full(&self) -> bool {
        let used = self.0.pool.used.load(Ordering::Relaxed);
        self.used().saturating_add(used) >= self.0.pool.bound
    }

    /// True if it may have so much more now.
    pub fn has_room(&self, bytes: usize) -> bool {
        let used = self.0.pool.used.load(Ordering::Relaxed);
        let after = self.used().saturating_add(used);
        after.saturating_add(bytes.saturating_mul(2)) <= self.0.pool.bound
    }

    /// Charges it; `None`, without a change, if it may not have so much.
    pub fn charge(&self, bytes: usize) -> Option<Charge> {
        let charge = self.charge_anyway(bytes);
        let used = self.0.pool.used.load(Ordering::Relaxed);
        // Two at the same time may both get nothing, never both too much.
        (self.used().saturating_add(used) <= self.0.pool.bound).then_some(charge)
    }

    /// Charges it for what is there already, also beyond what it may have.
    pub fn charge_anyway(&self, bytes: usize) -> Charge {
        // No more than the machine has is ever charged for: no overflow.
        self.0.used.fetch_add(bytes, Ordering::Relaxed);
        self.0.pool.used.fetch_add(bytes, Ordering::Relaxed);
        Charge {
            account: self.clone(),
            bytes,
        }
    }

    /// True if both are the same account.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Charge {
    /// Bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The account.
    pub fn account(&self) -> &Account {
        &self.account
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let books = &self.account.0;
        books.used.fetch_sub(self.bytes, Ordering::Relaxed);
        books.pool.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_has_half_and_others_find_room() {
        let memory = Memory::new(1_200);
        let fill = |account: &Account| {
            let charges: Vec<Charge> = std::iter::from_fn(|| account.charge(1)).collect();
            charges
        };
        let (first, second) = (memory.account(), memory.account());
        let mut held = fill(&first);
        assert_eq!(first.used(), 600);
        assert!(first.is_full() && !second.is_full());
        let _second = fill(&second);
        assert_eq!(second.used(), 300);
        // The one that takes first what becomes free has no advantage in the end.
        held.truncate(400);
        held.extend(fill(&first));
        assert_eq!((first.used(), second.used()), (450, 300));
        assert!(memory.account().charge(225).is_some());
        assert!(memory.account().charge(226).is_none());
        assert_eq!(memory.used(), 750);
    }

    #[test]
    fn a_peer_has_one_account_while_it_holds_something() {
        let mut accounts = Accounts::new(Memory::new(100));
        let peer = |key| NodeId::from_public_key([key; 32]);
        let charge = accounts.of(peer(1)).charge(10).unwrap();
        assert!(accounts.of(peer(1)).is_same(charge.account()));
        assert!(!accounts.of(peer(2)).is_same(charge.account()));
        accounts.of(peer(3));
        // That of peer 2 is gone, that of peer 1 is not.
        assert_eq!(accounts.by_peer.len(), 2);
        assert_eq!(accounts.of(peer(1)).used(), 10);
        assert_eq!(accounts.memory().used(), 10);
    }

    #[test]
    fn what_is_there_already_is_charged_for() {
        let memory = Memory::new(100);
        let account = memory.account();
        let large = account.charge_anyway(150);
        assert_eq!((memory.used(), large.bytes()), (150, 150));
        assert!(memory.account().is_full());
        assert!(memory.account().charge(1).is_none());
        drop(large);
        assert_eq!((memory.used(), account.used()), (0, 0));
    }

    proptest! {
        #[test]
        fn the_bound_is_kept_and_everything_is_given_back(
            steps in proptest::collection::vec((0usize..4, 1usize..400, any::<bool>()), 1..200),
        ) {
            let memory = Memory::new(1_000);
            let accounts: Vec<Account> = (0..4).map(|_| memory.account()).collect();
            let mut held: Vec<Charge> = Vec::new();
            for (peer, bytes, is_given_back) in steps {
                if is_given_back && !held.is_empty() {
                    held.swap_remove(bytes % held.len());
                } else {
                    let before = (accounts[peer].used(), memory.used());
                    let may = before.0 + before.1 + 2 * bytes <= 1_000;
                    prop_assert_eq!(accounts[peer].has_room(bytes), may);
                    let charge = accounts[peer].charge(bytes);
                    prop_assert_eq!(charge.is_some(), may);
                    held.extend(charge);
                }
                let sum: usize = held.iter().map(Charge::bytes).sum();
                prop_assert_eq!(memory.used(), sum);
                prop_assert_eq!(accounts.iter().map(Account::used).sum::<usize>(), sum);
                prop_assert!(sum < 1_000);
                prop_assert!(accounts.iter().all(|account| account.used() <= 500));
            }
            drop(held);
            prop_assert_eq!(memory.used(), 0);
        }
    }
}
