//! Shares of many clients that download from one server at once, over its one line: exact figures in virtual time.

use std::{collections::BTreeMap, ops::Range, time::Duration};

use anabranch_base::{Instant, Seed, SessionId, StreamId};
use anabranch_link::describe::parse_both;
use anabranch_session::{AllowList, Config, Controller, Event, StreamSpec};
use anabranch_sim::{
    App, Context, World,
    apps::{Receiver, Sender, make_adu},
    network::Hop,
};

/// About a packet of a tunnel.
const ADU_BYTES: usize = 1200;

/// Server that sends without end to every client, on one stream each.
#[derive(Debug, Default)]
struct Server {
    streams: BTreeMap<SessionId, (StreamId, u64)>,
    /// So many of the first sessions are closed at a time.
    leaving: Option<(usize, Instant)>,
}

impl Server {
    fn fill(&mut self, context: &mut Context<'_>, session: SessionId) {
        let Some((stream, sent)) = self.streams.get_mut(&session) else {
            return;
        };
        while context
            .send(session, *stream, make_adu(context.now(), *sent, ADU_BYTES))
            .is_ok()
        {
            *sent += 1;
        }
    }
}

impl App for Server {
    fn on_event(&mut self, context: &mut Context<'_>, event: Event) {
        match event {
            Event::Connected { session, .. } => {
                let spec = StreamSpec::bulk("bulk");
                if let Ok(stream) = context.open(session, spec) {
                    self.streams.insert(session, (stream, 0));
                }
                self.fill(context, session);
            }
            Event::Writable { session, .. } => self.fill(context, session),
            _ => {}
        }
    }

    fn on_wake(&mut self, context: &mut Context<'_>) {
        if let Some((count, _)) = self.leaving.take_if(|(_, at)| *at <= context.now()) {
            let leaving: Vec<SessionId> = self.streams.keys().copied().take(count).collect();
            for session in leaving {
                self.streams.remove(&session);
                let now = context.now();
                let session = context.engine().session(session).expect("it is open");
                session.close(now, 0, "done");
            }
        }
    }

    fn next_wake(&self) -> Option<Instant> {
        self.leaving.map(|(_, at)| at)
    }
}

/// Client that dials and reads.
#[derive(Debug)]
struct Client {
    dial: Sender,
    reads: Receiver,
}

impl App for Client {
    fn on_event(&mut self, context: &mut Context<'_>, event: Event) {
        self.reads.on_event(context, event);
    }

    fn on_wake(&mut self, context: &mut Context<'_>) {
        self.dial.on_wake(context);
    }

    fn next_wake(&self) -> Option<Instant> {
        self.dial.next_wake()
    }
}

/// Scenario of a run.
#[derive(Debug, Clone, Copy)]
struct Plan {
    clients: usize,
    /// Of the server's line.
    mbps: u64,
    queue_ms: u64,
    /// One-way delays of the clients' own lines, from the first to the last.
    delays_ms: [u64; 2],
    /// Rate of the own line of each client.
    own_mbps: fn(usize) -> f64,
    controller: Controller,
    /// Seconds over which clients begin, before which nothing counts, and seconds that count.
    seconds: [u64; 3],
    /// Clients whose sessions are closed after so many seconds.
    leaving: Option<(usize, u64)>,
    /// Rate of a second line of the server, and the clients that have a path over it, too.
    second: Option<(u64, usize)>,
}

const PLAN: Plan = Plan {
    clients: 10,
    mbps: 20,
    queue_ms: 50,
    delays_ms: [15, 15],
    own_mbps: |_| 1_000.0,
    controller: Controller::Auto,
    seconds: [5, 15, 30],
    leaving: None,
    second: None,
};

/// Bytes that arrived at each client.
#[derive(Debug)]
struct Arrived {
    per_100ms: Vec<Vec<u64>>,
    plan: Plan,
}

/// Shares of some clients.
#[derive(Debug)]
struct Shares {
    /// In megabits per second, in increasing order.
    mbps: Vec<f64>,
}

impl Arrived {
    fn mbps(&self, client: usize, seconds: Range<u64>) -> f64 {
        let slots = |seconds: u64| seconds as usize * 10;
        let all = self.per_100ms[client].iter().skip(slots(seconds.start));
        let counted = all.take(slots(seconds.end - seconds.start)).sum::<u64>();
        counted as f64 * 8e-6 / (seconds.end - seconds.start) as f64
    }

    fn shares(&self, clients: Range<usize>, seconds: Range<u64>) -> Shares {
        let mut mbps: Vec<f64> = clients.map(|one| self.mbps(one, seconds.clone())).collect();
        mbps.sort_by(f64::total_cmp);
        Shares { mbps }
    }

    /// Of all clients, in the seconds that count.
    fn all(&self) -> Shares {
        let [begin, warm, measured] = self.plan.seconds;
        self.shares(0..self.plan.clients, begin + warm..begin + warm + measured)
    }
}

impl Shares {
    fn total(&self) -> f64 {
        self.mbps.iter().sum()
    }

    fn mean(&self) -> f64 {
        self.total() / self.mbps.len() as f64
    }

    /// Jain's index.
    fn jain(&self) -> f64 {
        let squares: f64 = self.mbps.iter().map(|x| x * x).sum();
        self.mean() * self.mean() * self.mbps.len() as f64 / squares
    }

    /// Part of the clients within 10 % of the mean.
    fn within(&self) -> f64 {
        let mean = self.mean();
        let near = self.mbps.iter().filter(|x| (*x / mean - 1.0).abs() <= 0.1);
        near.count() as f64 / self.mbps.len() as f64
    }
}

fn run(plan: &Plan, seed: u64) -> Arrived {
    let mut world = World::new(Seed(seed));
    let mut config = Config::default();
    config.channel.controller = plan.controller;
    config.probing = anabranch_session::Probing::OFF;
    let server = Server {
        leaving: plan
            .leaving
            .map(|(count, s)| (count, Instant::from_secs(s))),
        ..Server::default()
    };
    let server = world.add_node(config, AllowList::everyone_listed(), server);
    let line = |text: &str| parse_both(text, &mut |_| Err("no traces".to_owned())).expect("a line");
    let mut trunk = |mbps: u64| {
        let queue = plan.queue_ms;
        let text = format!("rate={mbps} Mbit/s, delay=5 ms, queue={queue} ms");
        world.add_trunk(line(&text)).expect("a valid line")
    };
    let mut trunks = vec![(trunk(plan.mbps), plan.clients, None)];
    trunks.extend(
        plan.second
            .map(|(mbps, clients)| (trunk(mbps), clients, None)),
    );
    let [begin, warm, measured] = plan.seconds;
    for n in 0..plan.clients {
        let client = Client {
            dial: Sender::new(World::node_id(server), Vec::new()),
            reads: Receiver::new(),
        };
        let client = world.add_node(Config::default(), AllowList::default(), client);
        let [low, high] = plan.delays_ms;
        let delay = low as f64 + (high - low) as f64 * n as f64 / plan.clients as f64;
        let rate = (plan.own_mbps)(n);
        let own = format!("rate={rate} Mbit/s, delay={delay:.3} ms, queue=50 ms");
        let mut links = Vec::new();
        for (trunk, clients, first) in &mut trunks {
            if n >= *clients {
                continue;
            }
            let own = world.add_trunk(line(&own)).expect("a valid line");
            let there = [Hop::forward(*trunk), Hop::forward(own)];
            let back = Hop::reversed(&there);
            let route = match *first {
                None => world.add_route([server, client], &there, &back),
                Some(first) => world.add_route_beside([server, client], first, &there, &back),
            };
            first.get_or_insert(route);
            links.push(world.route_link(client, route));
        }
        let at =
            Instant::EPOCH + Duration::from_millis(begin * 1000 * n as u64 / plan.clients as u64);
        world.app::<Client>(client).dial.dial(at, links);
        world.with_node(client, |_| ());
    }
    world.run_until(Instant::from_secs(begin + warm + measured));
    let per_100ms = (1..=plan.clients).map(|client| {
        let records = &world.app::<Client>(client).reads.records;
        records
            .get("bulk")
            .map_or_else(Vec::new, |record| record.per_100ms.clone())
    });
    Arrived {
        per_100ms: per_100ms.collect(),
        plan: *plan,
    }
}

/// The last clients begin when the first have filled the line; each has to find its share.
#[test]
fn a_few_clients_get_equal_shares() {
    for controller in [Controller::Auto, Controller::Cubic] {
        let shares = run(&Plan { controller, ..PLAN }, 1).all();
        let used = shares.total() / 20.0;
        assert!(shares.within() >= 1.0 && used > 0.93, "{shares:?}");
    }
}

#[test]
#[ignore = "prints figures; takes four minutes"]
fn shares_by_controller_and_delay() {
    for controller in [Controller::Auto, Controller::Cubic] {
        for (clients, mbps, delays_ms) in [
            (10, 20, [15, 15]),
            (10, 20, [5, 75]),
            (30, 60, [15, 15]),
            (100, 100, [15, 15]),
            (100, 100, [5, 75]),
        ] {
            let plan = Plan {
                clients,
                mbps,
                delays_ms,
                controller,
                ..PLAN
            };
            let shares = run(&plan, 1).all();
            let (low, high) = (shares.mbps[0], shares.mbps[clients - 1]);
            println!(
                "{controller:?} {clients} clients, {mbps} Mbit/s, {delays_ms:?} ms: {low:.3} to {high:.3}, mean {:.3}, Jain {:.4}, \
                 within 10 %: {:.2}, used {:.3}",
                shares.mean(),
                shares.jain(),
                shares.within(),
                shares.total() / mbps as f64,
            );
            let used = shares.total() / mbps as f64;
            assert!(shares.within() >= 0.95 && used >= 0.9, "{shares:?}");
        }
    }
}

/// Sessions of one server that are limited elsewhere keep their rates, and the others share the rest.
#[test]
fn clients_with_slow_lines_take_nothing_from_others_and_lose_nothing() {
    for controller in [Controller::Auto, Controller::Cubic] {
        let plan = Plan {
            own_mbps: |n| if n < 4 { 0.3 } else { 1_000.0 },
            controller,
            ..PLAN
        };
        let arrived = run(&plan, 1);
        let [slow, fast] = [0..4, 4..10].map(|clients| arrived.shares(clients, 20..50));
        println!("{controller:?}, slow lines: {slow:.3?}, others: {fast:.3?}");
        assert!(slow.mbps[0] > 0.25, "{slow:?}");
        assert!(fast.within() >= 1.0, "{fast:?}");
        assert!(
            slow.total() + fast.total() > 0.9 * 20.0,
            "{slow:?} {fast:?}"
        );
    }
}

/// Every client has its own bottleneck; the server's line is none.
#[test]
fn clients_with_bottlenecks_of_their_own_use_them() {
    for controller in [Controller::Auto, Controller::Cubic] {
        let plan = Plan {
            clients: 5,
            mbps: 1_000,
            own_mbps: |n| [2.0, 10.0, 50.0, 20.0, 20.0][n],
            controller,
            ..PLAN
        };
        let arrived = run(&plan, 1);
        for (client, own_mbps) in [2.0, 10.0, 50.0, 20.0, 20.0].into_iter().enumerate() {
            let used = arrived.mbps(client, 20..50) / own_mbps;
            println!("{controller:?}, a line of {own_mbps} Mbit/s: {used:.3}");
            let least = if client == 2 { 0.88 } else { 0.9 };
            assert!(used > least, "{controller:?} {client} {used}");
        }
    }
}

/// Five of ten end at once, and the rest have what they leave; before, the last has found its share soon after it began.
#[test]
fn shares_follow_those_who_come_and_go() {
    for controller in [Controller::Auto, Controller::Cubic] {
        let plan = Plan {
            leaving: Some((5, 20)),
            seconds: [10, 0, 20],
            controller,
            ..PLAN
        };
        let arrived = run(&plan, 1);
        // The last begins after 9 s.
        let shares = arrived.shares(0..10, 11..13);
        assert!(shares.mbps[0] > 0.8 * shares.mean(), "{shares:?}");
        assert!(shares.total() > 0.9 * 20.0, "{shares:?}");
        let shares = arrived.shares(5..10, 22..25);
        assert!(shares.within() >= 1.0, "{shares:?}");
        assert!(shares.total() > 0.9 * 20.0, "{shares:?}");
    }
}

/// Ten clients use two lines of the server, and five one of them: each line is divided by itself.
#[test]
fn each_line_of_the_server_is_divided() {
    let plan = Plan {
        clients: 15,
        second: Some((40, 10)),
        ..PLAN
    };
    let arrived = run(&plan, 1);
    let [both, one] = [0..10, 10..15].map(|clients| arrived.shares(clients, 20..50));
    assert!(
        both.within() >= 1.0 && one.within() >= 1.0,
        "{both:?} {one:?}"
    );
    let wanted = 20.0 / 15.0;
    assert!((one.mean() / wanted - 0.94).abs() < 0.05, "{one:?}");
    assert!(both.total() + one.total() > 0.9 * 60.0, "{both:?} {one:?}");
}
