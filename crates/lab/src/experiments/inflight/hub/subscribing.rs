//! Subscribers of the service.

use std::num::NonZeroU32;

use anabranch_base::Instant;
use anabranch_process::{
    memory::Account,
    serve::{self, Subscription},
};
use anabranch_processing::{
    UNSENT_BYTES,
    wire::{
        Notice, Purpose, encode,
        message::{Demand, Subscribe},
    },
};
use anabranch_session::{Guarantee, StreamParameters};
use anabranch_sim::Context;

use super::{At, Hub, Role, Subscriber, say};

/// A subscription to a stream that is not offered yet.
#[derive(Debug)]
pub(super) struct Early {
    pub(super) at: At,
    pub(super) name: String,
    pub(super) asked: Subscribe,
    /// Time at which it is refused.
    pub(super) until: Instant,
}

impl Hub {
    /// Changes the pipeline of a subscriber.
    pub(super) fn change(
        &mut self,
        context: &mut Context<'_>,
        of: u64,
        number: u32,
        pipeline: &str,
    ) -> Result<(), String> {
        let subscriber = self.subscribers.get_mut(&of).ok_or("there is none")?;
        let entry = self.entries.get_mut(&subscriber.name);
        let offered = &mut entry.ok_or("the stream is over")?.offered;
        let pipeline: anabranch_process::Pipeline = pipeline
            .parse()
            .map_err(|error: anabranch_process::ParseError| error.to_string())?;
        if (subscriber.subscription).change(offered, number, &pipeline)? {
            subscriber.discard(context);
        }
        Ok(())
    }

    /// Grants or refuses a subscription.
    pub(super) fn answer(
        &mut self,
        context: &mut Context<'_>,
        at: At,
        name: &str,
        asked: &Subscribe,
    ) {
        if let Err((why, may_retry)) = self.subscribe(context, at, name, asked) {
            let number = None;
            let refused = Notice::Refused {
                number,
                may_retry,
                why,
            };
            say(context, at, &refused);
            context.finish(at.0, at.1);
        }
    }

    /// Answers subscriptions whose stream is offered by now, and those that have waited for long enough.
    pub(super) fn answer_early(&mut self, context: &mut Context<'_>) {
        let now = context.now();
        let entries = &self.entries;
        let is_due = |early: &mut Early| entries.contains_key(&early.name) || early.until <= now;
        let due: Vec<Early> = self.early.extract_if(.., is_due).collect();
        for Early {
            at, name, asked, ..
        } in due
        {
            self.answer(context, at, &name, &asked);
        }
    }

    fn subscribe(
        &mut self,
        context: &mut Context<'_>,
        at: At,
        name: &str,
        asked: &Subscribe,
    ) -> Result<(), (String, bool)> {
        let number = self.fresh();
        let opened = asked.opens.unwrap_or(number);
        let peer = self.peers.get(&at.0).copied();
        let peer = peer.ok_or_else(|| ("the session is over".to_owned(), false))?;
        let entry = self.entries.get_mut(name);
        let entry = entry.ok_or_else(|| (format!("no stream '{name}' is offered here"), true))?;
        let pipeline = asked.pipeline.parse();
        let pipeline =
            pipeline.map_err(|error: anabranch_process::ParseError| (error.to_string(), false))?;
        let position = asked.position.clone();
        let request = serve::Request {
            reader: (peer, asked.run),
            change: asked.change,
            position: position.map(|position| (asked.of, position.into())),
            delivery: serve::delivery(asked.is_reliable),
            account: Account::default(),
        };
        let now = context.now();
        let subscription = Subscription::new(&mut entry.offered, request, &pipeline, now);
        let subscription = subscription.map_err(|why| (why, false))?;
        let notice = Notice::Subscribed {
            stream: opened,
            source: entry.source.to_string(),
            run: entry.offered.terms().run,
            position: subscription.begin().clone().into(),
        };
        say(context, at, &notice);
        let notice = asked.opens.map(|_| encode(&notice));
        self.roles.insert(at, Role::SubscriberControl(number));
        let subscriber = Subscriber {
            name: name.to_owned(),
            peer,
            control: at,
            adus: None,
            opened,
            subscription,
            demand: asked.demand,
            is_reliable: asked.is_reliable,
            // The answer goes before all that is derived.
            waiting: notice.into_iter().collect(),
            marked: 0,
        };
        self.subscribers.insert(number, subscriber);
        self.attach_subscribers(context);
        Ok(())
    }

    /// Gives subscribers their streams with ADUs.
    pub(super) fn attach_subscribers(&mut self, context: &mut Context<'_>) {
        let missing = self
            .subscribers
            .iter()
            .filter(|(_, one)| one.adus.is_none());
        let missing: Vec<_> = missing
            .map(|(number, one)| (*number, one.control, one.name.clone(), one.opened))
            .collect();
        for (number, control, name, opened) in missing {
            if let Some(at) = self.come(control, Purpose::Subscribe, &name, opened)
                && let Some(subscriber) = self.subscribers.get_mut(&number)
            {
                subscriber.attach(context, at);
            }
        }
    }
}

impl Subscriber {
    /// Takes the stream with ADUs.
    fn attach(&mut self, context: &mut Context<'_>, at: At) {
        self.adus = Some(at);
        let (session, stream) = at;
        if !self.is_reliable {
            let short = StreamParameters {
                unsent_max: Some(NonZeroU32::new(UNSENT_BYTES)),
                ..StreamParameters::default()
            };
            // An error means that the session is over.
            let session = context.engine().session(session);
            let _ = session.map(|session| session.stream(stream).adjust(short));
        }
        let Some(Demand {
            rate_bps,
            share_ppm,
            ..
        }) = self.demand
        else {
            return;
        };
        let rate = anabranch_base::Rate::from_bps(rate_bps);
        let guarantee = Guarantee::rate(rate, f64::from(share_ppm) / 1e6).waiting();
        let now = context.now();
        // A refusal is part of the promise's account.
        let _ = context.engine().session(session).and_then(|session| {
            session
                .stream(stream)
                .change_guarantee(now, Some(guarantee))
        });
    }
}
