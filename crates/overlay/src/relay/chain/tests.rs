use proptest::prelude::*;

use super::*;
use crate::relay::{Book, Config, Family, Members, Outcome, Role, Train, Verdict};

fn node(number: u8) -> NodeId {
    NodeId::from_public_key([number; 32])
}

fn ip(number: u8) -> IpAddr {
    [192, 0, 2, number].into()
}

/// Node `n` is at 192.0.2.n.
struct Sites;

impl Members for Sites {
    fn is_member(&self, _: NodeId) -> bool {
        true
    }

    fn is_at(&self, node: NodeId, address: SocketAddr, _: Role) -> bool {
        address.ip() == ip(node.public_key()[0])
    }

    fn addresses(&self, node: NodeId) -> Vec<SocketAddr> {
        vec![SocketAddr::new(ip(node.public_key()[0]), 4433)]
    }
}

/// As node `.0` sees it: each link has a network of its own, so a node is elsewhere for each of its neighbours.
struct Links(u8);

impl Links {
    fn address(&self, other: u8) -> SocketAddr {
        let link = 10 * self.0.min(other) + self.0.max(other);
        SocketAddr::from(([10, 9, link, other], 4433))
    }
}

impl Members for Links {
    fn is_member(&self, _: NodeId) -> bool {
        true
    }

    fn is_at(&self, node: NodeId, address: SocketAddr, _: Role) -> bool {
        address.ip() == self.address(node.public_key()[0]).ip()
    }

    fn addresses(&self, node: NodeId) -> Vec<SocketAddr> {
        vec![self.address(node.public_key()[0])]
    }
}

const NOW: Instant = Instant::from_secs(100);
const SOURCE: u8 = 1;
const DESTINATION: u8 = 9;

fn spec(relays: &[u8]) -> ChainSpec {
    ChainSpec {
        circuit: CircuitId(7),
        source: node(SOURCE),
        relays: relays.iter().copied().map(node).collect(),
        first: relays.first().map_or(ip(0), |&first| ip(first)),
        destination: node(DESTINATION),
        towards: SocketAddr::new(ip(DESTINATION), 4433),
        origin: Origin::Exact(SocketAddr::new(ip(SOURCE), 4433)),
        rate: Rate::from_mbps(10),
        lifetime: Duration::from_secs(60),
    }
}

/// A relay `number` that knows its address only as "where you reach me".
fn book(number: u8) -> Book {
    Book::new(NOW, Config::new(node(number))).unwrap()
}

fn ask(book: &mut Book, now: Instant, request: &Request) -> Answer {
    ask_where(
        book,
        now,
        SocketAddr::new(ip(SOURCE), 4433),
        request,
        &Sites,
    )
}

fn ask_where(
    book: &mut Book,
    now: Instant,
    seen: SocketAddr,
    request: &Request,
    members: &dyn Members,
) -> Answer {
    loop {
        match book.request(now, node(SOURCE), &[seen], request, members) {
            Outcome::Answer(answer) => return answer,
            Outcome::NeedsPort(family) => {
                assert_eq!(family, Family::V4);
                let port = 5_000 + book.ports_len() as u16;
                book.add_port(SocketAddr::from(([0, 0, 0, 0], port)));
            }
        }
    }
}

/// Relays 2, 3, … with everything asked and answered that is due; the relays in order of being asked.
fn settle(chain: &mut Chain, books: &mut [Book], now: Instant) -> Vec<NodeId> {
    let mut asked = Vec::new();
    while let Some((relay, request)) = chain.next(now) {
        let book = books.iter_mut().find(|book| book.config().node == relay);
        let answer = ask(book.expect("a relay"), now, &request);
        chain.answer(now, relay, &answer);
        asked.push(relay);
    }
    asked
}

#[test]
fn the_last_relay_is_asked_first_and_packets_find_their_way() {
    let mut books: Vec<Book> = (2..5).map(book).collect();
    let mut chain = Chain::new(spec(&[2, 3, 4])).unwrap();
    assert_eq!(chain.entrance(), None);
    assert_eq!(
        settle(&mut chain, &mut books, NOW),
        [node(4), node(3), node(2)]
    );
    let entrance = chain.entrance().unwrap();
    assert_eq!(entrance.ip(), ip(2));
    assert_eq!(chain.rate(), Some(Rate::from_mbps(10)));

    // Hop by hop: where it comes to, and from where.
    let (mut to, mut from) = (entrance, SocketAddr::new(ip(SOURCE), 4433));
    for (number, book) in (2..).zip(&mut books) {
        assert_eq!(to.ip(), ip(number));
        let report = book.circuits(NOW).next().unwrap();
        assert_eq!(report.near.port(), to.port());
        // The only port of each relay, as all its peers differ.
        assert_eq!((report.near, book.ports_len()), (report.far, 1));
        let port = crate::relay::PortId::from_bits(1 << 32);
        let train = Train {
            remote: from,
            local_ip: None,
            bytes: 100,
            packet_bytes: 100,
        };
        let Verdict::Forward(forward) = book.admit(NOW, port, train) else {
            panic!("dropped at {number}");
        };
        (from, to) = (
            SocketAddr::new(ip(number), report.far.port()),
            forward.remote,
        );
    }
    assert_eq!(to, SocketAddr::new(ip(DESTINATION), 4433));
}

/// The source knows none of the addresses that its relays have for each other, nor do they know those that it has for them.
#[test]
fn neighbours_meet_where_they_know_each_other() {
    let mut books: Vec<Book> = (2..5).map(book).collect();
    let mut chain = Chain::new(ChainSpec {
        first: Links(SOURCE).address(2).ip(),
        towards: SocketAddr::from(([0, 0, 0, 0], 0)),
        origin: Origin::Known,
        ..spec(&[2, 3, 4])
    })
    .unwrap();
    while let Some((relay, request)) = chain.next(NOW) {
        let number = relay.public_key()[0];
        let (members, seen) = (Links(number), Links(number).address(SOURCE));
        let book = &mut books[usize::from(number - 2)];
        let answer = ask_where(book, NOW, seen, &request, &members);
        chain.answer(NOW, relay, &answer);
    }
    assert_eq!(chain.broken(), None);
    let (mut to, mut before) = (chain.entrance().unwrap(), SOURCE);
    for (number, book) in (2..).zip(&mut books) {
        assert_eq!(to.ip(), Links(before).address(number).ip());
        let port = crate::relay::PortId::from_bits(1 << 32);
        let train = Train {
            remote: SocketAddr::new(Links(number).address(before).ip(), 6_000),
            local_ip: None,
            bytes: 100,
            packet_bytes: 100,
        };
        let Verdict::Forward(forward) = book.admit(NOW, port, train) else {
            panic!("dropped at {number}");
        };
        (to, before) = (forward.remote, number);
    }
    assert_eq!(to, Links(4).address(DESTINATION));
}

#[test]
fn a_way_lives_as_long_as_it_is_refreshed() {
    let mut books: Vec<Book> = (2..4).map(book).collect();
    let mut chain = Chain::new(spec(&[2, 3])).unwrap();
    settle(&mut chain, &mut books, NOW);
    let mut now = NOW;
    for _ in 0..20 {
        now = chain.timeout().unwrap();
        assert_eq!(settle(&mut chain, &mut books, now).len(), 2);
        assert!(chain.entrance().is_some());
    }
    assert_eq!(now, NOW + Duration::from_secs(600));
    for book in &mut books {
        book.expire(now);
        assert_eq!(book.circuits_len(), 1);
    }
    chain.close();
    assert_eq!((chain.entrance(), chain.is_over()), (None, false));
    assert_eq!(settle(&mut chain, &mut books, now).len(), 2);
    assert!(chain.is_over());
    assert!(books.iter().all(|book| book.circuits_len() == 0));
}

#[test]
fn a_relay_that_refuses_or_is_lost_breaks_the_way_and_the_others_are_closed() {
    let mut books: Vec<Book> = (2..5).map(book).collect();
    // Relay 3 has been told that it has no rate to give.
    let none = crate::relay::Quota {
        rate: Rate::ZERO,
        ..crate::relay::Quota::default()
    };
    books[1].set_quota(NOW, node(SOURCE), none);
    let mut chain = Chain::new(spec(&[2, 3, 4])).unwrap();
    let asked = settle(&mut chain, &mut books, NOW);
    assert_eq!(asked, [node(4), node(3), node(4)]);
    let refused = Broken::Refused {
        relay: node(3),
        refusal: Refusal::Rate,
    };
    assert_eq!((chain.broken(), chain.is_over()), (Some(refused), true));
    assert!(books.iter().all(|book| book.circuits_len() == 0));

    let mut chain = Chain::new(spec(&[2, 4])).unwrap();
    settle(&mut chain, &mut books, NOW);
    chain.lost(node(4));
    assert_eq!(chain.entrance(), None);
    assert_eq!(settle(&mut chain, &mut books, NOW), [node(2)]);
    assert_eq!(chain.broken(), Some(Broken::Lost { relay: node(4) }));
    assert!(chain.is_over());
}

#[test]
fn no_answer_is_an_answer_after_a_while() {
    let mut chain = Chain::new(spec(&[2, 3])).unwrap();
    let (relay, _) = chain.next(NOW).unwrap();
    assert_eq!((relay, chain.next(NOW)), (node(3), None));
    let until = chain.timeout().unwrap();
    assert_eq!(until, NOW + ANSWER_WITHIN);
    // It may have been opened all the same.
    let close = Request::Close {
        circuit: CircuitId(7),
    };
    assert_eq!(chain.next(until), Some((node(3), close)));
    assert_eq!(chain.broken(), Some(Broken::Lost { relay: node(3) }));
    assert!(chain.is_over());
}

#[test]
fn the_source_can_be_learnt_anew() {
    let mut books: Vec<Book> = (2..4).map(book).collect();
    let mut seen = spec(&[2, 3]);
    seen.origin = Origin::Known;
    let mut chain = Chain::new(seen).unwrap();
    settle(&mut chain, &mut books, NOW);
    chain.relearn(NOW);
    let (relay, request) = chain.next(NOW).unwrap();
    assert_eq!(relay, node(2));
    assert!(matches!(request, Request::Refresh { relearn: true, .. }));
    let answer = ask(&mut books[0], NOW, &request);
    chain.answer(NOW, relay, &answer);
    assert_eq!(chain.next(NOW), None);
    assert!(chain.entrance().is_some());
}

#[test]
fn a_wish_is_not_forgotten_while_the_relay_is_asked_something_else() {
    let mut books: Vec<Book> = (2..3).map(book).collect();
    let mut seen = spec(&[2]);
    seen.origin = Origin::Known;
    let mut chain = Chain::new(seen).unwrap();
    settle(&mut chain, &mut books, NOW);
    let due = chain.timeout().unwrap();
    let (relay, request) = chain.next(due).unwrap();
    assert!(matches!(request, Request::Refresh { relearn: false, .. }));
    chain.relearn(due);
    assert_eq!(chain.next(due), None);
    let answer = ask(&mut books[0], due, &request);
    chain.answer(due, relay, &answer);
    let (_, request) = chain.next(due).unwrap();
    assert!(matches!(request, Request::Refresh { relearn: true, .. }));
    let answer = ask(&mut books[0], due, &request);
    chain.answer(due, relay, &answer);
    assert_eq!(chain.next(due), None);
}

#[test]
fn a_way_that_is_none_is_refused() {
    for relays in [
        &[][..],
        &[2, 3, 4, 5, 6, 7, 8],
        &[2, 3, 2],
        &[SOURCE],
        &[DESTINATION],
    ] {
        assert_eq!(Chain::new(spec(relays)).err(), Some(Broken::Route));
    }
}

proptest! {
    /// Whatever relays answer, and whoever is lost when: what was opened is refreshed in time or closed, the
    /// way ends with nothing left standing, and a broken one stays so.
    #[test]
    fn nothing_is_left_behind(
        steps in prop::collection::vec((0u8..7, 2u8..6, 0u64..40_000), 1..60),
    ) {
        let mut books: Vec<Book> = (2..6).map(book).collect();
        let mut chain = Chain::new(spec(&[2, 3, 4, 5])).unwrap();
        let mut now = NOW;
        let mut unanswered: Vec<(NodeId, Answer)> = Vec::new();
        let mut lost = Vec::new();
        for (what, number, millis) in steps {
            let was_broken = chain.broken();
            match what {
                0 => now += Duration::from_millis(millis),
                1 if millis < 4_000 => {
                    chain.lost(node(number));
                    lost.push(node(number));
                }
                2 if millis < 2_000 => chain.close(),
                3 => chain.relearn(now),
                4 => {
                    let other = Answer::Refused { circuit: CircuitId(8), refusal: Refusal::Full };
                    chain.answer(now, node(number), &other);
                }
                _ => {
                    for (relay, answer) in unanswered.drain(..) {
                        chain.answer(now, relay, &answer);
                    }
                }
            }
            while let Some((relay, request)) = chain.next(now) {
                if !lost.contains(&relay) {
                    let book = books.iter_mut().find(|book| book.config().node == relay);
                    unanswered.push((relay, ask(book.unwrap(), now, &request)));
                }
            }
            if was_broken.is_some() {
                prop_assert_eq!(chain.broken(), was_broken);
                prop_assert_eq!(chain.entrance(), None);
            }
            if chain.is_over() {
                let stands = |book: &Book| {
                    book.circuits_len() > 0 && !lost.contains(&book.config().node)
                };
                prop_assert!(!books.iter().any(stands));
            }
        }
        chain.close();
        settle(&mut chain, &mut books, now);
        prop_assert!(chain.is_over());
        for book in &mut books {
            book.expire(now + Duration::from_secs(61));
            prop_assert_eq!(book.circuits_len(), 0);
        }
    }
}
