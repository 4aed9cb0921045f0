//! The lab: experiments that anyone can run again, each a folder with plan, code and figures.
//!
//! | module | holds |
//! |---|---|
//! | [`pairs`] | two and three unequal paths in virtual time, every policy |
//! | [`prediction`] | mean predictors and percentiles on recorded paths |
//! | [`calibration`] | promised against kept probability on recorded paths |
//! | [`mod@buffers`] | sender and receiver buffers against Equation 4 of IQ-Paths |
//! | [`mod@violation_bound`] | promised against measured late packets on recorded paths |
//! | [`channels`] | what recorded and simulated channels are like |
//! | [`bottleneck`] | which channels of a session share a bottleneck |
//! | [`regression`] | effective bandwidth and least delay from sized messages |
//! | [`path_choice`] | critical streams on a steady and on a noisy path |
//! | [`smartpointer`] | atoms and bonds over two paths, by scheduling algorithm |
//! | [`fgs`] | layered video over two paths, by scheduling algorithm |
//! | [`path_sets`] | critical streams on many sets of recorded paths |
//! | [`admission`] | random streams on recorded paths: what is admitted, and how promises hold |
//! | [`sources`] | the applications that make those streams, in the lab and live |
//! | [`streams`] | sources over paths in virtual time, window by window |
//! | [`future`] | the scheduler that knows the future of simulated links |
//! | [`bound`] | what the best of all schedules could do, window by window |
//! | [`verb`] | congestion controllers on radio channels |
//! | [`telemedicine`] | an ambulance's streams over six cellular paths, by scheduling algorithm |
//! | [`twoflow`] | stored video in two flows through a pipe |
//! | [`overlay_scale`], [`overlay_failures`] | the overlay's agents: traffic, convergence, recovery |
//! | [`coupling`] | channels that share a bottleneck |
//! | [`probe_design`] | estimation error against probe budget |
//! | [`quickest`] | predicted against measured finishing times over an overlay |
//! | [`mod@recording`], [`corpus`] | recorded paths, and which of them a run uses |
//! | [`output`] | CSV, plots, and the page of `lab report` |
//! | [`parallel`] | independent parts on all cores |
//!
//! Every result has one shape: [`Outcome`], flat rows, units in the names of the fields.

pub mod admission;
pub mod assign_gap;
pub mod bottleneck;
pub mod bound;
pub mod buffers;
pub mod calibration;
pub mod channels;
pub mod corpus;
pub mod coupling;
pub mod daemons;
mod experiment;
pub mod fgs;
pub mod future;
pub mod horde;
pub mod output;
pub mod overlay_failures;
pub mod overlay_scale;
pub mod pairs;
pub mod parallel;
pub mod path_choice;
pub mod path_sets;
pub mod prediction;
pub mod probe_design;
pub mod quickest;
pub mod recording;
pub mod regression;
mod series;
pub mod smartpointer;
pub mod sources;
pub mod streams;
pub mod telemedicine;
pub mod twoflow;
pub mod verb;
pub mod violation_bound;

pub use experiment::{Experiment, Options, Outcome, Row};

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
    fgs::EXPERIMENT,
    path_sets::EXPERIMENT,
    admission::EXPERIMENT,
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
    verb::EXPERIMENT,
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
