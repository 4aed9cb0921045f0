//! Figures by hand.

use anabranch_base::Seed;

use super::*;

#[test]
fn figures_by_hand() {
    let promises = [4.0, 4.0, 4.0, 2.0, 2.0, 6.0];
    let outcomes = [5.0, 3.0, 3.5, 2.0, 9.0, 1.0];
    let score = Score::of(&promises, &outcomes, 0.5).unwrap();
    assert_eq!((score.count, score.broken), (6, 3));
    assert_eq!(score.kept(), 0.5);
    // Of the three broken, the last has no successor; the first is followed by a broken one.
    assert_eq!((score.repeated, score.followed), (1, 2));
    assert_eq!(score.repeat(), Some(0.5));
    assert!((score.useful - 8.0 / 3.0).abs() < 1e-12);
    let loss = 0.5 * (1.0 + 1.0 + 0.5 + 0.0 + 7.0 + 5.0) / 6.0;
    assert!((score.pinball - loss).abs() < 1e-12);
    assert_eq!(score.block_kept_least, 0.5);
}

#[test]
fn the_worst_block_is_found_wherever_it_is() {
    let outcomes = vec![1.0; 1800];
    let mut promises = vec![0.5; 1800];
    for t in (730..1130).step_by(10) {
        promises[t] = 2.0;
    }
    let score = Score::of(&promises, &outcomes, 0.95).unwrap();
    assert!((score.block_kept_least - (1.0 - 40.0 / 500.0)).abs() < 1e-12);
    assert_eq!(score.repeat(), Some(0.0));
}

#[test]
fn no_figures_of_nothing() {
    assert_eq!(Score::of(&[], &[], 0.9), None);
    assert_eq!(Score::of(&[1.0], &[], 0.9), None);
    let kept = Score::of(&[0.0], &[0.0], 0.9).unwrap();
    assert_eq!((kept.repeat(), kept.useful), (None, 0.0));
    assert!(Hindsight::of(&[1.0; 5], 10, 1, 5, 0.1).is_none());
    assert!(held(&[1.0], 2).is_empty() && held(&[1.0], 0).is_empty());
}

#[test]
fn held_outcomes_are_the_least_of_those_to_come() {
    assert_eq!(held(&[3.0, 1.0, 4.0, 2.0], 2), [1.0, 1.0, 2.0]);
    assert_eq!(held(&[3.0, 1.0], 1), [3.0, 1.0]);
}

#[test]
fn hindsight_of_uniform_numbers() {
    let mut random = Seed(1).stream("hindsight");
    let outcomes: Vec<f64> = (0..20_000).map(|_| random.unit()).collect();
    let hindsight = Hindsight::of(&outcomes, 500, 1, 500, 0.1).unwrap();
    // A promise of q is kept with 1 − q.
    for kept in [0.5, 0.9, 0.95] {
        let useful = hindsight.useful_at(kept);
        assert!((useful - (1.0 - kept)).abs() < 0.012, "{kept}: {useful}");
    }
    // The least possible: ∫ of the pinball loss of the true quantile, level·(1 − level)/2.
    assert!((hindsight.pinball() - 0.045).abs() < 0.002);
}
