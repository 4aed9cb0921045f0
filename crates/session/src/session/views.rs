//! Views of streams for the policy: kept from run to run, and patched where streams changed.

use anabranch_base::StreamId;
use anabranch_sched::{ChannelView, StreamView};
use anabranch_spec::{ChannelChoice, PathTraits};

use super::Session;
use crate::send::SendStream;

/// Views of streams that do not wait any more are kept up to this number plus the number of those that do.
const SPENT_MAX: usize = 64;

/// Views of the channels, and the properties of their paths.
type Paths<'a> = (&'a [ChannelView], &'a [PathTraits]);

/// Views of streams, by id, ascending. Key: session.
///
/// Invariant, from [`Session::view_streams`] on until the run of the pump ends: the views that wait are those of
/// the streams that may send.
#[derive(Debug, Default)]
pub(super) struct Views {
    all: Vec<StreamView>,
    /// Number of views that wait.
    waiting: usize,
    /// True if the views of streams that are not marked as changed are current.
    are_current: bool,
    /// True if more than the marked streams may have changed since the last run.
    are_new: bool,
    /// True if the credit of the session may have held back some of the streams.
    were_short: bool,
}

impl Views {
    pub(super) fn all(&self) -> &[StreamView] {
        &self.all
    }

    /// True if no stream waits.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting == 0
    }

    /// True if more than the marked streams' views may have changed since the last run.
    pub(super) fn are_new(&self) -> bool {
        self.are_new
    }

    /// Invalidates all views: a value that they all depend on has changed.
    pub(super) fn invalidate(&mut self) {
        self.are_current = false;
    }

    /// Notes that the stream with this index has nothing that may be sent now. Views keep their indices until the next run.
    pub(super) fn rest(&mut self, index: usize) {
        let view = &mut self.all[index];
        self.waiting -= usize::from(view.is_waiting());
        view.backlog_bytes = 0;
    }

    fn put(&mut self, stream: StreamId, view: Option<StreamView>) {
        let place = self.all.binary_search_by_key(&stream, |view| view.id);
        match (place, view) {
            (Ok(at), None) => self.rest(at),
            (Ok(at), Some(view)) => {
                self.waiting += usize::from(!self.all[at].is_waiting());
                self.all[at] = view;
            }
            (Err(at), Some(view)) => {
                self.waiting += 1;
                self.all.insert(at, view);
            }
            (Err(_), None) => {}
        }
    }

    fn sweep(&mut self) {
        if self.all.len() > 2 * self.waiting + SPENT_MAX {
            self.all.retain(StreamView::is_waiting);
        }
    }
}

impl Session {
    /// Updates the views of streams. O(streams that changed · log streams); O(active streams) when channels
    /// or promises changed, and while the session's credit is short.
    pub(super) fn view_streams(&self, views: &mut Views, paths: Paths<'_>) {
        let credit = self.flow.credit_left();
        let is_short = credit < self.streams.charge_max;
        views.are_new = !views.are_current || is_short || views.were_short;
        if views.are_new {
            views.all.clear();
            views.all.extend(self.sendable(credit, paths));
            views.waiting = views.all.len();
        } else {
            for &stream in self.streams.send.touched() {
                let send = self.streams.send.get(&stream);
                let send = send.filter(|send| self.may_send(send, credit));
                let view = send.map(|send| self.stream_view(send, paths));
                views.put(stream, view);
            }
            views.sweep();
        }
        views.are_current = true;
        views.were_short = is_short;
        debug_assert!(self.are_views_right(views, paths), "a change left no mark");
    }

    /// The views of all streams that may send.
    fn sendable<'a>(
        &'a self,
        credit: u64,
        paths: Paths<'a>,
    ) -> impl Iterator<Item = StreamView> + 'a {
        self.streams
            .active()
            .filter(move |send| self.may_send(send, credit))
            .map(move |send| self.stream_view(send, paths))
    }

    fn are_views_right(&self, views: &Views, paths: Paths<'_>) -> bool {
        let waiting = views.all.iter().filter(|view| view.is_waiting());
        waiting
            .cloned()
            .eq(self.sendable(self.flow.credit_left(), paths))
    }

    /// Updates the views of the streams with these indices, which the last container carries.
    pub(super) fn refresh_streams(&self, views: &mut Views, filled: &[usize]) {
        for &index in filled {
            self.refresh_stream(views, index);
        }
    }

    /// Updates the view of the stream with this index.
    pub(super) fn refresh_stream(&self, views: &mut Views, index: usize) {
        let credit = self.flow.credit_left();
        let view = &mut views.all[index];
        match self.streams.send.get(&view.id) {
            Some(send) if self.may_send(send, credit) && view.is_waiting() => {
                view.backlog_bytes = visible_backlog(send);
                view.deadline = send.next_deadline();
            }
            _ => views.rest(index),
        }
    }

    fn stream_view(&self, send: &SendStream, (channels, traits): Paths<'_>) -> StreamView {
        StreamView {
            id: send.id,
            priority: send.spec.priority,
            weight: send.spec.weight,
            backlog_bytes: visible_backlog(send),
            deadline: send.next_deadline(),
            pinned: send
                .spec
                .pinned
                .map(|pinned| channels.iter().position(|channel| channel.id == pinned)),
            choice: ChannelChoice::of(&send.spec, &self.config.paths, traits.iter()),
            redundant: send.spec.redundant,
            claim: self.promises.claim(send.id),
        }
    }
}

/// Backlog on which a policy may count: an application that is held back by a full buffer has more.
fn visible_backlog(send: &SendStream) -> u64 {
    if send.blocked {
        u64::MAX / 4
    } else {
        send.backlog_bytes()
    }
}
