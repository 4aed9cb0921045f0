//! Verdicts on shared bottlenecks, for the channels of a session.

use std::time::Duration;

use anabranch_base::Instant;

use super::{
    coherence::{self, Coherence, CoherenceMatrix},
    flow::{FlowStats, Parameters, Summary},
    group::{Group, Grouper},
};
use crate::evidence::{EstimateError, finite, within};

/// After this many memories without a packet everything is forgotten.
const GAP_MEMORIES: f64 = 5.0;

/// Parameters of a [`Detector`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Config {
    /// Channels, 2 to 64.
    pub channels: usize,
    /// Delays are averaged over bins of this length. It should hold a packet of each channel.
    pub bin: Duration,
    /// Time for which after its sending the outcome of a packet may still come in; at least the largest RTT.
    pub horizon: Duration,
    /// Largest difference of the times from the sender to the queue on two channels.
    pub lag_max: Duration,
    /// Movements of the delay slower than this are removed: clock drift, route changes, and the slow cycles of
    /// congestion control, which take a long time to distinguish.
    pub trend: Duration,
    /// The longest cycle of a queue for which evidence is discounted: two queues that both swing with
    /// about one period look alike until they have drifted apart.
    pub cycle: Duration,
    /// Time after which a bin has faded to 1/e.
    pub memory: Duration,
    /// Correlation from which channels share a bottleneck: the share of the delay's faster variance
    /// that is common.
    pub coefficient_enter: f64,
    /// Correlation below which they no longer do.
    pub coefficient_leave: f64,
    /// Standard deviations (of independent channels) by which the correlation must differ from 0.
    pub score: f64,
    /// Standard deviation of a channel's delay, movements slower than the trend and what own traffic
    /// explains removed, up to which it is noise of the measurement: such a channel has no queue to
    /// share.
    pub noise: Duration,
    /// Time that both channels must have been measured before any answer.
    pub evidence: Duration,
    /// Time for which a new answer must stand before it is given.
    pub hold: Duration,
    /// T of RFC 8382.
    pub interval: Duration,
    /// The other parameters of RFC 8382.
    pub parameters: Parameters,
}

impl Config {
    /// For `channels` channels: bins of 50 ms, lags to 300 ms, trend 0.2 s, memory 60 s, tuned on the
    /// random topologies of `tests/bottleneck.rs`; T and the rest as RFC 8382 recommends.
    pub fn new(channels: usize) -> Self {
        Self {
            channels,
            bin: Duration::from_millis(50),
            horizon: Duration::from_secs(3),
            lag_max: Duration::from_millis(300),
            trend: Duration::from_millis(200),
            cycle: Duration::from_secs(5),
            memory: Duration::from_secs(60),
            coefficient_enter: 0.4,
            coefficient_leave: 0.25,
            score: 5.0,
            noise: Duration::ZERO,
            evidence: Duration::from_secs(15),
            hold: Duration::from_secs(5),
            interval: Duration::from_millis(350),
            parameters: Parameters::default(),
        }
    }
}

/// State of two channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verdict {
    /// Too little evidence either way.
    #[default]
    Unknown,
    /// Their delays do not move together.
    Separate,
    /// Their delays move together: one queue makes most of both.
    Shared,
}

#[derive(Debug, Clone, Copy, Default)]
struct Pair {
    verdict: Verdict,
    /// The present conclusion from the evidence, and the number of steps for which it has held.
    leaning: Verdict,
    steps: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Bin {
    sum: f64,
    packets: u32,
    own_bytes: u64,
}

/// Watches the delays and losses of all channels and reports those that share a bottleneck.
///
/// Delays are relative one-way delays in seconds by the time of *sending*: the clocks of both ends may
/// differ by any constant; all channels must be measured against the same two clocks or their own.
/// Round-trip times serve when the way back is quiet. `observe_*`: O(1). `advance`: a bin costs what
/// [`CoherenceMatrix::observe`] does; verdicts are judged once a second of bins. No allocation after
/// construction, but for a silence of five memories, after which everything starts anew.
#[derive(Debug, Clone)]
pub struct Detector {
    config: Config,
    bin_nanos: u64,
    /// Bins not closed yet, shape (bin modulo length, channel).
    open: Box<[Bin]>,
    open_bins: u64,
    /// The first bin that is open; `None` before the first packet.
    next: Option<u64>,
    interval_bins: u64,
    step_bins: u64,
    hold_steps: u32,
    evidence_bins: u64,
    /// The first closed bin with a packet of each channel.
    first_bin: Box<[Option<u64>]>,
    gap_bins: u64,
    row: Box<[Option<f64>]>,
    loads: Box<[f64]>,
    matrix: CoherenceMatrix,
    flows: Box<[FlowStats]>,
    summaries: Box<[Option<Summary>]>,
    grouper: Grouper,
    pairs: Box<[Pair]>,
    late: u64,
}

impl Detector {
    /// Empty, with all its memory.
    ///
    /// # Errors
    /// A parameter outside its range.
    pub fn new(config: Config) -> Result<Self, EstimateError> {
        let bin_s = config.bin.as_secs_f64();
        within("bin", bin_s, "1 ms to 1 s", (0.001..=1.0).contains(&bin_s))?;
        let bins = |duration: Duration| duration.as_secs_f64() / bin_s;
        let horizon = bins(config.horizon).ceil();
        within(
            "horizon",
            horizon,
            "1 to 100,000 bins",
            (1.0..=1e5).contains(&horizon),
        )?;
        let interval = bins(config.interval).round();
        within(
            "interval",
            interval,
            "1 to 1000 bins",
            (1.0..=1000.0).contains(&interval),
        )?;
        for (name, value) in [
            ("coefficient_enter", config.coefficient_enter),
            ("coefficient_leave", config.coefficient_leave),
        ] {
            within(name, value, "0 to 1", (0.0..=1.0).contains(&value))?;
        }
        let leave = config.coefficient_leave;
        within(
            "coefficient_leave",
            leave,
            "at most coefficient_enter",
            leave <= config.coefficient_enter,
        )?;
        let score = config.score;
        within("score", score, "1 to 100", (1.0..=100.0).contains(&score))?;

        let lag_max = bins(config.lag_max).ceil() as usize;
        let trend = bins(config.trend);
        let memory = bins(config.memory);
        let matrix = CoherenceMatrix::new(coherence::Config {
            channels: config.channels,
            lag_max,
            memory_lags: (bins(config.cycle).ceil() as usize).max(lag_max + 1),
            trend,
            memory,
        })?;
        let channels = config.channels;
        let flow = FlowStats::new(config.parameters)?;
        let step_bins = bins(Duration::from_secs(1)).ceil() as u64;
        Ok(Self {
            config,
            bin_nanos: (Instant::EPOCH + config.bin).as_nanos(),
            open: vec![Bin::default(); (horizon as usize + 1) * channels].into(),
            open_bins: horizon as u64 + 1,
            next: None,
            interval_bins: interval as u64,
            step_bins,
            hold_steps: (bins(config.hold) / step_bins as f64).ceil() as u32,
            evidence_bins: bins(config.evidence).ceil() as u64,
            first_bin: vec![None; channels].into(),
            gap_bins: (GAP_MEMORIES * memory) as u64,
            row: vec![None; channels].into(),
            loads: vec![0.0; channels].into(),
            matrix,
            flows: vec![flow; channels].into(),
            summaries: vec![None; channels].into(),
            grouper: Grouper::new(config.parameters, channels),
            pairs: vec![Pair::default(); channels * (channels - 1) / 2].into(),
            late: 0,
        })
    }

    /// Adds one more channel, the last; what is known of the others stays. Allocates all
    /// memory anew.
    ///
    /// # Errors
    /// It would be the 65th; nothing changes then.
    pub fn add_channel(&mut self) -> Result<(), EstimateError> {
        let known = self.config.channels;
        let mut wider = Self::new(Config {
            channels: known + 1,
            ..self.config
        })?;
        self.matrix.add_channel()?;
        std::mem::swap(&mut wider.matrix, &mut self.matrix);
        (wider.next, wider.late) = (self.next, self.late);
        let rows = wider
            .open
            .chunks_mut(known + 1)
            .zip(self.open.chunks(known));
        rows.for_each(|(to, from)| to[..known].copy_from_slice(from));
        wider.first_bin[..known].copy_from_slice(&self.first_bin);
        for (to, from) in wider.flows.iter_mut().zip(std::mem::take(&mut self.flows)) {
            *to = from;
        }
        for first in 0..known {
            for second in first + 1..known {
                wider.pairs[coherence::pair_index(known + 1, first, second)] =
                    self.pairs[coherence::pair_index(known, first, second)];
            }
        }
        *self = wider;
        Ok(())
    }

    /// Forgets one channel, which from now on stands for another path. What is known of the others stays.
    ///
    /// # Errors
    /// No such channel.
    pub fn forget(&mut self, channel: usize) -> Result<(), EstimateError> {
        self.check(channel)?;
        let channels = self.config.channels;
        self.flows[channel] = FlowStats::new(self.config.parameters)?;
        self.matrix.forget(channel);
        self.first_bin[channel] = None;
        for row in self.open.chunks_mut(channels) {
            row[channel] = Bin::default();
        }
        for other in (0..channels).filter(|&other| other != channel) {
            let pair = self.pair(channel, other)?;
            self.pairs[pair] = Pair::default();
        }
        Ok(())
    }

    /// Takes the delay of a packet of `channel` that was sent at `sent`.
    ///
    /// A packet further ahead than the horizon closes the oldest bins; one older than the last closed
    /// bin is only counted in [`Detector::late`].
    ///
    /// # Errors
    /// No such channel; a delay that is not finite.
    pub fn observe_delay(
        &mut self,
        channel: usize,
        sent: Instant,
        delay_s: f64,
    ) -> Result<(), EstimateError> {
        self.check(channel)?;
        finite("delay_s", delay_s)?;
        self.flows[channel].observe(delay_s)?;
        let Some(place) = self.place(sent) else {
            self.late += 1;
            return Ok(());
        };
        let bin = &mut self.open[place + channel];
        bin.sum += delay_s;
        bin.packets += 1;
        Ok(())
    }

    /// Takes what `channel` itself sent at `sent`, lost or not. Without it, an application that bursts
    /// over two channels at once can make two separate bottlenecks look like one.
    ///
    /// # Errors
    /// No such channel.
    pub fn observe_sent(
        &mut self,
        channel: usize,
        sent: Instant,
        bytes: u32,
    ) -> Result<(), EstimateError> {
        self.check(channel)?;
        if let Some(place) = self.place(sent) {
            self.open[place + channel].own_bytes += u64::from(bytes);
        }
        Ok(())
    }

    /// Takes the loss of a packet of `channel`.
    ///
    /// # Errors
    /// No such channel.
    pub fn observe_loss(&mut self, channel: usize) -> Result<(), EstimateError> {
        self.check(channel)?;
        self.flows[channel].observe_loss();
        Ok(())
    }

    /// Notes that the outcomes of all packets sent before `until` are known: closes the bins that end by then.
    pub fn advance(&mut self, until: Instant) {
        let until = self.bin_of(until);
        self.close_to(until);
    }

    /// State of two channels.
    ///
    /// # Errors
    /// No such channel, or twice the same.
    pub fn verdict(&self, first: usize, second: usize) -> Result<Verdict, EstimateError> {
        Ok(self.pairs[self.pair(first, second)?].verdict)
    }

    /// The evidence behind the verdict; the lag is that of the larger channel number behind the smaller.
    ///
    /// # Errors
    /// No such channel, or twice the same; too little was measured, or a delay never varied.
    pub fn coherence(&self, first: usize, second: usize) -> Result<Coherence, EstimateError> {
        self.pair(first, second)?;
        self.matrix.pair(first.min(second), first.max(second))
    }

    /// RFC 8382's summary of a channel.
    ///
    /// # Errors
    /// No such channel; fewer intervals than it takes.
    pub fn summary(&self, channel: usize) -> Result<Summary, EstimateError> {
        self.check(channel)?;
        self.flows[channel].summary()
    }

    /// The groups of channels that share a bottleneck: `groups[i]` is the smallest channel of the group
    /// of i, i itself when it is alone. Sharing is carried on: a with b and b with c makes one group.
    ///
    /// # Panics
    /// When `groups` does not have one entry a channel.
    pub fn groups(&self, groups: &mut [usize]) {
        let channels = self.config.channels;
        assert_eq!(groups.len(), channels, "one entry a channel");
        for (channel, group) in groups.iter_mut().enumerate() {
            *group = channel;
        }
        let mut at = 0;
        for first in 0..channels {
            for second in first + 1..channels {
                if self.pairs[at].verdict == Verdict::Shared {
                    let (low, high) = (
                        groups[first].min(groups[second]),
                        groups[first].max(groups[second]),
                    );
                    groups
                        .iter_mut()
                        .filter(|g| **g == high)
                        .for_each(|g| *g = low);
                }
                at += 1;
            }
        }
    }

    /// The groups as RFC 8382 alone makes them, for comparison.
    ///
    /// # Panics
    /// When `groups` does not have one entry a channel.
    pub fn groups_rfc8382(&mut self, groups: &mut [Group]) {
        for (summary, flow) in self.summaries.iter_mut().zip(&self.flows) {
            *summary = flow.summary().ok();
        }
        self.grouper.group(&self.summaries, groups);
    }

    /// Packets whose delay came too late to be compared.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// True if one of two channels shows nothing but noise.
    fn is_quiet(&self, first: usize, second: usize) -> bool {
        let noise_s = self.config.noise.as_secs_f64();
        let deviation_s = |channel| self.matrix.deviation(channel);
        deviation_s(first).min(deviation_s(second)) < noise_s
    }

    fn check(&self, channel: usize) -> Result<(), EstimateError> {
        let range = "below the number of channels";
        within(
            "channel",
            channel as f64,
            range,
            channel < self.config.channels,
        )
        .map(|_| ())
    }

    fn pair(&self, first: usize, second: usize) -> Result<usize, EstimateError> {
        self.check(first)?;
        self.check(second)?;
        within(
            "second channel",
            second as f64,
            "another channel",
            first != second,
        )?;
        let (low, high) = (first.min(second), first.max(second));
        Ok(coherence::pair_index(self.config.channels, low, high))
    }

    fn bin_of(&self, time: Instant) -> u64 {
        time.as_nanos() / self.bin_nanos
    }

    /// Place where the bin of `sent` begins; `None` when it is closed.
    fn place(&mut self, sent: Instant) -> Option<usize> {
        let bin = self.bin_of(sent);
        let next = *self.next.get_or_insert(bin);
        if bin < next {
            return None;
        }
        if bin >= next + self.open_bins {
            self.close_to(bin + 1 - self.open_bins);
        }
        Some((bin % self.open_bins) as usize * self.config.channels)
    }

    /// Closes all bins before `until`.
    fn close_to(&mut self, until: u64) {
        let Some(mut next) = self.next else {
            return;
        };
        if until.saturating_sub(next) > self.gap_bins {
            // Nothing from before is comparable; the configuration was accepted before.
            if let Ok(fresh) = Self::new(self.config) {
                let late = self.late;
                *self = Self {
                    late,
                    next: Some(until),
                    ..fresh
                };
            }
            return;
        }
        while next < until {
            self.close(next);
            next += 1;
        }
        self.next = Some(next);
    }

    fn close(&mut self, bin: u64) {
        let channels = self.config.channels;
        let start = (bin % self.open_bins) as usize * channels;
        for channel in 0..channels {
            let Bin {
                sum,
                packets,
                own_bytes,
            } = std::mem::take(&mut self.open[start + channel]);
            self.loads[channel] = own_bytes as f64;
            self.row[channel] = (packets > 0).then(|| sum / f64::from(packets));
            if packets > 0 {
                self.first_bin[channel].get_or_insert(bin);
            }
        }
        // The row has the right length and finite means of finite delays, unless sums overflowed: then
        // it is skipped.
        let _ = self.matrix.observe_loaded(&self.row, &self.loads);
        if bin.is_multiple_of(self.interval_bins) {
            self.flows.iter_mut().for_each(FlowStats::close);
        }
        if bin.is_multiple_of(self.step_bins) {
            self.judge(bin);
        }
    }

    fn judge(&mut self, now: u64) {
        let mut at = 0;
        for first in 0..self.config.channels {
            for second in first + 1..self.config.channels {
                let both_since = self.first_bin[first]
                    .zip(self.first_bin[second])
                    .map(|(a, b)| a.max(b));
                let is_known = both_since.is_some_and(|since| now >= since + self.evidence_bins);
                let leaning = match self.matrix.pair(first, second) {
                    Ok(_) if is_known && self.is_quiet(first, second) => Verdict::Separate,
                    Ok(coherence) if is_known => {
                        lean(&self.config, self.pairs[at].verdict, &coherence)
                    }
                    _ => Verdict::Unknown,
                };
                let pair = &mut self.pairs[at];
                pair.steps = if leaning == pair.leaning {
                    pair.steps + 1
                } else {
                    1
                };
                pair.leaning = leaning;
                if pair.steps >= self.hold_steps {
                    pair.verdict = leaning;
                }
                at += 1;
            }
        }
    }
}

/// Conclusion from the evidence, given the one before.
fn lean(config: &Config, before: Verdict, coherence: &Coherence) -> Verdict {
    let Coherence {
        coefficient,
        deviation,
        ..
    } = *coherence;
    let is_significant = coherence.score() >= config.score;
    let enter = config.coefficient_enter;
    if before == Verdict::Shared {
        // Stays until it is clearly gone.
        if coefficient >= config.coefficient_leave {
            Verdict::Shared
        } else {
            Verdict::Separate
        }
    } else if is_significant && coefficient >= enter {
        Verdict::Shared
    } else if coefficient + 2.0 * deviation < enter {
        Verdict::Separate
    } else {
        before
    }
}

#[cfg(test)]
mod tests;
