//! Sets of recorded paths that are used together.

use std::{collections::BTreeMap, time::Duration};

use anabranch_base::{Random, Seed};

use crate::kit::{corpus::Corpus, recording::Recording, streams::Timing};

/// Number of sets of each kind that one seed chooses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice {
    /// Label of the random numbers that select the sets.
    pub(crate) name: &'static str,
    /// For paths recorded together: (paths of a set, sets).
    pub(crate) together: &'static [(usize, usize)],
    /// For any other paths.
    pub(crate) apart: &'static [(usize, usize)],
}

/// The sets that this experiment runs on.
const USUAL: Choice = Choice {
    name: "path sets",
    together: &[(2, 4), (3, 3)],
    apart: &[(2, 3), (3, 2)],
};
/// Longest interval between rows: beyond it, rows describe a window of 1 s poorly.
const STEP_MAX_S: f64 = 1.2;

/// Suffixes of the names of recordings of a link's other direction. Both directions of one link are recorded together, but they
/// are not two paths.
const UPWARD: [&str; 2] = ["-up", "_up"];

/// Recordings used as the paths of one session.
#[derive(Clone, Debug)]
pub(crate) struct PathSet<'a> {
    /// At least two.
    pub(crate) recordings: Vec<&'a Recording>,
    /// True if they were recorded at the same time.
    pub(crate) is_simultaneous: bool,
}

impl PathSet<'_> {
    /// Names of its recordings.
    pub(crate) fn name(&self) -> String {
        let names: Vec<&str> = self.recordings.iter().map(|r| r.name.as_str()).collect();
        names.join(" + ")
    }

    pub(crate) fn origin(&self) -> &'static str {
        if self.is_simultaneous {
            "simultaneous"
        } else {
            "independent"
        }
    }
}

/// Sets of this experiment.
pub(super) fn choose(corpus: &Corpus, seed: Seed) -> Vec<PathSet<'_>> {
    choose_as(USUAL, Timing::USUAL.end(), corpus, seed)
}

/// Sets selected by the seed: without repetition, and depending only on seed and recordings. Recordings shorter than `least`,
/// the length of a run, are not used, because they would repeat.
pub(crate) fn choose_as(
    choice: Choice,
    least: Duration,
    corpus: &Corpus,
    seed: Seed,
) -> Vec<PathSet<'_>> {
    let run_s = least.as_secs_f64();
    let is_usable = |recording: &&Recording| {
        if UPWARD.iter().any(|end| recording.name.ends_with(end)) {
            return false;
        }
        let times = &recording.times_s;
        let length = times.last().zip(times.first()).map_or(0.0, |(l, f)| l - f);
        recording.bandwidth_bps.is_some()
            && length >= run_s
            && recording.step_s().is_some_and(|step| step <= STEP_MAX_S)
    };
    let usable: Vec<&Recording> = corpus.recordings.iter().filter(is_usable).collect();
    let mut groups: BTreeMap<&str, Vec<&Recording>> = BTreeMap::new();
    for &recording in &usable {
        if !recording.group.is_empty() {
            groups.entry(&recording.group).or_default().push(recording);
        }
    }
    let mut random = seed.stream(choice.name);
    let mut sets = Vec::new();
    for &(paths, wanted) in choice.together {
        let candidates: Vec<&Vec<&Recording>> = groups
            .values()
            .filter(|members| members.len() >= paths)
            .collect();
        gather(&mut sets, wanted, || {
            let members = candidates.get(below(&mut random, candidates.len())?)?;
            Some(PathSet {
                recordings: draw(&mut random, members, paths),
                is_simultaneous: true,
            })
        });
    }
    for &(paths, wanted) in choice.apart {
        gather(&mut sets, wanted, || {
            let recordings = draw(&mut random, &usable, paths);
            let is_apart = recordings.len() == paths
                && recordings.iter().enumerate().all(|(index, one)| {
                    let others = recordings[index + 1..].iter();
                    one.group.is_empty() || others.clone().all(|other| other.group != one.group)
                });
            is_apart.then_some(PathSet {
                recordings,
                is_simultaneous: false,
            })
        });
    }
    sets
}

/// Adds up to `wanted` new sets; stops if too few can be found.
fn gather<'a>(
    sets: &mut Vec<PathSet<'a>>,
    wanted: usize,
    mut next: impl FnMut() -> Option<PathSet<'a>>,
) {
    let mut found = 0;
    for _ in 0..wanted * 50 {
        if found == wanted {
            return;
        }
        let Some(set) = next() else { continue };
        if sets.iter().all(|known| known.name() != set.name()) {
            sets.push(set);
            found += 1;
        }
    }
}

fn below(random: &mut Random, bound: usize) -> Option<usize> {
    (bound > 0).then(|| random.below(bound as u64) as usize)
}

/// Draws `count` of `from`, or all of them, in their order.
fn draw<'a>(random: &mut Random, from: &[&'a Recording], count: usize) -> Vec<&'a Recording> {
    let mut indices: Vec<usize> = (0..from.len()).collect();
    let count = count.min(indices.len());
    for place in 0..count {
        let other = random.between(place as u64, indices.len() as u64 - 1) as usize;
        indices.swap(place, other);
    }
    indices.truncate(count);
    indices.sort_unstable();
    indices.into_iter().map(|index| from[index]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recording(name: &str, group: &str, seconds: usize) -> Recording {
        Recording {
            name: name.to_owned(),
            group: group.to_owned(),
            times_s: (0..=seconds).map(|second| second as f64).collect(),
            bandwidth_bps: Some(vec![Some(1e6); seconds + 1]),
            ..Recording::default()
        }
    }

    #[test]
    fn sets_match_their_description() {
        let mut recordings = Vec::new();
        for group in ["car", "ship", ""] {
            for index in 0..4 {
                recordings.push(recording(&format!("{group}{index}"), group, 600));
            }
        }
        recordings.push(recording("short", "car", 100));
        recordings.push(recording("link-up", "car", 600));
        let corpus = Corpus {
            recordings,
            ..Corpus::default()
        };
        let sets = choose(&corpus, Seed(3));
        let kinds = USUAL.together.iter().chain(USUAL.apart);
        let wanted: usize = kinds.map(|(_, sets)| sets).sum();
        assert_eq!(sets.len(), wanted);
        for (index, set) in sets.iter().enumerate() {
            assert!((2..=3).contains(&set.recordings.len()));
            let is_out = |r: &&Recording| r.name == "short" || r.name == "link-up";
            assert!(!set.recordings.iter().any(is_out));
            let groups: Vec<&str> = set.recordings.iter().map(|r| r.group.as_str()).collect();
            let is_one = groups.iter().all(|g| *g == groups[0] && !g.is_empty());
            assert_eq!(is_one, set.is_simultaneous, "{}", set.name());
            assert!(
                sets[index + 1..]
                    .iter()
                    .all(|other| other.name() != set.name())
            );
        }
        let names = |seed| -> Vec<String> {
            let sets = choose(&corpus, Seed(seed));
            sets.iter().map(PathSet::name).collect()
        };
        assert_eq!(names(3), names(3));
        assert_ne!(names(3), names(4));
    }

    #[test]
    fn few_recordings_make_few_sets() {
        let recordings = vec![recording("a", "", 600), recording("b", "", 600)];
        let corpus = Corpus {
            recordings,
            ..Corpus::default()
        };
        let sets = choose(&corpus, Seed(1));
        assert_eq!(sets.len(), 1);
        assert_eq!(sets[0].name(), "a + b");
    }
}
