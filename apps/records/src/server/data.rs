//! The data that a client wants, as fast as the paths carry it.

use std::sync::Arc;

use anabranch::base::NodeId;
use anabranch_recordset::Layout;

use super::{End, Inbox, Server, answer::CHANGED, paced::Pace, pin, promise, refused};
use crate::{
    carry::{blocking, carry},
    source::{Reading, Source},
    wire::{Begun, Get, Notice, Want, WireError, decode, encode},
};

/// Most lanes of a layout.
const LANES_MAX: u32 = 64;
/// Items that are collected for a layout that depends on all of them.
const ITEMS_MAX: usize = 1_000_000;

impl Server {
    /// Sends data.
    pub(super) async fn get(
        &self,
        peer: NodeId,
        inbox: &mut Inbox<'_>,
        source: Arc<Source>,
        get: Get,
    ) -> Result<(), End> {
        let stream = inbox.stream;
        if source.text().digest != get.manifest {
            return Ok(refused(stream, CHANGED.to_owned(), true).await?);
        }
        let mut begun = Begun::default();
        if let Some(demand) = &get.demand {
            match promise::ask(stream, demand).await? {
                Ok(promised) => begun.promise = Some(promised),
                Err(refusal) => {
                    stream.send(encode(&refusal)).await?;
                    return Ok(());
                }
            }
        }
        stream.send(encode(&Notice::Begun(begun))).await?;
        let has_demand = get.demand.is_some();
        let sending = async {
            match &get.lane {
                None => self.all(peer, inbox, source, &get).await,
                Some(lane) => {
                    let layout: Layout = (lane.layout.parse())
                        .map_err(|error| WireError(format!("the layout: {error}")))?;
                    if lane.lane >= lane.lanes || lane.lanes > LANES_MAX {
                        let words = format!("lane {} of {}", lane.lane, lane.lanes);
                        return Err(WireError(words).into());
                    }
                    let sending = self.lane(inbox, source, layout, (lane.lanes, lane.lane));
                    tokio::select! {
                        sent = sending => sent,
                        never = pin::hold(&self.client, peer, stream, lane.channel) => match never {},
                    }
                }
            }
        };
        tokio::select! {
            sent = sending => sent,
            never = promise::follow(stream), if has_demand => match never {},
        }
    }

    /// Sends what is wanted.
    async fn all(
        &self,
        peer: NodeId,
        inbox: &mut Inbox<'_>,
        source: Arc<Source>,
        get: &Get,
    ) -> Result<(), End> {
        let stream = inbox.stream;
        let mut reading = Reading::new(source);
        let mut pace = Pace::of(get)?;
        while let Some(adu) = inbox.next().await? {
            let items = decode::<Want>(&adu)?.items;
            match &mut pace {
                None => {
                    reading.want(items);
                    reading = carry(stream, &self.readers, reading, |_| ()).await?;
                }
                Some(pace) => {
                    let key = (peer, get.manifest.0, pace.every());
                    let clock = |now| self.clocks.hold(key, now);
                    reading = self.paced(stream, reading, items, (pace, clock)).await?;
                }
            }
        }
        Ok(())
    }

    /// Sends one lane of what is wanted.
    async fn lane(
        &self,
        inbox: &mut Inbox<'_>,
        source: Arc<Source>,
        layout: Layout,
        (lanes, lane): (u32, u32),
    ) -> Result<(), End> {
        let stream = inbox.stream;
        let mut reading = Reading::new(source);
        let mut count = 0;
        while let Some(adu) = inbox.next().await? {
            let items = decode::<Want>(&adu)?.items;
            count += items.len();
            if count > ITEMS_MAX {
                return Err(WireError("more items than a layout has".to_owned()).into());
            }
            reading.want(items);
        }
        let measuring = move || {
            reading.only(layout, lanes, lane);
            reading
        };
        let reading = blocking(&self.readers, measuring).await;
        let reading = reading.ok_or(End::Reading)?;
        carry(stream, &self.readers, reading, |_| ()).await?;
        Ok(())
    }
}
