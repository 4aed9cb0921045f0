//! A rendezvous at a relay on loopback: places, the talk over it, circuits, and who is let in.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anabranch::{
    AllowList, Host, HostConfig, SecretKey,
    base::NodeId,
    codes::{Card, Code, DeskEvent, Line, Place, Purpose, Waiting, meet},
    net::{
        Detour,
        relay::{Relay, RelayConfig},
    },
    rendezvous::{Attendance, Pairing, Refusal, RendezvousError, Server, Via, Waiter},
    rights::{Right, Rights},
    ticket::Ticket,
};

use crate::common::addresses;

/// Generous: what is tested takes less than a few seconds.
const HANG: Duration = Duration::from_secs(180);

fn host(seed: u8, allowed: AllowList) -> Host {
    host_at("127.0.0.1:0".parse().unwrap(), seed, allowed)
}

fn host_at(address: SocketAddr, seed: u8, allowed: AllowList) -> Host {
    let config = HostConfig::new(SecretKey::from_seed([seed; 32]), allowed);
    Host::start(config.bind([address])).unwrap()
}

fn id(seed: u8) -> NodeId {
    SecretKey::from_seed([seed; 32]).node_id()
}

/// A relay with a rendezvous, for these nodes or for all.
pub(crate) fn relay(guests: Option<&[u8]>) -> (Host, Via) {
    relay_at("127.0.0.1:0".parse().unwrap(), guests)
}

pub(crate) fn relay_at(address: SocketAddr, guests: Option<&[u8]>) -> (Host, Via) {
    let host = host_at(address, 100, AllowList::everyone());
    let relay = Relay::start(RelayConfig::new(
        host.node_id(),
        ["127.0.0.1".parse().unwrap()],
    ))
    .unwrap();
    let rights = Rights::only(
        Right::UseRendezvous,
        guests.unwrap_or_default().iter().map(|&seed| id(seed)),
    );
    let server = Arc::new(Server::new(relay, rights, guests.is_none(), host.clock()));
    let accepting = host.clone();
    tokio::spawn(async move {
        while let Some(session) = accepting.accept().await {
            let server = server.clone();
            tokio::spawn(async move { server.attend(&session).await });
        }
    });
    let via = format!("{}@{}", host.node_id(), host.addresses()[0]);
    (host, via.parse().unwrap())
}

fn place(number: u16) -> Place {
    Place::new(number).unwrap()
}

async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(HANG, what).await.expect("it ends")
}

#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_meet_talk_and_get_a_circuit() {
    let (_relay, via) = relay(None);
    let (waiting, reaching) = (
        host(1, AllowList::everyone()),
        host(2, AllowList::default()),
    );
    let mut waiter = soon(Waiter::start(&waiting, &via, place(7))).await.unwrap();
    let here = soon(Pairing::reach(&reaching, &via, place(7)))
        .await
        .unwrap();
    let there = soon(waiter.next()).await.unwrap();
    assert_eq!((here.node, there.node), (id(1), id(2)));
    assert_eq!(here.addresses, waiting.addresses());
    assert_eq!(there.addresses, reaching.addresses());
    here.send(b"hello".to_vec()).await.unwrap();
    assert_eq!(soon(there.recv()).await.unwrap(), b"hello");
    there.send(b"welcome".to_vec()).await.unwrap();
    assert_eq!(soon(here.recv()).await.unwrap(), b"welcome");
    // No address of the other side answers: the circuit carries the session.
    reaching.set_detour(here.node, Some(Arc::new(here)));
    let nowhere: SocketAddr = "127.0.0.1:9".parse().unwrap();
    let session = soon(reaching.connect(id(1), &[nowhere][..])).await.unwrap();
    let channels = session.channels();
    assert!(
        channels
            .iter()
            .all(|channel| channel.remote != waiting.addresses()[0]),
        "{channels:?}"
    );
    let accepted = soon(waiting.accept()).await.unwrap();
    assert_eq!(accepted.peer(), id(2));
    // Again, at once, and over a new circuit.
    session.close(0, "again");
    drop((session, accepted));
    let session = soon(reaching.connect(id(1), &[nowhere][..])).await.unwrap();
    assert_eq!(soon(waiting.accept()).await.unwrap().peer(), id(2));
    drop(session);
    // It ends with the connection of the other side to the relay.
    drop((there, waiter));
    let gone = tokio::time::timeout(HANG, reaching.connect(id(1), &[nowhere][..])).await;
    assert!(gone.expect("it ends").is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn places_are_for_one_and_refusals_say_why() {
    let (_relay, via) = relay(None);
    let [first, second, third] = [1, 2, 3].map(|seed| host(seed, AllowList::default()));
    let refused = |error| match error {
        RendezvousError::Refused(refusal) => refusal,
        other => panic!("{other}"),
    };
    let nobody = soon(Pairing::reach(&second, &via, place(7)))
        .await
        .unwrap_err();
    assert_eq!(refused(nobody), Refusal::Nobody);
    let mut waiter = soon(Waiter::start(&first, &via, place(7))).await.unwrap();
    let taken = soon(Waiter::start(&second, &via, place(7)))
        .await
        .unwrap_err();
    assert_eq!(refused(taken), Refusal::Taken);
    let pairing = soon(Pairing::reach(&second, &via, place(7))).await.unwrap();
    let busy = soon(Pairing::reach(&third, &via, place(7)))
        .await
        .unwrap_err();
    assert_eq!(refused(busy), Refusal::Busy);
    // A wrong code: the other side parts, and the next may try.
    soon(waiter.next()).await.unwrap().release().await;
    assert!(soon(pairing.recv()).await.is_err());
    soon(Pairing::reach(&third, &via, place(7))).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_are_let_in_only_where_the_relay_serves_them() {
    let (_relay, via) = relay(Some(&[1]));
    let (listed, stranger) = (host(1, AllowList::default()), host(2, AllowList::default()));
    let _waiter = soon(Waiter::start(&listed, &via, place(7))).await.unwrap();
    let error = soon(Pairing::reach(&stranger, &via, place(7)))
        .await
        .unwrap_err();
    assert!(
        matches!(error, RendezvousError::Refused(Refusal::NoRight)),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_meet_by_name() {
    let (_relay, via) = relay(None);
    let [ada, bob] = [1, 2].map(|seed| host(seed, AllowList::default()));
    let (here, there) = soon(async {
        tokio::join!(
            Pairing::meet(&ada, &via, bob.node_id()),
            Pairing::meet(&bob, &via, ada.node_id()),
        )
    })
    .await;
    assert_eq!(here.unwrap().node, bob.node_id());
    assert_eq!(there.unwrap().node, ada.node_id());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_code_is_good_over_the_relay() {
    let (_relay, via) = relay(None);
    let (issuer, holder) = (
        host(1, AllowList::everyone()),
        host(2, AllowList::default()),
    );
    let card = |purpose, host: &Host| Card::new(purpose, "ada", host.addresses());
    let waiting = Waiting::start(&issuer, card(Purpose::Send, &issuer), Some(&via));
    let mut waiting = soon(waiting).await.unwrap();
    let code: Code = *waiting.desk().code();
    // Nobody serves the sessions of the issuer: over the local network, the code is not answered.
    let theirs = card(Purpose::Receive, &holder);
    let (met, event) =
        soon(async { tokio::join!(meet(&holder, &code, &theirs, Some(&via)), waiting.next()) })
            .await;
    let met = met.unwrap();
    assert_eq!(
        (met.node, met.card.purpose),
        (issuer.node_id(), Purpose::Send)
    );
    assert!(met.detour.is_some());
    let DeskEvent::Met(seen) = event else {
        panic!("{event:?}");
    };
    assert_eq!(seen.node, holder.node_id());
    let circuit = seen.detour.unwrap();
    assert!(soon(circuit.open()).await.is_some());
}

/// An issuer whose sessions are served, and which is found by mDNS on loopback.
async fn issuer(seed: u8, via: Option<&Via>) -> (Host, Waiting) {
    let host = host(seed, AllowList::everyone());
    let card = Card::new(Purpose::Send, "ada", host.addresses());
    let waiting = soon(Waiting::start(&host, card, via)).await.unwrap();
    let (accepting, desk) = (host.clone(), waiting.desk().clone());
    tokio::spawn(async move {
        while let Some(session) = accepting.accept().await {
            let desk = desk.clone();
            tokio::spawn(async move { desk.attend(&session).await });
        }
    });
    (host, waiting)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_code_is_good_nearby_whichever_side_names_a_relay() {
    let (_relay, via) = relay(None);
    for (theirs, ours) in [(Some(&via), None), (None, Some(&via))] {
        let (_issuer, mut waiting) = issuer(1, theirs).await;
        let holder = host(2, AllowList::default());
        let card = Card::new(Purpose::Receive, "bob", holder.addresses());
        let code = *waiting.desk().code();
        let (met, event) =
            soon(async { tokio::join!(meet(&holder, &code, &card, ours), waiting.next()) }).await;
        assert!(met.unwrap().detour.is_none());
        assert!(matches!(event, DeskEvent::Met(_)), "{event:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_code_counts_once_though_its_issuer_is_in_two_places() {
    let (_relay, via) = relay(None);
    let (_issuer, mut waiting) = issuer(1, Some(&via)).await;
    let holder = host(2, AllowList::default());
    let card = Card::new(Purpose::Receive, "bob", holder.addresses());
    let right = waiting.desk().code().to_string();
    let place = right.split('-').next().unwrap();
    let wrong = [format!("{place}-zebra-zone"), format!("{place}-zebra-zoo")];
    let wrong: Code = wrong
        .iter()
        .find(|wrong| **wrong != right)
        .unwrap()
        .parse()
        .unwrap();
    for left in [2, 1] {
        let refused = soon(meet(&holder, &wrong, &card, Some(&via))).await;
        assert!(refused.is_err());
        let event = soon(waiting.next()).await;
        assert!(
            matches!(event, DeskEvent::Wrong { left: now } if now == left),
            "{event:?}"
        );
    }
    let code = *waiting.desk().code();
    assert!(soon(meet(&holder, &code, &card, Some(&via))).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_code_is_good_nearby_while_the_relay_is_away_and_there_when_it_is_back() {
    let (gone, via) = relay_at(addresses(1)[0], None);
    gone.shutdown().await;
    drop(gone);
    let (_issuer, mut waiting) = issuer(1, Some(&via)).await;
    assert!(waiting.relay_failure().is_some());
    let (_relay, again) = relay_at(via.remotes.addresses[0], None);
    assert_eq!(again, via);
    let code = *waiting.desk().code();
    let (other, holder) = (host(3, AllowList::default()), host(2, AllowList::default()));
    let reached = async {
        while Pairing::reach(&other, &via, code.place()).await.is_err() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    soon(reached).await;
    let card = Card::new(Purpose::Receive, "bob", holder.addresses());
    let (met, _) =
        soon(async { tokio::join!(meet(&holder, &code, &card, None), waiting.next()) }).await;
    assert!(met.unwrap().detour.is_none());
}

/// A ticket of this node with an address at which nobody answers.
fn ticket(host: &Host, via: &Via) -> Ticket {
    let port = host.addresses()[0].port();
    // One of the ranges for documentation, with the port that tells programs with one key apart.
    Ticket {
        node: host.node_id(),
        secret: None,
        addresses: vec![SocketAddr::new([127, 0, 0, 99].into(), port)],
        hosts: Vec::new(),
        via: Some(via.clone()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_leads_over_the_relay_where_no_address_answers() {
    let (_relay, via) = relay(None);
    let receiver = host(1, AllowList::everyone());
    let attendance = soon(Attendance::start(&receiver, &via, |_| true)).await;
    assert_eq!(attendance.failure(), None);
    let ticket = ticket(&receiver, &via);
    // One after the other, and two at a time.
    for seeds in [&[2][..], &[2], &[3, 4]] {
        for &seed in seeds {
            let sender = host(seed, AllowList::default());
            let (ticket, receiver) = (ticket.clone(), receiver.clone());
            ticket.prepare(&sender);
            let session = soon(sender.connect(ticket.node, ticket.remotes())).await;
            let session = session.unwrap();
            let accepted = soon(receiver.accept()).await.unwrap();
            assert_eq!(accepted.peer(), sender.node_id());
            // By the address that the relay sees.
            let mut remotes = session.channels().into_iter().map(|channel| channel.remote);
            assert!(remotes.any(|remote| receiver.addresses().contains(&remote)));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_not_wanted_is_not_let_in_at_the_relay() {
    let (_relay, via) = relay(None);
    let receiver = host(1, AllowList::everyone());
    let wanted = id(2);
    let judge = move |node: &NodeId| *node == wanted;
    let _attendance = soon(Attendance::start(&receiver, &via, judge)).await;
    let [stranger, friend] = [3, 2].map(|seed| host(seed, AllowList::default()));
    let port = receiver.addresses()[0].port();
    let pairing = soon(Pairing::call(&stranger, &via, id(1), port))
        .await
        .unwrap();
    // The receiver has left; the next one is served.
    assert!(soon(pairing.recv()).await.is_err());
    let calling = async {
        loop {
            match Pairing::call(&friend, &via, id(1), port).await {
                Ok(pairing) => return pairing,
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    };
    let pairing = soon(calling).await;
    assert!(soon(pairing.open()).await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_with_one_key_are_told_apart_and_a_relay_that_is_back_is_used() {
    let (gone, via) = relay_at(addresses(1)[0], None);
    gone.shutdown().await;
    drop(gone);
    let [node, program] = [1, 1].map(|seed| host(seed, AllowList::everyone()));
    let attending = async {
        tokio::join!(
            Attendance::start(&node, &via, |_| true),
            Attendance::start(&program, &via, |_| true)
        )
    };
    let attending = soon(attending).await;
    assert!(attending.0.failure().is_some() && !attending.0.is_refused());
    let (_relay, again) = relay_at(via.remotes.addresses[0], None);
    assert_eq!(again, via);
    let back = async {
        while attending.0.failure().is_some() || attending.1.failure().is_some() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    soon(back).await;
    for (seed, meant) in [(2, &program), (3, &node)] {
        let sender = host(seed, AllowList::default());
        let ticket = ticket(meant, &via);
        ticket.prepare(&sender);
        let session = soon(sender.connect(ticket.node, ticket.remotes())).await;
        let session = session.unwrap();
        assert_eq!(soon(meant.accept()).await.unwrap().peer(), id(seed));
        session.close(0, "done");
    }
}
