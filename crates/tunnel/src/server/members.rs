//! Clients of a server by node, session and address.
//!
//! A node has one membership: when it joins again, in the same session or another, the earlier membership ends and the new one has the
//! addresses. Places are removed only by the membership that holds them, so that the end of an earlier session takes nothing from a
//! later one.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::Arc,
};

use anabranch::base::{NodeId, SessionId};

use super::member::Member;
use crate::{
    lease::{Lease, NoAddress, Pools, Table},
    wire::{Assigned, CODE_ENDED, CODE_REPLACED, Terms, Wish},
};

/// Invariant: each member in a table is in `by_node`, and its addresses in `by_v4` and `by_v6` are those of its terms.
#[derive(Debug)]
pub(super) struct Members {
    pub(super) table: Table,
    mtu: u16,
    by_node: HashMap<NodeId, Arc<Member>>,
    by_session: HashMap<SessionId, Arc<Member>>,
    by_v4: HashMap<Ipv4Addr, Arc<Member>>,
    by_v6: HashMap<Ipv6Addr, Arc<Member>>,
}

/// Removes an entry, if it is that of this member.
fn remove<K: std::hash::Hash + Eq>(
    map: &mut HashMap<K, Arc<Member>>,
    key: &K,
    member: &Arc<Member>,
) {
    if map.get(key).is_some_and(|held| Arc::ptr_eq(held, member)) {
        map.remove(key);
    }
}

impl Members {
    pub(super) fn new(table: Table, mtu: u16) -> Self {
        Self {
            table,
            mtu,
            by_node: HashMap::new(),
            by_session: HashMap::new(),
            by_v4: HashMap::new(),
            by_v6: HashMap::new(),
        }
    }

    fn terms(&self, lease: Lease, mtu: u16) -> Terms {
        let pools = self.table.pools();
        Terms {
            mtu: self.mtu.min(mtu),
            v4: lease.v4.zip(pools.v4().zip(pools.server_v4())).map(
                |(address, (network, server))| Assigned {
                    address,
                    length: network.length(),
                    server,
                },
            ),
            v6: lease.v6.zip(pools.v6().zip(pools.server_v6())).map(
                |(address, (network, server))| Assigned {
                    address,
                    length: network.length(),
                    server,
                },
            ),
        }
    }

    /// Takes a node in; its earlier membership ends.
    pub(super) fn join(
        &mut self,
        node: NodeId,
        session: SessionId,
        wish: &Wish,
    ) -> Result<Arc<Member>, NoAddress> {
        let by_node = &self.by_node;
        let lease = self
            .table
            .assign(node, wish, |other| by_node.contains_key(other))?;
        let member = Member::new(node, session, self.terms(lease, wish.mtu));
        if let Some(before) = self.by_node.insert(node, member.clone()) {
            before.end(CODE_REPLACED);
            remove(&mut self.by_session, &before.session, &before);
        }
        self.by_session.insert(session, member.clone());
        self.place(&lease, &member);
        Ok(member)
    }

    fn place(&mut self, lease: &Lease, member: &Arc<Member>) {
        if let Some(v4) = lease.v4 {
            self.by_v4.insert(v4, member.clone());
        }
        if let Some(v6) = lease.v6 {
            self.by_v6.insert(v6, member.clone());
        }
    }

    /// Ends a membership and gives up its places; false if another one had taken its place.
    pub(super) fn leave(&mut self, member: &Arc<Member>) -> bool {
        let terms = member.last_terms();
        member.end(CODE_ENDED);
        if let Some(v4) = terms.v4 {
            remove(&mut self.by_v4, &v4.address, member);
        }
        if let Some(v6) = terms.v6 {
            remove(&mut self.by_v6, &v6.address, member);
        }
        remove(&mut self.by_session, &member.session, member);
        let is_last = self.by_node.get(&member.node);
        let is_last = is_last.is_some_and(|held| Arc::ptr_eq(held, member));
        remove(&mut self.by_node, &member.node, member);
        is_last
    }

    /// The member of a session.
    pub(super) fn of_session(&self, session: &SessionId) -> Option<&Arc<Member>> {
        self.by_session.get(session)
    }

    /// The member with an address.
    pub(super) fn at(&self, address: IpAddr) -> Option<&Arc<Member>> {
        match address {
            IpAddr::V4(v4) => self.by_v4.get(&v4),
            IpAddr::V6(v6) => self.by_v6.get(&v6),
        }
    }

    /// All members.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Member>> {
        self.by_node.values()
    }

    /// Changes the networks, and the addresses of all members with them. Members for whom there is none are over.
    pub(super) fn set_pools(&mut self, pools: Pools) {
        if *self.table.pools() == pools {
            return;
        }
        self.table.set_pools(pools);
        self.by_v4.clear();
        self.by_v6.clear();
        let all: Vec<Arc<Member>> = self.by_node.values().cloned().collect();
        for member in all {
            let mtu = member.terms().map_or(self.mtu, |terms| terms.mtu);
            let none = Wish {
                mtu,
                v4: None,
                v6: None,
            };
            let by_node = &self.by_node;
            let lease = self
                .table
                .assign(member.node, &none, |other| by_node.contains_key(other));
            match lease {
                Ok(lease) => {
                    member.renumber(self.terms(lease, mtu));
                    self.place(&lease, &member);
                }
                Err(NoAddress) => {
                    member.end(CODE_ENDED);
                    remove(&mut self.by_session, &member.session, &member);
                    self.by_node.remove(&member.node);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: Wish = Wish {
        mtu: 1300,
        v4: None,
        v6: None,
    };

    fn pools(texts: &[&str]) -> Pools {
        Pools::new(texts.iter().map(|text| text.parse().unwrap())).unwrap()
    }

    fn members() -> Members {
        Members::new(Table::new(pools(&["10.77.0.0/24", "fd77::/64"])), 1400)
    }

    fn node(number: u8) -> NodeId {
        NodeId::from_public_key([number; 32])
    }

    fn at(members: &Members, text: &str) -> Option<SessionId> {
        let member = members.at(text.parse().unwrap());
        member.map(|member| member.session)
    }

    #[test]
    fn terms_are_those_of_the_networks_and_of_the_smaller_mtu() {
        let mut members = members();
        let member = members.join(node(1), SessionId(1), &ANY).unwrap();
        let terms = member.terms().unwrap();
        assert_eq!((terms.mtu, terms.v4.unwrap().length), (1300, 24));
        assert_eq!(terms.v6.unwrap().server.to_string(), "fd77::1");
        assert!(member.has("10.77.0.2".parse().unwrap()));
        assert!(member.has("fd77::2".parse().unwrap()));
        assert!(!member.has("10.77.0.3".parse().unwrap()));
    }

    /// The end of the earlier session comes after the later one has begun, as after a client was killed and started again.
    #[test]
    fn an_earlier_session_takes_nothing_from_a_later_one() {
        let mut members = members();
        let first = members.join(node(1), SessionId(1), &ANY).unwrap();
        let second = members.join(node(1), SessionId(2), &ANY).unwrap();
        assert_eq!(at(&members, "10.77.0.2"), Some(SessionId(2)));
        // It may not send any more.
        assert_eq!(first.terms(), None);
        assert!(!first.has("10.77.0.2".parse().unwrap()));
        assert!(members.of_session(&SessionId(1)).is_none());
        assert!(!members.leave(&first));
        assert_eq!(at(&members, "10.77.0.2"), Some(SessionId(2)));
        assert_eq!(at(&members, "fd77::2"), Some(SessionId(2)));
        assert!(members.leave(&second));
        assert_eq!(at(&members, "10.77.0.2"), None);
        assert_eq!(members.all().count(), 0);
    }

    #[test]
    fn a_second_request_of_a_session_replaces_the_first() {
        let mut members = members();
        let first = members.join(node(1), SessionId(1), &ANY).unwrap();
        let second = members.join(node(1), SessionId(1), &ANY).unwrap();
        assert!(first.terms().is_none() && second.terms().is_some());
        assert!(!members.leave(&first));
        let held = members.of_session(&SessionId(1)).unwrap();
        assert!(Arc::ptr_eq(held, &second));
        assert!(second.take_packets(false) && second.take_packets(true));
        assert!(!second.take_packets(false), "one stream of each kind");
    }

    #[test]
    fn an_address_assigned_to_another_is_not_that_of_the_first_any_more() {
        let mut members = Members::new(Table::new(pools(&["10.77.0.0/30"])), 1400);
        let first = members.join(node(1), SessionId(1), &ANY).unwrap();
        assert!(members.join(node(2), SessionId(2), &ANY).is_err(), "in use");
        members.leave(&first);
        let second = members.join(node(2), SessionId(2), &ANY).unwrap();
        let address = "10.77.0.2".parse().unwrap();
        assert!(second.has(address) && !first.has(address));
        // The first leaves once more, when its stream ends.
        members.leave(&first);
        assert_eq!(at(&members, "10.77.0.2"), Some(SessionId(2)));
    }

    #[test]
    fn other_networks_renumber_all() {
        let mut members = members();
        let first = members.join(node(1), SessionId(1), &ANY).unwrap();
        let second = members.join(node(2), SessionId(2), &ANY).unwrap();
        members.set_pools(pools(&["10.78.0.0/30"]));
        // There is one address for two.
        let kept: Vec<_> = [&first, &second]
            .into_iter()
            .filter(|member| member.terms().is_some())
            .collect();
        assert_eq!(kept.len(), 1);
        assert!(kept[0].has("10.78.0.2".parse().unwrap()));
        assert_eq!(at(&members, "10.78.0.2"), Some(kept[0].session));
        assert_eq!(at(&members, "10.77.0.2"), None);
        assert_eq!(at(&members, "fd77::2"), None);
    }
}
