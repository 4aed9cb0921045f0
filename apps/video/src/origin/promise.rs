//! Requests for guarantees: over several paths an essential flow asks for a guarantee of its rate. Until it is granted the flow
//! is sent without one, and the session repeats the request by itself.

use anabranch::{Guarantee, PromiseEvent, Stream, base::Rate};

/// Share of seconds in which the rate is to be reached.
const PROBABILITY: f64 = 0.95;
/// Request relative to the target: includes headers of records.
const HEADS: f64 = 1.03;
/// Range of the target, relative to the request, in which no new request is made. A target that has fallen may rise again with
/// the next segment, and a flow has no promise from a new request until it is granted.
const KEPT: std::ops::RangeInclusive<f64> = 0.4..=1.1;

/// The guarantee that an essential flow has requested.
#[derive(Debug, Default)]
pub(super) struct Promised {
    asked: Option<Rate>,
}

/// The new request, if anything has changed: a rate where there are several paths, nothing where there is one.
fn change(asked: Option<Rate>, target: Rate, paths: usize) -> Option<Option<Rate>> {
    let wanted = (paths > 1 && target > Rate::ZERO).then(|| target * HEADS);
    match (asked, wanted) {
        (None, None) => None,
        (Some(asked), Some(wanted)) => {
            let ratio = wanted.as_bps() as f64 / asked.as_bps() as f64;
            (!KEPT.contains(&ratio)).then_some(Some(wanted))
        }
        // Between two segments with data the promise is kept.
        (Some(_), None) if paths > 1 => None,
        _ => Some(wanted),
    }
}

impl Promised {
    /// Requests what the flow needs over so many paths, and records the answer.
    pub(super) fn look(&mut self, stream: &Stream, target: Rate, paths: usize) {
        while let Some(event) = stream.try_next_promise() {
            let flow = &stream.spec().label;
            match event {
                PromiseEvent::Promised(_) => {
                    tracing::info!(flow, %event, "guarantee of an essential flow");
                }
                _ => tracing::warn!(flow, %event, "guarantee of an essential flow"),
            }
        }
        let Some(wanted) = change(self.asked, target, paths) else {
            return;
        };
        let guarantee = wanted.map(|rate| Guarantee::rate(rate, PROBABILITY).waiting());
        match stream.change_guarantee(guarantee) {
            Ok(()) => {
                let flow = &stream.spec().label;
                match wanted {
                    Some(rate) => tracing::info!(flow, %rate, "a guarantee is requested"),
                    None => tracing::info!(flow, "only one path: no guarantee is requested"),
                }
            }
            Err(error) => {
                let flow = &stream.spec().label;
                tracing::info!(flow, %error, "no guarantee; the flow is sent without one");
            }
        }
        // A refused request is repeated when the rate has changed, or with the next segment.
        self.asked = wanted;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promises_are_for_several_paths() {
        let rate = Rate::from_kbps;
        assert_eq!(change(None, rate(200), 1), None);
        assert_eq!(change(None, Rate::ZERO, 2), None);
        assert_eq!(change(None, rate(200), 2), Some(Some(rate(206))));
        let asked = Some(rate(206));
        assert_eq!(change(asked, rate(205), 2), None);
        assert_eq!(change(asked, rate(300), 3), Some(Some(rate(309))));
        assert_eq!(
            change(asked, rate(100), 2),
            None,
            "the next segment may need it"
        );
        assert_eq!(
            change(asked, rate(50), 2),
            Some(Some(Rate::from_bps(51_500)))
        );
        assert_eq!(change(asked, Rate::ZERO, 2), None);
        assert_eq!(change(asked, rate(200), 1), Some(None));
    }
}
