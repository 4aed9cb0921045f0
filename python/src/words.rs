//! Specifications of streams and guarantees, as the package writes them: the keys of a node's files (`anabranch::spec`), as JSON.

use anabranch::{
    Guarantee, StreamParameters, StreamSpec,
    spec::{GuaranteeText, SpecText},
};

use crate::failure::Failed;

fn refused(error: impl ToString) -> Failed {
    Failed::new("SpecError", error.to_string())
}

/// A stream's specification.
pub(crate) fn spec(json: &str) -> Result<StreamSpec, Failed> {
    let text: SpecText = serde_json::from_str(json).map_err(refused)?;
    text.resolve().map_err(refused)
}

/// A guarantee; `null`: none.
pub(crate) fn guarantee(json: &str) -> Result<Option<Guarantee>, Failed> {
    let text: Option<GuaranteeText> = serde_json::from_str(json).map_err(refused)?;
    let resolve = |text: GuaranteeText| text.resolve(|key| format!("guarantee.{key}"));
    text.map(resolve).transpose().map_err(refused)
}

/// Changes of a stream: those keys of a specification that are given. A text of a cap, a drop order or a lifetime is read as that of a
/// specification; `null` removes it.
pub(crate) fn parameters(json: &str) -> Result<StreamParameters, Failed> {
    let given: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(json).map_err(refused)?;
    let mut spec = given.clone();
    spec.retain(|_, value| !value.is_null());
    // Only an unreliable stream has a drop order.
    spec.insert("reliable".to_owned(), false.into());
    let text: SpecText = serde_json::from_value(spec.into()).map_err(refused)?;
    let resolved = text.resolve().map_err(refused)?;
    let is_given = |key: &str| given.contains_key(key);
    Ok(StreamParameters {
        weight: is_given("weight").then_some(resolved.weight),
        cap: is_given("cap").then_some(resolved.cap),
        drop: is_given("drop").then_some(resolved.drop),
        redundant: is_given("redundant").then_some(resolved.redundant),
        priority: is_given("priority").then_some(resolved.priority),
        lifetime: is_given("lifetime").then_some(resolved.lifetime),
        ..StreamParameters::default()
    })
}
