//! Limits of a rule: what all its flows together may have.

use std::time::{Duration, Instant};

use anabranch::daemon::{PromiseState, RuleReport};
use anabranch_gateway::{Code, Notice};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, UdpSocket},
};

use crate::harness::{Pair, answered, echo, echoed, forwards, within};

/// A pair with a forward of TCP connections under this rule.
async fn under(rule: &str) -> Pair {
    let target = echo().await.to_string();
    let may = format!("{{ right = \"forward\", to = [\"{target}\"] }}");
    let pair = Pair::start(&may, &[]).await;
    let base = forwards(pair.far.address(), &[("127.0.0.1:0", &target, "")]);
    pair.near.reload(&format!("{base}{rule}")).await.unwrap();
    pair
}

fn report(pair: &Pair) -> RuleReport {
    pair.near.gateway.connections().rules().report().remove(0)
}

async fn open(pair: &Pair) -> TcpStream {
    let mut stream = pair.connect().await;
    stream.write_all(b"x").await.unwrap();
    assert_eq!(stream.read_u8().await.unwrap(), b'x');
    stream
}

/// The next connection is refused; the reset may arrive before it is noticed.
async fn is_refused(pair: &Pair) {
    let at = pair.near.listening()[0];
    let reading = async { TcpStream::connect(at).await?.read(&mut [0; 8]).await };
    let error = reading.await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flows_beyond_the_number_are_refused_until_one_ends() {
    within(async {
        let pair = under("[[rule]]\nname = \"few\"\nflows_max = 2\n").await;
        let (first, _second) = (open(&pair).await, open(&pair).await);
        is_refused(&pair).await;
        let refusal = pair.near.refusal().await;
        assert_eq!(refusal.code, Code::TooMany);
        let named = ["rule few", "flows_max", "2 at a time"];
        assert!(
            named.iter().all(|word| refusal.text.contains(word)),
            "{refusal}"
        );
        let row = report(&pair);
        assert_eq!((row.open, row.flows, row.denied), (2, 3, 1));
        assert_eq!(row.action, "preset, up to 2 flows");
        drop(first);
        while report(&pair).open > 1 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let _third = open(&pair).await;
    })
    .await;
}

/// Nothing can be promised to a new session: all flows wait, and those that do count.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flow_beyond_the_promised_rate_is_carried_without_a_promise_or_refused() {
    within(async {
        let rule = |more: &str| {
            format!(
                "[[rule]]\nname = \"video\"\npromised_rate_max = \"10 Mbit/s\"\n\
                 service = {{ rate = \"6 Mbit/s\", probability = \"90 %\"{more} }}\n"
            )
        };
        let pair = under(&rule("")).await;
        let streams = |promised: bool| {
            let sessions = pair.near.daemon.host().sessions();
            let streams = sessions.iter().flat_map(|session| &session.streams);
            let forwards =
                streams.filter(|stream| stream.spec.label.starts_with("anabranch-forward"));
            forwards
                .filter(|stream| stream.spec.guarantee.is_some() == promised)
                .count()
        };
        let first = open(&pair).await;
        assert_eq!((streams(true), streams(false)), (1, 0));
        let second = open(&pair).await;
        assert_eq!((streams(true), streams(false)), (1, 1));
        let notice = |notice: &Notice| matches!(notice, Notice::OverLimit { .. });
        let text = pair.near.notice(notice).await.to_string();
        let named = ["without its promise", "rule video", "promised_rate_max"];
        assert!(named.iter().all(|word| text.contains(word)), "{text}");
        assert_eq!(report(&pair).promised_asked_bps, 6_000_000);
        let flows = pair.near.gateway.flows();
        let states: Vec<_> = flows.iter().map(|flow| flow.promise).collect();
        let expected = [PromiseState::Waiting, PromiseState::OverLimit].map(Some);
        assert_eq!(states, expected);
        // What the first had is free again.
        drop(first);
        while report(&pair).open > 1 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let third = open(&pair).await;
        assert_eq!(report(&pair).promised_asked_bps, 6_000_000);
        drop((second, third));

        let pair = under(&rule(", waits = false").replace("10 Mbit/s", "5 Mbit/s")).await;
        is_refused(&pair).await;
        let refusal = pair.near.refusal().await;
        assert_eq!(refusal.code, Code::TooMany);
        assert!(refusal.text.contains("5.00 Mbit/s"), "{refusal}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_connections_of_a_rule_share_a_rate() {
    within(async {
        let pair = under("[[rule]]\nrate_max = \"8 Mbit/s\"\n").await;
        let began = Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..4 {
            let stream = pair.connect().await;
            tasks.spawn(
                async move { assert!(echoed(stream, &[7; 1_000_000]).await == [7; 1_000_000]) },
            );
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
        // 4 MB at 1 MB a second, less the first quarter of a second and the last piece of each.
        let elapsed = began.elapsed();
        assert!(elapsed > Duration::from_secs(3), "{elapsed:?}");
        assert_eq!(report(&pair).sent_bytes, 4_000_000);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn datagrams_beyond_the_rate_are_dropped() {
    within(async {
        let target = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let to = target.local_addr().unwrap();
        tokio::spawn(async move {
            let mut buffer = [0; 2_000];
            while let Ok((count, from)) = target.recv_from(&mut buffer).await {
                target.send_to(&buffer[..count], from).await.unwrap();
            }
        });
        let may = format!("{{ right = \"forward\", to = [\"udp:{to}\"] }}");
        let pair = Pair::start(&may, &[]).await;
        let udp = ("127.0.0.1:0", &*to.to_string(), "protocol = \"udp\"");
        let base = forwards(pair.far.address(), &[udp]);
        let rule = "[[rule]]\nrate_max = \"8 kbit/s\"\n";
        pair.near.reload(&format!("{base}{rule}")).await.unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        socket.connect(pair.near.listening()[0]).await.unwrap();
        let began = Instant::now();
        for _ in 0..100 {
            socket.send(&[7; 1_000]).await.unwrap();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // When something may be sent again, it is.
        while answered(&socket, b"later").await != b"later" {}
        // 16 KiB at once, by one datagram more at most, and 1 kB in each second.
        let possible = 18_000 + 1_000 * (began.elapsed().as_secs() + 1);
        let sent = report(&pair).sent_bytes;
        assert!((10_000..=possible).contains(&sent), "{sent} of {possible}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reload_counts_what_is_open_under_a_rule_of_the_same_name() {
    within(async {
        let target = echo().await.to_string();
        let may = format!("{{ right = \"forward\", to = [\"{target}\"] }}");
        let pair = Pair::start(&may, &[]).await;
        let base = forwards(pair.far.address(), &[("127.0.0.1:0", &target, "")]);
        let rule = |more: &str| format!("{base}[[rule]]\nname = \"some\"\n{more}\n");
        pair.near.reload(&rule("flows_max = 3")).await.unwrap();
        let _open = (open(&pair).await, open(&pair).await);
        pair.near
            .reload(&rule("flows_max = 2\nservice = \"bulk\""))
            .await
            .unwrap();
        is_refused(&pair).await;
        assert_eq!(report(&pair).open, 2);
        pair.near.reload(&rule("service = \"bulk\"")).await.unwrap();
        let _third = open(&pair).await;
        assert_eq!(report(&pair).open, 3);
    })
    .await;
}

/// The share is decided by the engine, over all sessions: it has to know whose a stream is, and the share in force.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_flows_of_a_rule_belong_to_a_tenant_with_its_share() {
    within(async {
        let rule = |share: &str| {
            let service = "service = { rate = \"6 Mbit/s\", probability = \"90 %\" }";
            format!("[[rule]]\nname = \"video\"\n{share}\n{service}\n")
        };
        let target = echo().await.to_string();
        let may = format!("{{ right = \"forward\", to = [\"{target}\"] }}");
        let pair = Pair::start(&may, &[]).await;
        let base = forwards(pair.far.address(), &[("127.0.0.1:0", &target, "")]);
        let reload = async |share: &str| {
            let text = format!("{base}{}", rule(share));
            pair.near.reload(&text).await.unwrap();
        };
        reload("promised_share_max = \"40 %\"").await;
        let host = pair.near.daemon.host();
        let shares = || {
            let shares = host.promised_shares();
            shares.values().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(shares(), ["40 %"]);
        let action = "probability 90 %, rate 6 Mbit/s, promises up to 40 % of what is possible";
        assert_eq!(report(&pair).action, action);
        let _flows = (open(&pair).await, open(&pair).await);
        let promises = host.promises();
        let tenants: Vec<_> = promises.iter().map(|row| row.spec.tenant).collect();
        let known: Vec<_> = host.promised_shares().into_keys().map(Some).collect();
        assert_eq!(tenants, [known[0], known[0]]);
        // Another share, and none.
        reload("promised_share_max = \"25 %\"").await;
        assert_eq!(shares(), ["25 %"]);
        reload("").await;
        assert_eq!(shares(), [""; 0]);
        let text = format!("{base}{}", rule("promised_share_max = \"0 %\""));
        let error = pair.near.reload(&text).await.unwrap_err();
        for word in ["promised_share_max", "above 0 %"] {
            assert!(error.contains(word), "{error}");
        }
    })
    .await;
}
