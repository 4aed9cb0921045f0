//! Results of a video session.

use std::time::Duration;

use anabranch_base::Instant;
use serde_json::json;

use super::{
    film::Film,
    scene::{Count, INTERVAL, Outcome, Running, Scene},
};
use crate::Row;

/// Frames that losses affect [Two-flow §5.1, Tables I and II].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Affected {
    /// E_f: enhanced frames of which a part was lost.
    pub(super) frames: f64,
    /// E_g: groups with such a frame.
    pub(super) groups: f64,
    /// G_max: the largest number in one group.
    pub(super) group_max: f64,
    /// G_con: frames in runs of two or more, the longest run, and the number of runs.
    pub(super) in_runs: f64,
    pub(super) run_max: f64,
    pub(super) runs: f64,
}

impl Affected {
    /// Counts for these frames, ascending, each once.
    pub(super) fn of(lost: &[u32], groups: &[u32]) -> Self {
        let mut affected = Self {
            frames: lost.len() as f64,
            ..Self::default()
        };
        let (mut in_group, mut run) = (0.0, 1.0);
        for (index, &frame) in lost.iter().enumerate() {
            let before = index.checked_sub(1).map(|before| lost[before]);
            let group = |frame: u32| groups.get(frame as usize);
            let same = before.is_some_and(|before| group(before) == group(frame));
            in_group = if same { in_group + 1.0 } else { 1.0 };
            affected.groups += f64::from(u8::from(!same));
            affected.group_max = affected.group_max.max(in_group);
            run = if same && before == Some(frame.wrapping_sub(1)) {
                run + 1.0
            } else {
                1.0
            };
            if run == 2.0 {
                affected.runs += 1.0;
                affected.in_runs += 2.0;
            } else if run > 2.0 {
                affected.in_runs += 1.0;
            }
            if run > 1.0 {
                affected.run_max = affected.run_max.max(run);
            }
        }
        affected
    }

    /// Mean of several sessions; maxima remain maxima.
    pub(super) fn mean(all: &[Self]) -> Self {
        let n = all.len().max(1) as f64;
        let mean = |of: fn(&Self) -> f64| all.iter().map(of).sum::<f64>() / n;
        let most = |of: fn(&Self) -> f64| all.iter().map(of).fold(0.0, f64::max);
        Self {
            frames: mean(|a| a.frames),
            groups: mean(|a| a.groups),
            group_max: most(|a| a.group_max),
            in_runs: mean(|a| a.in_runs),
            run_max: most(|a| a.run_max),
            runs: mean(|a| a.runs),
        }
    }

    pub(super) fn write(&self, row: &mut Row) {
        let over = |a: f64, b: f64| if b > 0.0 { rounded(a / b) } else { 0.0 };
        row.insert("affected_frames".into(), json!(rounded(self.frames)));
        row.insert("affected_groups".into(), json!(rounded(self.groups)));
        row.insert("group_max".into(), json!(self.group_max));
        row.insert("group_avg".into(), json!(over(self.frames, self.groups)));
        row.insert("consecutive_total".into(), json!(rounded(self.in_runs)));
        row.insert("consecutive_max".into(), json!(self.run_max));
        row.insert(
            "consecutive_avg".into(),
            json!(over(self.in_runs, self.runs)),
        );
    }
}

pub(super) fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// Totals of both flows at the end of every interval since the world began, one second after full eighths.
pub(super) type Ticks = Vec<[Count; 2]>;

/// Runs the scene and samples every session's channels every interval. `at_tick` may act.
pub(super) fn watch(
    scene: &mut Scene,
    until: Duration,
    mut at_tick: impl FnMut(&mut Scene, usize),
) -> Vec<Ticks> {
    let mut all: Vec<Ticks> = Vec::new();
    let ticks = (until.as_secs() / INTERVAL.as_secs()) as usize;
    for tick in 0..=ticks {
        scene
            .world
            .run_until(Instant::from_secs(1) + INTERVAL * tick as u32);
        let sessions = scene.sessions.clone();
        all.resize_with(sessions.len(), Vec::new);
        for (ticks, running) in all.iter_mut().zip(&sessions) {
            ticks.resize(tick, [Count::default(); 2]);
            ticks.push([
                scene.count(running.essential),
                scene.count(running.enhanced),
            ]);
        }
        at_tick(scene, tick);
    }
    all
}

/// Outcome of one session.
#[derive(Clone, Debug)]
pub(super) struct Verdict {
    /// Essential packets that were retransmitted, and enhanced ones that were lost.
    pub(super) repeated: u64,
    pub(super) lost: u64,
    /// Essential segments that were late, and the margin of the latest before its deadline (negative: after it).
    pub(super) late: u64,
    pub(super) spare_min_s: f64,
    /// Lag of the longest enhanced part behind the frame that it is shown with: the start-up delay that playing needs.
    pub(super) delay_max_s: f64,
    pub(super) affected: Affected,
}

/// Judges a completed session.
pub(super) fn judge(scene: &mut Scene, film: &Film, running: &Running) -> Verdict {
    let [essential, enhanced] = [running.essential, running.enhanced];
    let repeated = scene.outcome(essential).lost;
    let Outcome { lost, mut frames } = scene.outcome(enhanced);
    let steps = &film.schedule.steps()[running.plan.segments.clone()];
    let passed = scene.account(essential).passed.clone();
    let origin = steps.first().map_or(Duration::ZERO, |step| step.from);
    let (mut late, mut spare_min_s) = (0, f64::INFINITY);
    for (index, step) in steps.iter().enumerate() {
        // A mark after which nothing more arrives is passed together with the one before.
        if step.essential_bytes == 0 {
            continue;
        }
        let deadline = running.plan.start + (step.until - origin);
        let spare_s = passed.get(index).map_or(-f64::INFINITY, |&at| {
            deadline.as_secs_f64() - at.as_secs_f64()
        });
        late += u64::from(spare_s < 0.0);
        spare_min_s = spare_min_s.min(spare_s);
    }
    frames.sort_unstable();
    frames.dedup();
    let delay_max_s = scene.account(enhanced).delay_max.as_secs_f64();
    Verdict {
        repeated,
        lost,
        late,
        spare_min_s,
        delay_max_s,
        affected: Affected::of(&frames, &film.groups),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn affected_frames_are_counted_as_in_the_tables() {
        // Groups of 12 frames: 1, 2, 3 and 5 of the first, 13 of the second, 25 and 26 of the third.
        let groups: Vec<u32> = (0..48).map(|frame| frame / 12).collect();
        let affected = Affected::of(&[1, 2, 3, 5, 13, 25, 26], &groups);
        let expected = Affected {
            frames: 7.0,
            groups: 3.0,
            group_max: 4.0,
            in_runs: 5.0,
            run_max: 3.0,
            runs: 2.0,
        };
        assert_eq!(affected, expected);
        // A run ends with its group.
        assert_eq!(Affected::of(&[11, 12], &groups).in_runs, 0.0);
    }
}
