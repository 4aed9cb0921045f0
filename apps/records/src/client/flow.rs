//! Streams with data: one for each component, or one for each lane of a layout.

use anabranch::{AduSession, AduStream, Order, Priority, StreamSpec};
use anabranch_recordset::{Layout, Manifest, manifest::Component};
use tokio::sync::mpsc;

use super::{Records, message, received};
use crate::wire::{
    Begun, Demand, Digest, Get, Item, Kind, Label, Lane, Notice, OnRefusal, Purpose, Request, Want,
    encode,
};
use crate::{
    error::RecordsError,
    writer::{Input, Up},
};

/// Items in one message.
const ITEMS_MAX: usize = 500;
/// Weight of the component with the largest parts.
const WEIGHT_MAX: u64 = 1_000;

/// A stream with data.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) label: Label,
    pub(super) get: Get,
    pub(super) items: Vec<Item>,
    pub(super) priority: Priority,
    /// Share among the components: as their sizes are, so that records become complete one after the other.
    pub(super) weight: u32,
    /// Component whose promise it has, for reports.
    pub(super) component: Option<u16>,
}

impl Flow {
    /// Carries it: wants and data at the same time, until all is there.
    pub(super) async fn carry<S: AduSession>(
        self,
        records: Records<S>,
        input: mpsc::Sender<Input>,
        up: Option<mpsc::Sender<Up>>,
    ) -> Result<(), RecordsError> {
        let request = Request::Get(self.get);
        let spec = StreamSpec {
            order: Order::Unordered,
            priority: self.priority,
            weight: self.weight,
            ..StreamSpec::default()
        };
        let stream = records.request_as(&self.label, spec, &request).await?;
        let of = |error: S::Error| RecordsError::of(&error);
        let wanting = async {
            let mut items = self.items.into_iter().peekable();
            while items.peek().is_some() {
                let items = items.by_ref().take(ITEMS_MAX).collect();
                stream.send(encode(&Want { items })).await.map_err(of)?;
            }
            stream.finish().map_err(of)
        };
        let receiving = async {
            while let Some(adu) = received(&stream).await? {
                let input_of = match Kind::of(&adu)? {
                    Kind::Pieces(adu) => Input::Pieces(adu),
                    Kind::Message(json) => match message(&json)? {
                        Notice::Begun(Begun { promise }) => {
                            if let (Some(up), Some(component), Some(promise)) =
                                (&up, self.component, promise)
                            {
                                // An error means that nobody is interested any more.
                                let _ = up.send(Up::Promise { component, promise }).await;
                            }
                            continue;
                        }
                        notice => match Input::of_notice(&notice) {
                            Some(fault) => fault,
                            None => continue,
                        },
                    },
                    Kind::Chunk(_) => {
                        return Err(RecordsError::Protocol("a chunk among data".to_owned()));
                    }
                };
                let sent = input.send(input_of).await;
                sent.map_err(|_| RecordsError::Internal)?;
            }
            Ok(())
        };
        tokio::try_join!(wanting, receiving).map(drop)
    }
}

/// Promise that the manifest asks for a component.
pub(super) fn demand(
    manifest: &Manifest,
    component: u16,
    pace: Option<f64>,
    on_refusal: OnRefusal,
) -> Option<Demand> {
    let described = manifest.components.get(usize::from(component))?;
    let share = described.service.promise?;
    let rate_bps = match described.service.rate {
        Some(rate) => rate.as_bps(),
        None => {
            let bytes = manifest.stated_bytes(usize::from(component))?;
            (8.0 * bytes as f64 * pace.or(manifest.rate)?) as u64
        }
    };
    Some(Demand {
        rate_bps,
        share,
        on_refusal,
    })
}

/// Weight of a component: its bytes, as far as the manifest states those of all.
pub(super) fn weight(manifest: &Manifest, component: u16) -> u32 {
    let bytes = |component: usize| manifest.stated_bytes(component);
    let all = (0..manifest.components.len()).map(bytes);
    let Some(largest) = all
        .collect::<Option<Vec<_>>>()
        .and_then(|all| all.into_iter().max())
    else {
        return 100;
    };
    let own = bytes(usize::from(component)).unwrap_or(0);
    (u128::from(own) * u128::from(WEIGHT_MAX) / u128::from(largest.max(1))).max(1) as u32
}

/// Conditions of the data of a component.
pub(super) fn of_component(
    set: &str,
    described: &Component,
    manifest: Digest,
    (component, items): (u16, Vec<Item>),
) -> Flow {
    Flow {
        label: Label::new(Purpose::Get, set).with(&described.name),
        get: Get {
            manifest,
            lane: None,
            demand: None,
            pace: None,
            deadline_ms: None,
        },
        items,
        priority: Priority::BULK,
        weight: 100,
        component: Some(component),
    }
}

/// Lanes of a layout on these channels.
pub(super) fn lanes(
    set: &str,
    layout: Layout,
    manifest: Digest,
    channels: &[u64],
    items: &[Item],
) -> Vec<Flow> {
    let lanes = channels.len() as u32;
    let each = channels.iter().enumerate();
    let flow = |(lane, channel): (usize, &u64)| Flow {
        label: Label::new(Purpose::Get, set).with(&format!("lane {lane}")),
        get: Get {
            manifest,
            lane: Some(Lane {
                layout: layout.to_string(),
                lanes,
                lane: lane as u32,
                channel: *channel,
            }),
            demand: None,
            pace: None,
            deadline_ms: None,
        },
        items: items.to_vec(),
        priority: Priority::BULK,
        weight: 100,
        component: None,
    };
    each.map(flow).collect()
}
