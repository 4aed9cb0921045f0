//! Streams of classes: opened with the first packet of a rule with a service, closed when it is unused, and opened again in the next
//! session.

use std::{convert::Infallible, sync::Arc, time::Duration};

use anabranch::{Session, daemon::CODE_NO_RIGHT};
use anabranch_gateway::packets::{OpenError, PacketStream};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout, timeout_at},
};

use super::{
    dispatch::Dispatch,
    served::{Served, State},
};
use crate::{
    class::Ended,
    notice::Notice,
    wire::{Ask, LABEL_SERVICE, ServiceMessage},
};

/// Time after which the other side is asked again, before it has answered and later.
const ASK_EVERY: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(10)];
/// Time after which a stream that was refused is asked for again.
const RETRY: Duration = Duration::from_secs(10);
/// Longest wait for what is on its way when a class ends.
const LINGER: Duration = Duration::from_secs(2);
/// Time between two looks at whether the rule is in force.
const LOOK: Duration = Duration::from_secs(1);

/// The end of a session, or of a class in it.
struct Leaving<'d> {
    dispatch: &'d Dispatch,
    /// The class; `None`: all, with the session.
    served: Option<&'d Arc<Served>>,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let mut flows = self.dispatch.flows();
        let ended: Vec<Arc<Served>> = match self.served {
            Some(served) => {
                flows.served.retain(|other| !Arc::ptr_eq(other, served));
                vec![served.clone()]
            }
            None => {
                flows.has_classes = None;
                std::mem::take(&mut flows.served)
            }
        };
        for served in ended {
            // Under the lock: no packet enters it meanwhile.
            self.dispatch
                .classes
                .remove(&served.class, &self.dispatch.outlet);
            served.end();
        }
    }
}

impl Dispatch {
    /// Opens the streams of classes in a session, as they are wanted.
    pub(crate) async fn run(self: &Arc<Self>, session: &Session) -> Infallible {
        let _leaving = Leaving {
            dispatch: self,
            served: None,
        };
        let mut begun: Vec<Arc<Served>> = Vec::new();
        let mut tasks = JoinSet::new();
        loop {
            let all = self.flows().served.clone();
            begun.retain(|served| !served.is_over());
            for served in all {
                if !begun.iter().any(|other| Arc::ptr_eq(other, &served)) {
                    begun.push(served.clone());
                    let (dispatch, session) = (self.clone(), session.clone());
                    tasks.spawn(async move { dispatch.keep(&session, &served).await });
                }
            }
            tokio::select! {
                () = self.wanted.notified() => {}
                Some(_) = tasks.join_next() => {}
            }
        }
    }

    /// Keeps the stream of a class until it is over.
    async fn keep(&self, session: &Session, served: &Arc<Served>) {
        let _leaving = Leaving {
            dispatch: self,
            served: Some(served),
        };
        if self.flows().has_classes == Some(false) {
            served.set(State::Refused);
            return self.retired(served).await;
        }
        let ends = (session, LABEL_SERVICE);
        let stream = match self.rules.open(&served.rule, ends, &served.first) {
            Ok(stream) => Arc::new(stream),
            Err(error) => {
                let is_promise = matches!(error, OpenError::NotPromised(_));
                served.set(match is_promise {
                    true => State::Denied,
                    false => State::Refused,
                });
                let name = served.rule.name().unwrap_or_default();
                let text =
                    format!("packets of the rule {name} have no stream of their own: {error}");
                self.notices.show(&Notice::Warning(text));
                return sleep(RETRY).await;
            }
        };
        served.set_stream(Some(stream.clone()));
        self.classes.open(&served.class, stream.stream().clone());
        let ends = (session, stream.stream());
        let carrying = served.class.carry(ends, self.clock, || self.rules.idle());
        let code = tokio::select! {
            ended = carrying => match ended {
                Ended::Idle => return self.leave(served, &stream).await,
                Ended::Failed(failure) => code_of(&failure),
            },
            () = served.class.ended() => served.class.code(),
            () = self.retired(served) => return self.leave(served, &stream).await,
            () = self.ask(served, &stream) => unreachable!("it goes on until it is dropped"),
            () = stream.watch() => unreachable!("it goes on until it is dropped"),
        };
        let is_unknown = {
            let flows = self.flows();
            served.set(State::Refused);
            self.classes.remove(&served.class, &self.outlet);
            flows.has_classes.is_none()
        };
        if is_unknown && code == Some(CODE_NO_RIGHT) {
            self.flows().has_classes = Some(false);
            let text = "the server gives packets no service of their own; of the rules for packets, denials and limits apply";
            self.notices.show(&Notice::Warning(text.to_owned()));
            return;
        }
        // Until then, packets go with all others.
        drop(stream);
        served.set_stream(None);
        sleep(RETRY).await;
    }

    /// Ends a class so that what is on its way arrives: nothing is sent in it any more, and the server is given time to end its side.
    async fn leave(&self, served: &Arc<Served>, stream: &PacketStream) {
        {
            let mut flows = self.flows();
            flows.served.retain(|other| !Arc::ptr_eq(other, served));
            served.end();
            served.class.queues.move_all(&self.outlet);
        }
        // A stream that is over needs no end.
        if stream.stream().finish().is_ok() {
            let _ = timeout(LINGER, served.class.ended()).await;
        }
    }

    /// Asks the other side for the service of the way back, now and again; does not return.
    async fn ask(&self, served: &Served, stream: &PacketStream) {
        let rule = &served.rule;
        let question = ServiceMessage::Ask(Ask {
            rate_max: rule.rate_max(),
            guarantee: rule.guarantee().filter(|_| stream.is_promised()),
        });
        let question = question.encode();
        let [mut every, later] = ASK_EVERY;
        loop {
            // One that there is no space for is sent with the next turn; a stream that is over is noticed where it is read.
            let _ = stream.stream().try_send(question.clone());
            let until = Instant::now() + every;
            while let Ok(message) = timeout_at(until, served.class.next_message()).await {
                if let Ok(ServiceMessage::Answer(state)) = ServiceMessage::decode(&message) {
                    served.set_promise_back(state);
                    if served.state() == State::Opening {
                        self.flows().has_classes = Some(true);
                        served.set(State::Open);
                    }
                    every = later;
                }
            }
        }
    }

    /// Waits until the rule of a class is not in force any more.
    async fn retired(&self, served: &Served) {
        while self.rules.has(&served.rule) {
            sleep(LOOK).await;
        }
    }
}

fn code_of(failure: &anabranch::StreamFailure) -> Option<u32> {
    match failure {
        anabranch::StreamFailure::Reset(code) | anabranch::StreamFailure::Stopped(code) => {
            Some(*code)
        }
        _ => None,
    }
}
