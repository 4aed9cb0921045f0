//! Chemical bonds, by distance.

use std::{collections::BTreeMap, fmt};

/// A chemical element, by atomic number, 1 to 96.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Element(u8);

/// Symbols and covalent radii in picometres, hydrogen first: Cordero et al., "Covalent radii revisited",
/// Dalton Transactions 2008, Table 2 (carbon: sp³; manganese, iron, cobalt: low spin).
#[rustfmt::skip]
const ELEMENTS: [(&str, u16); 96] = [
    ("H", 31), ("He", 28), ("Li", 128), ("Be", 96), ("B", 84), ("C", 76), ("N", 71), ("O", 66),
    ("F", 57), ("Ne", 58), ("Na", 166), ("Mg", 141), ("Al", 121), ("Si", 111), ("P", 107), ("S", 105),
    ("Cl", 102), ("Ar", 106), ("K", 203), ("Ca", 176), ("Sc", 170), ("Ti", 160), ("V", 153), ("Cr", 139),
    ("Mn", 139), ("Fe", 132), ("Co", 126), ("Ni", 124), ("Cu", 132), ("Zn", 122), ("Ga", 122), ("Ge", 120),
    ("As", 119), ("Se", 120), ("Br", 120), ("Kr", 116), ("Rb", 220), ("Sr", 195), ("Y", 190), ("Zr", 175),
    ("Nb", 164), ("Mo", 154), ("Tc", 147), ("Ru", 146), ("Rh", 142), ("Pd", 139), ("Ag", 145), ("Cd", 144),
    ("In", 142), ("Sn", 139), ("Sb", 139), ("Te", 138), ("I", 139), ("Xe", 140), ("Cs", 244), ("Ba", 215),
    ("La", 207), ("Ce", 204), ("Pr", 203), ("Nd", 201), ("Pm", 199), ("Sm", 198), ("Eu", 198), ("Gd", 196),
    ("Tb", 194), ("Dy", 192), ("Ho", 192), ("Er", 189), ("Tm", 190), ("Yb", 187), ("Lu", 187), ("Hf", 175),
    ("Ta", 170), ("W", 162), ("Re", 151), ("Os", 144), ("Ir", 141), ("Pt", 136), ("Au", 136), ("Hg", 132),
    ("Tl", 145), ("Pb", 146), ("Bi", 148), ("Po", 140), ("At", 150), ("Rn", 150), ("Fr", 260), ("Ra", 221),
    ("Ac", 215), ("Th", 206), ("Pa", 200), ("U", 196), ("Np", 190), ("Pu", 187), ("Am", 180), ("Cm", 169),
];

/// Tolerance in ångström: two atoms are bonded if their distance is below the sum of their radii plus this, as in programs for
/// molecules.
const TOLERANCE: f32 = 0.45;
/// Distance in ångström below which two atoms are one atom written twice.
const LEAST: f32 = 0.4;

impl Element {
    /// Parses a symbol, in any case, or an atomic number; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let found = match text.parse::<usize>() {
            Ok(number) => number.checked_sub(1)?,
            Err(_) => ELEMENTS
                .iter()
                .position(|(symbol, _)| symbol.eq_ignore_ascii_case(text))?,
        };
        (found < ELEMENTS.len()).then(|| Self(found as u8 + 1))
    }

    /// The atomic number.
    pub fn number(self) -> u8 {
        self.0
    }

    /// The covalent radius, in ångström.
    pub fn radius(self) -> f32 {
        f32::from(ELEMENTS[usize::from(self.0) - 1].1) / 100.0
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(ELEMENTS[usize::from(self.0) - 1].0)
    }
}

/// Bonds between atoms, as pairs of indices in ascending order. Atoms are sorted into cells as wide as the longest bond, so it
/// takes O(atoms · log cells) at ordinary densities of matter.
pub fn bonds(elements: &[Element], positions: &[[f32; 3]]) -> Vec<[u32; 2]> {
    let radius_max = elements
        .iter()
        .map(|element| element.radius())
        .fold(0.0, f32::max);
    let width = 2.0 * radius_max + TOLERANCE;
    let cell_of = |position: &[f32; 3]| position.map(|x| (x / width).floor() as i32);
    let mut cells: BTreeMap<[i32; 3], Vec<u32>> = BTreeMap::new();
    for (position, index) in positions.iter().zip(0..) {
        cells.entry(cell_of(position)).or_default().push(index);
    }
    let mut found = Vec::new();
    for (position, one) in positions.iter().zip(0_u32..) {
        let centre = cell_of(position);
        for step in 0..27 {
            let offset = [step % 3 - 1, step / 3 % 3 - 1, step / 9 - 1];
            let cell = [0, 1, 2].map(|axis| centre[axis].saturating_add(offset[axis]));
            for &other in cells.get(&cell).into_iter().flatten() {
                if other > one && is_bonded(elements, positions, [one, other]) {
                    found.push([one, other]);
                }
            }
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

fn is_bonded(elements: &[Element], positions: &[[f32; 3]], pair: [u32; 2]) -> bool {
    let [one, other] = pair.map(|index| index as usize);
    let square: f32 = (0..3)
        .map(|axis| (positions[one][axis] - positions[other][axis]).powi(2))
        .sum();
    let reach = elements[one].radius() + elements[other].radius() + TOLERANCE;
    square > LEAST * LEAST && square < reach * reach
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::Seed;

    fn elements(symbols: &str) -> Vec<Element> {
        symbols
            .split(' ')
            .map(|symbol| Element::parse(symbol).unwrap())
            .collect()
    }

    #[test]
    fn elements_have_symbols_numbers_and_radii() {
        assert_eq!(Element::parse("cl"), Element::parse("17"));
        assert_eq!(Element::parse("CL").unwrap().to_string(), "Cl");
        assert_eq!(Element::parse("Cm").unwrap().number(), 96);
        assert_eq!(Element::parse("C").unwrap().radius(), 0.76);
        for text in ["", "0", "97", "256", "768", "-1", "Q", "C1"] {
            assert_eq!(Element::parse(text), None, "{text}");
        }
    }

    #[test]
    fn two_waters_have_four_bonds() {
        let water = [[0.0, 0.0, 0.0], [0.757, 0.587, 0.0], [-0.757, 0.587, 0.0]];
        let mut positions = water.to_vec();
        // A hydrogen bond of 1.9 Å does not count here.
        positions.extend(water.map(|[x, y, z]| [x, y - 2.8, z]));
        let found = bonds(&elements("O H H O H H"), &positions);
        assert_eq!(found, [[0, 1], [0, 2], [3, 4], [3, 5]]);
    }

    #[test]
    fn cells_miss_nothing() {
        let mut random = Seed(7).stream("atoms");
        let symbols = ["H", "C", "O", "S", "I"];
        for _ in 0..20 {
            let count = 60;
            let elements: Vec<Element> = (0..count)
                .map(|_| Element::parse(symbols[random.below(5) as usize]).unwrap())
                .collect();
            let positions: Vec<[f32; 3]> = (0..count)
                .map(|_| [(); 3].map(|()| random.uniform(-6.0, 6.0) as f32))
                .collect();
            let mut expected = Vec::new();
            for one in 0..count {
                for other in one + 1..count {
                    if is_bonded(&elements, &positions, [one, other]) {
                        expected.push([one, other]);
                    }
                }
            }
            assert!(!expected.is_empty());
            assert_eq!(bonds(&elements, &positions), expected);
        }
    }

    #[test]
    fn far_away_is_not_beyond_reach() {
        let positions = [[f32::MAX, 0.0, 0.0], [f32::MIN, 0.0, 0.0]];
        assert!(bonds(&elements("H H"), &positions).is_empty());
    }
}
