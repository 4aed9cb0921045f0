//! Files of a case: each is kept once it is whole and its hash is right.

use std::path::PathBuf;

use anabranch::AduStream;
use tokio::{
    fs::{self, File},
    io::AsyncWriteExt as _,
};

use super::{
    Report,
    case::{Case, next, notify},
    live::Still,
};
use crate::{
    error::ClinicError,
    wire::{
        Data, Notice, Piece, Purpose, Request, STILL_BYTES_MAX, WireError, decode, is_message,
        is_name,
    },
};

/// A file that comes.
struct Coming {
    still: u32,
    name: String,
    bytes: u64,
    draft: PathBuf,
    path: PathBuf,
    /// `None` once it cannot be written.
    file: Option<File>,
    arrived: u64,
    hasher: blake3::Hasher,
    why: Option<String>,
}

/// Receives files until the ambulance has sent them.
pub(super) async fn receive<T: AduStream>(stream: &T, case: &Case) -> Result<(), ClinicError> {
    let mut coming: Option<Coming> = None;
    while let Some(adu) = next(stream).await? {
        if !is_message(&adu.data) {
            match (Data::read(adu.data)?, &mut coming) {
                (Data::Piece(piece), Some(coming)) => coming.piece(&piece).await?,
                _ => return Err(WireError("other data among files".to_owned()).into()),
            }
            continue;
        }
        match (decode(&adu.data)?, coming.take()) {
            (Request::Still { still, name, bytes }, None) => {
                coming = Some(Coming::begin(case, still, &name, bytes).await?);
            }
            (Request::Whole { still, hash }, Some(whole)) if whole.still == still => {
                let (path, bytes, name) = (whole.path.clone(), whole.bytes, whole.name.clone());
                let why = whole.end(&hash).await;
                match &why {
                    None => {
                        let still = Still {
                            number: still,
                            name,
                            bytes,
                            at_us: case.now_us(),
                        };
                        case.live().kept(case.number, still, path.clone());
                        case.report(Report::Still { path, bytes });
                    }
                    Some(why) => case.report(Report::Failed {
                        purpose: Purpose::Stills,
                        why: why.clone(),
                    }),
                }
                notify(stream, &Notice::Kept { still, why }).await?;
            }
            _ => return Err(WireError("another message among files".to_owned()).into()),
        }
    }
    Ok(())
}

impl Coming {
    async fn begin(case: &Case, still: u32, name: &str, bytes: u64) -> Result<Self, WireError> {
        if !is_name(name) || bytes > STILL_BYTES_MAX {
            return Err(WireError(
                "a file with an impossible name or size".to_owned(),
            ));
        }
        let folder = case.folder.join("stills");
        let draft = folder.join(format!(".{still:04}.part"));
        let path = folder.join(format!("{still:04}-{name}"));
        let created = File::create(&draft).await;
        let (file, why) = match created {
            Ok(file) => (Some(file), None),
            Err(why) => (None, Some(format!("{}: {why}", draft.display()))),
        };
        Ok(Self {
            still,
            name: name.to_owned(),
            bytes,
            draft,
            path,
            file,
            arrived: 0,
            hasher: blake3::Hasher::new(),
            why,
        })
    }

    async fn piece(&mut self, piece: &Piece) -> Result<(), WireError> {
        let left = self.bytes - self.arrived;
        if (piece.still, piece.offset) != (self.still, self.arrived)
            || piece.bytes.len() as u64 > left
        {
            return Err(WireError("a piece of a file at another place".to_owned()));
        }
        self.arrived += piece.bytes.len() as u64;
        self.hasher.update(&piece.bytes);
        if let Some(file) = &mut self.file
            && let Err(why) = file.write_all(&piece.bytes).await
        {
            self.why = Some(format!("{}: {why}", self.draft.display()));
            self.file = None;
        }
        Ok(())
    }

    /// Keeps the file, if it is whole; returns the reason why it is not.
    async fn end(self, hash: &str) -> Option<String> {
        let why = match (self.why, self.file) {
            (Some(why), _) => Some(why),
            (None, Some(file)) if self.arrived == self.bytes => {
                let is_right = self.hasher.finalize().to_hex().as_str() == hash;
                match is_right {
                    false => Some(format!("{} has another hash", self.path.display())),
                    true => {
                        let kept = keep(file, &self.draft, &self.path).await;
                        kept.err()
                            .map(|why| format!("{}: {why}", self.path.display()))
                    }
                }
            }
            _ => Some(format!(
                "{} changed while it was sent: {} of {} bytes came",
                self.path.display(),
                self.arrived,
                self.bytes
            )),
        };
        if why.is_some() {
            // It is of no use.
            let _ = fs::remove_file(&self.draft).await;
        }
        why
    }
}

async fn keep(
    mut file: File,
    draft: &std::path::Path,
    path: &std::path::Path,
) -> std::io::Result<()> {
    file.flush().await?;
    file.sync_all().await?;
    fs::rename(draft, path).await
}
