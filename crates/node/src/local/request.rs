//! Requests of an application, executed. All but [`Request::Connect`] and [`Request::Discard`] are answered in order, before the next
//! frame is read.

use std::sync::Arc;

use anabranch_net::{Remotes, Session, StreamFailure};
use anabranch_session::{ObjectiveError, ObjectiveId, StreamError, StreamSpec};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{
    REQUESTS_MAX,
    connection::Connection,
    frame::JSON_BYTES_MAX,
    inbox::Local,
    message::{
        self, Answer, ChancesBody, Connected, DiscardedBody, ErrorBody, ExplanationBody, Fields,
        GrantBody, LoadBody, Opened, PathBody, RefusalBody, Request,
    },
    tables::error,
};
use crate::{
    config::{self, ConfigError},
    exports, outcome,
    spec::SpecText,
    ticket::Ticket,
    transfer::is_transfer,
};

/// Beginning of labels that belong to the node itself.
pub(super) const RESERVED: &str = "anabranch-";

impl From<ConfigError> for ErrorBody {
    fn from(why: ConfigError) -> Self {
        error("spec", why)
    }
}

impl From<StreamFailure> for ErrorBody {
    fn from(failure: StreamFailure) -> Self {
        if let Some(refusal) = failure.refusal() {
            return Self {
                refusal: Some(Box::new(RefusalBody::of(refusal))),
                ..error("refused", &failure)
            };
        }
        let kind = match &failure {
            StreamFailure::Closed(_) | StreamFailure::Stream(StreamError::UnknownSession(_)) => {
                "session_over"
            }
            StreamFailure::Stream(StreamError::Spec(_)) => "spec",
            StreamFailure::Stream(StreamError::TooMany(_)) => "limit",
            _ => "stream",
        };
        error(kind, failure)
    }
}

impl From<ObjectiveError> for ErrorBody {
    fn from(why: ObjectiveError) -> Self {
        match why {
            ObjectiveError::Text(report) => error("objectives", report.render("objectives")),
            ObjectiveError::Stream(why) => StreamFailure::from(why).into(),
            ObjectiveError::Field(why) => error("field", why),
            other => error("objectives", other),
        }
    }
}

pub(super) type Done = Result<Value, ErrorBody>;

pub(super) fn value(message: impl serde::Serialize) -> Done {
    Ok(serde_json::to_value(message).expect("a message is a value"))
}

/// The answer to a request, as the body of a frame.
pub(super) fn answer(id: u64, done: Done) -> Bytes {
    let body = |done: Done| {
        let (ok, error) = match done {
            Ok(ok) => (Some(ok), None),
            Err(error) => (None, Some(error)),
        };
        message::json(&Answer { id, ok, error })
    };
    let answer = body(done);
    if answer.len() <= JSON_BYTES_MAX {
        return answer;
    }
    let why = format!("the answer has more than {JSON_BYTES_MAX} bytes; ask for less");
    body(Err(error("limit", why)))
}

impl Connection {
    /// Executes a request other than [`Request::Connect`] and [`Request::Discard`].
    pub(super) fn execute(self: &Arc<Self>, request: Request) -> Done {
        match request {
            Request::Connect { .. } | Request::Discard { .. } => {
                Err(error("request", "a request that waits"))
            }
            Request::Release { session } => {
                self.tables().remove_session(session)?;
                Ok(json!({}))
            }
            Request::Open {
                session,
                spec,
                credit,
            } => self.open(session, &spec, credit),
            Request::Register { label, backlog } => self.register(&label, backlog),
            Request::Unregister { service } => {
                self.tables().remove_service(service)?;
                Ok(json!({}))
            }
            Request::StateLoad { load } => self.state_load(&load),
            Request::Admit { session, spec } => {
                let spec = self.own(spec.resolve()?);
                self.account.check(&spec)?;
                let grant = self.session(session)?.admit(&spec)?;
                Ok(json!({ "grant": GrantBody::of(&grant) }))
            }
            Request::Explain { stream } => {
                let explanation = self.tables().stream(stream)?.0.explain();
                let body = explanation.as_ref().map(ExplanationBody::of);
                Ok(json!({ "explanation": body }))
            }
            Request::Adjust { stream, changes } => {
                let parameters = changes.resolve()?;
                self.tables().stream(stream)?.0.adjust(parameters)?;
                Ok(json!({}))
            }
            Request::ChangeGuarantee { stream, guarantee } => {
                let guarantee = guarantee
                    .map(|text| text.resolve(|key| format!("guarantee.{key}")))
                    .transpose()?;
                let (stream, local) = self.tables().stream(stream)?.clone();
                local.reservation.change(guarantee.as_ref(), || {
                    // The peer may have opened it.
                    stream.set_tenant(Some(self.account.tenant()))?;
                    stream.change_guarantee(guarantee)?;
                    Ok(json!({}))
                })
            }
            Request::UpdateFields {
                stream,
                adu,
                fields,
            } => self.update_fields(stream, adu, fields),
            Request::OnTime {
                stream,
                bytes,
                within,
            } => {
                let read = |text: &String| {
                    config::time(text).map_err(|why| config::refused("within", text, why))
                };
                let within = within.as_ref().map(read).transpose()?;
                let (stream, local) = self.tables().stream(stream)?.clone();
                // What was just handed over goes before it.
                let ahead = local.waiting_bytes();
                let bytes = usize::try_from(bytes.saturating_add(ahead)).unwrap_or(usize::MAX);
                let within = within.or(stream.spec().lifetime);
                let chances = within.and_then(|within| stream.chances(bytes, within));
                Ok(json!(ChancesBody::from(chances)))
            }
            Request::Probe { session } => {
                self.session(session)?.probe();
                Ok(json!({}))
            }
            Request::Paths { session } => {
                let reports = self.session(session)?.channels();
                let paths: Vec<PathBody> = reports.iter().map(PathBody::from).collect();
                Ok(json!({ "paths": paths }))
            }
            Request::Inject { session, text } => {
                self.account.check_objectives()?;
                let injected = self.session(session)?.inject_objectives(&text)?;
                let ids: Vec<u64> = injected.ids.iter().map(|id| id.0).collect();
                let warnings = injected.warnings.to_string();
                Ok(json!({ "ids": ids, "warnings": warnings }))
            }
            Request::Remove { session, objective } => {
                self.account.check_objectives()?;
                let session = self.session(session)?;
                let removed = session.remove_objective(ObjectiveId(objective))?;
                Ok(json!({ "removed": removed }))
            }
            Request::Objectives { session } => {
                let session = self.session(session)?;
                let (entries, tallies) = (session.objectives(), session.tallies());
                let rows: Vec<Value> = (entries.iter())
                    .map(|entry| {
                        let mut all = tallies.iter();
                        let tally = all.find(|(objective, _)| *objective == entry.id);
                        json!({
                            "id": entry.id.0,
                            "name": entry.name,
                            "kind": entry.kind.name(),
                            "text": entry.text,
                            "tally": tally.map(|(_, tally)| tally),
                        })
                    })
                    .collect();
                Ok(json!({ "objectives": rows }))
            }
        }
    }

    /// Gives up what was handed over to a stream before, and answers as soon as the task of the stream has done it.
    pub(super) fn discard(
        self: &Arc<Self>,
        id: u64,
        stream: u32,
        requests: &mut JoinSet<()>,
    ) -> Result<(), ErrorBody> {
        if requests.len() >= REQUESTS_MAX {
            let why = format!("{REQUESTS_MAX} requests may wait at a time; wait for an answer");
            return Err(error("limit", why));
        }
        let discarded = self.tables().stream(stream)?.1.discard();
        let connection = self.clone();
        requests.spawn(async move {
            let done = match discarded.await {
                Ok(Ok(discarded)) => value(DiscardedBody::from(discarded)),
                Ok(Err(failure)) => Err(failure.into()),
                Err(_) => Err(error("stream", "the stream is over")),
            };
            connection.answer(id, done);
        });
        Ok(())
    }

    /// Takes the load that a program with services states.
    fn state_load(&self, load: &LoadBody) -> Done {
        let load = load.resolve()?;
        if !self.tables().has_services() {
            let why = "a program that has registered no service states no load";
            return Err(error("request", why));
        }
        let Some(overlay) = self.node.overlay() else {
            return Ok(json!({ "is_published": false }));
        };
        match overlay.state_load(&self.author, load) {
            true => Ok(json!({ "is_published": true })),
            false => Err(error(
                "limit",
                "another program states the load of this node",
            )),
        }
    }

    /// The spec of a stream that belongs to the user of the application.
    fn own(&self, spec: StreamSpec) -> StreamSpec {
        StreamSpec {
            tenant: Some(self.account.tenant()),
            ..spec
        }
    }

    fn session(&self, handle: u32) -> Result<Session, ErrorBody> {
        self.tables().session(handle).cloned()
    }

    /// The session with a peer, opened if there is none.
    pub(super) async fn connect(
        &self,
        peer: &str,
        addresses: Vec<String>,
        events: bool,
    ) -> Result<Connected, ErrorBody> {
        let mut remotes = Remotes::default();
        for text in &addresses {
            remotes.add(text).map_err(|wrong| error("request", wrong))?;
        }
        let mut addresses = remotes;
        let node = match peer.parse::<Ticket>() {
            Ok(ticket) => {
                if addresses.is_empty() {
                    addresses = ticket.remotes();
                    ticket.prepare(self.node.host());
                }
                ticket.node
            }
            Err(_) => {
                let named = self.node.node_named(peer);
                named.map_err(|unknown| error("peer", unknown))?
            }
        };
        let session = self.node.session_with(node, addresses).await;
        let session = session.map_err(|why| error("unreachable", why))?;
        Ok(Connected {
            session: self.tables().add_session(session)?,
            peer: node.to_string(),
            events,
        })
    }

    fn open(self: &Arc<Self>, session: u32, spec: &SpecText, credit: u32) -> Done {
        let spec = self.own(spec.resolve()?);
        let is_for_all =
            is_transfer(&spec.label) || [outcome::LABEL, exports::LABEL].contains(&&*spec.label);
        if spec.label.starts_with(RESERVED) && !is_for_all {
            let why = format!("labels that begin with {RESERVED} belong to the node itself");
            return Err(error("spec", why));
        }
        let session = {
            let tables = self.tables();
            tables.may_add_stream()?;
            tables.session(session)?.clone()
        };
        let reservation = self.account.open(&spec)?;
        let stream = session.open_stream(spec)?;
        let id = stream.id().0;
        let local = self.add_stream(stream, reservation, credit, None)?;
        value(Opened {
            stream: local.handle,
            id,
            credit: local.credit(),
        })
    }

    fn update_fields(&self, stream: u32, adu: u64, fields: Fields) -> Done {
        let (stream, local): (_, Arc<Local>) = self.tables().stream(stream)?.clone();
        let fields: Vec<(String, anabranch_net::Field)> = (fields.into_iter())
            .map(|(name, field)| (name, field.into()))
            .collect();
        let values: Vec<_> = (fields.iter())
            .map(|(name, field)| (name.as_str(), field.value()))
            .collect();
        let Some(sequence) = local.sequence(adu) else {
            return Ok(json!({ "known": false }));
        };
        let known = stream.update_fields(sequence, &values)?;
        Ok(json!({ "known": known }))
    }
}
