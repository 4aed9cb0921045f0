//! scratch
use anabranch_base::{Instant, Rate, Seed};
use anabranch_link::{Config as LinkConfig, Loss, Queue, RateSource, duplex::Configs};
use anabranch_session::{AllowList, Config, Controller};
use anabranch_sim::{
    World,
    apps::{Load, Receiver, Sender},
};
use std::time::Duration;
fn link(mbps: u64, rtt_ms: u64, loss: f64) -> Configs {
    let rate = Rate::from_mbps(mbps);
    let rtt = Duration::from_millis(rtt_ms);
    let one = LinkConfig {
        rate: RateSource::Constant(rate),
        delay: rtt / 2,
        queue: Queue::bdp(rate, rtt),
        ..LinkConfig::default()
    };
    Configs {
        forward: LinkConfig {
            loss: if loss > 0.0 {
                Loss::random(loss).unwrap()
            } else {
                Loss::None
            },
            ..one.clone()
        },
        backward: one,
    }
}
#[test]
fn probe() {
    let which = std::env::var("PROBE").unwrap_or("C".into());
    let ctrl: Controller = std::env::var("CTRL")
        .unwrap_or("auto".into())
        .parse()
        .unwrap();
    let mut config = Config::default();
    config.channel.controller = ctrl;
    let mut loads = vec![Load::bulk(
        std::env::var("MB")
            .unwrap_or("120".into())
            .parse::<u64>()
            .unwrap()
            * 1_000_000,
    )];
    if which == "F" {
        loads.push(Load {
            start: Instant::from_millis(300),
            ..Load::messages(1200, Duration::from_micros(4800), 1_000_000)
        });
    }
    if which == "G" {
        loads.push(Load {
            start: Instant::from_millis(300),
            ..Load::messages(200, Duration::from_millis(20), 1_000_000)
        });
    }
    let mut world = World::new(Seed(1));
    let a = world.add_node(
        config.clone(),
        AllowList::default(),
        Sender::new(World::node_id(1), loads),
    );
    let b = world.add_node(config, AllowList::of([World::node_id(0)]), Receiver::new());
    let ls = match which.as_str() {
        "C" => vec![link(80, 30, 0.01), link(40, 100, 0.001)],
        "G" => vec![link(300, 10, 0.0), link(80, 30, 0.0)],
        w if w.contains(',') => w
            .split('+')
            .map(|s| {
                let v: Vec<f64> = s.split(',').map(|x| x.parse().unwrap()).collect();
                link(v[0] as u64, v[1] as u64, v[2])
            })
            .collect(),
        _ => vec![link(100, 20, 0.0), link(50, 60, 0.0)],
    };
    let links = ls
        .into_iter()
        .map(|c| {
            let w = world.add_wire(a, b, c).unwrap();
            world.link(a, w)
        })
        .collect();
    world.app::<Sender>(a).dial(Instant::EPOCH, links);
    world.with_node(a, |_| ());
    if which == "E" {
        world.schedule(Duration::from_secs(4), |w| w.set_wire_up(0, false));
        world.schedule(Duration::from_secs(9), |w| w.set_wire_up(0, true));
    }
    let mut last = 0;
    let step: u64 = std::env::var("STEP")
        .unwrap_or("250".into())
        .parse()
        .unwrap();
    let n: u64 = std::env::var("N").unwrap_or("60".into()).parse().unwrap();
    for _ in 0..n {
        let t0 = std::time::Instant::now();
        world.run_for(Duration::from_millis(step));
        let now = world.now();
        let book = world.app::<Receiver>(1).book("bulk");
        let msg = world.app::<Receiver>(1).book("messages");
        print!(
            "{now} wall {:?} got {:.1} Mbit/s |",
            t0.elapsed(),
            (book.bytes - last) as f64 * 8.0 / step as f64 / 1e3
        );
        last = book.bytes;
        let Some(s) = world.app::<Sender>(0).session() else {
            println!();
            continue;
        };
        for c in world.engine(0).channel_stats(s) {
            let st = c.stats;
            print!(
                " {:?} rtt {:.1}/{:.1} rate {} pace {} win {} fl {} lost {} ce {} |",
                c.state,
                st.rtt_smoothed.as_secs_f64() * 1e3,
                st.rtt_min.as_secs_f64() * 1e3,
                st.rate_delivered,
                st.rate_paced,
                st.window_bytes,
                st.in_flight_bytes,
                st.packets_lost,
                st.congestion_events
            );
        }
        for w in 0..2.min(1 + last as usize) {
            let q = world.wire(w).duplex.forward.queue_delay(now);
            print!(" q{w} {:.1}ms", q.as_secs_f64() * 1e3);
        }
        let ss = world.engine(0).stream_stats(s);
        print!(
            " backlog {:?} msgs {} p50 {:.1} p99 {:.1}",
            ss.first().map(|s| s.backlog_bytes),
            msg.numbers.len(),
            msg.delay_quantile(0.5).as_secs_f64() * 1e3,
            msg.delay_quantile(0.99).as_secs_f64() * 1e3
        );
        println!();
        if world.app::<Receiver>(1).book("bulk").finished {
            break;
        }
    }
}
