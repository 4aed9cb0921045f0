use std::{sync::Arc, time::Duration};

use anabranch_base::{ChannelId, Instant, Rate, SessionId, StreamId};
use anabranch_spec::{ChannelMask, Grade, Guarantee, Share, Shares, StreamSpec, Tenant};
use anabranch_stats::joint::Cell;

use super::{
    super::{
        AdmissionController, Notice, OVERHEAD, Promises, Reason, Reservation, Standing, Uplink,
        beside::Kind,
    },
    Refusal,
};
use crate::mapping::Term;

const ADA: Tenant = Tenant::new(7);
const BOB: Tenant = Tenant::new(8);

fn spec(tenant: Tenant, guarantee: Guarantee) -> StreamSpec {
    StreamSpec {
        tenant: Some(tenant),
        ..StreamSpec::default().with_guarantee(guarantee)
    }
}

/// Promised in nine windows of ten, renewable.
fn rate(kbps: u64) -> Guarantee {
    Guarantee {
        grade: Grade::Renewable,
        ..Guarantee::rate(Rate::from_kbps(kbps), 0.9)
    }
}

fn shares(shares: &[(Tenant, f64)]) -> Shares {
    let share = |&(tenant, share): &(Tenant, f64)| (tenant, Share::new(share).expect("a share"));
    shares.iter().map(share).collect()
}

fn pass(controller: &mut AdmissionController, windows: usize, mbps: &[f64]) -> Vec<Notice> {
    let bps: Vec<f64> = mbps.iter().map(|mbps| mbps * 1e6).collect();
    (0..windows)
        .flat_map(|_| controller.end_window(&bps, |_| false))
        .collect()
}

/// Paths of so many Mbit/s, known for a minute, of which Ada may have 40 %.
fn known(mbps: &[f64]) -> AdmissionController {
    let mut controller = AdmissionController::new(mbps.len());
    pass(&mut controller, 60, mbps);
    controller.set_shares(shares(&[(ADA, 0.4)]));
    controller
}

#[track_caller]
fn offered_kbps(refusal: &Refusal) -> u64 {
    assert!(
        matches!(refusal.reason, Reason::OverShare { .. }),
        "{refusal}"
    );
    let rate = refusal.offer.rate.expect("a part is left");
    rate.as_bps() / 1_000
}

fn level_kbps(controller: &AdmissionController, stream: u64) -> Option<u64> {
    let explained = controller.explain(StreamId(stream))?;
    explained.term?;
    Some(explained.guarantee.required().as_bps() / 1_000)
}

#[test]
fn the_streams_of_a_tenant_together_have_its_share_at_most() {
    let mut controller = known(&[10.2]);
    // 40 % of 10.2 Mbit/s are 4.08 with headers, 4 without.
    let refusal = controller.admit(&spec(ADA, rate(4_001))).unwrap_err();
    assert!(
        (3_990..=4_000).contains(&offered_kbps(&refusal)),
        "{refusal}"
    );
    let Reason::OverShare { whole, has, .. } = refusal.reason else {
        panic!("{refusal}");
    };
    assert!(
        (10_100_000..=10_200_000).contains(&whole.as_bps()),
        "{whole}"
    );
    assert_eq!(has, Rate::ZERO);
    controller
        .open(StreamId(1), &spec(ADA, rate(3_000)))
        .unwrap();
    let refusal = controller.admit(&spec(ADA, rate(2_000))).unwrap_err();
    let left_kbps = offered_kbps(&refusal);
    assert!((990..=1_000).contains(&left_kbps), "{refusal}");
    // What is offered is granted, and then nothing is left.
    controller
        .open(StreamId(2), &spec(ADA, rate(left_kbps)))
        .unwrap();
    let refusal = controller.admit(&spec(ADA, rate(100))).unwrap_err();
    let rest = refusal.offer.rate.unwrap_or(Rate::ZERO);
    assert!(rest < Rate::from_kbps(15), "{refusal}");
    assert!(refusal.to_string().contains("your share"), "{refusal}");
    assert!(refusal.to_string().contains("40 %"), "{refusal}");
    // Others, with and without a tenant, have all the rest.
    controller
        .open(StreamId(3), &spec(BOB, rate(3_000)))
        .unwrap();
    let nobodys = StreamSpec::default().with_guarantee(rate(2_900));
    controller.open(StreamId(4), &nobodys).unwrap();
    // It is at one's disposal again when a stream closes.
    controller.close(StreamId(1));
    controller
        .open(StreamId(5), &spec(ADA, rate(2_900)))
        .unwrap();
}

#[test]
fn the_reference_does_not_depend_on_what_is_promised() {
    let mut controller = known(&[10.2]);
    controller
        .open(StreamId(1), &spec(BOB, rate(7_000)))
        .unwrap();
    // 3 Mbit/s are left, and 40 % of 10 are 4: the paths refuse it, not the share.
    let refusal = controller.admit(&spec(ADA, rate(3_500))).unwrap_err();
    assert!(
        matches!(refusal.reason, Reason::TooLittle { .. }),
        "{refusal}"
    );
    controller
        .open(StreamId(2), &spec(ADA, rate(2_900)))
        .unwrap();
    // Where both are exceeded, the offer is within both.
    let mut controller = known(&[10.2]);
    controller
        .open(StreamId(1), &spec(BOB, rate(7_000)))
        .unwrap();
    let refusal = controller.admit(&spec(ADA, rate(5_000))).unwrap_err();
    let rate_kbps = offered_kbps(&refusal);
    assert!((2_900..=3_000).contains(&rate_kbps), "{refusal}");
    controller
        .open(StreamId(2), &spec(ADA, rate(rate_kbps)))
        .unwrap();
}

#[test]
fn the_paths_that_a_stream_may_use_count() {
    let mut controller = known(&[10.2, 5.1]);
    controller
        .open(StreamId(1), &spec(ADA, rate(6_000)))
        .expect("40 % of 15");
    // Only the second path: 2 of 5, and nothing of the tenant's is on it.
    let pinned = |kbps: u64| StreamSpec {
        pinned: Some(ChannelId(1)),
        ..spec(ADA, rate(kbps))
    };
    let refusal = controller.admit(&pinned(2_100)).unwrap_err();
    let rate_kbps = offered_kbps(&refusal);
    assert!((1_990..=2_000).contains(&rate_kbps), "{refusal}");
    controller.open(StreamId(2), &pinned(rate_kbps)).unwrap();
    // A stream that stays on one path is compared with the largest.
    let tight = StreamSpec {
        may_split: false,
        ..spec(ADA, rate(100))
    };
    let refusal = controller.admit(&tight).unwrap_err();
    let Reason::OverShare { whole, .. } = refusal.reason else {
        panic!("{refusal}");
    };
    assert!(whole <= Rate::from_kbps(10_200), "{whole}");
}

#[test]
fn a_stream_waits_for_its_part_and_none_is_promised_too_much_at_once() {
    let mut controller = known(&[10.2]);
    controller
        .open(StreamId(1), &spec(ADA, rate(3_000)))
        .unwrap();
    for stream in [2, 3] {
        let waits = spec(ADA, rate(2_000).waiting());
        assert_eq!(controller.open(StreamId(stream), &waits), Ok(None));
    }
    assert_eq!(pass(&mut controller, 20, &[10.2]), []);
    let note = &controller.explain(StreamId(2)).unwrap().notes[0];
    assert!(note.text.contains("your share"), "{note:?}");
    // 4 Mbit/s: both.
    controller.close(StreamId(1));
    pass(&mut controller, 2, &[10.2]);
    assert_eq!([2, 3].map(|s| level_kbps(&controller, s)), [Some(2_000); 2]);
    // Of two that wait for more than half each, one is promised it.
    controller.close(StreamId(2));
    controller.close(StreamId(3));
    for stream in [4, 5] {
        let waits = spec(ADA, rate(2_500).waiting());
        controller.set_shares(shares(&[(ADA, 0.01)]));
        assert_eq!(controller.open(StreamId(stream), &waits), Ok(None));
    }
    controller.set_shares(shares(&[(ADA, 0.4)]));
    pass(&mut controller, 20, &[10.2]);
    assert_eq!(
        [4, 5].map(|s| level_kbps(&controller, s)),
        [Some(2_500), None]
    );
}

#[test]
fn levels_and_changes_stay_within_the_share() {
    let mut controller = known(&[10.2]);
    let levels = [6_000, 2_000, 1_000].map(Rate::from_kbps);
    let layered = rate(3_500).with_levels(levels).unwrap();
    controller.open(StreamId(1), &spec(ADA, layered)).unwrap();
    assert_eq!(level_kbps(&controller, 1), Some(3_500));
    let layered = |stream: u64, controller: &mut AdmissionController| {
        let answer = controller.open(StreamId(stream), &spec(ADA, layered.waiting()));
        answer.expect("it waits")
    };
    assert_eq!(layered(2, &mut controller), None, "nothing is left");
    pass(&mut controller, 100, &[10.2]);
    assert_eq!(
        [1, 2].map(|s| level_kbps(&controller, s)),
        [Some(3_500), None]
    );
    // A change counts without what the stream has; a smaller one is never refused.
    let refusal = controller
        .change(StreamId(1), &spec(ADA, rate(4_500)))
        .unwrap_err();
    assert!(
        matches!(refusal.reason, Reason::OverShare { .. }),
        "{refusal}"
    );
    controller.set_shares(shares(&[(ADA, 0.1)]));
    controller
        .change(StreamId(1), &spec(ADA, rate(2_000)))
        .unwrap();
    controller.set_shares(shares(&[(ADA, 0.4)]));
    // The one that waits gets the level that is left; and more, when there is more, but not all that the path has.
    pass(&mut controller, 2, &[10.2]);
    assert_eq!(level_kbps(&controller, 2), Some(2_000));
    controller.close(StreamId(1));
    pass(&mut controller, 100, &[10.2]);
    assert_eq!(level_kbps(&controller, 2), Some(3_500));
}

#[test]
fn a_promise_in_force_is_kept_when_the_share_becomes_smaller() {
    let mut controller = known(&[10.2]);
    controller
        .open(StreamId(1), &spec(ADA, rate(4_000)))
        .unwrap();
    controller.set_shares(shares(&[(ADA, 0.1)]));
    let notices = pass(&mut controller, 60, &[10.2]);
    assert_eq!(notices, []);
    assert_eq!(level_kbps(&controller, 1), Some(4_000));
    assert!(controller.admit(&spec(ADA, rate(100))).is_err());
}

#[test]
fn a_durable_promise_is_a_share_of_what_can_be_promised_for_that_term() {
    let mut controller = known(&[10.2]);
    for window in 0..440 {
        let mbps = if window % 30 == 0 { 5.1 } else { 10.2 };
        pass(&mut controller, 1, &[mbps]);
    }
    // At half the failures allowed, 5.1 Mbit/s can be promised for ever.
    let guarantee = |grade: Grade| Guarantee {
        grade,
        ..Guarantee::rate(Rate::from_kbps(2_500), 0.95)
    };
    let wanted = spec(ADA, guarantee(Grade::Durable));
    let refusal = controller.admit(&wanted).unwrap_err();
    assert!(
        (1_500..=2_000).contains(&offered_kbps(&refusal)),
        "{refusal}"
    );
    let grant = controller.admit(&spec(ADA, guarantee(Grade::Best)));
    let term = grant.map(|grant| grant.term);
    assert_eq!(term, Ok(Term::Renewable));
}

/// A session with one path of 10.2 Mbit/s on an uplink on which another session has promises.
fn beside(reserved: Vec<Reservation>) -> Promises {
    let mut promises = Promises::new(SessionId(1), Duration::from_secs(1));
    for _ in 0..60 {
        promises.observe(Instant::EPOCH, &[Cell::Exact(10.2e6)]);
    }
    promises.set_shares(Arc::new(shares(&[(ADA, 0.4)])));
    let uplink = Uplink {
        paths: ChannelMask::only(0),
        reserved: reserved.into(),
    };
    promises.set_uplinks([uplink].into_iter());
    promises
}

fn reservation(tenant: Tenant, kbps: u64, kind: Kind) -> Reservation {
    Reservation {
        standing: Standing {
            kind,
            since: Instant::EPOCH,
            session: SessionId(0),
        },
        tenant: Some(tenant),
        bps: kbps as f64 * 1e3 * OVERHEAD,
    }
}

#[test]
fn what_a_tenant_has_in_other_sessions_on_the_uplink_counts() {
    let admit = |promises: &mut Promises, kbps: u64| {
        let spec = spec(ADA, rate(kbps));
        let channels = [Some(ChannelId(0))];
        promises.admit(Instant::EPOCH, (&spec, ChannelMask::ALL), &channels)
    };
    let renewable = |tenant, kbps| reservation(tenant, kbps, Kind::Renewable);
    let mut promises = beside(vec![renewable(ADA, 3_000), renewable(BOB, 2_000)]);
    let refusal = admit(&mut promises, 1_100).unwrap_err();
    assert!((990..=1_000).contains(&offered_kbps(&refusal)), "{refusal}");
    admit(&mut promises, 990).unwrap();
    // What it waits for elsewhere does not, nor do others' promises.
    let mut promises = beside(vec![
        reservation(ADA, 3_000, Kind::Waiting),
        renewable(BOB, 2_000),
    ]);
    admit(&mut promises, 3_990).unwrap();
    assert!(admit(&mut promises, 4_010).is_err());
}
