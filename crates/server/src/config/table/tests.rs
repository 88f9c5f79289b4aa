//! Tests of `table`.

use super::*;
use crate::config::check::check;
use crate::config::report::Report;
use crate::config::source::Origin;
use crate::config::yaml::parse;

fn sections() -> Vec<&'static Section> {
    let mut found: Vec<&'static Section> = vec![&ROOT];
    let mut at = 0;
    while let Some(section) = found.get(at).copied() {
        at += 1;
        for field in section.fields() {
            inside(&field.kind, &mut found);
        }
    }
    found
}

fn inside(kind: &'static Kind, found: &mut Vec<&'static Section>) {
    match kind {
        Kind::Section(section) | Kind::One(section) => {
            let known = found.iter().any(|known| core::ptr::eq(*known, *section));
            found.extend((!known).then_some(*section));
        }
        Kind::List(of, _) | Kind::Named(_, of, _) => inside(of, found),
        Kind::Either(kinds) => kinds.iter().for_each(|kind| inside(kind, found)),
        _ => {}
    }
}

// An invalid example in the reference would be misleading.
#[test]
fn every_example_and_default_is_valid() {
    let mut count = 0;
    for field in sections().into_iter().flat_map(Section::fields) {
        let default = match field.absent {
            Absent::Default(value) => Some(value),
            _ => None,
        };
        for text in default.into_iter().chain([field.example]) {
            count += 1;
            let mut report = Report::default();
            let whole = report.sources.add(Origin::Flag(String::new()), text.to_owned());
            let document = parse(text, whole, &mut report).unwrap();
            check(field.name, &document.root, &field.kind, &mut report);
            assert!(!report.has_errors(), "{}: {text}", field.name);
        }
    }
    assert!(count > 150, "{count}");
}

// An algorithm that is added to the library must be added here.
#[test]
fn every_algorithm_can_be_configured() {
    for algorithm in slidegate::Algorithm::ALL {
        let text = match algorithm.parameter() {
            Some(number) => format!("{{{}: {number}}}", algorithm.name()),
            None => algorithm.name().to_owned(),
        };
        let mut report = Report::default();
        let whole = report.sources.add(Origin::Flag(String::new()), text.clone());
        let document = parse(&text, whole, &mut report).unwrap();
        check("algorithm", &document.root, &prelude::ALGORITHM, &mut report);
        assert!(!report.has_errors(), "{text}");
        assert_eq!(read::algorithm(&document.root), Some(algorithm));
    }
}

#[test]
fn names_are_unique() {
    let mut titles: Vec<String> = sections().into_iter().map(Section::title).collect();
    let mut variables: Vec<String> =
        settings().into_iter().map(|(path, _)| variable(&path)).collect();
    for names in [&mut titles, &mut variables] {
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count, "{names:?}");
    }
}
