//! File of speech that grows (Ogg Opus). It can be read at any time.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::Path,
};

use super::{Pages, Place, Reader};

/// Bytes that are read at a time.
const PIECE_BYTES: usize = 64 << 10;

/// The file.
#[derive(Debug)]
pub struct Track {
    file: File,
    /// Bytes of whole pages.
    bytes: u64,
    pages: Pages,
}

impl Track {
    /// Opens a file, or makes it; `serial` is the number of a new stream. What is there goes on after the last page that is whole, and what
    /// is no page is written anew. O(bytes of the file).
    ///
    /// # Errors
    /// It cannot be read or written.
    pub fn open(path: &Path, serial: u32) -> io::Result<Self> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        let (mut reader, mut pages) = (Reader::default(), Pages::new(serial));
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let read = file.read(&mut piece)?;
            let there = reader.push(&piece[..read]).unwrap_or_default();
            there.iter().for_each(|packet| pages.follow(packet));
            if there.is_empty() {
                break;
            }
        }
        let bytes = reader.read();
        let mut track = Self { file, bytes, pages };
        track.cut()?;
        Ok(track)
    }

    /// Place after the last packet.
    pub const fn next(&self) -> Place {
        self.pages.next()
    }

    fn cut(&mut self) -> io::Result<()> {
        self.file.set_len(self.bytes)?;
        self.file.seek(SeekFrom::Start(self.bytes)).map(drop)
    }

    /// Appends a packet at a place, and concealment before it where none came. A packet before the end of the file is left out.
    ///
    /// # Errors
    /// The file cannot be written; nothing of this is in it.
    pub fn append(&mut self, place: Place, packet: &[u8]) -> io::Result<()> {
        let mut pages = self.pages;
        let bytes = pages.put(place, packet);
        if let Err(why) = self.file.write_all(&bytes) {
            // Of a page that was written in part, nothing may stay.
            let _ = self.cut();
            return Err(why);
        }
        self.bytes += bytes.len() as u64;
        self.pages = pages;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::speech::Source;

    fn packets(path: &Path) -> Vec<Vec<u8>> {
        let mut source = Source::default();
        source.push(&fs::read(path).unwrap()).unwrap()
    }

    #[test]
    fn a_file_goes_on_after_the_last_page_that_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("speech.opus");
        let mut track = Track::open(&path, 5).unwrap();
        track.append(0, &[8, 1]).unwrap();
        track.append(2, &[8, 2]).unwrap();
        drop(track);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, [&whole[..], b"OggS\0\0"].concat()).unwrap();
        let mut track = Track::open(&path, 6).unwrap();
        assert_eq!(track.next(), 3);
        track.append(3, &[8, 3]).unwrap();
        assert_eq!(
            packets(&path),
            [vec![8, 1], vec![8], vec![8, 2], vec![8, 3]]
        );
        fs::write(&path, b"something else").unwrap();
        let mut track = Track::open(&path, 7).unwrap();
        track.append(0, &[8, 4]).unwrap();
        assert_eq!(packets(&path), [[8, 4]]);
    }
}
