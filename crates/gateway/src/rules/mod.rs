//! Rules: the service, the peer, or the refusal of each flow, by the first rule that matches it.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | [`Rules`]: the rules in force, the decision about a flow, counters |
//! | `read` | rules from their texts |
//! | `matching` | the flows that a rule is for |
//! | `account` | what the flows of a rule have, all of them together, and its limits |
//! | `process` | the program at the other end of a local socket |

mod account;
mod matching;
mod process;
mod read;

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use anabranch::{
    Share, Tenant, base::NodeId, config::RuleLayer, daemon::RuleReport, spec::SpecText,
};

use self::{
    account::Limits,
    matching::{Matching, Wanted},
    process::Program,
};
pub(crate) use self::{
    account::{Account, Exceeded, Lease},
    matching::{Facts, PacketFacts},
};
pub use self::{process::socket_row, read::RulesError};
use crate::{register::Traffic, service::Services};

/// Effect of a rule.
#[derive(Clone, Debug, PartialEq)]
enum Action {
    Deny,
    Carry {
        services: Services,
        /// Peer for the connections of SOCKS.
        peer: Option<NodeId>,
    },
}

/// A rule, with what happened under it.
#[derive(Debug)]
pub(crate) struct Rule {
    /// `None`: of the flows that no rule matches.
    name: Option<Arc<str>>,
    matching: Matching,
    action: Action,
    /// The text that it was read from.
    text: RuleLayer,
    flows: AtomicU64,
    denied: AtomicU64,
    traffic: Traffic,
    account: Arc<Account>,
}

impl Rule {
    fn new(
        name: Option<&str>,
        matching: Matching,
        action: Action,
        limits: Limits,
        text: RuleLayer,
    ) -> Self {
        Self {
            name: name.map(Into::into),
            matching,
            action,
            text,
            flows: AtomicU64::new(0),
            denied: AtomicU64::new(0),
            traffic: Traffic::default(),
            account: Arc::new(Account::new(limits)),
        }
    }

    /// The rule for flows that no other one matches.
    fn remainder() -> Self {
        let action = Action::Carry {
            services: Services::preset(),
            peer: None,
        };
        let (matching, limits) = (Matching::default(), Limits::default());
        Self::new(None, matching, action, limits, RuleLayer::default())
    }

    pub(crate) fn name(&self) -> Option<String> {
        self.name.as_deref().map(str::to_owned)
    }

    pub(crate) fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    pub(crate) fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// The services of its flows; `None`: they are refused.
    pub(crate) fn services(&self) -> Option<&Services> {
        match &self.action {
            Action::Deny => None,
            Action::Carry { services, .. } => Some(services),
        }
    }

    /// The peer that it names.
    pub(crate) fn peer(&self) -> Option<NodeId> {
        match &self.action {
            Action::Deny => None,
            Action::Carry { peer, .. } => *peer,
        }
    }

    /// True if it gives its flows another service than the preset.
    pub(crate) fn has_service(&self) -> bool {
        let text = self.text.service.as_ref();
        text.is_some_and(|text| text.0 != SpecText::default())
    }

    /// True if it does the same to the same flows.
    fn is_same(&self, other: &Self) -> bool {
        self.text == other.text && self.action == other.action
    }

    fn count(&self) {
        self.flows.fetch_add(1, Ordering::Relaxed);
        if self.action == Action::Deny {
            self.count_denied();
        }
    }

    /// Counts a flow that is refused.
    pub(crate) fn count_denied(&self) {
        self.denied.fetch_add(1, Ordering::Relaxed);
    }

    fn report(&self) -> RuleReport {
        let (sent_bytes, received_bytes) = self.traffic.counts();
        let mut action = match &self.action {
            Action::Deny => "deny".to_owned(),
            Action::Carry { services, .. } => services.name().to_owned(),
        };
        if let Some(peer) = &self.text.peer {
            action += &format!(", by {peer}");
        }
        action += &self.account.limits().to_string();
        let used = self.account.used();
        let matches = match &self.name {
            Some(_) => self.text.matches.to_string(),
            None => "all others".to_owned(),
        };
        RuleReport {
            rule: self.name(),
            matches,
            action,
            flows: self.flows.load(Ordering::Relaxed),
            denied: self.denied.load(Ordering::Relaxed),
            open: used.flows,
            promised_asked_bps: used.promised_bps,
            sent_bytes,
            received_bytes,
        }
    }
}

/// Rules that were read and are not in force yet.
#[derive(Debug)]
pub struct Table {
    rules: Vec<Arc<Rule>>,
    remainder: Arc<Rule>,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            rules: Vec::new(),
            remainder: Arc::new(Rule::remainder()),
        }
    }
}

#[derive(Debug, Default)]
struct InForce {
    table: Mutex<Arc<Table>>,
    /// Number of times that the table was replaced.
    generation: AtomicU64,
}

/// The rules in force. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Rules(Arc<InForce>);

impl Rules {
    fn table(&self) -> Arc<Table> {
        let table = self.0.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.clone()
    }

    /// Number of times that other rules were applied; for those who keep decisions.
    pub(crate) fn generation(&self) -> u64 {
        self.0.generation.load(Ordering::Acquire)
    }

    /// Applies other rules, for flows that begin from now on. A rule that was in force before keeps its counters, and one of
    /// the same name what its open flows have.
    pub fn replace(&self, mut table: Table) {
        let mut current = self.0.table.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = current.rules.clone();
        for rule in &mut table.rules {
            let named = before.iter().find(|other| other.name == rule.name);
            if let (Some(named), Some(rule)) = (named, Arc::get_mut(rule)) {
                let limits = rule.account.limits();
                rule.account = named.account.clone();
                rule.account.set_limits(limits);
            }
            let same = before
                .iter()
                .position(|other| other.is_same(rule) && other.name == rule.name);
            if let Some(same) = same {
                *rule = before.remove(same);
            }
        }
        table.remainder = current.remainder.clone();
        *current = Arc::new(table);
        // A decision by the earlier table is not taken for one by this.
        self.0.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// The first rule that matches a flow, or that of flows without a rule; counted there.
    pub(crate) async fn decide(&self, facts: &Facts<'_>) -> Arc<Rule> {
        let table = self.table();
        let rule = table.first(facts).await;
        rule.count();
        rule
    }

    /// The first rule that matches a flow of packets, or that of flows without a rule; counted there. `None`: the program must be found
    /// first, which [`Rules::decide_with_program`] does.
    pub(crate) fn decide_packet(&self, facts: &PacketFacts) -> Option<Arc<Rule>> {
        let rule = self.table().first_of_packet(facts, None)?;
        rule.count();
        Some(rule)
    }

    /// As [`Rules::decide_packet`], after a search for the program.
    pub(crate) async fn decide_with_program(&self, facts: &PacketFacts) -> Arc<Rule> {
        let program = match facts.source() {
            Some(source) => process::program(&source).await,
            None => None,
        };
        let table = self.table();
        let rule = table.first_of_packet(facts, Some(program.as_ref()));
        let rule = rule.expect("the program was looked for");
        rule.count();
        rule
    }

    /// True if the rule is in force.
    pub(crate) fn has(&self, rule: &Arc<Rule>) -> bool {
        let table = self.table();
        let mut all = table.rules.iter().chain([&table.remainder]);
        all.any(|other| Arc::ptr_eq(other, rule))
    }

    /// The rule of flows without a rule.
    #[cfg(test)]
    pub(crate) fn remainder(&self) -> Arc<Rule> {
        self.table().remainder.clone()
    }

    /// The tenants of all rules, with their shares of what can be promised.
    pub(crate) fn promised_shares(&self) -> Vec<(Tenant, Option<Share>)> {
        let table = self.table();
        let accounts = table.rules.iter().map(|rule| rule.account());
        accounts
            .map(|account| (account.tenant(), account.limits().promised_share))
            .collect()
    }

    /// Reports of all rules, in order, and of flows without a rule.
    pub fn report(&self) -> Vec<RuleReport> {
        let table = self.table();
        let all = table.rules.iter().chain([&table.remainder]);
        all.map(|rule| rule.report()).collect()
    }
}

impl Table {
    async fn first(&self, facts: &Facts<'_>) -> Arc<Rule> {
        // The program is looked for at most once, and only if the rest of a rule matches.
        let mut program = None;
        for rule in &self.rules {
            if !rule.matching.has(facts) {
                continue;
            }
            if let Some(wanted) = rule.matching.program() {
                if program.is_none() {
                    program = Some(process::program(facts.source).await);
                }
                let found = program.as_ref().and_then(Option::as_ref);
                if !found.is_some_and(|found| wanted.is(found)) {
                    continue;
                }
            }
            return rule.clone();
        }
        self.remainder.clone()
    }

    /// The first rule for a flow of packets. `program`: the one that was found, or `None` if it was not looked for; then `None` if a rule
    /// asks for it.
    fn first_of_packet(
        &self,
        facts: &PacketFacts,
        program: Option<Option<&Program>>,
    ) -> Option<Arc<Rule>> {
        for rule in &self.rules {
            if !rule.matching.has_packet(facts) {
                continue;
            }
            let is_wanted =
                |wanted: &Wanted| program.map(|found| found.is_some_and(|found| wanted.is(found)));
            if rule.matching.program().map_or(Some(true), is_wanted)? {
                return Some(rule.clone());
            }
        }
        Some(self.remainder.clone())
    }
}

#[cfg(test)]
mod tests;
