//! Data of the source: positions of atoms and of the middles of bonds, which move a little from frame to frame.

use std::{collections::BTreeSet, f64::consts::TAU};

use anabranch_base::Rate;
use anabranch_process::{Adu, Fields, Limits, Modules, Pipeline, Step};
use bytes::{BufMut, Bytes, BytesMut};

use crate::kit::sources::visualisation::PERIOD;

/// Frames until they begin anew.
pub(super) const LOOP: u64 = 100;
/// Bytes of a position: x, y, z as little-endian 32-bit floats.
const POSITION_BYTES: u64 = 12;
/// Edge of the box in which positions are.
const BOX: f64 = 100.0;
/// Largest distance of a position from its mean, along each axis.
const MOVE: f64 = 0.5;

/// Frames of the three streams, in a loop.
#[derive(Clone, Debug)]
pub(super) struct Molecule {
    frames: Vec<[Bytes; 3]>,
}

impl Molecule {
    /// Frames of these rates, rounded down to whole positions.
    pub(super) fn new(rates: [Rate; 3]) -> Self {
        let counts = rates.map(|rate| {
            let bytes = rate.as_bps() as f64 / 8.0 * PERIOD.as_secs_f64();
            ((bytes as u64) / POSITION_BYTES).max(1)
        });
        let frame = |number| {
            let mut first = 0;
            counts.map(|count| {
                let positions = positions(first..first + count, number);
                first += count;
                positions
            })
        };
        Self {
            frames: (0..LOOP).map(frame).collect(),
        }
    }

    /// Body of a stream's ADU in a frame, and its fields: the layer is 0 for what is always wanted, and 1 for bonds out of view.
    pub(super) fn part(&self, stream: usize, frame: u64) -> (Fields, Bytes) {
        let body = self.frames[(frame % LOOP) as usize][stream].clone();
        let mut fields = Fields::default();
        let layer = if stream == 2 { 1.0 } else { 0.0 };
        fields
            .set("layer", layer)
            .expect("an ADU can have one field");
        (fields, body)
    }

    /// Frames below `frames` of which a pipeline that begins with the first derives something.
    pub(super) fn passed(&self, stream: usize, pipeline: &Pipeline, frames: u64) -> BTreeSet<u64> {
        let whole = without(pipeline, |step| matches!(step, Step::Delta { .. }));
        let adus = self.run(stream, &whole, frames);
        adus.iter().map(|adu| adu.sequence).collect()
    }

    /// Checksum of what a pipeline derives from each frame of the loop that passes it, with an array in place of differences; `None`
    /// where a filter leaves nothing.
    pub(super) fn sums(&self, stream: usize, pipeline: &Pipeline) -> Vec<Option<u64>> {
        let one = without(pipeline, |step| {
            matches!(step, Step::Delta { .. } | Step::Every(_))
        });
        let mut sums = vec![None; LOOP as usize];
        for adu in self.run(stream, &one, LOOP) {
            sums[adu.sequence as usize] = Some(checksum(&adu.body));
        }
        sums
    }

    /// ADUs as they travel.
    fn run(&self, stream: usize, pipeline: &Pipeline, frames: u64) -> Vec<Adu> {
        let modules = Modules::default();
        let running = pipeline.start(&modules, Limits::default());
        let mut running = running.expect("built-in operators begin");
        let adus = (0..frames).flat_map(|frame| {
            let (fields, body) = self.part(stream, frame);
            let mut adu = Adu::new(frame, body);
            adu.fields = fields;
            let processed = running.process(adu, &modules);
            processed.expect("positions can be processed").adus
        });
        adus.collect()
    }

    /// Mean units of work of a pipeline on an ADU.
    pub(super) fn work(&self, stream: usize, pipeline: &Pipeline) -> f64 {
        let modules = Modules::default();
        let running = pipeline.start(&modules, Limits::default());
        let mut running = running.expect("built-in operators begin");
        let work = (0..LOOP).map(|frame| {
            let (fields, body) = self.part(stream, frame);
            let mut adu = Adu::new(frame, body);
            adu.fields = fields;
            let processed = running.process(adu, &modules);
            processed.expect("positions can be processed").work
        });
        work.sum::<u64>() as f64 / LOOP as f64
    }

    /// Rate at which a pipeline's ADUs travel, `overhead` bytes of each included.
    pub(super) fn rate(&self, stream: usize, pipeline: &Pipeline, overhead: u64) -> Rate {
        let adus = self.run(stream, pipeline, LOOP);
        let bytes: u64 = adus
            .iter()
            .map(|adu| adu.body.len() as u64 + overhead)
            .sum();
        Rate::from_bytes_per(bytes, PERIOD * LOOP as u32)
    }
}

fn without(pipeline: &Pipeline, is_left_out: impl Fn(&Step) -> bool) -> Pipeline {
    let steps = pipeline.steps().iter().filter(|step| !is_left_out(step));
    Pipeline::new(steps.cloned().collect()).expect("it has fewer steps")
}

fn positions(indices: std::ops::Range<u64>, frame: u64) -> Bytes {
    let mut bytes = BytesMut::new();
    for index in indices {
        for axis in 0..3 {
            // Means fill the box evenly: multiples of irrational numbers.
            let step = [0.819_172_513, 0.671_043_607, 0.549_700_478][axis as usize];
            let mean = (index as f64 * step).fract() * BOX;
            let turn = frame as f64 / LOOP as f64 + (index * 3 + axis) as f64 * 0.137;
            bytes.put_f32_le((mean + MOVE * (TAU * turn).sin()) as f32);
        }
    }
    bytes.freeze()
}

/// Checksum of a body (FNV-1a).
pub(super) fn checksum(body: &[u8]) -> u64 {
    body.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipelines_reduce_the_rate_as_they_say() {
        let rates = [325, 2_215, 7_034].map(Rate::from_kbps);
        let molecule = Molecule::new(rates);
        let of = |stream, text: &str| {
            let pipeline: Pipeline = text.parse().unwrap();
            molecule.rate(stream, &pipeline, 0).as_bps() as f64
        };
        let rate = |text| of(1, text);
        let all = rate("");
        assert!((all / 2_215e3 - 1.0).abs() < 0.01, "{all}");
        assert!((rate("every 2") / all - 0.5).abs() < 1e-3);
        // A sphere of radius 25 in a box of edge 100.
        let sphere = rate("region sphere 50 50 50 25 of f32") / all;
        assert!((sphere - 0.065).abs() < 0.02, "{sphere}");
        let short = rate("precision 12 of f32 then delta of f32") / all;
        assert!((0.1..0.8).contains(&short), "{short}");
        // Bonds out of view are of layer 1.
        assert_eq!(rate("drop layer 1"), all);
        assert_eq!(of(2, "drop layer 1"), 0.0);
    }
}
