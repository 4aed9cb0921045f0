//! Layouts: the division of a line of bytes among lanes, each of which is a stream of its own.
//!
//! Two are those of GridFTP, whose lanes are parallel connections [IQ-Paths §VI-C; GFD.20 §3.4]: *partitioned* and *blocked*. The
//! third leaves the division to the scheduler, which has a stream for each component instead of a lane for each path.

use std::{fmt, iter, ops::Range, str::FromStr};

use anabranch_base::size;

/// Smallest block of [`Layout::Blocked`]: below it, headers outweigh the data.
pub const BLOCK_BYTES_MIN: u64 = 1 << 10;
/// Largest block of [`Layout::Blocked`].
pub const BLOCK_BYTES_MAX: u64 = 1 << 30;

/// Division of bytes among lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Layout {
    /// Each lane has one contiguous part of every unit, all parts being equal to a byte. A unit is what is moved at once: a whole
    /// set, or a record of one that never ends.
    Partitioned,
    /// Blocks of this size go to the lanes in turn, whatever the units.
    Blocked {
        /// Bytes of a block, [`BLOCK_BYTES_MIN`] to [`BLOCK_BYTES_MAX`].
        bytes: u64,
    },
    /// No lanes: each component has a stream, with its own promise, and the scheduler chooses the path of each packet.
    #[default]
    Pgos,
}

/// Error: a text is no layout.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// It names none.
    #[error("'{0}' is no layout; write pgos, partitioned, or blocked:SIZE such as blocked:64KiB")]
    Unknown(String),
    /// The size of its blocks is no size.
    #[error("blocked:{text}: {reason}")]
    Size {
        /// The size as it was written.
        text: String,
        /// The error, with what would be accepted.
        reason: String,
    },
}

impl Layout {
    /// Lanes that `paths` paths need: one for each, or none at all.
    pub const fn lanes(self, paths: u32) -> u32 {
        match self {
            Self::Partitioned | Self::Blocked { .. } => paths,
            Self::Pgos => 0,
        }
    }

    /// The unit's bytes in order, in pieces as long as possible, each with its lane from 0. Nothing without lanes; with
    /// [`Layout::Pgos`], whose lanes are none, all of it in lane 0. O(pieces), of which there are as many as blocks, or as lanes.
    pub fn split(self, unit: Range<u64>, lanes: u32) -> impl Iterator<Item = (u32, Range<u64>)> {
        let lanes = match self {
            Self::Pgos => lanes.min(1),
            _ => lanes,
        };
        let mut at = unit.start;
        iter::from_fn(move || {
            if at >= unit.end || lanes == 0 {
                return None;
            }
            let (lane, end) = self.lane_at(at, &unit, lanes);
            let piece = at..end;
            at = end;
            Some((lane, piece))
        })
    }

    /// Those pieces of [`Layout::split`] that one lane carries, found without looking at the others'. O(pieces of the lane).
    pub fn of_lane(
        self,
        unit: Range<u64>,
        lanes: u32,
        lane: u32,
    ) -> impl Iterator<Item = Range<u64>> {
        let is_there = lane < lanes && (self != Self::Pgos || lane == 0);
        let mut next = is_there.then(|| self.first_of(&unit, lanes, lane));
        iter::from_fn(move || {
            let begin = next.filter(|begin| *begin < unit.end)?;
            let (_, end) = self.lane_at(begin, &unit, lanes);
            next = match self {
                Self::Blocked { bytes } => {
                    let others = bytes.saturating_mul(u64::from(lanes) - 1);
                    Some(end.saturating_add(others))
                }
                Self::Partitioned | Self::Pgos => None,
            };
            Some(begin..end)
        })
    }

    /// Lane of a byte of the unit, and the end of the piece that it is in.
    fn lane_at(self, at: u64, unit: &Range<u64>, lanes: u32) -> (u32, u64) {
        match self {
            Self::Pgos => (0, unit.end),
            Self::Blocked { bytes } => {
                let bytes = bytes.max(1);
                let block = at / bytes;
                let end = (block + 1).saturating_mul(bytes).min(unit.end);
                ((block % u64::from(lanes)) as u32, end)
            }
            Self::Partitioned => {
                // The first lane that ends beyond it; empty parts are passed over.
                let mut lane = self.partition_of(at, unit, lanes);
                while boundary(unit, lanes, lane + 1) <= at {
                    lane += 1;
                }
                (lane, boundary(unit, lanes, lane + 1))
            }
        }
    }

    /// A lane not behind that of a byte of the unit, and next to it.
    fn partition_of(self, at: u64, unit: &Range<u64>, lanes: u32) -> u32 {
        let length = u128::from(unit.end - unit.start);
        let guess = u128::from(at - unit.start) * u128::from(lanes) / length.max(1);
        (guess as u32).saturating_sub(1).min(lanes - 1)
    }

    /// First byte of a lane at or after the unit's beginning; the unit's end if there is none.
    fn first_of(self, unit: &Range<u64>, lanes: u32, lane: u32) -> u64 {
        match self {
            Self::Pgos => unit.start,
            Self::Partitioned => {
                let begin = boundary(unit, lanes, lane);
                // An empty part has no piece.
                if begin == boundary(unit, lanes, lane + 1) {
                    unit.end
                } else {
                    begin
                }
            }
            Self::Blocked { bytes } => {
                let (bytes, lanes) = (bytes.max(1), u64::from(lanes));
                let block = unit.start / bytes;
                let ahead = (u64::from(lane) + lanes - block % lanes) % lanes;
                match ahead {
                    0 => unit.start,
                    ahead => (block + ahead).saturating_mul(bytes).min(unit.end),
                }
            }
        }
    }
}

/// Beginning of the part of a lane.
fn boundary(unit: &Range<u64>, lanes: u32, lane: u32) -> u64 {
    let length = u128::from(unit.end - unit.start);
    unit.start + (length * u128::from(lane) / u128::from(lanes)) as u64
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Partitioned => f.write_str("partitioned"),
            Self::Pgos => f.write_str("pgos"),
            Self::Blocked { bytes } => {
                let unit = |bytes: u64| -> Option<(u64, &str)> {
                    let units = size::UNITS.iter();
                    let mut whole = units.filter(|(_, each)| bytes.is_multiple_of(*each));
                    whole.next().map(|(name, each)| (bytes / each, *name))
                };
                let (number, name) = unit(*bytes).unwrap_or((*bytes, "B"));
                write!(f, "blocked:{number}{name}")
            }
        }
    }
}

impl FromStr for Layout {
    type Err = LayoutError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(bytes) = text.strip_prefix("blocked:") {
            let refused = |reason: String| LayoutError::Size {
                text: bytes.to_owned(),
                reason,
            };
            let bytes = size::parse(bytes).map_err(|error| refused(error.to_string()))?;
            if !(BLOCK_BYTES_MIN..=BLOCK_BYTES_MAX).contains(&bytes) {
                return Err(refused("a block has 1 KiB to 1 GiB".to_owned()));
            }
            return Ok(Self::Blocked { bytes });
        }
        match text {
            "partitioned" => Ok(Self::Partitioned),
            "pgos" => Ok(Self::Pgos),
            other => Err(LayoutError::Unknown(other.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pieces(layout: &str, unit: Range<u64>, lanes: u32) -> Vec<(u32, Range<u64>)> {
        layout
            .parse::<Layout>()
            .unwrap()
            .split(unit, lanes)
            .collect()
    }

    #[test]
    fn partitions_are_contiguous_and_equal() {
        let found = pieces("partitioned", 100..110, 3);
        assert_eq!(found, [(0, 100..103), (1, 103..106), (2, 106..110)]);
        // More lanes than bytes: some have nothing.
        assert_eq!(pieces("partitioned", 0..2, 4), [(1, 0..1), (3, 1..2)]);
        assert_eq!(pieces("partitioned", 5..5, 2), []);
        assert_eq!(pieces("partitioned", 5..9, 0), []);
    }

    #[test]
    fn blocks_go_to_the_lanes_in_turn_whatever_the_units() {
        let found = pieces("blocked:1KiB", 0..3_000, 2);
        assert_eq!(found, [(0, 0..1_024), (1, 1_024..2_048), (0, 2_048..3_000)]);
        // The next unit continues the block.
        let found = pieces("blocked:1KiB", 3_000..4_097, 2);
        assert_eq!(
            found,
            [(0, 3_000..3_072), (1, 3_072..4_096), (0, 4_096..4_097)]
        );
    }

    #[test]
    fn without_lanes_all_is_one_piece() {
        assert_eq!(pieces("pgos", 7..9, 4), [(0, 7..9)]);
        assert_eq!(Layout::Pgos.lanes(4), 0);
        assert_eq!(Layout::Partitioned.lanes(4), 4);
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for text in [
            "partitioned",
            "pgos",
            "blocked:64KiB",
            "blocked:1500B",
            "blocked:1MB",
        ] {
            assert_eq!(text.parse::<Layout>().unwrap().to_string(), text);
        }
        for (text, words) in [
            ("striped", "blocked:SIZE"),
            ("blocked", "blocked:SIZE"),
            ("blocked:64", "is not a size"),
            ("blocked:0 B", "1 KiB to 1 GiB"),
            ("blocked:2 GiB", "1 KiB to 1 GiB"),
        ] {
            let error = text.parse::<Layout>().unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    fn layouts() -> impl Strategy<Value = Layout> {
        prop_oneof![
            Just(Layout::Partitioned),
            Just(Layout::Pgos),
            (1_u64..2_000).prop_map(|bytes| Layout::Blocked { bytes }),
        ]
    }

    proptest! {
        /// Every byte is in one piece, in order, and each lane finds its own.
        #[test]
        fn nothing_is_left_out_and_nothing_is_twice(
            layout in layouts(),
            start in prop_oneof![0_u64..5_000, u64::MAX - 20_000..u64::MAX - 10_000],
            length in 0_u64..10_000,
            lanes in 1_u32..9,
        ) {
            let unit = start..start + length;
            let pieces: Vec<_> = layout.split(unit.clone(), lanes).collect();
            let mut at = unit.start;
            for (lane, piece) in &pieces {
                prop_assert_eq!(piece.start, at);
                prop_assert!(piece.end > piece.start && *lane < lanes);
                at = piece.end;
            }
            prop_assert_eq!(at, unit.end);
            for lane in 0..lanes + 1 {
                let own: Vec<_> = layout.of_lane(unit.clone(), lanes, lane).collect();
                let among = pieces.iter().filter(|(other, _)| *other == lane);
                let among: Vec<_> = among.map(|(_, piece)| piece.clone()).collect();
                prop_assert_eq!(own, among);
            }
        }
    }
}
