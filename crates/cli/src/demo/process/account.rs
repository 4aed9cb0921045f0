//! Account of the pipelines: what each let through, how old it was, and whether it is what the pipeline derives from the frames.

use std::time::{Duration, Instant};

use anabranch_processing::process::{Adu, Limits, Modules, Pipeline};
use serde_json::{Value, json};

use super::{super::stage::percentile, Phase, frames::Frames};
use crate::exit::Failure;

/// A pipeline, while it is in effect and afterwards.
#[derive(Clone, Debug, Default)]
struct Row {
    /// Time at which it was asked for.
    asked: Option<Instant>,
    /// Time until the first frame that it derived.
    took: Option<Duration>,
    /// Frames of the pipeline before it that came meanwhile.
    of_before: u64,
    frames: u64,
    last: Option<u64>,
    gaps: u64,
    wrong: u64,
    ages_ms: Vec<f64>,
    /// Bytes that both legs carried, headers included.
    carried: [u64; 2],
}

/// Account of a run.
#[derive(Debug)]
pub(super) struct Account<'a> {
    phases: &'a [Phase],
    frames: &'a Frames,
    rows: Vec<Row>,
    /// Times at which the frames were made.
    made: Vec<Instant>,
    /// Pipeline that was asked for last.
    now: usize,
    carried: [u64; 2],
}

impl<'a> Account<'a> {
    pub(super) fn new(phases: &'a [Phase], frames: &'a Frames) -> Self {
        Self {
            phases,
            frames,
            rows: vec![Row::default(); phases.len()],
            made: Vec::new(),
            now: 0,
            carried: [0; 2],
        }
    }

    /// A frame was made.
    pub(super) fn made(&mut self) {
        self.made.push(Instant::now());
    }

    /// Number of frames that were made.
    pub(super) fn frames_made(&self) -> u64 {
        self.made.len() as u64
    }

    /// A pipeline is asked for; so much was carried until now.
    pub(super) fn asked(&mut self, phase: usize, carried: [u64; 2]) {
        self.carried(carried);
        self.now = phase;
        self.rows[phase].asked = Some(Instant::now());
    }

    /// True if a frame has come that the pipeline that was asked for last derived.
    pub(super) fn is_in_effect(&self) -> bool {
        self.rows[self.now].frames > 0
    }

    /// Both legs have carried so much, which is of the pipeline that was asked for last.
    pub(super) fn carried(&mut self, carried: [u64; 2]) {
        for (leg, total) in carried.into_iter().enumerate() {
            // What is on a path that is cut counts no longer.
            self.rows[self.now].carried[leg] += total.saturating_sub(self.carried[leg]);
        }
        self.carried = carried;
    }

    /// A frame has arrived. Returns its age.
    ///
    /// # Errors
    /// The pipeline that it is compared with does not start.
    pub(super) fn arrived(&mut self, adu: &Adu, change: u32) -> Result<Duration, Failure> {
        let phase = (change as usize).min(self.rows.len() - 1);
        let expected = self.expected(phase, adu.sequence)?;
        if phase != self.now {
            self.rows[self.now].of_before += 1;
        }
        let row = &mut self.rows[phase];
        if let Some(asked) = row.asked {
            row.took.get_or_insert(asked.elapsed());
        }
        let step = self.phases[phase].step;
        let last = row.last.replace(adu.sequence);
        row.gaps += u64::from(last.is_some_and(|last| last + step != adu.sequence));
        row.wrong += u64::from(expected.as_ref().is_none_or(|body| *body != adu.body));
        row.frames += 1;
        let made = self.made.get(adu.sequence as usize);
        let age = made.map(Instant::elapsed).unwrap_or_default();
        row.ages_ms.push(age.as_secs_f64() * 1e3);
        Ok(age)
    }

    /// The body that a pipeline makes of a frame; `None` if it lets none through.
    fn expected(&self, phase: usize, frame: u64) -> Result<Option<bytes::Bytes>, Failure> {
        let pipeline: Pipeline = self.phases[phase].checked.parse().map_err(Failure::other)?;
        let modules = Modules::default();
        let running = pipeline.start(&modules, Limits::default());
        let processed = running
            .map_err(Failure::other)?
            .process(Adu::new(frame, self.frames.body(frame)), &modules);
        let adus = processed.map_err(Failure::other)?.adus;
        Ok(adus.into_iter().next().map(|adu| adu.body))
    }

    pub(super) fn report(&self) -> Vec<Value> {
        let row = |(phase, row): (&Phase, &Row)| {
            json!({
                "pipeline": phase.pipeline,
                "frames": row.frames,
                "missing": row.gaps,
                "wrong": row.wrong,
                "bytes_to_node": row.carried[0],
                "bytes_from_node": row.carried[1],
                "age_ms_p50": percentile(&row.ages_ms, 0.5),
                "age_ms_p99": percentile(&row.ages_ms, 0.99),
                "in_effect_after_ms": row.took.map(|took| took.as_secs_f64() * 1e3),
                "frames_of_before": row.of_before,
            })
        };
        self.phases.iter().zip(&self.rows).map(row).collect()
    }
}

/// The rows as a table, after an empty line.
pub(super) fn table(rows: &Value) -> Vec<String> {
    let mut lines = vec![
        String::new(),
        format!(
            "{:>6} {:>11} {:>13} {:>7} {:>9} {:>9} {:>16}  pipeline",
            "frames", "to hub, MB", "from hub, MB", "share", "age 50 %", "99 %", "in effect after"
        ),
    ];
    for row in rows.as_array().into_iter().flatten() {
        let number = |field: &str| row[field].as_f64().unwrap_or_default();
        let millis = |field: &str| match row[field].as_f64() {
            Some(millis) => format!("{millis:.0} ms"),
            None => "–".to_owned(),
        };
        let (to, from) = (number("bytes_to_node"), number("bytes_from_node"));
        lines.push(format!(
            "{:>6} {:>11.2} {:>13.2} {:>5.0} % {:>9} {:>9} {:>16}  {}",
            number("frames"),
            to / 1e6,
            from / 1e6,
            100.0 * from / to.max(1.0),
            millis("age_ms_p50"),
            millis("age_ms_p99"),
            millis("in_effect_after_ms"),
            row["pipeline"].as_str().unwrap_or_default(),
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use anabranch::base::Seed;

    use super::*;

    #[test]
    fn wrong_and_missing_frames_are_counted() {
        let frames = Frames::new(Seed(1));
        let phases = [Phase {
            pipeline: "every 2",
            checked: "",
            step: 2,
        }];
        let mut account = Account::new(&phases, &frames);
        account.asked(0, [0, 0]);
        for _ in 0..10 {
            account.made();
        }
        for sequence in [0, 2, 6] {
            account
                .arrived(&Adu::new(sequence, frames.body(sequence)), 0)
                .unwrap();
        }
        account.arrived(&Adu::new(8, frames.body(7)), 0).unwrap();
        account.carried([1_000_000, 500_000]);
        let rows = Value::from(account.report());
        assert_eq!(
            (&rows[0]["frames"], &rows[0]["missing"], &rows[0]["wrong"]),
            (&4.into(), &1.into(), &1.into())
        );
        assert_eq!(rows[0]["bytes_from_node"], 500_000);
        assert!(table(&rows)[2].contains("50 %"), "{:?}", table(&rows));
    }
}
