//! Reader of a record in files. A file that is not there takes its leads with it, and no others.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

use super::{PIECE_BYTES, failed};
use crate::wfdb::{FRAMES_MAX, HEADER_BYTES_MAX, Header, Lead, Sum, Unpacker, WfdbError};

/// Leads that are left out because their file is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Name of the file.
    pub file: String,
    /// Names of its leads.
    pub leads: Vec<String>,
}

/// Reader of the frames of a record, from the first on.
#[derive(Debug)]
pub struct Reader {
    header: Header,
    missing: Vec<Missing>,
    groups: Vec<Group>,
    sums: Vec<Sum>,
    frames: u64,
    next: u64,
}

/// Leads of one file.
#[derive(Debug)]
struct Group {
    path: PathBuf,
    file: File,
    leads: usize,
    unpacker: Unpacker,
    samples: VecDeque<i16>,
}

impl Reader {
    /// Opens a record by its header.
    ///
    /// # Errors
    /// The header is wrong, no file with samples is there, or one is shorter than the header states.
    pub fn open(path: &Path) -> Result<Self, WfdbError> {
        let read = |path: &Path| {
            let mut bytes = Vec::new();
            let most = HEADER_BYTES_MAX as u64 + 1;
            File::open(path)?.take(most).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let mut header = Header::read(&read(path).map_err(|why| failed(path, why))?)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let (mut groups, mut missing, mut present) = (Vec::new(), Vec::new(), Vec::new());
        let mut held = FRAMES_MAX;
        let stated = header.frames;
        for leads in header.leads.chunk_by(|one, other| one.file == other.file) {
            match Group::open(folder, leads)? {
                None => missing.push(Missing {
                    file: leads[0].file.clone(),
                    leads: leads.iter().map(Lead::name).collect(),
                }),
                Some((group, frames)) => {
                    if let Some(stated) = stated
                        && frames < stated
                    {
                        return Err(WfdbError::Short {
                            file: leads[0].file.clone(),
                            found: frames,
                            stated,
                        });
                    }
                    held = held.min(frames);
                    groups.push(group);
                    present.extend_from_slice(leads);
                }
            }
        }
        if groups.is_empty() {
            let files: Vec<String> = missing.into_iter().map(|one| one.file).collect();
            return Err(WfdbError::NoFile(files.join(", ")));
        }
        let sums = vec![Sum::default(); present.len()];
        header.leads = present;
        let frames = stated.unwrap_or(held);
        Ok(Self {
            header,
            missing,
            groups,
            sums,
            frames,
            next: 0,
        })
    }

    /// The header, with the leads that are there.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Leads that are left out.
    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// Frames of the record.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// The next frames, at most so many: samples of all leads, frame by frame. Empty at the end.
    ///
    /// # Errors
    /// A file cannot be read, or has become shorter.
    pub fn read(&mut self, frames: usize) -> Result<Vec<i16>, WfdbError> {
        let left = self.frames - self.next;
        let frames = left.min(frames as u64) as usize;
        for group in &mut self.groups {
            let filled = group.fill(frames * group.leads);
            filled.map_err(|why| failed(&group.path, why))?;
        }
        let mut samples = Vec::with_capacity(frames * self.sums.len());
        for _ in 0..frames {
            for group in &mut self.groups {
                samples.extend(group.samples.drain(..group.leads));
            }
        }
        for frame in samples.chunks_exact(self.sums.len()) {
            for ((sum, lead), sample) in self.sums.iter_mut().zip(&self.header.leads).zip(frame) {
                sum.add(*sample, lead.format);
            }
        }
        self.next += frames as u64;
        Ok(samples)
    }

    /// Goes back to the first frame.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn rewind(&mut self) -> Result<(), WfdbError> {
        for (group, lead) in self.groups.iter_mut().zip(
            self.header
                .leads
                .chunk_by(|one, other| one.file == other.file),
        ) {
            group.samples.clear();
            group.unpacker = Unpacker::new(lead[0].format);
            let sought = group.file.seek(SeekFrom::Start(lead[0].offset));
            sought.map_err(|why| failed(&group.path, why))?;
        }
        self.sums.fill(Sum::default());
        self.next = 0;
        Ok(())
    }

    /// Deviations of the samples from checksums and first samples of the header, once all frames were read; before, there are none.
    pub fn deviations(&self) -> Vec<String> {
        let is_whole = self.next == self.frames && self.frames > 0;
        let leads = self.header.leads.iter().filter(|_| is_whole);
        self.sums
            .iter()
            .zip(leads)
            .filter_map(|(sum, lead)| sum.deviation(lead))
            .collect()
    }
}

impl Group {
    /// Opens the file of these leads, and counts its whole frames; `None`: it is not there.
    fn open(folder: &Path, leads: &[Lead]) -> Result<Option<(Self, u64)>, WfdbError> {
        let lead = &leads[0];
        let path = folder.join(&lead.file);
        let opened = || -> io::Result<(File, u64)> {
            let mut file = File::open(&path)?;
            let about = file.metadata()?;
            if !about.is_file() {
                return Err(io::Error::other("it is no file"));
            }
            file.seek(SeekFrom::Start(lead.offset))?;
            Ok((file, about.len().saturating_sub(lead.offset)))
        };
        let (file, bytes) = match opened() {
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(|why| failed(&path, why))?,
        };
        let frames = lead.format.samples_in(bytes) / leads.len() as u64;
        let group = Self {
            path,
            file,
            leads: leads.len(),
            unpacker: Unpacker::new(lead.format),
            samples: VecDeque::new(),
        };
        Ok(Some((group, frames)))
    }

    /// Reads until there are so many samples.
    fn fill(&mut self, samples: usize) -> io::Result<()> {
        let mut bytes = vec![0; PIECE_BYTES];
        let mut new = Vec::new();
        while self.samples.len() < samples {
            let read = self.file.read(&mut bytes)?;
            match read {
                0 => self.unpacker.finish(&mut new),
                read => self.unpacker.push(&bytes[..read], &mut new),
            }
            self.samples.extend(new.drain(..));
            if read == 0 && self.samples.len() < samples {
                let words = "it became shorter while it was read";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, words));
            }
        }
        Ok(())
    }
}
