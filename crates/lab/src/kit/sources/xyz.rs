//! Trajectories in the XYZ format: frame after frame, a line with the number of atoms, a line of comment, and a line `element x
//! y z` for each atom, in ångström. Further text on such a line is ignored.

use std::fmt;

use super::bonds::Element;

/// Limit on the atoms of a trajectory.
pub const ATOMS_MAX: usize = 500_000;
/// Limit on the positions of a trajectory, over all frames.
pub const POSITIONS_MAX: usize = 20_000_000;

/// Positions of atoms, frame by frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Trajectory {
    /// Elements, the same in all frames.
    pub elements: Vec<Element>,
    /// For each frame, a position for each atom, in ångström; there is at least one frame.
    pub frames: Vec<Vec<[f32; 3]>>,
}

/// Error in the text of a trajectory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}, line {line}: {problem}")]
pub struct XyzError {
    /// The file.
    pub file: String,
    /// Line number, from 1.
    pub line: usize,
    /// The error, and what is expected.
    pub problem: String,
}

impl Trajectory {
    /// Reads a text; `file` is for messages. O(length).
    ///
    /// # Errors
    /// The first malformed line.
    pub fn parse(file: &str, text: &str) -> Result<Self, XyzError> {
        let problem = |line: usize, problem: String| XyzError {
            file: file.to_owned(),
            line,
            problem,
        };
        let mut lines = text.lines().zip(1..);
        let mut elements: Vec<Element> = Vec::new();
        let mut frames: Vec<Vec<[f32; 3]>> = Vec::new();
        let mut last = 0;
        while let Some((words, line)) = lines.next() {
            last = line;
            // Blank lines between and after frames are permitted.
            if words.trim().is_empty() {
                continue;
            }
            let atoms: usize = words.trim().parse().map_err(|_| {
                let found = cut(words);
                problem(line, format!("found '{found}', expected a number of atoms"))
            })?;
            if !(1..=ATOMS_MAX).contains(&atoms) {
                let words = format!("{atoms} atoms; expected 1 to {ATOMS_MAX}");
                return Err(problem(line, words));
            }
            if let Some(first) = frames.first()
                && first.len() != atoms
            {
                let words = format!(
                    "a frame of {atoms} atoms; the first frame has {}, and all must have as many",
                    first.len()
                );
                return Err(problem(line, words));
            }
            if (frames.len() + 1) * atoms > POSITIONS_MAX {
                let words = format!("more than {POSITIONS_MAX} positions; leave frames out");
                return Err(problem(line, words));
            }
            if lines.next().is_none() {
                return Err(problem(line + 1, "the comment line is missing".to_owned()));
            }
            let mut frame = Vec::new();
            for atom in 0..atoms {
                let (words, line) = lines.next().ok_or_else(|| {
                    let words = format!("the file ends after {atom} of {atoms} atoms of a frame");
                    problem(line + 2 + atom, words)
                })?;
                last = line;
                let (element, position) =
                    parse_atom(words).map_err(|words| problem(line, words))?;
                match elements.get(atom) {
                    None => elements.push(element),
                    Some(known) if *known == element => {}
                    Some(known) => {
                        let words = format!(
                            "atom {} is {element}, but {known} in the first frame; keep the order of atoms",
                            atom + 1
                        );
                        return Err(problem(line, words));
                    }
                }
                frame.push(position);
            }
            frames.push(frame);
        }
        if frames.is_empty() {
            let words = "no frame; expected a number of atoms, a comment, then 'element x y z'";
            return Err(problem(last + 1, words.to_owned()));
        }
        Ok(Self { elements, frames })
    }

    /// The trajectory as a text that [`Trajectory::parse`] reads.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (number, frame) in self.frames.iter().enumerate() {
            text += &format!("{}\nframe {number}\n", frame.len());
            for (element, [x, y, z]) in self.elements.iter().zip(frame) {
                text += &format!("{element} {x} {y} {z}\n");
            }
        }
        text
    }

    /// Corners of the smallest box that holds every atom of the first frame.
    pub fn extent(&self) -> ([f32; 3], [f32; 3]) {
        let mut low = [f32::INFINITY; 3];
        let mut high = [f32::NEG_INFINITY; 3];
        for position in self.frames.first().into_iter().flatten() {
            for axis in 0..3 {
                low[axis] = low[axis].min(position[axis]);
                high[axis] = high[axis].max(position[axis]);
            }
        }
        (low, high)
    }
}

fn parse_atom(words: &str) -> Result<(Element, [f32; 3]), String> {
    let mut cells = words.split_whitespace();
    let symbol = cells
        .next()
        .ok_or("found nothing, expected 'element x y z'")?;
    let element = Element::parse(symbol).ok_or_else(|| {
        let found = cut(symbol);
        format!(
            "'{found}' is no chemical element; expected a symbol such as C, or an atomic number"
        )
    })?;
    let mut position = [0.0; 3];
    for (value, axis) in position.iter_mut().zip(["x", "y", "z"]) {
        let cell = cells.next().ok_or_else(|| format!("{axis} is missing"))?;
        *value = cell
            .parse()
            .ok()
            .filter(|value: &f32| value.is_finite())
            .ok_or_else(|| format!("{axis}: '{}' is not a number", cut(cell)))?;
    }
    Ok((element, position))
}

fn cut(text: &str) -> String {
    text.trim().chars().take(40).collect()
}

impl fmt::Display for Trajectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (frames, atoms) = (self.frames.len(), self.elements.len());
        write!(f, "{frames} frames of {atoms} atoms")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refusal(text: &str) -> String {
        Trajectory::parse("t.xyz", text).unwrap_err().to_string()
    }

    #[test]
    fn reads_frames_with_more_columns_and_blank_lines() {
        let text =
            "2\nwater, sort of\nO 0 0 0 0.1 0.2\nH 0.96 0 0\n\n2\n\n8 0 0 1\n1 0.96 0 1e0\n\n";
        let trajectory = Trajectory::parse("t.xyz", text).unwrap();
        assert_eq!(trajectory.to_string(), "2 frames of 2 atoms");
        assert_eq!(trajectory.frames[1][1], [0.96, 0.0, 1.0]);
        assert_eq!(trajectory.extent(), ([0.0; 3], [0.96, 0.0, 0.0]));
        let again = Trajectory::parse("t.xyz", &trajectory.to_text()).unwrap();
        assert_eq!(again, trajectory);
    }

    #[test]
    fn errors_name_file_and_line() {
        for (text, words) in [
            ("", "t.xyz, line 1: no frame"),
            ("\n\n", "t.xyz, line 3: no frame"),
            (
                "two\n\n",
                "t.xyz, line 1: found 'two', expected a number of atoms",
            ),
            ("0\n\n", "t.xyz, line 1: 0 atoms; expected 1 to"),
            ("-1\n\n", "t.xyz, line 1: found '-1'"),
            ("1", "t.xyz, line 2: the comment line is missing"),
            (
                "2\n\nH 0 0 0\n",
                "t.xyz, line 4: the file ends after 1 of 2 atoms",
            ),
            ("1\n\n\n", "t.xyz, line 3: found nothing"),
            (
                "1\n\nXx 0 0 0\n",
                "t.xyz, line 3: 'Xx' is no chemical element",
            ),
            ("1\n\nH 0 0\n", "t.xyz, line 3: z is missing"),
            ("1\n\nH 0 a 0\n", "t.xyz, line 3: y: 'a' is not a number"),
            (
                "1\n\nH NaN 0 0\n",
                "t.xyz, line 3: x: 'NaN' is not a number",
            ),
            (
                "1\n\nH 0 0 0\n2\n\nH 0 0 0\nH 1 1 1\n",
                "t.xyz, line 4: a frame of 2 atoms; the first",
            ),
            (
                "1\n\nH 0 0 0\n1\n\nC 0 0 0\n",
                "t.xyz, line 6: atom 1 is C, but H in the first",
            ),
            ("600000\n\n", "t.xyz, line 1: 600000 atoms"),
        ] {
            let error = refusal(text);
            assert!(error.starts_with(words), "{text:?}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_much(text in "([0-9]{1,3}|[A-Z][a-z]?|-?[0-9.]{1,4}|\n| ){0,60}") {
            // The text is accepted, or refused at an existing line or the one after the last.
            if let Err(error) = Trajectory::parse("t", &text) {
                prop_assert!(error.line <= text.lines().count() + 2, "{error}");
            }
        }
    }
}
