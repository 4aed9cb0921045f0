//! Path preferences of a stream: the paths that it uses first, last, only in need, or never.
//!
//! A preference is a list of rules; of those that select a path, the first decides. Rules of the stream come before those of its
//! node, and after both comes the rule on paths with a price: a stream in no hurry, without promise or deadline and with a priority up
//! to [`Priority::BULK`], keeps them as a backup, and any other stream uses them last. What is left of a quota has no price. The treatments are the interface
//! preferences of RFC 9622 §6.2 and the backup priority of RFC 8684 §3.3.8.

use std::{fmt, str::FromStr, sync::Arc};

use anabranch_metering::{Model, Price, Unit};

use crate::{ChannelMask, Priority, StreamSpec};

/// Most rules of one list.
pub const RULES_MAX: usize = 16;
/// Longest pattern of an interface name, in bytes.
const PATTERN_BYTES_MAX: usize = 64;

/// Use that a stream makes of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Treatment {
    /// Before all others, as long as it has a slot.
    Prefer,
    /// As the scheduling policy decides.
    Neutral,
    /// After all others: while none of them has a slot.
    Avoid,
    /// While no other path can carry data.
    Backup,
    /// Not at all.
    Never,
}

impl Treatment {
    /// All treatments.
    pub const ALL: [Self; 5] = [
        Self::Prefer,
        Self::Neutral,
        Self::Avoid,
        Self::Backup,
        Self::Never,
    ];

    /// Its name in rules.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Prefer => "prefer",
            Self::Neutral => "neutral",
            Self::Avoid => "avoid",
            Self::Backup => "backup",
            Self::Never => "never",
        }
    }
}

/// Cost of a byte on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PathPrice {
    /// Money or energy.
    pub unit: Unit,
    /// Amount for a byte.
    pub price: Price,
}

/// Properties of a path that rules select by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathTraits {
    /// Name of the local interface or place, such as `wlan0`; `None`: unknown.
    pub interface: Option<Arc<str>>,
    /// Its technology, such as `lte`, as configured; `None`: unknown.
    pub technology: Option<Arc<str>>,
    /// Sending on it costs something, or counts towards a quota or a cap.
    pub is_metered: bool,
    /// The price of the next byte; `None`: it has none, as what is left of a quota.
    pub price: Option<PathPrice>,
    /// Its quota is used up: it carries no data before the next period, or the next grant.
    pub is_used_up: bool,
    /// Its user has taken it out of use: it carries no data until it is taken in.
    pub is_out: bool,
}

/// Paths that a rule is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Selector {
    /// All.
    Any,
    /// Those on which sending costs something, or counts towards a quota or a cap.
    Metered,
    /// Those where the next byte has a price in this unit above this one.
    Price(PathPrice),
    /// Those of this technology, as the node's configuration names it.
    Technology(Arc<str>),
    /// Those of interfaces whose names match the pattern; `*` stands for any characters.
    Interface(Arc<str>),
}

impl Selector {
    fn selects(&self, path: &PathTraits) -> bool {
        match self {
            Self::Any => true,
            Self::Metered => path.is_metered,
            Self::Price(limit) => path
                .price
                .is_some_and(|own| own.unit == limit.unit && own.price.is_above(limit.price)),
            Self::Technology(name) => path.technology.as_deref() == Some(name),
            Self::Interface(pattern) => {
                let name = path.interface.as_deref();
                name.is_some_and(|name| matches(pattern.as_bytes(), name.as_bytes()))
            }
        }
    }
}

/// True if the name matches the pattern. O(pattern · name).
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    // The last star, and where its match ended when it was tried last.
    let (mut p, mut n, mut retry) = (0, 0, None);
    while n < name.len() {
        if pattern.get(p) == Some(&b'*') {
            retry = Some((p, n));
            p += 1;
        } else if pattern.get(p) == Some(&name[n]) {
            (p, n) = (p + 1, n + 1);
        } else if let Some((star, taken)) = retry {
            retry = Some((star, taken + 1));
            (p, n) = (star + 1, taken + 1);
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

/// One rule: `never metered`, `prefer interface=eth*`, `avoid price>0.02/MB`, `backup any`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PathRule {
    /// The use of the paths.
    pub treatment: Treatment,
    /// The paths.
    pub selector: Selector,
}

/// As a selector: `price`, `price>0.02/MB`, `energy`, `energy>0.5J/MB`.
impl fmt::Display for PathPrice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.unit {
            Unit::Money => "price",
            Unit::Energy => "energy",
        })?;
        if self.price.is_free() {
            return Ok(());
        }
        let limit = Model::flat(self.unit, self.price).to_string();
        // The price list has a space before the unit of energy, which would end the word.
        write!(f, ">{}", limit.replace(' ', ""))
    }
}

impl PathPrice {
    /// Reads the selector; `None`: the text is none.
    fn parse(text: &str) -> Option<Self> {
        let (name, limit) = match text.split_once('>') {
            Some((name, limit)) => (name, Some(limit)),
            None => (text, None),
        };
        let unit = match name {
            "price" => Unit::Money,
            "energy" => Unit::Energy,
            _ => return None,
        };
        let price = match limit {
            None => Price::FREE,
            Some(limit) => {
                let model: Model = limit.parse().ok()?;
                let price = model.only_price().filter(|price| !price.is_free())?;
                (model.unit() == unit).then_some(price)?
            }
        };
        Some(Self { unit, price })
    }
}

/// The text is no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not a path rule; write prefer, neutral, avoid, backup or never, and then metered, price, price>0.02/MB, energy, \
     energy>0.5J/MB, any, technology=NAME, or interface=NAME, in which * stands for any characters"
)]
pub struct ParsePathRuleError(String);

impl fmt::Display for PathRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let treatment = self.treatment.name();
        match &self.selector {
            Selector::Any => write!(f, "{treatment} any"),
            Selector::Metered => write!(f, "{treatment} metered"),
            Selector::Price(limit) => write!(f, "{treatment} {limit}"),
            Selector::Technology(name) => write!(f, "{treatment} technology={name}"),
            Selector::Interface(pattern) => write!(f, "{treatment} interface={pattern}"),
        }
    }
}

impl FromStr for PathRule {
    type Err = ParsePathRuleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut words = text.split_whitespace();
        let (treatment, selector) = (words.next(), words.next());
        let mut treatments = Treatment::ALL.into_iter();
        let treatment = treatments.find(|known| Some(known.name()) == treatment);
        let selector = match selector {
            Some("any") => Some(Selector::Any),
            Some("metered") => Some(Selector::Metered),
            Some(other) => {
                let value = other.split_once('=');
                let value =
                    value.filter(|(_, value)| (1..=PATTERN_BYTES_MAX).contains(&value.len()));
                match value {
                    Some(("interface", pattern)) => Some(Selector::Interface(pattern.into())),
                    Some(("technology", name)) => Some(Selector::Technology(name.into())),
                    _ => PathPrice::parse(other).map(Selector::Price),
                }
            }
            None => None,
        };
        match (treatment, selector, words.next()) {
            (Some(treatment), Some(selector), None) => Ok(Self {
                treatment,
                selector,
            }),
            _ => Err(ParsePathRuleError(text.chars().take(100).collect())),
        }
    }
}

/// Rules in their order, [`RULES_MAX`] at most; empty by default. Clones share them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preferences(Option<Arc<[PathRule]>>);

/// There are more rules than [`RULES_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} path rules; at most {RULES_MAX} are possible")]
pub struct TooManyRules(pub usize);

impl Preferences {
    /// These rules.
    ///
    /// # Errors
    /// There are too many.
    pub fn new(rules: Vec<PathRule>) -> Result<Self, TooManyRules> {
        match rules.len() {
            0 => Ok(Self(None)),
            1..=RULES_MAX => Ok(Self(Some(rules.into()))),
            more => Err(TooManyRules(more)),
        }
    }

    /// The rules.
    pub fn rules(&self) -> &[PathRule] {
        self.0.as_deref().unwrap_or_default()
    }

    fn treatment(&self, path: &PathTraits) -> Option<Treatment> {
        let mut rules = self.rules().iter();
        let rule = rules.find(|rule| rule.selector.selects(path))?;
        Some(rule.treatment)
    }
}

/// Channels that a stream may use, by preference. The sets are disjoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelChoice {
    /// Used first.
    pub preferred: ChannelMask,
    /// Used as the scheduling policy decides.
    pub neutral: ChannelMask,
    /// Used last.
    pub avoided: ChannelMask,
}

impl Default for ChannelChoice {
    /// All, without preference.
    fn default() -> Self {
        Self {
            preferred: ChannelMask::NONE,
            neutral: ChannelMask::ALL,
            avoided: ChannelMask::NONE,
        }
    }
}

impl ChannelChoice {
    /// The choice of a stream with this spec among `paths`, at most 64, in their order; `node`: the preferences of its node.
    /// Paths whose quotas are used up, or that are out of use, are in none of the sets.
    pub fn of<'a>(
        spec: &StreamSpec,
        node: &Preferences,
        paths: impl Iterator<Item = &'a PathTraits> + Clone,
    ) -> Self {
        let has_rules = !spec.paths.rules().is_empty() || !node.rules().is_empty();
        if !has_rules
            && !paths
                .clone()
                .any(|path| path.price.is_some() || path.is_used_up || path.is_out)
        {
            return Self::default();
        }
        let mut choice = Self {
            neutral: ChannelMask::NONE,
            ..Self::default()
        };
        let mut backup = ChannelMask::NONE;
        // A stream that waited for a path whose quota is used up might wait for good.
        let open = (paths.enumerate()).filter(|(_, path)| !path.is_used_up && !path.is_out);
        for (place, path) in open {
            let treatment = spec.paths.treatment(path);
            let treatment = treatment.or_else(|| node.treatment(path));
            match treatment.unwrap_or_else(|| by_cost(spec, path)) {
                Treatment::Prefer => choice.preferred = choice.preferred.with(place),
                Treatment::Neutral => choice.neutral = choice.neutral.with(place),
                Treatment::Avoid => choice.avoided = choice.avoided.with(place),
                Treatment::Backup => backup = backup.with(place),
                Treatment::Never => {}
            }
        }
        if choice.all().is_empty() {
            choice.neutral = backup;
        }
        choice
    }

    /// The channels of the class of `channel`, and of better classes.
    pub const fn up_to(&self, channel: usize) -> ChannelMask {
        let neutral = self.preferred.or(self.neutral);
        if self.preferred.contains(channel) {
            self.preferred
        } else if neutral.contains(channel) {
            neutral
        } else {
            self.all()
        }
    }

    /// All channels that it may use.
    pub const fn all(&self) -> ChannelMask {
        self.preferred.or(self.neutral).or(self.avoided)
    }
}

/// The treatment of a path that no rule selects.
fn by_cost(spec: &StreamSpec, path: &PathTraits) -> Treatment {
    let is_in_no_hurry =
        spec.priority <= Priority::BULK && spec.guarantee.is_none() && spec.lifetime.is_none();
    match (path.price.is_some(), is_in_no_hurry) {
        (false, _) => Treatment::Neutral,
        (true, true) => Treatment::Backup,
        (true, false) => Treatment::Avoid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(texts: &[&str]) -> Preferences {
        let rules = texts.iter().map(|text| text.parse().unwrap()).collect();
        Preferences::new(rules).unwrap()
    }

    fn path(interface: &str, is_metered: bool) -> PathTraits {
        PathTraits {
            interface: Some(interface.into()),
            technology: Some(
                if interface.starts_with("wwan") {
                    "lte"
                } else {
                    "fibre"
                }
                .into(),
            ),
            is_metered,
            price: is_metered.then(|| price("0.01/MB")),
            is_used_up: false,
            is_out: false,
        }
    }

    fn price(text: &str) -> PathPrice {
        let model: Model = text.parse().unwrap();
        PathPrice {
            unit: model.unit(),
            price: model.only_price().unwrap(),
        }
    }

    fn mask(places: &[usize]) -> ChannelMask {
        let places = places.iter().copied();
        places.fold(ChannelMask::NONE, ChannelMask::with)
    }

    fn choice(spec: &StreamSpec, node: &[&str], paths: &[PathTraits]) -> [ChannelMask; 3] {
        let choice = ChannelChoice::of(spec, &rules(node), paths.iter());
        [choice.preferred, choice.neutral, choice.avoided]
    }

    fn with(texts: &[&str]) -> StreamSpec {
        StreamSpec {
            paths: rules(texts),
            ..StreamSpec::default()
        }
    }

    #[test]
    fn rules_round_trip_and_others_are_refused() {
        for text in [
            "never metered",
            "prefer interface=eth*",
            "backup any",
            "neutral metered",
            "avoid interface=*",
            "never technology=satellite",
            "never price",
            "avoid price>0.02/MB",
            "backup energy",
            "prefer energy>0.5J/MB",
        ] {
            assert_eq!(text.parse::<PathRule>().unwrap().to_string(), text);
        }
        let long = format!("never interface={}", "a".repeat(65));
        for text in [
            "",
            "never",
            "always metered",
            "never interface=",
            "never any any",
            "never price>",
            "never price>2",
            "never price>free",
            "never price>0.5J/MB",
            "never energy>0.5/MB",
            "never price>1GB",
            "never prices",
            &long,
        ] {
            let error = text.parse::<PathRule>().unwrap_err().to_string();
            assert!(error.contains("prefer, neutral"), "{error}");
        }
        let many = vec!["never any".parse().unwrap(); RULES_MAX + 1];
        assert_eq!(Preferences::new(many), Err(TooManyRules(17)));
    }

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name, expected) in [
            ("eth0", "eth0", true),
            ("eth0", "eth01", false),
            ("eth*", "eth", true),
            ("*th*", "eth12", true),
            ("w*n*0", "wwan10", true),
            ("w*n*0", "wwan1", false),
            ("*", "", true),
            ("a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaa", false),
        ] {
            let found = matches(pattern.as_bytes(), name.as_bytes());
            assert_eq!(found, expected, "{pattern} {name}");
        }
    }

    #[test]
    fn the_first_rule_that_selects_a_path_decides_and_the_streams_come_first() {
        let paths = [
            path("eth0", false),
            path("wlan0", false),
            path("wwan0", true),
        ];
        let spec = with(&["prefer interface=eth*", "never metered"]);
        assert_eq!(
            choice(&spec, &["avoid interface=w*"], &paths),
            [mask(&[0]), mask(&[]), mask(&[1])]
        );
        assert_eq!(
            choice(&with(&["neutral any"]), &["never any"], &paths),
            [mask(&[]), mask(&[0, 1, 2]), mask(&[])]
        );
    }

    #[test]
    fn a_path_whose_quota_is_used_up_is_in_no_class() {
        let used_up = PathTraits {
            is_used_up: true,
            ..path("wlan0", false)
        };
        let paths = [path("eth0", false), used_up, path("wwan0", false)];
        let of = |spec: &[&str]| choice(&with(spec), &[], &paths);
        assert_eq!(of(&[]), [mask(&[]), mask(&[0, 2]), mask(&[])]);
        assert_eq!(of(&["prefer interface=wlan0"])[0], mask(&[]));
        // The backup takes over, as it does when the other paths are lost.
        let spec = with(&["backup interface=wwan0", "never interface=eth0"]);
        assert_eq!(choice(&spec, &[], &paths)[1], mask(&[2]));
    }

    #[test]
    fn a_path_out_of_use_is_in_no_class() {
        let out = PathTraits {
            is_out: true,
            ..path("wlan0", false)
        };
        let paths = [path("eth0", false), out.clone()];
        let of = |spec: &[&str]| choice(&with(spec), &[], &paths);
        assert_eq!(of(&[]), [mask(&[]), mask(&[0]), mask(&[])]);
        assert_eq!(of(&["prefer any"]), [mask(&[0]), mask(&[]), mask(&[])]);
        assert_eq!(
            choice(&with(&[]), &[], &[out]).map(|set| set.is_empty()),
            [true; 3]
        );
    }

    #[test]
    fn technologies_are_as_configured() {
        let paths = [
            path("eth0", false),
            path("wwan0", false),
            PathTraits::default(),
        ];
        let spec = with(&["never technology=lte"]);
        assert_eq!(choice(&spec, &[], &paths)[1], mask(&[0, 2]));
    }

    #[test]
    fn prices_and_energies_are_compared_with_limits_of_their_unit() {
        let of = |price: Option<PathPrice>| PathTraits {
            is_metered: true,
            price,
            ..PathTraits::default()
        };
        let paths = [
            of(None),
            of(Some(price("0.02/MB"))),
            of(Some(price("20.01/GB"))),
            of(Some(price("0.5 J/MB"))),
            of(Some(price("1 J/MB"))),
        ];
        for (rule, left) in [
            ("never price", mask(&[0, 3, 4])),
            ("never price>0.02/MB", mask(&[0, 1, 3, 4])),
            ("never price>0.021/MB", mask(&[0, 1, 2, 3, 4])),
            ("never energy", mask(&[0, 1, 2])),
            ("never energy>0.5J/MB", mask(&[0, 1, 2, 3])),
        ] {
            let spec = with(&[rule, "neutral any"]);
            assert_eq!(choice(&spec, &[], &paths)[1], left, "{rule}");
        }
    }

    #[test]
    fn a_backup_is_used_when_nothing_else_is_left() {
        let paths = [path("eth0", false), path("wwan0", false)];
        let spec = with(&["backup interface=wwan*"]);
        assert_eq!(choice(&spec, &[], &paths)[1], mask(&[0]));
        assert_eq!(choice(&spec, &[], &paths[1..])[1], mask(&[0]));
        let spec = with(&["backup interface=wwan*", "never any"]);
        assert_eq!(choice(&spec, &[], &paths)[1], mask(&[1]));
    }

    #[test]
    fn paths_with_a_price_are_for_what_needs_them() {
        let paths = [path("eth0", false), path("wwan0", true)];
        let bulk = StreamSpec::bulk("file");
        assert_eq!(
            choice(&bulk, &[], &paths),
            [mask(&[]), mask(&[0]), mask(&[])]
        );
        assert_eq!(choice(&bulk, &[], &paths[1..])[1], mask(&[0]));
        let messages = StreamSpec::messages("commands");
        assert_eq!(
            choice(&messages, &[], &paths),
            [mask(&[]), mask(&[0]), mask(&[1])]
        );
        let quota = PathTraits {
            price: None,
            ..path("wwan0", true)
        };
        let left = [path("eth0", false), quota];
        let default = ChannelChoice::default().neutral;
        assert_eq!(
            choice(&bulk, &[], &left)[1],
            default,
            "what is left of a quota is free"
        );
        // Without a metered path and without rules, nothing is restricted, whatever the number of paths.
        assert_eq!(
            ChannelChoice::of(&bulk, &Preferences::default(), paths[..1].iter()),
            ChannelChoice::default()
        );
    }
}
