//! One play of a video at the origin, as it arrives: assembly of chunks from its two streams.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use anabranch::{
    Stream, StreamFailure,
    base::text::{REASON_CHARS, printable},
    net::limited,
};
use anabranch_media as media;
use bytes::Bytes;
use tokio::sync::oneshot;

use super::{
    cached_video::CachedVideo,
    capacity::Place,
    content::Assembly,
    due::{Sent, State, to_repair},
    pipe::{Play, PlayEvent},
};
use crate::{
    store::{Class, Part},
    wire::{Enhanced, Essential, Flow, From, Refusal, RefusalKind},
};

/// Interval between checks of deadlines.
const LOOK: Duration = Duration::from_millis(50);
/// Number of following chunks in the store at which a flow ends.
const HELD_ENOUGH: u32 = 8;
/// Maximum bytes of arriving chunks in memory; beyond, the reliable stream waits.
const MEMORY_BYTES_MAX: usize = 3 << 20;
/// Maximum lead of essential data while nothing can be stored on disk.
const AHEAD_WITHOUT_DISK: Duration = Duration::from_secs(8);
/// Time limit of a repair of lost frames.
const REPAIR_MAX: Duration = Duration::from_secs(2);
/// Time for which the origin may be away before a flow gives up.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Brings chunks from `chunk` on, for as long as viewers want them.
pub(super) async fn run(cached_video: Arc<CachedVideo>, number: u64, chunk: u32) {
    let refusal = flow(&cached_video, number, chunk).await.err();
    if let Some(refusal) = &refusal {
        let (video, error) = (
            printable(&cached_video.video.name, REASON_CHARS),
            printable(&refusal.to_string(), REASON_CHARS),
        );
        limited!(info, %video, %error, "a flow ends");
    }
    cached_video.ended(number, refusal);
}

async fn flow(cached_video: &Arc<CachedVideo>, number: u64, chunk: u32) -> Result<(), Refusal> {
    let shared = &cached_video.shared;
    let line = shared.pipe.line(TIMEOUT).await?;
    let count = cached_video.video.count();
    let first_missing =
        (chunk..count).find(|&c| !shared.store.holds(cached_video.key, Part::Essential(c)));
    let from = From {
        essential: first_missing.unwrap_or(count),
        enhanced: chunk,
        lead_ms: millis(shared.config.lead),
        ahead_ms: millis(ahead(cached_video)),
    };
    let place = shared.admit(&cached_video.video, chunk)?;
    let play = line
        .play(&cached_video.video.name, &cached_video.video.version, from)
        .await?;
    shared.stats.plays.add(1);
    let mut collector = Collector {
        cached_video: cached_video.clone(),
        number,
        place,
        next: chunk,
        essential_next: from.essential,
        arriving: BTreeMap::new(),
        sent: BTreeMap::new(),
        passed: None,
        repair: Repair::Open,
        is_disk_used: shared.is_disk_usable(),
    };
    collector.run(play).await
}

/// Maximum lead of the essential flow.
fn ahead(cached_video: &CachedVideo) -> Duration {
    if cached_video.shared.is_disk_usable() {
        Duration::from_millis(u32::MAX.into())
    } else {
        AHEAD_WITHOUT_DISK
    }
}

fn millis(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

/// Assembles chunks.
struct Collector {
    cached_video: Arc<CachedVideo>,
    number: u64,
    place: Place,
    /// The first unfinished chunk.
    next: u32,
    /// The chunk whose essential part comes next.
    essential_next: u32,
    arriving: BTreeMap<u32, Assembly>,
    /// Reports on chunks whose enhanced data was sent.
    sent: BTreeMap<u32, Sent>,
    /// Time at which enhanced data of a chunk after `next` first came.
    passed: Option<Instant>,
    /// Repair of the chunk `next`.
    repair: Repair,
    is_disk_used: bool,
}

/// State of the repair of a chunk.
enum Repair {
    /// Nothing was requested.
    Open,
    /// These frames were requested, and have not come yet.
    Asked(Vec<u32>, oneshot::Receiver<Bytes>),
    /// The frames came, or will not come.
    Done,
}

impl Collector {
    async fn run(&mut self, mut play: Play) -> Result<(), Refusal> {
        let (mut essential, mut enhanced): (Option<Stream>, Option<Stream>) = (None, None);
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let has_capacity = self.bytes() < MEMORY_BYTES_MAX;
            tokio::select! {
                events = play.events.recv() => match events {
                    Some(PlayEvent::Stream(Flow::Essential, stream)) => essential = Some(stream),
                    Some(PlayEvent::Stream(Flow::Enhanced, stream)) => enhanced = Some(stream),
                    Some(PlayEvent::Ended(refusal)) => return Err(refusal),
                    None => return Err(broken("the origin is gone")),
                },
                record = next(essential.as_ref()), if has_capacity => match record.map_err(broken)? {
                    Some(record) => {
                        let record = Essential::decode(record).map_err(broken)?;
                        self.take_essential(record).await?;
                    }
                    None => essential = None,
                },
                adu = next(enhanced.as_ref()) => match adu.map_err(broken)? {
                    Some(adu) => self.take_enhanced(&Enhanced::decode(adu).map_err(broken)?),
                    None => enhanced = None,
                },
                repaired = answer(&mut self.repair) => self.take_repaired(repaired),
                _ = look.tick() => {}
            }
            let demand = self.cached_video.demand(self.number, self.next);
            if demand.is_to_end {
                return Ok(());
            }
            while self.is_due(demand.deadline) {
                let is_urgent = demand.deadline.is_some_and(|at| self.now() >= at);
                if !is_urgent && self.repairs() {
                    break;
                }
                if !self.finish().await? {
                    break;
                }
                if self.is_enough() {
                    return Ok(());
                }
            }
            let is_disk_usable = self.cached_video.shared.is_disk_usable();
            if std::mem::replace(&mut self.is_disk_used, is_disk_usable) && !is_disk_usable {
                // From here on the lead is smaller.
                let from = From {
                    essential: self.next,
                    enhanced: self.next,
                    lead_ms: millis(self.cached_video.shared.config.lead),
                    ahead_ms: millis(ahead(&self.cached_video)),
                };
                self.arriving.clear();
                self.sent.clear();
                self.passed = None;
                self.repair = Repair::Open;
                self.essential_next = self.next;
                play.seek(from).await?;
            }
        }
    }

    fn now(&self) -> Instant {
        self.cached_video.shared.clock.now()
    }

    fn bytes(&self) -> usize {
        self.arriving.values().map(Assembly::bytes).sum()
    }

    fn assembly(&mut self, chunk: u32) -> &mut Assembly {
        let video = &self.cached_video.video;
        let new = || Assembly::new(video.clone(), chunk);
        self.arriving.entry(chunk).or_insert_with(new)
    }

    async fn take_essential(&mut self, record: Essential) -> Result<(), Refusal> {
        match record {
            Essential::Sent {
                chunk,
                adus,
                left_out,
            } => {
                if chunk >= self.next && chunk < self.cached_video.video.count() {
                    let reported_at = self.now();
                    let sent = Sent {
                        adus,
                        left_out,
                        reported_at,
                    };
                    self.sent.insert(chunk, sent);
                }
                Ok(())
            }
            Essential::Data {
                chunk,
                offset,
                total,
                data,
            } => {
                if chunk != self.essential_next || chunk >= self.cached_video.video.count() {
                    // Data from before a seek.
                    return Ok(());
                }
                self.cached_video
                    .shared
                    .stats
                    .essential_bytes
                    .add(data.len() as u64);
                let assembly = self.assembly(chunk);
                if !assembly.put_essential(offset, total, &data) {
                    return Ok(());
                }
                if let Some(whole) = assembly.essential() {
                    let whole = Bytes::copy_from_slice(whole);
                    self.essential_next += 1;
                    self.keep_essential(chunk, whole).await;
                }
                Ok(())
            }
        }
    }

    /// Stores a chunk's essential part on disk, and drops it from memory unless it is needed soon.
    async fn keep_essential(&mut self, chunk: u32, whole: Bytes) {
        let cached_video = &self.cached_video;
        let class = cached_video.class(chunk);
        let part = Part::Essential(chunk);
        let is_kept = cached_video
            .shared
            .keep(cached_video.key, part, class, whole)
            .await;
        if is_kept
            && chunk > self.next + 1
            && let Some(assembly) = self.arriving.get_mut(&chunk)
        {
            assembly.drop_essential();
        }
    }

    fn take_enhanced(&mut self, adu: &Enhanced) {
        let stats = &self.cached_video.shared.stats;
        stats.enhanced_bytes.add(adu.data.len() as u64);
        if adu.chunk < self.next {
            stats.late_adus.add(1);
            if let Some(kind) = self.cached_video.video.ended_by(adu) {
                stats.frames.late(kind);
            }
            return;
        }
        if adu.chunk >= self.cached_video.video.count() {
            return;
        }
        if adu.chunk > self.next {
            let now = self.now();
            self.passed.get_or_insert(now);
        }
        self.assembly(adu.chunk).put_enhanced(adu);
    }

    /// True if the chunk is to be finished now.
    fn is_due(&self, deadline: Option<Instant>) -> bool {
        if self.next >= self.cached_video.video.count() {
            return false;
        }
        let assembly = self.arriving.get(&self.next);
        let has_essential = assembly.is_some_and(|assembly| assembly.essential().is_some())
            || self.essential_next > self.next;
        let state = State {
            has_essential,
            adus: assembly.map_or(0, Assembly::adus),
            sent: self.sent.get(&self.next).copied(),
            passed: self.passed,
            deadline,
        };
        state.is_due(self.now())
    }

    /// True if lost frames of the chunk are being sent again; requests them when that is possible.
    fn repairs(&mut self) -> bool {
        match &self.repair {
            Repair::Asked(..) => return true,
            Repair::Done => return false,
            Repair::Open => {}
        }
        self.repair = Repair::Done;
        let cached_video = &self.cached_video;
        let (Some(assembly), Some(line)) = (
            self.arriving.get(&self.next),
            cached_video.shared.pipe.line_now(),
        ) else {
            return false;
        };
        let enhanced = cached_video.video.bytes(self.next, media::Part::Enhanced);
        let sent = self.sent.get(&self.next);
        let left_out = sent.map_or(0, |sent| sent.left_out);
        let frames = to_repair(&assembly.missing(), enhanced, left_out);
        if frames.is_empty() || !cached_video.shared.config.repairs {
            return false;
        }
        let (done, coming) = oneshot::channel();
        let (video, chunk, wanted) = (cached_video.video.clone(), self.next, frames.clone());
        tokio::spawn(async move {
            let asking = line.repair(&video, chunk, wanted);
            if let Ok(Ok(data)) = tokio::time::timeout(REPAIR_MAX, asking).await {
                // The waiting task may be gone.
                let _ = done.send(data);
            }
        });
        self.repair = Repair::Asked(frames, coming);
        true
    }

    fn take_repaired(&mut self, data: Option<Bytes>) {
        let before = std::mem::replace(&mut self.repair, Repair::Done);
        if let (Repair::Asked(frames, _), Some(data)) = (before, data)
            && let Some(assembly) = self.arriving.get_mut(&self.next)
            && assembly.put_frames(&frames, &data)
        {
            let repaired = &self.cached_video.shared.stats.repaired;
            repaired.add(frames.len() as u64);
        }
    }

    /// Finishes the chunk; false when its essential part is not available, and was requested again.
    async fn finish(&mut self) -> Result<bool, Refusal> {
        let chunk = self.next;
        let cached_video = self.cached_video.clone();
        let shared = &cached_video.shared;
        let has_own = self
            .arriving
            .get(&chunk)
            .is_some_and(|assembly| assembly.essential().is_some());
        let essential = if has_own {
            None
        } else {
            match shared.load(cached_video.key, Part::Essential(chunk)).await {
                Some(essential) => Some(essential),
                // Evicted or damaged in the meantime.
                None => {
                    let line = shared.pipe.line(TIMEOUT).await?;
                    let essential = media::Part::Essential;
                    Some(line.fetch(&cached_video.video, chunk, essential).await?)
                }
            }
        };
        let new = || Assembly::new(cached_video.video.clone(), chunk);
        let assembly = self.arriving.remove(&chunk).unwrap_or_else(new);
        if let Some(sent) = self.sent.get(&chunk) {
            shared.stats.thinned.add(sent.left_out.into());
            let packets = (sent.adus, assembly.adus());
            shared.stats.sent_adus.add(packets.0.into());
            let arrived = packets.1.min(packets.0);
            shared.stats.arrived_adus.add(arrived.into());
            self.place
                .finished(&cached_video.video, chunk, packets, sent.left_out);
        }
        let Some(content) = assembly.finish(essential) else {
            return Err(broken("the origin sent another chunk than requested"));
        };
        let frames = &shared.stats.frames;
        for part in [media::Part::Essential, media::Part::Enhanced] {
            for frame in cached_video.video.frames(chunk, part) {
                frames.sent(cached_video.video.kind(frame), 1);
            }
        }
        frames.lost(&content.missing);
        let thinned = self.sent.get(&chunk).map_or(0, |sent| sent.left_out);
        let lost = content.missing.total().saturating_sub(thinned);
        shared.stats.lost_on_the_way.add(lost.into());
        self.sent.retain(|&sent, _| sent > chunk);
        self.next = chunk + 1;
        self.repair = Repair::Open;
        let later = self.arriving.range(self.next + 1..);
        self.passed = later
            .into_iter()
            .any(|(_, assembly)| assembly.adus() > 0)
            .then(|| cached_video.shared.clock.now());
        let (class, stored) = (cached_video.class(chunk), content.stored());
        if class == Class::Body || content.missing.total() == 0 {
            shared
                .keep(cached_video.key, Part::Enhanced(chunk), class, stored)
                .await;
        }
        cached_video.finished(self.number, content);
        Ok(true)
    }

    /// True if the following chunks are stored already, or there are none.
    fn is_enough(&self) -> bool {
        let count = self.cached_video.video.count();
        let following = self.next..count.min(self.next.saturating_add(HELD_ENOUGH));
        let mut following = following.into_iter();
        following.all(|chunk| self.cached_video.is_at_hand(chunk))
    }
}

fn broken(error: impl ToString) -> Refusal {
    Refusal {
        retry_after_s: Some(5),
        ..Refusal::new(RefusalKind::Failed, error)
    }
}

/// The answer to a repair request, when it comes; `None`: it will not.
async fn answer(repair: &mut Repair) -> Option<Bytes> {
    match repair {
        Repair::Asked(_, coming) => coming.await.ok(),
        Repair::Open | Repair::Done => std::future::pending().await,
    }
}

/// The next ADU of a stream that may not exist yet.
async fn next(stream: Option<&Stream>) -> Result<Option<Bytes>, StreamFailure> {
    match stream {
        Some(stream) => Ok(stream.recv().await?.map(|adu| adu.data)),
        None => std::future::pending().await,
    }
}
