//! Grouping by summary statistics [RFC 8382 §3.3.1].

use super::flow::{Parameters, Summary};

/// The group of a channel; `None`: it passes no bottleneck.
pub type Group = Option<u16>;

/// Divides channels that pass a bottleneck by oscillation, variability, skewness and, where it is high, loss:
/// neighbours in sorted order stay together while they differ by less than a threshold.
///
/// O(n log n) for n channels; no allocation after construction.
#[derive(Debug, Clone)]
pub struct Grouper {
    parameters: Parameters,
    order: Vec<u16>,
}

impl Grouper {
    /// For up to `channels` channels.
    pub fn new(parameters: Parameters, channels: usize) -> Self {
        Self {
            parameters,
            order: Vec::with_capacity(channels),
        }
    }

    /// Groups the channels by their summaries; a channel without one counts as passing no bottleneck.
    /// `groups` receives the answer, one entry a channel; numbers mean nothing beyond equality.
    ///
    /// # Panics
    /// When the slices differ in length.
    pub fn group(&mut self, summaries: &[Option<Summary>], groups: &mut [Group]) {
        assert_eq!(summaries.len(), groups.len(), "one group a summary");
        self.order.clear();
        for (channel, summary) in summaries.iter().enumerate() {
            let takes_part = summary.is_some_and(|s| s.is_bottlenecked);
            groups[channel] = takes_part.then_some(0);
            if takes_part {
                self.order.push(channel as u16);
            }
        }
        let p = self.parameters;
        self.divide(
            summaries,
            groups,
            |s| s.oscillation,
            |high, low| high - low < p.p_f,
        );
        self.divide(
            summaries,
            groups,
            |s| s.variability_s,
            |high, low| high - low < p.p_mad * high || high == low,
        );
        self.divide(
            summaries,
            groups,
            |s| s.skewness,
            |high, low| high - low < p.p_s,
        );
        // Loss too low to be reliable is taken as none.
        self.divide(
            summaries,
            groups,
            |s| if s.loss > p.p_l { s.loss } else { 0.0 },
            |high, low| high - low < p.p_d * high || high == low,
        );
    }

    fn divide(
        &mut self,
        summaries: &[Option<Summary>],
        groups: &mut [Group],
        metric: impl Fn(&Summary) -> f64,
        together: impl Fn(f64, f64) -> bool,
    ) {
        let value = |channel: u16| {
            summaries[usize::from(channel)]
                .as_ref()
                .map_or(0.0, &metric)
        };
        self.order.sort_unstable_by(|&a, &b| {
            let by_group = groups[usize::from(a)].cmp(&groups[usize::from(b)]);
            let by_value = value(b).total_cmp(&value(a));
            by_group.then(by_value).then(a.cmp(&b))
        });
        let mut before: Option<(Group, f64)> = None;
        let mut number = 0;
        for &channel in &self.order {
            let (old, here) = (groups[usize::from(channel)], value(channel));
            if let Some((group, high)) = before {
                number += u16::from(group != old || !together(high, here));
            }
            groups[usize::from(channel)] = Some(number);
            before = Some((old, here));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn summary(oscillation: f64, variability_s: f64, skewness: f64, loss: f64) -> Summary {
        Summary {
            skewness,
            variability_s,
            oscillation,
            loss,
            is_bottlenecked: true,
        }
    }

    fn group(summaries: &[Option<Summary>]) -> Vec<Group> {
        let mut groups = vec![None; summaries.len()];
        Grouper::new(Parameters::default(), summaries.len()).group(summaries, &mut groups);
        groups
    }

    #[test]
    fn each_metric_divides() {
        let base = summary(0.2, 0.01, -0.1, 0.0);
        for (other, together) in [
            (summary(0.29, 0.01, -0.1, 0.0), true),
            (summary(0.31, 0.01, -0.1, 0.0), false),
            (summary(0.2, 0.0105, -0.1, 0.0), true),
            (summary(0.2, 0.0115, -0.1, 0.0), false),
            (summary(0.2, 0.01, 0.04, 0.0), true),
            (summary(0.2, 0.01, 0.06, 0.0), false),
            (summary(0.2, 0.01, -0.1, 0.04), true),
            (summary(0.2, 0.01, -0.1, 0.06), false),
        ] {
            let groups = group(&[Some(base), Some(other)]);
            assert_eq!(groups[0] == groups[1], together, "{other:?}");
        }
        let free = Summary {
            is_bottlenecked: false,
            ..base
        };
        assert_eq!(
            group(&[Some(base), Some(free), None]),
            [Some(0), None, None]
        );
    }

    #[test]
    fn neighbours_chain() {
        let at = |oscillation| Some(summary(oscillation, 0.01, 0.0, 0.0));
        let groups = group(&[at(0.1), at(0.34), at(0.26), at(0.18), at(0.6)]);
        assert!(groups[..4].iter().all(|g| *g == groups[0]) && groups[4] != groups[0]);
    }

    proptest! {
        #[test]
        fn equal_summaries_stay_together(
            values in prop::collection::vec((0.0..1.0f64, 0.0..0.1f64, -1.0..0.1f64, 0.0..0.2f64), 1..12),
        ) {
            let summaries: Vec<_> = values.iter().chain(&values).map(|&(f, v, s, l)| Some(summary(f, v, s, l))).collect();
            let groups = group(&summaries);
            for at in 0..values.len() {
                prop_assert_eq!(groups[at], groups[at + values.len()]);
            }
            // Whoever is together differs by less than the first threshold in a chain, so groups are no more
            // than channels and every channel has one.
            prop_assert!(groups.iter().all(Option::is_some));
        }
    }
}
