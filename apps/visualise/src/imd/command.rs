//! Commands of a receiver.

use bytes::{Buf, BytesMut};

use super::{
    APPLY_FORCES, ATOMS_MAX, DISCONNECT, GO, HEADER_BYTES, Header, ImdError, KILL, PAUSE, RATE,
    RESUME, WAIT,
};

/// Bytes of an atom in a packet of forces to apply: its index and three floats.
const APPLIED_BYTES: usize = 16;

/// A command of a receiver to a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Frames may begin.
    Go,
    /// The simulation pauses until [`Command::Resume`].
    Pause,
    /// The simulation goes on.
    Resume,
    /// Steps from one frame to the next; less than 1 is the simulation's default.
    Rate(i32),
    /// The simulation ends.
    Kill,
    /// The connection ends.
    Disconnect,
    /// True: without a receiver, the simulation waits for one.
    Wait(bool),
    /// Forces on so many atoms; they are not kept.
    Forces(u32),
}

impl Command {
    /// The command as it is sent; of forces, the header alone.
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let (kind, value) = match self {
            Self::Go => (GO, 0),
            Self::Pause => (PAUSE, 0),
            Self::Resume => (RESUME, 0),
            Self::Rate(steps) => (RATE, steps),
            Self::Kill => (KILL, 0),
            Self::Disconnect => (DISCONNECT, 0),
            Self::Wait(is_waiting) => (WAIT, i32::from(is_waiting)),
            Self::Forces(atoms) => (APPLY_FORCES, atoms as i32),
        };
        Header { kind, value }.to_bytes()
    }
}

/// Reader of a receiver's bytes. After an error there is nothing to read.
#[derive(Debug, Default)]
pub struct Commands {
    bytes: BytesMut,
    /// Bytes of forces that are still to come, and are passed over.
    passed_over: usize,
}

impl Commands {
    /// A reader of the beginning of a connection.
    pub fn new() -> Self {
        Self::default()
    }

    /// The buffer to which received bytes are appended.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.bytes
    }

    /// The next command; `None`: more bytes are needed.
    ///
    /// # Errors
    /// The bytes are no command.
    pub fn next_command(&mut self) -> Result<Option<Command>, ImdError> {
        let over = self.passed_over.min(self.bytes.len());
        self.bytes.advance(over);
        self.passed_over -= over;
        let Some(Header { kind, value }) = Header::read(&self.bytes) else {
            return Ok(None);
        };
        let command = match kind {
            GO => Command::Go,
            PAUSE => Command::Pause,
            RESUME => Command::Resume,
            RATE => Command::Rate(value),
            KILL => Command::Kill,
            DISCONNECT => Command::Disconnect,
            WAIT => Command::Wait(value != 0),
            APPLY_FORCES => match u32::try_from(value) {
                Ok(atoms) if atoms <= ATOMS_MAX => {
                    self.passed_over = atoms as usize * APPLIED_BYTES;
                    Command::Forces(atoms)
                }
                _ => return Err(ImdError::Forces(value)),
            },
            kind => return Err(ImdError::NoCommand(kind)),
        };
        self.bytes.advance(HEADER_BYTES);
        Ok(Some(command))
    }
}
