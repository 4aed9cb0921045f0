//! Content of one chunk, and its assembly.

use std::sync::Arc;

use anabranch_media::{Frames, Part, write::Counts};
use bytes::{BufMut, Bytes, BytesMut};

use crate::{
    video::{FrameId, Video},
    wire::Enhanced,
};

/// A chunk as it is served: all essential frames, and the enhanced frames that came in time.
#[derive(Debug)]
pub(crate) struct Content {
    video: Arc<Video>,
    pub(crate) chunk: u32,
    essential: Bytes,
    enhanced: Bytes,
    /// Every frame of the chunk in the order of its position, and the offset of its bytes.
    places: Vec<(FrameId, Option<(Part, usize)>)>,
    /// Enhanced frames that are missing.
    pub(crate) missing: Counts,
}

impl Content {
    /// `enhanced` holds the bytes of the frames for which `is_there` is true, in the order of [`Video::frames`].
    fn new(
        video: Arc<Video>,
        chunk: u32,
        essential: Bytes,
        enhanced: Bytes,
        is_there: impl Fn(usize) -> bool,
    ) -> Self {
        let mut places = Vec::new();
        let mut missing = Counts::default();
        let mut at = 0;
        for frame in video.frames(chunk, Part::Essential) {
            places.push((frame, Some((Part::Essential, at))));
            at += video.size(frame) as usize;
        }
        at = 0;
        for (number, frame) in video.frames(chunk, Part::Enhanced).enumerate() {
            if is_there(number) {
                places.push((frame, Some((Part::Enhanced, at))));
                at += video.size(frame) as usize;
            } else {
                places.push((frame, None));
                missing.add(video.kind(frame));
            }
        }
        places.sort_by_key(|(frame, _)| (frame.track, frame.sample));
        Self {
            video,
            chunk,
            essential,
            enhanced,
            places,
            missing,
        }
    }

    /// A chunk from a complete essential part and an enhanced part in the format of [`Content::stored`]; `None` when it is of
    /// another chunk.
    pub(crate) fn restore(
        video: Arc<Video>,
        chunk: u32,
        essential: Bytes,
        stored: &Bytes,
    ) -> Option<Self> {
        if essential.len() as u64 != video.bytes(chunk, Part::Essential) {
            return None;
        }
        let frames: Vec<FrameId> = video.frames(chunk, Part::Enhanced).collect();
        let map_bytes = frames.len().div_ceil(8);
        let map = stored.get(..map_bytes)?.to_vec();
        let data = stored.slice(map_bytes..);
        let is_there = |n: usize| map[n / 8] >> (n % 8) & 1 == 1;
        let sizes = frames.iter().enumerate();
        let sizes = sizes.filter(|&(n, _)| is_there(n));
        let bytes: u64 = sizes.map(|(_, &frame)| u64::from(video.size(frame))).sum();
        if bytes != data.len() as u64 {
            return None;
        }
        Some(Self::new(video, chunk, essential, data, is_there))
    }

    /// A chunk from both parts, complete.
    pub(crate) fn complete(
        video: Arc<Video>,
        chunk: u32,
        essential: Bytes,
        enhanced: Bytes,
    ) -> Option<Self> {
        let is_whole = essential.len() as u64 == video.bytes(chunk, Part::Essential)
            && enhanced.len() as u64 == video.bytes(chunk, Part::Enhanced);
        is_whole.then(|| Self::new(video, chunk, essential, enhanced, |_| true))
    }

    /// The enhanced part in the format of the store: a bit for each frame, then the bytes of the frames that are there.
    pub(crate) fn stored(&self) -> Bytes {
        let frames: Vec<_> = self.video.frames(self.chunk, Part::Enhanced).collect();
        let mut map = vec![0_u8; frames.len().div_ceil(8)];
        for (n, &frame) in frames.iter().enumerate() {
            if self.place(frame).is_some() {
                map[n / 8] |= 1 << (n % 8);
            }
        }
        let mut out = BytesMut::with_capacity(map.len() + self.enhanced.len());
        out.put_slice(&map);
        out.put_slice(&self.enhanced);
        out.freeze()
    }

    /// The essential part.
    pub(crate) fn essential(&self) -> &Bytes {
        &self.essential
    }

    /// The video.
    pub(crate) fn video(&self) -> &Arc<Video> {
        &self.video
    }

    fn place(&self, frame: FrameId) -> Option<(Part, usize)> {
        let key = (frame.track, frame.sample);
        let found = self
            .places
            .binary_search_by_key(&key, |(f, _)| (f.track, f.sample));
        self.places[found.ok()?].1
    }
}

impl Frames for Content {
    fn get(&self, track: usize, sample: usize) -> Option<Bytes> {
        let frame = FrameId { track, sample };
        let (part, at) = self.place(frame)?;
        let end = at + self.video.size(frame) as usize;
        Some(match part {
            Part::Essential => self.essential.slice(at..end),
            Part::Enhanced => self.enhanced.slice(at..end),
        })
    }
}

/// A chunk that is arriving.
#[derive(Debug)]
pub(crate) struct Assembly {
    video: Arc<Video>,
    chunk: u32,
    essential: BytesMut,
    /// Buffer for all enhanced data; empty until the first has come.
    enhanced: Vec<u8>,
    frames: Vec<Arriving>,
    adus: u32,
}

#[derive(Debug)]
struct Arriving {
    id: FrameId,
    at: usize,
    size: usize,
    /// Offsets and lengths of the parts that have come.
    parts: Vec<(u32, u32)>,
}

impl Arriving {
    fn is_whole(&self) -> bool {
        let bytes: u64 = self.parts.iter().map(|&(_, bytes)| u64::from(bytes)).sum();
        bytes == self.size as u64
    }
}

impl Assembly {
    pub(crate) fn new(video: Arc<Video>, chunk: u32) -> Self {
        let mut at = 0;
        let arriving = |id| {
            let size = video.size(id) as usize;
            at += size;
            Arriving {
                id,
                at: at - size,
                size,
                parts: Vec::new(),
            }
        };
        let frames = video.frames(chunk, Part::Enhanced).map(arriving).collect();
        Self {
            video,
            chunk,
            essential: BytesMut::new(),
            enhanced: Vec::new(),
            frames,
            adus: 0,
        }
    }

    /// Takes a piece of the essential part; false when it does not follow what is there.
    pub(crate) fn put_essential(&mut self, offset: u32, total: u32, data: &[u8]) -> bool {
        let is_next = offset as usize == self.essential.len()
            && u64::from(total) == self.video.bytes(self.chunk, Part::Essential);
        if is_next {
            self.essential.extend_from_slice(data);
        }
        is_next
    }

    /// Takes a part of an enhanced frame; false when the index has no such frame, or the part has come before.
    pub(crate) fn put_enhanced(&mut self, adu: &Enhanced) -> bool {
        let key = (usize::from(adu.track), adu.sample as usize);
        let found = self
            .frames
            .binary_search_by_key(&key, |f| (f.id.track, f.id.sample));
        let Ok(found) = found else { return false };
        let frame = &mut self.frames[found];
        let (offset, bytes) = (adu.offset as usize, adu.data.len());
        let clashes = |&(from, length): &(u32, u32)| {
            let (from, length) = (from as usize, length as usize);
            from < offset + bytes && offset < from + length
        };
        if offset + bytes > frame.size || frame.parts.iter().any(clashes) {
            return false;
        }
        frame.parts.push((adu.offset, bytes as u32));
        let at = frame.at + offset;
        self.allocate();
        self.enhanced[at..at + bytes].copy_from_slice(&adu.data);
        self.adus += 1;
        true
    }

    /// Enhanced frames that are incomplete, by number, with their bytes, in descending order of the number of frames that need
    /// each.
    pub(crate) fn missing(&self) -> Vec<(u32, u64)> {
        let numbered = (0..).zip(&self.frames);
        let missing = numbered.filter(|(_, frame)| !frame.is_whole());
        let mut missing: Vec<_> = missing
            .map(|(number, frame)| {
                let partition = &self.video.partition;
                let importance = partition.importance(frame.id.track, frame.id.sample);
                (std::cmp::Reverse(importance), number, frame.size as u64)
            })
            .collect();
        missing.sort_unstable();
        let plain = missing.into_iter();
        plain.map(|(_, number, size)| (number, size)).collect()
    }

    /// Takes whole frames, by number and one after the other; false when the bytes do not match.
    pub(crate) fn put_frames(&mut self, numbers: &[u32], data: &[u8]) -> bool {
        let sizes = numbers
            .iter()
            .map(|&n| self.frames.get(n as usize).map(|frame| frame.size));
        let Some(sizes) = sizes.collect::<Option<Vec<_>>>() else {
            return false;
        };
        if sizes.iter().sum::<usize>() != data.len() {
            return false;
        }
        self.allocate();
        let mut from = 0;
        for (&number, size) in numbers.iter().zip(sizes) {
            let frame = &mut self.frames[number as usize];
            frame.parts = vec![(0, size as u32)];
            self.enhanced[frame.at..frame.at + size].copy_from_slice(&data[from..from + size]);
            from += size;
        }
        true
    }

    fn allocate(&mut self) {
        if self.enhanced.is_empty() {
            let all = self.video.bytes(self.chunk, Part::Enhanced);
            self.enhanced = vec![0; usize::try_from(all).unwrap_or(0)];
        }
    }

    /// ADUs of its enhanced part that have come.
    pub(crate) fn adus(&self) -> u32 {
        self.adus
    }

    /// The essential part, once it is complete.
    pub(crate) fn essential(&self) -> Option<&[u8]> {
        let is_whole = self.essential.len() as u64 == self.video.bytes(self.chunk, Part::Essential);
        is_whole.then_some(&self.essential[..])
    }

    /// Drops the essential part, which is stored elsewhere.
    pub(crate) fn drop_essential(&mut self) {
        self.essential = BytesMut::new();
    }

    /// Memory that it takes, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.essential.len() + self.enhanced.len()
    }

    /// The content that has come; `essential` replaces the part that was dropped.
    pub(crate) fn finish(self, essential: Option<Bytes>) -> Option<Content> {
        let essential = essential.unwrap_or_else(|| self.essential.freeze());
        if essential.len() as u64 != self.video.bytes(self.chunk, Part::Essential) {
            return None;
        }
        let there: Vec<bool> = self.frames.iter().map(Arriving::is_whole).collect();
        let enhanced = if there.iter().all(|&is_there| is_there) {
            self.enhanced.into()
        } else {
            let mut kept = BytesMut::with_capacity(self.enhanced.len());
            for frame in self.frames.iter().filter(|frame| frame.is_whole()) {
                let end = frame.at + frame.size;
                // An empty frame is always complete.
                kept.extend_from_slice(self.enhanced.get(frame.at..end).unwrap_or_default());
            }
            kept.freeze()
        };
        Some(Content::new(
            self.video,
            self.chunk,
            essential,
            enhanced,
            |n| there[n],
        ))
    }
}

#[cfg(test)]
mod tests;
