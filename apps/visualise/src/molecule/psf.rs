//! Reader of PSF, the topology files of CHARMM, NAMD and X-PLOR: atoms and bonds of it, whatever else it has.
//!
//! ```text
//! PSF EXT CMAP
//!
//!        3 !NATOM
//!        1 4AKE 1    MET  N      56  -0.300000       14.0070           0
//!        …
//!        2 !NBOND: bonds
//!        1       2       2       3
//! ```
//!
//! Lines of atoms are divided at spaces, as NAMD does; where a field is empty or fields touch, at the columns of CHARMM. Nothing
//! is reserved for a count before the lines for it are there.

use super::{ATOMS_MAX, BONDS_MAX, MoleculeError, Topology, at_most};

/// Columns of name and mass in a line of an atom: usual, and with `EXT`, where types have four or six characters and the mass is the last
/// word in its columns.
const COLUMNS: [[(usize, usize); 2]; 2] = [[(24, 28), (48, 62)], [(38, 46), (66, 82)]];
/// Characters of a line that are shown.
const SHOWN_CHARS: usize = 60;
/// Masses of elements in molecules, in dalton, with their atomic numbers.
const MASSES: [(f64, u8); 16] = [
    (1.008, 1),
    (4.003, 2),
    (12.011, 6),
    (14.007, 7),
    (15.999, 8),
    (18.998, 9),
    (20.180, 10),
    (22.990, 11),
    (24.305, 12),
    (30.974, 15),
    (32.06, 16),
    (35.45, 17),
    (39.098, 19),
    (40.078, 20),
    (55.845, 26),
    (65.38, 30),
];
/// Difference up to which a mass is that of an element, in dalton.
const MASS_MARGIN: f64 = 0.3;

/// Reads a topology.
///
/// # Errors
/// It is no PSF, it ends early, a bond is of an atom that is not there, or there are more atoms or bonds than can be shown.
pub fn read(text: &str) -> Result<Topology, MoleculeError> {
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    let mut words = first.split_whitespace();
    if words.next() != Some("PSF") {
        return wrong(format!(
            "it begins with '{}', and not with PSF",
            shown(first)
        ));
    }
    let is_extended = words.any(|word| word == "EXT");
    let mut topology = None;
    while let Some(line) = lines.next() {
        let Some((count, name)) = section(line) else {
            continue;
        };
        match (name, &mut topology) {
            ("NATOM", None) => {
                let count = at_most("atoms", count, ATOMS_MAX)?;
                let elements = atoms(&mut lines, count, is_extended)?;
                topology = Some(Topology {
                    elements,
                    bonds: Vec::new(),
                });
            }
            ("NATOM", Some(_)) => return wrong("it has two lists of atoms".to_owned()),
            ("NBOND", Some(topology)) => {
                let count = at_most("bonds", count, BONDS_MAX)?;
                topology.bonds = bonds(&mut lines, count, topology.atoms())?;
                return Ok(std::mem::take(topology));
            }
            ("NBOND", None) => return wrong("its bonds are before its atoms".to_owned()),
            _ => {}
        }
    }
    match topology {
        None => wrong("it has no list of atoms (!NATOM)".to_owned()),
        Some(_) => wrong("it has no list of bonds (!NBOND)".to_owned()),
    }
}

fn wrong<T>(why: String) -> Result<T, MoleculeError> {
    Err(MoleculeError::Psf(why))
}

fn shown(line: &str) -> String {
    anabranch::base::text::printable(line, SHOWN_CHARS)
}

/// Count and name of the section that a line begins, such as `3341 !NATOM`.
fn section(line: &str) -> Option<(u64, &str)> {
    let (counts, name) = line.split_once('!')?;
    let count = counts.split_whitespace().next()?.parse().ok()?;
    let end = name.find(|char: char| !char.is_ascii_alphanumeric());
    Some((count, &name[..end.unwrap_or(name.len())]))
}

fn atoms<'a>(
    lines: &mut impl Iterator<Item = &'a str>,
    count: u32,
    is_extended: bool,
) -> Result<Vec<u8>, MoleculeError> {
    let mut elements = Vec::new();
    for number in 1..=u64::from(count) {
        let Some(line) = lines.next() else {
            return wrong(format!("it ends after {} of {count} atoms", number - 1));
        };
        match atom(line, number, is_extended) {
            Some(element) => elements.push(element),
            None => return wrong(format!("atom {number} is '{}'", shown(line))),
        }
    }
    Ok(elements)
}

/// Element of an atom by its line; `None`: the line is of no atom, or of another one.
fn atom(line: &str, number: u64, is_extended: bool) -> Option<u8> {
    let fields: Vec<&str> = line.split_whitespace().take(9).collect();
    if fields.first()?.parse() != Ok(number) {
        return None;
    }
    let mass = |text: &str| {
        let mass: f64 = text.trim().parse().ok()?;
        mass.is_finite().then_some(mass)
    };
    // Number, segment, residue, its name, name, type, charge, mass.
    if let [_, _, _, _, name, _, charge, of_mass, ..] = fields[..]
        && charge.parse::<f64>().is_ok()
        && let Some(mass) = mass(of_mass)
        // Where a field is missing, the flag after the mass is in its place.
        && (mass > 0.0 || of_mass.contains('.'))
    {
        return Some(element(name, mass));
    }
    let [name, of_mass] =
        COLUMNS[usize::from(is_extended)].map(|(from, to)| line.get(from..line.len().min(to)));
    let of_mass = of_mass?.split_whitespace().last()?;
    Some(element(name?.trim(), mass(of_mass)?))
}

/// Atomic number by the mass, or by the name where the mass is that of no known element; 0: unknown.
fn element(name: &str, mass: f64) -> u8 {
    let by_mass = MASSES
        .iter()
        .find(|(of, _)| (of - mass).abs() < MASS_MARGIN);
    if let Some((_, number)) = by_mass {
        return *number;
    }
    match name.bytes().find(u8::is_ascii_alphabetic) {
        Some(b'H') => 1,
        Some(b'C') => 6,
        Some(b'N') => 7,
        Some(b'O') => 8,
        Some(b'P') => 15,
        Some(b'S') => 16,
        _ => 0,
    }
}

fn bonds<'a>(
    lines: &mut impl Iterator<Item = &'a str>,
    count: u32,
    atoms: u32,
) -> Result<Vec<[u32; 2]>, MoleculeError> {
    let mut bonds = Vec::new();
    let mut first = None;
    while bonds.len() < count as usize {
        let line = lines.next().filter(|line| !line.contains('!'));
        let Some(line) = line else {
            return wrong(format!("it ends after {} of {count} bonds", bonds.len()));
        };
        for word in line.split_whitespace() {
            let atom = word.parse::<u32>().ok().filter(|atom| *atom <= atoms);
            let Some(atom) = atom.and_then(|atom| atom.checked_sub(1)) else {
                let word = shown(word);
                return wrong(format!(
                    "bond {} is of atom '{word}'; there are 1 to {atoms}",
                    bonds.len() + 1
                ));
            };
            match first.take() {
                None => first = Some(atom),
                Some(one) if bonds.len() < count as usize => bonds.push([one, atom]),
                Some(_) => return wrong(format!("it has more bonds than its {count}")),
            }
        }
    }
    match first {
        None => Ok(bonds),
        Some(_) => wrong(format!("it has more bonds than its {count}")),
    }
}
