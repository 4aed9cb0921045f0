//! The task that writes what arrives, and the one that makes it durable. Both block on the disk, and nothing else waits for them but what
//! arrives next.

use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use tokio::{
    sync::{mpsc, oneshot},
    task::{JoinHandle, spawn_blocking},
};

use crate::{
    error::RecordsError,
    sink::{Selection, Sink, SinkError, Work},
    wire::{Fault, Item, Notice, Promised, pieces},
};

/// ADUs that wait to be written.
const WAITING_MAX: usize = 48;
/// Faults that are kept for the report.
pub(crate) const FAULTS_MAX: usize = 1_000_000;

/// Something that an application may act on.
#[derive(Clone, Debug, PartialEq)]
pub enum Up {
    /// A part is complete.
    Part {
        /// Record.
        record: u64,
        /// Component.
        component: u16,
        /// Its length.
        bytes: u64,
    },
    /// All components that are fetched of a record are there, or known not to be.
    Record {
        /// Record.
        record: u64,
    },
    /// A promise was given, or cannot be kept.
    Promise {
        /// Component.
        component: u16,
        /// Its promise.
        promise: Promised,
    },
}

/// Input of the writer.
pub(crate) enum Input {
    /// Pieces with their hash.
    Pieces(Bytes),
    /// A part that cannot be sent.
    Fault {
        record: u64,
        component: u16,
        fault: Fault,
        version: Option<u64>,
    },
    /// Time to make durable what was written.
    Tick,
    /// Question about what is missing of these components; together, or of each by itself.
    Missing(Selection, bool, oneshot::Sender<Vec<Item>>),
    /// Everything has to be durable.
    Finish(oneshot::Sender<State>),
}

impl Input {
    /// A fault that the sender of data reports; `None`: the notice is another one.
    pub(crate) fn of_notice(notice: &Notice) -> Option<Self> {
        match *notice {
            Notice::Fault {
                record,
                component,
                fault,
                version,
            } => Some(Self::Fault {
                record,
                component,
                fault,
                version,
            }),
            _ => None,
        }
    }
}

/// State of a set.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(crate) is_complete: bool,
    /// Reasons for parts that are missing, by record and component.
    pub(crate) faults: BTreeMap<(u64, u16), Fault>,
}

/// Counters that are read while the writer runs.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Bytes of each component that arrived.
    pub(crate) bytes: Vec<AtomicU64>,
    /// Records of which each component is complete.
    pub(crate) records: Vec<AtomicU64>,
}

/// A writer.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) input: mpsc::Sender<Input>,
    pub(crate) task: JoinHandle<Result<(), RecordsError>>,
    pub(crate) counters: Arc<Counters>,
}

impl Writer {
    /// Starts a writer; `up` gets each record of which all of `components` are there.
    pub(crate) fn start(sink: Sink, components: Vec<u16>, up: Option<mpsc::Sender<Up>>) -> Self {
        let (input, inputs) = mpsc::channel(WAITING_MAX);
        let count = sink.manifest().components.len();
        let counters = Arc::new(Counters {
            bytes: (0..count).map(|_| AtomicU64::new(0)).collect(),
            records: (0..count as u16)
                .map(|component| AtomicU64::new(sink.records_complete(component)))
                .collect(),
        });
        let shared = counters.clone();
        let task = spawn_blocking(move || write(sink, inputs, &components, up.as_ref(), &shared));
        Self {
            input,
            task,
            counters,
        }
    }

    /// Asks the writer.
    pub(crate) async fn ask<T>(
        &self,
        question: impl FnOnce(oneshot::Sender<T>) -> Input,
    ) -> Result<T, RecordsError> {
        let (sender, receiver) = oneshot::channel();
        let asked = self.input.send(question(sender)).await;
        asked.map_err(|_| RecordsError::Internal)?;
        receiver.await.map_err(|_| RecordsError::Internal)
    }
}

/// Makes work durable, one after the other.
struct Durable {
    works: mpsc::Sender<(Work, Option<oneshot::Sender<()>>)>,
    task: JoinHandle<io::Result<()>>,
}

impl Durable {
    fn start(sink: &Sink) -> Self {
        let note = sink.note();
        let (works, mut waiting) = mpsc::channel::<(Work, Option<oneshot::Sender<()>>)>(1);
        let task = spawn_blocking(move || {
            while let Some((work, done)) = waiting.blocking_recv() {
                work.perform(&note)?;
                if let Some(done) = done {
                    // Nobody waits any more if there is nobody.
                    let _ = done.send(());
                }
            }
            Ok(())
        });
        Self { works, task }
    }
}

fn write(
    mut sink: Sink,
    mut inputs: mpsc::Receiver<Input>,
    components: &[u16],
    up: Option<&mpsc::Sender<Up>>,
    counters: &Counters,
) -> Result<(), RecordsError> {
    let durable = Durable::start(&sink);
    let mut faults = BTreeMap::new();
    let outcome = loop {
        let Some(input) = inputs.blocking_recv() else {
            break Ok(());
        };
        match input {
            Input::Pieces(adu) => {
                if let Err(error) = take(&mut sink, &adu, components, up, counters, &mut faults) {
                    break Err(error);
                }
            }
            Input::Fault {
                record,
                component,
                fault,
                version,
            } => {
                if let Some(version) = version {
                    sink.give_up(record, component, version);
                }
                if faults.len() < FAULTS_MAX && !sink.has(record, &[component]) {
                    faults.insert((record, component), fault);
                }
            }
            Input::Tick => {
                // While the last work is being made durable, this one grows.
                if durable.works.capacity() > 0
                    && let Some(work) = sink.take_work()
                    && durable.works.blocking_send((work, None)).is_err()
                {
                    break Ok(());
                }
            }
            Input::Missing(selection, is_together, answer) => {
                let missing = match is_together {
                    true => sink.missing_together(&selection),
                    false => selection
                        .components
                        .iter()
                        .flat_map(|component| sink.missing(&selection, *component))
                        .collect(),
                };
                let _ = answer.send(missing);
            }
            Input::Finish(answer) => {
                if let Some(work) = sink.take_work() {
                    let (done, wait) = oneshot::channel();
                    let given = durable.works.blocking_send((work, Some(done)));
                    if given.is_err() || wait.blocking_recv().is_err() {
                        break Ok(());
                    }
                }
                let is_complete = sink.is_complete();
                if is_complete && let Err(error) = sink.conclude() {
                    break Err(error.into());
                }
                let mut faults = faults.clone();
                faults.retain(|(record, component), _| !sink.has(*record, &[*component]));
                let _ = answer.send(State {
                    is_complete,
                    faults,
                });
            }
        }
    };
    // What was written before an error or an interruption counts.
    let rest = sink.take_work();
    let Durable { works, task } = durable;
    if let Some(work) = rest {
        // An error shows in the outcome of the task.
        let _ = works.blocking_send((work, None));
    }
    drop(works);
    let noted = tokio::runtime::Handle::current().block_on(task);
    outcome?;
    noted
        .map_err(|_| RecordsError::Internal)?
        .map_err(|source| {
            RecordsError::Sink(SinkError::Write {
                path: sink.path().to_owned(),
                source,
            })
        })
}

/// Writes the pieces of an ADU.
fn take(
    sink: &mut Sink,
    adu: &Bytes,
    components: &[u16],
    up: Option<&mpsc::Sender<Up>>,
    counters: &Counters,
    faults: &mut BTreeMap<(u64, u16), Fault>,
) -> Result<(), RecordsError> {
    for piece in pieces(adu)? {
        let (new, is_complete) = sink.take(&piece)?;
        let index = usize::from(piece.component);
        counters.bytes[index].fetch_add(new, Ordering::Relaxed);
        if !is_complete {
            continue;
        }
        counters.records[index].fetch_add(1, Ordering::Relaxed);
        faults.remove(&(piece.record, piece.component));
        if let Some(up) = up {
            // An error means that nobody is interested any more.
            let _ = up.blocking_send(Up::Part {
                record: piece.record,
                component: piece.component,
                bytes: piece.part_bytes,
            });
            if sink.has(piece.record, components) {
                let _ = up.blocking_send(Up::Record {
                    record: piece.record,
                });
            }
        }
    }
    Ok(())
}
