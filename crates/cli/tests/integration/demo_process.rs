//! `anabranch demo-process`: its result, and its end by Ctrl-C.

use crate::demos;

/// The demonstration compares every frame itself.
#[test]
fn every_frame_is_what_its_pipeline_derives() {
    let report = demos::result("demo-process", &["--seconds", "6"]);
    let pipelines = report["pipelines"].as_array().unwrap();
    assert_eq!(pipelines.len(), 3);
    for row in pipelines {
        assert!(row["frames"].as_u64() > Some(0), "{report}");
        assert_eq!(
            (&row["wrong"], &row["missing"]),
            (&0.into(), &0.into()),
            "{report}"
        );
        assert!(row["in_effect_after_ms"].is_number(), "{report}");
    }
    // Whatever arrived late: less leaves the node than comes to it.
    let sum = |field: &str| -> u64 {
        let rows = pipelines.iter();
        rows.filter_map(|row| row[field].as_u64()).sum()
    };
    assert!(sum("bytes_from_node") < sum("bytes_to_node"), "{report}");
}

#[test]
fn after_ctrl_c_nothing_is_left() {
    demos::ends_by_ctrl_c("demo-process", "to desk");
}
