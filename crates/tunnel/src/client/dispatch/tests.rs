//! Dispatch by rules, with streams that are opened by hand.

use anabranch::config::Layer;
use anabranch_gateway::{Connections, rules};

use super::*;
use crate::{fq_codel::Packet, packet::samples::udp4};

struct Client {
    connections: Connections,
    dispatch: Arc<Dispatch>,
}

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn table(text: &str) -> rules::Table {
    let layer = Layer::from_toml(text).unwrap();
    let none = |_: &str| Err("no peer".to_owned());
    rules::Table::read(&layer.rule.unwrap_or_default(), none).unwrap()
}

impl Client {
    fn new(text: &str) -> Self {
        let connections = Connections::new(anabranch_gateway::Notices::new(|_| ()));
        connections.rules().replace(table(text));
        let dispatch = Dispatch::new(
            PacketRules::new(&connections),
            NodeId::from_public_key([1; 32]),
            Arc::new(Outlet::new(1 << 20)),
            (Clock::start(), Notices::new(|_| ())),
        );
        Self {
            connections,
            dispatch,
        }
    }

    fn assign(&self, from: u16, to: u16) -> Assigned {
        let ip = udp4(from, to, b"x");
        self.dispatch
            .assign(at(1000), &ip, &Header::read(&ip).unwrap())
    }

    /// Assigns and queues a packet.
    fn push(&self, from: u16, to: u16) {
        let ip = udp4(from, to, b"x");
        match self.assign(from, to) {
            Assigned::Rest(bucket) => {
                self.dispatch
                    .outlet
                    .push_into(at(1000), bucket, Packet::new(&ip));
            }
            Assigned::Class(class, bucket) => {
                class.queues.push_into(at(1000), bucket, Packet::new(&ip));
            }
            Assigned::Denied | Assigned::Limited => panic!("it is carried"),
        }
    }

    fn served(&self) -> Vec<Arc<Served>> {
        self.dispatch.flows().served.clone()
    }
}

const CALL: &str = r#"
[[rule]]
name = "call"
match = { protocol = "udp", port = 5004 }
service = "live"
"#;

const MORE: &str = r#"
[[rule]]
name = "no mail"
match = { port = 25 }
deny = true
[[rule]]
name = "slow"
match = { port = 9 }
rate_max = "80 kbit/s"
"#;

#[test]
fn packets_go_with_all_others_until_the_stream_of_their_class_is_open() {
    let client = Client::new(CALL);
    assert!(matches!(client.assign(1, 80), Assigned::Rest(_)));
    assert!(client.served().is_empty());
    for _ in 0..3 {
        client.push(1, 5004);
    }
    assert_eq!(client.served().len(), 1, "one stream is wanted");
    client.push(2, 5004);
    let served = client.served().remove(0);
    assert_eq!((client.served().len(), served.state()), (1, State::Opening));
    served.set(State::Open);
    let Assigned::Class(class, bucket) = client.assign(1, 5004) else {
        panic!("it has a class");
    };
    // What waited was moved, and the flow keeps its bucket; the other flow follows with its next packet.
    let waiting = |queues: &Outlet| queues.lock().memory_bytes();
    assert_eq!(waiting(&class.queues), 3 * waiting(&client.dispatch.outlet));
    assert!(bucket < crate::packet::BUCKETS);
    client.push(2, 5004);
    assert_eq!(waiting(&client.dispatch.outlet), 0);
    // A flow that begins once the server is known to have classes has a bucket of the class.
    client.dispatch.flows().has_classes = Some(true);
    let Assigned::Class(class, bucket) = client.assign(3, 5004) else {
        panic!("it has a class");
    };
    assert_eq!(
        bucket / crate::packet::BUCKETS,
        1 + u16::from(class.place())
    );
}

#[test]
fn rules_deny_limit_and_are_followed_when_they_change() {
    let client = Client::new(&format!("{CALL}{MORE}"));
    assert!(matches!(client.assign(1, 25), Assigned::Denied));
    assert!(matches!(client.assign(1, 26), Assigned::Rest(_)));
    // 16 KiB at once, without a stream.
    let limited = (0..1000).filter(|_| matches!(client.assign(1, 9), Assigned::Limited));
    let limited = limited.count();
    assert!((300..700).contains(&limited), "{limited}");
    let report = client.dispatch.report(at(2000));
    let row = |to: &str| report.iter().find(|row| row.target.ends_with(to)).unwrap();
    assert_eq!(
        (row(":25").service.as_str(), row(":25").sent_bytes),
        ("deny", 0)
    );
    assert_eq!(row(":25").rule.as_deref(), Some("no mail"));
    assert_eq!(
        (row(":26").service.as_str(), row(":26").protocol),
        ("preset", "udp")
    );
    client.connections.rules().replace(table(CALL));
    assert!(matches!(client.assign(1, 25), Assigned::Rest(_)));
    client
        .connections
        .rules()
        .replace(table("[[rule]]\ndeny = true\n"));
    assert!(matches!(client.assign(1, 26), Assigned::Denied));
}

#[test]
fn a_class_whose_promise_is_refused_may_refuse_its_flows() {
    let client = Client::new(CALL);
    client.push(1, 5004);
    client.served()[0].set(State::Denied);
    assert!(matches!(client.assign(1, 5004), Assigned::Denied));
    client.served()[0].set(State::Refused);
    assert!(matches!(client.assign(1, 5004), Assigned::Rest(_)));
}

#[test]
fn classes_are_bounded_and_further_flows_go_with_all_others() {
    let rule = |port: u16| format!("[[rule]]\nmatch = {{ port = {port} }}\nservice = \"bulk\"\n");
    let client = Client::new(&(0..20).map(|n| rule(1000 + n)).collect::<String>());
    for to in 1000..1020 {
        client.push(1, to);
    }
    assert_eq!(client.served().len(), CLASSES_MAX);
    for served in client.served() {
        served.set(State::Open);
    }
    assert!(matches!(client.assign(1, 1000), Assigned::Class(..)));
    assert!(matches!(client.assign(1, 1019), Assigned::Rest(_)));
}

#[test]
fn flows_are_counted_both_ways_and_forgotten_when_they_are_over() {
    let client = Client::new("");
    client.push(1, 80);
    let back = {
        let mut ip = udp4(80, 1, b"answer");
        let (source, destination) = ([192, 0, 2, 1], [10, 77, 0, 2]);
        ip[12..16].copy_from_slice(&source);
        ip[16..20].copy_from_slice(&destination);
        ip
    };
    let header = Header::read(&back).unwrap();
    client.dispatch.note_received(at(1500), &back, &header);
    let report = client.dispatch.report(at(3000));
    let [row] = &report[..] else {
        panic!("{report:?}");
    };
    assert_eq!(
        (row.source.as_deref(), &*row.target),
        (Some("10.77.0.2:1"), "udp:192.0.2.1:80")
    );
    assert_eq!(
        (row.sent_bytes, row.received_bytes),
        (29, back.len() as u64)
    );
    client
        .dispatch
        .sweep(at(1500) + client.dispatch.rules.idle());
    assert!(client.dispatch.report(at(3000)).is_empty());
}

#[tokio::test]
async fn a_flow_whose_program_is_searched_for_waits_for_nothing() {
    let text = "[[rule]]\nname = \"own\"\nmatch = { process = \"nothing-like-it\" }\ndeny = true\n";
    let client = Client::new(text);
    assert!(matches!(client.assign(1, 80), Assigned::Rest(_)));
    loop {
        let is_decided = client.dispatch.flows().table.latest(1)[0]
            .1
            .generation
            .is_some();
        if is_decided {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    assert!(
        matches!(client.assign(1, 80), Assigned::Rest(_)),
        "another program"
    );
}
