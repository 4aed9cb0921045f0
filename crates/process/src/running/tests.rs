use super::*;
use crate::operator::Fault;

fn start(text: &str) -> Running {
    let pipeline: Pipeline = text.parse().unwrap();
    pipeline
        .start(&Modules::default(), Limits::default())
        .unwrap()
}

fn passed(running: &mut Running, adus: impl IntoIterator<Item = Adu>) -> Vec<u64> {
    let modules = Modules::default();
    let derived = adus
        .into_iter()
        .flat_map(|adu| running.process(adu, &modules).unwrap().adus);
    derived.map(|adu| adu.sequence).collect()
}

fn numbered(count: u64) -> impl Iterator<Item = Adu> {
    (0..count).map(|sequence| Adu::new(sequence, vec![0; 12]))
}

#[test]
fn every_kth_passes_from_the_first() {
    assert_eq!(passed(&mut start("every 3"), numbered(8)), [0, 3, 6]);
    assert_eq!(passed(&mut start(""), numbered(3)), [0, 1, 2]);
    assert_eq!(
        passed(&mut start("every 2 then every 2"), numbered(9)),
        [0, 4, 8]
    );
}

#[test]
fn predicates_read_fields_length_and_sequence() {
    let adus = || {
        [
            Adu::new(0, "abc")
                .with("frame_type", "I")
                .with("size", 2.5)
                .with("is_key", true),
            Adu::new(1, "abcdef")
                .with("frame_type", "P")
                .with("size", 3.0)
                .with("is_key", false),
            Adu::new(2, ""),
            Adu::new(3, "")
                .with("frame_type", 5.0)
                .with("size", "I")
                .with("is_key", 1.0),
        ]
    };
    for (predicate, expected) in [
        ("frame_type == \"I\"", &[0][..]),
        ("frame_type != \"I\"", &[1]),
        ("size > 2.6", &[1]),
        ("is_key", &[0]),
        ("!is_key", &[1]),
        ("length >= 3", &[0, 1]),
        ("(stream_seq == 2) || (length == 6)", &[1, 2]),
        ("size / (size - 3) > -100", &[0]),
        ("true", &[0, 1, 2, 3]),
    ] {
        let found = passed(&mut start(&format!("where {predicate}")), adus());
        assert_eq!(found, expected, "{predicate}");
    }
}

#[test]
fn layers_and_components_are_chosen_by_their_fields() {
    let adus = [
        Adu::new(0, "").with("layer", 0.0).with("component", "a b"),
        Adu::new(1, "").with("layer", 1.0).with("component", "c"),
        Adu::new(2, "").with("layer", 2.0).with("component", "d"),
        Adu::new(3, ""),
    ];
    assert_eq!(passed(&mut start("drop layer 1"), adus.clone()), [0, 3]);
    assert_eq!(passed(&mut start("drop layer 2"), adus.clone()), [0, 1, 3]);
    assert_eq!(passed(&mut start("select d, \"a b\""), adus), [0, 2]);
}

#[test]
fn a_region_keeps_positions_within_in_either_byte_order() {
    let positions = [
        [0.0, 0.0, 0.0],
        [1.0, 1.0, 1.0],
        [2.0, 0.0, 0.0],
        [f64::NAN, 0.0, 0.0],
        [1.0, 0.0, 0.0],
    ];
    for element in crate::Element::ALL {
        let width = element.bytes();
        let mut body = vec![0; positions.len() * 3 * width];
        for (bytes, value) in body.chunks_exact_mut(width).zip(positions.as_flattened()) {
            let bits = if width == 4 {
                u64::from((*value as f32).to_bits())
            } else {
                value.to_bits()
            };
            element.write_bits(bits, bytes);
        }
        for (shape, kept) in [
            ("box 0 0 0 1 1 1", &[0_usize, 1, 4][..]),
            ("sphere 0 0 0 1", &[0, 4]),
            ("sphere 9 9 9 0", &[]),
        ] {
            let mut running = start(&format!("region {shape} of {element} with indices"));
            let adu = running
                .process(Adu::new(7, body.clone()), &Modules::default())
                .unwrap()
                .adus
                .remove(0);
            assert_eq!(adu.fields.number("positions"), Some(kept.len() as f64));
            assert_eq!(adu.fields.number("positions_of"), Some(5.0));
            let (found, indices) = adu.body.split_at(kept.len() * 3 * width);
            let expected: Vec<u8> = kept
                .iter()
                .flat_map(|at| &body[at * 3 * width..(at + 1) * 3 * width])
                .copied()
                .collect();
            assert_eq!(found, expected);
            let is_big_endian = element.name().ends_with("be");
            let index = |bytes: &[u8]| {
                let bytes = bytes.try_into().unwrap();
                if is_big_endian {
                    u32::from_be_bytes(bytes)
                } else {
                    u32::from_le_bytes(bytes)
                }
            };
            let indices: Vec<usize> = indices
                .chunks_exact(4)
                .map(|bytes| index(bytes) as usize)
                .collect();
            assert_eq!(indices, kept, "{element} {shape}");
        }
    }
}

#[test]
fn a_failure_names_operator_adu_and_reason_and_ends_nothing() {
    let modules = Modules::default();
    let mut running = start("every 1 then precision 5 of f64 then delta of f64");
    let whole = || Adu::new(1, vec![1; 16]);
    assert!(!running.process(whole(), &modules).unwrap().adus[0].needs_previous);
    assert!(running.process(whole(), &modules).unwrap().adus[0].needs_previous);
    let failure = running
        .process(Adu::new(9, vec![1; 15]), &modules)
        .unwrap_err();
    let text = failure.to_string();
    assert!(
        text.starts_with("step 2, \"precision\", cannot process ADU 9: the body has 15 bytes"),
        "{text}"
    );
    // What a receiver holds may be of before the failure: the next array is whole.
    assert!(!running.process(whole(), &modules).unwrap().adus[0].needs_previous);
    let costs: Vec<Cost> = running.costs().collect();
    assert_eq!(
        (costs[1].adus_in, costs[1].adus_out, costs[1].failures),
        (4, 3, 1)
    );
    assert!(costs.iter().all(|cost| cost.work > 0));
}

/// An operator that panics at every second ADU.
#[derive(Debug)]
struct Panicking(bool);

impl Operator for Panicking {
    fn process(&mut self, adu: Adu, output: &mut Output) -> Result<(), Fault> {
        assert!(!self.0, "it is the second");
        self.0 = true;
        output.push(adu)
    }

    fn resync(&mut self) {
        panic!("no resync");
    }
}

#[test]
fn a_panic_of_an_operator_is_a_failure_of_one_adu() {
    let modules = Modules::default();
    let mut running = start("every 1");
    running.stages[0].operator = Some(Box::new(Panicking(false)));
    assert_eq!(passed(&mut running, numbered(1)), [0]);
    let failure = running.process(Adu::new(1, ""), &modules).unwrap_err();
    assert!(
        failure.to_string().contains("panicked (it is the second)"),
        "{failure}"
    );
    assert!(!crate::contained::is_contained());
    // Another operator with the same parameters takes its place.
    assert_eq!(passed(&mut running, numbered(2)), [0, 1]);
    running.stages[0].operator = Some(Box::new(Panicking(false)));
    running.resync();
    assert_eq!(passed(&mut running, numbered(2)), [0, 1]);
}

#[test]
fn parameters_change_between_two_adus_and_equal_steps_keep_their_state() {
    let modules = Modules::default();
    let mut running = start("every 2 then precision 4 of f32 then delta");
    let process = |running: &mut Running| {
        running
            .process(Adu::new(0, vec![0; 12]), &modules)
            .unwrap()
            .adus
    };
    assert_eq!(process(&mut running).len(), 1);
    running
        .replace(
            "every 2 then precision 5 of f32 then delta"
                .parse()
                .unwrap(),
            &modules,
        )
        .unwrap();
    assert_eq!(process(&mut running).len(), 0);
    assert!(process(&mut running)[0].needs_previous);
    running
        .replace("every 1".parse().unwrap(), &modules)
        .unwrap();
    assert!(!process(&mut running)[0].needs_previous);
    assert_eq!(running.costs().count(), 1);
    assert_eq!(running.pipeline().to_string(), "every 1");
}

#[test]
fn an_unknown_module_is_an_error_and_the_pipeline_stays() {
    let modules = Modules::default();
    let mut running = start("every 2");
    let wasm = format!("every 1 then wasm {}", "ab".repeat(32));
    let error = running
        .replace(wasm.parse().unwrap(), &modules)
        .unwrap_err();
    assert!(
        error.to_string().starts_with("step 2, \"wasm\": "),
        "{error}"
    );
    assert_eq!(running.pipeline().to_string(), "every 2");
    assert_eq!(passed(&mut running, numbered(3)), [0, 2]);
}

#[test]
fn too_much_output_is_a_failure() {
    let pipeline: Pipeline = "every 1".parse().unwrap();
    let limits = Limits {
        bytes: 10,
        ..Limits::default()
    };
    let modules = Modules::default();
    let mut running = pipeline.start(&modules, limits).unwrap();
    assert!(running.process(Adu::new(0, vec![0; 10]), &modules).is_ok());
    let failure = running
        .process(Adu::new(1, vec![0; 11]), &modules)
        .unwrap_err();
    assert!(failure.reason.contains("10 bytes"), "{failure}");
}
