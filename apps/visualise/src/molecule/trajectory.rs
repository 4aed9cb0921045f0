//! Positions by the number of their frame, from a file or generated.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use super::{
    Dcd, Generated, MoleculeError, Position, TOPOLOGY_BYTES_MAX, Topology, dcd::HEAD_BYTES_MAX, psf,
};

/// Frames of a generated trajectory, after which it is where it was at the beginning.
const GENERATED_FRAMES: u64 = 250;

/// A molecule that moves. A file is read frame by frame.
#[derive(Debug)]
pub struct Trajectory {
    topology: Topology,
    frames: u64,
    from: From,
}

#[derive(Debug)]
enum From {
    File { path: PathBuf, file: File, dcd: Dcd },
    Generated(Generated),
}

impl Trajectory {
    /// Opens a topology and a trajectory.
    ///
    /// # Errors
    /// One of them cannot be read, or they are of different molecules.
    pub fn open(topology: &Path, trajectory: &Path) -> Result<Self, MoleculeError> {
        let topology = read_topology(topology)?;
        let failed = |why| failed(trajectory, why);
        let mut file = File::open(trajectory).map_err(failed)?;
        let mut head = Vec::new();
        let beginning = (&mut file).take(HEAD_BYTES_MAX as u64);
        { beginning }.read_to_end(&mut head).map_err(failed)?;
        let dcd = Dcd::read(&head)?;
        if dcd.atoms != topology.atoms() {
            return Err(MoleculeError::Uneven {
                topology: topology.atoms(),
                trajectory: dcd.atoms,
            });
        }
        let frames = dcd.frames_in(file.metadata().map_err(failed)?.len());
        if frames == 0 {
            let words = "it has no whole frame";
            return Err(MoleculeError::Dcd(words.to_owned()));
        }
        Ok(Self {
            topology,
            frames,
            from: From::File {
                path: trajectory.to_owned(),
                file,
                dcd,
            },
        })
    }

    /// A generated molecule with so many atoms.
    ///
    /// # Errors
    /// There are more than can be shown.
    pub fn generated(atoms: u32) -> Result<Self, MoleculeError> {
        let generated = Generated::new(atoms)?;
        Ok(Self {
            topology: generated.topology(),
            frames: GENERATED_FRAMES,
            from: From::Generated(generated),
        })
    }

    /// Atoms and bonds.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Number of frames; at least one.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Positions of a frame, whose number is less than that of the frames. Reads a file, and so may block.
    ///
    /// # Errors
    /// The file cannot be read, has become shorter, or is damaged there.
    pub fn frame(&mut self, frame: u64) -> Result<Vec<Position>, MoleculeError> {
        match &mut self.from {
            From::File { path, file, dcd } => {
                let mut bytes = vec![0; dcd.frame_bytes()];
                let read = file.seek(SeekFrom::Start(dcd.frame_at(frame)));
                let read = read.and_then(|_| file.read_exact(&mut bytes));
                read.map_err(|why| failed(path, why))?;
                dcd.frame(&bytes)
            }
            From::Generated(generated) => Ok(generated.frame(frame)),
        }
    }
}

fn failed(file: &Path, why: std::io::Error) -> MoleculeError {
    let file = file.display().to_string();
    MoleculeError::File { file, why }
}

fn read_topology(path: &Path) -> Result<Topology, MoleculeError> {
    let failed = |why| failed(path, why);
    let file = File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    let mut limited = file.take(TOPOLOGY_BYTES_MAX + 1);
    limited.read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > TOPOLOGY_BYTES_MAX {
        let words = format!("it is larger than {} MiB", TOPOLOGY_BYTES_MAX >> 20);
        return Err(MoleculeError::Psf(words));
    }
    // Titles can be in any encoding; what is read is ASCII.
    psf::read(&String::from_utf8_lossy(&bytes))
}
