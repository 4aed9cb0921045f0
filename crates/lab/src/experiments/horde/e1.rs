//! Low latency for two of four streams over three channels, packet by packet as recorded [Horde §7.1].

use std::collections::{BTreeMap, BTreeSet};

use anabranch_base::Seed;
use anabranch_estimate::model::Choice;
use anabranch_sched::objective::{Assign, Planner, RandomWalk};
use serde_json::json;

use super::{
    ASSIGN, WALK,
    cdma::{self, Probe},
    channel::Kind,
    driver,
    driver::Setting,
    measure, policies,
};
use crate::{
    Experiment, Options, Row,
    kit::{
        output::{Axis, Curve, Mark, Plot, Published},
        parallel,
        recording::Recording,
        series::median,
    },
};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "horde-e1",
    summary: "low latency for two of four streams over three recorded channels [Horde Figure 7-3]",
    plan: include_str!("e1.md"),
    folders: &["rtt/nuwins_multicarrier"],
    run,
    compare,
    plots,
};

const ROUND_ROBIN: &str = "round_robin";
/// [`ASSIGN`] with slots whose expectations are those of recognised channel models.
const MODELS: &str = "assign, models";
const SCHEDULERS: [&str; 4] = [ROUND_ROBIN, WALK, ASSIGN, MODELS];
const CYCLE_MS: f64 = 500.0;
/// Channels of a set.
const CHANNELS: usize = 3;
const STREAMS: std::ops::Range<u64> = 1..5;

/// Three channels recorded at the same time.
struct Set {
    name: String,
    channels: Vec<(String, Vec<Probe>)>,
}

fn run(options: &Options<'_>) -> Vec<Row> {
    let mut sets = recorded(&options.corpus.recordings);
    sets.push(generated(options.seed));
    let mut jobs = Vec::new();
    for set in &sets {
        for scheduler in SCHEDULERS {
            if options.wants(&format!("{} {scheduler}", set.name)) {
                jobs.push((set, scheduler));
            }
        }
    }
    let rows = parallel::map(&jobs, |&(set, scheduler)| {
        let rows = of_set(set, scheduler, options.seed);
        (options.progress)(&format!("{}: {scheduler}", set.name));
        rows
    });
    rows.into_iter().flatten().collect()
}

fn of_set(set: &Set, scheduler: &str, seed: Seed) -> Vec<Row> {
    let model = (scheduler == MODELS).then_some(Choice::Auto);
    let kind =
        |(name, probes): &(String, Vec<Probe>)| Kind::recorded(name.clone(), probes.clone(), model);
    let ends = set.channels.iter().filter_map(|(_, probes)| probes.last());
    let setting = Setting {
        kinds: set.channels.iter().map(kind).collect(),
        streams: STREAMS.end - STREAMS.start,
        first: STREAMS.start,
        period_ms: CYCLE_MS,
        ahead_ms: 0.0,
        length_ms: ends.map(|last| last.0).fold(0.0, f64::max),
        objectives: policies::E1.to_owned(),
    };
    let walk = |length| Box::new(RandomWalk::new(length, seed.stream("random_walk")));
    let mut planner: Box<dyn Planner> = match scheduler {
        ROUND_ROBIN => walk(1),
        WALK => walk(RandomWalk::WALK_LENGTH),
        _ => Box::new(Assign::default()),
    };
    let sent = driver::run(&setting, planner.as_mut(), seed.child("channels"));
    let mut rows = measure::rows(scheduler, &setting.kinds, STREAMS, &sent);
    for row in &mut rows {
        row.insert("set".into(), json!(set.name));
        row.insert("adus".into(), json!(sent.len()));
    }
    rows
}

/// Sets of three recordings with round trips that were made together; without any such group, the first three recordings. Only
/// seconds in which all three have packets count.
fn recorded(recordings: &[Recording]) -> Vec<Set> {
    let mut groups: BTreeMap<&str, Vec<&Recording>> = BTreeMap::new();
    for recording in recordings {
        if recording.rtt_ms.is_some() {
            groups.entry(&recording.group).or_default().push(recording);
        }
    }
    if groups.keys().any(|group| !group.is_empty()) {
        groups.remove("");
    }
    groups.retain(|_, members| members.len() >= CHANNELS);
    let set = |(group, members): (&str, Vec<&Recording>)| {
        let members = &members[..CHANNELS];
        let seconds = members.iter().map(|recording| {
            let times = recording.times_s.iter();
            times.map(|&time| time as u64).collect::<BTreeSet<u64>>()
        });
        let common = seconds.reduce(|a, b| &a & &b).unwrap_or_default();
        let channel = |recording: &&Recording| {
            let probes = probes(recording).into_iter();
            let kept = probes.filter(|(at_ms, _)| common.contains(&((at_ms / 1e3) as u64)));
            (recording.name.clone(), kept.collect())
        };
        Set {
            name: if group.is_empty() {
                "recordings".into()
            } else {
                group.to_owned()
            },
            channels: members.iter().map(channel).collect(),
        }
    };
    let sets = groups.into_iter().map(set);
    sets.filter(|set| set.channels.iter().all(|(_, probes)| !probes.is_empty()))
        .collect()
}

/// Packets of a recording: those with a round trip arrived, those with a loss were lost.
pub(super) fn probes(recording: &Recording) -> Vec<Probe> {
    let column = |column: &Option<Vec<Option<f64>>>, at: usize| {
        column.as_ref().and_then(|values| values[at])
    };
    let rows = recording.times_s.iter().enumerate();
    rows.filter_map(|(at, time)| {
        let trip = column(&recording.rtt_ms, at);
        let lost = column(&recording.loss, at).is_some_and(|loss| loss >= 0.5);
        (lost || trip.is_some()).then(|| (time * 1e3, trip.filter(|_| !lost)))
    })
    .collect()
}

/// A generated CDMA2000 and two GPRS channels: ten minutes.
fn generated(seed: Seed) -> Set {
    let packets = (600e3 / cdma::GAP_MS) as u64;
    let mut channels = vec![("cdma".to_owned(), cdma::probes(packets, 0.0, seed))];
    for kind in Kind::published().into_iter().skip(3).take(2) {
        let mut random = seed.stream(&kind.name);
        let losses = anabranch_link::loss::Doubling::horde(kind.loss, kind.burst_max)
            .expect("figures that are possible");
        let mut state = losses.any_state(&mut random);
        let packets = (600e3 / kind.gap_ms()) as u64;
        let probe = |number| {
            state = losses.step(state, &mut random);
            let trip = random.normal(kind.round_trip_ms, kind.deviation_ms);
            (
                number as f64 * kind.gap_ms(),
                (state == 0).then_some(trip.max(1.0)),
            )
        };
        channels.push((kind.name.clone(), (0..packets).map(probe).collect()));
    }
    Set {
        name: "generated".into(),
        channels,
    }
}

fn sets(rows: &[Row]) -> BTreeSet<&str> {
    rows.iter().filter_map(|row| row["set"].as_str()).collect()
}

fn get(rows: &[Row], set: &str, scheduler: &str, stream: u64, field: &str) -> f64 {
    let name = format!("stream {stream}");
    rows.iter()
        .find(|row| row["set"] == set && row["scheduler"] == scheduler && row["name"] == *name)
        .and_then(|row| row.get(field)?.as_f64())
        .unwrap_or(f64::NAN)
}

fn compare(rows: &[Row]) -> Vec<Published> {
    let source = "Horde Figure 7-3";
    let mut lines = Vec::new();
    for set in sets(rows) {
        for scheduler in SCHEDULERS {
            let each = |field: &str| -> String {
                let streams = STREAMS.map(|stream| {
                    let value = get(rows, set, scheduler, stream, field);
                    format!("{value:.0}")
                });
                streams.collect::<Vec<_>>().join(" / ")
            };
            let theirs = match scheduler {
                ROUND_ROBIN => "alike",
                WALK => "2 and 4 much lower, 1 and 3 slightly higher",
                _ => "–",
            };
            lines.push(Published::new(
                format!("{set}: {scheduler}: streams 1 / 2 / 3 / 4, round trip, ms: median; quartiles; mean"),
                source,
                theirs,
                format!(
                    "{}; {} to {}; {}",
                    each("round_trip_p50_ms"),
                    each("round_trip_p25_ms"),
                    each("round_trip_p75_ms"),
                    each("round_trip_mean_ms")
                ),
            ));
        }
        let mean = |scheduler: &str, streams: [u64; 2]| {
            let each = streams.map(|one| get(rows, set, scheduler, one, "round_trip_mean_ms"));
            (each[0] + each[1]) / 2.0
        };
        for scheduler in [WALK, ASSIGN, MODELS] {
            let change =
                |streams| (mean(scheduler, streams) / mean(ROUND_ROBIN, streams) - 1.0) * 100.0;
            lines.push(Published::new(
                format!("{set}: {scheduler}: mean round trip of streams 2, 4 against round_robin; of 1, 3"),
                source,
                "much lower; slightly higher",
                format!("{:+.1} %; {:+.1} %", change([2, 4]), change([1, 3])),
            ));
        }
    }
    lines
}

fn plots(rows: &[Row]) -> Vec<Plot> {
    let curve = |set: &str, scheduler: &str| Curve {
        name: format!("{set}, {scheduler}"),
        mark: Mark::Points,
        points: STREAMS
            .map(|stream| {
                let ms = get(rows, set, scheduler, stream, "round_trip_p50_ms");
                (stream as f64, ms)
            })
            .filter(|point| point.1.is_finite())
            .collect(),
    };
    let sets = sets(rows);
    let curves = |scheduler| sets.iter().map(move |set| curve(set, scheduler));
    let both: Vec<Curve> = curves(ROUND_ROBIN).chain(curves(WALK)).collect();
    let highest = median(
        both.iter()
            .flat_map(|curve| &curve.points)
            .map(|point| point.1),
    );
    if highest.is_none() {
        return Vec::new();
    }
    vec![Plot {
        file: "streams".into(),
        title: "Median round trip of each stream".into(),
        x: Axis::linear("stream"),
        y: Axis::log("median round trip, ms"),
        curves: both,
    }]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figure 7-3 on generated channels: all alike, then two quicker and two slower.
    #[test]
    fn two_streams_become_quicker_and_pay_with_the_others() {
        let set = generated(Seed(1));
        let rows: Vec<Row> = SCHEDULERS
            .iter()
            .flat_map(|scheduler| of_set(&set, scheduler, Seed(1)))
            .collect();
        let mean =
            |scheduler, stream| get(&rows, "generated", scheduler, stream, "round_trip_mean_ms");
        for stream in STREAMS {
            let alike = mean(ROUND_ROBIN, stream) / mean(ROUND_ROBIN, 1);
            assert!((alike - 1.0).abs() < 0.05, "{stream}: {alike}");
        }
        for scheduler in [WALK, ASSIGN, MODELS] {
            for stream in [2, 4] {
                let quicker = mean(scheduler, stream) / mean(ROUND_ROBIN, stream);
                assert!(quicker < 0.97, "{scheduler}, {stream}: {quicker}");
                assert!(mean(scheduler, stream - 1) > mean(ROUND_ROBIN, stream - 1));
            }
        }
        assert!(mean(ASSIGN, 2) < mean(WALK, 2));
    }

    #[test]
    fn only_seconds_that_all_have_count() {
        let recording = |name: &str, from: u64| {
            let rows: String = (from..from + 10)
                .map(|t| format!("{t},{},{}\n", 50 + t, u8::from(t == 7)))
                .collect();
            let text = format!("t_s,rtt_ms,loss\n{rows}");
            let mut recording = Recording::parse(name, &text).unwrap();
            recording.name = name.into();
            recording.group = "drive".into();
            recording
        };
        let all = [recording("a", 0), recording("b", 3), recording("c", 5)];
        let sets = recorded(&all);
        assert_eq!((sets.len(), sets[0].name.as_str()), (1, "drive"));
        for (name, probes) in &sets[0].channels {
            let times: Vec<f64> = probes.iter().map(|probe| probe.0 / 1e3).collect();
            assert_eq!(times, [5.0, 6.0, 7.0, 8.0, 9.0], "{name}");
            assert_eq!(probes[2].1, None, "lost");
        }
        assert!(recorded(&all[..2]).is_empty());
    }
}
