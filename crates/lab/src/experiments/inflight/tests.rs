//! A short run of each part.

use std::time::Duration;

use anabranch_base::Seed;

use super::*;
use crate::kit::corpus::Corpus;

fn short(only: &str) -> Vec<Row> {
    let corpus = Corpus::default();
    let options = Options {
        seed: Seed(1),
        only: Some(only),
        corpus: &corpus,
        progress: &|_| {},
    };
    let timing = Timing {
        alone: Duration::ZERO,
        warm_up: Duration::from_secs(4),
        windows: 6,
    };
    let times = Times {
        death: Duration::from_secs(4),
        end: Duration::from_secs(9),
    };
    rows(&options, timing, times)
}

fn numbers(rows: &[Row], kind: &str, field: &str) -> Vec<f64> {
    let own = rows.iter().filter(|row| row["kind"] == kind);
    own.filter_map(|row| row.get(field)?.as_f64()).collect()
}

#[test]
fn processing_spares_the_last_legs_and_what_arrives_is_right() {
    let sent = ["unprocessed", "processed"].map(|part| {
        let rows = short(part);
        assert_eq!(numbers(&rows, "stream", "wrong_adus"), [0.0; 9], "{part}");
        let sent = numbers(&rows, "leg", "sent_mb");
        assert_eq!(sent.len(), 4);
        (sent, rows)
    });
    let [(unprocessed, _), (processed, rows)] = sent;
    // The wall has all of the critical streams; desk and tablet have less.
    for leg in 2..4 {
        assert!(processed[leg] < 0.7 * unprocessed[leg], "leg {leg}");
    }
    let work = numbers(&rows, "operator", "work_units");
    assert!(work.len() >= 6 && work.iter().all(|units| *units > 0.0));
    let arrived = numbers(&rows, "stream", "arrived_adus");
    let due = numbers(&rows, "stream", "due_adus");
    // Of the tablet's bonds out of view, nothing is left.
    assert_eq!(due[8], 0.0);
    for (arrived, due) in arrived.iter().zip(due) {
        assert!(*arrived <= due);
    }
}

/// Every change is seen, and soon where the leg has room; of an unreliable stream, what waits of the view before is discarded, so that a
/// change is in effect after two ADUs on every leg.
#[test]
fn a_viewer_that_turns_its_view_sees_the_new_one() {
    let rows = short("change");
    assert_eq!(numbers(&rows, "change", "changes"), [5.0; 6]);
    assert_eq!(numbers(&rows, "change", "unseen_changes"), [0.0; 6]);
    let within = numbers(&rows, "change", "within_adus_fraction");
    // The first two are those of the widest leg.
    assert_eq!(within[..2], [1.0; 2], "{rows:?}");
    let unreliable = [within[1], within[3], within[5]];
    assert_eq!(unreliable, [1.0; 3], "{rows:?}");
    let median = numbers(&rows, "change", "change_p50_ms");
    assert!(median[0] <= 120.0, "{rows:?}");
}

#[test]
fn an_operator_is_placed_where_its_frames_are_in_time() {
    let rows = short("place");
    let kept = numbers(&rows, "place", "kept_fraction");
    assert_eq!(kept.len(), 3);
    let placed: Vec<bool> = rows.iter().map(|row| row["is_placed"] == true).collect();
    assert_eq!(placed.iter().filter(|placed| **placed).count(), 1);
    let at = placed.iter().position(|placed| *placed).unwrap();
    // The first one is behind a leg that is hardly wide enough for the whole stream.
    assert!(at > 0, "{rows:?}");
    let best = kept.iter().fold(0.0, |best: f64, kept| best.max(*kept));
    assert!(kept[at] >= best, "{kept:?}");
    let ages = numbers(&rows, "place", "age_p50_ms");
    assert!(ages.iter().all(|age| ages[at] <= *age), "{ages:?}");
    assert!(ages[at] < ages[0], "{ages:?}");
}

#[test]
fn the_death_of_the_node_loses_and_repeats_nothing() {
    for part in ["failover-source", "failover-node"] {
        let rows = short(part);
        for field in ["lost_adus", "repeated_adus", "wrong_adus"] {
            assert_eq!(
                numbers(&rows, "failover", field),
                [0.0; 6],
                "{part} {field}"
            );
        }
        let resumed = numbers(&rows, "failover", "resumed_round_trips");
        assert_eq!(resumed.len(), 6, "{part}: every stream goes on");
        // What was held long before the death is not sent again, before what is needed.
        let most = resumed
            .iter()
            .fold(0.0, |most: f64, trips| most.max(*trips));
        let bound = if part == "failover-source" { 3.5 } else { 5.5 };
        assert!(most <= bound, "{part}: {resumed:?}");
    }
}
