use anabranch_net::HostConfig;
use anabranch_session::{AllowList, SecretKey};
use tokio::sync::mpsc;

use super::*;
use crate::codes::{
    card::Purpose,
    desk::{Desk, DeskEvent},
};

/// Generous: these exchanges take milliseconds.
const HANG: Duration = Duration::from_secs(60);

fn host(seed: u8, allowed: AllowList) -> Host {
    let config = HostConfig::new(SecretKey::from_seed([seed; 32]), allowed);
    let loopback: SocketAddr = "127.0.0.1:0".parse().unwrap();
    Host::start(config.bind([loopback])).unwrap()
}

fn code(text: &str) -> Code {
    text.parse().unwrap()
}

fn card(purpose: Purpose, host: &Host) -> Card {
    Card::new(purpose, "ada", host.addresses())
}

fn found(host: &Host) -> Found {
    Found {
        node: host.node_id(),
        addresses: host.addresses(),
    }
}

/// A desk for the code `river-lamp-orbit` that serves all sessions of its host.
fn issuer(seed: u8) -> (Host, Arc<Desk>, mpsc::Receiver<DeskEvent>) {
    let host = host(seed, AllowList::everyone());
    let (desk, events) = Desk::open(
        code("river-lamp-orbit"),
        host.node_id(),
        card(Purpose::Send, &host),
    );
    let (accepting, serving) = (host.clone(), desk.clone());
    tokio::spawn(async move {
        while let Some(session) = accepting.accept().await {
            let desk = serving.clone();
            tokio::spawn(async move { desk.attend(&session).await });
        }
    });
    (host, desk, events)
}

async fn meet_these(host: &Host, text: &str, issuers: &[Found]) -> Result<Met, MeetingError> {
    let mut issuers = issuers.iter().cloned();
    let next = async || match issuers.next() {
        Some(found) => found,
        None => std::future::pending().await,
    };
    let card = card(Purpose::Receive, host);
    let code = code(text);
    let entry = Entry {
        host,
        code: &code,
        card: &card,
        refusals: Mutex::default(),
    };
    let meeting = entry.meet_among(next);
    time::timeout(HANG, meeting).await.expect("it ends")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_code_brings_two_nodes_together() {
    let (issuer, _desk, mut events) = issuer(1);
    let holder = host(2, AllowList::default());
    let met = meet_these(&holder, "River Lamp Orbit", &[found(&issuer)])
        .await
        .unwrap();
    assert_eq!(met.node, issuer.node_id());
    assert_eq!(met.addresses, issuer.addresses());
    let Some(DeskEvent::Met(seen)) = events.recv().await else {
        panic!("nobody was met");
    };
    assert_eq!(
        (seen.node, seen.addresses),
        (holder.node_id(), holder.addresses())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn another_issuer_at_the_place_is_passed_over() {
    let (other, desk, _events) = issuer(1);
    let (right, _desk, _right_events) = issuer(2);
    // The other one has another code with this first word.
    drop(desk);
    let holder = host(3, AllowList::default());
    let nowhere = Found {
        node: SecretKey::from_seed([9; 32]).node_id(),
        addresses: other.addresses(),
    };
    let met = meet_these(&holder, "river-lamp-orbit", &[nowhere, found(&right)]).await;
    assert_eq!(met.unwrap().node, right.node_id());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_code_of_this_nodes_own_key_is_named() {
    let (issuer, _desk, _events) = issuer(1);
    let same = host(1, AllowList::default());
    let alone = meet_these(&same, "river-lamp-orbit", &[found(&issuer)]).await;
    assert!(matches!(alone, Err(MeetingError::OwnKey)), "{alone:?}");
    // Another one may have the code nevertheless.
    let (right, _desk, _events) = self::issuer(2);
    let both = [found(&issuer), found(&right)];
    let met = meet_these(&same, "river-lamp-orbit", &both).await;
    assert_eq!(met.unwrap().node, right.node_id());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_code_is_refused_and_the_third_is_the_last() {
    let (issuer, _desk, _events) = issuer(1);
    let holder = host(2, AllowList::default());
    for expected in [Refusal::Wrong, Refusal::Wrong, Refusal::Dead, Refusal::Dead] {
        let text = match expected {
            Refusal::Wrong => "river-lamp-zoo",
            _ => "river-lamp-zero",
        };
        let result = meet_these(&holder, text, &[found(&issuer)]).await;
        let Err(MeetingError::Exchange(ExchangeError::Refused(refusal))) = result else {
            panic!("{result:?}");
        };
        assert_eq!(refusal, expected);
    }
}
