//! Parts that a client wants, read one after the other and packed.

use std::{collections::VecDeque, ops::Range, sync::Arc};

use anabranch_recordset::Layout;
use bytes::Bytes;

use super::{Opened, Reader, Source};
use crate::wire::{Block, Digest, Fault, HEADER_BYTES, Item, PIECE_BYTES_MAX, Pack, Piece};

/// Bytes of a pack from which no further piece is added.
const PACK_BYTES: usize = 256 << 10;
/// Bytes of a block whose hash is compared.
pub(crate) const BLOCK_BYTES: u64 = 1 << 20;
/// Hashes of one message at most: those of 256 MiB.
pub(crate) const HASHES_MAX: usize = 256;

/// Next thing to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Pieces.
    Pack(Bytes),
    /// A part that cannot be sent.
    Fault {
        /// Record.
        record: u64,
        /// Component.
        component: u16,
        /// The reason.
        fault: Fault,
        /// Version of which bytes were sent already.
        version: Option<u64>,
    },
}

/// Bytes of a part that are wanted.
#[derive(Clone, Debug)]
pub(super) enum Limit {
    All,
    Between(u64, u64),
    /// These, or all of another version.
    Rest(u64, Vec<(u64, u64)>),
}

/// Part of which bytes are wanted.
struct Current {
    record: u64,
    component: u16,
    opened: Opened,
    /// Bytes that are left to be sent.
    ranges: VecDeque<Range<u64>>,
    /// Bytes that were sent, and their hash, of a part that shares its file with others.
    sent: Option<(Vec<Range<u64>>, blake3::Hasher)>,
    is_begun: bool,
}

/// Lane of the line of all bytes that are wanted.
struct Lane {
    layout: Layout,
    lanes: u32,
    lane: u32,
    /// Bytes of the line so far.
    at: u64,
    /// Bytes of the whole line.
    line: u64,
}

/// Reads what is wanted, in order. Every call blocks.
pub struct Reading {
    reader: Reader,
    items: VecDeque<Item>,
    /// Records and components of the first item that were passed.
    passed: (u64, usize),
    current: Option<Current>,
    lane: Option<Lane>,
    pack: Pack,
}

impl Reading {
    /// Reading of a set.
    pub fn new(source: Arc<Source>) -> Self {
        Self {
            reader: Reader::new(source),
            items: VecDeque::new(),
            passed: (0, 0),
            current: None,
            lane: None,
            pack: Pack::default(),
        }
    }

    /// Adds what is wanted.
    pub fn want(&mut self, items: impl IntoIterator<Item = Item>) {
        self.items.extend(items);
    }

    /// Reads only one lane of all that is wanted, which must have been added before if the layout depends on the length of every part.
    pub fn only(&mut self, layout: Layout, lanes: u32, lane: u32) {
        let mut line = 0;
        if layout == Layout::Partitioned {
            let items = self.items.clone();
            while let Some((limit, record, component)) = self.next_part() {
                if let Ok(Some(opened)) = self.reader.open(record, component) {
                    line += length(&wanted(&limit, &opened));
                }
            }
            (self.items, self.passed) = (items, (0, 0));
        }
        self.lane = Some(Lane {
            layout,
            lanes,
            lane,
            at: 0,
            line,
        });
    }

    /// Number of records of the set.
    pub(crate) fn records(&self) -> u64 {
        self.reader.source.manifest.len()
    }

    /// Without what is wanted and was not read.
    pub(crate) fn without_rest(self) -> Self {
        Self::new(self.reader.source)
    }

    /// The next pack or fault; `None`: all that is wanted was read.
    pub fn next_out(&mut self) -> Option<Next> {
        while self.pack.len() < PACK_BYTES {
            if self.current.is_none() {
                let Some((limit, record, component)) = self.next_part() else {
                    break;
                };
                if let Err(fault) = self.begin(&limit, record, component) {
                    return Some(Next::Fault {
                        record,
                        component,
                        fault,
                        version: None,
                    });
                }
            }
            if let Some(fault) = self.fill() {
                return Some(fault);
            }
        }
        let pack = std::mem::take(&mut self.pack);
        (!pack.is_empty()).then(|| Next::Pack(pack.finish()))
    }

    /// Takes the next part from the items.
    pub(super) fn next_part(&mut self) -> Option<(Limit, u64, u16)> {
        // Records beyond the last do not exist.
        let records = self.reader.source.manifest.len();
        loop {
            match self.items.front()? {
                Item::Part {
                    record,
                    component,
                    version,
                    ranges,
                } => {
                    let part = (Limit::Rest(*version, ranges.clone()), *record, *component);
                    self.items.pop_front();
                    return Some(part);
                }
                Item::Records {
                    from,
                    to,
                    components,
                    bytes,
                } => {
                    let record = from.saturating_add(self.passed.0);
                    let to = (*to).min(records);
                    let Some(component) = components.get(self.passed.1).copied() else {
                        if self.passed.1 == 0 || record >= to {
                            self.items.pop_front();
                            self.passed = (0, 0);
                        } else {
                            self.passed = (self.passed.0 + 1, 0);
                        }
                        continue;
                    };
                    if record >= to {
                        self.items.pop_front();
                        self.passed = (0, 0);
                        continue;
                    }
                    self.passed.1 += 1;
                    let limit = bytes.map_or(Limit::All, |(from, to)| Limit::Between(from, to));
                    return Some((limit, record, component));
                }
            }
        }
    }

    /// Opens a part of which bytes are wanted.
    fn begin(&mut self, limit: &Limit, record: u64, component: u16) -> Result<(), Fault> {
        let Some(opened) = self.reader.open(record, component)? else {
            if self.lane.as_ref().is_none_or(|lane| lane.lane == 0) {
                let absent = Piece {
                    record,
                    component,
                    is_absent: true,
                    version: 0,
                    part_bytes: 0,
                    offset: 0,
                    data: Bytes::new(),
                };
                self.pack.push(&absent, 0, |_| Ok::<(), Fault>(()))?;
            }
            return Ok(());
        };
        let mut ranges = wanted(limit, &opened);
        let is_empty = length(&ranges) == 0;
        if let Some(lane) = &mut self.lane {
            ranges = lane.of(&ranges);
            if ranges.is_empty() && !(is_empty && lane.lane == 0) {
                return Ok(());
            }
        }
        if ranges.is_empty() {
            // A piece without data states the length of the part.
            ranges.push_back(0..0);
        }
        let sent = (!opened.is_whole_file()).then(|| (Vec::new(), blake3::Hasher::new()));
        self.current = Some(Current {
            record,
            component,
            opened,
            ranges,
            sent,
            is_begun: false,
        });
        Ok(())
    }

    /// Packs the next bytes of the current part.
    fn fill(&mut self) -> Option<Next> {
        let current = self.current.as_mut()?;
        if let Some(range) = current.ranges.front_mut() {
            let room = (PACK_BYTES + HEADER_BYTES).saturating_sub(self.pack.len());
            let length = (range.end - range.start).min(room.min(PIECE_BYTES_MAX) as u64) as usize;
            let piece = Piece {
                record: current.record,
                component: current.component,
                is_absent: false,
                version: current.opened.version,
                part_bytes: current.opened.bytes,
                offset: range.start,
                data: Bytes::new(),
            };
            let (opened, sent) = (&current.opened, &mut current.sent);
            let filled = self.pack.push(&piece, length, |bytes| {
                opened.read(bytes, piece.offset)?;
                if let Some((ranges, hasher)) = sent {
                    hasher.update(bytes);
                    ranges.push(piece.offset..piece.offset + length as u64);
                }
                Ok(())
            });
            if let Err(fault) = filled {
                return self.give_up(fault);
            }
            current.is_begun = true;
            range.start += length as u64;
            if range.is_empty() {
                current.ranges.pop_front();
            }
        }
        if !current.ranges.is_empty() {
            return None;
        }
        if current.opened.is_same() || current.is_as_sent() {
            self.current = None;
            return None;
        }
        self.give_up(Fault::Changed)
    }

    /// Ends the current part.
    fn give_up(&mut self, fault: Fault) -> Option<Next> {
        let current = self.current.take()?;
        Some(Next::Fault {
            record: current.record,
            component: current.component,
            fault,
            version: current.is_begun.then_some(current.opened.version),
        })
    }

    /// Hashes of the blocks of the next part that is wanted, 256 at most; `None`: there is none. The block of a part that
    /// cannot be read is a fault.
    pub fn next_hashes(&mut self) -> Option<Result<Block, Next>> {
        self.hashes_from(0, HASHES_MAX)
    }

    /// As [`Reading::next_hashes`]: of `max` blocks at most, which begin at `offset` in a part that is not begun yet.
    pub(crate) fn hashes_from(&mut self, offset: u64, max: usize) -> Option<Result<Block, Next>> {
        if self.current.is_none() {
            let (_, record, component) = self.next_part()?;
            if let Err(fault) = self.begin(&Limit::All, record, component) {
                return Some(Err(Next::Fault {
                    record,
                    component,
                    fault,
                    version: None,
                }));
            }
            if self.current.is_none() {
                self.pack = Pack::default();
                return Some(Ok(Block {
                    record,
                    component,
                    bytes: None,
                    offset: 0,
                    hashes: Vec::new(),
                }));
            }
        }
        let current = self.current.as_mut()?;
        let opened = &current.opened;
        let begun = current.ranges.front().map_or(0, |range| range.start);
        let offset = begun.max(offset.min(opened.bytes));
        let (mut hashes, mut at, mut bytes) = (Vec::new(), offset, Vec::new());
        while at < opened.bytes && hashes.len() < max {
            bytes.resize(BLOCK_BYTES.min(opened.bytes - at) as usize, 0);
            if let Err(fault) = opened.read(&mut bytes, at) {
                return self.give_up(fault).map(Err);
            }
            hashes.push(Digest::of(&bytes));
            at += bytes.len() as u64;
        }
        let block = Block {
            record: current.record,
            component: current.component,
            bytes: Some(opened.bytes),
            offset,
            hashes,
        };
        if at == opened.bytes {
            self.current = None;
        } else if let Some(range) = current.ranges.front_mut() {
            range.start = at;
        }
        Some(Ok(block))
    }
}

impl Current {
    /// True if the file, which was changed, still has the bytes that were sent of a part that shares it with others.
    fn is_as_sent(&self) -> bool {
        let Some((ranges, hasher)) = &self.sent else {
            return false;
        };
        let (mut again, mut bytes) = (blake3::Hasher::new(), Vec::new());
        for range in ranges {
            bytes.resize((range.end - range.start) as usize, 0);
            if self.opened.read(&mut bytes, range.start).is_err() {
                return false;
            }
            again.update(&bytes);
        }
        again.finalize() == hasher.finalize()
    }
}

impl Lane {
    /// Those bytes of the next ranges of the line that this lane carries.
    fn of(&mut self, ranges: &VecDeque<Range<u64>>) -> VecDeque<Range<u64>> {
        let mut own = VecDeque::new();
        for range in ranges {
            let here = self.at..self.at + (range.end - range.start);
            let unit = match self.layout {
                Layout::Partitioned => 0..self.line,
                _ => here.clone(),
            };
            for piece in self.layout.of_lane(unit, self.lanes, self.lane) {
                let (from, to) = (piece.start.max(here.start), piece.end.min(here.end));
                if from < to {
                    own.push_back(
                        range.start + (from - here.start)..range.start + (to - here.start),
                    );
                }
            }
            self.at = here.end;
        }
        own
    }
}

/// Ranges of a part that are wanted, without empty ones.
fn wanted(limit: &Limit, opened: &Opened) -> VecDeque<Range<u64>> {
    let within = |from: u64, to: u64| from.min(opened.bytes)..to.min(opened.bytes);
    let ranges: Vec<Range<u64>> = match limit {
        Limit::Between(from, to) => vec![within(*from, *to)],
        Limit::Rest(version, ranges) if *version == opened.version => {
            ranges.iter().map(|(from, to)| within(*from, *to)).collect()
        }
        Limit::All | Limit::Rest(..) => vec![within(0, u64::MAX)],
    };
    ranges
        .into_iter()
        .filter(|range| !range.is_empty())
        .collect()
}

fn length(ranges: &VecDeque<Range<u64>>) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}
