//! Addresses of each node, and their text form, which a server keeps on disk.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use anabranch::base::NodeId;

use super::{Pools, Prefix, prefix};
use crate::wire::Wish;

/// Nodes of which the addresses are remembered; beyond, those of the node that joined longest ago are assigned to others.
const LEASES_MAX: usize = 65_536;
/// Longest text of a table that is read.
pub const TEXT_BYTES_MAX: u64 = 32 << 20;
/// First line of the text.
const HEAD: &str = "# Addresses of the tunnel by node: node, IPv4, IPv6, number of its last use.";

/// Addresses of one node; at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// IPv4.
    pub v4: Option<Ipv4Addr>,
    /// IPv6.
    pub v6: Option<Ipv6Addr>,
}

/// All addresses are those of nodes that are in the tunnel now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("all addresses of the tunnel are in use; its server needs a larger network")]
pub struct NoAddress;

/// The text is not that of a table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} is not a node with its addresses")]
pub struct TableError {
    /// The line, from 1.
    pub line: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    lease: Lease,
    /// Number of its last use: larger ones are later.
    used: u64,
}

/// The addresses of each node. Invariant: no address is in two entries; `taken` holds those of all entries.
#[derive(Clone, Debug)]
pub struct Table {
    pools: Pools,
    entries: BTreeMap<NodeId, Entry>,
    taken: BTreeSet<IpAddr>,
    uses: u64,
}

impl Table {
    /// Creates an empty table.
    pub fn new(pools: Pools) -> Self {
        Self {
            pools,
            entries: BTreeMap::new(),
            taken: BTreeSet::new(),
            uses: 0,
        }
    }

    /// The networks of its addresses.
    pub fn pools(&self) -> &Pools {
        &self.pools
    }

    /// Number of nodes with addresses.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if no node has addresses.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Addresses of a node, those of other networks than the present ones included.
    pub fn get(&self, node: &NodeId) -> Option<Lease> {
        self.entries.get(node).map(|entry| entry.lease)
    }

    /// Changes the networks; nodes keep the addresses that are in the new ones, and get others when they are assigned again.
    pub fn set_pools(&mut self, pools: Pools) {
        self.pools = pools;
    }

    /// The addresses of a node from now on: those that it had, or else those that it wishes for if they are free, or else free ones. If
    /// there are none, it takes over those of the node that has not used its own for longest among the nodes that are not `in_use`.
    ///
    /// # Errors
    /// All are in use.
    pub fn assign(
        &mut self,
        node: NodeId,
        wish: &Wish,
        in_use: impl Fn(&NodeId) -> bool,
    ) -> Result<Lease, NoAddress> {
        let before = self.remove(&node);
        if self.entries.len() >= LEASES_MAX {
            self.evict(&in_use);
        }
        let v4 = (before.and_then(|lease| lease.v4), wish.v4);
        let v6 = (before.and_then(|lease| lease.v6), wish.v6);
        loop {
            let found = (|| {
                let v4 = self.find(self.pools.v4, [v4.0, v4.1].map(|a| a.map(IpAddr::V4)))?;
                let v6 = self.find(self.pools.v6, [v6.0, v6.1].map(|a| a.map(IpAddr::V6)))?;
                Some((v4, v6))
            })();
            if let Some((v4, v6)) = found {
                let lease = Lease {
                    v4: v4.and_then(|v4| match v4 {
                        IpAddr::V4(v4) => Some(v4),
                        IpAddr::V6(_) => None,
                    }),
                    v6: v6.and_then(|v6| match v6 {
                        IpAddr::V6(v6) => Some(v6),
                        IpAddr::V4(_) => None,
                    }),
                };
                self.insert(node, lease);
                return Ok(lease);
            }
            if !self.evict(&in_use) {
                // The node keeps what it had, for the time when there is space.
                if let Some(before) = before {
                    self.insert(node, before);
                }
                return Err(NoAddress);
            }
        }
    }

    /// An address in a network: the first of those wished for that is free, or any free one; `None` if there is none. `Some(None)`: there
    /// is no such network.
    fn find(&self, network: Option<Prefix>, wished: [Option<IpAddr>; 2]) -> Option<Option<IpAddr>> {
        let Some(network) = network else {
            return Some(None);
        };
        let indices = Pools::indices(&network);
        let fits = |address: &IpAddr| {
            let index = network.index(*address);
            index.is_some_and(|index| indices.contains(&index)) && !self.taken.contains(address)
        };
        if let Some(wished) = wished.into_iter().flatten().find(fits) {
            return Some(Some(wished));
        }
        // The first gap between those that are taken. O(addresses taken in the network).
        let (first, last) = (network.nth(indices.start), network.nth(indices.end - 1));
        let mut next = indices.start;
        for taken in self.taken.range(first..=last) {
            let index = prefix::number(*taken) - prefix::number(network.first());
            if index > next {
                break;
            }
            next = index + 1;
        }
        (next < indices.end).then(|| Some(network.nth(next)))
    }

    fn insert(&mut self, node: NodeId, lease: Lease) {
        self.taken.extend(addresses(&lease));
        self.uses += 1;
        let used = self.uses;
        self.entries.insert(node, Entry { lease, used });
    }

    fn remove(&mut self, node: &NodeId) -> Option<Lease> {
        let entry = self.entries.remove(node)?;
        for address in addresses(&entry.lease) {
            self.taken.remove(&address);
        }
        Some(entry.lease)
    }

    /// Forgets the node that has not used its addresses for longest; false if all are in use. O(nodes).
    fn evict(&mut self, in_use: impl Fn(&NodeId) -> bool) -> bool {
        let free = self.entries.iter().filter(|(node, _)| !in_use(node));
        let oldest = free.min_by_key(|(_, entry)| entry.used);
        let Some(node) = oldest.map(|(node, _)| *node) else {
            return false;
        };
        self.remove(&node).is_some()
    }

    /// The table as text, one node a line.
    pub fn to_text(&self) -> String {
        let mut text = format!("{HEAD}\n");
        for (node, Entry { lease, used }) in &self.entries {
            let shown = |address: Option<IpAddr>| {
                address.map_or_else(|| "-".to_owned(), |address| address.to_string())
            };
            let (v4, v6) = (
                shown(lease.v4.map(Into::into)),
                shown(lease.v6.map(Into::into)),
            );
            let _ = writeln!(text, "{node} {v4} {v6} {used}");
        }
        text
    }

    /// Reads a text. Addresses that appear twice belong to the node that used them last.
    ///
    /// # Errors
    /// The first line that is wrong.
    pub fn from_text(pools: Pools, text: &str) -> Result<Self, TableError> {
        let mut read = Vec::new();
        for (index, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let entry = entry(line).ok_or(TableError { line: index + 1 })?;
            read.push(entry);
        }
        read.sort_by_key(|(_, entry)| std::cmp::Reverse(entry.used));
        let mut table = Self::new(pools);
        for (node, entry) in read.into_iter().take(LEASES_MAX) {
            let is_taken = |address: &IpAddr| table.taken.contains(address);
            if table.entries.contains_key(&node) || addresses(&entry.lease).any(|a| is_taken(&a)) {
                continue;
            }
            table.taken.extend(addresses(&entry.lease));
            table.uses = table.uses.max(entry.used);
            table.entries.insert(node, entry);
        }
        Ok(table)
    }
}

fn addresses(lease: &Lease) -> impl Iterator<Item = IpAddr> {
    let v4 = lease.v4.map(IpAddr::V4);
    v4.into_iter().chain(lease.v6.map(IpAddr::V6))
}

fn entry(line: &str) -> Option<(NodeId, Entry)> {
    let mut words = line.split_ascii_whitespace();
    let node = words.next()?.parse().ok()?;
    let v4 = match words.next()? {
        "-" => None,
        text => Some(text.parse().ok()?),
    };
    let v6 = match words.next()? {
        "-" => None,
        text => Some(text.parse().ok()?),
    };
    let used = words.next()?.parse().ok()?;
    let is_end = words.next().is_none() && (v4.is_some() || v6.is_some());
    let lease = Lease { v4, v6 };
    is_end.then_some((node, Entry { lease, used }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ANY: Wish = Wish {
        mtu: 1400,
        v4: None,
        v6: None,
    };

    fn node(number: u8) -> NodeId {
        NodeId::from_public_key([number; 32])
    }

    fn pools(texts: &[&str]) -> Pools {
        Pools::new(texts.iter().map(|text| text.parse().unwrap())).unwrap()
    }

    fn table(texts: &[&str]) -> Table {
        Table::new(pools(texts))
    }

    fn v4(lease: Lease) -> String {
        lease.v4.unwrap().to_string()
    }

    #[test]
    fn nodes_get_addresses_in_turn_and_keep_them() {
        let mut table = table(&["10.77.0.0/24", "fd77::/64"]);
        let none = |_: &NodeId| false;
        let first = table.assign(node(1), &ANY, none).unwrap();
        assert_eq!(v4(first), "10.77.0.2");
        assert_eq!(first.v6, Some("fd77::2".parse().unwrap()));
        let second = table.assign(node(2), &ANY, none).unwrap();
        assert_eq!(v4(second), "10.77.0.3");
        assert_eq!(table.assign(node(1), &ANY, none), Ok(first));
        let text = table.to_text();
        let mut again = Table::from_text(*table.pools(), &text).unwrap();
        assert_eq!(again.to_text(), text);
        assert_eq!(again.assign(node(2), &ANY, none), Ok(second));
    }

    #[test]
    fn a_wish_is_met_if_the_address_is_free() {
        let mut table = table(&["10.77.0.0/24"]);
        let wish = |text: &str| Wish {
            v4: Some(text.parse().unwrap()),
            ..ANY
        };
        let none = |_: &NodeId| false;
        let lease = table.assign(node(1), &wish("10.77.0.9"), none).unwrap();
        assert_eq!(v4(lease), "10.77.0.9");
        // Taken, that of the server, that of the network, and elsewhere.
        for (number, text) in [
            (2, "10.77.0.9"),
            (3, "10.77.0.1"),
            (4, "10.77.0.255"),
            (5, "10.78.0.9"),
        ] {
            let lease = table.assign(node(number), &wish(text), none).unwrap();
            assert_eq!(v4(lease), format!("10.77.0.{number}"));
        }
        // What it had counts for more than what it wishes for.
        let lease = table.assign(node(1), &wish("10.77.0.99"), none).unwrap();
        assert_eq!(v4(lease), "10.77.0.9");
    }

    #[test]
    fn addresses_of_absent_nodes_are_assigned_when_there_are_no_others() {
        // Addresses for five clients.
        let mut table = table(&["10.77.0.0/29"]);
        for number in 1..=5 {
            table.assign(node(number), &ANY, |_| false).unwrap();
        }
        table.assign(node(1), &ANY, |_| false).unwrap();
        // Node 2 used its own longest ago, and is there.
        let lease = table.assign(node(6), &ANY, |of| *of == node(2)).unwrap();
        assert_eq!(v4(lease), "10.77.0.4");
        assert_eq!(table.get(&node(3)), None);
        assert_eq!(table.assign(node(7), &ANY, |_| true), Err(NoAddress));
        assert_eq!(table.len(), 5);
    }

    #[test]
    fn other_networks_renumber() {
        let mut table = table(&["10.77.0.0/24"]);
        table.assign(node(1), &ANY, |_| false).unwrap();
        table.set_pools(pools(&["10.78.0.0/24", "fd78::/64"]));
        let lease = table.assign(node(1), &ANY, |_| false).unwrap();
        assert_eq!(v4(lease), "10.78.0.2");
        assert!(lease.v6.is_some());
        table.set_pools(pools(&["fd78::/64"]));
        let lease = table.assign(node(1), &ANY, |_| false).unwrap();
        assert_eq!(lease.v4, None);
    }

    #[test]
    fn wrong_lines_are_named_and_doubled_addresses_belong_to_the_last_user() {
        let pools = pools(&["10.77.0.0/24"]);
        for line in ["x", "x 10.77.0.2 - 1", &format!("{} - - 1", node(1))] {
            let text = format!("{HEAD}\n\n{line}\n");
            let error = Table::from_text(pools, &text).unwrap_err();
            assert_eq!(error, TableError { line: 3 }, "{line}");
        }
        let text = format!("{} 10.77.0.2 - 1\n{} 10.77.0.2 - 2\n", node(1), node(2));
        let table = Table::from_text(pools, &text).unwrap();
        assert_eq!((table.len(), table.get(&node(1))), (1, None));
    }

    proptest! {
        /// However nodes come and go, no two have one address, and all are in the networks.
        #[test]
        fn no_two_nodes_have_one_address(
            steps in prop::collection::vec((0_u8..12, 0_u8..12, any::<bool>()), 1..80),
        ) {
            let small = pools(&["10.77.0.0/29", "fd77::/125"]);
            let other = pools(&["10.77.0.0/28"]);
            let mut table = Table::new(small);
            for (number, wished, is_there) in steps {
                table.set_pools(if number == 0 { other } else { small });
                let wish = Wish { v4: Some([10, 77, 0, wished].into()), ..ANY };
                let before = table.len();
                let result = table.assign(node(number), &wish, |_| is_there);
                if let Ok(lease) = result {
                    let network = table.pools().v4().unwrap();
                    prop_assert!(network.contains(lease.v4.unwrap().into()));
                    prop_assert_ne!(lease.v4, table.pools().server_v4());
                } else {
                    prop_assert_eq!(before, table.len());
                }
                let all = table.entries.values().flat_map(|entry| addresses(&entry.lease));
                let all: Vec<IpAddr> = all.collect();
                let unique: BTreeSet<IpAddr> = all.iter().copied().collect();
                prop_assert_eq!(all.len(), unique.len());
                prop_assert_eq!(&unique, &table.taken);
                let again = Table::from_text(*table.pools(), &table.to_text()).unwrap();
                prop_assert_eq!(again.to_text(), table.to_text());
            }
        }
    }
}
