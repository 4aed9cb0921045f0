//! Test messages of the agent, on the sessions with members.

use std::time::Duration;

use anabranch_base::{Instant, NodeId, SessionId};

use super::{line::Line, runner::Runner};

impl Runner {
    /// Reports test messages on a session that is over as lost.
    pub(super) fn forget_probes(&mut self, line: &Line, now: Instant) {
        for (to, id, _) in self.take_probes(line) {
            self.agent.handle_probe(&to, id, None, now);
        }
    }

    /// Removes and returns the test messages under way on a session.
    pub(super) fn take_probes(&mut self, line: &Line) -> Vec<(NodeId, u64, u64)> {
        let session = line.session.id();
        let mut taken = Vec::new();
        self.probes.retain(|&(of, _), &mut probe| {
            if of == session {
                taken.push(probe);
            }
            of != session
        });
        taken
    }

    /// Reports the outcome of a test message.
    pub(super) fn probed(
        &mut self,
        session: SessionId,
        number: u64,
        took: Option<Duration>,
        now: Instant,
    ) {
        if let Some((to, id, _)) = self.probes.remove(&(session, number)) {
            self.agent.handle_probe(&to, id, took, now);
        }
    }

    /// Sends a test message; without a session, it is lost.
    pub(super) fn probe(&mut self, to: NodeId, id: u64, bytes: u64) {
        let now = self.host.clock().now();
        let length = usize::try_from(bytes).unwrap_or(usize::MAX);
        let line = self.lines.get(&to);
        let sent = line.map(|line| (line.session.id(), line.probe(length)));
        match sent {
            Some((session, Ok(number))) => {
                self.probes.insert((session, number), (to, id, bytes));
            }
            _ => self.agent.handle_probe(&to, id, None, now),
        }
    }
}
