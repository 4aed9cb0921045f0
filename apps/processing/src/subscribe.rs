//! Subscriber: asks a processing node for what a pipeline derives from a stream.

mod asking;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use anabranch::{AduSession, AduStream, StreamSpec};
use anabranch_process::{
    ModuleHash, Pipeline, Step,
    operators::delta::Decoder,
    serve::{Progress, windows::Failed},
};
use bytes::Bytes;
use tokio::{
    sync::{mpsc, watch},
    time::{Duration, MissedTickBehavior, interval, timeout},
};

use crate::{
    account::{Account, Judged},
    bring::bring,
    error::ProcessingError,
    link::{Link, unexpected},
    presence,
    wire::{
        Carried, Item, Notice, Purpose, Request, decode, is_message,
        label::chosen,
        message::{self, Demand, Position, WAIT_MS_MAX, WAIT_OF_SEVERAL_MS},
    },
};

/// ADUs that are taken before the answer of a service that sends it after them; the others wait in their stream.
const BEFORE_MAX: usize = 16;
/// Time between two looks at windows.
const LOOK: Duration = Duration::from_millis(250);

pub use crate::received::Received;
pub use anabranch_process::serve::windows::Part;

/// Settings of a subscriber.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of the stream.
    pub name: String,
    /// A number chosen at random.
    pub run: u64,
    /// Node of the source; `None`: any.
    pub source: Option<String>,
    /// Promise for the stream to the subscriber.
    pub demand: Option<Demand>,
    /// Time without a response of the processing node, or of the source to it, after which a session ends with [`ProcessingError::Lost`], for
    /// subscribers that can go to another node; `None`: it lasts as long as the session.
    pub patience: Option<Duration>,
    /// WebAssembly modules for nodes that lack them, of which those of a pipeline are brought there before it is asked for.
    pub modules: BTreeMap<ModuleHash, Bytes>,
    /// Specification of that stream; its label is not used. If it is reliable and without a lifetime, no derived ADU is lost.
    pub spec: StreamSpec,
}

/// A subscriber, for one session with a processing node after the other.
#[derive(Debug)]
pub struct Subscriber {
    settings: Settings,
    /// The newest pipeline and its number.
    pipeline: watch::Sender<(u32, Pipeline)>,
    /// Pipelines that ADUs may still be derived by.
    pipelines: Mutex<BTreeMap<u32, Pipeline>>,
    progress: Mutex<Progress>,
    account: Account,
    /// True while the source is away from the processing node.
    is_away: watch::Sender<bool>,
    received: mpsc::Sender<Received>,
    /// Number of questions to services.
    asked: AtomicU64,
}

impl Subscriber {
    /// A subscriber to what the pipeline derives; what it receives goes to `received`, and waits for space there.
    pub fn new(settings: Settings, pipeline: &Pipeline, received: mpsc::Sender<Received>) -> Self {
        let account = Account::new(settings.demand);
        Self {
            settings,
            pipeline: watch::Sender::new((0, pipeline.clone())),
            pipelines: Mutex::new(BTreeMap::from([(0, pipeline.clone())])),
            progress: Mutex::default(),
            account,
            is_away: watch::Sender::new(false),
            received,
            asked: AtomicU64::new(0),
        }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pipelines(&self) -> MutexGuard<'_, BTreeMap<u32, Pipeline>> {
        self.pipelines
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn is_reliable(&self) -> bool {
        self.settings.spec.reliable && self.settings.spec.lifetime.is_none()
    }

    /// Changes the pipeline; returns its number, which ADUs have that are derived by it.
    pub fn change(&self, pipeline: &Pipeline) -> u32 {
        let mut number = 0;
        self.pipeline.send_modify(|(last, newest)| {
            *last += 1;
            number = *last;
            newest.clone_from(pipeline);
            self.pipelines().insert(number, pipeline.clone());
        });
        number
    }

    /// A change was refused: the pipeline before is in force.
    fn refused(&self, number: u32) {
        self.pipeline.send_if_modified(|newest| {
            let mut pipelines = self.pipelines();
            pipelines.remove(&number);
            if newest.0 == number
                && let Some((&before, pipeline)) = pipelines.last_key_value()
            {
                *newest = (before, pipeline.clone());
            }
            false
        });
    }

    /// Subscribes in a session until the source has sent everything; returns the reason for the end. In a later session, a reliable
    /// subscriber goes on with the first ADU that it lacks.
    ///
    /// # Errors
    /// The node refuses, or does not keep to the protocol; the session is over.
    pub async fn run<S: AduSession>(&self, session: &S) -> Result<String, ProcessingError> {
        tokio::select! {
            ended = self.subscribe(session) => ended,
            lost = presence::lost(session, self.settings.patience) => Err(lost),
        }
    }

    async fn subscribe<S: AduSession>(&self, session: &S) -> Result<String, ProcessingError> {
        let settings = &self.settings;
        let mut pipelines = self.pipeline.subscribe();
        self.is_away.send_replace(false);
        loop {
            let pipeline = pipelines.borrow_and_update().1.clone();
            bring(session, &settings.name, &pipeline, &settings.modules).await?;
            // Another one may be wanted by now. The sender is of this subscriber.
            if !pipelines.has_changed().unwrap_or(false) {
                break;
            }
        }
        let spec = StreamSpec {
            duplex: true,
            ..settings.spec.clone()
        };
        let opens = self.opens();
        let first = Request::Subscribe(message::Subscribe {
            opens: Some(opens),
            ..self.request()
        });
        let link = Link::open(session, Purpose::Subscribe, &settings.name, &first).await?;
        let early = link.adus(session, opens, spec.clone()).await?;
        let mut before = VecDeque::new();
        let (stream, source) = match self.answer(&link, &early, &mut before).await {
            Ok((number, source)) if number == opens => (early, source),
            Ok((number, source)) => {
                Link::<S>::unused(&early);
                (link.adus(session, number, spec).await?, source)
            }
            Err(error) => {
                Link::<S>::unused(&early);
                return Err(error);
            }
        };
        self.give(Received::Begun { source }).await?;
        let reading = self.read(&link, &stream, before);
        let receiving = async { tokio::try_join!(reading, self.listen(&link)) };
        let ((), why) = tokio::select! {
            received = receiving => received?,
            failed = self.ask((session, &link), &mut pipelines) => return Err(failed),
            failed = self.judge() => return Err(failed),
            lost = self.left() => return Err(lost),
        };
        self.tell(&link).await?;
        link.finish().await;
        Ok(why)
    }

    /// Number for the stream with ADUs of one question, which no other question of this subscriber has.
    fn opens(&self) -> u64 {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        chosen(self.settings.run.wrapping_add(asked))
    }

    /// The answer of the service, which is the first message on either stream: the number of the stream with ADUs, and the source. What comes
    /// on that stream before is appended to `before`, [`BEFORE_MAX`] at most.
    async fn answer<S: AduSession>(
        &self,
        link: &Link<S>,
        early: &S::Stream,
        before: &mut VecDeque<Bytes>,
    ) -> Result<(u64, String), ProcessingError> {
        let mut is_open = true;
        let answer = loop {
            tokio::select! {
                biased;
                answer = link.next() => break answer?,
                adu = early.recv(), if is_open && before.len() < BEFORE_MAX => match adu {
                    Ok(Some(adu)) if is_message(&adu.data) => break Some(decode(&adu.data)?),
                    Ok(Some(adu)) => before.push_back(adu.data),
                    // The other stream says why.
                    Ok(None) | Err(_) => is_open = false,
                },
            }
        };
        match answer {
            Some(Notice::Subscribed {
                stream,
                source,
                run,
                position,
            }) => {
                self.begun(run, position);
                Ok((stream, source))
            }
            other => Err(unexpected(other.as_ref())),
        }
    }

    /// True once a processing node has taken the subscription.
    pub fn has_begun(&self) -> bool {
        self.progress().run().is_some()
    }

    /// First message of a session.
    pub(crate) fn request(&self) -> message::Subscribe {
        let settings = &self.settings;
        let (change, pipeline) = self.pipeline.borrow().clone();
        let progress = self.progress();
        let position = progress.position().filter(|_| self.is_reliable()).cloned();
        message::Subscribe {
            run: settings.run,
            source: settings.source.clone(),
            pipeline: pipeline.to_string(),
            is_reliable: self.is_reliable(),
            change,
            of: progress.run().filter(|_| position.is_some()),
            position: position.map(Position::from),
            demand: settings.demand,
            wait_ms: match settings.patience {
                Some(_) => WAIT_OF_SEVERAL_MS,
                None => WAIT_MS_MAX,
            },
            opens: None,
        }
    }

    /// A session has begun with this run of the source, at this place.
    pub(crate) fn begun(&self, run: u64, position: Position) {
        self.progress().begun(run, position.into());
    }

    /// Everything before this place has come.
    pub(crate) fn marked(&self, position: Position) {
        self.progress().marked(position.into());
    }

    /// Number of the source's ADU before which everything derived is held.
    pub(crate) fn held(&self) -> Option<u64> {
        self.progress().held()
    }

    /// Waits until the source has been away for too long.
    async fn left(&self) -> ProcessingError {
        let Some(patience) = self.settings.patience else {
            return std::future::pending().await;
        };
        let mut away = self.is_away.subscribe();
        loop {
            // The sender is of this subscriber.
            let _ = away.wait_for(|is_away| *is_away).await;
            let back = timeout(patience, away.wait_for(|is_away| !*is_away)).await;
            if back.is_err() {
                return ProcessingError::Lost("the source is away".to_owned());
            }
        }
    }

    async fn give(&self, received: Received) -> Result<(), ProcessingError> {
        let given = self.received.send(received).await;
        given.map_err(|_| ProcessingError::Over("nobody takes what is received".to_owned()))
    }

    /// Reads ADUs until the service has sent all, those that came before its answer first.
    async fn read<S: AduSession>(
        &self,
        link: &Link<S>,
        stream: &S::Stream,
        mut before: VecDeque<Bytes>,
    ) -> Result<(), ProcessingError> {
        let mut decoding = None;
        loop {
            let data = match before.pop_front() {
                Some(data) => data,
                None => match stream.recv().await.map_err(|error| link.failed(&error))? {
                    Some(adu) => adu.data,
                    None => return Ok(()),
                },
            };
            if is_message(&data) {
                // The answer, which came on the other stream first.
                continue;
            }
            match Item::read(data)? {
                Item::Mark(position) => self.marked(position),
                Item::Adu(carried) => self.arrived(carried, &mut decoding).await?,
            }
        }
    }

    pub(crate) async fn arrived(
        &self,
        carried: Carried,
        decoding: &mut Option<(u32, Option<Decoder>)>,
    ) -> Result<(), ProcessingError> {
        let Carried {
            mut adu,
            change,
            is_last,
        } = carried;
        if decoding
            .as_ref()
            .is_none_or(|(number, _)| *number != change)
        {
            *decoding = Some((change, self.decoder(change)));
        }
        let mut is_usable = true;
        if let Some((_, Some(decoder))) = decoding {
            match decoder.decode(adu.body.clone()) {
                Ok(array) => adu.body = array,
                // After a loss, differences are of no use until a whole array comes.
                Err(_) => is_usable = false,
            }
            adu.needs_previous = false;
        }
        if let Some(made) = adu.made {
            self.account.passed(made, self.account.now());
        }
        let is_new = self.progress().arrived(adu.sequence);
        if is_new && is_usable {
            self.give(Received::Adu { adu, change }).await?;
        }
        self.progress().taken(is_last);
        Ok(())
    }

    /// Reports windows that were late; does not return, but on failure.
    async fn judge(&self) -> ProcessingError {
        let mut ticks = interval(LOOK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let Judged { late, kept, change } = self.account.judge(self.account.now());
            let late = late.into_iter();
            let late = late.map(|Failed { window, part }| Received::Late { window, part, kept });
            let change = change.map(|change| Received::changed(change, kept));
            for news in late.chain(change) {
                if let Err(error) = self.give(news).await {
                    return error;
                }
            }
        }
    }

    /// Decoder of the arrays of a pipeline that ends with differences; `None`: it does not.
    fn decoder(&self, change: u32) -> Option<Decoder> {
        let mut pipelines = self.pipelines();
        // Earlier ones do not come again.
        *pipelines = pipelines.split_off(&change);
        match pipelines.get(&change)?.steps().last() {
            Some(Step::Delta { element, .. }) => Some(Decoder::new(*element)),
            _ => None,
        }
    }

    /// Takes the messages of the service until it has sent everything; returns the reason.
    async fn listen<S: AduSession>(&self, link: &Link<S>) -> Result<String, ProcessingError> {
        loop {
            let received = match link.next().await? {
                Some(Notice::Changed { number }) => Received::Changed { number },
                Some(Notice::Refused {
                    number: Some(number),
                    why,
                    ..
                }) => {
                    self.refused(number);
                    Received::NotChanged { number, why }
                }
                Some(Notice::Promise {
                    rate_bps,
                    why,
                    part,
                    share_ppm,
                }) => {
                    if !self.account.promised(rate_bps) {
                        continue;
                    }
                    Received::Promise {
                        rate_bps,
                        why,
                        part: part.map(Part::from),
                        share: share_ppm.map(|ppm| f64::from(ppm) / 1e6),
                    }
                }
                Some(Notice::Late { window, part }) => {
                    let part = part.into();
                    let now = self.account.now();
                    self.account.node(Failed { window, part }, now);
                    continue;
                }
                Some(Notice::Dropped { lost, failed, why }) => {
                    Received::Dropped { lost, failed, why }
                }
                Some(Notice::Away { is_away }) => {
                    self.is_away.send_replace(is_away);
                    Received::Source { is_away }
                }
                Some(Notice::Ended {
                    why,
                    may_return: true,
                }) => return Err(ProcessingError::refused(&why, true)),
                Some(Notice::Ended { why, .. }) => return Ok(why),
                // The answer came on the stream with ADUs first.
                Some(Notice::Subscribed { .. } | Notice::Unknown) => continue,
                other => return Err(unexpected(other.as_ref())),
            };
            self.give(received).await?;
        }
    }
}
