//! Changes to paths and streams of two nodes.

use std::net::SocketAddr;

use anabranch_net::{HostConfig, Session};
use anabranch_session::{AllowList, SecretKey};

use super::*;
use crate::control::rows;

/// A node with two sockets, so that two of them have several channels.
fn node(own: u8, peer: u8) -> Host {
    let key = |seed| SecretKey::from_seed([seed; 32]);
    let allowed = AllowList::of([key(peer).node_id()]);
    let binds = ["127.0.0.1:0", "127.0.0.2:0"].map(|text| text.parse::<SocketAddr>().unwrap());
    Host::start(HostConfig::new(key(own), allowed).bind(binds)).unwrap()
}

async fn pair() -> (Host, Host, Session, Session) {
    let (a, b) = (node(25, 26), node(26, 25));
    let addresses = b.addresses();
    let (outgoing, incoming) = tokio::join!(a.connect(b.node_id(), &addresses), b.accept());
    (a, b, outgoing.unwrap(), incoming.unwrap())
}

fn paths(host: &Host) -> Vec<Value> {
    rows::paths(host, &ToString::to_string)
}

#[tokio::test]
async fn paths_go_out_and_come_in_and_the_last_one_stays() {
    let (a, _b, _session, _incoming) = pair().await;
    while paths(&a).len() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let names: Vec<String> = paths(&a)
        .iter()
        .map(|row| row["channel"].as_str().unwrap().to_owned())
        .collect();
    for name in &names[1..] {
        let rows = path_out(&a, (name, None), (None, false), "user 7").unwrap();
        assert_eq!(rows[0]["kind"], "path_out");
    }
    let shown = paths(&a);
    assert_eq!(shown[0]["state"], "active");
    assert_eq!(shown[1]["state"], "out");
    assert_eq!(shown[1]["out_by"], "user 7");
    assert!(shown[1]["out_for_ms"].is_null());
    let last = path_out(&a, (&names[0], None), (None, false), "user 7").unwrap_err();
    assert!(last.contains("last path"), "{last}");
    let rows = path_out(&a, (&names[0], None), (Some(60_000), true), "user 7").unwrap();
    assert_eq!(rows[0]["for_ms"], 60_000);
    assert!(paths(&a)[0]["out_for_ms"].as_f64().unwrap() <= 60_000.0);
    path_in(&a, &names[0], Some("session-0")).unwrap();
    let again = path_in(&a, &names[0], None).unwrap_err();
    assert!(again.contains("not out of use"), "{again}");
    if let Some(interface) = shown[0]["interface"].as_str() {
        let both = path_out(&a, (interface, None), (None, false), "x").unwrap_err();
        assert!(
            both.contains("several paths: give one of channel-"),
            "{both}"
        );
    }
    for (channel, session, word) in [
        ("x", None, "'x' is no path"),
        ("channel-99", None, "no channel-99"),
        (&names[0], Some("session-9"), "no session-9"),
    ] {
        let error = path_out(&a, (channel, session), (None, false), "x").unwrap_err();
        assert!(error.contains(word), "{error}");
    }
    for time in [0, u64::MAX] {
        let error = path_out(&a, (&names[0], None), (Some(time), false), "x").unwrap_err();
        assert!(error.contains("7 days"), "{error}");
    }
}

#[tokio::test]
async fn a_stream_is_changed_as_a_whole_or_not_at_all() {
    let (a, _b, session, _incoming) = pair().await;
    let stream = session.open_stream(StreamSpec::bulk("file")).unwrap();
    let name = stream.id().to_string();
    let set = |changes: StreamChanges| stream_set(&a, (&name, None), &changes);
    let row = || rows::streams(&a, &ToString::to_string).remove(0);
    let changed = set(StreamChanges {
        weight: Some(7),
        cap: Some("4 Mbit/s".into()),
        ..StreamChanges::default()
    });
    assert_eq!(changed.unwrap()[0]["is_changed"], true);
    assert_eq!(row()["weight"], 7);
    assert_eq!(row()["cap_bps"], 4_000_000);
    let changed = set(StreamChanges {
        priority: Some("urgent".into()),
        lifetime: Some("250 ms".into()),
        ..StreamChanges::default()
    });
    assert_eq!(changed.unwrap()[0]["is_changed"], true);
    assert_eq!(row()["priority"], 192);
    assert_eq!(row()["lifetime_ms"], 250.0);
    let changed = set(StreamChanges {
        priority: Some("64".into()),
        lifetime: Some("none".into()),
        ..StreamChanges::default()
    });
    assert_eq!(changed.unwrap()[0]["is_changed"], true);
    assert_eq!(row()["priority"], 64);
    assert!(row()["lifetime_ms"].is_null());
    // It had no guarantee: it waits for one if it is to.
    let asked = set(StreamChanges {
        rate: Some("2 Mbit/s".into()),
        waits: true,
        cap: Some("none".into()),
        ..StreamChanges::default()
    });
    let asked = asked.unwrap();
    assert_eq!(asked[0]["is_changed"], true);
    assert_eq!(asked[0]["promise"], "waiting");
    assert_eq!(asked[0]["reason"], "too_little_known");
    assert!(asked[0]["why"].as_str().unwrap().contains("20 seconds"));
    assert_eq!(row()["promise"], "waiting");
    assert_eq!(row()["asked"], "2.00 Mbit/s in 95 % of all windows of 1 s");
    assert!(row()["cap_bps"].is_null());
    for (changes, word) in [
        (StreamChanges::default(), "nothing to change"),
        (
            StreamChanges {
                weight: Some(0),
                ..StreamChanges::default()
            },
            "weight",
        ),
        (
            StreamChanges {
                cap: Some("fast".into()),
                ..StreamChanges::default()
            },
            "none",
        ),
        (
            StreamChanges {
                priority: Some("256".into()),
                ..StreamChanges::default()
            },
            "0 to 255",
        ),
        (
            StreamChanges {
                weight: Some(9),
                lifetime: Some("soon".into()),
                ..StreamChanges::default()
            },
            "none",
        ),
        (
            StreamChanges {
                weight: Some(9),
                lifetime: Some("2 h".into()),
                ..StreamChanges::default()
            },
            "lifetime",
        ),
        (
            StreamChanges {
                rate: Some("1 kbit/s".into()),
                release: true,
                ..StreamChanges::default()
            },
            "leave out",
        ),
        (
            StreamChanges {
                weight: Some(9),
                probability: Some("300 %".into()),
                ..StreamChanges::default()
            },
            "probability",
        ),
        (
            StreamChanges {
                weight: Some(9),
                redundant: Some(true),
                ..StreamChanges::default()
            },
            "guarantee",
        ),
    ] {
        let error = set(changes).unwrap_err();
        assert!(error.contains(word), "{error}");
        assert_eq!(row()["weight"], 7);
    }
    let released = set(StreamChanges {
        release: true,
        redundant: Some(true),
        ..StreamChanges::default()
    });
    assert_eq!(released.unwrap()[0]["is_changed"], true);
    assert!(row()["promise"].is_null());
    assert_eq!(row()["is_redundant"], true);
    let none = stream_set(&a, ("stream-98", None), &StreamChanges::default()).unwrap_err();
    assert!(none.contains("no open stream-98"), "{none}");
}

#[tokio::test]
async fn a_guarantee_that_is_refused_leaves_all_as_it_was() {
    let (a, _b, session, _incoming) = pair().await;
    let stream = session.open_stream(StreamSpec::bulk("file")).unwrap();
    let name = stream.id().to_string();
    let changes = StreamChanges {
        rate: Some("1 Gbit/s".into()),
        weight: Some(3),
        ..StreamChanges::default()
    };
    let rows = stream_set(&a, (&name, None), &changes).unwrap();
    assert_eq!(rows[0]["is_changed"], false);
    assert_eq!(rows[0]["reason"], "too_little_known");
    assert!(rows[0]["why"].as_str().unwrap().contains("20 seconds"));
    let row = rows::streams(&a, &ToString::to_string).remove(0);
    assert_eq!(row["weight"], stream.spec().weight);
    assert!(row["promise"].is_null());
}

#[tokio::test]
async fn a_path_may_be_named_by_its_interface() {
    let key = |seed| SecretKey::from_seed([seed; 32]);
    let node = |own: u8, peer: u8| {
        let allowed = AllowList::of([key(peer).node_id()]);
        let bind: SocketAddr = "127.0.0.1:0".parse().unwrap();
        Host::start(HostConfig::new(key(own), allowed).bind([bind])).unwrap()
    };
    let (a, b) = (node(27, 28), node(28, 27));
    let addresses = b.addresses();
    let (outgoing, incoming) = tokio::join!(a.connect(b.node_id(), &addresses), b.accept());
    let (_outgoing, _incoming) = (outgoing.unwrap(), incoming.unwrap());
    let Some(interface) = paths(&a)[0]["interface"].as_str().map(ToOwned::to_owned) else {
        // Where the system does not name the interface of an address.
        return;
    };
    let rows = path_out(&a, (&interface, None), (None, true), "x").unwrap();
    assert_eq!(rows[0]["channel"], paths(&a)[0]["channel"]);
    assert_eq!(paths(&a)[0]["state"], "out");
}
