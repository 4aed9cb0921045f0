//! The tunnel: packets of programs and of peers, messages of the control stream, queues, order, and addresses.

use anabranch_base::{Instant, NodeId};
use anabranch_tunnel::{
    fq_codel::{Config, FqCodel, Packet},
    lease::{Pools, Prefix, Table},
    order::{Arrival, Order, Patience},
    packet::{self, Cause, Header},
    wire::{Message, PacketHeader, ServiceMessage, Wish},
};

use crate::Input;

/// The first byte selects the property.
///
/// - Whatever decodes encodes to what decodes to the same.
/// - A packet is read or refused; its answer is a packet of the opposite direction, and is not answered.
/// - What enters the queues leaves them once or is counted, within the bound of memory.
/// - What arrives out of order leaves once, after the longest wait at the latest.
/// - No two nodes have one address, and a table reads what it writes.
pub fn tunnel(data: &[u8]) {
    let Some((&kind, rest)) = data.split_first() else {
        return;
    };
    match kind % 5 {
        0 => messages(rest),
        1 => packets(rest),
        2 => queues(Input(rest)),
        3 => order(Input(rest)),
        _ => addresses(rest),
    }
}

fn messages(data: &[u8]) {
    if let Ok(message) = Message::decode(data) {
        assert_eq!(Message::decode(&message.encode()), Ok(message));
    }
    if let Ok(message) = ServiceMessage::decode(data) {
        assert_eq!(ServiceMessage::decode(&message.encode()), Ok(message));
    }
    if let Ok(header) = PacketHeader::read(data) {
        let mut again = [0; anabranch_tunnel::wire::HEADER_BYTES];
        header.write(&mut again);
        assert_eq!(again[..], data[..again.len()]);
    }
}

fn packets(data: &[u8]) {
    let Ok(header) = Header::read(data) else {
        return;
    };
    assert!(packet::bucket(data, &header, 1) < packet::BUCKETS);
    let mut changed = data.to_vec();
    packet::clamp(&mut changed, &header, 1400);
    packet::mark(&mut changed);
    assert_eq!(Header::read(&changed), Ok(header));
    for cause in [Cause::TooBig(1400), Cause::Prohibited, Cause::NoHost] {
        let Some(reply) = packet::answer(data, &header, cause) else {
            continue;
        };
        let back = Header::read(&reply).expect("an answer is a packet");
        assert_eq!(
            (back.source, back.destination),
            (header.destination, header.source)
        );
        assert_eq!(packet::answer(&reply, &back, cause), None);
    }
}

fn queues(mut input: Input<'_>) {
    const MEMORY_BYTES: usize = 20_000;
    let mut queues = FqCodel::new(Config {
        memory_bytes: MEMORY_BYTES,
        ..Config::default()
    });
    let (mut micros, mut pushed, mut popped) = (0, 0, 0);
    while !input.is_empty() {
        micros += 100 * u64::from(input.byte());
        let now = Instant::from_micros(micros);
        let action = input.byte();
        if action & 1 == 0 {
            let bytes = usize::from(input.byte()) * 8;
            let bucket = u16::from(action >> 1);
            queues.push(now, bucket, Packet::new(&vec![action; bytes]));
            pushed += 1;
        } else {
            let taken = match action & 2 == 0 {
                true => queues.pop(now),
                false => queues.pop_new(now, |bucket| bucket & 1 == 0),
            };
            popped += u64::from(taken.is_some());
        }
        assert!(queues.memory_bytes() <= MEMORY_BYTES);
    }
    while queues.pop(Instant::from_micros(micros)).is_some() {
        popped += 1;
    }
    let stats = queues.stats();
    assert_eq!(pushed, popped + stats.dropped_late + stats.dropped_full);
    assert_eq!((queues.queues(), queues.memory_bytes()), (0, 0));
}

fn order(mut input: Input<'_>) {
    let mut order = Order::new();
    let (mut now, mut arrived, mut left) = (Instant::EPOCH, 0, Vec::new());
    while !input.is_empty() {
        now += std::time::Duration::from_micros(100 * u64::from(input.byte()));
        let bucket = u16::from(input.byte() & 3);
        let sequence = i32::from(input.byte() as i8) as u32;
        let arrival = Arrival {
            place: (bucket, sequence),
            bytes: 1400,
            patience: [Patience::Short, Patience::Long][usize::from(bucket & 1)],
            packet: arrived,
        };
        order.arrive(now, arrival, &mut left);
        arrived += 1;
        order.expire(now, &mut left);
    }
    order.expire(now + Patience::Long.most(), &mut left);
    assert_eq!(order.next_at(), None);
    left.sort_unstable();
    let unique = left.windows(2).all(|pair| pair[0] < pair[1]);
    assert!(unique && left.len() <= arrived, "none leaves twice");
}

fn addresses(data: &[u8]) {
    let pools = |text: &str| {
        let networks = text
            .split(',')
            .filter_map(|part| part.parse::<Prefix>().ok());
        Pools::new(networks).ok()
    };
    if let Ok(text) = std::str::from_utf8(data) {
        for part in text.split(',') {
            if let Ok(network) = part.parse::<Prefix>() {
                assert_eq!(network.to_string().parse(), Ok(network));
            }
        }
        let small = pools("10.77.0.0/29,fd77::/125").expect("networks of a tunnel");
        let _ = pools(text);
        if let Ok(table) = Table::from_text(small, text) {
            let again = Table::from_text(small, &table.to_text()).expect("what it writes");
            assert_eq!(again.to_text(), table.to_text());
        }
    }
    let small = pools("10.77.0.0/29").expect("a network of a tunnel");
    let mut table = Table::new(small);
    for chunk in data.chunks_exact(2) {
        let node = NodeId::from_public_key([chunk[0]; 32]);
        let wish = Wish {
            mtu: 1400,
            v4: Some([10, 77, 0, chunk[1]].into()),
            v6: None,
        };
        let lease = table.assign(node, &wish, |_| chunk[1] & 1 == 1);
        if let Ok(lease) = lease {
            assert_eq!(table.get(&node), Some(lease));
            assert!(table.len() <= 5, "five addresses for clients");
        }
    }
}
