//! The same records between two nodes on sockets: paths, times and rows.
//!
//! Both clocks have paths whose rates are those that cross-traffic leaves of the testbed (or recordings), so that their figures can be compared.

use std::{ops::Range, time::Duration};

use anabranch_base::Seed;
use serde_json::json;

use super::{
    APPLICATION_SHARE, COMPONENT, labelled, rates_into,
    run::{self, Component},
    testbed::{self, Setting},
};
use crate::{
    Options, Row,
    kit::{
        sources::records::{NAMES, PERIOD},
        streams::{
            Algorithm, Change, RecordedPath, Scene, Timing,
            figures::Rates,
            measure::{BEGIN, WINDOW},
            show::{mbps, rounded},
        },
    },
};

/// Interval in which the rate of a path of the testbed is constant.
const STEP: Duration = Duration::from_millis(100);
/// Time before promises are asked for in virtual time; live they are asked for at once, and wait.
const ALONE: Duration = Duration::from_secs(3);

/// Layout of the data.
pub const LAYOUT: &str = "pgos";

/// Times of a run, as shares of its duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Time for which records are produced, in seconds.
    pub seconds: u64,
}

impl Plan {
    /// Duration of a run unless another is given, in seconds.
    pub const SECONDS: u64 = 120;

    fn share(self, of: u64) -> usize {
        (self.seconds * of / 24) as usize
    }

    /// Window at whose beginning a path fails for good.
    pub fn cut(self) -> usize {
        self.share(12)
    }

    /// Window at whose beginning another path is added.
    pub fn join(self) -> usize {
        self.share(14).max(self.cut() + 1)
    }

    /// Windows that are compared, by name: two paths from the beginning; one; two, of which one was added.
    fn phases(self) -> [(&'static str, Range<usize>); 3] {
        let settled = self.share(15).max(self.join() + 1);
        [
            ("before", self.share(4)..self.cut()),
            ("one path", self.cut()..self.join()),
            ("after", settled..self.seconds as usize),
        ]
    }
}

/// Paths and records of a run.
#[derive(Clone, Debug)]
pub struct Live {
    /// Those of the beginning, the one that fails last; then the one that is added, which has its rates.
    pub paths: Vec<RecordedPath>,
    /// Sizes of the components of a record, in bytes.
    pub sizes: [usize; 3],
    /// Its times.
    pub plan: Plan,
    setting: Setting,
}

/// Bytes of each component in each second of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seconds {
    /// Bytes that arrived, those of incomplete records included.
    pub arrived: Vec<[f64; 3]>,
    /// Whole components of records: in virtual time those that arrived, live those that were written to the copy.
    pub whole: Vec<[f64; 3]>,
}

/// Observations of a run on sockets.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Bytes of each second.
    pub seconds: Seconds,
    /// Time to the first promise of each component, and the number of times that it could not be kept any more.
    pub promises: [(Option<Duration>, u64); 3],
    /// Bytes that each path carried, headers included.
    pub carried: Vec<u64>,
    /// Parts that were compared with the set at the end, and of these the missing and the wrong ones.
    pub parts: [u64; 3],
}

/// Paths and records of a run on sockets.
///
/// # Errors
/// The recordings are no paths, or the testbed is inconsistent; in words.
pub fn setting(options: &Options<'_>, plan: Plan) -> Result<Live, String> {
    let mut setting = testbed::setting(options)?;
    let mut paths = match &setting.scene {
        Scene::Recorded(paths) => paths.clone(),
        // What is late comes after the last window.
        network => {
            network.left_over(options.seed, (STEP, Duration::from_secs(2 * plan.seconds)))?
        }
    };
    let failing = paths.last().ok_or("there are no paths")?;
    let mut added = failing.clone();
    added.name += ", added";
    paths.push(added);
    setting.scene = Scene::Recorded(paths.clone());
    Ok(Live {
        paths,
        sizes: setting.records.sizes(),
        plan,
        setting,
    })
}

impl Live {
    /// Index of the path that fails. The next one is added.
    pub fn failing(&self) -> usize {
        self.paths.len() - 2
    }

    /// Number of records.
    pub fn records(&self) -> u64 {
        (self.plan.seconds as f64 / PERIOD.as_secs_f64()) as u64
    }

    fn target_bps(&self, component: usize) -> f64 {
        self.sizes[component] as f64 * 8.0 / PERIOD.as_secs_f64()
    }

    /// Rates of a component in some windows of a series.
    fn rates(&self, component: usize, series_bps: Vec<f64>) -> Rates {
        let target = self.target_bps(component);
        let due = vec![target; series_bps.len()];
        Rates::new(series_bps, target, &due)
    }

    /// Bytes of each second of virtual time, over the same paths, of which the same one fails and the same one is added; none before the
    /// first second that counts.
    ///
    /// # Errors
    /// The paths are inconsistent; in words.
    pub fn in_virtual_time(&self, seed: Seed) -> Result<Seconds, String> {
        let settling = self.plan.phases()[0].1.start;
        let timing = Timing {
            alone: ALONE.min(Duration::from_secs(settling as u64)),
            warm_up: Duration::from_secs(settling as u64),
            windows: self.plan.seconds as usize - settling,
        };
        let changes = [
            Change::Fails {
                path: self.failing(),
                window: self.plan.cut() as u32,
            },
            Change::Joins {
                path: self.failing() + 1,
                window: self.plan.join() as u32,
            },
        ];
        let pgos = Algorithm::among(&[LAYOUT]);
        let pgos = *pgos.first().ok_or("there is no policy of this name")?;
        let figures = run::run_changing(seed, &self.setting, &changes, pgos, timing);
        let figures = figures.map_err(|error| error.to_string())?;
        let seconds = |of: fn(&Component) -> &Rates| {
            let mut seconds = vec![[0.0; 3]; self.plan.seconds as usize];
            for (index, component) in figures.components.iter().enumerate().take(3) {
                let counted = seconds.iter_mut().skip(settling);
                for (second, rate_bps) in counted.zip(&of(component).series_bps) {
                    second[index] = rate_bps / 8.0;
                }
            }
            seconds
        };
        Ok(Seconds {
            arrived: seconds(|component| &component.bytes),
            whole: seconds(|component| &component.whole),
        })
    }

    /// Rows of both clocks: of each component by phase, of the paths, and of the copy.
    pub fn rows(&self, expected: &Seconds, observed: &Observed) -> Vec<Row> {
        let mut rows = Vec::new();
        for component in 0..NAMES.len() {
            for (phase, windows) in self.plan.phases() {
                let rates = |seconds: &[[f64; 3]]| {
                    let seconds = seconds.get(windows.clone()).unwrap_or_default();
                    let series = seconds.iter().map(|bytes| bytes[component] * 8.0);
                    self.rates(component, series.collect())
                };
                let both = |seconds: &Seconds| [rates(&seconds.arrived), rates(&seconds.whole)];
                let [expected, live] = [expected, &observed.seconds].map(both);
                rows.push(self.component(component, ("virtual", phase), &expected));
                let mut row = self.component(component, ("live", phase), &live);
                let points = |live: f64, expected: f64| {
                    rounded(100.0 * (live - expected) / self.target_bps(component))
                };
                let of = ["", "whole_"].iter().zip(live.iter().zip(&expected));
                for (prefix, (live, expected)) in of {
                    let mut put = |field, value| row.insert(format!("{prefix}{field}"), value);
                    let p95 = points(live.p95_bps, expected.p95_bps);
                    put("p95_difference_points", p95);
                    let mean = points(live.mean_bps, expected.mean_bps);
                    put("mean_difference_points", mean);
                }
                rows.push(row);
            }
        }
        for (component, (after, warnings)) in observed.promises.iter().enumerate().take(2) {
            let mut row = labelled("promise", LAYOUT);
            row.insert("component".into(), json!(NAMES[component]));
            row.insert(
                "promised_after_s".into(),
                json!(after.map(|after| rounded(after.as_secs_f64()))),
            );
            row.insert("warnings".into(), json!(warnings));
            rows.push(row);
        }
        for (path, bytes) in self.paths.iter().zip(&observed.carried) {
            let mut row = labelled("path", LAYOUT);
            row.insert("path".into(), json!(path.name));
            row.insert("mean_mbps".into(), mbps(path.mean_bps()));
            row.insert("carried_mb".into(), rounded(*bytes as f64 / 1e6));
            rows.push(row);
        }
        let [parts, missing, wrong] = observed.parts;
        let mut row = labelled("copy", LAYOUT);
        row.insert("parts".into(), json!(parts));
        row.insert("missing_parts".into(), json!(missing));
        row.insert("wrong_parts".into(), json!(wrong));
        rows.push(row);
        rows
    }

    fn component(
        &self,
        component: usize,
        (clock, phase): (&str, &str),
        [arrived, whole]: &[Rates; 2],
    ) -> Row {
        let mut row = labelled(COMPONENT, LAYOUT);
        row.insert("clock".into(), json!(clock));
        row.insert("phase".into(), json!(phase));
        row.insert("component".into(), json!(NAMES[component]));
        row.insert("target_mbps".into(), mbps(self.target_bps(component)));
        rates_into(&mut row, "", arrived);
        rates_into(&mut row, "whole_", whole);
        row
    }

    /// Rates of the paths of the beginning that the application can have, in bit/s.
    pub fn application_bps(&self) -> f64 {
        let paths = self.paths[..=self.failing()].iter();
        APPLICATION_SHARE * paths.map(RecordedPath::mean_bps).sum::<f64>()
    }

    /// Length of a window.
    pub const fn window() -> Duration {
        WINDOW
    }

    /// Time of the paths at which the first record is produced.
    pub const fn begin() -> Duration {
        BEGIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::{corpus::Corpus, sources::records::PUBLISHED};

    fn live(seconds: u64) -> Live {
        let corpus = Corpus::default();
        let options = Options {
            seed: Seed(1),
            only: None,
            corpus: &corpus,
            progress: &|_| {},
        };
        setting(&options, Plan { seconds }).unwrap()
    }

    #[test]
    fn the_paths_carry_what_the_papers_did() {
        let live = live(60);
        assert_eq!(live.sizes, PUBLISHED);
        assert_eq!(live.records(), 1_500);
        assert_eq!((live.paths.len(), live.failing()), (3, 1));
        assert_eq!(live.paths[1].trace(), live.paths[2].trace());
        let published = 134.507e6;
        let share = live.application_bps() / published;
        assert!((share - 1.0).abs() < 0.03, "{share}");
    }

    #[test]
    fn phases_follow_one_another_whatever_the_duration() {
        for seconds in [10, 24, 120, 3_600] {
            let plan = Plan { seconds };
            let [before, one, after] = plan.phases().map(|(_, windows)| windows);
            assert!(!before.is_empty() && !one.is_empty() && !after.is_empty());
            assert_eq!((before.end, one.start), (plan.cut(), plan.cut()));
            assert!(one.end == plan.join() && after.start > plan.join());
            assert_eq!(after.end as u64, seconds);
        }
    }

    #[test]
    fn in_virtual_time_a_path_fails_and_another_is_added() {
        let live = live(24);
        let windows = live.in_virtual_time(Seed(1)).unwrap().arrived;
        assert_eq!(windows.len(), 24);
        let share = |component: usize, window: usize| {
            8.0 * windows[window][component] / live.target_bps(component)
        };
        // What is promised has the path that is left to itself, and nearly all of it: DT1 and DT2 need 60 of its 67 Mbit/s.
        let settled = live.plan.cut() + 1..live.plan.join();
        for window in settled {
            assert!(share(0, window) > 0.95, "{windows:?}");
            assert!(share(2, window) < 0.3, "{windows:?}");
        }
        let after = live.plan.join() + 2..24;
        for window in (live.plan.cut() - 2..live.plan.cut()).chain(after) {
            assert!(share(2, window) > 0.6, "{windows:?}");
        }
    }

    #[test]
    fn rows_have_both_clocks_and_the_difference_in_points() {
        let live = live(24);
        // A tenth of the first component is missing while there is one path.
        let full = [0, 1, 2].map(|component| live.target_bps(component) / 8.0);
        let expected = Seconds {
            arrived: vec![full; 24],
            whole: vec![full; 24],
        };
        let windows = (0..24).map(|window| {
            let share = if (12..14).contains(&window) { 0.9 } else { 1.0 };
            full.map(|bytes| bytes * share)
        });
        let observed = Observed {
            seconds: Seconds {
                arrived: windows.collect(),
                whole: expected.whole.clone(),
            },
            promises: [(Some(Duration::from_secs(2)), 1), (None, 0), (None, 0)],
            carried: vec![1_000_000; 3],
            parts: [1_800, 0, 0],
        };
        let rows = live.rows(&expected, &observed);
        let of = |phase: &str, field: &str| {
            let row = rows.iter().find(|row| {
                row.get("phase") == Some(&json!(phase)) && row.get("clock") == Some(&json!("live"))
            });
            row.unwrap()[field].as_f64().unwrap()
        };
        assert!(of("before", "p95_difference_points").abs() < 0.01);
        assert!((of("one path", "p95_difference_points") + 10.0).abs() < 0.01);
        assert!(of("after", "mean_difference_points").abs() < 0.01);
        assert!(of("one path", "whole_p95_difference_points").abs() < 0.01);
        assert!((of("one path", "whole_met_fraction") - 1.0).abs() < 0.01);
        let copy = rows.last().unwrap();
        assert_eq!(copy["wrong_parts"], 0);
    }
}
