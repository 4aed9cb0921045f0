//! Frames at their times.

use std::sync::{Arc, PoisonError, atomic::Ordering};

use tokio::{
    task::spawn_blocking,
    time::{Instant, MissedTickBehavior, interval_at},
};

use super::{Report, Source};
use crate::{
    error::VisualiseError,
    molecule::MoleculeError,
    smartpointer::frame::{FramePart, Part, atoms, bonds},
};

impl Source {
    /// Plays the trajectory from the time on at which the first viewer has its streams, and returns at its end the reason. The number of a frame is its time in
    /// periods: one whose time has passed while this program did not run is left out.
    ///
    /// # Errors
    /// A frame cannot be read.
    pub async fn play(self: &Arc<Self>) -> Result<String, VisualiseError> {
        // The sender is of this source.
        let all = Part::ALL.len();
        let mut watching = self.watching.subscribe();
        let _ = watching.wait_for(|count| *count >= all).await;
        self.report(Report::Begun);
        let played = self.played().await;
        let why = match &played {
            Ok(()) => "the trajectory is over".to_owned(),
            Err(error) => format!("the trajectory cannot be read: {error}"),
        };
        self.ended.send_replace(Some(why.clone()));
        for looker in self.lookers().values() {
            looker.close(false);
        }
        played?;
        Ok(why)
    }

    async fn played(self: &Arc<Self>) -> Result<(), VisualiseError> {
        let frames = {
            let trajectory = self.trajectory.lock();
            trajectory.unwrap_or_else(PoisonError::into_inner).frames()
        };
        let period = self.period();
        let begin = Instant::now();
        *self.begin() = Some(begin);
        let mut ticks = interval_at(begin, period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            let at = ticks.tick().await;
            let number = ((at - begin).as_nanos() / period.as_nanos()) as u64;
            if number >= frames && !self.settings.is_looping {
                return Ok(());
            }
            self.next.store(number + 1, Ordering::Relaxed);
            if self.lookers().is_empty() {
                continue;
            }
            let source = self.clone();
            let making = spawn_blocking(move || source.make(number, number % frames));
            making.await.expect("the frame is made without panics")?;
        }
    }

    /// Makes a frame and gives its parts to all viewers. Blocks while the file is read.
    pub(super) fn make(&self, number: u64, of_trajectory: u64) -> Result<(), MoleculeError> {
        let positions = {
            let trajectory = self.trajectory.lock();
            let mut trajectory = trajectory.unwrap_or_else(PoisonError::into_inner);
            trajectory.frame(of_trajectory)?
        };
        let all = atoms(&positions);
        let lookers: Vec<_> = self.lookers().values().cloned().collect();
        for looker in lookers {
            let (view_number, view) = looker.view();
            let [seen, unseen] = bonds(&self.topology.bonds, &positions, &view);
            for (part, body) in Part::ALL.into_iter().zip([all.clone(), seen, unseen]) {
                let Some(outlet) = looker.outlet(part) else {
                    continue;
                };
                let part = FramePart {
                    part,
                    frame: number,
                    view: view_number,
                    body,
                };
                outlet.give(part, self.settings.rate);
            }
        }
        Ok(())
    }
}
