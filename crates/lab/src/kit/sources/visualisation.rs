//! A visualisation server like SmartPointer's [IQ-Paths §VI-B]: 25 frames a second, each with all atoms, the bonds that the
//! observer sees, and the bonds that come into view when the observer turns.

use std::{sync::Arc, time::Duration};

use anabranch_base::Rate;
use bytes::{BufMut, Bytes, BytesMut};

use super::{Frame, Offer, Source, bonds::bonds, frame_bytes, view::View, xyz::Trajectory};

/// Time between two frames.
pub const PERIOD: Duration = Duration::from_millis(40);
/// Probability of the promises of the paper's critical streams.
pub const PROBABILITY: f64 = 0.95;
/// Rates of atoms, bonds in view, and bonds out of view in the paper.
pub const PUBLISHED: [Rate; 3] = [
    Rate::from_kbps(3_249),
    Rate::from_kbps(22_148),
    Rate::from_kbps(70_340),
];
/// Names of the streams; the first two are critical.
pub const NAMES: [&str; 3] = ["Atom", "Bond1", "Bond2"];

/// Bytes of an atom: atomic number, then x, y, z as little-endian 32-bit floats.
pub const ATOM_BYTES: usize = 13;
/// Bytes of a bond: two indices of atoms as little-endian 32-bit integers.
pub const BOND_BYTES: usize = 8;

/// The server's data, in a loop.
#[derive(Clone, Debug)]
pub struct Visualisation {
    offers: Vec<Offer>,
    /// Contents of each frame, for each stream.
    frames: Arc<[[Bytes; 3]]>,
    next: u64,
}

impl Visualisation {
    /// Frames of constant sizes at these rates, with all three streams or, with a rate of 0, without the last. The content is
    /// arbitrary; only sizes and times matter.
    pub fn generated(rates: [Rate; 3]) -> Self {
        let sizes = rates.map(|rate| frame_bytes(rate, PERIOD));
        let largest = sizes.into_iter().max().unwrap_or_default();
        let content: Vec<u8> = (0..largest).map(|index| (index % 251) as u8).collect();
        let content = Bytes::from(content);
        let frame = sizes.map(|size| content.slice(..size));
        Self::new(rates, Arc::from([frame]))
    }

    /// Frames of a trajectory for an observer with this view. Bonds are computed anew in each frame; a bond is in view if its
    /// middle is.
    pub fn of_trajectory(trajectory: &Trajectory, view: &View) -> Self {
        let frames: Vec<[Bytes; 3]> = trajectory
            .frames
            .iter()
            .map(|positions| encode(trajectory, positions, view))
            .collect();
        let rate = |stream: usize| {
            let bytes: usize = frames.iter().map(|frame| frame[stream].len()).sum();
            Rate::from_bytes_per(bytes as u64, PERIOD * frames.len() as u32)
        };
        Self::new([rate(0), rate(1), rate(2)], frames.into())
    }

    /// Changes the share of the elastic stream: fair queuing gives critical streams their rate on average if this is the
    /// capacity left by them.
    #[must_use]
    pub fn sharing(mut self, elastic: Rate) -> Self {
        for offer in self.offers.iter_mut().filter(|offer| !offer.is_critical()) {
            offer.share = elastic;
        }
        self
    }

    fn new(rates: [Rate; 3], frames: Arc<[[Bytes; 3]]>) -> Self {
        let offers = NAMES.into_iter().zip(rates).enumerate();
        let offers =
            offers
                .filter(|(_, (_, rate))| *rate > Rate::ZERO)
                .map(|(index, (name, rate))| Offer {
                    name,
                    rate,
                    promise: (index < 2).then_some((rate, PROBABILITY)),
                    share: rate,
                });
        Self {
            offers: offers.collect(),
            frames,
            next: 0,
        }
    }
}

fn encode(trajectory: &Trajectory, positions: &[[f32; 3]], view: &View) -> [Bytes; 3] {
    let mut atoms = BytesMut::with_capacity(ATOM_BYTES * positions.len());
    for (element, position) in trajectory.elements.iter().zip(positions) {
        atoms.put_u8(element.number());
        for &coordinate in position {
            atoms.put_f32_le(coordinate);
        }
    }
    let mut seen = BytesMut::new();
    let mut unseen = BytesMut::new();
    for pair in bonds(&trajectory.elements, positions) {
        let [one, other] = pair.map(|index| positions[index as usize]);
        let middle = [0, 1, 2].map(|axis| one[axis] / 2.0 + other[axis] / 2.0);
        let list = if view.holds(middle) {
            &mut seen
        } else {
            &mut unseen
        };
        list.put_u32_le(pair[0]);
        list.put_u32_le(pair[1]);
    }
    [atoms.freeze(), seen.freeze(), unseen.freeze()]
}

impl Source for Visualisation {
    fn offers(&self) -> &[Offer] {
        &self.offers
    }

    fn period(&self) -> Duration {
        PERIOD
    }

    fn next_frame(&mut self) -> Frame {
        let number = self.next;
        self.next += 1;
        let content = &self.frames[(number % self.frames.len() as u64) as usize];
        let parts = self.offers.iter().enumerate().filter_map(|(index, offer)| {
            let kind = NAMES.iter().position(|name| *name == offer.name)?;
            let data = content[kind].clone();
            (!data.is_empty()).then_some((index, data))
        });
        Frame {
            number,
            at: Duration::from_nanos(PERIOD.as_nanos() as u64 * number),
            parts: parts.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_rates_make_whole_frames() {
        let mut source = Visualisation::generated(PUBLISHED);
        for number in 0..3 {
            let frame = source.next_frame();
            assert_eq!((frame.number, frame.at), (number, PERIOD * number as u32));
            let sizes: Vec<usize> = frame.parts.iter().map(|(_, data)| data.len()).collect();
            assert_eq!(sizes, [16_245, 110_740, 351_700]);
        }
        let critical: Vec<bool> = source.offers().iter().map(Offer::is_critical).collect();
        assert_eq!(critical, [true, true, false]);
        assert!(source.offers().iter().all(|offer| {
            let spec = offer.spec(super::super::share_sum(source.offers()));
            spec.validate().is_ok() && spec.guarantee.is_some() == offer.is_critical()
        }));
    }

    #[test]
    fn a_trajectory_gives_atoms_and_bonds_by_view() {
        // Two hydrogen molecules, one of which leaves the view in the second frame.
        let text = "4\n\nH 0 0 0\nH 0.74 0 0\nH 9 0 0\nH 9.74 0 0\n\
                    4\n\nH 0 5 0\nH 0.74 5 0\nH 9 0 0\nH 9.74 0 0\n";
        let trajectory = Trajectory::parse("t", text).unwrap();
        let view = View::Box {
            low: [-1.0; 3],
            high: [1.0; 3],
        };
        let mut source = Visualisation::of_trajectory(&trajectory, &view);
        let frame = source.next_frame();
        let part = |frame: &Frame, name: &str| {
            let index = source_index(name);
            let found = frame.parts.iter().find(|(stream, _)| *stream == index);
            found.map(|(_, data)| data.clone())
        };
        let atoms = part(&frame, "Atom").unwrap();
        assert_eq!(atoms.len(), 4 * ATOM_BYTES);
        assert_eq!(atoms[13 + 1..13 + 5], 0.74_f32.to_le_bytes());
        assert_eq!(part(&frame, "Bond1").unwrap()[..], [0, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(part(&frame, "Bond2").unwrap()[..], [2, 0, 0, 0, 3, 0, 0, 0]);
        let frame = source.next_frame();
        assert_eq!(part(&frame, "Bond1"), None);
        assert_eq!(part(&frame, "Bond2").unwrap().len(), 2 * BOND_BYTES);
        // From the beginning again.
        assert_eq!(source.next_frame().parts.len(), 3);
        let bonds_per_s = 25.0 * BOND_BYTES as f64 * 8.0;
        let rates: Vec<u64> = source.offers().iter().map(|o| o.rate.as_bps()).collect();
        assert_eq!(rates[1], (bonds_per_s / 2.0) as u64);
        assert_eq!(rates[2], (bonds_per_s * 1.5) as u64);
    }

    fn source_index(name: &str) -> usize {
        NAMES.iter().position(|known| *known == name).unwrap()
    }
}
