//! Diagnostics of invalid texts: the place, the message, and the suggested correction.

use anabranch_hose::{Report, Severity, Type, Vocabulary, compile};

fn report(text: &str) -> Report {
    match compile(text, &mut Vocabulary::default()) {
        Ok(compiled) => compiled.warnings,
        Err(report) => report,
    }
}

/// Asserts exactly these findings, in order: the text at the place, and words of the message or help.
#[track_caller]
fn finds(text: &str, expected: &[(&str, &str)]) {
    let report = report(text);
    let rendered = report.render("x");
    let found = report.diagnostics();
    assert_eq!(found.len(), expected.len(), "{rendered}");
    for (diagnostic, (place, words)) in found.iter().zip(expected) {
        let help = diagnostic.help.clone().unwrap_or_default();
        let shown = format!("{}\n{help}", diagnostic.message);
        assert_eq!(diagnostic.span.of(text), *place, "{rendered}");
        assert!(shown.contains(words), "'{words}' is missing in: {rendered}");
    }
}

/// An objective over the ADU `a` with this goal.
fn goal(goal: &str) -> String {
    format!(
        "objective {{ context {{ adu:a {{ stream_id == 1 }} }} goal {{ {goal} }} utility {{ a {{ 1 }} }} }}"
    )
}

fn filter(filter: &str) -> String {
    format!(
        "objective {{ context {{ adu:o {{ true }} adu:a {{ {filter} }} }} goal {{ o::length < 9 }} utility {{ a {{ 1 }} }} }}"
    )
}

#[test]
fn the_whole_rendering() {
    let text = "objective {\n  context { adu:foo { stream_id == 1 } }\n  goal { expected(fo::latency) < 100 }\n  utility { foo { 1 } }\n}\n";
    let expected = "\
error: no variable 'fo' is bound here
 --> x.hose:3:19
  |
3 |   goal { expected(fo::latency) < 100 }
  |                   ^^
  = help: did you mean 'foo'?

";
    assert_eq!(report(text).render("x.hose"), expected);
}

#[test]
fn distributions_must_become_numbers() {
    finds(
        &goal("a::latency < 100"),
        &[("a::latency", "expected(a::latency)")],
    );
    finds(&goal("a::lost? < 10"), &[("a::lost?", "prob(a::lost?)")]);
    finds(&goal("a::lost?"), &[("a::lost?", "in percent")]);
    finds(
        &goal("a::lost? == true"),
        &[("a::lost?", "cannot be compared")],
    );
    finds(
        &goal("a::latency == a::latency"),
        &[("a::latency", "expected(a::latency)")],
    );
    finds(
        &goal("expected(a::lost?) < 1"),
        &[("a::lost?", "expected(a::latency)")],
    );
    finds(
        &goal("prob(a::length) < 1"),
        &[("a::length", "prob(a::lost?)")],
    );
}

#[test]
fn names() {
    finds(&goal("a < 1"), &[("a", "'a' is an ADU")]);
    finds(&goal("length < 1"), &[("length", "'a::length'")]);
    finds(&goal("b::length < 1"), &[("b", "did you mean 'a'?")]);
    finds(
        &goal("expcted(a::latency) < 1"),
        &[("expcted", "did you mean 'expected'?")],
    );
    finds(&goal("min(1) < 1"), &[("min(1)", "min(x, y)")]);
    finds(
        &goal("correlated_loss(a, 1) < 1"),
        &[("1", "the name of an ADU variable")],
    );
    finds(&goal("a::loss_rate < 1"), &[("loss_rate", "streams do")]);
    finds(&goal("a::objective < 1"), &[("objective", "no field")]);
    finds(
        "objective { context { stream:s { stream_id == 1 } } goal { s::latency_avg < 1 } utility { s { 1 } } }",
        &[("latency_avg", "did you mean 'latency_ave'?")],
    );
    finds(
        "objective { context { adu:a { true } adu:a { true } } goal { true } utility { b { 1 } } }",
        &[("a", "already bound"), ("b", "did you mean 'a'?")],
    );
    finds(
        "objective { context { adu:goal { true } } goal { true } utility { goal { 1 } } }",
        &[("goal", "cannot name a variable")],
    );
}

#[test]
fn types() {
    finds(&goal("1"), &[("1", "expected boolean, found numeric")]);
    finds(
        &goal("a::length + true < 1"),
        &[("true", "expected numeric")],
    );
    finds(
        &goal("1 < a::length < 3"),
        &[("1 < a::length", "do not chain")],
    );
    finds(
        &goal("\"x\" == 1"),
        &[("\"x\" == 1", "compare string with numeric")],
    );
    finds(
        &goal("\"x\" < \"y\""),
        &[("\"x\"", "expected numeric"), ("\"y\"", "expected numeric")],
    );
    finds(
        &goal("(a::kind == \"I\") && (a::kind < 3)"),
        &[("a::kind", "'kind' is string by its first use, on line 1")],
    );
    finds(
        &goal("a::mystery == a::enigma"),
        &[
            ("mystery", "cannot be determined"),
            ("enigma", "cannot be determined"),
        ],
    );
    finds(&goal("(a::x == a::y) && (a::y == 1)"), &[]);
    finds(
        &goal("(a::x == a::y) && (a::y == a::z) && (a::z == \"s\")"),
        &[],
    );
    finds(&goal("false"), &[("false", "never met")]);
}

#[test]
fn declared_fields_keep_their_type() {
    let mut vocabulary = Vocabulary::default();
    vocabulary.declare("kind", Type::Numeric).unwrap();
    let known = vocabulary.clone();
    let report = compile(
        &goal("(a::kind == \"I\") && (a::other == 1)"),
        &mut vocabulary,
    )
    .unwrap_err();
    assert!(
        report.to_string().contains("'kind' is declared numeric"),
        "{report}"
    );
    assert_eq!(vocabulary, known, "a text with errors adds no field");
    assert!(compile(&goal("a::kind == a::other"), &mut vocabulary).is_ok());
    assert_eq!(vocabulary.fields()[1].value, Type::Numeric);
}

#[test]
fn precedence_that_the_tables_read_differently() {
    finds(
        &goal("a::length == 1 && a::x == 2"),
        &[("&&", "needs parentheses"), ("==", "needs parentheses")],
    );
    finds(&goal("true || true && true"), &[("&&", "'… || (… && …)'")]);
    finds(&goal("true && true || true"), &[]);
    finds(&goal("a::length + 1 < 2 * 3"), &[]);
    finds(&goal("(a::x == 1) && (a::y == 2) || (a::z == 3)"), &[]);
}

#[test]
fn slips_of_other_languages() {
    finds(&goal("a::length = 1"), &[("=", "'=='")]);
    finds(&goal("(a::length < 1) & (a::length < 2)"), &[("&", "'&&'")]);
    finds(
        &goal("a::kind == 'I'"),
        &[("'I'", "straight quotation marks")],
    );
    finds(
        &goal("a::kind == “I”"),
        &[("“I”", "straight quotation marks")],
    );
    finds("objectiv { }", &[("objectiv", "did you mean 'objective'?")]);
    finds("objective", &[("", "expected '{'")]);
    finds("", &[]);
}

#[test]
fn filters() {
    finds(
        &filter("prob(lost?) < 1"),
        &[
            ("prob(lost?)", "the left side"),
            ("lost?", "before a slot is chosen"),
        ],
    );
    finds(&filter("3 == stream_id"), &[("3", "the left side")]);
    finds(
        &filter("stream_seq == o::stream_seq + o::length"),
        &[("o::stream_seq + o::length", "the right side")],
    );
    finds(&filter("stream_seq == o::stream_seq"), &[]);
    finds(
        &filter("!((stream_seq != -1) || (length <= o::length / 2))"),
        &[],
    );
    finds(&filter("urgent"), &[("urgent", "urgent == true")]);
    finds(
        &filter("false"),
        &[("false", "or is 'true'"), ("false", "no ADU passes")],
    );
    finds(
        &filter("stream_seq == a::stream_seq"),
        &[("a", "bound here")],
    );
    finds(
        &filter("(stream_id == 1) && (stream_id == 2)"),
        &[("(stream_id == 1) && (stream_id == 2)", "no ADU passes")],
    );
    finds(
        &filter("steam_id == 1"),
        &[("steam_id", "did you mean 'stream_id'?")],
    );
    finds(
        "objective { context { stream:s { stream_id < 3 } } goal { true } utility { s { 1 } } }",
        &[("stream_id < 3", "stream_id == 3")],
    );
    finds(
        "objective { context { adu:a { true } adu:b { true } } goal { true } utility { a { 1 } } }",
        &[("b", "not used")],
    );
}

#[test]
fn extensions_need_the_version_line() {
    let version = |text: &str| report(&format!("hose 2 {text}"));
    for text in [
        goal("a::length < 0.5"),
        goal("cost(a) < 1"),
        goal("jitter(a::latency) < 1"),
        goal("prob(a::late?) < 1"),
        goal("a::channel::metered"),
        filter("length * 2 < o::length + length"),
        "field x: numeric".to_owned(),
        "rate { context { stream:s { stream_id == 3 } } at_least { 1 } probability { 95 } }"
            .to_owned(),
        goal("true").replace("objective", "objective named"),
    ] {
        let published = report(&text);
        assert!(published.has_errors(), "{text}");
        assert!(published.to_string().contains("hose 2"), "{published}");
        assert!(!version(&text).has_errors(), "{}", version(&text));
    }
    finds("hose 3", &[("3", "1 (the published language) or 2")]);
    finds("hose 1 field x: numeric", &[("field", "an extension")]);
    // In the published language these are fields of the application.
    finds(&goal("(a::deadline < 3) && (a::cost < 3)"), &[]);
}

#[test]
fn rates() {
    let rate = |clauses: &str| {
        format!("hose 2 rate {{ context {{ stream:s {{ stream_id == 3 }} }} {clauses} }}")
    };
    finds(
        &rate("at_least { 1000 } probability { 95 } window { 2000 }"),
        &[],
    );
    finds(&rate("at_least { 1000 } late { 2 } packet { 1200 }"), &[]);
    finds(
        &rate("at_least { 1000 } probability { 100 }"),
        &[("100", "0.001 to 99.999 percent")],
    );
    finds(
        &rate("at_last { 1000 } probability { 9 }"),
        &[("at_last", "did you mean 'at_least'?")],
    );
    finds(
        &rate("at_least { 1000 } at_least { 1000 } late { 1 }"),
        &[("at_least", "twice")],
    );
    finds(
        &rate("at_least { 1000 } late { 1 }"),
        &[("late", "either a probability")],
    );
    finds(
        &rate("at_least { s::latency_ave } probability { 9 }"),
        &[("s", "no variable")],
    );
    finds(
        &rate("at_least { 1 / 0 } probability { 9 }"),
        &[("1 / 0", "must be a constant")],
    );
}

#[test]
fn several_errors_of_a_text_are_found() {
    let text = "
objective { context { adu:a { stream_id == } } goal { a::length < } utility { a { 1 } } }
objective { context { adu:a { true } } goal { b::length < 1 } utility { a { c::length + true } } }
objective { context { adu:a { true } goal { true } utility { a { 1 } } }
objective { goal { true } }
objective { context { adu:a { true } } goal { 1 } utility { a { 1 } } }
";
    let report = report(text);
    let lines: Vec<u32> = report
        .diagnostics()
        .iter()
        .map(|diagnostic| report.position(diagnostic).line)
        .collect();
    assert_eq!(lines, [2, 2, 3, 3, 3, 4, 5, 5, 6], "{report}");
}

#[test]
fn bounds() {
    let deep = |depth: usize| goal(&format!("{}true{}", "(".repeat(depth), ")".repeat(depth)));
    assert!(!report(&deep(150)).has_errors());
    assert!(
        report(&deep(100_000))
            .to_string()
            .contains("operators deep")
    );
    let chain = |terms: usize| goal(&format!("{} < 1", vec!["1"; terms].join(" + ")));
    assert!(!report(&chain(190)).has_errors());
    assert!(
        report(&chain(100_000))
            .to_string()
            .contains("operators deep")
    );
    for sign in ["!", "-"] {
        let text = goal(&format!("{}1 < 2", sign.repeat(100_000)));
        assert!(report(&text).to_string().contains("operators deep"));
    }
    assert!(
        report(&goal("1 < 9007199254740992"))
            .to_string()
            .contains("2^53")
    );
    assert!(
        report(&" ".repeat(2 << 20))
            .to_string()
            .contains("at most 1048576 bytes")
    );
    assert!(
        report(&goal(&format!("a::{} < 1", "x".repeat(65))))
            .to_string()
            .contains("at most 64")
    );
    let many = goal("b::x < 1").repeat(1000);
    let report = report(&many);
    assert_eq!((report.diagnostics().len(), report.errors()), (50, 1000));
    assert!(report.to_string().ends_with("and 950 more\n"));
    let variables: String = (0..9).map(|n| format!("adu:v{n} {{ true }}")).collect();
    let text = format!(
        "objective {{ context {{ {variables} }} goal {{ true }} utility {{ v0 {{ 1 }} }} }}"
    );
    assert!(
        self::report(&text)
            .to_string()
            .contains("at most 16 variables, 8 of them ADUs")
    );
}

#[test]
fn warnings_are_no_errors() {
    let compiled = compile(&filter("steam_id == 1"), &mut Vocabulary::default()).unwrap();
    assert_eq!(
        compiled.warnings.diagnostics()[0].severity,
        Severity::Warning
    );
    assert!(compiled.warnings.to_string().starts_with("warning: "));
}

#[test]
fn streams_are_bound_by_number_or_label() {
    let stream = |version: &str, filter: &str, goal: &str| {
        format!(
            "{version} objective {{ context {{ stream:s {{ {filter} }} }} goal {{ {goal} }} utility {{ s {{ 1 }} }} }}"
        )
    };
    let label = r#"label == "video""#;
    finds(&stream("hose 2", label, "s::loss_rate < 5"), &[]);
    finds(
        &stream("", label, "s::loss_rate < 5"),
        &[("label", "begin the text with the line 'hose 2'")],
    );
    for filter in [
        r#"label != "video""#,
        "label == 3",
        r#"(label == "video") || (stream_id == 3)"#,
        "stream_id == 1.5",
    ] {
        let text = stream("hose 2", filter, "s::loss_rate < 5");
        let words = r#"stream_id == 3 }' or 'stream:s { label == "video" }'"#;
        let report = report(&text);
        assert_eq!(report.errors(), 1, "{report}");
        let help = report.diagnostics()[0].help.clone().unwrap();
        assert!(help.contains(words), "{report}");
    }
    finds(
        &stream("hose 2", label, "true")
            .replace("utility { s { 1 } }", "utility { s { s::labl } }"),
        &[("labl", "streams have no field")],
    );
    let filtered = r#"hose 2 objective { context { stream:s { label == "v" } adu:a { length > s::loss_rate } }
        goal { true } utility { a { 1 } } }"#;
    finds(
        filtered,
        &[(
            "s::loss_rate",
            "bound by its label, so no filter can use it",
        )],
    );
    let five: String = (0..5)
        .map(|number| format!(r#"stream:s{number} {{ label == "v" }} "#))
        .collect();
    let text = format!(
        "hose 2 objective {{ context {{ {five} }} goal {{ true }} utility {{ s0 {{ 1 }} }} }}"
    );
    assert!(
        report(&text)
            .to_string()
            .contains("at most 4 streams by label")
    );
    let unused = r#"hose 2 objective { context { adu:a { true } stream:s { label == "v" } }
        goal { true } utility { a { 1 } } }"#;
    finds(
        unused,
        &[("s", "counts once for each stream with this label")],
    );
}

#[test]
fn a_rate_applies_to_a_stream_or_a_label() {
    let rate = |context: &str| {
        format!(
            "hose 2 rate {{ context {{ {context} }} at_least {{ 1000 }} probability {{ 95 }} }}"
        )
    };
    finds(&rate(r#"stream:s { label == "video" }"#), &[]);
    let text = rate("adu:a { true }");
    assert!(
        report(&text)
            .to_string()
            .contains("exactly one stream variable")
    );
}
