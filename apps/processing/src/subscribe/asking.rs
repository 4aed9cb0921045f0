//! Questions of a subscriber: other pipelines, and what it holds.

use anabranch::AduSession;
use anabranch_process::Pipeline;
use tokio::{
    sync::watch,
    time::{Duration, MissedTickBehavior, interval, sleep},
};

use super::{Received, Subscriber};
use crate::{bring::bring, error::ProcessingError, link::Link, wire::Request};

/// Time between two messages of what the subscriber holds.
const HELD_TIME: Duration = Duration::from_millis(50);

impl Subscriber {
    /// Sends changes, and what the subscriber holds; returns on failure only.
    pub(super) async fn ask<S: AduSession>(
        &self,
        (session, link): (&S, &Link<S>),
        pipelines: &mut watch::Receiver<(u32, Pipeline)>,
    ) -> ProcessingError {
        let mut ticks = interval(HELD_TIME);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut told = None;
        loop {
            let done = tokio::select! {
                // The sender is of this subscriber.
                _ = pipelines.changed() => {
                    let (number, pipeline) = pipelines.borrow_and_update().clone();
                    self.ask_for((session, link), number, &pipeline).await
                }
                _ = ticks.tick() => {
                    let held = self.held();
                    match held == told {
                        true => Ok(()),
                        false => {
                            told = held;
                            self.tell(link).await
                        }
                    }
                }
            };
            if let Err(error) = done {
                return error;
            }
        }
    }

    /// Asks for another pipeline; its modules are brought first, and what is held is told meanwhile.
    async fn ask_for<S: AduSession>(
        &self,
        (session, link): (&S, &Link<S>),
        number: u32,
        pipeline: &Pipeline,
    ) -> Result<(), ProcessingError> {
        let settings = &self.settings;
        let bringing = bring(session, &settings.name, pipeline, &settings.modules);
        let telling = async {
            loop {
                sleep(HELD_TIME).await;
                if let Err(error) = self.tell(link).await {
                    break error;
                }
            }
        };
        let brought = tokio::select! {
            brought = bringing => brought,
            failed = telling => return Err(failed),
        };
        match brought {
            Ok(()) => {
                let pipeline = pipeline.to_string();
                link.send(&Request::Change { number, pipeline }).await
            }
            Err(ProcessingError::Refused(why) | ProcessingError::NotYet(why)) => {
                self.refused(number);
                self.give(Received::NotChanged { number, why }).await
            }
            Err(error) => Err(error),
        }
    }

    pub(super) async fn tell<S: AduSession>(&self, link: &Link<S>) -> Result<(), ProcessingError> {
        match self.held() {
            Some(next) if self.is_reliable() => link.send(&Request::Held { next }).await,
            _ => Ok(()),
        }
    }
}
