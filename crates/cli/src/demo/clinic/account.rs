//! Figures of the demonstration: samples that are the same, pictures in time and of use, and pauses of the video after each cut.

use std::{path::Path, time::Duration};

use anabranch::base::Rate;
use anabranch_clinic::{
    hospital::{
        Packets, Pictures,
        live::{Item, Viewer},
    },
    wfdb::{INVALID, files::Reader},
};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::record::Record;
use crate::exit::Failure;

/// Time after a cut in which a pause counts as its consequence.
const AFTER: Duration = Duration::from_secs(5);

/// Pictures as a viewer at the hospital gets them.
#[derive(Debug, Default)]
pub(super) struct Watched {
    /// Arrivals of pictures that a decoder can use.
    usable: Vec<Instant>,
    /// Pictures that came.
    pictures: u64,
    last: Option<u64>,
    is_whole: bool,
}

impl Watched {
    /// Takes what comes; does not return.
    pub(super) async fn watch(&mut self, viewer: &mut Viewer) -> std::convert::Infallible {
        loop {
            if let Item::Picture { number, is_key, .. } = viewer.next().await {
                self.arrived(number, is_key, Instant::now());
            }
        }
    }

    /// A picture is of use if all of its group before it came.
    fn arrived(&mut self, number: u64, is_key: bool, at: Instant) {
        let follows = self.last.is_some_and(|last| number == last + 1);
        self.is_whole = is_key || self.is_whole && follows;
        self.last = Some(number);
        self.pictures += 1;
        if self.is_whole {
            self.usable.push(at);
        }
    }

    /// Longest time without a usable picture, of those that end in this time or last through it.
    fn pause(&self, from: Instant, to: Instant) -> Option<Duration> {
        let pauses = self.usable.windows(2).map(|two| (two[0], two[1]));
        let pauses = pauses.filter(|(begin, end)| *end > from && *begin < to);
        pauses.map(|(begin, end)| end - begin).max()
    }

    /// The figures; `skipped`: pictures that were not sent.
    pub(super) fn report(&self, counts: Pictures, skipped: u64, cuts: &[(&str, Instant)]) -> Value {
        let whole = self.usable.first().zip(self.usable.last());
        let whole = whole.and_then(|(first, last)| self.pause(*first, *last));
        let ms = |pause: Option<Duration>| pause.map(|pause| pause.as_millis() as u64);
        let cuts = cuts.iter().map(|(name, at)| {
            json!({"path": name, "longest_pause_ms": ms(self.pause(*at, *at + AFTER))})
        });
        json!({
            "received": counts.received,
            "missing": counts.missing,
            "in_time": counts.in_time,
            "skipped": skipped,
            "keys_requested": counts.keys_requested,
            "usable": self.usable.len(),
            "longest_pause_ms": ms(whole),
            "cuts": cuts.collect::<Vec<_>>(),
        })
    }
}

/// Figures of the speech: packets that the ambulance made and heard, and packets that the hospital was given to say.
pub(super) fn speech(came: Packets, [made, heard]: [u64; 2], said: u64) -> Value {
    json!({
        "made": made,
        "received": came.received,
        "in_time": came.in_time,
        "said": said,
        "heard": heard,
    })
}

/// Compares what the hospital keeps with what was played.
pub(super) fn compare(record: &Record, kept: &Path) -> Result<Value, Failure> {
    let mut reader = Reader::open(&kept.join("ekg.hea")).map_err(Failure::file)?;
    let samples = reader.read(usize::MAX).map_err(Failure::file)?;
    let holes = reader.header().comments.iter();
    let holes: Vec<&String> = holes.filter(|line| line.starts_with("hole ")).collect();
    let both = || samples.iter().zip(&record.samples);
    let missing = both().filter(|(own, played)| **own == INVALID && **played != INVALID);
    let (missing, same) = (
        missing.count(),
        both().filter(|(own, played)| own == played).count(),
    );
    Ok(json!({
        "is_generated": record.is_generated,
        "leads": record.leads,
        "samples": record.samples.len(),
        "kept": samples.len(),
        "identical": same,
        "in_holes": missing,
        "different": samples.len().min(record.samples.len()) - same - missing,
        "holes": holes,
    }))
}

/// The report in words.
pub(super) fn lines(report: &Value) -> Vec<String> {
    let (ekg, video) = (&report["ekg"], &report["video"]);
    let mut lines = vec![
        String::new(),
        format!(
            "ECG       {} of {} samples are identical, {} are in {} holes, {} differ",
            ekg["identical"],
            ekg["samples"],
            ekg["in_holes"],
            ekg["holes"].as_array().map_or(0, Vec::len),
            ekg["different"]
        ),
    ];
    if video.is_object() {
        lines.push(format!(
            "video     {} pictures came, {} of them within 800 ms, {} did not; {} are of use to a decoder; {} key pictures were asked for",
            video["received"], video["in_time"], video["missing"], video["usable"], video["keys_requested"]
        ));
        let rates = report["encoders_bps"].as_array().into_iter().flatten();
        let rates: Vec<u64> = rates.filter_map(Value::as_u64).collect();
        if let Some((lowest, highest)) = rates.iter().min().zip(rates.iter().max()) {
            lines.push(format!(
                "          encoded at {} to {}, by {} encoders one after the other",
                Rate::from_bps(*lowest),
                Rate::from_bps(*highest),
                rates.len()
            ));
        }
        for cut in video["cuts"].as_array().into_iter().flatten() {
            lines.push(format!(
                "          longest pause of the video within 5 s after {} was cut: {} ms",
                cut["path"].as_str().unwrap_or_default(),
                cut["longest_pause_ms"]
            ));
        }
        lines.push(format!(
            "          longest pause of all: {} ms",
            video["longest_pause_ms"]
        ));
    }
    let speech = &report["speech"];
    if speech.is_object() {
        lines.push(format!(
            "speech    within 400 ms: {} of {} packets of the ambulance ({} came); {} of {} packets of the hospital came",
            speech["in_time"], speech["made"], speech["received"], speech["heard"], speech["said"]
        ));
    }
    lines.push(format!("files     {} kept", report["files"]));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_after_a_loss_are_of_no_use_until_the_next_key() {
        let begin = Instant::now();
        let mut watched = Watched::default();
        let numbers = [
            (0, true),
            (1, false),
            (3, false),
            (4, false),
            (5, true),
            (6, false),
        ];
        for (place, (number, is_key)) in (0..).zip(numbers) {
            watched.arrived(number, is_key, begin + Duration::from_millis(100 * place));
        }
        let report = watched.report(
            Pictures::default(),
            0,
            &[
                ("a", begin + Duration::from_millis(150)),
                ("b", begin + AFTER),
            ],
        );
        assert_eq!((watched.pictures, &report["usable"]), (6, &4.into()));
        assert_eq!(report["longest_pause_ms"], 300);
        assert_eq!(report["cuts"][0]["longest_pause_ms"], 300);
        assert_eq!(report["cuts"][1]["longest_pause_ms"], Value::Null);
    }
}
