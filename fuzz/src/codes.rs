//! Codes: their text, the messages of the exchange behind them, cards, and the rendezvous.

use std::collections::BTreeMap;

use anabranch::{
    codes::{Card, Code, MESSAGE_BYTES_MAX, Message, Place},
    rendezvous::{Guest, Notice, Request, Table},
};
use anabranch_base::{Instant, NodeId};

/// Messages that are read are written to the same bytes; a rendezvous keeps its guests in pairs whatever they ask for.
pub fn codes(data: &[u8]) {
    if let Ok(message) = Message::decode(data) {
        assert!(data.len() <= MESSAGE_BYTES_MAX);
        assert_eq!(message.encode(), data);
    }
    if let Ok(request) = Request::decode(data) {
        assert_eq!(request.encode(), data);
    }
    if let Ok(notice) = Notice::decode(data) {
        assert_eq!(notice.encode(), data);
    }
    if let Ok(card) = Card::decode(data) {
        assert_eq!(Card::decode(&card.encode()), Ok(card));
    }
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = Code::is_meant_by(text);
        if let Ok(code) = text.parse::<Code>() {
            assert_eq!(code.to_string().parse(), Ok(code));
        }
    }
    rendezvous(data);
}

/// Two bytes are one request of one of eight guests.
fn rendezvous(data: &[u8]) {
    let node = |number: u8| NodeId::from_public_key([number; 32]);
    let (mut table, mut now) = (Table::default(), Instant::EPOCH);
    let mut pairs: BTreeMap<u64, Option<Guest>> = BTreeMap::new();
    for bytes in data.as_chunks::<2>().0 {
        let [what, which] = *bytes;
        let (number, operand) = (which % 8, which / 8);
        let guest = Guest(u64::from(number));
        let place = Place::new(u16::from(operand % 4)).expect("a small number");
        match what % 9 {
            0 => _ = table.wait(now, guest, place),
            1 => _ = table.reach(guest, place),
            2 => _ = table.say(guest),
            3 => _ = table.part(guest),
            4 => _ = table.meet(guest, node(number), node(operand % 8)),
            5 => _ = table.leave(guest),
            6 => _ = table.attend(guest, node(number), operand.into()),
            7 => _ = table.call(guest, node(number), node(operand % 8), (operand / 8).into()),
            _ => {
                now += std::time::Duration::from_secs(u64::from(operand) * 10);
                _ = table.expire(now);
            }
        }
        pairs.extend((0..8).map(|number| (number, table.other(Guest(number)))));
        for (one, other) in &pairs {
            if let Some(other) = other {
                assert_eq!(pairs.get(&other.0), Some(&Some(Guest(*one))));
            }
        }
    }
}
