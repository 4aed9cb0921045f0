//! Greedy flows: bulk transfers of the same engine that compete for the capacity of a network.
//!
//! A flow is a session between two nodes of its own over one route, with one of the usual congestion controllers.
//! Unlike [cross-traffic](crate::World::add_cross_traffic) it reacts to losses and queues, so it competes as other
//! users' downloads do.

use std::time::Duration;

use anabranch_base::Instant;
use anabranch_session::{AllowList, Config, Controller};

use crate::{
    apps::{Load, Receiver, Sender},
    network::{Hop, RouteIndex},
    world::{NodeIndex, World},
};

/// Label of a flow's stream in its receiver's records.
pub const LABEL: &str = "bulk";

/// A flow in a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// The node that sends; its application is a [`Sender`].
    pub sender: NodeIndex,
    /// The node that receives; its application is a [`Receiver`].
    pub receiver: NodeIndex,
    /// The route between them.
    pub route: RouteIndex,
}

/// Plan of a flow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FlowPlan {
    /// Congestion controller.
    pub controller: Controller,
    /// Time at which it dials.
    pub start: Instant,
    /// Bytes to transfer; `None`: without end.
    pub bytes: Option<u64>,
}

impl FlowPlan {
    /// Without end, from `start` on.
    pub const fn greedy(controller: Controller, start: Instant) -> Self {
        Self {
            controller,
            start,
            bytes: None,
        }
    }
}

impl Flow {
    /// Goodput of the application between two times, in bits per second; they are rounded to steps of 100 ms.
    ///
    /// # Panics
    /// If the flow is not of this world, or the times are less than 100 ms apart.
    pub fn goodput_bps(&self, world: &mut World, from: Instant, to: Instant) -> f64 {
        let slot = |at: Instant| (at.as_nanos() / 100_000_000) as usize;
        let (first, end) = (slot(from), slot(to));
        assert!(first < end, "no time between {from} and {to}");
        let receiver = world.app::<Receiver>(self.receiver);
        let bytes: u64 = receiver.records.get(LABEL).map_or(0, |record| {
            let slots = record.per_100ms.iter().skip(first).take(end - first);
            slots.sum()
        });
        let seconds = Duration::from_millis(100).as_secs_f64() * (end - first) as f64;
        bytes as f64 * 8.0 / seconds
    }
}

impl World {
    /// Adds a flow over these hops; acknowledgements take them in reverse. Adds two nodes, so a scenario that names nodes by
    /// their index adds its own first.
    ///
    /// # Panics
    /// If there are no hops or a hop's wire does not exist: a mistake of the scenario.
    pub fn add_flow(&mut self, hops: &[Hop], plan: &FlowPlan) -> Flow {
        let mut config = Config::default();
        config.channel.controller = plan.controller;
        let (sender, receiver) = (self.nodes(), self.nodes() + 1);
        let load = Load::bulk(plan.bytes.unwrap_or(u64::MAX));
        let app = Sender::new(Self::node_id(receiver), vec![load]);
        self.add_node(config.clone(), AllowList::default(), app);
        let allowed = AllowList::of([Self::node_id(sender)]);
        self.add_node(config, allowed, Receiver::new());
        let route = self.add_route([sender, receiver], hops, &Hop::reversed(hops));
        let link = self.route_link(sender, route);
        self.app::<Sender>(sender).dial(plan.start, vec![link]);
        // Arms the timer for the start.
        self.with_node(sender, |_| ());
        Flow {
            sender,
            receiver,
            route,
        }
    }
}
