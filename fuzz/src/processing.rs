use anabranch_process::{Adu, Element, Limits, Modules, Pipeline, Step, operators::delta::Decoder};
use bytes::Bytes;

use crate::Input;

/// Bounds that are reached soon.
const LIMITS: Limits = Limits {
    adus: 64,
    bytes: 1 << 16,
    fuel: 10_000,
    fuel_per_s: 1_000_000,
    memory: 1 << 18,
};

/// The text of a pipeline is read to what is written as an equal one, or refused at a place within it.
pub fn pipeline(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match text.parse::<Pipeline>() {
        Ok(pipeline) => {
            let written = pipeline.to_string();
            assert_eq!(written.parse(), Ok(pipeline.clone()), "{written}");
            // Predicates were compiled when they were read.
            if !pipeline
                .steps()
                .iter()
                .any(|step| matches!(step, Step::Wasm { .. }))
            {
                let started = pipeline.start(&Modules::default(), LIMITS);
                started.expect("only modules cannot begin");
            }
        }
        Err(error) => assert!(error.column <= text.chars().count() + 1, "{error}"),
    }
}

/// Pipelines that arbitrary ADUs go through.
const PIPELINES: [&str; 6] = [
    "precision 9 of f32 then delta",
    "region box -1 -1 -1 1 1 1 of f32 with indices then precision 20 of f32 then delta whole 3",
    "region sphere 0 0 0 2 of f64be then delta of f64be",
    "where (size > 1) || is_key then every 2 then drop layer 2",
    "select a, \"b c\" then precision 1 of f64",
    "every 3 then where length > 4 then delta of f64",
];

/// Operators return whatever they are given, or a failure that is no panic; a receiver decodes all differences; bytes that are no
/// delta coding are refused.
pub fn operators(data: &[u8]) {
    let mut input = Input(data);
    let modules = Modules::default();
    let pipeline: Pipeline = PIPELINES[usize::from(input.byte()) % PIPELINES.len()]
        .parse()
        .expect("it is correct");
    let element = pipeline.steps().iter().find_map(|step| match step {
        Step::Delta { element, .. } => Some(*element),
        _ => None,
    });
    let mut running = pipeline
        .start(&modules, LIMITS)
        .expect("it names no module");
    let mut decoder = Decoder::new(element.unwrap_or(Element::F32));
    let mut body = Vec::new();
    for sequence in 0..64 {
        if input.is_empty() {
            break;
        }
        let head = input.byte();
        if head & 1 == 0 {
            let length = usize::from(input.byte());
            body = input.take(length).to_vec();
        } else if let Some(byte) = body.first_mut() {
            *byte = input.byte();
        }
        let mut adu = Adu::new(sequence, body.clone()).with("is_key", head & 2 == 0);
        adu = adu
            .with("layer", f64::from(head >> 6))
            .with("component", if head & 4 == 0 { "a" } else { "c" });
        if head & 8 == 0 {
            adu = adu.with("size", f64::from(head));
        }
        if head & 48 == 48 {
            running.resync();
        }
        match running.process(adu, &modules) {
            Ok(processed) if element.is_some() => {
                for adu in processed.adus {
                    decoder.decode(adu.body).expect("nothing was lost");
                }
            }
            Ok(_) => {}
            Err(failure) => assert!(!failure.reason.contains("panicked"), "{failure}"),
        }
    }
    let _ = decoder.decode(Bytes::copy_from_slice(data));
}

/// Bytes are a WebAssembly module that ends within its bounds, or are refused.
pub fn module(data: &[u8]) {
    let modules = Modules::default();
    let Ok(hash) = modules.add(data) else { return };
    let step = Step::Wasm {
        hash,
        parameters: "7".to_owned(),
    };
    let pipeline = Pipeline::new(vec![step]).expect("it is one step");
    let Ok(mut running) = pipeline.start(&modules, LIMITS) else {
        return;
    };
    for sequence in 0..3 {
        let adu = Adu::new(sequence, data.to_vec()).with("size", 1.5);
        match running.process(adu, &modules) {
            Ok(processed) => assert!(processed.adus.len() <= LIMITS.adus),
            Err(failure) => assert!(!failure.reason.contains("panicked"), "{failure}"),
        }
    }
}
