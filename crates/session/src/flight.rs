//! Packets in flight, and the fragments in each.

use std::collections::VecDeque;

use anabranch_base::Instant;

use crate::{
    transcript::Fragment,
    wire::{Control, frame::Place},
};

/// An item of a container whose outcome matters.
#[derive(Debug, Clone)]
pub(crate) enum Item {
    /// A fragment of an ADU.
    Fragment {
        place: Place,
        length: usize,
        /// True if it is a second copy.
        is_copy: bool,
    },
    /// A control frame to send again if it is lost.
    Control(Box<Control>),
}

impl Item {
    /// The fragment, as a transcript has it.
    pub(crate) fn recorded(&self) -> Option<Fragment> {
        match self {
            Self::Fragment {
                place,
                length,
                is_copy,
            } => Some(Fragment {
                stream: place.stream,
                sequence: place.sequence,
                offset: place.offset as u64,
                bytes: *length as u64,
                is_copy: *is_copy,
            }),
            Self::Control(_) => None,
        }
    }
}

/// A container in flight. The first item lies inline: most containers have just one.
#[derive(Debug)]
pub(crate) struct Packet {
    pub sent_at: Instant,
    /// Application bytes in it.
    pub bytes: usize,
    /// Bytes of the whole container.
    pub wire_bytes: u64,
    first: Option<Item>,
    rest: Vec<Item>,
    /// True if its content has been moved to other channels already, because this one fell silent.
    pub moved: bool,
    /// True if a copy of it has been sent on another channel.
    pub copied: bool,
    /// True if it measures a path and carries nothing.
    pub is_probe: bool,
    /// True if its outcome is reported to the application.
    pub is_ping: bool,
}

impl Packet {
    pub(crate) fn new(sent_at: Instant) -> Self {
        Self {
            sent_at,
            bytes: 0,
            wire_bytes: 0,
            first: None,
            rest: Vec::new(),
            moved: false,
            copied: false,
            is_probe: false,
            is_ping: false,
        }
    }

    pub(crate) fn push(&mut self, item: Item) {
        if self.first.is_none() {
            self.first = Some(item);
        } else {
            self.rest.push(item);
        }
    }

    pub(crate) fn items(&self) -> impl Iterator<Item = &Item> + Clone {
        self.first.iter().chain(&self.rest)
    }
}

/// Key: channel. Containers in flight, by the channel's container number; O(1) per packet.
///
/// Invariant: `base` is the number of `packets[0]`, which is in flight; so each container is taken out once.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    packets: VecDeque<Option<Packet>>,
    base: u64,
}

impl Flight {
    /// Records that `packet` was sent as container `number`. Numbers come in order without gaps.
    pub(crate) fn push(&mut self, number: u64, packet: Packet) {
        if self.packets.is_empty() {
            self.base = number;
        }
        debug_assert_eq!(number, self.base + self.packets.len() as u64);
        self.packets.push_back(Some(packet));
    }

    /// Takes out the container whose outcome is known.
    pub(crate) fn take(&mut self, number: u64) -> Option<Packet> {
        let index = usize::try_from(number.checked_sub(self.base)?).ok()?;
        let packet = self.packets.get_mut(index)?.take();
        while let Some(None) = self.packets.front() {
            self.packets.pop_front();
            self.base += 1;
        }
        packet
    }

    /// True if nothing is in flight.
    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Containers in flight, oldest first.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Packet> {
        self.packets.iter_mut().flatten()
    }
}
