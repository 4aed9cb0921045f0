//! Frames of the demonstration: positions of atoms in a cube, which swing about their places.

use anabranch::base::Seed;
use bytes::Bytes;

/// Atoms of a frame: as many as adenylate kinase has.
pub(super) const ATOMS: usize = 3_341;
/// Bytes of a frame: three numbers of 32 bits for each atom.
pub(super) const BYTES: usize = ATOMS * 12;
/// Edge of the cube, in Å.
const EDGE: f64 = 100.0;
/// Greatest distance of an atom from its place along an axis, in Å.
const SWING: f64 = 2.0;
/// Frames of the quickest and of the slowest swing.
const PERIOD: (f64, f64) = (20.0, 200.0);

/// A coordinate of an atom over time.
#[derive(Clone, Copy, Debug)]
struct Swing {
    place: f64,
    width: f64,
    /// Angle of a frame, in radians.
    step: f64,
    begin: f64,
}

/// All frames, which follow from a seed.
#[derive(Clone, Debug)]
pub(super) struct Frames(Vec<Swing>);

impl Frames {
    pub(super) fn new(seed: Seed) -> Self {
        let mut random = seed.stream("atoms");
        let turn = std::f64::consts::TAU;
        let swings = (0..3 * ATOMS).map(|_| Swing {
            place: random.uniform(0.0, EDGE),
            width: random.uniform(0.0, SWING),
            step: turn / random.uniform(PERIOD.0, PERIOD.1),
            begin: random.uniform(0.0, turn),
        });
        Self(swings.collect())
    }

    /// Positions in a frame, as numbers of 32 bits, little-endian.
    pub(super) fn body(&self, number: u64) -> Bytes {
        let at = |swing: &Swing| {
            let angle = swing.begin + swing.step * number as f64;
            (swing.place + swing.width * angle.sin()) as f32
        };
        let bytes = self.0.iter().flat_map(|swing| at(swing).to_le_bytes());
        bytes.collect::<Vec<u8>>().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_follow_from_the_seed_and_change_a_little_from_one_to_the_next() {
        let frames = Frames::new(Seed(1));
        let numbers = |frame: u64| -> Vec<f32> {
            let body = frames.body(frame);
            assert_eq!(body.len(), BYTES);
            let number = |four: &[u8]| f32::from_le_bytes(four.try_into().unwrap());
            body.chunks(4).map(number).collect()
        };
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
        for (one, next) in numbers(7).iter().zip(numbers(8)) {
            assert!((one - next).abs() < 1.0, "{one} {next}");
            assert!((-2.0..=102.0).contains(one));
        }
    }
}
