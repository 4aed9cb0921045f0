//! `anabranch demo-visualise`: its result, and its end by Ctrl-C.

use crate::demos;

#[test]
fn frames_of_every_stream_arrive_over_three_paths() {
    let report = demos::result("demo-visualise", &["--seconds", "5", "--before", "2"]);
    assert_eq!(
        (&report["before_s"], &report["seconds"]),
        (&2.into(), &5.into())
    );
    assert_eq!(report["is_generated"], true, "{report}");
    let streams = report["streams"].as_array().unwrap();
    let names: Vec<_> = streams.iter().map(|row| &row["stream"]).collect();
    assert_eq!(names, ["Atom", "Bond1", "Bond2"]);
    for row in streams {
        // How many of them come in time depends on the machine.
        assert!(row["target_mbps"].as_f64() > Some(0.0), "{report}");
        assert!(row["mean_mbps"].as_f64() > Some(0.0), "{report}");
        assert!(row["age_ms_p50"].is_number(), "{report}");
    }
    // The others take what is left.
    let promised = report["promised_bps"].as_array().unwrap();
    assert_eq!((promised.len(), promised[2].is_null()), (3, true));
    let paths = report["paths"].as_array().unwrap();
    assert_eq!(paths.len(), 3);
    let carried: u64 = paths.iter().filter_map(|path| path["bytes"].as_u64()).sum();
    assert!(carried > 0, "{report}");
}

#[test]
fn after_ctrl_c_nothing_is_left() {
    demos::ends_by_ctrl_c("demo-visualise", "frames come");
}
