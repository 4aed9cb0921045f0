//! Account of a rule: the flows that are open under it, the rate that they ask to be promised, and the limits of all of them together.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use anabranch::{Share, Tenant, base::Rate, pace::Pace};

/// Limits of all flows of a rule together; `None`: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Open flows.
    pub(crate) flows: Option<u32>,
    /// Rate of all promises that they ask for, those that wait included.
    pub(crate) promised_rate: Option<Rate>,
    /// Share of what can be promised that they have.
    pub(crate) promised_share: Option<Share>,
    /// Rate at which they send.
    pub(crate) rate: Option<Rate>,
}

/// In words, after those of the service; nothing if there are none.
impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(flows) = self.flows {
            write!(f, ", up to {flows} flows")?;
        }
        if let Some(rate) = self.promised_rate {
            write!(f, ", promises up to {rate}")?;
        }
        if let Some(share) = self.promised_share {
            write!(f, ", promises up to {share} of what is possible")?;
        }
        if let Some(rate) = self.rate {
            write!(f, ", up to {rate}")?;
        }
        Ok(())
    }
}

/// A limit is exceeded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Exceeded {
    #[error("all flows of it together may be {0} at a time (flows_max)")]
    Flows(u32),
    #[error(
        "all flows of it together may ask for promises of {max}, and {left} are left; {asked} were asked for (promised_rate_max)"
    )]
    Promises { max: Rate, left: Rate, asked: Rate },
}

/// Use of the limits by the flows of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Used {
    pub(crate) flows: u32,
    pub(crate) promised_bps: u64,
}

/// Tenants of rules are numbered from here, after those of users.
const TENANTS_FROM: u64 = 1 << 32;
static TENANTS: AtomicU64 = AtomicU64::new(TENANTS_FROM);

/// The account of a rule. It stays when a reload changes the rule.
#[derive(Debug)]
pub(crate) struct Account {
    /// The tenant that its flows belong to.
    tenant: Tenant,
    state: Mutex<(Limits, Used)>,
    pace: Pace,
}

impl Account {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            tenant: Tenant::new(TENANTS.fetch_add(1, Ordering::Relaxed)),
            state: Mutex::new((limits, Used::default())),
            pace: Pace::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, (Limits, Used)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn tenant(&self) -> Tenant {
        self.tenant
    }

    pub(crate) fn limits(&self) -> Limits {
        self.lock().0
    }

    pub(crate) fn used(&self) -> Used {
        self.lock().1
    }

    /// Applies other limits: the rate at once, the others for flows that begin from now on.
    pub(crate) fn set_limits(&self, limits: Limits) {
        self.lock().0 = limits;
    }

    /// Counts a flow that begins.
    pub(crate) fn enter(self: &Arc<Self>) -> Result<Lease, Exceeded> {
        let (limits, used) = &mut *self.lock();
        if let Some(max) = limits.flows
            && used.flows >= max
        {
            return Err(Exceeded::Flows(max));
        }
        used.flows += 1;
        Ok(Lease {
            account: self.clone(),
            flows: 1,
            promised_bps: 0,
        })
    }

    /// A place for the promise of several flows, which are counted by themselves.
    pub(crate) fn enter_promise(self: &Arc<Self>) -> Lease {
        Lease {
            account: self.clone(),
            flows: 0,
            promised_bps: 0,
        }
    }

    /// Waits until the flows may send.
    pub(crate) async fn ready(&self) {
        self.pace.ready(|| self.limits().rate).await;
    }

    /// True if they may send now.
    pub(crate) fn is_ready(&self) -> bool {
        self.limits()
            .rate
            .is_none_or(|rate| self.pace.is_ready(rate))
    }

    /// Counts bytes that were sent.
    pub(crate) fn sent(&self, bytes: usize) {
        if let Some(rate) = self.limits().rate {
            self.pace.sent(rate, bytes as u64);
        }
    }
}

/// A flow in the account of its rule, until this is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    account: Arc<Account>,
    flows: u32,
    promised_bps: u64,
}

impl Drop for Lease {
    fn drop(&mut self) {
        let used = &mut self.account.lock().1;
        used.flows -= self.flows;
        used.promised_bps -= self.promised_bps;
    }
}

impl Lease {
    /// Counts the promise that the flow asks for.
    pub(crate) fn promise(&mut self, asked: Rate) -> Result<(), Exceeded> {
        let (limits, used) = &mut *self.account.lock();
        if let Some(max) = limits.promised_rate {
            let left = Rate::from_bps(max.as_bps().saturating_sub(used.promised_bps));
            if asked > left {
                return Err(Exceeded::Promises { max, left, asked });
            }
        }
        used.promised_bps += asked.as_bps();
        self.promised_bps += asked.as_bps();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(limits: Limits) -> Arc<Account> {
        Arc::new(Account::new(limits))
    }

    #[test]
    fn flows_are_counted_until_they_are_over() {
        let account = account(Limits {
            flows: Some(2),
            ..Limits::default()
        });
        let first = account.enter().unwrap();
        let _second = account.enter().unwrap();
        assert_eq!(account.enter().unwrap_err(), Exceeded::Flows(2));
        drop(first);
        let _third = account.enter().unwrap();
        assert_eq!(account.used().flows, 2);
        // A reload takes nothing from those that are open, and counts them.
        account.set_limits(Limits {
            flows: Some(1),
            ..Limits::default()
        });
        assert_eq!(account.enter().unwrap_err(), Exceeded::Flows(1));
        account.set_limits(Limits::default());
        assert!(account.enter().is_ok());
    }

    #[test]
    fn promises_share_a_rate() {
        let account = account(Limits {
            promised_rate: Some(Rate::from_mbps(5)),
            ..Limits::default()
        });
        let (mut first, mut second) = (account.enter().unwrap(), account.enter().unwrap());
        first.promise(Rate::from_mbps(3)).unwrap();
        let error = second.promise(Rate::from_mbps(3)).unwrap_err();
        let left = Rate::from_mbps(2);
        assert!(matches!(error, Exceeded::Promises { left: found, .. } if found == left));
        second.promise(left).unwrap();
        assert_eq!(account.used().promised_bps, 5_000_000);
        drop(first);
        assert_eq!(account.used().promised_bps, 2_000_000);
        second.promise(Rate::from_mbps(3)).unwrap();
        drop(second);
        assert_eq!(account.used(), Used::default());
    }

    #[tokio::test]
    async fn senders_wait_while_the_rate_is_exceeded() {
        let account = account(Limits {
            rate: Some(Rate::from_kbps(8)),
            ..Limits::default()
        });
        assert!(account.is_ready());
        account.sent(10_000_000);
        assert!(!account.is_ready());
        // Another limit holds at once; none does not.
        account.set_limits(Limits::default());
        assert!(account.is_ready());
        account.ready().await;
    }
}
