//! Measurements of the streams that objectives name.

use std::collections::BTreeMap;

use anabranch_base::StreamId;
use anabranch_sched::objective::Stream;

/// Weight of an ADU in the averages.
const GAIN: f64 = 1.0 / 16.0;

/// Latency, loss and jitter of the ADUs of streams, weighted towards the latest sixteen. Key: session.
#[derive(Debug, Default)]
pub(super) struct Observed {
    streams: BTreeMap<StreamId, Averages>,
}

#[derive(Clone, Copy, Debug)]
struct Averages {
    /// Mean latency in milliseconds; NaN before the first ADU.
    mean: f64,
    variance: f64,
    jitter: f64,
    last: f64,
    loss: f64,
}

impl Observed {
    /// Observes just these streams, ascending.
    pub(super) fn watch(&mut self, streams: &[StreamId]) {
        self.streams
            .retain(|id, _| streams.binary_search(id).is_ok());
        for &stream in streams {
            self.streams.entry(stream).or_insert(Averages {
                mean: f64::NAN,
                variance: 0.0,
                jitter: f64::NAN,
                last: f64::NAN,
                loss: f64::NAN,
            });
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
        observed.watch(&[stream]);
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
        observed.watch(&[]);
        assert_eq!(observed.streams().count(), 0);
    }
}
