//! Rules: services, refusals and peers of flows, promises, and their change by a reload.

use std::net::SocketAddr;

use anabranch::{
    Priority, StreamSpec,
    control::{Request, ask},
    daemon::RuleReport,
};
use anabranch_gateway::{Code, Notice};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UdpSocket},
};

use crate::{
    harness::{FAR, NEAR, Node, Pair, answered, echo, echoed, forwards, id, rights, within},
    socks::through,
};

const OTHER: u8 = 3;

/// Specs of the streams for flows that a node has open, by priority.
fn specs(node: &Node) -> Vec<StreamSpec> {
    let sessions = node.daemon.host().sessions();
    let streams = sessions.iter().flat_map(|session| &session.streams);
    let ours = streams.filter(|stream| stream.spec.label.starts_with("anabranch-forward"));
    let mut specs: Vec<StreamSpec> = ours.map(|stream| stream.spec.clone()).collect();
    specs.sort_by_key(|spec| spec.priority);
    specs
}

fn rule(node: &Node, number: usize) -> RuleReport {
    node.gateway.connections().rules().report().remove(number)
}

/// A connection that is open, with a byte carried both ways.
async fn open(at: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(at).await.unwrap();
    stream.write_all(b"x").await.unwrap();
    assert_eq!(stream.read_u8().await.unwrap(), b'x');
    stream
}

async fn is_reset(at: SocketAddr) {
    // The reset may arrive before the connection is noticed.
    let reading = async { TcpStream::connect(at).await?.read(&mut [0; 8]).await };
    let error = reading.await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}

fn may(target: &str) -> String {
    format!("{{ right = \"forward\", to = [\"{target}\"] }}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flows_have_the_service_of_their_rule_until_they_end_and_a_reload_is_whole() {
    within(async {
        let target = echo().await.to_string();
        let pair = Pair::start(&may(&target), &[]).await;
        let own = "service = { priority = \"200\" }";
        let base = forwards(
            pair.far.address(),
            &[("127.0.0.1:0", &target, ""), ("[::1]:0", &target, own)],
        );
        let bulk = "[[rule]]\nname = \"all\"\nservice = \"bulk\"\n";
        pair.near.reload(&format!("{base}{bulk}")).await.unwrap();
        let (ruled, other) = (pair.near.listening()[0], pair.near.listening()[1]);
        let mut first = open(ruled).await;
        assert_eq!(specs(&pair.near)[0].priority, Priority::BULK);
        // A forward with a service of its own is under no rule.
        let _second = open(other).await;
        assert_eq!(rule(&pair.near, 0).flows, 1);
        let priorities: Vec<u8> = specs(&pair.near)
            .iter()
            .map(|spec| spec.priority.0)
            .collect();
        assert_eq!(priorities, [64, 200]);

        // Refused whole, though the forwards in it are valid: half written, a value that is wrong, a name that does not exist.
        let before = pair.near.listening().len();
        let more = base.clone() + &forwards_only("127.0.0.1:0", &target);
        for wrong in [
            "[[rule]]\nname = \"all\"\nserv",
            "[[rule]]\nservice = \"fast\"\n",
            "[[rule]]\npeer = \"who\"\n",
            "[[rule]]\nmatch = { dscp = 46 }\ndeny = true\n",
        ] {
            let text = format!("{}{wrong}", more.replace("127.0.0.1:0", "127.0.0.2:0"));
            let error = pair.near.reload(&text).await.unwrap_err();
            assert!(!error.is_empty(), "{wrong}");
            assert_eq!(pair.near.listening().len(), before);
        }
        let third = open(ruled).await;
        assert_eq!(rule(&pair.near, 0).flows, 2, "the old rule is in force");

        // Applied: open flows go on with their service.
        let deny =
            "[[rule]]\nname = \"none\"\nmatch = { address = \"127.0.0.0/8\" }\ndeny = true\n";
        pair.near.reload(&format!("{base}{deny}")).await.unwrap();
        is_reset(ruled).await;
        let refusal = pair.near.refusal().await;
        assert_eq!(refusal.code, Code::NotAllowed);
        assert!(refusal.text.contains("rule none"), "{refusal}");
        first.write_all(b"y").await.unwrap();
        assert_eq!(first.read_u8().await.unwrap(), b'y');
        assert_eq!(specs(&pair.near)[0].priority, Priority::BULK);
        drop(third);
        let report = rule(&pair.near, 0);
        assert_eq!((report.flows, report.denied), (1, 1));
        assert_eq!(report.matches, "address 127.0.0.0/8");
    })
    .await;
}

fn forwards_only(local: &str, to: &str) -> String {
    format!("[[forward]]\nlocal = \"{local}\"\npeer = \"far\"\nto = \"{to}\"\n")
}

/// Nothing can be promised to a session that is new.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promise_that_is_refused_is_a_notice_and_the_flow_is_carried() {
    within(async {
        let target = echo().await.to_string();
        let pair = Pair::start(&may(&target), &[]).await;
        let base = forwards(pair.far.address(), &[("127.0.0.1:0", &target, "")]);
        let promise = "rate = \"6 Mbit/s\", probability = \"99 %\"";
        let rule = format!("[[rule]]\nservice = {{ {promise} }}\n");
        pair.near.reload(&format!("{base}{rule}")).await.unwrap();
        let at = pair.near.listening()[0];
        let waits = open(at).await;
        let control = pair.folder.path().join(NEAR.to_string()).join("control");
        let answer = ask(&control, &Request::Flows {}).await.unwrap();
        assert_eq!(answer["rows"][0]["promise"], "waiting", "{answer}");
        drop(waits);
        let stream = TcpStream::connect(at).await.unwrap();
        assert_eq!(echoed(stream, b"carried").await, b"carried");
        let notice = pair
            .near
            .notice(|notice| matches!(notice, Notice::NotPromised { .. }))
            .await;
        let text = notice.to_string();
        assert!(
            text.contains(&target) && text.contains("too little is known"),
            "{text}"
        );

        // The rule may ask for all or nothing.
        let rule = format!("[[rule]]\nservice = {{ {promise}, waits = false }}\n");
        pair.near.reload(&format!("{base}{rule}")).await.unwrap();
        is_reset(at).await;
        let refusal = pair.near.refusal().await;
        assert!(refusal.text.contains("too little is known"), "{refusal}");
    })
    .await;
}

/// A server that sends one byte.
async fn sends(byte: u8) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(&[byte]).await;
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socks_server_of_a_node_has_exits_by_rule() {
    within(async {
        let (one, other, neither) = (sends(1).await, sends(2).await, sends(3).await);
        let folder = tempfile::tempdir().unwrap();
        // Each peer allows one target, so that no connection is made by the wrong one.
        let of = |target: SocketAddr| rights(&may(&target.to_string()));
        let far = Node::start(folder.path(), FAR, "127.0.0.1:0", &of(one)).await;
        let third = Node::start(folder.path(), OTHER, "127.0.0.1:0", &of(other)).await;
        let peers = forwards(far.address(), &[])
            + &format!(
                "[[peer]]\nname = \"third\"\nnode = \"{}\"\nmay = []\naddresses = [\"{}\"]\n",
                id(OTHER),
                third.address()
            );
        let rules = format!(
            "[[rule]]\nname = \"out\"\nmatch = {{ address = \"127.0.0.0/8\", port = {} }}\npeer = \"third\"\n\
             [[rule]]\nname = \"never\"\nmatch = {{ port = {} }}\ndeny = true\n",
            other.port(),
            neither.port()
        );
        let with_default = "[[gateway.socks]]\nlocal = \"127.0.0.1:0\"\npeer = \"far\"\n";
        let text = format!("{peers}{with_default}{rules}");
        let near = Node::start(folder.path(), NEAR, "127.0.0.1:0", &text).await;
        let at = near.listening()[0];
        let loopback = [1, 127, 0, 0, 1];
        for (target, byte) in [(one, 1), (other, 2)] {
            let mut stream = through(at, &loopback, target.port()).await.unwrap();
            assert_eq!(stream.read_u8().await.unwrap(), byte);
        }
        assert_eq!(through(at, &loopback, neither.port()).await.unwrap_err(), 2);
        let counts = |near: &Node| {
            let all = near.gateway.connections().rules().report();
            all.iter().map(|row| (row.flows, row.denied)).collect::<Vec<_>>()
        };
        assert_eq!(counts(&near), [(1, 0), (1, 1), (1, 0)]);

        // Without a peer of its own, only what a rule gives one has an exit; the listener stays.
        let without = with_default.replace("peer = \"far\"\n", "");
        near.reload(&format!("{peers}{without}{rules}")).await.unwrap();
        assert_eq!(through(at, &loopback, one.port()).await.unwrap_err(), 2);
        let mut stream = through(at, &loopback, other.port()).await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), 2);
        assert_eq!(counts(&near)[0], (2, 0), "rules that stay keep their counters");
    })
    .await;
}

/// Open flows of a protocol.
async fn rows_of(control: &std::path::Path, protocol: &str) -> usize {
    let answer = ask(control, &Request::Flows {}).await.unwrap();
    let rows = answer["rows"].as_array().unwrap();
    rows.iter()
        .filter(|row| row["protocol"] == protocol)
        .count()
}

/// A UDP server that sends back what it receives.
async fn mirror() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut buffer = [0; 2048];
        while let Ok((count, from)) = socket.recv_from(&mut buffer).await {
            let _ = socket.send_to(&buffer[..count], from).await;
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg(target_os = "linux")]
async fn datagrams_and_programs_are_distinguished() {
    use nix::sys::socket::{setsockopt, sockopt};
    within(async {
        let (target, tcp) = (mirror().await, echo().await);
        let right = format!("{{ right = \"forward\", to = [\"udp:{target}\", \"{tcp}\"] }}");
        let folder = tempfile::tempdir().unwrap();
        let far = Node::start(folder.path(), FAR, "127.0.0.1:0", &rights(&right)).await;
        let unix = folder.path().join("in.sock");
        let udp = "protocol = \"udp\"";
        let own = std::env::current_exe().unwrap();
        let name = own.file_name().unwrap().to_str().unwrap();
        let rules = format!(
            "[[rule]]\nname = \"expedited\"\nmatch = {{ protocol = \"udp\", dscp = 46 }}\nservice = \"live\"\n\
             [[rule]]\nname = \"mine\"\nmatch = {{ process = \"{name}\" }}\nservice = \"interactive\"\n\
             [[rule]]\ndeny = true\n"
        );
        let text = forwards(
            far.address(),
            &[
                ("127.0.0.1:0", &target.to_string(), udp),
                ("127.0.0.1:0", &tcp.to_string(), ""),
                (&format!("unix:{}", unix.display()), &tcp.to_string(), ""),
            ],
        );
        let near = Node::start(folder.path(), NEAR, "127.0.0.1:0", &(text + &rules)).await;
        let at = near.listening();
        let marked = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        setsockopt(&marked, sockopt::Ipv4Tos, &(46 << 2)).unwrap();
        marked.connect(at[0]).await.unwrap();
        assert_eq!(answered(&marked, b"marked").await, b"marked");
        let expected = Some(std::time::Duration::from_millis(300));
        assert_eq!(specs(&near)[0].lifetime, expected);
        let plain = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        plain.connect(at[0]).await.unwrap();
        assert_eq!(answered(&plain, b"plain").await, b"plain");
        let connection = TcpStream::connect(at[1]).await.unwrap();
        assert_eq!(echoed(connection, b"tcp").await, b"tcp");
        let mut connection = tokio::net::UnixStream::connect(&unix).await.unwrap();
        connection.write_all(b"u").await.unwrap();
        assert_eq!(connection.read_u8().await.unwrap(), b'u');
        let report = near.gateway.connections().rules().report();
        let flows: Vec<u64> = report.iter().map(|row| row.flows).collect();
        assert_eq!(flows, [1, 3, 0, 0]);

        // As the control socket shows it.
        let control = folder.path().join(NEAR.to_string()).join("control");
        let answer = ask(&control, &Request::Flows {}).await.unwrap();
        let rows = answer["rows"].as_array().unwrap();
        let unix = rows.iter().find(|row| row["source"].as_str().unwrap().starts_with("process"));
        let unix = unix.unwrap();
        assert_eq!((&unix["rule"], &unix["service"]), (&"mine".into(), &"interactive".into()));
        assert_eq!((&unix["sent_bytes"], &unix["received_bytes"]), (&1.into(), &1.into()));
        assert_eq!((&unix["peer"], &unix["protocol"]), (&"far".into(), &"tcp".into()));
        let marked = rows.iter().find(|row| row["rule"] == "expedited").unwrap();
        assert_eq!(marked["target"], format!("udp:{target}"));
        assert!(marked["sent_bytes"].as_u64().unwrap() >= 6);
        // The other end has them, too, as flows that a peer asked for.
        let control = folder.path().join(FAR.to_string()).join("control");
        let answer = ask(&control, &Request::Flows {}).await.unwrap();
        let rows = answer["rows"].as_array().unwrap();
        let udp: Vec<_> = rows.iter().filter(|row| row["protocol"] == "udp").collect();
        assert_eq!(udp.len(), 2);
        assert!(udp[0]["is_incoming"] == true && udp[0]["peer"] == "near");
        drop(connection);
        let control = folder.path().join(NEAR.to_string()).join("control");
        while rows_of(&control, "tcp").await > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        let answer = ask(&control, &Request::FlowRules {}).await.unwrap();
        let mine = &answer["rows"][1];
        assert_eq!((&mine["rule"], &mine["flows"]), (&"mine".into(), &3.into()));
        assert!(mine["sent_bytes"].as_u64().unwrap() >= 9, "flows that are over stay counted");
    })
    .await;
}
