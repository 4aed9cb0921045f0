//! Numbers of a world's nodes, wires, routes and sources of cross-traffic; hops.

/// A node of the world.
pub type NodeIndex = usize;
/// A wire of the world.
pub type WireIndex = usize;
/// A route of the world.
pub type RouteIndex = usize;
/// A source of cross-traffic of the world.
pub type CrossIndex = usize;

/// One direction of a wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hop {
    /// The wire.
    pub wire: WireIndex,
    /// True for the direction from its first end to its second.
    pub forward: bool,
}

impl Hop {
    /// Direction from the wire's first end to its second.
    pub const fn forward(wire: WireIndex) -> Self {
        let forward = true;
        Self { wire, forward }
    }

    /// Direction from the wire's second end to its first.
    pub const fn backward(wire: WireIndex) -> Self {
        let forward = false;
        Self { wire, forward }
    }

    /// The reverse direction of the same wire.
    #[must_use]
    pub fn reversed(hops: &[Self]) -> Vec<Self> {
        let turned = |hop: &Self| Self {
            wire: hop.wire,
            forward: !hop.forward,
        };
        hops.iter().rev().map(turned).collect()
    }

    pub(crate) fn side(self) -> usize {
        usize::from(!self.forward)
    }
}
