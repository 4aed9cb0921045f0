//! Shares of many clients that download from one server at once, over its one line: exact figures in virtual time.

use std::{collections::BTreeMap, time::Duration};

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
    controller: Controller,
    /// Seconds over which clients begin, before which nothing counts, and seconds that count.
    seconds: [u64; 3],
}

/// Shares of a run.
#[derive(Debug)]
struct Shares {
    /// In megabits per second, in increasing order.
    mbps: Vec<f64>,
    used: f64,
}

impl Shares {
    fn mean(&self) -> f64 {
        self.mbps.iter().sum::<f64>() / self.mbps.len() as f64
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

fn run(plan: &Plan, seed: u64) -> Shares {
    let mut world = World::new(Seed(seed));
    let mut config = Config::default();
    config.channel.controller = plan.controller;
    config.probing = anabranch_session::Probing::OFF;
    let server = world.add_node(config, AllowList::everyone_listed(), Server::default());
    let line = |text: &str| parse_both(text, &mut |_| Err("no traces".to_owned())).expect("a line");
    let (mbps, queue) = (plan.mbps, plan.queue_ms);
    let text = format!("rate={mbps} Mbit/s, delay=5 ms, queue={queue} ms");
    let trunk = world.add_trunk(line(&text)).expect("a valid line");
    let [begin, warm, measured] = plan.seconds;
    let mut first = None;
    for n in 0..plan.clients {
        let client = Client {
            dial: Sender::new(World::node_id(server), Vec::new()),
            reads: Receiver::new(),
        };
        let client = world.add_node(Config::default(), AllowList::default(), client);
        let [low, high] = plan.delays_ms;
        let delay = low as f64 + (high - low) as f64 * n as f64 / plan.clients as f64;
        let own = format!("rate=1 Gbit/s, delay={delay:.3} ms, queue=50 ms");
        let own = world.add_trunk(line(&own)).expect("a valid line");
        let there = [Hop::forward(trunk), Hop::forward(own)];
        let back = Hop::reversed(&there);
        let route = match first {
            None => world.add_route([server, client], &there, &back),
            Some(first) => world.add_route_beside([server, client], first, &there, &back),
        };
        first = first.or(Some(route));
        let link = world.route_link(client, route);
        let at =
            Instant::EPOCH + Duration::from_millis(begin * 1000 * n as u64 / plan.clients as u64);
        world.app::<Client>(client).dial.dial(at, vec![link]);
        world.with_node(client, |_| ());
    }
    world.run_until(Instant::from_secs(begin + warm + measured));
    let slots = |seconds: u64| seconds as usize * 10;
    let mut mbps: Vec<f64> = (1..=plan.clients)
        .map(|client| {
            let reads = &world.app::<Client>(client).reads;
            let bytes: u64 = reads.records.get("bulk").map_or(0, |record| {
                let counted = record.per_100ms.iter().skip(slots(begin + warm));
                counted.take(slots(measured)).sum()
            });
            bytes as f64 * 8e-6 / measured as f64
        })
        .collect();
    mbps.sort_by(f64::total_cmp);
    let used = mbps.iter().sum::<f64>() / plan.mbps as f64;
    Shares { mbps, used }
}

/// The last clients begin when the first have filled the line; each has to find its share.
#[test]
fn a_few_clients_with_cubic_get_equal_shares() {
    let plan = Plan {
        clients: 10,
        mbps: 20,
        queue_ms: 50,
        delays_ms: [15, 15],
        controller: Controller::Cubic,
        seconds: [5, 15, 30],
    };
    let shares = run(&plan, 1);
    assert!(shares.within() >= 1.0 && shares.used > 0.93, "{shares:?}");
}

#[test]
#[ignore = "prints figures; takes two minutes"]
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
                queue_ms: 50,
                delays_ms,
                controller,
                seconds: [5, 15, 30],
            };
            let shares = run(&plan, 1);
            let (low, high) = (shares.mbps[0], shares.mbps[clients - 1]);
            println!(
                "{controller:?} {clients} clients, {mbps} Mbit/s, {delays_ms:?} ms: {low:.3} to {high:.3}, mean {:.3}, Jain {:.4}, \
                 within 10 %: {:.2}, used {:.3}",
                shares.mean(),
                shares.jain(),
                shares.within(),
                shares.used
            );
        }
    }
}
