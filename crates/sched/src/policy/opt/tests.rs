use super::{super::claims::tests::promised, *};
use crate::{arrival::tests::channel, pick::tests::stream, policy::Policy};
use anabranch_spec::Priority;

/// Rates in bytes per second, one a millisecond of each link, repeated for ever.
#[derive(Clone, Debug)]
struct Future(Vec<Vec<f64>>);

impl Future {
    fn rate(&self, channel: ChannelId, ms: u64) -> f64 {
        let rates = &self.0[channel.0 as usize];
        rates[ms as usize % rates.len()]
    }
}

impl Oracle for Future {
    fn bytes(&self, channel: ChannelId, from: Instant, to: Instant) -> f64 {
        let (mut at, mut bytes) = (from.as_nanos(), 0.0);
        while at < to.as_nanos() {
            let ms = at / 1_000_000;
            let end = ((ms + 1) * 1_000_000).min(to.as_nanos());
            bytes += self.rate(channel, ms) * (end - at) as f64 / 1e9;
            at = end;
        }
        bytes
    }

    fn delay(&self, _channel: ChannelId) -> Duration {
        Duration::from_millis(10)
    }
}

fn mbps(rate: f64) -> f64 {
    rate * 1e6 / 8.0
}

fn opt(rates: Vec<Vec<f64>>) -> Opt {
    Opt::new(Box::new(Future(rates)))
}

#[test]
fn what_comes_decides_and_not_what_was() {
    // The first is ten times as fast, but stalls from 5 ms to 200 ms.
    let mut stalls = vec![mbps(100.0); 200];
    stalls[5..].fill(0.0);
    let mut scheduler = opt(vec![stalls, vec![mbps(10.0)]]);
    let channels = [channel(0, 9, 20, 100.0), channel(1, 9, 20, 10.0)];
    let streams = [promised(0, 0, 5.0)];
    let mut at = |now_ms| {
        let view = View {
            now: Instant::from_millis(now_ms),
            channels: &channels,
            streams: &streams,
        };
        scheduler.next(&view)
    };
    let on = |channel| Decision::Send {
        stream: 0,
        channels: ChannelMask::only(channel),
    };
    assert_eq!(at(1), on(0));
    assert_eq!(at(6), on(1));
    assert_eq!(
        at(199),
        on(0),
        "1 ms and a tenth until it is there again, against 1.2 ms"
    );
}

fn account() -> Account {
    Account {
        id: StreamId(0),
        window: 0,
        sent_bytes: 0.0,
        delta: 0.0,
        owed_bytes: 0.0,
        arriving: [0.0; WINDOWS_AHEAD],
    }
}

#[test]
fn the_feedback_is_as_published() {
    let claim = promised(0, 0, 8.0).claim.unwrap();
    let mut account = account();
    let mut after = |received: f64| {
        account.arriving[0] = received;
        account.settle(claim);
        account.delta
    };
    let is = |delta: f64, wanted: f64| (delta - wanted).abs() < 1e-3;
    assert!(is(after(1.1e6), -0.05e6), "half of what was too much");
    assert!(is(after(1.0005e6), 0.0), "within β");
    assert!(is(after(0.9e6), 0.2e6), "twice what was missing");
    // Ours: what makes up for it is no excess.
    assert!(is(after(1.1e6), 0.0), "caught up");
    assert!(is(after(1.1e6), -0.05e6), "beyond that");
    assert!(
        is(after(0.8e6), 0.4e6) && is(after(0.9e6), 0.3e6),
        "all that is owed"
    );
    assert!(is(after(1.2e6), 0.1e6) && is(after(1.3e6), -0.1e6));
    // A window that gets 50 kB too little lets 1.1 MB go with precedence in the next.
    let mut scheduler = opt(vec![vec![mbps(100.0)]]);
    let stream = promised(0, 0, 8.0);
    let at = Instant::from_millis;
    assert!(scheduler.reserve(at(10), &stream, 0.95e6, at(500)));
    assert_eq!(
        scheduler.allowance(at(10), stream.id, claim).round(),
        0.05e6
    );
    assert_eq!(
        scheduler.allowance(at(1010), stream.id, claim).round(),
        1.1e6
    );
    // What arrives a window later counts there, where it is as much as is due: all that was late is owed still.
    assert!(scheduler.reserve(at(1010), &stream, 1.0e6, at(2100)));
    assert_eq!(
        scheduler.allowance(at(2010), stream.id, claim).round(),
        3.0e6
    );
    assert_eq!(
        scheduler.allowance(at(3010), stream.id, claim).round(),
        2.05e6
    );
}

/// Links in steps of a millisecond, one stream of 10 and one of 4 Mbit/s in packets, and a file.
///
/// Returns what arrived of each stream in each second, in bytes.
fn run(scheduler: &mut dyn Scheduler, future: &Future, seconds: u64) -> Vec<[f64; 3]> {
    const WINDOW: u64 = 60_000;
    let links = future.0.len();
    let mut streams = [
        promised(0, 0, 10.0),
        promised(2, 1, 4.0),
        stream(4, Priority::NORMAL, 1600, 1 << 40),
    ];
    streams[0].weight = 1000;
    streams[1].weight = 400;
    let mut backlog = [0.0f64; 2];
    // By link: what waits in order, as (stream, bytes, whole packet); and what is in flight.
    let mut queues = vec![std::collections::VecDeque::<(usize, f64, u64)>::new(); links];
    let mut acks = vec![std::collections::VecDeque::<(u64, u64)>::new(); links];
    let mut in_flight = vec![0u64; links];
    let mut arrived = vec![[0.0; 3]; seconds as usize + 1];
    for ms in 0..seconds * 1000 {
        for (link, queue) in queues.iter_mut().enumerate() {
            let mut capacity = future.rate(ChannelId(link as u64), ms) / 1000.0;
            while let Some((stream, left, whole)) = queue.front_mut() {
                let carried = capacity.min(*left);
                *left -= carried;
                capacity -= carried;
                if *left > 1e-9 {
                    break;
                }
                arrived[(ms as usize + 10) / 1000][*stream] += *whole as f64;
                acks[link].push_back((ms + 20, *whole));
                queue.pop_front();
            }
            while acks[link].front().is_some_and(|&(at, _)| at <= ms) {
                in_flight[link] -= acks[link].pop_front().map_or(0, |(_, bytes)| bytes);
            }
        }
        backlog[0] += mbps(10.0) / 1000.0;
        backlog[1] += mbps(4.0) / 1000.0;
        loop {
            let channels: Vec<ChannelView> = (0..links)
                .map(|link| {
                    let mut view = channel(link as u64, 0, 20, 20.0);
                    view.window_bytes = WINDOW;
                    view.in_flight_bytes = in_flight[link];
                    view.slots = (WINDOW.saturating_sub(in_flight[link]) / 1400) as usize;
                    view
                })
                .collect();
            let waiting: Vec<StreamView> = streams
                .iter()
                .enumerate()
                .filter(|&(index, _)| index == 2 || backlog[index] >= 1400.0)
                .map(|(index, view)| StreamView {
                    backlog_bytes: backlog.get(index).map_or(1 << 40, |&bytes| bytes as u64),
                    ..view.clone()
                })
                .collect();
            let view = View {
                now: Instant::from_millis(ms),
                channels: &channels,
                streams: &waiting,
            };
            let Decision::Send { stream, channels } = scheduler.next(&view) else {
                break;
            };
            scheduler.sent(&view, stream, channels, 1400 - OVERHEAD_BYTES as usize);
            let index = streams
                .iter()
                .position(|s| s.id == waiting[stream].id)
                .unwrap();
            if let Some(bytes) = backlog.get_mut(index) {
                *bytes -= 1400.0;
            }
            for link in channels.iter() {
                queues[link].push_back((index, 1400.0, 1400));
                in_flight[link] += 1400;
            }
        }
    }
    arrived
}

/// Two links of 20 Mbit/s. In every second second they stall in turn, for half of it each: one of them is
/// always there, which is enough for what is promised. Who knows it keeps every window and still fills
/// the links; who shares by weight, in proportion to what there is on average, does not.
#[test]
fn it_keeps_what_can_be_kept() {
    let stall = |from: usize| {
        let mut rates = vec![mbps(20.0); 2000];
        rates[from..from + 500].fill(0.0);
        rates
    };
    let future = Future(vec![stall(1000), stall(1500)]);
    let kept = |window: &[f64; 3]| [window[0] / mbps(10.0), window[1] / mbps(4.0)];
    let windows = run(&mut opt(future.0.clone()), &future, 20);
    for (second, window) in windows[1..20].iter().enumerate() {
        assert!(
            kept(window).iter().all(|&share| share > 0.99),
            "{second}: {window:?}"
        );
    }
    // 40 and 20 Mbit/s in turn: the file gets the rest.
    let total: f64 = windows[2..20].iter().flatten().sum();
    assert!(
        total > 0.97 * 18.0 * mbps(30.0),
        "{}",
        total / 18.0 / mbps(30.0)
    );
    let shared = run(
        &mut Policy::Msfq.build(anabranch_base::Seed(1)),
        &future,
        20,
    );
    let broken = shared[1..20].iter().filter(|&window| kept(window)[0] < 0.9);
    assert!(broken.count() >= 8);
}
