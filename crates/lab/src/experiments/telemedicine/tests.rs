use std::time::Duration;

use super::*;
use crate::experiments::telemedicine::figures::Figures;

const SHORT: Timing = Timing {
    from: Duration::from_secs(5),
    to: Duration::from_secs(45),
};

#[test]
fn the_objectives_are_sound() {
    let mut vocabulary = anabranch_hose::Vocabulary::default();
    let compiled = anabranch_hose::compile(OBJECTIVES, &mut vocabulary).expect("a sound text");
    assert_eq!(compiled.program.objectives.len(), 6);
    assert!(
        compiled.warnings.diagnostics().is_empty(),
        "{:?}",
        compiled.warnings
    );
}

fn run(policy: &str) -> Figures {
    let clinic = Arc::new(Clinic::generated(Seed(1)));
    let corpus = Corpus::bundled();
    let lines = lines(&corpus.recordings, clinic.offered_bps(Side::Ambulance)).unwrap();
    let policy = policy.parse().unwrap();
    measure(Seed(1), &lines, policy, (SHORT, true), &clinic)
        .unwrap()
        .figures
}

#[test]
fn objectives_keep_i_frames_and_quicken_speech() {
    let policies = ["round_robin", "assign", "default"];
    let runs = crate::kit::parallel::map(&policies, |policy| run(policy));
    let of = |at: usize, name: &str| runs[at].class(name).expect("a class").clone();
    for class in &runs[0].classes {
        assert!(
            class.made > 50 && class.in_time > class.made / 4,
            "{class:?}"
        );
    }
    let (before, after) = (of(0, "video I"), of(1, "video I"));
    assert!(after.lost() < before.lost(), "{before:?}, {after:?}");
    assert!(after.in_time > before.in_time, "{before:?}, {after:?}");
    // Knowledge of lifetimes alone does not bring as many in time, either.
    let blind = of(2, "video I");
    assert!(after.in_time > blind.in_time, "{blind:?}, {after:?}");
    let ekg = of(1, "ekg");
    assert!(ekg.in_time * 100 >= ekg.made * 98, "{ekg:?}");
    // Speech is urgent under every policy; its objective spares it the longest latencies.
    let (before, after) = (of(0, "audio_up"), of(1, "audio_up"));
    assert!(
        after.latency_ms[1] < before.latency_ms[1],
        "{before:?}, {after:?}"
    );
}
