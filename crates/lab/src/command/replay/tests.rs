//! Words for what a replay judged, and for what it could not.

use std::time::Duration;

use anabranch_base::Instant;

use super::*;

fn replayed() -> Replayed {
    Replayed {
        policy: "default".to_owned(),
        is_from_start: false,
        from: Instant::from_millis(90_000),
        until: Instant::from_millis(96_200),
        same: 0,
        fragments: 0,
        warm_up: (12, 4_000),
        warm_up_differed: Some(Instant::from_millis(91_500)),
        unrepeatable: None,
        difference: None,
        broken: None,
    }
}

#[test]
fn a_short_transcript_is_said_to_be_too_short_with_what_it_shows() {
    let text = replayed_text(&replayed());
    for part in [
        "4000 decisions the same, 12 not, the last of them 1.5 s after the start",
        "nothing is judged: the transcript begins in the middle of its session and ends after 6.2 s",
        "record for longer",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert!(!text.contains("same 0 decisions"), "{text}");
    let json = replayed_json(&replayed());
    assert_eq!(json["warm_up_last_different_s"], 91.5);
    assert!(json["nothing_judged"].is_string());
}

#[test]
fn what_is_judged_is_counted() {
    let longer = Replayed {
        same: 7,
        fragments: 5,
        ..replayed()
    };
    let text = replayed_text(&longer);
    assert!(text.contains("same 7 decisions, 5 fragments"), "{text}");
    assert!(!text.contains("nothing is judged"), "{text}");
    assert!(replayed_json(&longer)["nothing_judged"].is_null());
}

#[test]
fn each_reason_for_which_nothing_is_judged_has_its_words() {
    let of = |unrepeatable| Replayed {
        is_from_start: true,
        warm_up: (0, 0),
        unrepeatable,
        ..replayed()
    };
    let at = Instant::from_millis(90_000);
    for (cause, word) in [
        (None, "while data is sent"),
        (Some((at, Unrepeatable::Objectives)), "without objectives"),
        (
            Some((at, Unrepeatable::Foreign)),
            "in place of its application's",
        ),
    ] {
        let text = replayed_text(&of(cause));
        assert!(text.contains(word), "{text}");
    }
}

#[test]
fn windows_that_are_not_whole_are_not_counted_as_kept_or_broken() {
    let short = StreamEstimate {
        windows: Some((0, 0)),
        window_of: Some((Duration::from_secs(10), Duration::from_millis(6_200))),
        ..StreamEstimate::default()
    };
    let text = stream_text(&short);
    assert!(
        text.contains("windows not judged: none of 10 s is whole in the 6.2 s"),
        "{text}"
    );
    let long = StreamEstimate {
        windows: Some((3, 4)),
        ..short
    };
    assert!(stream_text(&long).contains("windows kept 3 of 4"));
}
