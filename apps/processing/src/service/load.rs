//! Load of a service: taken every second, shown in its state, and published by its node in the overlay.

use std::time::Duration;

use anabranch::{Client, local::message::LoadBody, net::limited};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::{
    Service, lock,
    monitor::{Sample, machine},
};
use crate::wire::message::LoadState;

/// Time between two statements to the node; one holds for ten seconds there.
const STATE_TIME: Duration = Duration::from_secs(2);

impl Service {
    /// Takes a sample of the load.
    pub(super) async fn sample(&self) {
        let machine = machine::times().await;
        let sources = lock(&self.sources);
        let queued = sources.values().map(|source| source.queued());
        let queued = queued.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        drop(sources);
        let sample = Sample {
            effort: self.effort.so_far(),
            machine,
            queued,
        };
        let mut monitor = lock(&self.monitor);
        let now = Instant::now();
        let since = monitor.1.replace(now).map(|before| now - before);
        monitor.0.take(sample, since.unwrap_or_default());
    }

    /// Load over the last seconds; `None`: there is none yet.
    pub fn load(&self) -> Option<LoadState> {
        lock(&self.monitor).0.load()
    }

    /// Has the node publish the load in its overlay, as long as the service is registered with `client`. Does not return.
    pub async fn publish(&self, client: &Client) -> std::convert::Infallible {
        let mut ticks = interval(STATE_TIME);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let Some(load) = self.load() else {
                continue;
            };
            let memory = lock(&self.accounts).memory().clone();
            let load = LoadBody {
                machine: load.machine_permille.map(|share| f64::from(share) / 1e3),
                cores: load.cores,
                operators: f64::from(load.operators_permille) / 1e3,
                memory_used: memory.used() as u64,
                memory_bound: memory.bound() as u64,
                queued_adus: load.queued_adus,
                queued_bytes: load.queued_bytes,
                unit_ps: load.unit_ps.unwrap_or(0),
            };
            if let Err(error) = client.state_load(load).await {
                // The node may be older than the request, and whoever waits for the connection finds its end.
                limited!(debug, %error, "the load is not published");
            }
        }
    }
}
