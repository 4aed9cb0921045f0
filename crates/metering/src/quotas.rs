//! Quotas of metered sockets: what may be sent on each, and what has been.

use std::{collections::BTreeMap, num::NonZeroUsize};

use anabranch_base::SocketId;

use crate::{Meter, Period, Price, Unit};

/// Reserve of a cap, in packets of the largest size: a socket is left when less is left, and what
/// remains is for saying so. Not a byte is sent beyond the cap itself.
const RESERVE_PACKETS: u64 = 24;
/// The share of a cap at whose rest a warning is given.
const WARN_SHARE: u64 = 10;

/// Stage of a quota after a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
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
    /// Unit of the price.
    pub unit: Unit,
}

impl Marginal {
    /// The cost without a meter.
    pub const FREE: Self = Self {
        is_metered: false,
        price: Some(Price::FREE),
        unit: Unit::Money,
    };
}

/// Key: local socket.
#[derive(Debug)]
struct Account {
    meter: Meter,
    /// Bytes of the period that may be used for now; `None`: what the cap allows.
    granted_bytes: Option<u64>,
    /// Last stage reported in this period.
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

/// The meters of a node's sockets; a socket without one costs nothing.
#[derive(Debug)]
pub struct Quotas {
    /// By the first socket that each pays for.
    accounts: BTreeMap<SocketId, Account>,
    /// Further sockets, and the first one of their account.
    sharing: BTreeMap<SocketId, SocketId>,
    /// Largest packet with its headers.
    packet_max_bytes: u64,
}

impl Quotas {
    /// No meters; no packet is larger than `packet_max_bytes`, headers included.
    pub fn new(packet_max_bytes: u64) -> Self {
        Self {
            accounts: BTreeMap::new(),
            sharing: BTreeMap::new(),
            packet_max_bytes,
        }
    }

    /// Puts a meter on a socket, or takes it away; the stage that it is in.
    pub fn set(&mut self, socket: SocketId, meter: Option<Meter>) -> Stage {
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
    pub fn share(&mut self, socket: SocketId, with: SocketId) -> bool {
        let first = self.account_of(with);
        if !self.accounts.contains_key(&first) || first == socket {
            return false;
        }
        self.accounts.remove(&socket);
        self.sharing.insert(socket, first);
        true
    }

    /// The first socket of a socket's account: itself, if it shares none.
    pub fn account_of(&self, socket: SocketId) -> SocketId {
        self.sharing.get(&socket).copied().unwrap_or(socket)
    }

    /// All sockets of an account, the first one first.
    pub fn sockets(&self, first: SocketId) -> Vec<SocketId> {
        let further = self.sharing.iter().filter(|(_, of)| **of == first);
        std::iter::once(first)
            .chain(further.map(|(socket, _)| *socket))
            .collect()
    }

    /// Lets so many bytes of the current period be used in all; of another period: nothing changes.
    pub fn grant(&mut self, socket: SocketId, period: Period, total_bytes: u64) {
        let first = self.account_of(socket);
        if let Some(account) = self.accounts.get_mut(&first)
            && account.meter.period() == period
        {
            account.granted_bytes = Some(total_bytes);
        }
    }

    /// A period began: what was granted in the last one is void.
    pub fn begin(&mut self, socket: SocketId, period: Period) {
        let first = self.account_of(socket);
        if let Some(account) = self.accounts.get_mut(&first)
            && period > account.meter.period()
        {
            account.meter.begin(period);
            account.granted_bytes = account.granted_bytes.map(|_| 0);
        }
    }

    /// Cost of the next byte on a channel of this socket. Exact at the edges of quotas, but not of what is queued.
    pub fn marginal(&self, socket: SocketId) -> Marginal {
        let Some(meter) = self.meter(socket) else {
            return Marginal::FREE;
        };
        Marginal {
            is_metered: !meter.model().is_free(),
            price: meter.next_price().map(|(price, _)| price),
            unit: meter.model().unit(),
        }
    }

    /// True if no socket has a meter.
    pub fn is_empty(&self) -> bool {
        self.accounts.is_empty()
    }

    /// Number of packets that each of `sharing` channels of a socket may fill now, the reserve apart; `None`: any number.
    pub fn slots(&self, socket: SocketId, sharing: usize) -> Option<usize> {
        let left = self.left_bytes(socket)?;
        let packets = (left / self.packet_max_bytes).saturating_sub(RESERVE_PACKETS);
        Some(usize::try_from(packets).unwrap_or(usize::MAX) / sharing.max(1))
    }

    /// The meter of a socket's account; `None`: it has none.
    pub fn meter(&self, socket: SocketId) -> Option<&Meter> {
        let account = self.accounts.get(&self.account_of(socket))?;
        Some(&account.meter)
    }

    fn left_bytes(&self, socket: SocketId) -> Option<u64> {
        self.accounts.get(&self.account_of(socket))?.left_bytes()
    }

    /// Looks again after a meter was changed: the new stage, if it is one.
    pub fn review(&mut self, socket: SocketId) -> Option<Stage> {
        let first = self.account_of(socket);
        let account = self.accounts.get_mut(&first)?;
        account.advance(self.packet_max_bytes)
    }

    /// True if a socket must not be used any more in this period.
    pub fn is_spent(&self, socket: SocketId) -> bool {
        let account = self.accounts.get(&self.account_of(socket));
        account.is_some_and(|account| account.stage == Stage::Spent)
    }

    /// Number of packets of any size that may leave a socket, at most `wanted`; `None`: none.
    pub fn packets(&self, socket: SocketId, wanted: NonZeroUsize) -> Option<NonZeroUsize> {
        let Some(left) = self.left_bytes(socket) else {
            return Some(wanted);
        };
        let most = usize::try_from(left / self.packet_max_bytes).unwrap_or(usize::MAX);
        NonZeroUsize::new(most.min(wanted.get()))
    }

    /// True if so many bytes may leave a socket; they are not paid for yet.
    pub fn allows(&self, socket: SocketId, bytes: u64) -> bool {
        self.left_bytes(socket).is_none_or(|left| bytes <= left)
    }

    /// Pays for bytes that leave; the new stage, if it is one.
    pub fn pay(&mut self, socket: SocketId, bytes: u64) -> Option<Stage> {
        let first = self.account_of(socket);
        let account = self.accounts.get_mut(&first)?;
        // Asked before; a refusal changes nothing.
        account.meter.spend(bytes).ok()?;
        account.advance(self.packet_max_bytes)
    }
}

#[cfg(test)]
mod tests {
    use crate::Model;
    use proptest::prelude::*;

    use super::*;

    fn meter(text: &str, used_bytes: u64) -> Meter {
        Meter::new(text.parse::<Model>().unwrap(), Period(1), used_bytes)
    }

    const SOCKET: SocketId = SocketId(1);

    #[test]
    fn only_metered_sockets_are_counted() {
        let mut quotas = Quotas::new(1_520);
        quotas.set(SOCKET, Some(meter("0.01/MB", 0)));
        quotas.pay(SOCKET, 1_028);
        quotas.pay(SOCKET, 500);
        assert_eq!(quotas.meter(SOCKET).unwrap().used_bytes(), 1_528);
        quotas.pay(SocketId(2), 37);
        assert!(quotas.meter(SocketId(2)).is_none());
    }

    #[test]
    fn a_warning_comes_once_and_then_the_end() {
        let mut quotas = Quotas::new(1_520);
        assert_eq!(
            quotas.set(SOCKET, Some(meter("1 MB then stop", 0))),
            Stage::Enough
        );
        let mut stages = Vec::new();
        while quotas.allows(SOCKET, 1_228) {
            stages.extend(quotas.pay(SOCKET, 1_228));
        }
        assert_eq!(stages, [Stage::Low, Stage::Spent]);
        assert!(quotas.is_spent(SOCKET));
        assert!(quotas.meter(SOCKET).unwrap().used_bytes() <= 1_000_000);
        // A month later.
        quotas.begin(SOCKET, Period(2));
        assert_eq!(quotas.review(SOCKET), Some(Stage::Enough));
        // What was spent before counts from the beginning.
        let stage = quotas.set(SocketId(3), Some(meter("1 MB then stop", 1_000_000)));
        assert_eq!(stage, Stage::Spent);
    }

    #[test]
    fn sockets_share_an_account() {
        let mut quotas = Quotas::new(1_520);
        assert!(!quotas.share(SocketId(2), SOCKET), "it has none");
        quotas.set(SOCKET, Some(meter("1 MB then stop", 0)));
        assert!(quotas.share(SocketId(2), SOCKET));
        assert!(quotas.share(SocketId(3), SocketId(2)));
        assert_eq!(quotas.account_of(SocketId(3)), SOCKET);
        assert_eq!(quotas.sockets(SOCKET), [1, 2, 3].map(SocketId));
        for socket in [1, 2, 3].map(SocketId) {
            quotas.pay(socket, 1_000);
        }
        assert_eq!(quotas.meter(SocketId(2)).unwrap().used_bytes(), 3000);
        quotas.set(SOCKET, None);
        assert!(quotas.meter(SocketId(3)).is_none());
    }

    /// Grants bound the data that leave, but spend nothing of the cap.
    #[test]
    fn nothing_leaves_beyond_what_is_granted() {
        let mut quotas = Quotas::new(1_520);
        quotas.set(SOCKET, Some(meter("1 MB then stop", 0)));
        quotas.grant(SOCKET, Period(1), 1200);
        assert!(quotas.allows(SOCKET, 1_200));
        assert_eq!(quotas.pay(SOCKET, 1_200), None);
        assert!(!quotas.allows(SOCKET, 1_200) && !quotas.is_spent(SOCKET));
        quotas.grant(SOCKET, Period(2), 9000);
        assert!(!quotas.allows(SOCKET, 1_200), "another period");
        quotas.grant(SOCKET, Period(1), 2400);
        assert!(quotas.allows(SOCKET, 1_200));
        quotas.begin(SOCKET, Period(2));
        assert!(!quotas.allows(SOCKET, 1_200), "not granted in this period");
        quotas.grant(SOCKET, Period(2), 1200);
        assert!(quotas.allows(SOCKET, 1_200));
        // Without a cap as well.
        quotas.set(SOCKET, Some(meter("0.01/MB", 0)));
        assert!(quotas.allows(SOCKET, 1_200));
        quotas.grant(SOCKET, Period(1), 1199);
        assert!(!quotas.allows(SOCKET, 1_200));
    }

    #[test]
    fn the_next_byte_costs_what_the_list_says() {
        let mut quotas = Quotas::new(1_520);
        let free = Marginal::FREE;
        assert_eq!(quotas.marginal(SOCKET), free);
        quotas.set(SOCKET, Some(meter("free", 7)));
        assert_eq!(quotas.marginal(SOCKET), free);
        let mut of = |text: &str, used| {
            quotas.set(SOCKET, Some(meter(text, used)));
            let found = quotas.marginal(SOCKET);
            (found.is_metered, found.price.map(Price::per_byte))
        };
        assert_eq!(of("1 kB then 5/kB", 999), (true, Some(0.0)));
        assert_eq!(of("1 kB then 5/kB", 1000), (true, Some(0.005)));
        assert_eq!(of("1 kB then stop", 999), (true, Some(0.0)));
        assert_eq!(of("1 kB then stop", 1000), (true, None));
    }

    proptest! {
        /// Whatever is sent as [`Quotas::packets`] and [`Quotas::allows`] permit: no cap is exceeded.
        #[test]
        fn caps_are_kept(
            cap in 0u64..400_000, used in 0u64..200_000,
            sends in prop::collection::vec((29u64..1_521, 1usize..20), 1..400),
        ) {
            let mut quotas = Quotas::new(1_520);
            let text = format!("{} B then stop", cap.max(1));
            quotas.set(SOCKET, Some(meter(&text, used)));
            for (size, wanted) in sends {
                let wanted = NonZeroUsize::new(wanted).unwrap();
                let Some(packets) = quotas.packets(SOCKET, wanted) else { continue };
                prop_assert!(packets <= wanted);
                let bytes = size * packets.get() as u64;
                prop_assert!(quotas.allows(SOCKET, bytes));
                quotas.pay(SOCKET, bytes);
                let now = quotas.meter(SOCKET).unwrap().used_bytes();
                prop_assert!(now <= cap.max(1).max(used), "{now} of {cap}");
            }
        }
    }
}
