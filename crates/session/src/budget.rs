//! Budgets of metered sockets.

use std::{collections::BTreeMap, net::SocketAddr, num::NonZeroUsize};

use anabranch_base::SocketId;
use anabranch_channel::Transmit;
use anabranch_sched::cost::{Meter, Period, Price};

/// IP and UDP headers of a packet.
const HEADERS_V4_BYTES: u64 = 20 + 8;
const HEADERS_V6_BYTES: u64 = 40 + 8;
/// What is kept back of a cap, in packets of the largest size: a socket is left when less is left, and what
/// remains is for saying so. Not a byte is sent beyond the cap itself.
const RESERVE_PACKETS: u64 = 24;
/// The share of a cap at whose rest a warning is given.
const WARN_SHARE: u64 = 10;

/// What a payment of packets led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// There is enough left.
    Enough,
    /// Less than a tenth of the cap is left, for the first time in the period.
    Low,
    /// So little is left that the socket must not be used any more in this period.
    Spent,
}

/// Cost of the next byte on a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marginal {
    /// It costs something, or counts towards a quota or a cap.
    pub is_metered: bool,
    /// Its price: that of the quota while some of it is left, then the next; `None`: nothing may be sent until the
    /// next period.
    pub price: Option<Price>,
}

impl Marginal {
    /// Where there is no meter.
    pub const FREE: Self = Self {
        is_metered: false,
        price: Some(Price::FREE),
    };
}

/// Key: local socket.
#[derive(Debug)]
struct Account {
    meter: Meter,
    /// Bytes of the period that may be used for now; `None`: what the cap allows.
    granted_bytes: Option<u64>,
    /// Told already in this period.
    stage: Stage,
}

impl Account {
    /// The stage by what is left.
    fn reached(&self, packet_max_bytes: u64) -> Stage {
        let (Some(left), Some(cap)) = (self.meter.left_bytes(), self.meter.model().cap_bytes())
        else {
            return Stage::Enough;
        };
        if left < RESERVE_PACKETS * packet_max_bytes {
            Stage::Spent
        } else if left < cap / WARN_SHARE {
            Stage::Low
        } else {
            Stage::Enough
        }
    }

    /// Bytes that may leave now; `None`: any number.
    fn left_bytes(&self) -> Option<u64> {
        let used = self.meter.used_bytes();
        let granted = self.granted_bytes.map(|total| total.saturating_sub(used));
        self.meter.left_bytes().into_iter().chain(granted).min()
    }

    /// The stage, if it is a new one.
    fn advance(&mut self, packet_max_bytes: u64) -> Option<Stage> {
        let reached = self.reached(packet_max_bytes);
        let is_new = reached != self.stage;
        self.stage = reached;
        is_new.then_some(reached)
    }
}

/// The meters of an engine's sockets; a socket without one costs nothing.
#[derive(Debug)]
pub(crate) struct Budgets {
    /// By the first socket that each pays for.
    accounts: BTreeMap<SocketId, Account>,
    /// Further sockets, and the first one of their account.
    sharing: BTreeMap<SocketId, SocketId>,
    /// Largest packet with its headers.
    packet_max_bytes: u64,
}

impl Budgets {
    pub(crate) fn new(mtu_max_bytes: u16) -> Self {
        Self {
            accounts: BTreeMap::new(),
            sharing: BTreeMap::new(),
            packet_max_bytes: u64::from(mtu_max_bytes) + HEADERS_V6_BYTES,
        }
    }

    /// Puts a meter on a socket, or takes it away; the stage that it is in.
    pub(crate) fn set(&mut self, socket: SocketId, meter: Option<Meter>) -> Stage {
        self.sharing.remove(&socket);
        let Some(meter) = meter else {
            self.accounts.remove(&socket);
            self.sharing.retain(|_, first| *first != socket);
            return Stage::Enough;
        };
        let mut account = Account {
            meter,
            granted_bytes: None,
            stage: Stage::Enough,
        };
        account.advance(self.packet_max_bytes);
        let stage = account.stage;
        self.accounts.insert(socket, account);
        stage
    }

    /// Has a socket paid for by the account of another one; whether that one has any.
    pub(crate) fn share(&mut self, socket: SocketId, with: SocketId) -> bool {
        let first = self.account_of(with);
        if !self.accounts.contains_key(&first) || first == socket {
            return false;
        }
        self.accounts.remove(&socket);
        self.sharing.insert(socket, first);
        true
    }

    /// The first socket of a socket's account: itself, if it shares none.
    pub(crate) fn account_of(&self, socket: SocketId) -> SocketId {
        self.sharing.get(&socket).copied().unwrap_or(socket)
    }

    /// All sockets of an account, the first one first.
    pub(crate) fn sockets(&self, first: SocketId) -> Vec<SocketId> {
        let further = self.sharing.iter().filter(|(_, of)| **of == first);
        std::iter::once(first)
            .chain(further.map(|(socket, _)| *socket))
            .collect()
    }

    /// Lets so many bytes of the current period be used in all; of another period: nothing changes.
    pub(crate) fn grant(&mut self, socket: SocketId, period: Period, total_bytes: u64) {
        let first = self.account_of(socket);
        if let Some(account) = self.accounts.get_mut(&first)
            && account.meter.period() == period
        {
            account.granted_bytes = Some(total_bytes);
        }
    }

    /// A period began: what was granted in the last one is void.
    pub(crate) fn begin(&mut self, socket: SocketId, period: Period) {
        let first = self.account_of(socket);
        if let Some(account) = self.accounts.get_mut(&first)
            && period > account.meter.period()
        {
            account.meter.begin(period);
            account.granted_bytes = account.granted_bytes.map(|_| 0);
        }
    }

    /// Cost of the next byte on a channel of this socket. Exact at the edges of quotas, but not of what is queued.
    pub(crate) fn marginal(&self, socket: SocketId) -> Marginal {
        let Some(meter) = self.meter(socket) else {
            return Marginal::FREE;
        };
        Marginal {
            is_metered: !meter.model().is_free(),
            price: meter.next_price().map(|(price, _)| price),
        }
    }

    /// True if no socket has a meter.
    pub(crate) fn is_empty(&self) -> bool {
        self.accounts.is_empty()
    }

    /// Number of packets that each of `sharing` channels of a socket may fill now, the reserve apart; `None`: any number.
    pub(crate) fn slots(&self, socket: SocketId, sharing: usize) -> Option<usize> {
        let left = self.left_bytes(socket)?;
        let packets = (left / self.packet_max_bytes).saturating_sub(RESERVE_PACKETS);
        Some(usize::try_from(packets).unwrap_or(usize::MAX) / sharing.max(1))
    }

    pub(crate) fn meter(&self, socket: SocketId) -> Option<&Meter> {
        let account = self.accounts.get(&self.account_of(socket))?;
        Some(&account.meter)
    }

    fn left_bytes(&self, socket: SocketId) -> Option<u64> {
        self.accounts.get(&self.account_of(socket))?.left_bytes()
    }

    /// Looks again after a meter was changed: the new stage, if it is one.
    pub(crate) fn review(&mut self, socket: SocketId) -> Option<Stage> {
        let first = self.account_of(socket);
        let account = self.accounts.get_mut(&first)?;
        account.advance(self.packet_max_bytes)
    }

    /// True if a socket must not be used any more in this period.
    pub(crate) fn is_spent(&self, socket: SocketId) -> bool {
        let account = self.accounts.get(&self.account_of(socket));
        account.is_some_and(|account| account.stage == Stage::Spent)
    }

    /// Number of packets of any size that may leave a socket, at most `wanted`; `None`: none.
    pub(crate) fn packets(&self, socket: SocketId, wanted: NonZeroUsize) -> Option<NonZeroUsize> {
        let Some(left) = self.left_bytes(socket) else {
            return Some(wanted);
        };
        let most = usize::try_from(left / self.packet_max_bytes).unwrap_or(usize::MAX);
        NonZeroUsize::new(most.min(wanted.get()))
    }

    /// True if a packet of this size may leave; it is not paid for yet.
    pub(crate) fn allows(&self, transmit: &Transmit) -> bool {
        let left = self.left_bytes(transmit.socket);
        left.is_none_or(|left| bytes(transmit) <= left)
    }

    /// Pays for packets that leave; the new stage, if it is one.
    pub(crate) fn pay(&mut self, transmit: &Transmit) -> Option<Stage> {
        let first = self.account_of(transmit.socket);
        let account = self.accounts.get_mut(&first)?;
        // Asked before; a refusal changes nothing.
        account.meter.spend(bytes(transmit)).ok()?;
        account.advance(self.packet_max_bytes)
    }
}

/// All bytes of packets, headers of IP and UDP included.
fn bytes(transmit: &Transmit) -> u64 {
    let headers = match transmit.remote {
        SocketAddr::V4(_) => HEADERS_V4_BYTES,
        SocketAddr::V6(_) => HEADERS_V6_BYTES,
    };
    transmit.size as u64 + transmit.packets() as u64 * headers
}

#[cfg(test)]
mod tests {
    use anabranch_sched::cost::{Model, Period};
    use proptest::prelude::*;

    use super::*;

    fn meter(text: &str, used_bytes: u64) -> Meter {
        Meter::new(text.parse::<Model>().unwrap(), Period(1), used_bytes)
    }

    fn transmit(size: usize, segment: Option<usize>, remote: &str) -> Transmit {
        Transmit {
            socket: SocketId(1),
            remote: remote.parse().unwrap(),
            local_ip: None,
            size,
            segment_size: segment,
            ecn: None,
        }
    }

    #[test]
    fn headers_are_paid_for() {
        let mut budgets = Budgets::new(1472);
        budgets.set(SocketId(1), Some(meter("0.01/MB", 0)));
        budgets.pay(&transmit(1000, None, "192.0.2.1:7"));
        budgets.pay(&transmit(2500, Some(1000), "[2001:db8::1]:7"));
        let used = budgets.meter(SocketId(1)).unwrap().used_bytes();
        assert_eq!(used, 1000 + 28 + 2500 + 3 * 48);
        budgets.pay(&Transmit {
            socket: SocketId(2),
            ..transmit(9, None, "192.0.2.1:7")
        });
        assert!(budgets.meter(SocketId(2)).is_none());
    }

    #[test]
    fn a_warning_comes_once_and_then_the_end() {
        let mut budgets = Budgets::new(1472);
        assert_eq!(
            budgets.set(SocketId(1), Some(meter("1 MB then stop", 0))),
            Stage::Enough
        );
        let mut stages = Vec::new();
        let one = transmit(1200, None, "192.0.2.1:7");
        while budgets.allows(&one) {
            stages.extend(budgets.pay(&one));
        }
        assert_eq!(stages, [Stage::Low, Stage::Spent]);
        assert!(budgets.is_spent(SocketId(1)));
        assert!(budgets.meter(SocketId(1)).unwrap().used_bytes() <= 1_000_000);
        // A month later.
        budgets.begin(SocketId(1), Period(2));
        assert_eq!(budgets.review(SocketId(1)), Some(Stage::Enough));
        // What was spent before counts from the beginning.
        let stage = budgets.set(SocketId(3), Some(meter("1 MB then stop", 1_000_000)));
        assert_eq!(stage, Stage::Spent);
    }

    #[test]
    fn sockets_share_an_account() {
        let mut budgets = Budgets::new(1472);
        assert!(!budgets.share(SocketId(2), SocketId(1)), "it has none");
        budgets.set(SocketId(1), Some(meter("1 MB then stop", 0)));
        assert!(budgets.share(SocketId(2), SocketId(1)));
        assert!(budgets.share(SocketId(3), SocketId(2)));
        assert_eq!(budgets.account_of(SocketId(3)), SocketId(1));
        assert_eq!(budgets.sockets(SocketId(1)), [1, 2, 3].map(SocketId));
        for socket in [1, 2, 3].map(SocketId) {
            budgets.pay(&Transmit {
                socket,
                ..transmit(972, None, "192.0.2.1:7")
            });
        }
        assert_eq!(budgets.meter(SocketId(2)).unwrap().used_bytes(), 3000);
        budgets.set(SocketId(1), None);
        assert!(budgets.meter(SocketId(3)).is_none());
    }

    /// What is granted bounds what leaves, but spends nothing of the cap.
    #[test]
    fn nothing_leaves_beyond_what_is_granted() {
        let mut budgets = Budgets::new(1472);
        let one = transmit(1172, None, "192.0.2.1:7");
        budgets.set(SocketId(1), Some(meter("1 MB then stop", 0)));
        budgets.grant(SocketId(1), Period(1), 1200);
        assert!(budgets.allows(&one));
        assert_eq!(budgets.pay(&one), None);
        assert!(!budgets.allows(&one) && !budgets.is_spent(SocketId(1)));
        budgets.grant(SocketId(1), Period(2), 9000);
        assert!(!budgets.allows(&one), "another period");
        budgets.grant(SocketId(1), Period(1), 2400);
        assert!(budgets.allows(&one));
        budgets.begin(SocketId(1), Period(2));
        assert!(!budgets.allows(&one), "not granted in this period");
        budgets.grant(SocketId(1), Period(2), 1200);
        assert!(budgets.allows(&one));
        // Without a cap as well.
        budgets.set(SocketId(1), Some(meter("0.01/MB", 0)));
        assert!(budgets.allows(&one));
        budgets.grant(SocketId(1), Period(1), 1199);
        assert!(!budgets.allows(&one));
    }

    #[test]
    fn the_next_byte_costs_what_the_list_says() {
        let mut budgets = Budgets::new(1472);
        let free = Marginal {
            is_metered: false,
            price: Some(Price::FREE),
        };
        assert_eq!(budgets.marginal(SocketId(1)), free);
        budgets.set(SocketId(1), Some(meter("free", 7)));
        assert_eq!(budgets.marginal(SocketId(1)), free);
        let mut of = |text: &str, used| {
            budgets.set(SocketId(1), Some(meter(text, used)));
            let found = budgets.marginal(SocketId(1));
            (found.is_metered, found.price.map(Price::per_byte))
        };
        assert_eq!(of("1 kB then 5/kB", 999), (true, Some(0.0)));
        assert_eq!(of("1 kB then 5/kB", 1000), (true, Some(0.005)));
        assert_eq!(of("1 kB then stop", 999), (true, Some(0.0)));
        assert_eq!(of("1 kB then stop", 1000), (true, None));
    }

    proptest! {
        /// Whatever is sent as [`Budgets::packets`] and [`Budgets::allows`] permit: no cap is exceeded.
        #[test]
        fn caps_are_kept(
            cap in 0u64..400_000, used in 0u64..200_000,
            sends in prop::collection::vec((1usize..1473, 1usize..20, any::<bool>()), 1..400),
        ) {
            let mut budgets = Budgets::new(1472);
            let text = format!("{} B then stop", cap.max(1));
            budgets.set(SocketId(1), Some(meter(&text, used)));
            for (size, wanted, is_v6) in sends {
                let wanted = NonZeroUsize::new(wanted).unwrap();
                let Some(packets) = budgets.packets(SocketId(1), wanted) else { continue };
                prop_assert!(packets <= wanted);
                let remote = if is_v6 { "[2001:db8::1]:7" } else { "192.0.2.1:7" };
                let batch = transmit(size * packets.get(), Some(size), remote);
                prop_assert!(budgets.allows(&batch));
                budgets.pay(&batch);
                let now = budgets.meter(SocketId(1)).unwrap().used_bytes();
                prop_assert!(now <= cap.max(1).max(used), "{now} of {cap}");
            }
        }
    }
}
