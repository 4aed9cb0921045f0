//! Measurements of the streams that objectives name.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_base::StreamId;
use anabranch_sched::objective::Stream;

/// Weight of an ADU in the averages.
const GAIN: f64 = 1.0 / 16.0;

/// Latency, loss and jitter of the ADUs of streams, weighted towards the latest sixteen. Key: session.
#[derive(Debug, Default)]
pub(super) struct Observed {
    streams: BTreeMap<StreamId, Averages>,
    /// Streams that objectives name by id, ascending; they are observed whether they are open or not.
    named: Vec<StreamId>,
    /// Symbols of the labels by which objectives name streams; these are observed while they are open.
    labels: Vec<f64>,
}

#[derive(Clone, Copy, Debug)]
struct Averages {
    /// Symbol of the stream's label; NaN while it is not open.
    label: f64,
    /// Mean latency in milliseconds; NaN before the first ADU.
    mean: f64,
    variance: f64,
    jitter: f64,
    last: f64,
    loss: f64,
}

impl Averages {
    const UNKNOWN: Self = Self {
        label: f64::NAN,
        mean: f64::NAN,
        variance: 0.0,
        jitter: f64::NAN,
        last: f64::NAN,
        loss: f64::NAN,
    };
}

impl Observed {
    /// Observes just the streams with these ids and those with these labels; `open` are all open streams, with the
    /// symbols of their labels.
    pub(super) fn watch(
        &mut self,
        named: BTreeSet<StreamId>,
        labels: Vec<f64>,
        open: impl Iterator<Item = (StreamId, f64)>,
    ) {
        self.named = named.into_iter().collect();
        self.labels = labels;
        let labels = &self.labels;
        let named = &self.named;
        self.streams.retain(|id, averages| {
            named.binary_search(id).is_ok() || labels.contains(&averages.label)
        });
        for &id in named {
            self.streams.entry(id).or_insert(Averages::UNKNOWN);
        }
        for (id, label) in open {
            self.open(id, label);
        }
    }

    /// A stream is open; `label` is the symbol of its label.
    pub(super) fn open(&mut self, id: StreamId, label: f64) {
        if self.labels.contains(&label) {
            self.streams.entry(id).or_insert(Averages::UNKNOWN);
        }
        if let Some(averages) = self.streams.get_mut(&id) {
            averages.label = label;
        }
    }

    /// A stream is over.
    pub(super) fn forget(&mut self, id: StreamId) {
        if self.named.binary_search(&id).is_err() {
            self.streams.remove(&id);
        } else if let Some(averages) = self.streams.get_mut(&id) {
            averages.label = f64::NAN;
        }
    }

    /// Records the latency of an acknowledged ADU from its handing over, in milliseconds; `None`: it is lost.
    pub(super) fn note(&mut self, stream: StreamId, latency_ms: Option<f64>) {
        let Some(averages) = self.streams.get_mut(&stream) else {
            return;
        };
        let towards = |average: &mut f64, value: f64| {
            *average = if average.is_nan() {
                value
            } else {
                *average + GAIN * (value - *average)
            };
        };
        let lost = f64::from(u8::from(latency_ms.is_none()));
        towards(&mut averages.loss, lost);
        let Some(latency) = latency_ms else {
            return;
        };
        if !averages.last.is_nan() {
            towards(&mut averages.jitter, (latency - averages.last).abs());
        }
        averages.last = latency;
        if averages.mean.is_nan() {
            averages.mean = latency;
            return;
        }
        // West's update of a weighted variance.
        let difference = latency - averages.mean;
        averages.mean += GAIN * difference;
        averages.variance = (1.0 - GAIN) * (averages.variance + GAIN * difference * difference);
    }

    /// Measurements for objectives, in order of streams.
    pub(super) fn streams(&self) -> impl Iterator<Item = Stream> + '_ {
        self.streams.iter().map(|(&id, averages)| Stream {
            id,
            label: averages.label,
            latency_ms: averages.mean,
            deviation_ms: if averages.mean.is_nan() {
                f64::NAN
            } else {
                averages.variance.sqrt()
            },
            loss: averages.loss,
            jitter_ms: averages.jitter,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_follow_what_is_watched() {
        let mut observed = Observed::default();
        let stream = StreamId(4);
        observed.note(stream, Some(1.0));
        let watch = |observed: &mut Observed, named: &[StreamId]| {
            let named = named.iter().copied().collect();
            observed.watch(named, Vec::new(), std::iter::empty());
        };
        watch(&mut observed, &[stream]);
        let now = |observed: &Observed| observed.streams().next().expect("it is watched");
        assert!(
            now(&observed).latency_ms.is_nan(),
            "nothing was noted before"
        );
        for step in 0..400 {
            let latency = if step % 2 == 0 { 90.0 } else { 110.0 };
            observed.note(stream, (step % 4 != 0).then_some(latency));
        }
        let seen = now(&observed);
        assert!((95.0..109.0).contains(&seen.latency_ms), "{seen:?}");
        assert!((7.0..11.0).contains(&seen.deviation_ms), "{seen:?}");
        assert!((0.15..0.35).contains(&seen.loss), "{seen:?}");
        assert!((10.0..20.0).contains(&seen.jitter_ms), "{seen:?}");
        watch(&mut observed, &[]);
        assert_eq!(observed.streams().count(), 0);
    }

    #[test]
    fn streams_are_found_by_label_while_they_are_open() {
        let ids = |observed: &Observed| -> Vec<u64> {
            let labelled = observed.streams().filter(|stream| stream.label == 7.0);
            labelled.map(|stream| stream.id.0).collect()
        };
        let mut observed = Observed::default();
        let named = BTreeSet::from([StreamId(4)]);
        let open = [(2, 7.0), (4, 7.0), (6, 8.0)];
        let open = open.map(|(id, label)| (StreamId(id), label));
        observed.watch(named, vec![7.0], open.into_iter());
        assert_eq!(ids(&observed), [2, 4]);
        observed.note(StreamId(2), Some(5.0));
        observed.open(StreamId(8), 7.0);
        observed.open(StreamId(10), 8.0);
        assert_eq!(ids(&observed), [2, 4, 8]);

        for over in [4, 8] {
            observed.forget(StreamId(over));
        }
        assert_eq!(ids(&observed), [2]);
        assert_eq!(
            observed.streams().count(),
            2,
            "stream 4 has an id in an objective"
        );
        // Measurements stay when other objectives come.
        observed.watch(BTreeSet::new(), vec![7.0], open.into_iter().take(1));
        let kept = observed.streams().next().expect("it is open");
        assert_eq!((kept.id.0, kept.latency_ms), (2, 5.0));
    }
}
