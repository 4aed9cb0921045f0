//! Account of a user: streams that the user's applications have open, the rate promised to them, and their limits.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anabranch_base::Rate;
use anabranch_session::{Guarantee, StreamSpec, Tenant};

use super::{Policy, tenant};
use crate::{
    config::LocalLimits,
    local::message::{ErrorBody, LimitBody},
    pace::Pace,
};

/// Streams and promises of all applications of a user together.
#[derive(Debug)]
pub(in crate::local) struct Account {
    user: u32,
    policy: Arc<Policy>,
    used: Mutex<Used>,
    pace: Pace,
}

#[derive(Debug, Default)]
struct Used {
    streams: u32,
    promised_bps: u64,
}

/// A limit of a user is exceeded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} ({key} in the node's local_users)")]
pub(in crate::local) struct Exceeded {
    key: &'static str,
    allowed: String,
    left: Option<String>,
    message: String,
}

impl From<Exceeded> for ErrorBody {
    fn from(exceeded: Exceeded) -> Self {
        Self {
            kind: "limit".to_owned(),
            message: exceeded.to_string(),
            limit: Some(Box::new(LimitBody {
                key: exceeded.key.to_owned(),
                allowed: exceeded.allowed,
                left: exceeded.left,
            })),
            ..Self::default()
        }
    }
}

/// Rate that a guarantee takes of what may be promised, in bit/s.
fn required(guarantee: Option<&Guarantee>) -> u64 {
    let highest = guarantee.and_then(|guarantee| guarantee.by_level().next());
    highest.map_or(0, |guarantee| guarantee.required().as_bps())
}

impl Used {
    /// Error if another stream would exceed the limits.
    fn check_streams(&self, limits: &LocalLimits) -> Result<(), Exceeded> {
        match limits.streams_max {
            Some(max) if self.streams >= max => Err(Exceeded {
                key: "streams_max",
                allowed: max.to_string(),
                left: Some("0".to_owned()),
                message: format!(
                    "all applications of this user together may have {max} streams open; close one first"
                ),
            }),
            _ => Ok(()),
        }
    }

    /// Error if a promise of so much more would exceed the limits.
    fn check_promise(&self, limits: &LocalLimits, more_bps: u64) -> Result<(), Exceeded> {
        let Some(max) = limits.promised_rate_max else {
            return Ok(());
        };
        let left = Rate::from_bps(max.as_bps().saturating_sub(self.promised_bps));
        if more_bps <= left.as_bps() {
            return Ok(());
        }
        Err(Exceeded {
            key: "promised_rate_max",
            allowed: format!("{} bit/s", max.as_bps()),
            left: Some(format!("{} bit/s", left.as_bps())),
            message: format!(
                "all applications of this user together may ask for promises of {max}, and {left} are left; {} were asked for",
                Rate::from_bps(more_bps)
            ),
        })
    }
}

fn check_priority(limits: &LocalLimits, spec: &StreamSpec) -> Result<(), Exceeded> {
    let (wanted, max) = (spec.priority.0, limits.priority_max.0);
    if wanted <= max {
        return Ok(());
    }
    Err(Exceeded {
        key: "priority_max",
        allowed: max.to_string(),
        left: None,
        message: format!("streams of this user may have priority {max} at most, not {wanted}"),
    })
}

impl Account {
    pub(super) fn new(user: u32, policy: Arc<Policy>) -> Self {
        Self {
            user,
            policy,
            used: Mutex::default(),
            pace: Pace::default(),
        }
    }

    /// The tenant that the user's streams belong to.
    pub(in crate::local) fn tenant(&self) -> Tenant {
        tenant(self.user)
    }

    fn lock(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Limits in force. A user who may not attach any more opens nothing.
    fn limits(&self) -> LocalLimits {
        self.policy.limits(self.user).unwrap_or(LocalLimits {
            streams_max: Some(0),
            may_change_objectives: false,
            ..LocalLimits::NONE
        })
    }

    /// Error if a stream of this spec may not be opened now.
    pub(in crate::local) fn check(&self, spec: &StreamSpec) -> Result<(), Exceeded> {
        let limits = self.limits();
        check_priority(&limits, spec)?;
        let used = self.lock();
        used.check_streams(&limits)?;
        used.check_promise(&limits, required(spec.guarantee.as_deref()))
    }

    /// Counts a stream that an application opens.
    pub(in crate::local) fn open(
        self: &Arc<Self>,
        spec: &StreamSpec,
    ) -> Result<Reservation, Exceeded> {
        let limits = self.limits();
        check_priority(&limits, spec)?;
        self.reserve(&limits, required(spec.guarantee.as_deref()))
    }

    /// Counts a stream that a peer opens, whose spec the peer has chosen.
    pub(in crate::local) fn accept(self: &Arc<Self>) -> Result<Reservation, Exceeded> {
        self.reserve(&self.limits(), 0)
    }

    fn reserve(
        self: &Arc<Self>,
        limits: &LocalLimits,
        promised: u64,
    ) -> Result<Reservation, Exceeded> {
        let mut used = self.lock();
        used.check_streams(limits)?;
        used.check_promise(limits, promised)?;
        used.streams += 1;
        used.promised_bps += promised;
        Ok(Reservation {
            account: self.clone(),
            promised_bps: Mutex::new(promised),
        })
    }

    /// Waits until the user may no longer attach.
    pub(in crate::local) async fn until_not_allowed(&self) {
        self.policy.until_not_allowed(self.user).await;
    }

    /// Error if the objectives of sessions may not be changed.
    pub(in crate::local) fn check_objectives(&self) -> Result<(), Exceeded> {
        if self.limits().may_change_objectives {
            return Ok(());
        }
        Err(Exceeded {
            key: "objectives",
            allowed: false.to_string(),
            left: None,
            message: "applications of this user may not change the objectives of sessions, which hold for everybody's streams"
                .to_owned(),
        })
    }

    /// Waits until the applications may send.
    pub(in crate::local) async fn ready(&self) {
        self.pace.ready(|| self.limits().rate_max).await;
    }

    /// Counts bytes that were sent.
    pub(in crate::local) fn sent(&self, bytes: u64) {
        if let Some(rate) = self.limits().rate_max {
            self.pace.sent(rate, bytes);
        }
    }
}

/// A stream in the account of its user, until this is dropped.
#[derive(Debug)]
pub(in crate::local) struct Reservation {
    account: Arc<Account>,
    promised_bps: Mutex<u64>,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let promised = *self.promised();
        let mut used = self.account.lock();
        used.streams -= 1;
        used.promised_bps -= promised;
    }
}

impl Reservation {
    pub(in crate::local) fn account(&self) -> &Account {
        &self.account
    }

    fn promised(&self) -> MutexGuard<'_, u64> {
        self.promised_bps
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a change of the stream's guarantee, if its rate is within the limits; what was counted before stays if it fails.
    pub(in crate::local) fn change<T, E: From<Exceeded>>(
        &self,
        guarantee: Option<&Guarantee>,
        change: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let mut promised = self.promised();
        let (before, wanted) = (*promised, required(guarantee));
        let limits = self.account.limits();
        {
            let mut used = self.account.lock();
            used.check_promise(&limits, wanted.saturating_sub(before))?;
            used.promised_bps += wanted.saturating_sub(before);
        }
        let changed = change();
        let mut used = self.account.lock();
        used.promised_bps -= if changed.is_ok() {
            *promised = wanted;
            before.saturating_sub(wanted)
        } else {
            wanted.saturating_sub(before)
        };
        changed
    }
}

#[cfg(test)]
mod tests {
    use anabranch_session::Priority;

    use super::*;
    use crate::local::policy::Table;

    const USER: u32 = 9;

    fn account(limits: LocalLimits) -> (Arc<Policy>, Arc<Account>) {
        let policy = Policy::new(Table::from([(USER, limits)]));
        let account = policy.account(USER);
        (policy, account)
    }

    fn asking(mbps: u64) -> StreamSpec {
        StreamSpec::messages("m").with_guarantee(guarantee(mbps))
    }

    fn guarantee(mbps: u64) -> Guarantee {
        Guarantee::rate(Rate::from_mbps(mbps), 0.9)
    }

    #[track_caller]
    fn refused<T: std::fmt::Debug>(result: Result<T, Exceeded>, key: &str, left: Option<&str>) {
        let body = ErrorBody::from(result.unwrap_err());
        assert_eq!(body.kind, "limit");
        assert!(body.message.contains(key), "{}", body.message);
        let limit = body.limit.unwrap();
        assert_eq!((limit.key.as_str(), limit.left.as_deref()), (key, left));
    }

    #[test]
    fn streams_are_counted_until_they_are_over() {
        let (policy, account) = account(LocalLimits {
            streams_max: Some(2),
            ..LocalLimits::NONE
        });
        let spec = StreamSpec::messages("m");
        let first = account.open(&spec).unwrap();
        let second = account.accept().unwrap();
        refused(account.open(&spec), "streams_max", Some("0"));
        refused(account.accept(), "streams_max", Some("0"));
        refused(account.check(&spec), "streams_max", Some("0"));
        drop(first);
        let third = account.open(&spec).unwrap();
        // A reload changes nothing for those that are open.
        policy.replace(Table::from([(USER, LocalLimits::NONE)]));
        let _more = [account.open(&spec).unwrap(), account.open(&spec).unwrap()];
        policy.replace(Table::new());
        refused(account.open(&spec), "streams_max", Some("0"));
        drop((second, third));
    }

    #[test]
    fn priorities_have_a_ceiling() {
        let (_policy, account) = account(LocalLimits {
            priority_max: Priority::NORMAL,
            ..LocalLimits::NONE
        });
        let of = |priority| StreamSpec {
            priority,
            ..StreamSpec::default()
        };
        assert!(account.open(&of(Priority::NORMAL)).is_ok());
        let too_high = of(Priority(Priority::NORMAL.0 + 1));
        refused(account.open(&too_high), "priority_max", None);
        refused(account.check(&too_high), "priority_max", None);
    }

    #[test]
    fn promises_share_a_rate() {
        let (_policy, account) = account(LocalLimits {
            promised_rate_max: Some(Rate::from_mbps(5)),
            ..LocalLimits::NONE
        });
        let all = Some("5000000 bit/s");
        refused(account.open(&asking(6)), "promised_rate_max", all);
        let first = account.open(&asking(2)).unwrap();
        let second = account.open(&asking(3)).unwrap();
        refused(
            account.open(&asking(1)),
            "promised_rate_max",
            Some("0 bit/s"),
        );
        assert!(account.open(&StreamSpec::bulk("unpromised")).is_ok());
        type Done = Result<(), Exceeded>;
        // A change counts by what it adds, and only if it is made.
        let larger = guarantee(4);
        refused(
            second.change(Some(&larger), || -> Done { panic!("it is not asked for") }),
            "promised_rate_max",
            Some("0 bit/s"),
        );
        first.change(None, || Done::Ok(())).unwrap();
        refused(
            account.check(&asking(3)),
            "promised_rate_max",
            Some("2000000 bit/s"),
        );
        let refusal = || Exceeded {
            key: "other",
            allowed: String::new(),
            left: None,
            message: String::new(),
        };
        second
            .change(Some(&larger), || Done::Err(refusal()))
            .unwrap_err();
        second.change(None, || Done::Err(refusal())).unwrap_err();
        assert!(account.check(&asking(2)).is_ok());
        assert!(account.check(&asking(3)).is_err());
        second.change(Some(&guarantee(5)), || Done::Ok(())).unwrap();
        assert!(account.check(&asking(1)).is_err());
        drop((first, second));
        assert!(account.check(&asking(5)).is_ok());
    }

    #[test]
    fn objectives_are_everybodys() {
        let free = account(LocalLimits::NONE).1;
        assert!(free.check_objectives().is_ok());
        let (_policy, limited) = account(LocalLimits {
            may_change_objectives: false,
            ..LocalLimits::NONE
        });
        refused(limited.check_objectives(), "objectives", None);
    }
}
