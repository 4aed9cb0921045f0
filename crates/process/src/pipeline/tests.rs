use super::*;

#[test]
fn pipelines_are_printed_as_they_are_read() {
    for text in [
        "",
        "every 5",
        "where frame_type == \"I\"",
        "where (layer < 2) && ((size / 2 > 1.5) || is_key)",
        "where name == \"a then b // } c\" then every 2",
        "precision 12 of f32 then delta",
        "precision 30 of f64be then delta of f64be whole 50",
        "drop layer 2",
        "select \"a b\", velocity, x/y",
        "select \"a-then\", \"then\", \"x/then/y\"",
        "region box -1 -2.5 0 1 1e300 3 of f64 with indices",
        "region sphere 0 0 0 2.5 of f32be",
        "wasm 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
        "wasm 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f \"then 5\" then every 2",
    ] {
        let pipeline: Pipeline = text
            .parse()
            .unwrap_or_else(|error| panic!("{text}: {error}"));
        // 1e300 is printed with all its digits.
        if !text.contains("e300") {
            assert_eq!(pipeline.to_string(), text);
        }
        assert_eq!(pipeline.to_string().parse(), Ok(pipeline));
    }
}

#[test]
fn different_texts_of_the_same_steps_are_equal() {
    for (one, other) in [
        ("every  5", " every 5\n"),
        ("delta", "delta of f32"),
        ("select b,a , a", "select a, b"),
        ("where a ==\n  1", "where a == 1"),
        (
            "region sphere 0 0 0 1 of f32",
            "region sphere -0 0.0 0 1.0 of f32",
        ),
    ] {
        let (one, other): (Pipeline, Pipeline) = (one.parse().unwrap(), other.parse().unwrap());
        assert_eq!(one, other);
        assert_eq!(one.to_string(), other.to_string());
    }
}

#[test]
fn errors_name_the_place_and_the_correction() {
    for (text, error) in [
        (
            "evry 5",
            "column 1: there is no operator \"evry\"; did you mean \"every\"?",
        ),
        (
            "every 5 then blur",
            "column 14: there is no operator \"blur\"; use one of where, every, drop, select, region, precision, delta, wasm",
        ),
        (
            "every 0",
            "column 7: there is \"0\" where a count from 1 must stand",
        ),
        (
            "every",
            "column 6: the step ends where a count from 1 must stand",
        ),
        (
            "every 5 6",
            "column 9: there is \"6\" where the end of the step or \"then\" must stand",
        ),
        (
            "then every 5",
            "column 1: the step ends where operator: where, every, drop, select, region, precision, delta, wasm must stand",
        ),
        (
            "precision 24 of f32",
            "column 11: f32 has 23 bits of significand, so that 24 cannot be kept; use 1 to 23",
        ),
        (
            "precision 5 of f23",
            "column 16: there is no element \"f23\"; use one of f32, f64, f32be, f64be",
        ),
        (
            "delta then every 2",
            "column 1: \"every\" follows \"delta\", whose differences must reach the receiver as they are; put \"delta\" last",
        ),
        (
            "select \"a",
            "column 8: this quotation mark is not closed; add another one",
        ),
        (
            "region box 0 0 0 1 -1 1 of f32",
            "column 12: the second corner of a box is below the first; give the lower corner first",
        ),
        (
            "region sphere 0 0 0 -1 of f32",
            "column 15: the radius of a sphere is below 0; use 0 or more",
        ),
        (
            "region sphere 0 0 nan 1 of f32",
            "column 19: there is \"nan\" where a finite number must stand",
        ),
        (
            "wasm abcd",
            "column 6: there is \"abcd\" where the BLAKE3 hash of a module in 64 hexadecimal digits must stand",
        ),
    ] {
        let found = text.parse::<Pipeline>().unwrap_err();
        assert_eq!(found.to_string(), error, "{text}");
    }
}

#[test]
fn predicates_that_cannot_be_evaluated_are_refused() {
    for (text, part) in [
        ("where", "a predicate"),
        ("where a ==", "column 7"),
        ("where a == 1 } } objective {", "brace"),
        ("where a == 1 // comment", "comment"),
        ("where queue_delay > 5", "\"queue_delay\""),
        ("where other::a == 1", "other"),
        ("where (a == 1) && (a == \"x\")", "a"),
        ("where a", ""),
    ] {
        if text == "where a" {
            // A boolean field.
            assert!(text.parse::<Pipeline>().is_ok());
            continue;
        }
        let error = text.parse::<Pipeline>().unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
}

#[test]
fn long_texts_and_many_steps_are_refused() {
    let long = format!("select {}", "x".repeat(text::TEXT_BYTES_MAX));
    assert!(long.parse::<Pipeline>().is_err());
    assert!(
        " ".repeat(text::TEXT_BYTES_MAX + 1)
            .parse::<Pipeline>()
            .is_err()
    );
    let many = vec!["every 1"; STEPS_MAX + 1].join(" then ");
    let error = many.parse::<Pipeline>().unwrap_err().to_string();
    assert!(error.contains("at most 16 steps"), "{error}");
}

#[test]
fn errors_hold_no_characters_that_a_terminal_obeys() {
    for text in [
        "every \u{1b}[2J",
        "ev\u{202e}ry 5",
        "select a \u{7}",
        "where a == \u{1b}",
    ] {
        let error = text.parse::<Pipeline>().unwrap_err().to_string();
        assert!(
            !error.chars().any(anabranch_base::text::is_obeyed),
            "{error:?}"
        );
    }
    let long = format!("every {}", "x".repeat(5_000));
    let error = long.parse::<Pipeline>().unwrap_err().to_string();
    assert!(error.chars().count() < 500, "{error}");
}
