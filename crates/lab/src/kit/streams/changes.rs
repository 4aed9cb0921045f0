//! Paths that fail or are added in the middle of a run.

use anabranch_base::Instant;
use anabranch_session::Link;
use anabranch_sim::World;

use super::{apps::Feeder, measure::WINDOW};

/// A change of the paths in the middle of a run, at the beginning of a window; windows count from the first frame on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A path fails for good, in both directions.
    Fails {
        /// Index of the path.
        path: usize,
        /// The window.
        window: u32,
    },
    /// A path is added, which is not used before.
    Joins {
        /// Index of the path.
        path: usize,
        /// The window.
        window: u32,
    },
}

/// Schedules changes of recorded paths, which are the first wires of the world, for the node `a` that sends over these links. Windows begin at
/// `windows_begin`. Returns the links that are added later.
pub(super) fn schedule(
    world: &mut World,
    (a, links): (usize, &[Link]),
    changes: &[Change],
    windows_begin: Instant,
) -> Vec<Link> {
    let after = |window| windows_begin.since(Instant::EPOCH) + WINDOW * window;
    let mut later = Vec::new();
    for change in changes {
        match *change {
            Change::Fails { path, window } => {
                world.schedule(after(window), move |world| world.set_wire_up(path, false));
            }
            Change::Joins { path, window } => {
                let Some(&link) = links.get(path) else {
                    continue;
                };
                later.push(link);
                world.schedule(after(window), move |world| {
                    let now = world.now();
                    let Some(session) = world.app::<Feeder>(a).session() else {
                        return;
                    };
                    // The session exists, so the call cannot be refused.
                    let session = world.engine(a).session(session);
                    let _ = session.map(|mut session| session.add_link(now, link));
                    world.with_node(a, |_| ());
                });
            }
        }
    }
    later
}
