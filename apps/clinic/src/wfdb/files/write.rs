//! Writer of a record that grows. What was appended can be read at any time, also after the program was killed: samples are in the file before
//! the header counts them, and the header is replaced in one step.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

use super::{PIECE_BYTES, failed};
use crate::wfdb::{
    Format, HEADER_BYTES_MAX, Header, Hole, Holes, INVALID, Packer, Sum, Unpacker, WfdbError,
};

/// Longest hole that is filled with invalid samples, in frames: a day at 1 kHz.
pub const HOLE_FRAMES_MAX: u64 = 86_400_000;

/// Most bytes of comments that a record takes over.
const REMARKS_BYTES_MAX: usize = 64 << 10;

/// A record that grows: one file of format 16.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    samples_path: PathBuf,
    header: Header,
    file: File,
    frames: u64,
    sums: Vec<Sum>,
    holes: Holes,
}

impl Writer {
    /// Begins a record `name` with the leads, the frequency and the comments of a header. A record of this name must not be there.
    ///
    /// # Errors
    /// A file cannot be written, or is there.
    pub fn create(folder: &Path, name: &str, like: &Header) -> Result<Self, WfdbError> {
        let mut header = like.clone();
        let mut bytes = 0;
        let fits = |remark: &&String| {
            bytes += remark.len();
            bytes <= REMARKS_BYTES_MAX
        };
        header.comments = like.remarks().take_while(fits).cloned().collect();
        name.clone_into(&mut header.name);
        for lead in &mut header.leads {
            lead.file = format!("{name}.dat");
            (lead.format, lead.offset, lead.block) = (Format::F16, 0, 0);
        }
        let [path, samples_path] = paths(folder, name);
        let mut options = OpenOptions::new();
        let file = options
            .write(true)
            .read(true)
            .create_new(true)
            .open(&samples_path);
        let file = file.map_err(|why| failed(&samples_path, why))?;
        let sums = vec![Sum::default(); header.leads.len()];
        let mut writer = Self {
            path,
            samples_path,
            header,
            file,
            frames: 0,
            sums,
            holes: Holes::default(),
        };
        writer.flush()?;
        Ok(writer)
    }

    /// Goes on with a record that [`Writer::create`] began; `None`: there is none. All of its samples are read. A frame that is not whole is
    /// dropped, and frames without any valid sample that the header does not count yet are a hole.
    ///
    /// # Errors
    /// The files are not those of such a record, or cannot be read or written.
    pub fn resume(folder: &Path, name: &str) -> Result<Option<Self>, WfdbError> {
        let [path, samples_path] = paths(folder, name);
        let text = || -> io::Result<Vec<u8>> {
            let mut bytes = Vec::new();
            let most = HEADER_BYTES_MAX as u64 + 1;
            File::open(&path)?.take(most).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let text = match text() {
            // A program that was killed before the first header left no sample, either.
            Err(why) if why.kind() == io::ErrorKind::NotFound => {
                let removed = fs::remove_file(&samples_path);
                return match removed {
                    Err(why) if why.kind() != io::ErrorKind::NotFound => {
                        Err(failed(&samples_path, why))
                    }
                    _ => Ok(None),
                };
            }
            text => text.map_err(|why| failed(&path, why))?,
        };
        let mut header = Header::read(&text)?;
        let is_ours = |lead: &crate::wfdb::Lead| {
            lead.file == format!("{name}.dat") && lead.format == Format::F16 && lead.offset == 0
        };
        if !header.leads.iter().all(is_ours) {
            let words = "it is a record of another program; give another folder";
            return Err(failed(&path, io::Error::other(words)));
        }
        let holes = Holes::of_comments(&header.comments);
        header.comments = header.remarks().cloned().collect();
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&samples_path);
        let mut writer = Self {
            file: file.map_err(|why| failed(&samples_path, why))?,
            frames: 0,
            sums: vec![Sum::default(); header.leads.len()],
            holes: Holes::default(),
            path,
            samples_path,
            header,
        };
        let counted = writer.header.frames.unwrap_or_default();
        let read = writer.recount(&holes, counted);
        read.map_err(|why| failed(&writer.samples_path, why))?;
        writer.flush()?;
        Ok(Some(writer))
    }

    /// Reads all samples. Frames without any valid one are in a hole if the header lists it, or are beyond the frames `counted` by it: a
    /// listed hole may have been filled since.
    fn recount(&mut self, holes: &Holes, counted: u64) -> io::Result<()> {
        let leads = self.sums.len();
        let mut unpacker = Unpacker::new(Format::F16);
        let mut bytes = vec![0; PIECE_BYTES];
        let mut samples = Vec::new();
        let mut found = Holes::default();
        loop {
            let read = self.file.read(&mut bytes)?;
            if read == 0 {
                break;
            }
            unpacker.push(&bytes[..read], &mut samples);
            let whole = samples.len() / leads * leads;
            for frame in samples[..whole].chunks_exact(leads) {
                let may_miss = self.frames >= counted || holes.has(self.frames);
                if may_miss && frame.iter().all(|sample| *sample == INVALID) {
                    let first = self.frames;
                    found.add(Hole { first, frames: 1 });
                }
                self.count(frame);
                self.frames += 1;
            }
            samples.drain(..whole);
        }
        self.holes = found;
        self.file.set_len(self.bytes())?;
        self.file.seek(SeekFrom::End(0))?;
        Ok(())
    }

    /// Header of the record, as it was given.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Frames of the record so far: the number of the next one.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Frames that never came.
    pub fn holes(&self) -> &Holes {
        &self.holes
    }

    fn bytes(&self) -> u64 {
        Format::F16.bytes_of(self.frames * self.sums.len() as u64)
    }

    fn count(&mut self, frame: &[i16]) {
        for (sum, sample) in self.sums.iter_mut().zip(frame) {
            sum.add(*sample, Format::F16);
        }
    }

    /// Appends frames, of which the first has this number. Those that are there already are skipped; those before it that are not become a
    /// hole, which is returned. A frame that is not whole is left out.
    ///
    /// # Errors
    /// The file cannot be written, or the hole would be longer than a day at 1 kHz. The record has the frames that it had, or those and
    /// the hole.
    pub fn append(&mut self, first: u64, samples: &[i16]) -> Result<Option<Hole>, WfdbError> {
        let leads = self.sums.len();
        let skipped = self.frames.saturating_sub(first);
        let skipped = usize::try_from(skipped)
            .unwrap_or(usize::MAX)
            .saturating_mul(leads);
        let Some(new) = samples.get(skipped..).filter(|new| new.len() >= leads) else {
            return Ok(None);
        };
        let hole = Hole {
            first: self.frames,
            frames: first.saturating_sub(self.frames),
        };
        self.dig(hole)?;
        if let Err(why) = self.write(new) {
            // Of a frame of which a part was written, nothing may stay; the hole does.
            let _ = self.cut(self.frames);
            return Err(failed(&self.samples_path, why));
        }
        let whole = new.len() / leads * leads;
        for frame in new[..whole].chunks_exact(leads) {
            self.count(frame);
        }
        self.frames += (whole / leads) as u64;
        Ok((hole.frames > 0).then_some(hole))
    }

    /// Writes frames of which the first has this number, as far as they are in holes, in their places; returns how many were. Those that the
    /// record has already stay as they are. Until the next header, the checksums on the disk are those of before.
    ///
    /// # Errors
    /// The file cannot be read or written. The holes before the one of the error are filled.
    pub fn fill(&mut self, first: u64, samples: &[i16]) -> Result<u64, WfdbError> {
        let leads = self.sums.len();
        let end = first.saturating_add((samples.len() / leads) as u64);
        let mut filled = 0;
        for hole in self.holes.within(first..end.min(self.frames)) {
            let from = (hole.first - first) as usize * leads;
            let new = &samples[from..from + hole.frames as usize * leads];
            let put = self.put(hole.first, new);
            let back = self.file.seek(SeekFrom::End(0));
            put.and_then(|()| back.map(drop))
                .map_err(|why| failed(&self.samples_path, why))?;
            self.holes.remove(hole.first..hole.end());
            filled += hole.frames;
        }
        Ok(filled)
    }

    /// Puts samples in the place of those that the file has there.
    fn put(&mut self, first: u64, new: &[i16]) -> io::Result<()> {
        let leads = self.sums.len();
        let at = SeekFrom::Start(Format::F16.bytes_of(first * leads as u64));
        let mut bytes = vec![0; 2 * new.len()];
        self.file.seek(at)?;
        self.file.read_exact(&mut bytes)?;
        let mut old = Vec::with_capacity(new.len());
        Unpacker::new(Format::F16).push(&bytes, &mut old);
        bytes.clear();
        Packer::new(Format::F16).push(new, &mut bytes);
        self.file.seek(at)?;
        self.file.write_all(&bytes)?;
        for (place, pair) in old.into_iter().zip(new.iter().copied()).enumerate() {
            let is_first = first == 0 && place < leads;
            self.sums[place % leads].replace(pair, is_first, Format::F16);
        }
        Ok(())
    }

    /// Appends invalid samples up to so many frames, and returns the hole that they are; `None`: the frames are there.
    ///
    /// # Errors
    /// As [`Writer::append`].
    pub fn extend(&mut self, frames: u64) -> Result<Option<Hole>, WfdbError> {
        let hole = Hole {
            first: self.frames,
            frames: frames.saturating_sub(self.frames),
        };
        self.dig(hole)?;
        Ok((hole.frames > 0).then_some(hole))
    }

    /// Writes a hole at the end.
    fn dig(&mut self, hole: Hole) -> Result<(), WfdbError> {
        if hole.frames > HOLE_FRAMES_MAX {
            let words = format!(
                "{} frames are missing, too many to be filled; begin another record",
                hole.frames
            );
            return Err(failed(&self.samples_path, io::Error::other(words)));
        }
        if let Err(why) = self.pad(hole.frames) {
            // Of a part that was written, nothing may stay.
            let _ = self.cut(self.frames);
            return Err(failed(&self.samples_path, why));
        }
        let invalid = vec![INVALID; self.sums.len()];
        for _ in 0..hole.frames {
            self.count(&invalid);
        }
        self.frames += hole.frames;
        self.holes.add(hole);
        Ok(())
    }

    /// Writes invalid frames at the end.
    fn pad(&mut self, frames: u64) -> io::Result<()> {
        let leads = self.sums.len();
        let at_once = (PIECE_BYTES / leads) as u64;
        let mut left = frames;
        while left > 0 {
            let now = left.min(at_once);
            self.write(&vec![INVALID; now as usize * leads])?;
            left -= now;
        }
        Ok(())
    }

    /// Writes the whole frames of these samples.
    fn write(&mut self, samples: &[i16]) -> io::Result<()> {
        let whole = samples.len() / self.sums.len() * self.sums.len();
        let mut bytes = Vec::with_capacity(2 * whole);
        Packer::new(Format::F16).push(&samples[..whole], &mut bytes);
        self.file.write_all(&bytes)
    }

    /// Drops what the file has beyond so many frames.
    fn cut(&mut self, frames: u64) -> io::Result<()> {
        self.file
            .set_len(Format::F16.bytes_of(frames * self.sums.len() as u64))?;
        self.file.seek(SeekFrom::End(0)).map(drop)
    }

    /// Writes the header: number of frames, checksums, holes.
    ///
    /// # Errors
    /// The header cannot be written; that on the disk is as it was.
    pub fn flush(&mut self) -> Result<(), WfdbError> {
        self.header.frames = Some(self.frames);
        for (lead, sum) in self.header.leads.iter_mut().zip(&self.sums) {
            lead.initial = Some(sum.first.map_or(lead.zero, i32::from));
            lead.checksum = Some(sum.checksum);
        }
        let mut text = self.header.to_text();
        self.holes.write(&mut text);
        let draft = self.path.with_extension("hea.new");
        let written = fs::write(&draft, text).and_then(|()| fs::rename(&draft, &self.path));
        written.map_err(|why| failed(&self.path, why))
    }

    /// As [`Writer::flush`], and syncs the samples to the disk.
    ///
    /// # Errors
    /// As [`Writer::flush`].
    pub fn sync(&mut self) -> Result<(), WfdbError> {
        let synced = self.file.sync_all();
        synced.map_err(|why| failed(&self.samples_path, why))?;
        self.flush()
    }
}

/// Header and samples of a record.
fn paths(folder: &Path, name: &str) -> [PathBuf; 2] {
    [
        folder.join(format!("{name}.hea")),
        folder.join(format!("{name}.dat")),
    ]
}
