use super::*;

fn figures(policy: usize, scheduler: &str, stream: u64) -> (f64, f64, f64) {
    let mut setting = Setting::published(&policies::of(policy));
    setting.length_ms = 120e3;
    let seed = Seed(3);
    let sent = driver::run(&setting, planner(scheduler, seed).as_mut(), seed);
    let of_stream: Vec<_> = sent.iter().filter(|one| one.stream == stream).collect();
    let trips: Vec<f64> = of_stream
        .iter()
        .filter_map(|one| one.round_trip_ms)
        .collect();
    let count = of_stream.len() as f64;
    (
        trips.iter().sum::<f64>() / trips.len() as f64,
        1.0 - trips.len() as f64 / count,
        count / sent.len() as f64,
    )
}

/// The effects reported in the thesis, in two minutes of virtual time; exact, as everything is seeded.
#[test]
fn objectives_move_their_figures() {
    for scheduler in [WALK, ASSIGN] {
        let (without, _, share) = figures(0, scheduler, 0);
        assert!((share - 0.25).abs() < 0.01, "allocations hold: {share}");
        let (quick, ..) = figures(1, scheduler, 0);
        let (slow, ..) = figures(1, scheduler, 1);
        assert!(
            quick < without && without < slow,
            "{scheduler}: {quick} {without} {slow}"
        );
        let (_, losing, _) = figures(1, scheduler, 3);
        let (_, saved, share) = figures(2, scheduler, 3);
        assert!(saved < losing, "{scheduler}: {saved} {losing}");
        assert!((share - 0.25).abs() < 0.02, "allocations hold: {share}");
    }
    assert!(figures(1, ASSIGN, 0).0 < figures(1, WALK, 0).0);
}

#[test]
fn a_run_is_the_same_again() {
    assert_eq!(figures(4, ASSIGN, 0), figures(4, ASSIGN, 0));
}
