//! Parameters of each operator.

use std::num::NonZeroU32;

use super::{
    At, Names,
    reader::{Reader, Word},
};
use crate::{
    array::Element,
    operators::{filter::Predicate, region::Shape},
    step::{Step, is_plain},
};

/// End of a step, as errors name it.
const END: &str = "the end of the step or \"then\"";

/// Largest number of components that one step selects.
const SELECTED_MAX: usize = 64;

pub(super) fn step(mut reader: Reader<'_>, names: Names<'_>) -> Result<Step, At> {
    #[cfg(feature = "faults")]
    if reader.accept("panic") {
        let step = Step::Panic(count(&mut reader, "a count from 1")?);
        reader.end(END)?;
        return Ok(step);
    }
    let operator = reader.one_of(&Step::NAMES, "operator")?;
    if operator == "where" {
        let place = reader.place();
        let predicate = Predicate::parse(reader.rest());
        return Ok(Step::Where(
            predicate.map_err(|message| At::new(place, message))?,
        ));
    }
    let step = match operator {
        "every" => Step::Every(count(&mut reader, "a count from 1")?),
        "drop" => {
            reader.one_of(&["layer"], "word after \"drop\"")?;
            Step::DropLayer(count(&mut reader, "the number of a layer, from 1")?)
        }
        "select" => Step::Select(components(&mut reader)?),
        "region" => region(&mut reader)?,
        "precision" => precision(&mut reader)?,
        "delta" => delta(&mut reader)?,
        _ => wasm(&mut reader, names)?,
    };
    reader.end(END)?;
    Ok(step)
}

fn count(reader: &mut Reader<'_>, wanted: &str) -> Result<NonZeroU32, At> {
    reader.number(wanted, |_: NonZeroU32| true)
}

fn element(reader: &mut Reader<'_>) -> Result<Element, At> {
    reader.one_of(&["of"], "word before an element")?;
    let name = reader.one_of(&Element::ALL.map(Element::name), "element")?;
    let mut all = Element::ALL.into_iter();
    Ok(all
        .find(|element| element.name() == name)
        .expect("the name is one of them"))
}

fn components(reader: &mut Reader<'_>) -> Result<Vec<String>, At> {
    let mut names = Vec::new();
    loop {
        let name = match reader.peek() {
            Some(Word::Plain(name)) if is_plain(name) => name,
            Some(Word::Quoted(name)) if !name.is_empty() => name,
            _ => {
                let wanted = "the name of a component (other signs than letters, digits, _ - . / in quotation marks)";
                return Err(reader.unexpected(wanted));
            }
        };
        if names.len() == SELECTED_MAX {
            return Err(At::new(
                reader.place(),
                format!("a step selects at most {SELECTED_MAX} components"),
            ));
        }
        reader.next();
        names.push(name.to_owned());
        if reader.peek() != Some(Word::Comma) {
            break;
        }
        reader.next();
    }
    // The order and repetition of names mean nothing, and equal steps must be equal.
    names.sort();
    names.dedup();
    Ok(names)
}

fn region(reader: &mut Reader<'_>) -> Result<Step, At> {
    let kind = reader.one_of(&["box", "sphere"], "shape")?;
    let place = reader.place();
    let mut numbers = [0.0; 6];
    let wanted = if kind == "box" { 6 } else { 4 };
    for number in &mut numbers[..wanted] {
        *number = reader.number("a finite number", |number: f64| number.is_finite())?;
        // Negative zero means the same as zero, and equal steps must be equal in print.
        *number += 0.0;
    }
    let [x, y, z, a, b, c] = numbers;
    let shape = if kind == "box" {
        Shape::Box {
            low: [x, y, z],
            high: [a, b, c],
        }
    } else {
        Shape::Sphere {
            centre: [x, y, z],
            radius: a,
        }
    };
    shape.check().map_err(|message| At::new(place, message))?;
    let element = element(reader)?;
    let with_indices = reader.accept("with");
    if with_indices {
        reader.one_of(&["indices"], "word after \"with\"")?;
    }
    Ok(Step::Region {
        shape,
        element,
        with_indices,
    })
}

fn precision(reader: &mut Reader<'_>) -> Result<Step, At> {
    let place = reader.place();
    let bits: u32 = reader.number("a number of bits from 1", |bits| bits > 0)?;
    let element = element(reader)?;
    if bits > element.mantissa_bits() {
        let message = format!(
            "{element} has {} bits of significand, so that {bits} cannot be kept; use 1 to {0}",
            element.mantissa_bits()
        );
        return Err(At::new(place, message));
    }
    Ok(Step::Precision { bits, element })
}

fn delta(reader: &mut Reader<'_>) -> Result<Step, At> {
    let mut of = Element::F32;
    let mut whole = None;
    if reader.peek() == Some(Word::Plain("of")) {
        of = element(reader)?;
    }
    if reader.peek().is_some() {
        reader.one_of(&["whole", "of"], "parameter of \"delta\"")?;
        whole = Some(count(reader, "a count from 1")?);
    }
    Ok(Step::Delta { element: of, whole })
}

fn wasm(reader: &mut Reader<'_>, names: Names<'_>) -> Result<Step, At> {
    let hash = match reader.peek() {
        Some(Word::Plain(word)) => word.parse().ok().or_else(|| names(word)),
        _ => None,
    };
    let wanted = "the BLAKE3 hash of a module in 64 hexadecimal digits";
    let hash = hash.ok_or_else(|| reader.unexpected(wanted))?;
    reader.next();
    let parameters = match reader.peek() {
        Some(Word::Quoted(text)) => {
            reader.next();
            text
        }
        _ => "",
    };
    Ok(Step::Wasm {
        hash,
        parameters: parameters.to_owned(),
    })
}
