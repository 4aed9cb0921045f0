//! Properties of the circuit table under any requests and packets of sources, and any delay of the host.

use super::*;

const DESTINATIONS: [u8; 3] = [6, 7, 8];

#[derive(Clone, Copy, Debug)]
enum Step {
    Wait(u64),
    Open {
        source: u8,
        circuit: u64,
        destination: u8,
        is_seen: bool,
        mbps: u64,
        lifetime_s: u64,
    },
    Refresh {
        source: u8,
        circuit: u64,
        relearn: bool,
    },
    Close {
        source: u8,
        circuit: u64,
    },
    CloseAll(u8),
    /// Packets from a source, a destination or a stranger, to one of the open ports.
    Send {
        from: u8,
        source_port: u16,
        port: usize,
        bytes: usize,
    },
    Undelivered(u64),
    Expire,
}

fn step() -> impl Strategy<Value = Step> {
    let source = || 1u8..4;
    let circuit = || 0u64..5;
    prop_oneof![
        2 => (0u64..4_000).prop_map(Step::Wait),
        4 => (source(), circuit(), 0usize..3, any::<bool>(), 0u64..20, 0u64..12).prop_map(
            |(source, circuit, destination, is_seen, mbps, lifetime_s)| Step::Open {
                source,
                circuit,
                destination: DESTINATIONS[destination],
                is_seen,
                mbps,
                lifetime_s,
            }
        ),
        1 => (source(), circuit(), any::<bool>())
            .prop_map(|(source, circuit, relearn)| Step::Refresh { source, circuit, relearn }),
        1 => (source(), circuit()).prop_map(|(source, circuit)| Step::Close { source, circuit }),
        1 => source().prop_map(Step::CloseAll),
        12 => (1u8..10, 4433u16..4435, any::<usize>(), 1usize..60_000).prop_map(
            |(from, source_port, port, bytes)| Step::Send { from, source_port, port, bytes }
        ),
        1 => (1u64..4).prop_map(Step::Undelivered),
        1 => Just(Step::Expire),
    ]
}

fn config() -> Config {
    Config {
        capacity: Rate::from_mbps(20),
        overbooking: 1.5,
        circuits_max: 8,
        ports_max: 4,
        lifetime_max: Duration::from_secs(10),
        period: Duration::from_secs(20),
        quota: Quota {
            circuits: 3,
            rate: Rate::from_mbps(12),
            bytes_per_period: 200_000,
        },
        ..Config::new(node(0))
    }
}

/// State of a circuit in the test.
struct Known {
    source: u8,
    rate: Rate,
    expires_at: Instant,
    towards: SocketAddr,
}

#[derive(Default)]
struct Ledger {
    known: BTreeMap<(u8, u64), Known>,
    /// Packets of each circuit, and of each source, that were forwarded, with their times.
    through: BTreeMap<(u8, u64), Vec<(Instant, u64)>>,
    offered_packets: u64,
    last: Option<(FlowId, u64)>,
    /// Bytes that were admitted, but not sent.
    returned: u64,
}

/// Checks that no span of time carried more than the rate and one burst.
fn check_spans(rate: Rate, through: &[(Instant, u64)]) -> Result<(), TestCaseError> {
    let burst = config().burst_bytes(rate);
    for (index, (begin, _)) in through.iter().enumerate() {
        let mut sum = 0;
        for (at, bytes) in &through[index..] {
            sum += bytes;
            let most = burst + rate.bytes_in(at.since(*begin)) + 2;
            prop_assert!(sum <= most, "{sum} bytes, at most {most}");
        }
    }
    Ok(())
}

fn run(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut relay = Relay::new(config());
    let mut ledger = Ledger::default();
    let mut now = NOW;
    for step in steps {
        take(&mut relay, &mut ledger, &mut now, step)?;
        check(&mut relay, &ledger)?;
    }
    let mut by_source: BTreeMap<u8, Vec<(Instant, u64)>> = BTreeMap::new();
    for ((source, _), through) in &ledger.through {
        by_source.entry(*source).or_default().extend(through);
    }
    for mut through in by_source.into_values() {
        through.sort_unstable();
        check_spans(config().quota.rate, &through)?;
        let mut by_period: BTreeMap<u64, u64> = BTreeMap::new();
        for (at, bytes) in through {
            *by_period.entry(at.as_nanos() / 20_000_000_000).or_default() += bytes;
        }
        for bytes in by_period.into_values() {
            prop_assert!(bytes <= 200_000 + ledger.returned, "{bytes} in a period");
        }
    }
    // In the end, all resources are returned.
    relay.circuits.expire(now + Duration::from_secs(11));
    relay.close_unused();
    prop_assert_eq!(relay.circuits.circuits_len(), 0);
    prop_assert!(relay.ports.is_empty());
    prop_assert_eq!(relay.circuits.peers.granted(), Rate::ZERO);
    let totals = relay.circuits.totals();
    prop_assert_eq!(totals.opened, totals.closed + totals.expired);
    Ok(())
}

fn take(
    relay: &mut Relay,
    ledger: &mut Ledger,
    now: &mut Instant,
    step: Step,
) -> Result<(), TestCaseError> {
    match step {
        Step::Wait(millis) => *now += Duration::from_millis(millis),
        Step::Expire => {
            relay.circuits.expire(*now);
            relay.close_unused();
        }
        Step::CloseAll(source) => {
            relay.circuits.close_all(node(source));
            relay.close_unused();
            ledger.known.retain(|_, known| known.source != source);
        }
        Step::Close { source, circuit } => {
            let id = CircuitId(circuit);
            relay.ask(*now, source, &Request::Close { circuit: id });
            ledger.known.remove(&(source, circuit));
        }
        Step::Refresh {
            source,
            circuit,
            relearn,
        } => {
            let request = Request::Refresh {
                circuit: CircuitId(circuit),
                lifetime: Duration::from_secs(10),
                relearn,
            };
            let is_known = ledger.known.get(&(source, circuit));
            let lives = is_known.is_some_and(|known| known.expires_at > *now);
            let answer = relay.ask(*now, source, &request);
            prop_assert_eq!(lives, matches!(answer, Answer::Opened(_)));
            if let (Answer::Opened(opened), Some(known)) =
                (answer, ledger.known.get_mut(&(source, circuit)))
            {
                known.expires_at = *now + opened.lifetime;
            }
        }
        Step::Open {
            source,
            circuit,
            destination,
            is_seen,
            mbps,
            lifetime_s,
        } => {
            let mut request = Open {
                rate: Rate::from_mbps(mbps),
                lifetime: Duration::from_secs(lifetime_s),
                ..open(circuit, source, destination)
            };
            if is_seen {
                request.origin = Origin::Known;
            }
            if let Answer::Opened(opened) = relay.ask(*now, source, &Request::Open(request)) {
                let known = Known {
                    source,
                    rate: opened.rate,
                    expires_at: *now + opened.lifetime,
                    towards: site(destination),
                };
                let before = ledger.known.insert((source, circuit), known);
                if before.is_none_or(|before| before.expires_at <= *now) {
                    // A new circuit has a bucket of its own.
                    ledger.end(source, circuit)?;
                }
            }
        }
        Step::Undelivered(packets) => {
            if let Some((flow, most)) = ledger.last.take() {
                let packets = packets.min(most);
                ledger.returned += packets * 1_000;
                let reason = Reason::Congested;
                relay
                    .circuits
                    .undelivered(flow, packets, packets * 1_000, reason);
            }
        }
        Step::Send {
            from,
            source_port,
            port,
            bytes,
        } => {
            let open: Vec<SocketAddr> = relay.ports.values().copied().collect();
            if open.is_empty() {
                return Ok(());
            }
            let remote = SocketAddr::new(site(from).ip(), source_port);
            let to = open[port % open.len()];
            send(relay, ledger, *now, remote, to, bytes)?;
        }
    }
    Ok(())
}

fn send(
    relay: &mut Relay,
    ledger: &mut Ledger,
    now: Instant,
    remote: SocketAddr,
    to: SocketAddr,
    bytes: usize,
) -> Result<(), TestCaseError> {
    ledger.offered_packets += bytes.div_ceil(bytes.min(1_000)) as u64;
    let Verdict::Forward(forward) = relay.send(now, remote, to, bytes) else {
        return Ok(());
    };
    prop_assert!(forward.packets > 0);
    let through = (forward.packets * bytes.min(1_000)).min(bytes) as u64;
    let is_far = relay.circuits.circuits(now).find(|circuit| {
        let is_out = circuit.near == to && circuit.origin == Some(remote);
        let is_back = circuit.far == to && circuit.towards == remote;
        let goes_to = if is_out {
            Some(circuit.towards)
        } else {
            circuit.origin
        };
        (is_out || is_back) && goes_to == Some(forward.remote)
    });
    let Some(circuit) = is_far else {
        return Err(TestCaseError::fail("forwarded, but of no circuit"));
    };
    let key = (circuit.source.public_key()[0], circuit.circuit.0);
    let known = &ledger.known[&key];
    prop_assert!(now < known.expires_at, "outlived its expiry");
    prop_assert_eq!(circuit.towards, known.towards);
    prop_assert_eq!(circuit.rate, known.rate);
    ledger.through.entry(key).or_default().push((now, through));
    check_spans(known.rate, &ledger.through[&key])?;
    ledger.last = Some((forward.flow, forward.packets as u64 - 1)).filter(|_| bytes > 1_000);
    Ok(())
}

impl Ledger {
    /// Ends a circuit; its traffic then counts only for its source.
    fn end(&mut self, source: u8, circuit: u64) -> Result<(), TestCaseError> {
        if let Some(through) = self.through.remove(&(source, circuit)) {
            self.through
                .entry((source, u64::MAX))
                .or_default()
                .extend(through);
        }
        Ok(())
    }
}

fn check(relay: &mut Relay, ledger: &Ledger) -> Result<(), TestCaseError> {
    let circuits = &relay.circuits;
    let config = circuits.config();
    prop_assert!(circuits.circuits_len() <= config.circuits_max);
    prop_assert!(circuits.ports_len() <= config.ports_max);
    prop_assert!(circuits.peers.granted() <= config.capacity * config.overbooking);
    // No port is leaked, and none of a live circuit is closed.
    prop_assert_eq!(circuits.ports.census(), (2 * circuits.circuits_len(), 0));
    let mut taken = BTreeSet::new();
    for circuit in circuits.circuits(NOW) {
        prop_assert!(
            taken.insert((circuit.far, circuit.towards)),
            "two circuits on one port towards one address"
        );
        if let Some(origin) = circuit.origin {
            prop_assert!(taken.insert((circuit.near, origin)));
        }
    }
    let totals = circuits.totals();
    let mut sum = Account::default();
    for peer in circuits.peers() {
        prop_assert!(peer.circuits <= config.quota.circuits);
        sum += peer.account;
    }
    // Accounts of sources may contain fewer undelivered packets, because a circuit can end in between.
    let all = |account: &Account| {
        account.outward.packets + account.back.packets + account.dropped.packets()
    };
    prop_assert_eq!(all(&sum), all(&totals.account));
    prop_assert_eq!(
        all(&totals.account) + totals.foreign_packets,
        ledger.offered_packets
    );
    Ok(())
}

proptest! {
    #[test]
    fn budgets_expiry_ports_and_accounts_hold(steps in prop::collection::vec(step(), 1..150)) {
        run(steps)?;
    }
}
