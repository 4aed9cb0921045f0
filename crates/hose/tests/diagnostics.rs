//! Diagnostics of texts that are wrong: the place, the words, and what would be right.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

use anabranch_hose::{Report, Severity, Type, Vocabulary, compile};

fn report(text: &str) -> Report {
    match compile(text, &mut Vocabulary::default()) {
        Ok(compiled) => compiled.warnings,
        Err(report) => report,
    }
}

/// Exactly these findings, in order: what stands at the place, and words of the message or help.
#[track_caller]
fn says(text: &str, expected: &[(&str, &str)]) {
    let report = report(text);
    let rendered = report.render("x");
    let found = report.diagnostics();
    assert_eq!(found.len(), expected.len(), "{rendered}");
    for (diagnostic, (place, words)) in found.iter().zip(expected) {
        let help = diagnostic.help.clone().unwrap_or_default();
        let said = format!("{}\n{help}", diagnostic.message);
        assert_eq!(diagnostic.span.of(text), *place, "{rendered}");
        assert!(said.contains(words), "'{words}' is missing in: {rendered}");
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
    says(
        &goal("a::latency < 100"),
        &[("a::latency", "expected(a::latency)")],
    );
    says(&goal("a::lost? < 10"), &[("a::lost?", "prob(a::lost?)")]);
    says(&goal("a::lost?"), &[("a::lost?", "in percent")]);
    says(
        &goal("a::lost? == true"),
        &[("a::lost?", "cannot be compared")],
    );
    says(
        &goal("a::latency == a::latency"),
        &[("a::latency", "expected(a::latency)")],
    );
    says(
        &goal("expected(a::lost?) < 1"),
        &[("a::lost?", "expected(a::latency)")],
    );
    says(
        &goal("prob(a::length) < 1"),
        &[("a::length", "prob(a::lost?)")],
    );
}

#[test]
fn names() {
    says(&goal("a < 1"), &[("a", "'a' is an ADU")]);
    says(&goal("length < 1"), &[("length", "'a::length'")]);
    says(&goal("b::length < 1"), &[("b", "did you mean 'a'?")]);
    says(
        &goal("expcted(a::latency) < 1"),
        &[("expcted", "did you mean 'expected'?")],
    );
    says(&goal("min(1) < 1"), &[("min(1)", "min(x, y)")]);
    says(
        &goal("correlated_loss(a, 1) < 1"),
        &[("1", "the name of an ADU variable")],
    );
    says(&goal("a::loss_rate < 1"), &[("loss_rate", "streams have")]);
    says(&goal("a::objective < 1"), &[("objective", "no field")]);
    says(
        "objective { context { stream:s { stream_id == 1 } } goal { s::latency_avg < 1 } utility { s { 1 } } }",
        &[("latency_avg", "did you mean 'latency_ave'?")],
    );
    says(
        "objective { context { adu:a { true } adu:a { true } } goal { true } utility { b { 1 } } }",
        &[("a", "bound already"), ("b", "did you mean 'a'?")],
    );
    says(
        "objective { context { adu:goal { true } } goal { true } utility { goal { 1 } } }",
        &[("goal", "cannot name a variable")],
    );
}

#[test]
fn types() {
    says(&goal("1"), &[("1", "expected boolean, found numeric")]);
    says(
        &goal("a::length + true < 1"),
        &[("true", "expected numeric")],
    );
    says(
        &goal("1 < a::length < 3"),
        &[("1 < a::length", "do not chain")],
    );
    says(
        &goal("\"x\" == 1"),
        &[("\"x\" == 1", "string is compared with numeric")],
    );
    says(
        &goal("\"x\" < \"y\""),
        &[("\"x\"", "expected numeric"), ("\"y\"", "expected numeric")],
    );
    says(
        &goal("(a::kind == \"I\") && (a::kind < 3)"),
        &[("a::kind", "'kind' is string by its first use, on line 1")],
    );
    says(
        &goal("a::mystery == a::enigma"),
        &[("mystery", "cannot be told"), ("enigma", "cannot be told")],
    );
    says(&goal("(a::x == a::y) && (a::y == 1)"), &[]);
    says(
        &goal("(a::x == a::y) && (a::y == a::z) && (a::z == \"s\")"),
        &[],
    );
    says(&goal("false"), &[("false", "never met")]);
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
    says(
        &goal("a::length == 1 && a::x == 2"),
        &[("&&", "needs parentheses"), ("==", "needs parentheses")],
    );
    says(&goal("true || true && true"), &[("&&", "'… || (… && …)'")]);
    says(&goal("true && true || true"), &[]);
    says(&goal("a::length + 1 < 2 * 3"), &[]);
    says(&goal("(a::x == 1) && (a::y == 2) || (a::z == 3)"), &[]);
}

#[test]
fn slips_of_other_languages() {
    says(&goal("a::length = 1"), &[("=", "'=='")]);
    says(&goal("(a::length < 1) & (a::length < 2)"), &[("&", "'&&'")]);
    says(
        &goal("a::kind == 'I'"),
        &[("'I'", "straight quotation marks")],
    );
    says(
        &goal("a::kind == “I”"),
        &[("“I”", "straight quotation marks")],
    );
    says("objectiv { }", &[("objectiv", "did you mean 'objective'?")]);
    says("objective", &[("", "expected '{'")]);
    says("", &[]);
}

#[test]
fn filters() {
    says(
        &filter("prob(lost?) < 1"),
        &[
            ("prob(lost?)", "on the left"),
            ("lost?", "before a slot is chosen"),
        ],
    );
    says(&filter("3 == stream_id"), &[("3", "on the left")]);
    says(
        &filter("stream_seq == o::stream_seq + o::length"),
        &[("o::stream_seq + o::length", "on the right")],
    );
    says(&filter("stream_seq == o::stream_seq"), &[]);
    says(
        &filter("!((stream_seq != -1) || (length <= o::length / 2))"),
        &[],
    );
    says(&filter("urgent"), &[("urgent", "urgent == true")]);
    says(
        &filter("false"),
        &[("false", "or is 'true'"), ("false", "no ADU passes")],
    );
    says(
        &filter("stream_seq == a::stream_seq"),
        &[("a", "bound here")],
    );
    says(
        &filter("(stream_id == 1) && (stream_id == 2)"),
        &[("(stream_id == 1) && (stream_id == 2)", "no ADU passes")],
    );
    says(
        &filter("steam_id == 1"),
        &[("steam_id", "did you mean 'stream_id'?")],
    );
    says(
        "objective { context { stream:s { stream_id < 3 } } goal { true } utility { s { 1 } } }",
        &[("stream_id < 3", "stream_id == 3")],
    );
    says(
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
    says("hose 3", &[("3", "1 (the published language) or 2")]);
    says("hose 1 field x: numeric", &[("field", "an extension")]);
    // In the published language these are fields of the application.
    says(&goal("(a::deadline < 3) && (a::cost < 3)"), &[]);
}

#[test]
fn rates() {
    let rate = |clauses: &str| {
        format!("hose 2 rate {{ context {{ stream:s {{ stream_id == 3 }} }} {clauses} }}")
    };
    says(
        &rate("at_least { 1000 } probability { 95 } window { 2000 }"),
        &[],
    );
    says(&rate("at_least { 1000 } late { 2 } packet { 1200 }"), &[]);
    says(
        &rate("at_least { 1000 } probability { 100 }"),
        &[("100", "0.001 to 99.999 percent")],
    );
    says(
        &rate("at_last { 1000 } probability { 9 }"),
        &[("at_last", "did you mean 'at_least'?")],
    );
    says(
        &rate("at_least { 1000 } at_least { 1000 } late { 1 }"),
        &[("at_least", "twice")],
    );
    says(
        &rate("at_least { 1000 } late { 1 }"),
        &[("late", "in one of two ways")],
    );
    says(
        &rate("at_least { s::latency_ave } probability { 9 }"),
        &[("s", "no variable")],
    );
    says(
        &rate("at_least { 1 / 0 } probability { 9 }"),
        &[("1 / 0", "is a constant")],
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
