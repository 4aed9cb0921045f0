//! A set, or a part of it, into a directory.

use std::{
    collections::BTreeMap,
    ops::Range,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anabranch::{AduSession, Priority};
use anabranch_recordset::{Layout, Manifest};
use tokio::{
    sync::mpsc,
    task::{JoinSet, spawn_blocking},
    time::{MissedTickBehavior, interval},
};

use super::{Records, flow, late};
use crate::{
    error::RecordsError,
    shelf::Text,
    sink::{Selection, Sink},
    wire::{Digest, Fault, Item, OnRefusal, Want},
    writer::{Counters, Input, State, Up, Writer},
};

/// Interval between two times at which what arrived is made durable.
const DURABLE_EVERY: Duration = Duration::from_secs(1);
/// Rounds in which what has changed while it was read is fetched again.
const ROUNDS_MAX: usize = 5;

/// Selection of what is fetched, and the manner.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Layout of the data on the paths.
    pub layout: Layout,
    /// Components by name; `None`: all.
    pub components: Option<Vec<String>>,
    /// Records by number; `None`: all.
    pub records: Option<Range<u64>>,
    /// Bytes of each part; `None`: all.
    pub bytes: Option<Range<u64>>,
    /// Reaction if a promise of the manifest cannot be given; `None`: none is asked for.
    pub promises: Option<OnRefusal>,
    /// True if records come at the set's rate, each when it is due, and late ones are left out.
    pub is_watched: bool,
}

/// A set that is being fetched.
#[derive(Debug)]
pub struct Fetch {
    set: String,
    manifest: Arc<Manifest>,
    digest: Digest,
    plan: Plan,
    selection: Selection,
    writer: Writer,
    up: Option<mpsc::Sender<Up>>,
    path: PathBuf,
    present_before: Vec<u64>,
    /// True once the peer has sent a watched set to its end.
    is_over: AtomicBool,
}

/// State of a fetch of which everything that arrived is durable.
#[derive(Clone, Debug)]
pub struct Settled {
    state: State,
    missing: u64,
    late: u64,
}

/// Result of a fetch.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// True if the whole set is there.
    pub is_complete: bool,
    /// Number of parts of the selection that are missing.
    pub missing: u64,
    /// Number of these that were late, whether or not they are among `faults`.
    pub late: u64,
    /// The reasons for them, as far as the peer has given any.
    pub faults: BTreeMap<(u64, u16), Fault>,
    /// Bytes that arrived, by component.
    pub bytes: Vec<u64>,
    /// Records of which each component is there, and those of them that were before.
    pub records: Vec<(u64, u64)>,
}

/// Records and components of a plan.
pub(super) fn select(manifest: &Manifest, plan: &Plan) -> Result<Selection, RecordsError> {
    let mut selection = Selection::all(manifest);
    if let Some(names) = &plan.components {
        let mut components = Vec::new();
        for name in names {
            let found = manifest.component(name).ok_or_else(|| {
                let names: Vec<&str> = manifest
                    .components
                    .iter()
                    .map(|component| &*component.name)
                    .collect();
                RecordsError::Selection(format!(
                    "the set has no component '{name}', but {}",
                    names.join(", ")
                ))
            })?;
            components.push(found as u16);
        }
        components.sort_unstable();
        components.dedup();
        selection.components = components;
    }
    if let Some(records) = &plan.records {
        if records.start >= manifest.len() {
            return Err(RecordsError::Selection(format!(
                "the set has {} records, numbered from 0; there is no record {}",
                manifest.len(),
                records.start
            )));
        }
        selection.records = records.start..records.end.min(manifest.len());
    }
    selection.bytes.clone_from(&plan.bytes);
    Ok(selection)
}

impl Fetch {
    /// Prepares a directory for a set, whose manifest is fetched. `up` gets what arrives.
    ///
    /// # Errors
    /// There is no such set, or not what the plan selects of it; the directory has something else.
    pub async fn open<S: AduSession>(
        records: &Records<S>,
        set: &str,
        path: &Path,
        plan: Plan,
        up: Option<mpsc::Sender<Up>>,
    ) -> Result<Self, RecordsError> {
        let text = records.manifest(set).await?;
        let (manifest, text) = parse(text).await?;
        let selection = select(&manifest, &plan)?;
        let digest = text.digest;
        let (to, for_sink) = (path.to_owned(), manifest.clone());
        let opening = spawn_blocking(move || Sink::open(&to, for_sink, &text));
        let sink = opening.await.map_err(|_| RecordsError::Internal)??;
        let count = manifest.components.len() as u16;
        let present = (0..count).map(|component| sink.records_complete(component));
        let present_before = present.collect();
        let writer = Writer::start(sink, selection.components.clone(), up.clone());
        Ok(Self {
            set: set.to_owned(),
            manifest,
            digest,
            plan,
            selection,
            writer,
            up,
            path: path.to_owned(),
            present_before,
            is_over: AtomicBool::new(false),
        })
    }

    /// The set's manifest.
    pub fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Records, components and bytes that are fetched.
    pub fn selection(&self) -> &Selection {
        &self.selection
    }

    /// Bytes that arrived so far of each component, and records of which it is complete.
    pub fn progress(&self) -> Vec<(u64, u64)> {
        let Counters { bytes, records } = &*self.writer.counters;
        let each = bytes.iter().zip(records);
        each.map(|(bytes, records)| {
            (
                bytes.load(Ordering::Relaxed),
                records.load(Ordering::Relaxed),
            )
        })
        .collect()
    }

    /// Fetches what is missing, over a session. After an interruption it can be called again, with another session.
    ///
    /// # Errors
    /// The session or the stream is over; the set was changed; the peer refuses a promise; something cannot be written.
    pub async fn run<S: AduSession>(&self, records: &Records<S>) -> Result<(), RecordsError> {
        for _ in 0..ROUNDS_MAX {
            let before = self.progress();
            let is_together = self.plan.layout != Layout::Pgos;
            let asked = |answer| Input::Missing(self.selection.clone(), is_together, answer);
            let missing = self.writer.ask(asked).await?;
            if missing.is_empty() {
                break;
            }
            let flows = self.flows(records, missing).await?;
            self.carry(records, flows).await?;
            if self.plan.is_watched || self.progress() == before {
                break;
            }
        }
        self.is_over.store(self.plan.is_watched, Ordering::Relaxed);
        Ok(())
    }

    /// Carries flows until all are over.
    async fn carry<S: AduSession>(
        &self,
        records: &Records<S>,
        flows: Vec<flow::Flow>,
    ) -> Result<(), RecordsError> {
        let mut carrying = JoinSet::new();
        for flow in flows {
            let (input, up) = (self.writer.input.clone(), self.up.clone());
            carrying.spawn(flow.carry(records.clone(), input, up));
        }
        let mut ticks = interval(DURABLE_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                carried = carrying.join_next() => match carried {
                    None => return Ok(()),
                    Some(carried) => carried.map_err(|_| RecordsError::Internal)??,
                },
                _ = ticks.tick() => {
                    let ticked = self.writer.input.send(Input::Tick).await;
                    ticked.map_err(|_| RecordsError::Internal)?;
                }
            }
        }
    }

    /// Streams for what is missing.
    async fn flows<S: AduSession>(
        &self,
        records: &Records<S>,
        missing: Vec<Item>,
    ) -> Result<Vec<flow::Flow>, RecordsError> {
        if self.plan.layout != Layout::Pgos && !self.plan.is_watched {
            let channels = records.paths(&self.set).await?;
            if !channels.is_empty() {
                let (layout, digest) = (self.plan.layout, self.digest);
                return Ok(flow::lanes(&self.set, layout, digest, &channels, &missing));
            }
        }
        let whole = |item| match item {
            // A record that is watched comes as a whole.
            Item::Part {
                record, component, ..
            } if self.plan.is_watched => Item::Records {
                from: record,
                to: record + 1,
                components: vec![component],
                bytes: None,
            },
            item => item,
        };
        let of_components = Want::by_component(missing.into_iter().map(whole).collect());
        let pace = self
            .plan
            .is_watched
            .then(|| self.manifest.rate.unwrap_or(UNPACED));
        let flow = |(component, items): (u16, Vec<Item>)| {
            let described = &self.manifest.components[usize::from(component)];
            let mut flow =
                flow::of_component(&self.set, described, self.digest, (component, items));
            if let Some(on_refusal) = self.plan.promises {
                flow.get.demand = flow::demand(&self.manifest, component, pace, on_refusal);
            }
            flow.weight = flow::weight(&self.manifest, component);
            if let Some(pace) = pace {
                flow.get.pace = Some(pace);
                let deadline = described.service.deadline;
                flow.get.deadline_ms = deadline.map(|deadline| deadline.as_millis() as u64);
                let lower = component.min(32) as u8;
                flow.priority = Priority(Priority::NORMAL.0 - lower);
            }
            flow
        };
        Ok(of_components.into_iter().map(flow).collect())
    }

    /// Makes everything durable. Every event of what arrived has been handed over then.
    ///
    /// # Errors
    /// Something could not be written: [`Fetch::finish`] has the reason.
    pub async fn settle(&self) -> Result<Settled, RecordsError> {
        let mut state = self.writer.ask(Input::Finish).await?;
        let selection = &self.selection;
        let is_selected = |record: &u64, component: &u16| {
            selection.records.contains(record) && selection.components.contains(component)
        };
        (state.faults).retain(|(record, component), _| is_selected(record, component));
        let asked = |answer| Input::Missing(self.selection.clone(), false, answer);
        let missing = self.writer.ask(asked).await?;
        let late = match self.is_over.load(Ordering::Relaxed) {
            true => {
                let components = &self.manifest.components;
                let is_due = |component: u16| {
                    let described = components.get(usize::from(component));
                    described.is_some_and(|component| component.service.deadline.is_some())
                };
                late::note(&mut state.faults, &missing, is_due)
            }
            false => late::count(&state.faults),
        };
        let parts = missing.iter().map(|item| match item {
            Item::Records { from, to, .. } => to - from,
            Item::Part { .. } => 1,
        });
        Ok(Settled {
            state,
            missing: parts.sum(),
            late,
        })
    }

    /// Ends what [`Fetch::settle`] has made durable.
    ///
    /// # Errors
    /// Something could not be written.
    pub async fn finish(
        self,
        settled: Result<Settled, RecordsError>,
    ) -> Result<Fetched, RecordsError> {
        let (bytes, records): (Vec<u64>, Vec<u64>) = self.progress().into_iter().unzip();
        let Writer { input, task, .. } = self.writer;
        drop(input);
        // Its error is the cause, if there is one.
        task.await.map_err(|_| RecordsError::Internal)??;
        let Settled {
            state,
            missing,
            late,
        } = settled?;
        Ok(Fetched {
            is_complete: state.is_complete,
            missing,
            late,
            faults: state.faults,
            bytes,
            records: records.into_iter().zip(self.present_before).collect(),
        })
    }
}

/// Records a second of a set without a rate that is watched.
const UNPACED: f64 = 1e6;

/// Reads a manifest, which may be long.
pub(super) async fn parse(text: Text) -> Result<(Arc<Manifest>, Text), RecordsError> {
    let parsing = spawn_blocking(move || {
        let manifest = text.parse()?;
        Ok::<_, RecordsError>((Arc::new(manifest), text))
    });
    parsing.await.map_err(|_| RecordsError::Internal)?
}
