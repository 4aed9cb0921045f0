//! Disk access of the receiver: reads data already present, and writes data that arrives, each on a thread of its own.

use std::collections::HashMap;

use anabranch_net::Stream;
use bytes::Bytes;
use tokio::sync::mpsc;

use super::{
    area::{Area, Named},
    error::TransferError,
    folder::Folder,
    holes::HOLE_BYTES_MAX,
    manifest::Manifest,
    message::{NUMBERS_PER_MESSAGE, RECORD_BYTES_MAX, Record, Reply, Whole},
    offer::batch,
    progress::Progress,
    rules::Rules,
    sink::{Have, Sink},
    update::{Survey, have_here},
};

/// Limit on the files that are partly present and continue at their end. There is one, unless the sender is unusual; files
/// beyond the limit are not reported, and are sent again in full.
const PARTIAL_MAX: usize = 16;

/// Reads the part of every file that is present, and reports it to the sender as soon as its hash is known. Stops quietly once
/// there is no consumer.
pub(super) fn have_all(
    mut area: Area,
    sender: &mpsc::Sender<Reply>,
) -> Result<(Area, HashMap<u32, Have>), TransferError> {
    let mut all = HashMap::new();
    if area.has_nothing() {
        return Ok((area, all));
    }
    let mut partial = 0;
    for index in 0.. {
        let Some(entry) = area.entry(index) else {
            break;
        };
        if entry.is_directory {
            continue;
        }
        let have = area.have(index)?;
        partial += usize::from(have.bytes > 0 && have.hasher.is_some());
        let is_known = have.bytes > 0 || area.is_here(index);
        if !is_known || (have.hasher.is_some() && partial > PARTIAL_MAX) {
            continue;
        }
        let reply = reply(index, &have, area.waits(index));
        all.insert(index, have);
        if sender.blocking_send(reply).is_err() {
            break;
        }
    }
    Ok((area, all))
}

/// Reports what an update finds.
pub(super) fn report_survey(survey: &Survey, sender: &mpsc::Sender<Reply>) {
    // Nobody waits for the reports of a session that is over.
    let say = |reply| sender.blocking_send(reply).is_ok();
    let lists = [
        &survey.present.entries,
        &survey.present.links_same,
        &survey.present.links_other,
    ];
    for (kind, list) in lists.into_iter().enumerate() {
        for part in list.chunks(NUMBERS_PER_MESSAGE) {
            let of = |wanted| match kind == wanted {
                true => part.to_vec(),
                false => Vec::new(),
            };
            let present = Reply::Present {
                entries: of(0),
                links_same: of(1),
                links_other: of(2),
            };
            if !say(present) {
                return;
            }
        }
    }
    let mut rest = &survey.extras[..];
    while !rest.is_empty() {
        let (list, after) = rest.split_at(batch(rest.iter().map(|extra| extra.path.len())));
        let list = list.to_vec();
        if !say(Reply::Extra { list }) {
            return;
        }
        rest = after;
    }
}

/// Reports the files that are there already in the size that is offered, and touches nothing.
pub(super) fn have_all_here(
    directory: &Folder,
    manifest: &Manifest,
    sender: &mpsc::Sender<Reply>,
) -> Result<(), TransferError> {
    for (entry, index) in manifest.entries.iter().zip(0..) {
        if entry.is_directory {
            continue;
        }
        let Some((have, _)) = have_here(directory, entry)? else {
            continue;
        };
        if sender.blocking_send(reply(index, &have, false)).is_err() {
            break;
        }
    }
    Ok(())
}

fn reply(index: u32, have: &Have, waits: bool) -> Reply {
    Reply::Have {
        index,
        waits,
        bytes: have.bytes,
        hash: have.hash.to_hex().to_string(),
    }
}

/// Passes records from the network to the thread that writes.
pub(super) async fn pump(data: &Stream, records: mpsc::Sender<Bytes>) -> Result<(), TransferError> {
    while let Some(adu) = data.recv().await? {
        if adu.data.len() > RECORD_BYTES_MAX {
            return Err(TransferError::Protocol("a record of more than 1 MiB"));
        }
        if records.send(adu.data).await.is_err() {
            // The disk has failed; its own error explains this.
            break;
        }
    }
    Ok(())
}

/// A transfer that is being written.
pub(super) struct Writing {
    pub(super) area: Area,
    pub(super) have: HashMap<u32, Have>,
    pub(super) rules: Rules,
    pub(super) progress: Progress,
}

/// Writes the data that arrives, and gives the transfer its final name at the end.
pub(super) fn write_all(
    mut writing: Writing,
    mut queue: mpsc::Receiver<Bytes>,
) -> Result<Named, TransferError> {
    let mut open: Option<(u32, Sink)> = None;
    while let Some(bytes) = queue.blocking_recv() {
        let record = Record::decode(&bytes).ok_or(TransferError::Protocol("not a record"))?;
        match record {
            Record::Chunk {
                index,
                offset,
                data,
            } => {
                let (_, sink) = match &mut open {
                    Some(current) if current.0 == index => current,
                    Some(_) => return Err(TransferError::Protocol("two files at once")),
                    None => open.insert((index, writing.begin(index, offset)?)),
                };
                writing.check(index, offset, sink, data.len() as u64)?;
                sink.write(&data)?;
                writing.moved(index, data.len() as u64, sink.position);
            }
            Record::Hole {
                index,
                offset,
                bytes,
            } => {
                let (_, sink) = match &mut open {
                    Some(current) if current.0 == index => current,
                    Some(_) => return Err(TransferError::Protocol("two files at once")),
                    None => open.insert((index, writing.begin(index, offset)?)),
                };
                writing.check_hole(index, bytes)?;
                writing.check(index, offset, sink, bytes)?;
                sink.skip(bytes)?;
                writing.moved(index, bytes, sink.position);
            }
            Record::Files(files) => {
                if open.is_some() {
                    return Err(TransferError::Protocol("two files at once"));
                }
                files.iter().try_for_each(|file| writing.whole(file))?;
            }
            Record::FileEnd { index, size, hash } => {
                match open.take() {
                    Some((current, sink)) if current == index => {
                        writing.area.close_file(index, sink, size, hash)?;
                    }
                    Some(_) => return Err(TransferError::Protocol("two files at once")),
                    // All of it was present, or it is empty.
                    None => {
                        let have = writing.have.remove(&index).unwrap_or_default();
                        writing.progress.resumed(have.bytes);
                        writing.area.close_untouched(index, &have, size, hash)?;
                    }
                }
            }
            Record::End => return writing.area.finish(),
        }
    }
    Err(TransferError::Protocol("the data ended early"))
}

impl Writing {
    /// Opens a file that begins at `offset`: anew, or after the part present.
    fn begin(&mut self, index: u32, offset: u64) -> Result<Sink, TransferError> {
        let have = self.have.remove(&index);
        let start = have.filter(|have| have.bytes == offset).unwrap_or_default();
        self.progress.resumed(start.bytes);
        self.area.open_file(index, start)
    }

    /// Writes a file that came whole.
    fn whole(&mut self, file: &Whole) -> Result<(), TransferError> {
        let Whole { index, hash, data } = file;
        let size = data.len() as u64;
        if self.area.is_named() {
            // Of an empty file, no sender is told that it is present.
            let have = self
                .have
                .remove(index)
                .map_or_else(|| self.area.have(*index), Ok)?;
            self.progress.resumed(have.bytes);
            return self.area.close_untouched(*index, &have, size, *hash);
        }
        let mut sink = self.begin(*index, 0)?;
        self.check(*index, 0, &sink, size)?;
        if size > 0 {
            sink.write(data)?;
            self.moved(*index, size, size);
        }
        self.area.close_file(*index, sink, size, *hash)
    }

    fn moved(&self, index: u32, bytes: u64, position: u64) {
        self.progress.moved(bytes);
        if let Some(entry) = self.area.entry(index) {
            self.progress.in_file(entry, position);
        }
    }

    /// Checks that a hole is one of a file, and not too long.
    fn check_hole(&self, index: u32, bytes: u64) -> Result<(), TransferError> {
        let entry = self.area.entry(index);
        match entry.is_some_and(|entry| entry.size_bytes.is_some()) {
            false => Err(TransferError::Protocol("a hole in a stream")),
            true if bytes > HOLE_BYTES_MAX => {
                Err(TransferError::Protocol("a hole of more than 1 GiB"))
            }
            true => Ok(()),
        }
    }

    fn check(&self, index: u32, offset: u64, sink: &Sink, bytes: u64) -> Result<(), TransferError> {
        if offset != sink.position {
            return Err(TransferError::Protocol("a gap in a file"));
        }
        let end = offset.saturating_add(bytes);
        match self.area.entry(index).and_then(|entry| entry.size_bytes) {
            Some(most) if end > most => Err(TransferError::Protocol("a file longer than offered")),
            Some(_) => Ok(()),
            // The offer did not state the size.
            None => self.rules.check_bytes(end),
        }
    }
}
