//! Files of a watched folder, and their stream: each as it is, with its hash, until the hospital has it whole.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, SystemTime},
};

use anabranch::{AduSession, AduStream};
use tokio::{
    fs,
    io::AsyncReadExt as _,
    sync::{Notify, watch},
    task::AbortHandle,
    time::{MissedTickBehavior, interval},
};

use super::{
    Desk, Report,
    streams::{open, receive, send},
    unexpected,
};
use crate::{
    error::ClinicError,
    wire::{Data, Notice, PIECE_BYTES_MAX, Piece, Purpose, Request, STILL_BYTES_MAX, is_name},
};

/// Time between two looks at the folder; a file that is the same in two of them is sent.
const LOOK_TIME: Duration = Duration::from_millis(500);
/// Most files of a case.
const STILLS_MAX: usize = 10_000;

/// Size and time of a file, which distinguish it from the same before it was changed.
type State = (u64, Option<SystemTime>);

/// A file that is sent.
#[derive(Clone, Debug)]
struct Still {
    name: String,
    bytes: u64,
}

/// Files of a folder.
#[derive(Debug)]
pub(super) struct Stills {
    folder: PathBuf,
    known: Mutex<Known>,
    changed: Notify,
    desk: Desk,
    looking: OnceLock<AbortHandle>,
}

#[derive(Debug, Default)]
struct Known {
    /// Files as the last look found them; `None` before the first.
    seen: Option<BTreeMap<String, State>>,
    /// Those of them that are sent or were refused.
    taken: BTreeMap<String, State>,
    /// By number.
    stills: Vec<Still>,
    /// Numbers of those about which the hospital has decided.
    settled: BTreeSet<u32>,
}

impl Stills {
    /// Watches a folder from now on; files that are in it are sent, too.
    pub(super) fn watch(folder: &Path, desk: &Desk) -> Result<Arc<Self>, ClinicError> {
        std::fs::read_dir(folder).map_err(|why| ClinicError::file(folder, why))?;
        let stills = Arc::new(Self {
            folder: folder.to_owned(),
            known: Mutex::default(),
            changed: Notify::new(),
            desk: desk.clone(),
            looking: OnceLock::new(),
        });
        let looking = tokio::spawn(stills.clone().looking());
        let _ = stills.looking.set(looking.abort_handle());
        Ok(stills)
    }

    /// Ends the watching.
    pub(super) fn stop(&self) {
        if let Some(looking) = self.looking.get() {
            looking.abort();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, why: String) {
        self.desk.report(Report::Failed {
            purpose: Purpose::Stills,
            why,
        });
    }

    async fn looking(self: Arc<Self>) {
        let mut ticks = interval(LOOK_TIME);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut has_failed = false;
        loop {
            ticks.tick().await;
            let looked = self.look().await;
            if let Err(why) = &looked
                && !has_failed
            {
                self.failed(format!("{}: {why}", self.folder.display()));
            }
            has_failed = looked.is_err();
        }
    }

    async fn look(&self) -> std::io::Result<()> {
        let mut entries = fs::read_dir(&self.folder).await?;
        let mut found = BTreeMap::new();
        while let Some(entry) = entries.next_entry().await? {
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            // A file that has gone meanwhile is none.
            let Ok(about) = entry.metadata().await else {
                continue;
            };
            if is_name(&name) && about.is_file() && found.len() < STILLS_MAX {
                found.insert(name, (about.len(), about.modified().ok()));
            }
        }
        self.take(found);
        Ok(())
    }

    /// Takes the files that are the same as before.
    fn take(&self, found: BTreeMap<String, State>) {
        let mut known = self.lock();
        let mut large = Vec::new();
        for (name, state) in &found {
            let before = known.seen.as_ref().and_then(|seen| seen.get(name));
            let is_steady = before == Some(state) && state.0 > 0;
            if !is_steady
                || known.taken.get(name) == Some(state)
                || known.stills.len() >= STILLS_MAX
            {
                continue;
            }
            known.taken.insert(name.clone(), *state);
            match state.0 {
                bytes if bytes > STILL_BYTES_MAX => large.push(name.clone()),
                bytes => known.stills.push(Still {
                    name: name.clone(),
                    bytes,
                }),
            }
        }
        known.seen = Some(found);
        drop(known);
        self.changed.notify_one();
        for name in large {
            self.failed(format!(
                "{name} is left out: it has more than {} MiB",
                STILL_BYTES_MAX >> 20
            ));
        }
    }

    /// Sends files in a session; returns once all are settled after `is_last` has become true.
    pub(super) async fn send<S: AduSession>(
        &self,
        session: &S,
        mut is_last: watch::Receiver<bool>,
    ) -> Result<(), ClinicError> {
        let stream = open::<S>(session, Purpose::Stills).await?;
        let sending = async {
            let mut sent = 0;
            loop {
                let next = {
                    let known = self.lock();
                    let count = known.stills.len() as u32;
                    (sent..count)
                        .find(|number| !known.settled.contains(number))
                        .map(|number| (number, known.stills[number as usize].clone()))
                };
                if let Some((number, still)) = next {
                    self.one::<S>(&stream, number, &still).await?;
                    sent = number + 1;
                    continue;
                }
                if *is_last.borrow() && self.is_settled() {
                    return Ok(());
                }
                tokio::select! {
                    () = self.changed.notified() => {}
                    changed = is_last.changed() => {
                        if changed.is_err() {
                            self.changed.notified().await;
                        }
                    }
                }
            }
        };
        tokio::select! {
            sent = sending => sent,
            failed = self.listen::<S>(&stream) => failed,
        }?;
        // An error means that the session is over.
        let _ = stream.finish();
        Ok(())
    }

    /// True if all files that are there are settled, those included that are not known to be steady yet.
    fn is_settled(&self) -> bool {
        let known = self.lock();
        let is_taken = |(name, state): (&String, &State)| {
            state.0 == 0 || known.taken.get(name) == Some(state) || known.stills.len() >= STILLS_MAX
        };
        let seen = known.seen.as_ref();
        known.settled.len() == known.stills.len()
            && seen.is_some_and(|seen| seen.iter().all(is_taken))
    }

    /// Sends a file as far as it can be read; the hospital drops one that is not whole.
    async fn one<S: AduSession>(
        &self,
        stream: &S::Stream,
        still: u32,
        about: &Still,
    ) -> Result<(), ClinicError> {
        let name = about.name.clone();
        let bytes = about.bytes;
        send::<S>(stream, &Request::Still { still, name, bytes }).await?;
        let mut hasher = blake3::Hasher::new();
        let mut offset = 0;
        if let Ok(mut file) = fs::File::open(self.folder.join(&about.name)).await {
            let mut piece = vec![0; PIECE_BYTES_MAX];
            while let Ok(read @ 1..) = file.read(&mut piece).await {
                let read = (read as u64).min(bytes - offset) as usize;
                if read == 0 {
                    break;
                }
                hasher.update(&piece[..read]);
                let piece = Piece {
                    still,
                    offset,
                    bytes: piece[..read].to_vec().into(),
                };
                let sent = stream.send(Data::Piece(piece).to_adu()).await;
                sent.map_err(|error| ClinicError::of(&error))?;
                offset += read as u64;
            }
        }
        let hash = hasher.finalize().to_hex().to_string();
        send::<S>(stream, &Request::Whole { still, hash }).await
    }

    /// Takes the decisions of the hospital; returns when the stream is over.
    async fn listen<S: AduSession>(&self, stream: &S::Stream) -> Result<(), ClinicError> {
        loop {
            match receive::<S>(stream).await? {
                Some(Notice::Kept { still, why }) => {
                    let mut known = self.lock();
                    let Some(about) = known.stills.get(still as usize) else {
                        return Err(ClinicError::Protocol(format!("still {still} was not sent")));
                    };
                    let name = about.name.clone();
                    known.settled.insert(still);
                    drop(known);
                    self.desk.report(Report::Kept { name, why });
                    self.changed.notify_one();
                }
                other => return Err(unexpected(other.as_ref())),
            }
        }
    }
}
