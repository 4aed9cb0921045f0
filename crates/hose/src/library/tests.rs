use super::*;
use crate::{Objectives, Shape, compile, evaluate::Limits, symbol};

fn refused(text: &str) -> String {
    compile(text, &mut Vocabulary::default())
        .unwrap_err()
        .render("list")
}

fn names(text: &str) -> Vec<String> {
    let compiled = compile(text, &mut Vocabulary::default()).unwrap();
    assert_eq!(compiled.warnings.warnings(), 0, "{}", compiled.warnings);
    let names = compiled.program.objectives.iter();
    names
        .map(|objective| objective.name().unwrap().to_owned())
        .collect()
}

/// A call with an argument that every parameter accepts.
fn example(named: &Named) -> String {
    let arguments = named
        .parameters
        .iter()
        .map(|parameter| match parameter.kind {
            Kind::Label => "\"voice\"",
            Kind::Milliseconds => "150",
            Kind::Field => "group",
            Kind::FieldType => "string",
        });
    let arguments: Vec<&str> = arguments.collect();
    format!("{}({})", named.name, arguments.join(", "))
}

#[test]
fn every_one_stands_for_objectives_in_standard_layout() {
    let mut names_of_all = NAMED.map(|one| one.name);
    assert!(names_of_all.is_sorted());
    names_of_all.sort_unstable();
    for named in &NAMED {
        let text = expand(&example(named), &Vocabulary::default()).unwrap();
        assert!(!text.contains('$'), "{text}");
        assert_eq!(crate::format(&text).unwrap(), text);
        assert!(
            names(&example(named)).contains(&named.name.to_owned()),
            "{}",
            named.name
        );
    }
}

#[test]
fn a_list_is_read_with_or_without_quotation_marks_and_comments() {
    let one = names("low_latency(\"voice up\", 150.5); avoid_metered");
    assert_eq!(one, ["low_latency", "avoid_metered"]);
    let lines = "// Of the clinic.\nlow_latency(voice, 150)\navoid_metered()\n\nnewest_first ( position ) ;\n";
    assert_eq!(
        names(lines),
        ["low_latency", "avoid_metered", "newest_first"]
    );
    let twice =
        names("keep_whole(a, group); keep_whole(b, group); low_latency(a, 1); low_latency(a, 2)");
    let expected = [
        "in_time",
        "keep_whole",
        "in_time_2",
        "keep_whole_2",
        "low_latency",
        "low_latency_2",
    ];
    assert_eq!(twice, expected);
    for text in [
        "hose 2\nobjective a { }",
        "objective\n{",
        "objectve foo { }",
        "rate x { }",
        "",
        "// a",
        "5",
        "7(3)",
    ] {
        assert!(!is_named(text), "{text}");
    }
}

#[test]
fn what_is_wrong_is_told_with_its_place_and_what_is_accepted() {
    let unknown = refused("low_latncy(voice, 150)");
    assert!(
        unknown.contains("list:1:1") && unknown.contains("did you mean 'low_latency(label, ms)'?"),
        "{unknown}"
    );
    let none = refused("cheap(voice)");
    assert!(
        none.contains("there are avoid_metered, keep_whole, low_latency"),
        "{none}"
    );
    for (text, message, help) in [
        (
            "low_latency(voice, soon)",
            "'soon' is no ms of low_latency",
            "a number of milliseconds, above 0",
        ),
        ("low_latency(voice, 0)", "'0' is no ms", "above 0"),
        (
            "low_latency(voice, 1e9)",
            "'1e9' is no ms",
            "at most 3600000",
        ),
        (
            "low_latency(voice)",
            "low_latency has 2 parameters, not 1",
            "write low_latency(label, ms)",
        ),
        (
            "avoid_metered(wwan0)",
            "avoid_metered has no parameters, not 1",
            "write avoid_metered",
        ),
        (
            "newest_first(a, b)",
            "newest_first has one parameter, not 2",
            "write newest_first(label)",
        ),
        (
            "keep_whole(video)",
            "keep_whole has 2 or 3 parameters, not 1",
            "keep_whole(label, field, [type])",
        ),
        (
            "keep_whole(video, 3-4)",
            "'3-4' is no field",
            "a header field",
        ),
        (
            "keep_whole(video, goal)",
            "'goal' is no field",
            "a header field",
        ),
        (
            "keep_whole(video, group, text)",
            "'text' is no type",
            "numeric, string or boolean",
        ),
        (
            "uncorrelated(\"a\\b\")",
            "is no label",
            "without quotation marks",
        ),
        (
            "uncorrelated(\"a",
            "the string does not end",
            "in the same line",
        ),
        (
            "uncorrelated(a b)",
            "expected ',' or ')'",
            "separate arguments",
        ),
        ("uncorrelated(,)", "expected an argument", "write a word"),
        (
            "avoid_metered; 'x'",
            "expected the name of an objective",
            "separated by ';'",
        ),
        (
            "avoid_metered; hose 2",
            "objectives cannot follow",
            "in a file of their own",
        ),
    ] {
        let report = refused(text);
        assert!(
            report.contains(message) && report.contains(help),
            "{text}: {report}"
        );
    }
    let again = refused("newest_first(a); newest_first(\"a\")");
    assert!(again.contains("newest_first stands here twice"), "{again}");
    let dollars = expand("low_latency(\"$ms$label$\", 7)", &Vocabulary::default()).unwrap();
    assert!(
        dollars.contains("label == \"$ms$label$\"") && dollars.contains("< 7 }"),
        "{dollars}"
    );
    let both = refused("low_latncy(voice, 150); newest_first(); uncorrelated(x)");
    assert!(
        both.contains("low_latncy") && both.contains("list:1:25"),
        "{both}"
    );
    assert!(refused(&"avoid_metered;".repeat(65)).contains("there are 65 names"));
}

#[test]
fn a_field_keeps_the_type_that_it_has() {
    let mut vocabulary = Vocabulary::default();
    vocabulary.declare("group", Type::String).unwrap();
    let mut objectives = Objectives::new(Limits::default(), vocabulary.clone());
    objectives.inject("keep_whole(video, group)").unwrap();
    assert!(objectives.are_combinatorial());
    let shapes: Vec<Shape> = objectives
        .iter()
        .map(|(_, objective)| objective.shape())
        .collect();
    assert_eq!(shapes, [Shape::Single, Shape::Combinatorial]);
    // Without a declaration, it is numeric.
    assert!(
        expand("keep_whole(video, group)", &Vocabulary::default())
            .unwrap()
            .contains("field group: numeric")
    );
    // A declared type that is another is refused, with the text that the name stands for.
    let report = compile("keep_whole(video, group, boolean)", &mut vocabulary).unwrap_err();
    assert!(report.to_string().contains("group"), "{report}");
    assert_ne!(symbol("video"), symbol("group"));
}

#[test]
fn names_are_left_as_they_are_by_the_formatter() {
    let list = "low_latency(voice, 150)\n";
    assert_eq!(crate::format(list).unwrap(), list);
    assert!(crate::format("low_latncy(voice, 150)").is_err());
}
