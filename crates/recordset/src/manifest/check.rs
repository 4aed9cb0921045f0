//! From keys to a manifest.

use std::borrow::Cow;

use anabranch_base::{Rate, duration, size, text::nearest, unit};

use super::{
    COMPONENTS_MAX, Component, Extent, Extents, Listed, Manifest, ManifestError, NAME_BYTES_MAX,
    PART_BYTES_MAX, Part, Pattern, RECORDS_MAX, Records, Service, TEXT_BYTES_MAX, Template,
    error::Place,
    layer::{ComponentLayer, Layer, PartLayer, Parts, RecordLayer, RecordsLayer, Size, Table},
};

/// Longest path of a file, in bytes.
const PATH_BYTES_MAX: usize = 4096;
/// Most parts of a path.
const PATH_PARTS_MAX: usize = 64;
/// Longest name of a file or a directory, in bytes.
const FILE_NAME_BYTES_MAX: usize = 255;
/// Records of a second at most.
const RATE_MAX: f64 = 1e6;
/// Most extents of a part.
const EXTENTS_MAX: usize = 1 << 20;

/// The text is not too long to be read.
pub(super) fn length(text: &str) -> Result<(), ManifestError> {
    if text.len() > TEXT_BYTES_MAX {
        let reason = "a manifest has up to 1 GiB; records that follow a pattern need no list";
        return Err(Place::Set.lacks(reason));
    }
    Ok(())
}

pub(super) fn resolve(layer: Layer) -> Result<Manifest, ManifestError> {
    if let Some(set) = &layer.name {
        name(Place::Set, set)?;
    }
    let rate = layer.rate.as_deref().map(per_second).transpose()?;
    let components = components(layer.component)?;
    let records = match (layer.records, layer.record.is_empty()) {
        (Some(Table(counted)), true) => self::counted(counted, &components)?,
        (None, _) => listed(layer.record, &components)?,
        (Some(_), false) => {
            let reason = "it has [records] and [[record]]; give one of them";
            return Err(Place::Set.lacks(reason));
        }
    };
    let manifest = Manifest {
        name: layer.name,
        rate,
        components,
        records,
    };
    promises(&manifest)?;
    Ok(manifest)
}

/// A promise needs a rate.
fn promises(manifest: &Manifest) -> Result<(), ManifestError> {
    for component in &manifest.components {
        let service = &component.service;
        if service.promise.is_some() && service.rate.is_none() && manifest.rate.is_none() {
            let reason = "it is to be promised, but neither it nor the set has a rate; add rate = \"34 Mbit/s\" here, or rate = \"25/s\" to the set";
            return Err(Place::Component(&component.name).lacks(reason));
        }
    }
    Ok(())
}

fn components(layers: Vec<Table<ComponentLayer>>) -> Result<Vec<Component>, ManifestError> {
    if layers.is_empty() {
        return Err(Place::Set.lacks("it has no [[component]]; add one"));
    }
    if layers.len() > COMPONENTS_MAX {
        let reason = format!(
            "it has {} components; up to {COMPONENTS_MAX} are possible",
            layers.len()
        );
        return Err(Place::Set.lacks(reason));
    }
    let mut all: Vec<Component> = Vec::with_capacity(layers.len());
    for Table(layer) in layers {
        let place = Place::Component(&layer.name);
        name(place, &layer.name)?;
        if all.iter().any(|other| other.name == layer.name) {
            return Err(place.lacks("there are two of this name; rename one"));
        }
        let service = service(place, &layer)?;
        let template = template(place, &layer)?;
        all.push(Component {
            service,
            is_optional: layer.optional,
            template,
            name: layer.name,
        });
    }
    Ok(all)
}

fn service(place: Place<'_>, layer: &ComponentLayer) -> Result<Service, ManifestError> {
    let rate = layer.rate.as_deref().map(|text| {
        let rate: Result<Rate, _> = text.parse();
        rate.map_err(|error| place.refuses("rate", text, error.to_string()))
    });
    let deadline = layer.deadline.as_deref().map(|text| {
        let deadline = duration::parse(text);
        deadline.map_err(|error| place.refuses("deadline", text, error.to_string()))
    });
    if let Some(promise) = layer.promise
        && !(promise > 0.0 && promise < 1.0)
    {
        let reason = "a share of windows lies between 0 and 1, such as 0.95";
        return Err(place.refuses("promise", &promise.to_string(), reason));
    }
    Ok(Service {
        rate: rate.transpose()?,
        promise: layer.promise,
        deadline: deadline.transpose()?,
    })
}

fn template(place: Place<'_>, layer: &ComponentLayer) -> Result<Option<Template>, ManifestError> {
    let bytes = |key, size: &Option<Size>| {
        let size = size.as_ref().map(|size| bytes(place, key, size));
        size.transpose()
    };
    let size = bytes("size", &layer.size)?;
    let offset = bytes("offset", &layer.offset)?;
    let stride = bytes("stride", &layer.stride)?;
    let Some(file) = &layer.file else {
        if size.or(offset).or(stride).is_some() {
            return Err(place.lacks("it has a place, but no file; add file = \"…\""));
        }
        return Ok(None);
    };
    let pattern = Pattern::read(file).map_err(|reason| place.refuses("file", file, reason))?;
    if pattern.varies() {
        if offset.or(stride).is_some() {
            let reason = "offset and stride are for one file that has all records; the file here is another for each";
            return Err(place.lacks(reason));
        }
        // A number and a letter are as good as any.
        path(place, "file", &pattern.of(0, "a"))?;
        return Ok(Some(Template::Files(pattern, size)));
    }
    path(place, "file", file)?;
    let Some(bytes) = size else {
        let reason = "one file has all records, so their size is needed: add size, and stride if they are apart; or write {n} or {name} in file";
        return Err(place.lacks(reason));
    };
    Ok(Some(Template::Strided {
        file: file.clone(),
        offset: offset.unwrap_or(0),
        stride: stride.unwrap_or(bytes),
        bytes,
    }))
}

fn counted(layer: RecordsLayer, components: &[Component]) -> Result<Records, ManifestError> {
    let RecordsLayer { count, name: text } = layer;
    if count > RECORDS_MAX {
        let reason = format!("up to {RECORDS_MAX} records are possible");
        return Err(Place::Set.refuses("records.count", &count.to_string(), reason));
    }
    let text = text.unwrap_or_else(|| "{n}".to_owned());
    let refused = |reason: String| Place::Set.refuses("records.name", &text, reason);
    let pattern = Pattern::read(&text).map_err(refused)?;
    if pattern.has_name() {
        return Err(refused(
            "a name cannot contain itself; write {n}".to_owned(),
        ));
    }
    if !pattern.varies() && count > 1 {
        return Err(refused(
            "all records would have this name; write {n} in it".to_owned(),
        ));
    }
    let last = count.saturating_sub(1);
    for number in [0, last] {
        let own = pattern.of(number, "");
        name(Place::Record(&own), &own)?;
        fits_all(components, number, &own)?;
    }
    Ok(Records::Counted {
        count,
        name: pattern,
    })
}

/// All parts of a record that nothing but templates place are possible. In a set by pattern the last record has the longest names
/// and the largest offsets.
fn fits_all(components: &[Component], number: u64, record: &str) -> Result<(), ManifestError> {
    for component in components {
        let place = Place::Part(record, &component.name);
        match &component.template {
            None if component.is_optional => {}
            None => {
                let reason = "its component has no file; add file = \"…\" to the component, or mark it optional = true";
                return Err(place.lacks(reason));
            }
            Some(Template::Files(pattern, _)) => path(place, "file", &pattern.of(number, record))?,
            Some(Template::Strided {
                offset,
                stride,
                bytes,
                ..
            }) => {
                let end = stride
                    .checked_mul(number)
                    .and_then(|at| at.checked_add(*offset))
                    .and_then(|at| at.checked_add(*bytes));
                if end.is_none_or(|end| end > i64::MAX as u64) {
                    return Err(place.lacks("it would end beyond what a file can hold"));
                }
            }
        }
    }
    Ok(())
}

fn listed(
    layers: Vec<Table<RecordLayer>>,
    components: &[Component],
) -> Result<Records, ManifestError> {
    if layers.len() as u64 > RECORDS_MAX {
        let reason = format!(
            "it has {} records; up to {RECORDS_MAX} are possible",
            layers.len()
        );
        return Err(Place::Set.lacks(reason));
    }
    let mut all = Vec::with_capacity(layers.len());
    for (number, Table(layer)) in layers.into_iter().enumerate() {
        all.push(record(number as u64, layer, components)?);
    }
    let mut by_name: Vec<u32> = (0..all.len() as u32).collect();
    let named = |index: &u32| &all[*index as usize].name;
    by_name.sort_by(|one, other| named(one).cmp(named(other)));
    for pair in by_name.windows(2) {
        if named(&pair[0]) == named(&pair[1]) {
            let reason = format!(
                "there are two of this name, number {} and {}; rename one",
                pair[0] + 1,
                pair[1] + 1
            );
            return Err(Place::Record(named(&pair[0])).lacks(reason));
        }
    }
    Ok(Records::Listed { all, by_name })
}

fn record(
    number: u64,
    layer: RecordLayer,
    components: &[Component],
) -> Result<Listed, ManifestError> {
    let RecordLayer {
        name: own,
        parts: Parts(parts),
    } = layer;
    name(Place::Record(&own), &own)?;
    let mut places: Vec<Option<Part<'static>>> = vec![None; components.len()];
    let is_listed = !parts.is_empty();
    for (component, part) in parts {
        let known = components.iter().map(|component| component.name.as_str());
        let Some(index) = known.clone().position(|name| name == component) else {
            let meant = nearest(&component, known.clone());
            let meant = meant.map(|name| format!("; did you mean '{name}'?"));
            let all = || {
                format!(
                    "; there are {}",
                    known.clone().collect::<Vec<_>>().join(", ")
                )
            };
            let reason = format!("no component has this name{}", meant.unwrap_or_else(all));
            return Err(Place::Record(&own).refuses("parts", &component, reason));
        };
        places[index] = Some(self::part(Place::Part(&own, &component), part)?);
    }
    for (component, place) in components.iter().zip(&places) {
        if place.is_none() {
            fits_all(std::slice::from_ref(component), number, &own)?;
        }
    }
    Ok(Listed {
        name: own.into(),
        parts: if is_listed {
            places.into()
        } else {
            Box::default()
        },
    })
}

fn part(place: Place<'_>, layer: PartLayer) -> Result<Part<'static>, ManifestError> {
    let layer = match layer {
        PartLayer::File(file) => {
            path(place, "file", &file)?;
            return Ok(Part {
                file: file.into(),
                extents: Extents::Whole,
            });
        }
        PartLayer::Bytes(Table(layer)) => layer,
    };
    path(place, "file", &layer.file)?;
    let offset = layer.offset.as_ref();
    let offset = offset
        .map(|size| bytes(place, "offset", size))
        .transpose()?;
    let size = layer.size.as_ref();
    let size = size.map(|size| bytes(place, "size", size)).transpose()?;
    let extents = match (layer.extents, offset, size) {
        (Some(_), Some(_), _) | (Some(_), _, Some(_)) => {
            return Err(place.lacks("it has extents and offset or size; give one of them"));
        }
        (None, Some(_), None) => {
            return Err(place.lacks("it has an offset, but no size; add size"));
        }
        (None, None, None) => Extents::Whole,
        (None, offset, Some(bytes)) => Extents::one(offset.unwrap_or(0), bytes),
        (Some(extents), None, None) => {
            if extents.len() > EXTENTS_MAX {
                let reason = format!(
                    "it has {} extents; up to {EXTENTS_MAX} are possible",
                    extents.len()
                );
                return Err(place.lacks(reason));
            }
            let extents = extents.into_iter();
            let extents: Vec<Extent> = extents
                .map(|(offset, bytes)| Extent { offset, bytes })
                .collect();
            Extents::Some(Cow::Owned(extents))
        }
    };
    if let Extents::Some(extents) = &extents {
        let mut sum = 0_u64;
        for extent in extents.iter() {
            let end = extent.offset.checked_add(extent.bytes);
            sum = sum.saturating_add(extent.bytes);
            if end.is_none_or(|end| end > i64::MAX as u64) || sum > PART_BYTES_MAX {
                return Err(place.lacks("it has more bytes, or ends further on, than a file can"));
            }
        }
    }
    Ok(Part {
        file: layer.file.into(),
        extents,
    })
}

fn bytes(place: Place<'_>, key: &'static str, size: &Size) -> Result<u64, ManifestError> {
    let (bytes, text) = match size {
        Size::Bytes(bytes) => (*bytes, bytes.to_string()),
        Size::Text(text) => {
            let bytes = size::parse(text);
            let bytes = bytes.map_err(|error| place.refuses(key, text, error.to_string()))?;
            (bytes, text.clone())
        }
    };
    if bytes > PART_BYTES_MAX {
        return Err(place.refuses(key, &text, "up to 1024 TiB are possible"));
    }
    Ok(bytes)
}

/// Records of a second: `25/s`.
fn per_second(text: &str) -> Result<f64, ManifestError> {
    let (number, unit) = unit::split(text);
    let number: Option<f64> = number.parse().ok();
    let number = number.filter(|number| *number > 0.0 && *number <= RATE_MAX);
    match number.filter(|_| unit == "/s") {
        Some(number) => Ok(number),
        None => {
            let reason = "write records of a second, such as 25/s; up to 1000000/s are possible";
            Err(Place::Set.refuses("rate", text, reason))
        }
    }
}

/// A name is one part of a path, so that a record can become a directory of its receiver.
fn name(place: Place<'_>, name: &str) -> Result<(), ManifestError> {
    let fault = if name.len() > NAME_BYTES_MAX {
        Some("it has more than 255 bytes")
    } else {
        part_fault(name)
    };
    match fault {
        Some(fault) => Err(place.refuses("name", name, fault)),
        None if name.contains('/') => Err(place.refuses("name", name, "it has a '/'")),
        None => Ok(()),
    }
}

fn path(place: Place<'_>, key: &'static str, path: &str) -> Result<(), ManifestError> {
    let fault = if path.len() > PATH_BYTES_MAX {
        Some("it has more than 4,096 bytes")
    } else if path.split('/').count() > PATH_PARTS_MAX {
        Some("it is more than 64 directories deep")
    } else if path.starts_with('/') {
        Some("it must be relative to the set's directory")
    } else {
        path.split('/').find_map(part_fault)
    };
    match fault {
        Some(fault) => Err(place.refuses(key, path, fault)),
        None => Ok(()),
    }
}

fn part_fault(part: &str) -> Option<&'static str> {
    if part.is_empty() {
        return Some("it is empty, or has an empty part");
    }
    if part.len() > FILE_NAME_BYTES_MAX {
        return Some("a part of it has more than 255 bytes");
    }
    if part == "." || part == ".." {
        return Some("'.' and '..' are not possible: a set does not reach beyond its directory");
    }
    let is_odd = |c: char| c == '\\' || c == ':' || anabranch_base::text::is_obeyed(c);
    if part.contains(is_odd) {
        return Some("it has a '\\', a ':' or a character that is obeyed instead of shown");
    }
    None
}
