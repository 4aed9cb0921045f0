//! Tickets of an origin: one for each proxy, kept in a file, which may change while the origin runs.
//!
//! The file holds digests: a reader of the file cannot use the tickets.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use anabranch::{
    base::ids::encode_base32,
    base::text::{REASON_CHARS, printable},
    ticket::{SECRET_BYTES, Secret},
};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// Name of the ticket that an origin makes by itself.
pub const FIRST: &str = "default";
/// Maximum number of tickets of an origin.
pub const TICKETS_MAX: usize = 1_000;
/// Maximum length of a ticket's name.
pub const NAME_BYTES_MAX: usize = 64;
/// Maximum size of the file; a larger one is not an origin's.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Size of a digest.
const DIGEST_BYTES: usize = 32;

/// Reason for which tickets cannot be read or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TicketsError {
    /// The file cannot be read or written.
    #[error("the tickets in {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The file holds something else.
    #[error(
        "{} is not a valid file of tickets ({why}); restore it, or remove it to begin anew with the first ticket only", path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Reason.
        why: String,
    },
    /// The name is not valid.
    #[error(
        "'{}' is not a valid name of a ticket; use 1 to {NAME_BYTES_MAX} letters, digits, '.', '-' and '_'", printable(.0, REASON_CHARS)
    )]
    Name(String),
    /// A ticket of this name exists.
    #[error("there is a ticket '{0}' already; revoke it first, or choose another name")]
    Taken(String),
    /// There is no such ticket.
    #[error("there is no ticket '{0}'; `anabranch video ticket ls` lists them")]
    Unknown(String),
    /// There are too many tickets.
    #[error("there are {TICKETS_MAX} tickets, which is the maximum; revoke some that are not used")]
    Full,
}

/// Record of a ticket in the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    name: String,
    /// In hexadecimal.
    digest: String,
}

#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    tickets: Vec<Kept>,
}

/// A valid ticket: its name, and the digest of its secret.
#[derive(Clone, Debug)]
pub(super) struct Good {
    pub(super) name: String,
    digest: blake3::Hash,
}

/// The valid tickets.
#[derive(Debug)]
pub struct Tickets {
    path: Option<PathBuf>,
    state: Mutex<State>,
    /// Number of changes.
    changed: watch::Sender<u64>,
}

#[derive(Debug)]
struct State {
    tickets: Vec<Good>,
    /// Length and time of the file when it was last read.
    seen: Option<(u64, SystemTime)>,
}

fn digest(secret: &str) -> blake3::Hash {
    let context = "anabranch 2026-11 video origin ticket digest";
    blake3::derive_key(context, secret.as_bytes()).into()
}

/// The secret as it is shown in the greeting.
fn text(secret: &Secret) -> String {
    encode_base32(&secret.0)
}

fn check_name(name: &str) -> Result<(), TicketsError> {
    let is_good = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'-' | b'_');
    match !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.bytes().all(is_good) {
        true => Ok(()),
        false => Err(TicketsError::Name(name.to_owned())),
    }
}

impl Tickets {
    /// A single ticket, in memory.
    pub(super) fn only(secret: &Secret) -> Self {
        let first = Good {
            name: FIRST.to_owned(),
            digest: digest(&text(secret)),
        };
        Self::of(None, vec![first], None)
    }

    /// The tickets of a file. A file that does not exist is written, with the ticket [`FIRST`].
    ///
    /// # Errors
    /// The file cannot be read or written, or holds something else.
    pub(super) fn open(path: PathBuf, secret: &Secret) -> Result<Self, TicketsError> {
        if read(&path)?.is_none() {
            let first = Kept {
                name: FIRST.to_owned(),
                digest: digest(&text(secret)).to_hex().to_string(),
            };
            write(&path, vec![first])?;
        }
        let seen = stamp(&path);
        let kept = read(&path)?.unwrap_or_default();
        Ok(Self::of(Some(path), kept, seen))
    }

    fn of(path: Option<PathBuf>, tickets: Vec<Good>, seen: Option<(u64, SystemTime)>) -> Self {
        Self {
            path,
            state: Mutex::new(State { tickets, seen }),
            changed: watch::Sender::new(0),
        }
    }

    /// The ticket with this secret, if there is one. Takes as long for any other secret.
    pub(super) fn find(&self, secret: &str) -> Option<Good> {
        let shown = digest(secret);
        let state = self.lock();
        let mut found = None;
        for known in &state.tickets {
            // Hashes are compared in constant time.
            if known.digest == shown {
                found = Some(known.clone());
            }
        }
        found
    }

    /// Ready when a ticket is no longer valid.
    pub(super) async fn revoked(&self, ticket: &Good) {
        let mut changes = self.changed.subscribe();
        loop {
            changes.mark_unchanged();
            let is_good = |known: &Good| known.digest == ticket.digest;
            if !self.lock().tickets.iter().any(is_good) {
                return;
            }
            // The sender is a field of this struct.
            let _ = changes.changed().await;
        }
    }

    /// True if the first ticket is still valid.
    pub(super) fn has_first(&self, secret: &Secret) -> bool {
        self.find(&text(secret)).is_some()
    }

    /// Reads the file again if it has changed. A file that cannot be read changes nothing; one that is gone takes all tickets
    /// with it.
    ///
    /// # Errors
    /// The file cannot be read, or holds something else.
    pub(super) fn refresh(&self) -> Result<(), TicketsError> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        let seen = stamp(path);
        if self.lock().seen == seen {
            return Ok(());
        }
        let tickets = read(path)?.unwrap_or_default();
        let mut state = self.lock();
        state.tickets = tickets;
        state.seen = seen;
        drop(state);
        self.changed.send_modify(|count| *count += 1);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds a ticket to the file of an origin, which takes notice within a second if it runs.
///
/// # Errors
/// The name is not valid or is taken, there are too many tickets, or the file cannot be used.
pub fn issue(path: &Path, name: &str, secret: &Secret) -> Result<(), TicketsError> {
    check_name(name)?;
    let mut all = kept(path)?;
    if all.iter().any(|known| known.name == name) {
        return Err(TicketsError::Taken(name.to_owned()));
    }
    if all.len() >= TICKETS_MAX {
        return Err(TicketsError::Full);
    }
    all.push(Kept {
        name: name.to_owned(),
        digest: digest(&text(secret)).to_hex().to_string(),
    });
    write(path, all)
}

/// Removes a ticket from the file. An origin that runs ends the sessions that have shown it, within a second or two.
///
/// # Errors
/// There is no such ticket, or the file cannot be used.
pub fn revoke(path: &Path, name: &str) -> Result<(), TicketsError> {
    check_name(name)?;
    let mut all = kept(path)?;
    let before = all.len();
    all.retain(|known| known.name != name);
    if all.len() == before {
        return Err(TicketsError::Unknown(name.to_owned()));
    }
    write(path, all)
}

/// Names of the tickets in a file.
///
/// # Errors
/// The file cannot be used.
pub fn names(path: &Path) -> Result<Vec<String>, TicketsError> {
    Ok(kept(path)?.into_iter().map(|known| known.name).collect())
}

/// A new secret for a ticket.
///
/// # Errors
/// The system has no randomness.
pub fn fresh() -> io::Result<Secret> {
    // A new key holds more randomness than a secret needs.
    let key = anabranch::keys::generate().map_err(io::Error::other)?;
    let context = "anabranch 2026-11 video ticket of a proxy";
    let derived = blake3::derive_key(context, key.to_text().as_bytes());
    let mut secret = [0; SECRET_BYTES];
    secret.copy_from_slice(&derived[..SECRET_BYTES]);
    Ok(Secret(secret))
}

fn stamp(path: &Path) -> Option<(u64, SystemTime)> {
    let found = fs::metadata(path).ok()?;
    Some((found.len(), found.modified().ok()?))
}

fn kept(path: &Path) -> Result<Vec<Kept>, TicketsError> {
    let failed = |source| TicketsError::File {
        path: path.to_owned(),
        source,
    };
    parse(path, &fs::read(path).map_err(failed)?)
}

/// Reads the file; `None`: there is none.
fn read(path: &Path) -> Result<Option<Vec<Good>>, TicketsError> {
    let failed = |source| TicketsError::File {
        path: path.to_owned(),
        source,
    };
    let damaged = |why: &str| TicketsError::Damaged {
        path: path.to_owned(),
        why: why.to_owned(),
    };
    match fs::metadata(path) {
        Ok(found) if found.len() > FILE_BYTES_MAX => return Err(damaged("it is too large")),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    }
    let kept = parse(path, &fs::read(path).map_err(failed)?)?;
    let good = kept.into_iter().map(|known| {
        let digest = blake3::Hash::from_hex(&known.digest).ok()?;
        Some(Good {
            name: known.name,
            digest,
        })
    });
    let good: Option<Vec<_>> = good.collect();
    good.ok_or_else(|| damaged("a digest is not valid"))
        .map(Some)
}

fn parse(path: &Path, text: &[u8]) -> Result<Vec<Kept>, TicketsError> {
    let damaged = |why: String| TicketsError::Damaged {
        path: path.to_owned(),
        why,
    };
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(damaged("it is too large".to_owned()));
    }
    let file: File = serde_json::from_slice(text).map_err(|error| damaged(error.to_string()))?;
    if file.version != 1 {
        return Err(damaged(format!("version {}", file.version)));
    }
    let is_odd =
        |kept: &Kept| check_name(&kept.name).is_err() || kept.digest.len() != 2 * DIGEST_BYTES;
    if file.tickets.len() > TICKETS_MAX || file.tickets.iter().any(is_odd) {
        return Err(damaged("an entry is not valid".to_owned()));
    }
    Ok(file.tickets)
}

/// Replaces the file as a whole; it is readable only by its owner.
fn write(path: &Path, tickets: Vec<Kept>) -> Result<(), TicketsError> {
    let failed = |source| TicketsError::File {
        path: path.to_owned(),
        source,
    };
    let file = File {
        version: 1,
        tickets,
    };
    let text = serde_json::to_vec_pretty(&file).map_err(|error| failed(error.into()))?;
    replace(path, &text).map_err(failed)
}

/// Writes a file readable only by its owner, whole or not at all.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)?;
    let temporary = path.with_extension(format!("tmp-{}", std::process::id()));
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = (|| {
        let mut file = options.open(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    })();
    if written.is_err() {
        // It may not exist.
        let _ = fs::remove_file(&temporary);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(n: u8) -> Secret {
        Secret([n; SECRET_BYTES])
    }

    fn is_revoked(tickets: &Tickets, ticket: &Good) -> bool {
        let mut revoked = Box::pin(tickets.revoked(ticket));
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        revoked.as_mut().poll(&mut cx).is_ready()
    }

    #[test]
    fn tickets_come_and_go_while_an_origin_runs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/tickets.json");
        let tickets = Tickets::open(path.clone(), &secret(1)).unwrap();
        let first = tickets.find(&text(&secret(1))).unwrap();
        assert_eq!(first.name, FIRST);
        assert!(tickets.find(&text(&secret(2))).is_none());
        issue(&path, "near", &secret(2)).unwrap();
        assert!(matches!(
            issue(&path, "near", &secret(3)),
            Err(TicketsError::Taken(_))
        ));
        assert_eq!(names(&path).unwrap(), [FIRST, "near"]);
        tickets.refresh().unwrap();
        let near = tickets.find(&text(&secret(2))).unwrap();
        assert_eq!(near.name, "near");
        revoke(&path, FIRST).unwrap();
        tickets.refresh().unwrap();
        assert!(tickets.find(&text(&secret(1))).is_none());
        assert!(is_revoked(&tickets, &first) && !is_revoked(&tickets, &near));
        // A restart does not bring it back.
        let again = Tickets::open(path.clone(), &secret(1)).unwrap();
        assert!(!again.has_first(&secret(1)) && again.has_first(&secret(2)));
        assert!(matches!(
            revoke(&path, FIRST),
            Err(TicketsError::Unknown(_))
        ));
        // A second ticket of the same name is another one.
        revoke(&path, "near").unwrap();
        issue(&path, "near", &secret(4)).unwrap();
        tickets.refresh().unwrap();
        assert!(is_revoked(&tickets, &near));
        fs::remove_file(&path).unwrap();
        tickets.refresh().unwrap();
        assert!(tickets.find(&text(&secret(4))).is_none());
    }

    #[test]
    fn the_file_is_of_no_use_to_who_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tickets.json");
        Tickets::open(path.clone(), &secret(1)).unwrap();
        let kept = fs::read_to_string(&path).unwrap();
        assert!(!kept.contains(&text(&secret(1))));
        #[cfg(unix)]
        {
            let mode = std::os::unix::fs::PermissionsExt::mode(
                &fs::metadata(&path).unwrap().permissions(),
            );
            assert_eq!(mode & 0o777, 0o600);
        }
        let tickets = Tickets::open(path, &secret(1)).unwrap();
        let digest = digest(&text(&secret(1))).to_hex();
        assert!(tickets.find(&digest).is_none());
    }

    #[test]
    fn a_damaged_file_admits_and_removes_no_proxy() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tickets.json");
        let tickets = Tickets::open(path.clone(), &secret(1)).unwrap();
        for text in [
            "",
            "{",
            "[]",
            r#"{"version":2,"tickets":[]}"#,
            r#"{"version":1,"tickets":[{"name":"a","digest":"00"}]}"#,
            r#"{"version":1,"tickets":[{"name":"\u001b","digest":"x"}]}"#,
        ] {
            fs::write(&path, text).unwrap();
            assert!(tickets.refresh().is_err(), "{text}");
            assert!(tickets.has_first(&secret(1)));
            assert!(Tickets::open(path.clone(), &secret(1)).is_err(), "{text}");
        }
        for name in ["", "a b", "../a", "a\x1b", &"x".repeat(65)] {
            assert!(matches!(
                issue(&path, name, &secret(2)),
                Err(TicketsError::Name(_))
            ));
        }
    }
}
