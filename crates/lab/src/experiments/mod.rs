//! Experiments, a folder each, with plan, code and figures.

pub mod admission;
pub mod assign_gap;
pub mod bottleneck;
pub mod buffers;
pub mod calibration;
pub mod channels;
pub mod coupling;
pub mod daemons;
pub mod fgs;
pub mod first_admission;
pub mod gridftp;
pub mod horde;
pub mod inflight;
pub mod live_media;
pub mod overlay_failures;
pub mod overlay_scale;
pub mod pairs;
pub mod path_choice;
pub mod path_sets;
pub mod prediction;
pub mod probe_design;
pub mod promises_live;
pub mod quickest;
pub mod regression;
pub mod smartpointer;
pub mod telemedicine;
pub mod twoflow;
pub mod verb;
pub mod violation_bound;

use crate::Experiment;

/// All experiments.
pub const EXPERIMENTS: &[Experiment] = &[
    pairs::EXPERIMENT,
    prediction::EXPERIMENT,
    calibration::EXPERIMENT,
    violation_bound::EXPERIMENT,
    buffers::EXPERIMENT,
    channels::EXPERIMENT,
    bottleneck::EXPERIMENT,
    regression::EXPERIMENT,
    path_choice::EXPERIMENT,
    smartpointer::EXPERIMENT,
    gridftp::EXPERIMENT,
    inflight::EXPERIMENT,
    fgs::EXPERIMENT,
    path_sets::EXPERIMENT,
    admission::EXPERIMENT,
    first_admission::EXPERIMENT,
    horde::E1,
    horde::S0,
    horde::S1,
    horde::S2,
    horde::S3,
    horde::S4,
    horde::LOOKAHEAD,
    horde::RTT,
    assign_gap::EXPERIMENT,
    telemedicine::EXPERIMENT,
    telemedicine::cuts::EXPERIMENT,
    verb::EXPERIMENT,
    live_media::EXPERIMENT,
    promises_live::EXPERIMENT,
    coupling::EXPERIMENT,
    twoflow::RATES,
    twoflow::SESSION,
    twoflow::SESSIONS,
    twoflow::ARRIVALS,
    twoflow::PREFIX,
    twoflow::LOSSES,
    twoflow::ADAPT,
    daemons::TABLE1,
    daemons::FIG6,
    quickest::EXPERIMENT,
    probe_design::EXPERIMENT,
    overlay_scale::EXPERIMENT,
    overlay_failures::EXPERIMENT,
];
