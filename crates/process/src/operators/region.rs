//! `region`: positions within a box or a sphere.
//!
//! The body is an array of triples x, y, z. The ADU that is returned holds those within, in their order, and after them, if
//! asked for, their indices. Its fields `positions` and `positions_of` are the numbers of positions after and before.

use std::fmt;

use bytes::Bytes;

use crate::{
    adu::Adu,
    array::Element,
    operator::{Fault, Operator, Output, WORK_OF_ADU},
};

/// Field with the number of positions that are left.
pub const POSITIONS: &str = "positions";

/// Field with the number of positions of the source.
pub const POSITIONS_OF: &str = "positions_of";

/// A part of space, its border included, in the unit of the positions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// Box along the axes.
    Box {
        /// Lowest x, y and z.
        low: [f64; 3],
        /// Highest x, y and z.
        high: [f64; 3],
    },
    /// Sphere.
    Sphere {
        /// Its centre.
        centre: [f64; 3],
        /// Its radius, 0 or more.
        radius: f64,
    },
}

impl Shape {
    /// Checks that the shape can hold a position.
    ///
    /// # Errors
    /// It cannot, as a sentence without a full stop.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Self::Box { low, high } if low.iter().zip(high).any(|(low, high)| low > high) => Err(
                "the second corner of a box is below the first; give the lower corner first"
                    .to_owned(),
            ),
            Self::Sphere { radius, .. } if *radius < 0.0 => {
                Err("the radius of a sphere is below 0; use 0 or more".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// True if a position is within; false if a coordinate is NaN. Distances are computed in 64 bits.
    pub fn contains(&self, position: [f64; 3]) -> bool {
        match self {
            Self::Box { low, high } => {
                (0..3).all(|axis| low[axis] <= position[axis] && position[axis] <= high[axis])
            }
            Self::Sphere { centre, radius } => {
                // Without squares, which would overflow.
                let [x, y, z] = [0, 1, 2].map(|axis| position[axis] - centre[axis]);
                x.hypot(y).hypot(z) <= *radius && [x, y, z].iter().all(|part| !part.is_nan())
            }
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Box {
                low: [x, y, z],
                high: [a, b, c],
            } => write!(f, "box {x} {y} {z} {a} {b} {c}"),
            Self::Sphere {
                centre: [x, y, z],
                radius,
            } => write!(f, "sphere {x} {y} {z} {radius}"),
        }
    }
}

/// `region`.
#[derive(Debug)]
pub(crate) struct Region {
    pub(crate) shape: Shape,
    pub(crate) element: Element,
    pub(crate) with_indices: bool,
}

impl Operator for Region {
    fn process(&mut self, mut adu: Adu, output: &mut Output) -> Result<(), Fault> {
        let width = self.element.bytes();
        let count = self.element.count(&adu.body)?;
        if !count.is_multiple_of(3) {
            return Err(Fault(format!(
                "the body has {count} numbers, which are no triples of x, y and z; apply \"region\" to positions alone"
            )));
        }
        output.add_work(WORK_OF_ADU + 2 * adu.body.len() as u64);
        let mut kept = Vec::new();
        let mut indices = Vec::new();
        for (index, triple) in adu.body.chunks_exact(3 * width).enumerate() {
            let position =
                [0, 1, 2].map(|axis| self.element.read(&triple[axis * width..(axis + 1) * width]));
            if self.shape.contains(position) {
                kept.extend_from_slice(triple);
                let Ok(index) = u32::try_from(index) else {
                    return Err(Fault("the body has more than 2^32 positions".to_owned()));
                };
                indices.push(index);
            }
        }
        adu.fields.set(POSITIONS, indices.len() as f64)?;
        adu.fields.set(POSITIONS_OF, (count / 3) as f64)?;
        if self.with_indices {
            let is_big_endian = matches!(self.element, Element::F32Be | Element::F64Be);
            for index in indices {
                kept.extend(if is_big_endian {
                    index.to_be_bytes()
                } else {
                    index.to_le_bytes()
                });
            }
        }
        adu.body = Bytes::from(kept);
        output.push(adu)
    }
}
