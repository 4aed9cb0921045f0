//! The level over a model of an uplink and of lines behind it.

use super::*;

const LOOK_S: f64 = 0.1;

/// Sessions that always have data, each behind a line of its own, whose controllers keep 20 ms of queue where nothing else bounds
/// them, and the uplink that they share, with up to 50 ms.
struct Scene {
    level: Level,
    uplink: f64,
    own: Vec<f64>,
    /// Queue in seconds: that of the sessions, and that of others.
    queue_s: f64,
    others_s: f64,
    rates: Vec<f64>,
    now: Instant,
}

impl Scene {
    fn new(uplink: f64, own: &[f64]) -> Self {
        Self {
            level: Level::default(),
            uplink,
            own: own.to_vec(),
            queue_s: 0.0,
            others_s: 0.0,
            rates: vec![0.0; own.len()],
            now: Instant::EPOCH,
        }
    }

    /// So many looks; returns whether one found that the queue is that of others.
    fn looks(&mut self, looks: u32) -> bool {
        let mut is_others = false;
        for _ in 0..looks {
            let most = self.level.rate().unwrap_or(f64::INFINITY);
            // Without a level, the first takes most of the uplink.
            let greedy = |n: usize| self.uplink / 2_f64.powi(n as i32);
            let offered: Vec<f64> = (self.own.iter().zip(&self.rates).enumerate())
                .map(|(n, (own, before))| match self.level.rate() {
                    Some(most) => own.min(most).min(1.3 * before),
                    None => own.min(greedy(n)),
                })
                .collect();
            let total: f64 = offered.iter().sum();
            let queue_s = self.queue_s + (total / self.uplink - 1.0) * LOOK_S;
            self.queue_s = queue_s.clamp(0.0, 0.05);
            let carried = if self.queue_s > 0.0 {
                self.uplink / total
            } else {
                1.0
            };
            let seen: Vec<Seen> = (offered.iter().zip(&self.own))
                .map(|(offered, own)| Seen {
                    rate: offered * carried,
                    queue_s: Some((
                        self.queue_s + self.others_s + if offered >= own { 0.02 } else { 0.0 },
                        0.04,
                    )),
                    swing_s: None,
                    is_bound: *offered >= most,
                })
                .collect();
            self.rates = seen.iter().map(|one| one.rate).collect();
            self.now += Duration::from_secs_f64(LOOK_S);
            is_others |= self.level.look(self.now, seen.len(), &seen, 0.005);
        }
        is_others
    }
}

#[test]
fn sessions_become_equal_and_stay_so() {
    let mut scene = Scene::new(1e6, &[1e9; 5]);
    scene.looks(1);
    assert!(scene.rates[0] > 4.0 * scene.rates[3], "{:?}", scene.rates);
    scene.looks(20);
    let (mut total, mut queue_s) = (0.0, 0.0_f64);
    for _ in 0..200 {
        scene.looks(1);
        let most = scene.rates.iter().copied().fold(0.0, f64::max);
        assert!(
            scene.rates.iter().all(|rate| *rate > 0.95 * most),
            "{:?}",
            scene.rates
        );
        total += scene.rates.iter().sum::<f64>() / 200.0;
        queue_s = queue_s.max(scene.queue_s);
    }
    assert!(total > 0.97e6 && queue_s < 0.02, "{total} {queue_s}");
}

#[test]
fn slower_lines_do_not_lower_the_level() {
    let mut scene = Scene::new(1e6, &[1e9, 2e4, 3e4, 1e9, 1e9]);
    scene.looks(60);
    let [fast, slow] = [scene.rates[4], scene.rates[1]];
    // (1e6 - 5e4) / 3
    assert!(
        (2.9e5..3.3e5).contains(&fast) && slow > 1.95e4,
        "{:?}",
        scene.rates
    );
}

#[test]
fn lines_that_are_the_bottlenecks_are_used() {
    let mut scene = Scene::new(1e9, &[2e5, 1e6, 5e6, 2e6, 2e6]);
    // Once in a while, it is found out again.
    let mut means = [0.0; 5];
    for _ in 0..600 {
        scene.looks(1);
        for (mean, rate) in means.iter_mut().zip(&scene.rates) {
            *mean += rate / 600.0;
        }
    }
    for (mean, own) in means.iter().zip(&scene.own) {
        assert!(*mean > 0.93 * own, "{means:?}");
    }
}

#[test]
fn it_yields_little_to_a_queue_of_others_and_tries_ever_more_rarely() {
    let mut scene = Scene::new(1e6, &[2e5; 3]);
    scene.others_s = 0.03;
    let mut trials = Vec::new();
    for _ in 0..700 {
        scene.looks(1);
        assert!(scene.rates[0] > 0.7 * 2e5, "{:?}", scene.rates);
        if scene.level.rate().is_some()
            && trials
                .last()
                .is_none_or(|last| scene.now.since(*last) > Duration::from_secs(5))
        {
            trials.push(scene.now);
        }
    }
    assert_eq!(trials.len(), 3, "{trials:?}");
}

#[test]
fn a_level_follows_those_who_come_and_go_at_once() {
    let mut scene = Scene::new(1e6, &[1e9; 4]);
    scene.looks(40);
    let before = scene.level.rate().unwrap();
    scene.level.join(4);
    assert_eq!(scene.level.rate(), Some(before * 0.8));
    scene.level.leave(1, 4);
    assert_eq!(scene.level.rate(), Some(before * 0.8 * 1.25));
    scene.own.truncate(1);
    scene.looks(1);
    assert_eq!(scene.level.rate(), None);
}
