//! View of a scene by an observer.

/// A volume of space, in the units of the scene.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum View {
    /// All points between two corners, borders included.
    Box {
        /// Corner of the smallest coordinates.
        low: [f32; 3],
        /// Corner of the largest coordinates.
        high: [f32; 3],
    },
    /// Truncated pyramid in the view of a camera.
    Frustum {
        /// Position of the camera.
        eye: [f32; 3],
        /// Point that it looks at, other than `eye`.
        toward: [f32; 3],
        /// Direction that is up in the picture, other than the line of sight.
        up: [f32; 3],
        /// Half the angle of view upward, as a tangent; above 0.
        tangent: f32,
        /// Width over height of the picture; above 0.
        aspect: f32,
        /// Distances from the camera, along the line of sight, between which objects are shown.
        near_far: [f32; 2],
    },
}

impl View {
    /// True if a point is in view.
    pub fn holds(&self, point: [f32; 3]) -> bool {
        match *self {
            Self::Box { low, high } => {
                (0..3).all(|axis| low[axis] <= point[axis] && point[axis] <= high[axis])
            }
            Self::Frustum {
                eye,
                toward,
                up,
                tangent,
                aspect,
                near_far: [near, far],
            } => {
                let ahead = unit(minus(toward, eye));
                let right = unit(cross(ahead, up));
                let above = cross(right, ahead);
                let from_eye = minus(point, eye);
                let depth = dot(from_eye, ahead);
                let height = depth * tangent;
                (near..=far).contains(&depth)
                    && dot(from_eye, above).abs() <= height
                    && dot(from_eye, right).abs() <= height * aspect
            }
        }
    }

    /// A camera that looks along −z at the middle of a box, from a distance at which about `share` of its width is shown; a
    /// share above 0, at most 1.
    pub fn of_middle((low, high): ([f32; 3], [f32; 3]), share: f32) -> Self {
        let middle = [0, 1, 2].map(|axis| (low[axis] + high[axis]) / 2.0);
        let size = [0, 1, 2].map(|axis| high[axis] - low[axis]);
        let width = size[0].max(size[1]).max(1.0);
        let tangent = 0.4;
        // In the middle of the box, the picture is `share · width` high.
        let distance = share * width / 2.0 / tangent;
        Self::Frustum {
            eye: [middle[0], middle[1], middle[2] + distance],
            toward: middle,
            up: [0.0, 1.0, 0.0],
            tangent,
            aspect: 1.0,
            near_far: [0.1 * distance, distance + size[2]],
        }
    }
}

fn minus(a: [f32; 3], b: [f32; 3]) -> [f32; 3] {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

fn dot(a: [f32; 3], b: [f32; 3]) -> f32 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn cross(a: [f32; 3], b: [f32; 3]) -> [f32; 3] {
    [
        a[1] * b[2] - a[2] * b[1],
        a[2] * b[0] - a[0] * b[2],
        a[0] * b[1] - a[1] * b[0],
    ]
}

fn unit(a: [f32; 3]) -> [f32; 3] {
    let length = dot(a, a).sqrt();
    a.map(|x| x / length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_holds_its_borders() {
        let view = View::Box {
            low: [0.0; 3],
            high: [1.0, 2.0, 3.0],
        };
        assert!(view.holds([1.0, 2.0, 3.0]) && view.holds([0.0; 3]));
        assert!(!view.holds([1.1, 0.0, 0.0]) && !view.holds([0.0, 0.0, -0.1]));
    }

    #[test]
    fn a_camera_sees_more_at_a_distance() {
        let view = View::Frustum {
            eye: [0.0, 0.0, 10.0],
            toward: [0.0; 3],
            up: [0.0, 1.0, 0.0],
            tangent: 0.5,
            aspect: 2.0,
            near_far: [1.0, 20.0],
        };
        // 10 away, the picture is 10 high and 20 wide.
        for (point, is_seen) in [
            ([0.0, 4.9, 0.0], true),
            ([0.0, 5.1, 0.0], false),
            ([-9.9, 0.0, 0.0], true),
            ([-10.1, 0.0, 0.0], false),
            ([0.0, 9.0, -9.0], true),
            ([0.0, 0.0, 9.5], false),
            ([0.0, 0.0, -10.5], false),
            ([0.0, 0.0, 12.0], false),
        ] {
            assert_eq!(view.holds(point), is_seen, "{point:?}");
        }
    }

    #[test]
    fn the_middle_is_in_the_middle() {
        let view = View::of_middle(([0.0; 3], [20.0, 10.0, 30.0]), 0.5);
        assert!(view.holds([10.0, 5.0, 15.0]));
        assert!(view.holds([14.9, 5.0, 15.0]) && !view.holds([15.1, 5.0, 15.0]));
    }
}
