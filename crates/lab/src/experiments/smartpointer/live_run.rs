//! Calculation beside a live run: the same streams over the same links at the same places of their recordings, in
//! virtual time.

use std::time::Duration;

use anabranch_base::{Rate, Seed};
use anabranch_link::describe::{LoadTrace, parse_both};
use serde::Deserialize;

use crate::{
    Row,
    kit::{
        sources::{Visualisation, visualisation::NAMES},
        streams::{
            Algorithm, RecordedPath, Scene, Timing, measure,
            measure::BEGIN,
            show::{path_rows, stream_rows},
        },
    },
};

/// Paths of a run.
const LINKS_MAX: usize = 16;
/// Counted seconds of a run.
const SECONDS_MAX: u64 = 3_600;
/// Time of a run before these, in seconds.
const BEFORE_MAX_S: f64 = 86_400.0;
/// Rate of a stream, in Mbit/s.
const TARGET_MAX_MBPS: f64 = 1_000.0;

/// The report of a live run, as `anabranch demo-visualise --json` prints it; other fields are of no concern here.
#[derive(Clone, Debug, Deserialize)]
pub struct LiveRun {
    seed: u64,
    /// Counted windows of a second.
    seconds: u64,
    /// Time from the first frame to the first of them.
    before_s: u64,
    /// Time from the beginning of the links to the first of them.
    begin_s: f64,
    links: Vec<LiveLink>,
    streams: Vec<LiveStream>,
}

#[derive(Clone, Debug, Deserialize)]
struct LiveLink {
    name: String,
    /// Description (`anabranch_link::describe`).
    link: String,
}

#[derive(Clone, Debug, Deserialize)]
struct LiveStream {
    stream: String,
    target_mbps: f64,
}

impl LiveRun {
    /// Reads a report.
    ///
    /// # Errors
    /// It is none, or a value is out of range; in words.
    pub fn read(text: &str) -> Result<Self, String> {
        let run: Self = serde_json::from_str(text)
            .map_err(|error| format!("no report of a live run: {error}"))?;
        let in_range = [
            ("seconds", (1..=SECONDS_MAX).contains(&run.seconds)),
            ("before_s", run.before_s <= SECONDS_MAX),
            ("begin_s", (0.0..=BEFORE_MAX_S).contains(&run.begin_s)),
            ("links", (1..=LINKS_MAX).contains(&run.links.len())),
        ];
        match in_range.iter().find(|(_, is_in_range)| !is_in_range) {
            Some((field, _)) => Err(format!("{field} of the live run is out of range")),
            None => Ok(run),
        }
    }

    /// The same streams under some algorithms in virtual time: rows for the capacity of the paths in the windows that count, then for
    /// each stream under each algorithm. Frames have one size, that of the live ones on average. `load` reads the recordings.
    ///
    /// # Errors
    /// A link plays no recording, or a stream had no frame; in words.
    pub fn replay(
        &self,
        algorithms: &[Algorithm],
        load: &mut LoadTrace<'_>,
    ) -> Result<Vec<Row>, String> {
        let source = Visualisation::generated(self.rates()?);
        let timing = Timing {
            alone: Duration::ZERO,
            warm_up: Duration::from_secs(self.before_s),
            windows: self.seconds as usize,
        };
        let scene = self.scene(timing, load)?;
        let seed = Seed(self.seed);
        let mut rows = path_rows(&scene, seed, timing);
        for &algorithm in algorithms {
            let measured = measure(seed, &scene, algorithm, timing, Box::new(source.clone()));
            let measured = measured.map_err(|error| error.to_string())?;
            let labels = [("algorithm", algorithm.name())];
            rows.extend(stream_rows(&labels, &scene, &measured));
        }
        Ok(rows)
    }

    /// Rates of the streams that the experiment has.
    fn rates(&self) -> Result<[Rate; 3], String> {
        let mut rates = [Rate::ZERO; 3];
        for (rate, name) in rates.iter_mut().zip(NAMES) {
            let stream = self.streams.iter().find(|stream| stream.stream == name);
            let target = stream.map_or(0.0, |stream| stream.target_mbps);
            if !(target > 0.0 && target <= TARGET_MAX_MBPS) {
                return Err(format!("no frame of {name} came in the live run"));
            }
            *rate = Rate::from_bps((target * 1e6) as u64);
        }
        Ok(rates)
    }

    /// The links, at the same place of their recordings in the first window that counts.
    fn scene(&self, timing: Timing, load: &mut LoadTrace<'_>) -> Result<Scene, String> {
        let moved_s = self.begin_s - (BEGIN + timing.warm_up).as_secs_f64();
        let path = |link: &LiveLink| {
            let configs = parse_both(&link.link, load)
                .map_err(|error| format!("link {}: {error}", link.name))?;
            // The viewer dials the source.
            let path = RecordedPath::of_link(&link.name, configs.backward);
            let path = path.ok_or_else(|| format!("link {} plays no recording", link.name))?;
            Ok::<_, String>(path.moved(moved_s))
        };
        let paths: Result<Vec<RecordedPath>, String> = self.links.iter().map(path).collect();
        Ok(Scene::Recorded(paths?))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use anabranch_link::Trace;
    use serde_json::json;

    use super::*;
    use crate::kit::streams::show::find;

    /// A path of 2 Mbit/s for three seconds and of 0.2 for one, and another of 0.2.
    fn load(name: &str) -> Result<Arc<Trace>, String> {
        let rates = match name {
            "steps" => vec![2_000, 2_000, 2_000, 200],
            _ => vec![200],
        };
        let rates: Vec<Rate> = rates.into_iter().map(Rate::from_kbps).collect();
        Ok(Trace::from_rates(name, Duration::from_secs(1), &rates).into())
    }

    fn report(atom_mbps: f64, begin_s: f64) -> String {
        let streams = [("Atom", atom_mbps), ("Bond1", 0.4), ("Bond2", 4.0)];
        let streams = streams
            .map(|(stream, target)| json!({"stream": stream, "target_mbps": target, "skipped": 0}));
        let links = ["steps", "low"];
        let links = links.map(|name| json!({"name": name, "link": format!("rate=trace {name}, delay=10 ms, queue=100 ms")}));
        json!({
            "seed": 3, "seconds": 8, "before_s": 2, "begin_s": begin_s, "streams": streams, "links": links,
        })
        .to_string()
    }

    #[test]
    fn what_a_path_lacks_for_a_quarter_of_the_time_cannot_be_had() {
        let opt = [Algorithm::Opt];
        let of = |atom_mbps: f64, begin_s: f64| {
            let run = LiveRun::read(&report(atom_mbps, begin_s)).unwrap();
            let rows = run.replay(&opt, &mut load).unwrap();
            let met = |stream: &str| {
                find(
                    &rows,
                    &[("algorithm", "opt"), ("stream", stream)],
                    "own_phase_met_fraction",
                )
            };
            let mean = find(&rows, &[("path", "all")], "mean_mbps");
            (met("Atom").unwrap(), met("Bond1").unwrap(), mean.unwrap())
        };
        // Each lap has a second with 0.4 Mbit/s, less than the atoms need, let alone the bonds.
        let (atom, bond1, mean) = of(1.0, 3.5);
        assert!((mean - 1.75).abs() < 1e-9, "{mean}");
        assert!(atom < 0.95 && bond1 < 0.95, "{atom} {bond1}");
    }

    #[test]
    fn the_recordings_are_at_the_same_place_in_the_first_window() {
        let run = LiveRun::read(&report(0.1, 4.0)).unwrap();
        let timing = Timing {
            alone: Duration::ZERO,
            warm_up: Duration::from_secs(2),
            windows: 8,
        };
        let scene = run.scene(timing, &mut load).unwrap();
        // The run of 3.5 s before the first window begins half a second into the recording.
        let rates = scene.available_bps(Seed(1), (Duration::from_millis(500), 9));
        let at: Vec<f64> = rates.unwrap()[0].iter().map(|bps| bps / 1e6).collect();
        assert_eq!(at, [2.0, 2.0, 2.0, 2.0, 2.0, 0.2, 0.2, 2.0, 2.0]);
    }

    #[test]
    fn what_is_no_report_is_refused_in_words() {
        let good = report(1.0, 3.5);
        for (text, named) in [
            ("{}".to_owned(), "no report"),
            (good.replace("\"seconds\":8", "\"seconds\":0"), "seconds"),
            (
                good.replace("\"begin_s\":3.5", "\"begin_s\":-1.0"),
                "begin_s",
            ),
            (
                good.replace("\"before_s\":2", "\"before_s\":9999"),
                "before_s",
            ),
        ] {
            let error = LiveRun::read(&text).unwrap_err();
            assert!(error.contains(named), "{error}");
        }
        for (text, named) in [
            (report(0.0, 3.5), "no frame of Atom"),
            (good.replace("trace low", "2 Mbit/s"), "low plays no"),
            (good.replace("queue", "tail"), "no 'tail'"),
        ] {
            let run = LiveRun::read(&text).unwrap();
            let error = run.replay(&[Algorithm::Opt], &mut load).unwrap_err();
            assert!(error.contains(named), "{error}");
        }
    }
}
