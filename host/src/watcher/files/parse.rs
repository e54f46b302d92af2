//! From text to JSON documents.
//!
//! YAML is YAML 1.2 core: `yes`, `on` and `off` are strings, `0755` and `1_000` too, because the
//! meaning that YAML 1.1 gives them is rarely what the author wants, and where a bool or a number is
//! wanted, a string is refused with a clear message instead of being taken for something else.
//! Duplicate keys are errors, in JSON as well. Aliases and merge keys work, within limits.
//!
//! The parser is `serde-saphyr`: it knows lines, many documents, and limits for what aliases
//! may expand to in nodes. The limit in bytes is kept here.

use super::MAX_FILE_BYTES;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::cell::Cell;
use std::fmt;
use std::path::Path;

/// Deepest nesting of YAML, so that the parser cannot overflow a thread's stack. JSON has the limit of
/// `serde_json`, 128.
const MAX_DEPTH: usize = 64;

/// Bytes that the values of one file may have after aliases are expanded: what a file without
/// aliases can reach, and as much again.
const MAX_EXPANDED_BYTES: u64 = 2 * MAX_FILE_BYTES;

/// Most nodes of one file: more than a file of [`MAX_FILE_BYTES`] can be made of in earnest.
const MAX_NODES: usize = 4_000_000;

/// One document of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Where it begins, from 1.
    pub line: usize,
    /// The document.
    pub value: Value,
}

/// Why a file does not parse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where, from 1, if known.
    pub line: Option<usize>,
    /// Why.
    pub reason: String,
}

/// Parses a file: `*.json` as JSON documents one after the other, all else as YAML. Documents that
/// are empty are left out.
pub fn documents(path: &Path, bytes: &[u8]) -> Result<Vec<Document>, Fault> {
    let text = std::str::from_utf8(bytes).map_err(|error| Fault {
        line: Some(line_at(bytes, error.valid_up_to())),
        reason: "is not UTF-8".to_owned(),
    })?;
    EXPANDED.set(0);
    let is_json = path
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    if is_json {
        json(text.trim_start_matches('\u{feff}'))
    } else {
        yaml(text)
    }
}

fn json(text: &str) -> Result<Vec<Document>, Fault> {
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Strict>();
    let mut documents = Vec::new();
    loop {
        let before = stream.byte_offset();
        let blank = text.get(before..).map_or(0, |rest| {
            rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len()
        });
        let line = line_at(text.as_bytes(), before + blank);
        match stream.next() {
            None => return Ok(documents),
            Some(Ok(Strict(Value::Null))) => {}
            Some(Ok(Strict(value))) => documents.push(Document { line, value }),
            Some(Err(error)) => {
                return Err(Fault {
                    line: (error.line() > 0).then_some(error.line()),
                    reason: without_place(&error.to_string()),
                });
            }
        }
    }
}

fn yaml(text: &str) -> Result<Vec<Document>, Fault> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            max_events: 2 * MAX_NODES,
            max_nodes: MAX_NODES,
            max_documents: MAX_NODES,
        },
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::Error,
        strict_booleans: true,
        leading_zero_numbers_as_strings: true,
        underscored_numbers_as_strings: true,
        with_snippet: false,
    };
    let documents: Vec<serde_saphyr::Spanned<Strict>> =
        serde_saphyr::from_str_multiple_with_options(text, options).map_err(|error| Fault {
            line: error
                .location()
                .and_then(|place| usize::try_from(place.line()).ok())
                .filter(|line| *line > 0),
            reason: yaml_reason(&error.to_string()),
        })?;
    Ok(documents
        .into_iter()
        .map(|document| Document {
            line: usize::try_from(document.defined.line()).unwrap_or(1).max(1),
            value: document.value.0,
        })
        .filter(|document| !document.value.is_null())
        .collect())
}

/// What the parser says, without advice for programmers.
fn yaml_reason(message: &str) -> String {
    let reason = without_place(message);
    if let Some(rest) = reason.strip_prefix("duplicate mapping key: ") {
        let key = rest.rsplit_once(", set ").map_or(rest, |(key, _)| key);
        return format!("the key {key} stands twice in one mapping");
    }
    if let Some(limit) = reason.strip_prefix("budget breached: ") {
        let limit = limit.split([' ', '{', '(']).next().unwrap_or_default();
        return format!("it is too large or deep, or has too many aliases ({limit})");
    }
    reason
}

/// The message without the place that parsers put into it: it is said apart.
fn without_place(message: &str) -> String {
    let first = message.lines().next().unwrap_or_default();
    let cut = [" at line ", "error: "].iter().fold(first, |text, mark| {
        match (*mark, text.split_once(mark)) {
            ("error: ", Some(("", rest))) => rest,
            (" at line ", Some((before, _))) => before,
            _ => text,
        }
    });
    super::problem::printable(cut)
}

fn line_at(bytes: &[u8], offset: usize) -> usize {
    1 + bytes
        .iter()
        .take(offset)
        .filter(|byte| **byte == b'\n')
        .count()
}

thread_local! {
    /// Bytes of the values of the file that this thread is parsing. `Deserialize` can carry no
    /// state, and the parser counts what stands in the text, not what aliases repeat.
    static EXPANDED: Cell<u64> = const { Cell::new(0) };
}

fn count<E: serde::de::Error>(bytes: usize) -> Result<(), E> {
    let all = EXPANDED.get().saturating_add(bytes as u64);
    EXPANDED.set(all);
    if all > MAX_EXPANDED_BYTES {
        return Err(E::custom("aliases make the file expand beyond 32 MiB"));
    }
    Ok(())
}

/// A JSON value in which no key stands twice.
#[derive(Debug)]
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Self)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value that JSON can hold")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom("infinity and NaN cannot stand in an object"))
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Value, E> {
        count::<E>(value.len())?;
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E: serde::de::Error>(self, value: String) -> Result<Value, E> {
        count::<E>(value.len())?;
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Strict(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            count::<A::Error>(key.len())?;
            let Strict(value) = entries.next_value()?;
            if map.contains_key(&key) {
                return Err(A::Error::custom(format!("the key {key:?} stands twice")));
            }
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::format_push_string,
        clippy::format_collect
    )]
    use super::*;
    use serde_json::json;

    fn parse(text: &str) -> Result<Vec<Document>, Fault> {
        documents(Path::new("a.yaml"), text.as_bytes())
    }

    fn parse_json(text: &str) -> Result<Vec<Document>, Fault> {
        documents(Path::new("a.JSON"), text.as_bytes())
    }

    fn value(text: &str) -> Value {
        let mut all = parse(text).expect("it parses");
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0).value
    }

    #[test]
    fn documents_have_lines() {
        let all = parse("# first\na: 1\n---\n---\n\n# third\nb: 2\n...\n---\nc: 3\n").unwrap();
        let lines: Vec<_> = all.iter().map(|document| document.line).collect();
        assert_eq!(lines, [2, 7, 10]);
    }

    #[test]
    fn json_documents_have_lines() {
        let all = parse_json("\u{feff}{\"a\":1}\n\n{\"b\":\n2} {\"c\":3}").unwrap();
        let lines: Vec<_> = all.iter().map(|document| document.line).collect();
        assert_eq!(lines, [1, 3, 4]);
    }

    #[test]
    fn nothing_but_comments_is_no_document() {
        assert_eq!(parse("# a\n\n---\n# b\n").unwrap(), []);
        assert_eq!(parse("").unwrap(), []);
    }

    #[test]
    fn words_of_yaml_1_1_are_strings() {
        assert_eq!(
            value("[yes, on, off, n, 0755, 1_000, 12:30:45, true, 7, 1.5, ~]"),
            json!([
                "yes", "on", "off", "n", "0755", "1_000", "12:30:45", true, 7, 1.5, null
            ])
        );
    }

    #[test]
    fn faults_have_lines() {
        let fault = parse("a: 1\nb: [1, 2\nc: 3\n").unwrap_err();
        assert!(matches!(fault.line, Some(2..=4)), "{fault:?}");
        let fault = parse("a: 1\n---\nb: 1\nb: 2\n").unwrap_err();
        assert_eq!(fault.line, Some(4), "{fault:?}");
        assert!(!fault.reason.contains("line"), "{fault:?}");
        let fault = parse("a: 1\nb: \"x\n").unwrap_err();
        assert!(fault.line.is_some(), "{fault:?}");
        let fault = documents(Path::new("a.yaml"), b"a: 1\nb: \xff\n").unwrap_err();
        assert_eq!(fault.line, Some(2));
        let fault = parse_json("{\n\"a\": 1,\n\"a\": 2}").unwrap_err();
        assert_eq!(fault.line, Some(3), "{fault:?}");
        assert!(fault.reason.contains("\"a\""), "{fault:?}");
        let fault = parse_json("{\n\"a\": }").unwrap_err();
        assert_eq!(fault.line, Some(2));
        assert!(!fault.reason.contains("line"), "{fault:?}");
    }

    #[test]
    fn faults_are_said_to_authors_of_manifests() {
        let fault = parse("a: 1\na: 2\n").unwrap_err();
        assert_eq!(fault.reason, "the key a stands twice in one mapping");
        let many = format!("a: &x 1\nb: [{}]\n", "*x, ".repeat(9_999));
        let fault = parse(&many).unwrap_err();
        assert!(fault.reason.contains("too many aliases"), "{fault:?}");
        assert!(!fault.reason.contains('{'), "{fault:?}");
    }

    #[test]
    fn aliases_and_merges_work() {
        assert_eq!(
            value("a: &x {b: 1}\nc: *x\nd:\n  <<: *x\n  e: 2\n"),
            json!({"a": {"b": 1}, "c": {"b": 1}, "d": {"b": 1, "e": 2}})
        );
    }

    #[test]
    fn alias_bombs_are_refused() {
        let mut laughs = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..12 {
            let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
            laughs += &format!("a{level}: &a{level} [{aliases}]\n");
        }
        parse(&laughs).unwrap_err();

        let mut large = format!("a: &a \"{}\"\nb:\n", "x".repeat(1 << 20));
        large += &"- *a\n".repeat(90);
        let fault = parse(&large).unwrap_err();
        assert!(fault.reason.contains("32 MiB"), "{fault:?}");
    }

    #[test]
    fn deep_nesting_is_refused_and_does_not_overflow() {
        let depth = 100_000;
        parse(&format!("{}{}", "[".repeat(depth), "]".repeat(depth))).unwrap_err();
        parse_json(&format!("{}{}", "[".repeat(depth), "]".repeat(depth))).unwrap_err();
        let block: String = (0..500).map(|i| format!("{}a:\n", " ".repeat(i))).collect();
        parse(&block).unwrap_err();
    }

    #[test]
    fn large_files_are_within_the_limits() {
        let one = "a: 1\nb: [x, y, z]\n---\n";
        let text = one.repeat(50_000);
        assert_eq!(parse(&text).unwrap().len(), 50_000);
    }

    #[test]
    fn what_json_cannot_hold_is_refused() {
        parse("a: .nan").unwrap_err();
        parse("a: .inf").unwrap_err();
        assert_eq!(value("1: a"), json!({"1": "a"}));
    }
}
