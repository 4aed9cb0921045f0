//! Refusals: the answer to a request that is not met, with a code for programs and a text for people.

use std::{fmt, io};

/// Longest text of a refusal on the wire, in bytes.
pub const TEXT_BYTES_MAX: usize = 512;

/// Code of a refusal; 0 on the wire is acceptance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// The right `forward` does not allow the target, or is not given.
    NotAllowed,
    /// The target refused the connection.
    Refused,
    /// No route to the target.
    Unreachable,
    /// The name of the target cannot be resolved.
    NoSuchName,
    /// The target did not answer in time.
    TimedOut,
    /// There are as many connections as the node takes, or no files are left.
    TooMany,
    /// The request is of another version, or is not understood.
    Unsupported,
    /// The address to accept connections at is taken, or not available.
    AddressTaken,
    /// Another failure.
    Failed,
}

impl Code {
    /// All codes.
    pub const ALL: [Self; 9] = [
        Self::NotAllowed,
        Self::Refused,
        Self::Unreachable,
        Self::NoSuchName,
        Self::TimedOut,
        Self::TooMany,
        Self::Unsupported,
        Self::AddressTaken,
        Self::Failed,
    ];

    /// The number on the wire, from 1 on.
    pub fn number(self) -> u8 {
        match self {
            Self::NotAllowed => 1,
            Self::Refused => 2,
            Self::Unreachable => 3,
            Self::NoSuchName => 4,
            Self::TimedOut => 5,
            Self::TooMany => 6,
            Self::Unsupported => 7,
            Self::AddressTaken => 8,
            Self::Failed => 9,
        }
    }

    /// The code with this number; one that is not known is a failure.
    pub fn from_number(number: u8) -> Self {
        let mut all = Self::ALL.into_iter();
        all.find(|code| code.number() == number)
            .unwrap_or(Self::Failed)
    }

    /// Name for output.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotAllowed => "not allowed",
            Self::Refused => "refused by the target",
            Self::Unreachable => "unreachable",
            Self::NoSuchName => "no such name",
            Self::TimedOut => "timed out",
            Self::TooMany => "too many connections",
            Self::Unsupported => "not supported",
            Self::AddressTaken => "address not available",
            Self::Failed => "failed",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A request that is not met.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {text}")]
pub struct Refusal {
    /// The reason, for programs.
    pub code: Code,
    /// The reason, for people.
    pub text: String,
}

impl Refusal {
    /// Makes a refusal.
    pub fn new(code: Code, text: impl Into<String>) -> Self {
        Self {
            code,
            text: text.into(),
        }
    }

    /// Refusal for a failure of the system to connect or to accept.
    pub fn of_io(error: &io::Error) -> Self {
        let code = match error.kind() {
            io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset => Code::Refused,
            io::ErrorKind::NotFound => Code::Refused,
            io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::NetworkDown => Code::Unreachable,
            io::ErrorKind::TimedOut => Code::TimedOut,
            io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable => Code::AddressTaken,
            _ if crate::limits::is_out_of_files(error) => Code::TooMany,
            _ => Code::Failed,
        };
        Self::new(code, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_distinct_and_unknown_ones_are_failures() {
        for code in Code::ALL {
            assert_eq!(Code::from_number(code.number()), code);
        }
        assert_eq!(Code::from_number(200), Code::Failed);
    }
}
