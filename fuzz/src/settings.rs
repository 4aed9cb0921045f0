//! Texts of an operator: configuration, prices, ledger; and queries over the control socket.

use std::{path::Path, sync::OnceLock, time::Duration};

use anabranch::{
    AllowList, Host, HostConfig, SecretKey, Session, config::Layer, control, ledger::Ledger,
    objectives,
};
use anabranch_base::Instant;
use anabranch_session::{
    Config, Engine, Event, Link, StreamSpec,
    metering::{Billing, Meter, Model, Period, Zone},
};
use bytes::Bytes;

use crate::{
    Input,
    peer::{DELAY, SOCKET, epoch, listener, packets_of, received, remote},
};

/// Turns of a conversation between two engines with accepted settings.
const TURNS: u32 = 40;
/// Lookup that knows no name of the machine.
fn nowhere(name: &str) -> Option<String> {
    (name == "HOME").then(|| "/nowhere".to_owned())
}

/// A text is a configuration or is refused with a message, and engines run with every accepted one.
pub fn configuration(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let layer = match Layer::from_toml(&text) {
        Ok(layer) => layer,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    match layer.resolve(nowhere) {
        Ok(config) => {
            // What it provides to objectives can be listed.
            assert!(objectives::provided(&config).items().count() > 0);
            converse(&config.engine);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// One message in each direction of a stream, as far as the settings permit.
fn converse(config: &Config) {
    let mut now = Instant::from_secs(1);
    let key = SecretKey::from_seed([3; 32]);
    let client = Engine::new(epoch(), key, AllowList::default(), config.clone(), [3; 32]);
    let mut ends = [client, listener(config.clone())];
    let peer = ends[1].node_id();
    let link = Link {
        socket: SOCKET,
        remote: remote(),
    };
    if ends[0].connect(now, peer, vec![link]).is_err() {
        return;
    }
    for _ in 0..TURNS {
        for from in 0..2 {
            for packet in packets_of(&mut ends[from], now) {
                ends[1 - from].handle_packet(now + DELAY, received(&packet));
            }
        }
        now += DELAY;
        for end in &mut ends {
            end.handle_timeout(now);
            while let Some(event) = end.poll_event() {
                if let Event::Connected { session, .. } = event
                    && let Ok(mut handle) = end.session(session)
                    && let Ok(stream) = handle.open_stream(now, StreamSpec::bulk("fuzz"))
                {
                    let data = Bytes::from_static(&[7; 5_000]);
                    let _ = handle.stream(stream).send(now, data);
                }
            }
        }
    }
}

/// The first byte selects the rest: a price list and usage, moments in billing periods, or a ledger.
pub fn tariffs(data: &[u8]) {
    let mut input = Input(data);
    match input.byte() % 3 {
        0 => prices(&mut input),
        1 => periods(&mut input),
        _ => {
            let text = String::from_utf8_lossy(input.0);
            if let Err(error) = Ledger::check(Path::new("ledger"), &text) {
                assert!(!error.to_string().is_empty());
            }
        }
    }
}

fn number(input: &mut Input<'_>) -> u64 {
    let mut bytes = [0; 8];
    let length = usize::from(input.byte() % 9);
    let taken = input.take(length);
    bytes[..taken.len()].copy_from_slice(taken);
    u64::from_le_bytes(bytes)
}

/// Whatever is used in whatever portions, a cap holds to the byte, and nothing overflows.
fn prices(input: &mut Input<'_>) {
    let length = usize::from(input.byte());
    let text = String::from_utf8_lossy(input.take(length)).into_owned();
    let Ok(model) = text.parse::<Model>() else {
        return;
    };
    let cap = model.cap_bytes();
    let mut meter = Meter::new(model, Period(number(input)), number(input));
    while !input.is_empty() {
        let before = meter.used_bytes();
        let bytes = number(input);
        match meter.spend(bytes) {
            Ok(_) => assert!(cap.is_none_or(|cap| meter.used_bytes() <= cap.max(before))),
            Err(_) => assert_eq!(meter.used_bytes(), before, "what is refused is not counted"),
        }
        let _ = (meter.next_price(), meter.paid(), meter.left_bytes());
        if input.byte().is_multiple_of(4) {
            meter.begin(Period(number(input)));
        }
    }
}

/// Periods follow each other, and every moment belongs to one that began before it.
fn periods(input: &mut Input<'_>) {
    let length = usize::from(input.byte() % 16);
    let zone = String::from_utf8_lossy(input.take(length)).into_owned();
    let zone: Zone = zone.parse().unwrap_or_default();
    let Some(billing) = Billing::monthly(input.byte(), zone) else {
        return;
    };
    while !input.is_empty() {
        let unix_s = number(input);
        let period = billing.period(unix_s);
        let next = billing.next(period);
        let _ = (billing.begins_at(period), billing.begins_at(next));
        // The limit of a calendar with four-digit years.
        if unix_s < 250_000_000_000 {
            assert!(next > period, "{unix_s}");
            assert!(billing.begins_at(next) > unix_s, "{unix_s}");
        }
    }
}

/// A node with one session, over this machine's loopback.
struct Asked {
    runtime: tokio::runtime::Runtime,
    host: Host,
    _peer: (Host, Session, Session),
}

fn asked() -> &'static Asked {
    static ASKED: OnceLock<Asked> = OnceLock::new();
    ASKED.get_or_init(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let (host, peer) = runtime.block_on(async {
            let start = |seed: u8| {
                let key = SecretKey::from_seed([seed; 32]);
                let loopback = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
                let config = HostConfig::new(key, AllowList::everyone()).bind([loopback]);
                Host::start(config).expect("loopback is there")
            };
            let (host, peer) = (start(5), start(6));
            let addresses = peer.addresses();
            let session = host.connect(peer.node_id(), &addresses).await;
            let accepted = peer.accept().await;
            let session = session.expect("loopback carries packets");
            (host, (peer, session, accepted.expect("one was opened")))
        });
        Asked {
            runtime,
            host,
            _peer: peer,
        }
    })
}

/// A line over the control socket gets one line in return, an answer or an error, in a bounded time and length.
pub fn control(data: &[u8]) {
    let line = String::from_utf8_lossy(data);
    let asked = asked();
    let answering = control::answer_line(&asked.host, &line);
    let answer = asked
        .runtime
        .block_on(async { tokio::time::timeout(Duration::from_secs(20), answering).await });
    let answer = answer.expect("an answer").to_string();
    assert!(!answer.contains('\n') && !answer.contains('\u{1b}'));
    assert!(answer.contains("\"rows\"") || answer.contains("\"error\""));
    assert!(
        answer.len() < (4 << 20) + 16 * data.len(),
        "{}",
        answer.len()
    );
}
