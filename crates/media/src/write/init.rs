//! Init segments: the movie box without samples.

use bytes::Bytes;

use super::boxes::Writer;
use crate::index::{Index, Track, TrackKind};

/// Ticks per second of the movie's own times.
const MOVIE_TIMESCALE: u32 = 1_000;

/// Writes the init segment of some tracks, by position: 'ftyp' and 'moov'. A pure function of the index; track ids are
/// those of the file. An edit list preserves the start of the film.
pub fn init_segment(index: &Index, tracks: &[usize]) -> Bytes {
    let mut w = Writer::default();
    w.boxed(b"ftyp", |w| {
        w.bytes(b"iso6");
        w.u32(0);
        w.bytes(b"iso6cmfcmp41");
    });
    w.boxed(b"moov", |w| {
        w.full(b"mvhd", 0, 0, |w| {
            w.u32(0);
            w.u32(0);
            w.u32(MOVIE_TIMESCALE);
            w.u32(0);
            w.u32(0x1_0000);
            w.u16(0x100);
            w.zeros(10);
            matrix(w);
            w.zeros(24);
            let next = tracks.iter().map(|&place| index.tracks[place].id).max();
            w.u32(next.map_or(1, |id| id.saturating_add(1)));
        });
        for &place in tracks {
            trak(w, &index.tracks[place]);
        }
        w.boxed(b"mvex", |w| {
            w.full(b"mehd", 1, 0, |w| {
                w.u64(u64::try_from(index.duration.as_millis()).unwrap_or(u64::MAX));
            });
            for &place in tracks {
                w.full(b"trex", 0, 0, |w| {
                    w.u32(index.tracks[place].id);
                    w.u32(1);
                    w.zeros(12);
                });
            }
        });
    });
    w.0.into()
}

fn matrix(w: &mut Writer) {
    for value in [0x1_0000, 0, 0, 0, 0x1_0000, 0, 0, 0, 0x4000_0000] {
        w.u32(value);
    }
}

fn trak(w: &mut Writer, track: &Track) {
    w.boxed(b"trak", |w| {
        // Enabled, in the movie, in the preview.
        w.full(b"tkhd", 0, 7, |w| {
            w.u32(0);
            w.u32(0);
            w.u32(track.id);
            w.zeros(4);
            w.u32(0);
            w.zeros(8);
            w.u16(0);
            // Alternative tracks: none.
            w.u16(0);
            w.u16(if track.is_video() { 0 } else { 0x100 });
            w.u16(0);
            matrix(w);
            let (width, height) = match track.kind {
                TrackKind::Video { width, height } => (width, height),
                TrackKind::Audio { .. } => (0, 0),
            };
            w.u32(u32::from(width) << 16);
            w.u32(u32::from(height) << 16);
        });
        if track.media_time != 0 {
            w.boxed(b"edts", |w| {
                w.full(b"elst", 1, 0, |w| {
                    w.u32(1);
                    // Length 0: everything in the fragments.
                    w.u64(0);
                    w.u64(track.media_time);
                    w.u32(0x1_0000);
                });
            });
        }
        w.boxed(b"mdia", |w| {
            w.full(b"mdhd", 0, 0, |w| {
                w.u32(0);
                w.u32(0);
                w.u32(track.timescale);
                w.u32(0);
                let letters = track.language.iter();
                w.u16(letters.fold(0, |code, &letter| code << 5 | u16::from(letter - 0x60)));
                w.u16(0);
            });
            w.full(b"hdlr", 0, 0, |w| {
                w.u32(0);
                w.bytes(if track.is_video() { b"vide" } else { b"soun" });
                w.zeros(13);
            });
            w.boxed(b"minf", |w| {
                if track.is_video() {
                    w.full(b"vmhd", 0, 1, |w| w.zeros(8));
                } else {
                    w.full(b"smhd", 0, 0, |w| w.zeros(4));
                }
                w.boxed(b"dinf", |w| {
                    w.full(b"dref", 0, 0, |w| {
                        w.u32(1);
                        w.full(b"url ", 0, 1, |_| {});
                    });
                });
                w.boxed(b"stbl", |w| {
                    w.full(b"stsd", 0, 0, |w| {
                        w.u32(1);
                        w.bytes(&track.entry);
                    });
                    w.full(b"stts", 0, 0, |w| w.u32(0));
                    w.full(b"stsc", 0, 0, |w| w.u32(0));
                    w.full(b"stsz", 0, 0, |w| w.zeros(8));
                    w.full(b"stco", 0, 0, |w| w.u32(0));
                });
            });
        });
    });
}
