//! The application: streams between an ambulance and its hospital.

use std::{path::Path, sync::Arc, time::Duration};

use anabranch_base::{Rate, Seed};
use anabranch_clinic::{
    ambulance::{Question, Thinner, streams},
    wire::Purpose,
};
use anabranch_session::{Chances, FieldValue, StreamSpec};
use bytes::{BufMut, Bytes, BytesMut};

use crate::kit::{corpus::DATA_FOLDERS, sources::frames::FrameSizes};

/// Rate of the video: about that of television quality [Horde §1.1].
pub const VIDEO: Rate = Rate::from_kbps(1_000);
/// A film, below a folder of data; the first of its frames used, and their number.
const FILM: &str = "video/starwars_mpeg1.csv";
const PART: (usize, usize) = (24_000, 12_000);
/// Number of frames of a generated film, and distance between its I frames.
const FRAMES: usize = 9_600;
const GROUP: usize = 12;
/// A record of twelve leads, 16 bit a sample, 1,000 samples a second; below a folder of data.
const RECORD: &str = "media/s0010_re.dat";
const RECORD_BYTES_PER_MS: usize = 24;
const LEADS: usize = 12;
const FREQUENCY: f64 = 1_000.0;
/// Duration of one ADU of audio: that of packets of a conversation.
const TALK: Duration = Duration::from_millis(20);
/// Duration of one ADU of the EKG: that of one packet.
const BEAT: Duration = Duration::from_millis(40);
/// Bytes before the content, for the number of the ADU.
const HEAD_BYTES: usize = 8;

/// Sender of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Opens the session.
    Ambulance,
    /// Accepts it.
    Hospital,
}

/// A stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feed {
    /// Name in rows.
    pub name: &'static str,
    /// Its sender.
    pub side: Side,
    /// Its purpose in the application, of which it has the demands.
    pub purpose: Purpose,
}

/// The streams. Each side opens its own in this order, so that they are 0, 2, 4, and 1.
pub const FEEDS: [Feed; 4] = [
    Feed {
        name: "video",
        side: Side::Ambulance,
        purpose: Purpose::Video,
    },
    Feed {
        name: "audio_up",
        side: Side::Ambulance,
        purpose: Purpose::SpeechUp,
    },
    Feed {
        name: "ekg",
        side: Side::Ambulance,
        purpose: Purpose::Ekg,
    },
    Feed {
        name: "audio_down",
        side: Side::Hospital,
        purpose: Purpose::SpeechDown,
    },
];
/// Index in [`FEEDS`] of the video.
pub const VIDEO_FEED: usize = 0;
const EKG_FEED: usize = 2;
/// Bytes of 64 kbit/s and 24 kbit/s in [`TALK`].
const TALK_BYTES: [usize; 2] = [160, 60];

/// Kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Picture {
    /// True if it needs no other frame.
    pub is_key: bool,
    /// Number of I frames up to it, itself included: the group that it belongs to.
    pub group: u64,
}

/// Contents of all streams.
#[derive(Clone, Debug)]
pub struct Clinic {
    /// For each frame its bytes, and the number of I frames so far in the film; the first is an I frame.
    frames: Arc<[(usize, u64)]>,
    groups: u64,
    period: Duration,
    record: Bytes,
    filler: Bytes,
    /// Origin of the video: the film's name, or `generated`.
    pub film: &'static str,
    /// Origin of the EKG: the record's name, or `generated`.
    pub ekg: &'static str,
}

impl Feed {
    /// The stream as the application opens it: of the video, lost parts are sent again if it `is_repaired`.
    pub fn spec(&self, is_repaired: bool) -> StreamSpec {
        match self.purpose {
            Purpose::Video => streams::video(is_repaired),
            Purpose::SpeechUp => streams::speech(),
            Purpose::Ekg => streams::record(LEADS, FREQUENCY, true),
            other => streams::spec(other),
        }
    }

    /// Time from the production of an ADU until it is of no use.
    pub fn lifetime(&self) -> Duration {
        let spec = streams::spec(self.purpose);
        spec.lifetime.unwrap_or(Duration::MAX)
    }

    /// The feed of a stream with this label.
    pub fn of_label(label: &str) -> Option<usize> {
        FEEDS.iter().position(|feed| feed.purpose.label() == label)
    }
}

impl Clinic {
    /// The recorded film and EKG if there is a folder of data, else generated ones.
    pub fn recorded(seed: Seed) -> Self {
        let roots = || DATA_FOLDERS.iter().map(Path::new);
        let film = roots().find_map(|root| std::fs::read_to_string(root.join(FILM)).ok());
        let record = roots().find_map(|root| std::fs::read(root.join(RECORD)).ok());
        let mut clinic = Self::generated(seed);
        if let Some((sizes, keys)) = film.and_then(|text| parse_film(&text)) {
            clinic = clinic.with_film(&sizes, &keys);
            clinic.film = "starwars";
        }
        if let Some(record) = record.filter(|bytes| bytes.len() >= record_bytes()) {
            clinic.record = record.into();
            clinic.ekg = "s0010_re";
        }
        clinic
    }

    /// A generated film with groups of 12 frames, and a generated EKG.
    pub fn generated(seed: Seed) -> Self {
        let film = FrameSizes::generated(FRAMES, seed);
        let keys: Vec<bool> = (0..FRAMES).map(|frame| frame % GROUP == 0).collect();
        let empty = Self {
            frames: Arc::default(),
            groups: 0,
            period: film.period,
            record: beats(seed),
            filler: Bytes::new(),
            film: "generated",
            ekg: "generated",
        };
        empty.with_film(&film, &keys)
    }

    /// Sets the film, scaled to [`VIDEO`]; frames before the first I frame move to the end.
    fn with_film(mut self, sizes: &FrameSizes, keys: &[bool]) -> Self {
        let first = keys.iter().position(|&is_key| is_key).unwrap_or(0);
        let scaled = sizes.at_mean(VIDEO.as_bps() as f64);
        let whole = |size: f64| size.round().max((HEAD_BYTES + 1) as f64) as usize;
        self.groups = 0;
        let mut frames: Vec<(usize, u64)> = Vec::with_capacity(keys.len());
        for at in (first..keys.len()).chain(0..first) {
            self.groups += u64::from(keys[at]);
            frames.push((whole(scaled.bytes[at]), self.groups));
        }
        let largest = frames.iter().map(|frame| frame.0).max().unwrap_or(0);
        self.filler = (0..largest).map(|index| (index % 253) as u8).collect();
        self.frames = frames.into();
        self.period = scaled.period;
        self
    }

    /// Time between two ADUs of a stream.
    pub fn period(&self, feed: usize) -> Duration {
        match feed {
            VIDEO_FEED => self.period,
            EKG_FEED => BEAT,
            _ => TALK,
        }
    }

    /// Time at which an ADU is produced, since the beginning.
    pub fn made_at(&self, feed: usize, number: u64) -> Duration {
        Duration::from_nanos(self.period(feed).as_nanos() as u64 * number)
    }

    /// First ADU of a stream that is produced at this time or later.
    pub fn first_at(&self, feed: usize, at: Duration) -> u64 {
        at.as_nanos().div_ceil(self.period(feed).as_nanos()) as u64
    }

    /// Kind of frame `number`.
    pub fn picture(&self, number: u64) -> Picture {
        let count = self.frames.len() as u64;
        let (lap, at) = (number / count, (number % count) as usize);
        let group = self.frames[at].1;
        let before = at.checked_sub(1).map_or(0, |before| self.frames[before].1);
        Picture {
            is_key: group != before,
            group: lap * self.groups + group,
        }
    }

    /// True if frame `number` is sent, as the application decides; `chances` answers what it asks. Frames are given in order.
    pub fn fits(
        &self,
        thinner: &mut Thinner,
        number: u64,
        chances: impl Fn(Question) -> Option<Chances>,
    ) -> bool {
        let at = self.made_at(VIDEO_FEED, number);
        let is_key = self.picture(number).is_key;
        let lifetime = FEEDS[VIDEO_FEED].lifetime();
        let asked = thinner.asks(at, is_key, self.frame_bytes(number), lifetime);
        let unless_lost = |question| chances(question).map(|chances| chances.unless_lost);
        thinner.takes(asked.into_iter().flatten().flatten().map(unless_lost))
    }

    /// Bytes of frame `number`.
    fn frame_bytes(&self, number: u64) -> usize {
        self.frames[(number % self.frames.len() as u64) as usize].0
    }

    /// The ADU, preceded by its number. O(bytes).
    pub fn adu(&self, feed: usize, number: u64) -> Bytes {
        let content = match feed {
            VIDEO_FEED => self.filler.slice(..self.frame_bytes(number) - HEAD_BYTES),
            EKG_FEED => {
                let bytes = record_bytes();
                let pieces = (self.record.len() / bytes) as u64;
                let begin = (number % pieces) as usize * bytes;
                self.record.slice(begin..begin + bytes)
            }
            up_or_down => {
                let bytes = TALK_BYTES[usize::from(up_or_down > EKG_FEED)] - HEAD_BYTES;
                self.filler.slice(..bytes.min(self.filler.len()))
            }
        };
        let mut data = BytesMut::with_capacity(HEAD_BYTES + content.len());
        data.put_u64(number);
        data.put(content);
        data.freeze()
    }

    /// Number of an ADU that arrived; `None` if it is not one of ours.
    pub fn number(data: &[u8]) -> Option<u64> {
        let head = data.first_chunk::<HEAD_BYTES>()?;
        Some(u64::from_be_bytes(*head))
    }

    /// Header fields of an ADU: its properties, for objectives.
    pub fn fields(&self, feed: usize, number: u64) -> Vec<(&'static str, FieldValue<'static>)> {
        if feed != VIDEO_FEED {
            return Vec::new();
        }
        let picture = self.picture(number);
        let kind = if picture.is_key { "I" } else { "P" };
        vec![
            ("frame_type", FieldValue::Text(kind)),
            ("group", FieldValue::Number(picture.group as f64)),
        ]
    }

    /// Average rate of a side, in bits per second.
    pub fn offered_bps(&self, side: Side) -> f64 {
        let rate = |feed: usize| match feed {
            VIDEO_FEED => VIDEO.as_bps() as f64,
            EKG_FEED => (HEAD_BYTES + record_bytes()) as f64 * 8.0 / BEAT.as_secs_f64(),
            up_or_down => {
                let bytes = TALK_BYTES[usize::from(up_or_down > EKG_FEED)];
                bytes as f64 * 8.0 / TALK.as_secs_f64()
            }
        };
        let own = (0..FEEDS.len()).filter(|&feed| FEEDS[feed].side == side);
        own.map(rate).sum()
    }
}

const fn record_bytes() -> usize {
    RECORD_BYTES_PER_MS * BEAT.as_millis() as usize
}

/// Part of the film that is shown, and its I frames.
fn parse_film(text: &str) -> Option<(FrameSizes, Vec<bool>)> {
    let sizes = FrameSizes::parse(FILM, text).ok()?;
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let header = lines.next()?;
    let column = header.split(',').position(|name| name.trim() == "type")?;
    let keys: Vec<bool> = lines
        .map(|line| line.split(',').nth(column).map(str::trim) == Some("I"))
        .collect();
    let part: Vec<bool> = keys
        .iter()
        .cycle()
        .skip(PART.0)
        .take(PART.1)
        .copied()
        .collect();
    let has_key = part.contains(&true);
    has_key.then(|| (sizes.part(PART.0, PART.1), part))
}

/// Ten seconds of twelve leads: a beat a second with a sharp peak and two hills, each lead of its own size, and noise.
fn beats(seed: Seed) -> Bytes {
    let mut random = seed.stream("ekg");
    let hill = |at: f64, middle: f64, width: f64| (-((at - middle) / width).powi(2)).exp();
    let mut record = BytesMut::with_capacity(10_000 * RECORD_BYTES_PER_MS);
    for ms in 0..10_000_u32 {
        let at = f64::from(ms % 1_000) / 1e3;
        let wave = 150.0 * hill(at, 0.2, 0.03)
            + 1_200.0 * hill(at, 0.35, 0.012)
            + 300.0 * hill(at, 0.6, 0.06);
        for lead in 0..RECORD_BYTES_PER_MS / 2 {
            let value = wave * (1.0 - lead as f64 / 9.0) + random.normal(0.0, 10.0);
            record.put_i16_le(value as i16);
        }
    }
    record.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adus_have_the_rates_and_fields_they_should() {
        let clinic = Clinic::generated(Seed(1));
        let frames = FRAMES as u64;
        let bytes: usize = (0..frames).map(|n| clinic.adu(VIDEO_FEED, n).len()).sum();
        let bps = bytes as f64 * 8.0 / clinic.made_at(VIDEO_FEED, frames).as_secs_f64();
        assert!((bps / 1e6 - 1.0).abs() < 1e-3, "{bps}");
        assert_eq!(clinic.adu(1, 7).len(), 160);
        assert_eq!(clinic.adu(3, 7).len(), 60);
        assert_eq!(clinic.adu(EKG_FEED, 1 << 40).len(), 968);
        assert_eq!(Clinic::number(&clinic.adu(3, 77)), Some(77));
        assert_eq!(Clinic::number(b"short"), None);
        let (up, down) = (
            clinic.offered_bps(Side::Ambulance),
            clinic.offered_bps(Side::Hospital),
        );
        assert!((up - 1_257.6e3).abs() < 1e-3 && (down - 24e3).abs() < 1e-3);
    }

    #[test]
    fn groups_go_on_over_the_end_of_the_film() {
        let clinic = Clinic::generated(Seed(1));
        let of = |number| {
            let picture = clinic.picture(number);
            (picture.is_key, picture.group)
        };
        assert_eq!(
            [of(0), of(1), of(11), of(12)],
            [(true, 1), (false, 1), (false, 1), (true, 2)]
        );
        let groups = (FRAMES / GROUP) as u64;
        assert_eq!(of(FRAMES as u64 - 1), (false, groups));
        assert_eq!(of(FRAMES as u64), (true, groups + 1));
        assert!(clinic.fields(1, 3).is_empty());
        assert_eq!(
            clinic.fields(VIDEO_FEED, 3)[0],
            ("frame_type", FieldValue::Text("P"))
        );
    }

    #[test]
    fn a_film_begins_with_an_i_frame() {
        let mut text = String::from("frame,type,bytes,pts_s\n");
        for frame in 0..40 {
            let kind = if frame % 12 == 10 { "I" } else { "B" };
            text += &format!(
                "{frame},{kind},{},{}\n",
                100 + frame,
                f64::from(frame) / 24.0
            );
        }
        let (sizes, keys) = parse_film(&text).unwrap();
        let clinic = Clinic::generated(Seed(1)).with_film(&sizes, &keys);
        assert!(clinic.picture(0).is_key);
        assert!(!clinic.picture(1).is_key);
        assert!(parse_film("frame,bytes,pts_s\n0,1,0\n1,1,1\n").is_none());
    }
}
