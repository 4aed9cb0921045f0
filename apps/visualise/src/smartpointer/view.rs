//! View: the part of space that an observer sees, as half-spaces.

use serde::{Deserialize, Serialize};

use crate::molecule::Position;

/// Most half-spaces of a view; a frustum has six.
pub const PLANES_MAX: usize = 8;

/// A view that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ViewError {
    /// There are too many half-spaces.
    #[error("a view has up to {PLANES_MAX} planes, and this one has {0}")]
    TooMany(usize),
    /// A number is none.
    #[error("plane {0} of the view has a number that is not finite")]
    NotFinite(usize),
}

/// Intersection of half-spaces a·x + b·y + c·z + d ≥ 0, each given as [a, b, c, d], in ångström. Without any, all of space.
///
/// The predicate is evaluated in double precision, in this order of operations, and so is the same on every machine. A point with a
/// coordinate that is not finite is in no view but that of all space.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<[f64; 4]>", into = "Vec<[f64; 4]>")]
pub struct View {
    planes: Vec<[f64; 4]>,
}

impl View {
    /// A view of these half-spaces.
    ///
    /// # Errors
    /// There are too many, or a number is not finite.
    pub fn new(planes: Vec<[f64; 4]>) -> Result<Self, ViewError> {
        if planes.len() > PLANES_MAX {
            return Err(ViewError::TooMany(planes.len()));
        }
        match planes
            .iter()
            .position(|plane| plane.iter().any(|part| !part.is_finite()))
        {
            Some(plane) => Err(ViewError::NotFinite(plane)),
            None => Ok(Self { planes }),
        }
    }

    /// The half-spaces.
    pub fn planes(&self) -> &[[f64; 4]] {
        &self.planes
    }

    /// True if a point is in view.
    pub fn holds(&self, point: [f64; 3]) -> bool {
        let [x, y, z] = point;
        // A sum that is NaN is not at least 0.
        (self.planes.iter()).all(|[a, b, c, d]| a * x + b * y + c * z + d >= 0.0)
    }

    /// True if a bond is: its middle is.
    pub fn holds_bond(&self, ends: [Position; 2]) -> bool {
        let middle = |axis: usize| (f64::from(ends[0][axis]) + f64::from(ends[1][axis])) / 2.0;
        let middle = [middle(0), middle(1), middle(2)];
        self.planes.is_empty() || (middle.iter().all(|part| part.is_finite()) && self.holds(middle))
    }
}

impl TryFrom<Vec<[f64; 4]>> for View {
    type Error = ViewError;

    fn try_from(planes: Vec<[f64; 4]>) -> Result<Self, ViewError> {
        Self::new(planes)
    }
}

impl From<View> for Vec<[f64; 4]> {
    fn from(view: View) -> Self {
        view.planes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_on_a_plane_are_in_view() {
        let view = View::new(vec![[1.0, 0.0, 0.0, -2.0], [0.0, -1.0, 0.0, 5.0]]).unwrap();
        assert!(view.holds([2.0, 5.0, 9e9]));
        assert!(!view.holds([1.999, 0.0, 0.0]) && !view.holds([3.0, 5.001, 0.0]));
        assert!(view.holds_bond([[1.0, 0.0, 0.0], [3.0, 0.0, 0.0]]));
        assert!(!view.holds_bond([[1.0, 0.0, 0.0], [2.9, 0.0, 0.0]]));
    }

    #[test]
    fn what_is_no_place_is_only_in_the_view_of_everything() {
        let half = View::new(vec![[1.0, 0.0, 0.0, 0.0]]).unwrap();
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let ends = [[1.0, 1.0, value], [1.0; 3]];
            assert!(!half.holds_bond(ends), "{value}");
            assert!(View::default().holds_bond(ends), "{value}");
        }
        // The middle of the two largest is finite.
        assert!(half.holds_bond([[f32::MAX; 3]; 2]));
    }

    #[test]
    fn views_that_cannot_be_are_refused() {
        let plane = [1.0, 0.0, 0.0, 0.0];
        assert_eq!(
            View::new(vec![plane; 9]),
            Err(ViewError::TooMany(PLANES_MAX + 1))
        );
        assert!(View::new(vec![plane; PLANES_MAX]).is_ok());
        let infinite = vec![plane, [0.0, f64::INFINITY, 0.0, 0.0]];
        assert_eq!(View::new(infinite), Err(ViewError::NotFinite(1)));
        assert!(serde_json::from_str::<View>("[[1,0,0]]").is_err());
        assert!(serde_json::from_str::<View>("[[1,0,0,1e999]]").is_err());
        let view: View = serde_json::from_str("[[1,0,0,0.5]]").unwrap();
        assert_eq!(serde_json::to_string(&view).unwrap(), "[[1.0,0.0,0.0,0.5]]");
    }
}
