//! Requests to a node that exports directories, and its answers, as bytes (`spec/exports.md`).

use bytes::Bytes;

/// Longest request.
pub const REQUEST_BYTES_MAX: usize = 8192;
/// Most bytes of a file in one answer.
pub const READ_BYTES_MAX: u32 = 1 << 20;
/// Most entries in one answer.
pub const LIST_MAX: u16 = 1000;
/// Bytes of a version.
const VERSION_BYTES: usize = 16;

/// State of the contents of a file or directory: another one after every change of size, time of modification or identity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub [u8; VERSION_BYTES]);

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The text is not that of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a version has 32 hexadecimal digits")]
pub struct ParseVersionError;

impl std::str::FromStr for Version {
    type Err = ParseVersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.len() != 2 * VERSION_BYTES {
            return Err(ParseVersionError);
        }
        let mut version = Self::default();
        for (byte, digits) in version.0.iter_mut().zip(text.as_bytes().as_chunks::<2>().0) {
            let digits = str::from_utf8(digits).map_err(|_| ParseVersionError)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| ParseVersionError)?;
        }
        Ok(version)
    }
}

/// Request, about a path: empty for the list of exports, or the name of an export, followed by parts that are joined by `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Kind, size, time and version.
    Stat {
        /// File or directory.
        path: String,
    },
    /// Entries of a directory, in the order of their bytes.
    List {
        /// Directory.
        path: String,
        /// The name after which the list begins; empty: the first.
        after: String,
        /// Most entries in the answer, 1 to [`LIST_MAX`].
        max: u16,
    },
    /// Bytes of a file. The answer has fewer where the file ends.
    Read {
        /// File.
        path: String,
        /// First byte.
        offset: u64,
        /// Number of bytes, at most [`READ_BYTES_MAX`].
        bytes: u32,
        /// Version that the file must have; `None`: any.
        version: Option<Version>,
    },
}

/// Kind of an entry. The numbers are those of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Regular file.
    File = 0,
    /// Directory.
    Directory = 1,
}

/// Attributes of a file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// Kind.
    pub kind: Kind,
    /// Size of a file; 0 of a directory.
    pub size_bytes: u64,
    /// Time of the last modification, in nanoseconds since 1970.
    pub modified_ns: i64,
    /// Version of the contents.
    pub version: Version,
}

/// Entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Name, 1 to 255 bytes.
    pub name: String,
    /// Attributes.
    pub metadata: Metadata,
}

/// Reason for which a request is not fulfilled. The numbers are those of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[repr(u8)]
#[non_exhaustive]
pub enum Fault {
    /// The peer exports nothing there, or not to this node.
    #[error("the peer has nothing there that this node may read")]
    NotFound = 1,
    /// The peer's node may not read it, or a symbolic link leads out of the export.
    #[error(
        "the peer's node may not read it: its permissions there do not allow it, or a symbolic link leads out of the export"
    )]
    NotPermitted = 2,
    /// A directory has no bytes.
    #[error("it is a directory")]
    IsDirectory = 3,
    /// A file has no entries.
    #[error("it is not a directory")]
    NotDirectory = 4,
    /// The file has another version than the one asked for.
    #[error("the file has changed since it was opened; open it again")]
    Changed = 5,
    /// The path is not valid.
    #[error("the path is not valid: parts are joined by '/' and are not '.', '..' or empty")]
    Invalid = 6,
    /// More bytes or entries than one answer has.
    #[error("more is asked for than one answer has; use the same release on both sides")]
    TooLong = 7,
    /// Neither a file nor a directory.
    #[error("it is a device, a pipe or a socket")]
    Special = 8,
    /// The node has too many files open, or the directory is being changed.
    #[error("the peer's node is busy; try again")]
    Busy = 9,
    /// The node cannot read it.
    #[error("the peer's node cannot read it; its log has the reason")]
    Failed = 10,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::NotFound,
        Self::NotPermitted,
        Self::IsDirectory,
        Self::NotDirectory,
        Self::Changed,
        Self::Invalid,
        Self::TooLong,
        Self::Special,
        Self::Busy,
        Self::Failed,
    ];
}

/// Answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is not fulfilled.
    Fault(Fault),
    /// To [`Request::Stat`].
    Stat(Metadata),
    /// To [`Request::List`].
    List {
        /// Entries, at most [`LIST_MAX`].
        entries: Vec<Entry>,
        /// True if others follow.
        has_more: bool,
    },
    /// To [`Request::Read`].
    Data {
        /// Version of the file.
        version: Version,
        /// Size of the file.
        size_bytes: u64,
        /// The bytes, at most [`READ_BYTES_MAX`].
        bytes: Bytes,
    },
}

/// The bytes are not a message of this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a message about exports; use the same release on both sides")]
pub struct DecodeError;

/// Bytes of an answer with data before the data.
const DATA_HEADER_BYTES: usize = 5 + VERSION_BYTES + 8;

fn push_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u16).to_be_bytes());
    bytes.extend(text.as_bytes());
}

fn push_metadata(bytes: &mut Vec<u8>, metadata: &Metadata) {
    bytes.push(metadata.kind as u8);
    bytes.extend(metadata.size_bytes.to_be_bytes());
    bytes.extend(metadata.modified_ns.to_be_bytes());
    bytes.extend(metadata.version.0);
}

/// The rest of a message, which is to be read.
struct Rest<'b>(&'b [u8]);

impl<'b> Rest<'b> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (array, rest) = self.0.split_first_chunk().ok_or(DecodeError)?;
        self.0 = rest;
        Ok(*array)
    }

    fn byte(&mut self) -> Result<u8, DecodeError> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn long(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_be_bytes)
    }

    fn text(&mut self, length: usize) -> Result<&'b str, DecodeError> {
        let (text, rest) = self.0.split_at_checked(length).ok_or(DecodeError)?;
        self.0 = rest;
        str::from_utf8(text).map_err(|_| DecodeError)
    }

    fn path(&mut self) -> Result<String, DecodeError> {
        let length = u16::from_be_bytes(self.array()?);
        self.text(length.into()).map(str::to_owned)
    }

    fn version(&mut self) -> Result<Version, DecodeError> {
        self.array().map(Version)
    }

    fn metadata(&mut self) -> Result<Metadata, DecodeError> {
        Ok(Metadata {
            kind: match self.byte()? {
                0 => Kind::File,
                1 => Kind::Directory,
                _ => return Err(DecodeError),
            },
            size_bytes: self.long()?,
            modified_ns: i64::from_be_bytes(self.array()?),
            version: self.version()?,
        })
    }

    fn flag(&mut self) -> Result<bool, DecodeError> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(DecodeError),
        }
    }

    fn end(&self) -> Result<(), DecodeError> {
        self.0.is_empty().then_some(()).ok_or(DecodeError)
    }
}

impl Request {
    /// The request as bytes, with its number.
    pub fn encode(&self, id: u32) -> Vec<u8> {
        let mut bytes = vec![match self {
            Self::Stat { .. } => 1,
            Self::List { .. } => 2,
            Self::Read { .. } => 3,
        }];
        bytes.extend(id.to_be_bytes());
        match self {
            Self::Stat { path } => push_text(&mut bytes, path),
            Self::List { path, after, max } => {
                push_text(&mut bytes, path);
                push_text(&mut bytes, after);
                bytes.extend(max.to_be_bytes());
            }
            Self::Read {
                path,
                offset,
                bytes: length,
                version,
            } => {
                push_text(&mut bytes, path);
                bytes.extend(offset.to_be_bytes());
                bytes.extend(length.to_be_bytes());
                bytes.push(version.is_some().into());
                bytes.extend(version.iter().flat_map(|version| version.0));
            }
        }
        bytes
    }

    /// Reads a request and its number.
    ///
    /// # Errors
    /// It is none.
    pub fn decode(bytes: &[u8]) -> Result<(u32, Self), DecodeError> {
        if bytes.len() > REQUEST_BYTES_MAX {
            return Err(DecodeError);
        }
        let mut rest = Rest(bytes);
        let kind = rest.byte()?;
        let id = u32::from_be_bytes(rest.array()?);
        let path = rest.path()?;
        let request = match kind {
            1 => Self::Stat { path },
            2 => Self::List {
                path,
                after: rest.path()?,
                max: u16::from_be_bytes(rest.array()?),
            },
            3 => Self::Read {
                path,
                offset: rest.long()?,
                bytes: u32::from_be_bytes(rest.array()?),
                version: match rest.flag()? {
                    true => Some(rest.version()?),
                    false => None,
                },
            },
            _ => return Err(DecodeError),
        };
        rest.end()?;
        Ok((id, request))
    }
}

impl Answer {
    /// The answer as bytes, with the number of its request.
    pub fn encode(&self, id: u32) -> Vec<u8> {
        let begun = |kind: u8| [&[kind][..], &id.to_be_bytes()].concat();
        match self {
            Self::Fault(fault) => {
                let mut bytes = begun(0);
                bytes.push(*fault as u8);
                bytes
            }
            Self::Stat(metadata) => {
                let mut bytes = begun(1);
                push_metadata(&mut bytes, metadata);
                bytes
            }
            Self::List { entries, has_more } => {
                let mut bytes = begun(2);
                bytes.push((*has_more).into());
                for entry in entries {
                    bytes.push(entry.name.len() as u8);
                    bytes.extend(entry.name.as_bytes());
                    push_metadata(&mut bytes, &entry.metadata);
                }
                bytes
            }
            Self::Data {
                version,
                size_bytes,
                bytes: data,
            } => {
                let mut bytes = Vec::with_capacity(DATA_HEADER_BYTES + data.len());
                bytes.extend(Self::data_header(id, *version, *size_bytes));
                bytes.extend(data);
                bytes
            }
        }
    }

    /// The beginning of an answer with data, which the data follows.
    pub(super) fn data_header(
        id: u32,
        version: Version,
        size_bytes: u64,
    ) -> [u8; DATA_HEADER_BYTES] {
        let mut header = [0; DATA_HEADER_BYTES];
        header[0] = 3;
        header[1..5].copy_from_slice(&id.to_be_bytes());
        header[5..21].copy_from_slice(&version.0);
        header[21..].copy_from_slice(&size_bytes.to_be_bytes());
        header
    }

    /// Reads an answer and the number of its request. Data is not copied.
    ///
    /// # Errors
    /// It is none.
    pub fn decode(message: &Bytes) -> Result<(u32, Self), DecodeError> {
        let mut rest = Rest(message);
        let kind = rest.byte()?;
        let id = u32::from_be_bytes(rest.array()?);
        let answer = match kind {
            0 => {
                let number = rest.byte()?;
                let mut all = Fault::ALL.into_iter();
                let fault = all.find(|fault| *fault as u8 == number);
                Self::Fault(fault.ok_or(DecodeError)?)
            }
            1 => Self::Stat(rest.metadata()?),
            2 => {
                let has_more = rest.flag()?;
                let mut entries = Vec::new();
                while !rest.0.is_empty() {
                    if entries.len() == usize::from(LIST_MAX) {
                        return Err(DecodeError);
                    }
                    let length = rest.byte()?;
                    if length == 0 {
                        return Err(DecodeError);
                    }
                    entries.push(Entry {
                        name: rest.text(length.into())?.to_owned(),
                        metadata: rest.metadata()?,
                    });
                }
                Self::List { entries, has_more }
            }
            3 => {
                let (version, size_bytes) = (rest.version()?, rest.long()?);
                if rest.0.len() > READ_BYTES_MAX as usize {
                    return Err(DecodeError);
                }
                let bytes = message.slice_ref(std::mem::take(&mut rest.0));
                Self::Data {
                    version,
                    size_bytes,
                    bytes,
                }
            }
            _ => return Err(DecodeError),
        };
        rest.end()?;
        Ok((id, answer))
    }
}

#[cfg(test)]
mod tests;
