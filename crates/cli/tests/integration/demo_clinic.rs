//! `anabranch demo-clinic`: its result, and its end by Ctrl-C.

use crate::demos;

/// The demonstration compares every sample itself. Without ffmpeg it has neither video nor speech nor files.
#[test]
fn what_is_kept_is_what_was_played() {
    let report = demos::result("demo-clinic", &["--seconds", "10"]);
    let ekg = &report["ekg"];
    assert_eq!(ekg["samples"], 10 * 500 * 12, "{report}");
    assert!(ekg["identical"].as_u64() > Some(0), "{report}");
    assert_eq!(ekg["different"], 0, "{report}");
    let carried = report["paths"].as_array().unwrap().iter();
    let carried = carried.filter(|path| path["bytes"].as_u64() > Some(0));
    assert!(carried.count() > 1, "{report}");
    if report["video"].is_null() {
        return;
    }
    let counts = [
        &report["video"]["received"],
        &report["video"]["usable"],
        &report["speech"]["received"],
        &report["files"],
    ];
    for count in counts {
        assert!(count.as_u64() > Some(0), "{report}");
    }
    let cuts = report["video"]["cuts"].as_array().unwrap();
    assert_eq!(cuts.len(), 2, "{report}");
}

#[test]
fn after_ctrl_c_nothing_is_left() {
    demos::ends_by_ctrl_c("demo-clinic", "5 s | cell-1");
}
