//! Sample table of a track that is not fragmented ('stbl'): sizes, offsets and times of its samples.

use super::{
    SAMPLES_MAX,
    boxes::{Header, find, require},
    table::{Runs, Table},
};
use crate::{
    error::{IndexError, corrupt},
    index::{FrameType, Sample},
    source::Source,
};

/// Reads the samples of one track from its tables; frame types are added later.
pub(super) fn read(
    source: &mut Source<'_>,
    stbl: &Header,
    entries: u32,
    before: usize,
) -> Result<Vec<Sample>, IndexError> {
    let boxes = stbl.children(source)?;
    let mut sizes = Sizes::new(source, &boxes, stbl.kind)?;
    if sizes.count == 0 {
        return Ok(Vec::new());
    }
    if before as u64 + sizes.count > SAMPLES_MAX {
        return Err(IndexError::TooLarge {
            what: "samples",
            found: before as u64 + sizes.count,
            limit: SAMPLES_MAX,
        });
    }
    let mut places = Places::new(source, &boxes, stbl.kind, entries)?;
    let mut durations = Runs::new(source, &require(&boxes, b"stts", stbl.kind)?)?;
    let mut offsets = match find(&boxes, b"ctts") {
        Some(ctts) => Some(Runs::new(source, &ctts)?),
        None => None,
    };
    let mut syncs = match find(&boxes, b"stss") {
        Some(stss) => Some(Syncs::new(source, &stss)?),
        None => None,
    };
    // One byte a sample; the rest is unknown where the table is shorter.
    let mut hints = match find(&boxes, b"sdtp") {
        Some(sdtp) => {
            sdtp.need(4)?;
            Some(Table::new(&sdtp, sdtp.body + 4, sdtp.len() - 4, 1)?)
        }
        None => None,
    };
    let mut samples = Vec::new();
    let mut decode_time = 0u64;
    let mut bytes = 0u64;
    for number in 1..=sizes.count {
        let size = sizes.next(source)?;
        let offset = places.next(source, size)?;
        bytes += u64::from(size);
        check_place(source, offset, size, bytes)?;
        let duration = durations.next(source)?;
        if duration > i32::MAX as u32 {
            return Err(corrupt(*b"stts", "a duration is negative"));
        }
        let composition_offset = match &mut offsets {
            // Version 0 is unsigned; writers that put negative values there mean them as such.
            Some(offsets) => offsets.next(source)? as i32,
            None => 0,
        };
        let is_sync = match &mut syncs {
            Some(syncs) => syncs.is_sync(source, number)?,
            None => true,
        };
        let hint = match &mut hints {
            Some(hints) => hints.next(source)?.map_or(0, |entry| entry[0]),
            None => 0,
        };
        samples.push(Sample {
            offset,
            decode_time,
            size,
            duration,
            composition_offset,
            frame: FrameType::Other,
            is_sync,
            // sample_is_depended_on = 2: others do not depend on this one.
            is_referenced: hint >> 2 & 3 != 2,
        });
        decode_time += u64::from(duration);
    }
    Ok(samples)
}

/// Checks that a sample lies in the file, and that all of a track's together have no more bytes than the file: samples
/// that share bytes would let a small file claim any amount of memory.
pub(super) fn check_place(
    source: &Source<'_>,
    offset: u64,
    size: u32,
    bytes: u64,
) -> Result<(), IndexError> {
    let end = offset.saturating_add(u64::from(size));
    if end > source.len() {
        return Err(IndexError::Truncated {
            what: "a sample",
            end,
            len: source.len(),
        });
    }
    if bytes > source.len() {
        return Err(corrupt(*b"stsz", "samples overlap"));
    }
    Ok(())
}

/// 'stsz' or 'stz2'.
struct Sizes {
    count: u64,
    /// The size of all samples, if not zero.
    one: u32,
    table: Option<Table>,
    /// Bits of an entry of 'stz2'.
    bits: u8,
    half: Option<u32>,
}

impl Sizes {
    fn new(source: &mut Source<'_>, boxes: &[Header], inside: [u8; 4]) -> Result<Self, IndexError> {
        if let Some(stsz) = find(boxes, b"stsz") {
            stsz.need(12)?;
            let one = source.u32(stsz.body + 4)?;
            let count = u64::from(source.u32(stsz.body + 8)?);
            let table = match one {
                0 => Some(Table::new(&stsz, stsz.body + 12, count, 4)?),
                _ => None,
            };
            return Ok(Self {
                count,
                one,
                table,
                bits: 32,
                half: None,
            });
        }
        let stz2 = require(boxes, b"stz2", inside)?;
        stz2.need(12)?;
        let bits = source.u32(stz2.body + 4)? as u8;
        let count = u64::from(source.u32(stz2.body + 8)?);
        let (width, entries) = match bits {
            4 => (1, count.div_ceil(2)),
            8 => (1, count),
            16 => (2, count),
            _ => return Err(corrupt(stz2.kind, "sizes have 4, 8 or 16 bits")),
        };
        Ok(Self {
            count,
            one: 0,
            table: Some(Table::new(&stz2, stz2.body + 12, entries, width)?),
            bits,
            half: None,
        })
    }

    fn next(&mut self, source: &mut Source<'_>) -> Result<u32, IndexError> {
        let Some(table) = &mut self.table else {
            return Ok(self.one);
        };
        if let Some(half) = self.half.take() {
            return Ok(half);
        }
        let entry = table
            .next(source)?
            .ok_or_else(|| corrupt(*b"stsz", "it covers fewer samples than there are"))?;
        let size = entry
            .iter()
            .fold(0, |size, &byte| size << 8 | u32::from(byte));
        if self.bits == 4 {
            self.half = Some(size & 15);
            return Ok(size >> 4);
        }
        Ok(size)
    }
}

/// 'stsc' with 'stco' or 'co64': offsets of chunks, and the number of samples in each.
struct Places {
    runs: Table,
    chunks: Table,
    entries: u32,
    /// Samples per chunk now, and the chunk from which on the next run applies.
    samples: u32,
    next_run: Option<[u32; 3]>,
    chunk: u32,
    left: u32,
    offset: u64,
}

impl Places {
    fn new(
        source: &mut Source<'_>,
        boxes: &[Header],
        inside: [u8; 4],
        entries: u32,
    ) -> Result<Self, IndexError> {
        let mut runs = Table::counted(source, &require(boxes, b"stsc", inside)?, 12)?;
        let chunks = match find(boxes, b"co64") {
            Some(co64) => Table::counted(source, &co64, 8)?,
            None => Table::counted(source, &require(boxes, b"stco", inside)?, 4)?,
        };
        let next_run = runs.words(source)?;
        Ok(Self {
            runs,
            chunks,
            entries,
            samples: 0,
            next_run,
            chunk: 0,
            left: 0,
            offset: 0,
        })
    }

    fn next(&mut self, source: &mut Source<'_>, size: u32) -> Result<u64, IndexError> {
        while self.left == 0 {
            let Some(entry) = self.chunks.next(source)? else {
                return Err(corrupt(*b"stco", "it covers fewer samples than there are"));
            };
            self.offset = entry
                .iter()
                .fold(0, |offset, &byte| offset << 8 | u64::from(byte));
            self.chunk += 1;
            if let Some([first, samples, description]) = self.next_run
                && first == self.chunk
            {
                if description == 0 || description > self.entries {
                    return Err(corrupt(
                        *b"stsc",
                        "it names a sample entry that is not there",
                    ));
                }
                if description != 1 {
                    return Err(IndexError::Unsupported {
                        what: "a track that changes its codec settings midway",
                    });
                }
                self.samples = samples;
                self.next_run = self.runs.words(source)?;
                if self.next_run.is_some_and(|[next, ..]| next <= first) {
                    return Err(corrupt(*b"stsc", "its chunks do not ascend"));
                }
            } else if self.chunk == 1 {
                return Err(corrupt(*b"stsc", "it does not begin with chunk 1"));
            }
            self.left = self.samples;
        }
        self.left -= 1;
        let offset = self.offset;
        self.offset = offset.saturating_add(u64::from(size));
        Ok(offset)
    }
}

/// 'stss'.
struct Syncs {
    table: Table,
    next: Option<u32>,
}

impl Syncs {
    fn new(source: &mut Source<'_>, header: &Header) -> Result<Self, IndexError> {
        let mut table = Table::counted(source, header, 4)?;
        let next = table.words(source)?.map(|[number]| number);
        Ok(Self { table, next })
    }

    fn is_sync(&mut self, source: &mut Source<'_>, number: u64) -> Result<bool, IndexError> {
        let Some(next) = self.next else {
            return Ok(false);
        };
        if u64::from(next) != number {
            return Ok(false);
        }
        self.next = self.table.words(source)?.map(|[number]| number);
        if self.next.is_some_and(|after| after <= next) {
            return Err(corrupt(*b"stss", "its numbers do not ascend"));
        }
        Ok(true)
    }
}
