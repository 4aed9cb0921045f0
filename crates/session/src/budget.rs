//! What sending on metered sockets costs, and the end of what may be spent.

use std::{collections::BTreeMap, net::SocketAddr, num::NonZeroUsize};

use anabranch_base::SocketId;
use anabranch_channel::Transmit;
use anabranch_sched::cost::Meter;

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

/// Key: local socket.
#[derive(Debug)]
struct Account {
    meter: Meter,
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
    accounts: BTreeMap<SocketId, Account>,
    /// Largest packet with its headers.
    packet_max_bytes: u64,
}

impl Budgets {
    pub(crate) fn new(mtu_max_bytes: u16) -> Self {
        Self {
            accounts: BTreeMap::new(),
            packet_max_bytes: u64::from(mtu_max_bytes) + HEADERS_V6_BYTES,
        }
    }

    /// Puts a meter on a socket, or takes it away; the stage that it is in.
    pub(crate) fn set(&mut self, socket: SocketId, meter: Option<Meter>) -> Stage {
        let Some(meter) = meter else {
            self.accounts.remove(&socket);
            return Stage::Enough;
        };
        let mut account = Account {
            meter,
            stage: Stage::Enough,
        };
        account.advance(self.packet_max_bytes);
        let stage = account.stage;
        self.accounts.insert(socket, account);
        stage
    }

    /// Whether no socket has a meter.
    pub(crate) fn is_empty(&self) -> bool {
        self.accounts.is_empty()
    }

    /// How many packets each of `sharing` channels of a socket may fill now, the reserve apart; `None`: any number.
    pub(crate) fn slots(&self, socket: SocketId, sharing: usize) -> Option<usize> {
        let left = self.meter(socket)?.left_bytes()?;
        let packets = (left / self.packet_max_bytes).saturating_sub(RESERVE_PACKETS);
        Some(usize::try_from(packets).unwrap_or(usize::MAX) / sharing.max(1))
    }

    pub(crate) fn meter(&self, socket: SocketId) -> Option<&Meter> {
        self.accounts.get(&socket).map(|account| &account.meter)
    }

    pub(crate) fn meter_mut(&mut self, socket: SocketId) -> Option<&mut Meter> {
        let account = self.accounts.get_mut(&socket)?;
        Some(&mut account.meter)
    }

    /// Looks again after a meter was changed: the new stage, if it is one.
    pub(crate) fn review(&mut self, socket: SocketId) -> Option<Stage> {
        self.accounts
            .get_mut(&socket)?
            .advance(self.packet_max_bytes)
    }

    /// Whether a socket must not be used any more in this period.
    pub(crate) fn is_spent(&self, socket: SocketId) -> bool {
        let account = self.accounts.get(&socket);
        account.is_some_and(|account| account.stage == Stage::Spent)
    }

    /// How many packets of any size may leave a socket, at most `wanted`; `None`: none.
    pub(crate) fn packets(&self, socket: SocketId, wanted: NonZeroUsize) -> Option<NonZeroUsize> {
        let Some(left) = self.meter(socket).and_then(Meter::left_bytes) else {
            return Some(wanted);
        };
        let most = usize::try_from(left / self.packet_max_bytes).unwrap_or(usize::MAX);
        NonZeroUsize::new(most.min(wanted.get()))
    }

    /// Whether a packet of this size may leave; it is not paid for yet.
    pub(crate) fn allows(&self, transmit: &Transmit) -> bool {
        let left = self.meter(transmit.socket).and_then(Meter::left_bytes);
        left.is_none_or(|left| bytes(transmit) <= left)
    }

    /// Pays for packets that leave; the new stage, if it is one.
    pub(crate) fn pay(&mut self, transmit: &Transmit) -> Option<Stage> {
        let account = self.accounts.get_mut(&transmit.socket)?;
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
        budgets.meter_mut(SocketId(1)).unwrap().begin(Period(2));
        assert_eq!(budgets.review(SocketId(1)), Some(Stage::Enough));
        // What was spent before counts from the beginning.
        let stage = budgets.set(SocketId(3), Some(meter("1 MB then stop", 1_000_000)));
        assert_eq!(stage, Stage::Spent);
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
