//! Header of a record: one line for the record, one for each lead, and comments.
//!
//! ```text
//! RECORD LEADS [FREQUENCY[/COUNTER[(BASE)]] [FRAMES [TIME [DATE]]]]
//! FILE FORMAT[+OFFSET] [GAIN[(BASELINE)][/UNITS] [BITS [ZERO [FIRST [CHECKSUM [BLOCK [DESCRIPTION]]]]]]]
//! # comment
//! ```
//!
//! Multi-segment records, several samples of a lead in a frame, and skew are refused in words.

#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use anabranch::base::text::printable;

use super::{FRAMES_MAX, FREQUENCY_MAX, Format, HEADER_BYTES_MAX, Holes, LEADS_MAX, WfdbError};

/// Frequency of a record that states none, in Hz.
const FREQUENCY: f64 = 250.0;
/// Gain of a lead that states none, in units of the converter per physical unit.
const GAIN: f64 = 200.0;
/// Longest word of a header, in bytes.
const WORD_BYTES_MAX: usize = 200;
/// Characters of a word that are shown.
const SHOWN_CHARS: usize = 40;

/// Header of a record.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// Name of the record: ASCII letters, digits, `-`, `_`.
    pub name: String,
    /// Frames per second.
    pub frequency: f64,
    /// Counter frequency, if it is stated, and value of the counter at the first frame.
    pub counter: Option<(f64, f64)>,
    /// Number of frames; `None`: as many as the files hold.
    pub frames: Option<u64>,
    /// Time of day of the first frame, as it is written.
    pub time: Option<String>,
    /// Date of it, as it is written.
    pub date: Option<String>,
    /// The leads, in their order in the frames. Leads of one file follow each other.
    pub leads: Vec<Lead>,
    /// Comments, without `#`.
    pub comments: Vec<String>,
}

/// Line of a lead.
#[derive(Clone, Debug, PartialEq)]
pub struct Lead {
    /// Name of the file with its samples, in the folder of the header.
    pub file: String,
    /// Format of the file.
    pub format: Format,
    /// Bytes of the file before the samples.
    pub offset: u64,
    /// Units of the converter per physical unit; `None`: not calibrated.
    pub gain: Option<f64>,
    /// Sample that means zero physical units; `None`: [`Lead::zero`].
    pub baseline: Option<i32>,
    /// Physical units.
    pub units: String,
    /// Bits of the converter; 0: unknown.
    pub bits: u32,
    /// Sample in the middle of the converter's range.
    pub zero: i32,
    /// The first sample, if it is stated.
    pub initial: Option<i32>,
    /// The 16 low bits of the sum of all samples, if they are stated.
    pub checksum: Option<i16>,
    /// Size of blocks in which the file has to be read; 0: any.
    pub block: u32,
    /// Name or description.
    pub description: String,
}

impl Lead {
    /// Name for people: the description, or the file.
    pub fn name(&self) -> String {
        match self.description.is_empty() {
            true => printable(&self.file, SHOWN_CHARS),
            false => printable(&self.description, SHOWN_CHARS),
        }
    }

    /// Physical value of a sample, in [`Lead::units`].
    pub fn physical(&self, sample: i16) -> f64 {
        let baseline = self.baseline.unwrap_or(self.zero);
        (f64::from(sample) - f64::from(baseline)) / self.gain.unwrap_or(GAIN)
    }
}

impl Header {
    /// Reads a header.
    ///
    /// # Errors
    /// It is none, it ends early, or it has what is not read; the line and the remedy are named.
    pub fn read(bytes: &[u8]) -> Result<Self, WfdbError> {
        if bytes.len() > HEADER_BYTES_MAX {
            return Err(WfdbError::Long);
        }
        // Comments can be in any encoding; what is read is ASCII.
        let text = String::from_utf8_lossy(bytes);
        let mut header: Option<(Self, usize)> = None;
        for (number, line) in (1..).zip(text.lines()) {
            let wrong = |why| WfdbError::Line { line: number, why };
            let line = line.trim();
            match (line.strip_prefix('#'), &mut header) {
                (Some(_), None) => {}
                (Some(comment), Some((header, _))) => {
                    let comment = comment.strip_prefix(' ').unwrap_or(comment);
                    let comment = comment.replace(char::is_control, " ");
                    header.comments.push(comment.trim_end().to_owned());
                }
                (None, _) if line.is_empty() => {}
                (None, None) => header = Some(record(line).map_err(wrong)?),
                (None, Some((header, promised))) if header.leads.len() < *promised => {
                    let lead = lead(line).map_err(wrong)?;
                    header.may_follow(&lead).map_err(wrong)?;
                    header.leads.push(lead);
                }
                (None, Some(_)) => return Err(wrong("there are more leads than promised".into())),
            }
        }
        let (header, promised) = header.ok_or_else(|| WfdbError::Line {
            line: 1,
            why: "the header is empty".to_owned(),
        })?;
        match header.leads.len() {
            found if found < promised => Err(WfdbError::Leads { promised, found }),
            _ => Ok(header),
        }
    }

    /// Checks that a lead belongs to the file of the last one, or begins another file.
    fn may_follow(&self, lead: &Lead) -> Result<(), String> {
        let file = printable(&lead.file, SHOWN_CHARS);
        match self.leads.iter().rfind(|other| other.file == lead.file) {
            None => Ok(()),
            Some(_) if self.leads.last().is_none_or(|last| last.file != lead.file) => {
                Err(format!("leads of {file} do not follow each other"))
            }
            Some(other) if (other.format, other.offset) != (lead.format, lead.offset) => {
                Err(format!("leads of {file} have different formats"))
            }
            Some(_) => Ok(()),
        }
    }

    /// Text of the header. Control characters in texts become spaces.
    pub fn to_text(&self) -> String {
        let mut text = format!("{} {} {}", self.name, self.leads.len(), self.frequency);
        if let Some((frequency, base)) = self.counter {
            let _ = write!(text, "/{frequency}({base})");
        }
        // 0: as many as the files hold.
        if self.frames.is_some() || self.time.is_some() {
            let _ = write!(text, " {}", self.frames.unwrap_or(0));
            for part in [&self.time, &self.date]
                .into_iter()
                .map_while(Option::as_ref)
            {
                let _ = write!(text, " {part}");
            }
        }
        text.push('\n');
        for lead in &self.leads {
            lead.write(&mut text);
        }
        for comment in &self.comments {
            let _ = writeln!(text, "# {}", in_line(comment));
        }
        text
    }

    /// Comments that list no hole.
    pub fn remarks(&self) -> impl Iterator<Item = &String> {
        self.comments
            .iter()
            .filter(|comment| !Holes::is_of(comment))
    }
}

impl Lead {
    fn write(&self, text: &mut String) {
        let _ = write!(text, "{} {}", self.file, self.format.number());
        if self.offset > 0 {
            let _ = write!(text, "+{}", self.offset);
        }
        let _ = write!(text, " {}", self.gain.unwrap_or(0.0));
        if let Some(baseline) = self.baseline {
            let _ = write!(text, "({baseline})");
        }
        let _ = write!(text, "/{} {} {}", self.units, self.bits, self.zero);
        if let Some(initial) = self.initial {
            let _ = write!(text, " {initial}");
            if let Some(checksum) = self.checksum {
                let _ = write!(text, " {checksum} {}", self.block);
                if !self.description.is_empty() {
                    let _ = write!(text, " {}", in_line(&self.description));
                }
            }
        }
        text.push('\n');
    }
}

fn in_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

fn shown(word: &str) -> String {
    printable(word, SHOWN_CHARS)
}

fn word<T: std::str::FromStr>(word: &str, what: &str) -> Result<T, String> {
    word.parse()
        .map_err(|_| format!("{what} is '{}'; it must be a number in range", shown(word)))
}

/// A positive number that is not infinite.
fn positive(text: &str, what: &str, most: f64) -> Result<f64, String> {
    let value: f64 = word(text, what)?;
    match value > 0.0 && value <= most {
        true => Ok(value),
        false => Err(format!(
            "{what} is '{}'; it must be above 0 and at most {most}",
            shown(text)
        )),
    }
}

/// `A(B)` as A and B.
fn with_parentheses(text: &str) -> Result<(&str, Option<&str>), String> {
    match text.split_once('(') {
        None => Ok((text, None)),
        Some((before, inner)) => match inner.strip_suffix(')') {
            Some(inner) => Ok((before, Some(inner))),
            None => Err(format!("'{}' lacks ')'", shown(text))),
        },
    }
}

/// Line of the record, and the number of leads that it promises.
fn record(line: &str) -> Result<(Header, usize), String> {
    let mut words = line.split_whitespace();
    let name = words.next().unwrap_or_default();
    if name.contains('/') {
        return Err(
            "records of several segments are not read; give one of the segments".to_owned(),
        );
    }
    let is_name = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if !is_name || name.len() > WORD_BYTES_MAX {
        return Err(format!(
            "'{}' is no name of a record (letters, digits, - and _); is this a .hea file?",
            shown(name)
        ));
    }
    let leads = words.next().ok_or("it states no number of leads")?;
    let leads: usize = word(leads, "the number of leads")?;
    if !(1..=LEADS_MAX).contains(&leads) {
        return Err(format!("it has {leads} leads; 1 to {LEADS_MAX} are read"));
    }
    let (mut frequency, mut counter) = (FREQUENCY, None);
    if let Some(text) = words.next() {
        let (of_frames, of_counter) = match text.split_once('/') {
            None => (text, None),
            Some((of_frames, of_counter)) => (of_frames, Some(of_counter)),
        };
        frequency = positive(of_frames, "the sampling frequency", FREQUENCY_MAX)?;
        if let Some(text) = of_counter {
            let (text, base) = with_parentheses(text)?;
            let base: f64 = base.map_or(Ok(0.0), |base| word(base, "the counter's base"))?;
            if !base.is_finite() {
                return Err("the counter's base is no finite number".to_owned());
            }
            counter = Some((positive(text, "the counter frequency", f64::MAX)?, base));
        }
    }
    let frames: Option<u64> = words
        .next()
        .map(|text| word(text, "the number of samples"))
        .transpose()?;
    if frames.is_some_and(|frames| frames > FRAMES_MAX) {
        return Err(format!("it has more than {FRAMES_MAX} samples"));
    }
    let mut moment = |what: &str| match words.next() {
        Some(text)
            if text.len() > WORD_BYTES_MAX
                || !text
                    .bytes()
                    .all(|byte| byte.is_ascii_digit() || b":./".contains(&byte)) =>
        {
            Err(format!("{what} is '{}'", shown(text)))
        }
        text => Ok(text.map(str::to_owned)),
    };
    let header = Header {
        name: name.to_owned(),
        frequency,
        counter,
        // 0 means unknown.
        frames: frames.filter(|frames| *frames > 0),
        time: moment("the time")?,
        date: moment("the date")?,
        leads: Vec::new(),
        comments: Vec::new(),
    };
    Ok((header, leads))
}

/// Line of a lead.
fn lead(line: &str) -> Result<Lead, String> {
    let mut rest = line;
    let mut next = || {
        rest = rest.trim_start();
        let (first, others) = rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len()));
        rest = others;
        (!first.is_empty()).then_some(first)
    };
    let file = next().unwrap_or_default();
    if !is_file_name(file) {
        return Err(format!(
            "'{}' is no name of a file in the folder of the header",
            shown(file)
        ));
    }
    let (format, offset) = format(next().ok_or("it states no format")?)?;
    let mut lead = Lead {
        file: file.to_owned(),
        format,
        offset,
        gain: None,
        baseline: None,
        units: "mV".to_owned(),
        bits: 0,
        zero: 0,
        initial: None,
        checksum: None,
        block: 0,
        description: String::new(),
    };
    if let Some(text) = next() {
        let (text, units) = text.split_once('/').unwrap_or((text, "mV"));
        let (gain, baseline) = with_parentheses(text)?;
        let gain: f64 = word(gain, "the gain")?;
        if !gain.is_finite() || gain < 0.0 {
            return Err(format!("the gain is {gain}; it must not be negative"));
        }
        lead.gain = (gain > 0.0).then_some(gain);
        lead.baseline = baseline
            .map(|text| word(text, "the baseline"))
            .transpose()?;
        if units.is_empty() || units.len() > WORD_BYTES_MAX {
            return Err("the units are empty or too long".to_owned());
        }
        units.clone_into(&mut lead.units);
    }
    if let Some(text) = next() {
        lead.bits = word(text, "the resolution")?;
    }
    if let Some(text) = next() {
        lead.zero = word(text, "the zero of the converter")?;
    }
    lead.initial = next()
        .map(|text| word(text, "the first sample"))
        .transpose()?;
    if let Some(text) = next() {
        // Programs write it with or without a sign.
        let checksum: i32 = word(text, "the checksum")?;
        if !(-0x8000..=0xffff).contains(&checksum) {
            return Err(format!("the checksum is {checksum}; it has 16 bits"));
        }
        lead.checksum = Some(checksum as i16);
    }
    if let Some(text) = next() {
        lead.block = word(text, "the block size")?;
    }
    // As it can be written in one line.
    lead.description = rest.replace(char::is_control, " ").trim().to_owned();
    Ok(lead)
}

/// `FORMAT[xSAMPLES][:SKEW][+OFFSET]`.
fn format(text: &str) -> Result<(Format, u64), String> {
    let end = text.find(|char: char| !char.is_ascii_digit());
    let (number, mut rest) = text.split_at(end.unwrap_or(text.len()));
    let format = Format::of(word(number, "the format")?).ok_or_else(|| {
        format!("format {number} is not read; 16 and 212 are (convert it with xform)")
    })?;
    let mut part = |mark: char| -> Result<Option<u64>, String> {
        let Some(after) = rest.strip_prefix(mark) else {
            return Ok(None);
        };
        let end = after.find(|char: char| !char.is_ascii_digit());
        let (number, others) = after.split_at(end.unwrap_or(after.len()));
        rest = others;
        Ok(Some(word(number, "a number of the format")?))
    };
    if part('x')?.is_some_and(|samples| samples != 1) {
        return Err("several samples of a lead in a frame are not read".to_owned());
    }
    if part(':')?.is_some_and(|skew| skew != 0) {
        return Err("leads with skew are not read".to_owned());
    }
    let offset = part('+')?.unwrap_or_default();
    match rest {
        "" if offset <= FRAMES_MAX => Ok((format, offset)),
        _ => Err(format!("the format is '{}'", shown(text))),
    }
}

/// True for the name of a file in a folder, not of one elsewhere, or of none.
fn is_file_name(text: &str) -> bool {
    let is_character = |char: char| char.is_ascii_graphic() && !"/\\:*?\"<>|".contains(char);
    !text.is_empty()
        && text.len() <= WORD_BYTES_MAX
        && text.chars().all(is_character)
        && !text.starts_with(['.', '-', '~'])
}
