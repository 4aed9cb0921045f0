//! Hostile peer: a node with a key that the victim allows, which sends any legal and illegal frame over channels of its
//! own. The session of the two honest nodes must not be affected.

mod frames;

use std::{num::NonZeroUsize, time::Duration};

use anabranch_base::{ChannelId, Instant, NodeId, Random};
use anabranch_channel::{Endpoint, Event};
use anabranch_session::{AllowList, ChannelConfig, Link, Received, SecretKey, Transmit};

use crate::{Raw, epoch};

/// Total number of containers that it sends.
const CONTAINERS: u32 = 600;
/// Number of channels that it opens, one after another.
const CHANNELS: u32 = 12;
/// Mean time between two of its moves.
const PACE_S: f64 = 0.02;
/// Delay before it dials again after it was disconnected.
const REDIAL: Duration = Duration::from_millis(150);

/// A node that does not conform to the protocol.
pub(super) struct Hostile {
    endpoint: Endpoint,
    victim: NodeId,
    /// Link to the victim; `None` until the world is wired.
    pub link: Option<Link>,
    channel: Option<ChannelId>,
    is_introduced: bool,
    generator: frames::Generator,
    random: Random,
    move_at: Option<Instant>,
    containers: u32,
    channels: u32,
    scratch: Vec<u8>,
}

impl Hostile {
    pub(super) fn new(key: SecretKey, victim: NodeId, mut random: Random) -> Self {
        let entropy = random.seed_bytes();
        let config = ChannelConfig::default();
        let allowed = AllowList::of([victim]);
        Self {
            endpoint: Endpoint::new(epoch::get(), key, allowed, config, entropy),
            victim,
            link: None,
            channel: None,
            is_introduced: false,
            generator: frames::Generator::new(&mut random),
            move_at: Some(Instant::from_millis(random.between(100, 2_000))),
            random,
            containers: 0,
            channels: 0,
            scratch: Vec::new(),
        }
    }

    /// Number of containers that it sent.
    pub(super) fn containers(&self) -> u32 {
        self.containers
    }

    /// Reads everything that the channel has received.
    fn attend(&mut self, now: Instant) {
        let Some(id) = self.channel else {
            return;
        };
        let mut is_over = false;
        if let Some(channel) = self.endpoint.channel(id) {
            while channel.receive().is_some() {}
            channel.take_outcomes(&mut Vec::new());
            while let Some(event) = channel.poll_event() {
                is_over |= matches!(event, Event::Closed(_));
            }
        }
        self.endpoint.settle_channel(id);
        if is_over {
            self.channel = None;
            self.move_at = self.may_go_on().then(|| now + REDIAL);
        }
    }

    fn may_go_on(&self) -> bool {
        self.containers < CONTAINERS && self.channels < CHANNELS
    }

    fn act(&mut self, now: Instant) {
        self.move_at = None;
        let Some(link) = self.link else {
            return;
        };
        let pause = self.random.exponential(PACE_S);
        match self.channel {
            None if self.may_go_on() => {
                self.channels += 1;
                self.is_introduced = false;
                self.generator = frames::Generator::new(&mut self.random);
                let dialled =
                    self.endpoint
                        .connect(now, link.socket, link.remote, self.victim, None);
                self.channel = dialled.ok();
            }
            None => return,
            Some(id) => self.send_containers(now, id),
        }
        if self.containers < CONTAINERS {
            self.move_at = Some(now + Duration::from_secs_f64(pause));
        }
    }

    fn send_containers(&mut self, now: Instant, id: ChannelId) {
        let Some(channel) = self.endpoint.channel(id) else {
            return;
        };
        if !channel.is_connected() {
            return;
        }
        let mut containers = Vec::new();
        if !self.is_introduced {
            self.is_introduced = true;
            if self.random.chance(0.95) {
                containers.push(frames::introduction(channel));
            }
        } else if self.random.chance(0.01) {
            channel.close(now, self.random.below(1 << 20) as u32, "enough");
            return;
        } else {
            for _ in 0..self.random.between(1, 4) {
                containers.push(self.generator.container(&mut self.random));
            }
        }
        for container in containers {
            let space = channel.container_bytes_max().unwrap_or(0);
            if container.len() <= space && !container.is_empty() {
                channel.send(container);
                self.containers += 1;
            }
        }
    }
}

impl Raw for Hostile {
    fn handle_packet(&mut self, now: Instant, packet: Received) {
        let mut response = std::mem::take(&mut self.scratch);
        self.endpoint.handle_packet(now, packet, &mut response);
        self.scratch = response;
        self.attend(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        if let Some(channel) = self.channel.and_then(|id| self.endpoint.channel(id))
            && channel.poll_timeout().is_some_and(|at| at <= now)
        {
            channel.handle_timeout(now);
        }
        if self.move_at.is_some_and(|at| at <= now) {
            self.act(now);
        }
        self.attend(now);
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        let channel = self.channel.and_then(|id| self.endpoint.channel(id));
        let timer = channel.and_then(|channel| channel.poll_timeout());
        [timer, self.move_at].into_iter().flatten().min()
    }

    fn poll_transmit(
        &mut self,
        now: Instant,
        packets_max: NonZeroUsize,
        buffer: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let id = self.channel?;
        let transmit = self
            .endpoint
            .channel(id)?
            .poll_transmit(now, packets_max, buffer);
        if transmit.is_none() {
            self.endpoint.settle_channel(id);
        }
        transmit
    }
}
