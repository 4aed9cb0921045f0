//! Ports that have packets.
//!
//! A relay may have a thousand ports of which three are busy; polling each in every turn, as the
//! host does with its few sockets, would cost more than forwarding. On Linux the kernel keeps the list
//! (epoll). Elsewhere all ports are polled.

#[cfg(any(test, not(target_os = "linux")))]
mod asked;
#[cfg(target_os = "linux")]
mod kept;

#[cfg(not(target_os = "linux"))]
pub(super) use asked::Ready;
#[cfg(target_os = "linux")]
pub(super) use kept::Ready;

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use anabranch_overlay::relay::{Family, PortId};

    use super::super::{
        RelayConfig,
        pool::{Pool, Port},
    };
    use crate::waker::Waker;

    fn ports() -> Vec<(PortId, Arc<Port>)> {
        let node = anabranch_base::NodeId::from_public_key([0; 32]);
        let pool = Pool::new(&RelayConfig::new(node, [[127, 0, 0, 1].into()]));
        (1..4)
            .map(|bits| (PortId::from_bits(bits << 32), pool.open(Family::V4)))
            .map(|(id, port)| (id, Arc::new(port.unwrap())))
            .collect()
    }

    fn send_to(port: &Port) {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(b"hello", port.public).unwrap();
    }

    #[test]
    fn only_ports_with_packets_are_named() {
        let ready = super::Ready::new().unwrap();
        let bell = Waker::new().unwrap();
        let ports = ports();
        for (id, port) in &ports {
            ready.add(*id, port).unwrap();
        }
        let mut named = Vec::new();
        ready.list(&mut named);
        assert_eq!(named, []);
        send_to(&ports[1].1);
        ready.sleep(&bell, Some(Duration::from_secs(60)));
        ready.list(&mut named);
        assert_eq!(named, [ports[1].0]);
        // It stays on the list until it has been read or removed.
        named.clear();
        ready.remove(ports[1].0, &ports[1].1);
        ready.list(&mut named);
        assert_eq!(named, []);
    }

    #[test]
    fn where_ports_are_polled_all_are_named() {
        let ready = super::asked::Ready::new().unwrap();
        let bell = Waker::new().unwrap();
        let ports = ports();
        for (id, port) in &ports {
            ready.add(*id, port).unwrap();
        }
        send_to(&ports[1].1);
        ready.sleep(&bell, Some(Duration::from_secs(60)));
        ready.remove(ports[0].0, &ports[0].1);
        let mut named = Vec::new();
        ready.list(&mut named);
        assert_eq!(named, [ports[1].0, ports[2].0]);
        bell.ring();
        ready.sleep(&bell, None);
    }
}
