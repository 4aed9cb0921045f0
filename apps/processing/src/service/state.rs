//! Answers to questions for the state.

use std::{sync::Arc, time::Duration};

use anabranch::local::client::Stream;

use super::{Service, Stopped, concluded, lock, source::Source};
use crate::wire::{Notice, encode, message::ServiceState};

impl Service {
    /// State of the service itself.
    fn state(&self, sources: &[Arc<Source>]) -> ServiceState {
        let memory = lock(&self.accounts).memory().clone();
        let busy: Duration = sources.iter().map(|source| source.busy()).sum();
        ServiceState {
            memory_used: memory.used() as u64,
            memory_bound: memory.bound() as u64,
            grace_ms: self.settings.grace.as_millis() as u64,
            sources: sources.len() as u64,
            streams: lock(&self.streams).values().sum::<usize>() as u64,
            busy_us: busy.as_micros() as u64,
            load: self.load(),
        }
    }

    /// Answers a question for the state.
    pub(super) async fn status(&self, stream: &Stream) -> Result<(), Stopped> {
        let sources: Vec<_> = lock(&self.sources).values().cloned().collect();
        let own = Notice::Service(self.state(&sources));
        stream.send(encode(&own)).await?;
        let subscribers: Vec<_> = lock(&self.subscribers).values().cloned().collect();
        for source in sources {
            let (state, derivations) = source.state();
            stream.send(encode(&Notice::Source(state))).await?;
            for derivation in derivations {
                stream.send(encode(&Notice::Derivation(derivation))).await?;
            }
            let of_source = subscribers.iter().filter(|held| held.name == source.name);
            for held in of_source {
                let notice = Notice::Subscriber(held.state.clone());
                stream.send(encode(&notice)).await?;
            }
        }
        concluded(stream).await
    }
}
