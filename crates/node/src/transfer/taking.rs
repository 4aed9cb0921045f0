//! Taking of a transfer that was accepted: opens its folder, reports what is present, and writes what arrives.

use std::{collections::HashMap, time::Duration};

use anabranch_net::{Session, Stream};
use tokio::sync::mpsc;

use super::{
    active::Hold,
    admission::Admitted,
    area::{Area, Named, Opening},
    barrier::Count,
    control::{accept, send_message},
    error::TransferError,
    folder::Folder,
    manifest::Manifest,
    message::{self, DATA_LABEL, MESSAGE_BYTES_MAX, Reply, Request},
    progress::Progress,
    receive::{Completed, Receiver},
    sink::Have,
    update::{Survey, Update},
    writing::{Writing, have_all, have_all_here, pump, report_survey, write_all},
};

/// Interval between two reports of what is durable.
const REPORT_EVERY: Duration = Duration::from_millis(250);
/// Limit on the records that wait between the network and the disk.
const WRITE_BEHIND: usize = 8;
/// Limit on the messages that wait between the disk and the network.
const REPORTS_AHEAD: usize = 64;

/// A transfer that was accepted, and the hold of its folder, which is released after the last write.
pub(super) struct Accepted {
    pub(super) manifest: Manifest,
    pub(super) update: Option<Update>,
    pub(super) hold: Hold,
}

/// A transfer whose folder is open, with the part of each file that is present.
struct Opened {
    area: Area,
    have: HashMap<u32, Have>,
    hold: Hold,
}

impl Receiver {
    /// Receives the data offered. Dropping the future leaves the data that has arrived for the next attempt.
    pub(super) async fn take(
        &self,
        session: &Session,
        control: &Stream,
        accepted: Accepted,
        right: &Admitted,
        progress: &Progress,
    ) -> Result<(Completed, Named), TransferError> {
        let whole = Completed::of(&accepted.manifest);
        let update = accepted.update;
        let is_dry_run = update.is_some_and(|update| update.dry_run);
        if let Some(ticket) = right.ticket.filter(|_| !is_dry_run) {
            // An older attempt under it may have ended while this one waited.
            let folder = self.folder_name(right, &accepted.manifest, update);
            self.tickets.bind(ticket, &folder)?;
        }
        let opened = self.open(control, accepted, right, progress).await;
        let is_in_the_way = matches!(
            opened,
            Err(TransferError::Exists { .. } | TransferError::InTheWay { .. })
        );
        if let Some(ticket) = right.ticket.filter(|_| is_in_the_way) {
            self.tickets.release(ticket);
        }
        let opened = opened?;
        send_message(control, &Reply::Go).await?;
        if is_dry_run {
            // The sender ends the stream once it has read everything.
            while control.recv().await?.is_some() {}
            return Err(TransferError::DryRun);
        }
        let Some(Opened {
            mut area,
            have,
            hold,
        }) = opened
        else {
            return Err(TransferError::DryRun);
        };
        if update.is_some() {
            area.choose(read_decisions(control, area.extras()).await?)?;
        }
        let data = accept(session, DATA_LABEL).await?;
        let (records, queue) = mpsc::channel(WRITE_BEHIND);
        let writing = Writing {
            area,
            have,
            rules: self.rules,
            progress: progress.clone(),
        };
        let mut writing = tokio::task::spawn_blocking(move || {
            let _hold = hold;
            write_all(writing, queue)
        });
        // A failing disk, or a sender that breaks the rules, ends it at once.
        let moving = async {
            tokio::select! {
                written = &mut writing => (written, Ok(())),
                pumped = pump(&data, records) => (writing.await, pumped),
            }
        };
        let (written, pumped) = tokio::select! {
            moved = moving => moved,
            () = report(control, progress), if right.revision >= 1 => unreachable!("it reports until dropped"),
        };
        let mut named = match (written.expect("writing files does not panic"), pumped) {
            (Err(TransferError::Protocol(_)), Err(error)) => return Err(error),
            (written, _) => written?,
        };
        let completed = Completed {
            path: Some(named.path.clone()),
            bytes: named.bytes,
            blake3: named.hash.map(|hash| hash.to_hex().to_string()),
            left_out: std::mem::take(&mut named.left_out),
            changes: named.changes.take(),
            ..whole
        };
        Ok((completed, named))
    }

    /// Opens the folder of a transfer, and reports to the sender what is present; `None`: a dry run, which has no folder.
    async fn open(
        &self,
        control: &Stream,
        accepted: Accepted,
        right: &Admitted,
        progress: &Progress,
    ) -> Result<Option<Opened>, TransferError> {
        let Accepted {
            manifest,
            update,
            hold,
        } = accepted;
        let folder_name = self.folder_name(right, &manifest, update);
        let (directory, key) = (self.directory.clone(), self.key.clone());
        let (sender, ticket) = (right.sender, right.ticket);
        let (reporter, mut reports) = mpsc::channel(REPORTS_AHEAD);
        let (counted, clash, has_more) = (progress.clone(), self.rules.clash, right.more > 0);
        let opening = tokio::task::spawn_blocking(move || {
            let mut survey = None;
            if let Some(update) = update {
                let folder = Folder::open(&directory).map_err(TransferError::read(&directory))?;
                let found = Survey::of(&folder, &manifest, update)?;
                report_survey(&found, &reporter);
                if update.dry_run {
                    have_all_here(&folder, &manifest, &reporter)?;
                    return Ok(None);
                }
                survey = Some(found);
            }
            let opening = Opening {
                directory: &directory,
                folder_name: &folder_name,
                key: &key,
                sender,
                ticket,
                clash,
                has_more,
                progress: &counted,
            };
            let area = Area::open(&opening, manifest, survey)?;
            let (area, have) = have_all(area, &reporter)?;
            Ok::<_, TransferError>(Some(Opened { area, have, hold }))
        });
        while let Some(reply) = reports.recv().await {
            send_message(control, &reply).await?;
        }
        opening.await.expect("opening files does not panic")
    }
}

/// Reads what an update deletes, up to its order to proceed: positions among `extras`, in order.
///
/// # Errors
/// The sender has gone, or breaks the rules.
async fn read_decisions(control: &Stream, extras: usize) -> Result<Vec<u32>, TransferError> {
    let mut chosen: Vec<u32> = Vec::new();
    loop {
        let adu = control.recv().await?;
        let adu = adu.ok_or(TransferError::Protocol("the control stream ended early"))?;
        match message::decode(&adu.data, MESSAGE_BYTES_MAX) {
            Some(Request::Delete { list }) => {
                for at in list {
                    let is_next = chosen.last().is_none_or(|&last| at > last);
                    if !is_next || at as usize >= extras {
                        return Err(TransferError::Protocol("a deletion that was not listed"));
                    }
                    chosen.push(at);
                }
            }
            Some(Request::Proceed) => return Ok(chosen),
            _ => return Err(TransferError::Protocol("neither a deletion nor an order")),
        }
    }
}

/// Reports what is durable until dropped.
async fn report(control: &Stream, progress: &Progress) {
    let mut reported = Count::default();
    loop {
        tokio::time::sleep(REPORT_EVERY).await;
        let now = progress.durable_count();
        if now == reported {
            continue;
        }
        reported = now;
        let Count { files, bytes } = now;
        if send_message(control, &Reply::Durable { files, bytes })
            .await
            .is_err()
        {
            // The session is over; the stream of data ends, too.
            std::future::pending::<()>().await;
        }
    }
}
