//! Whether RE2, the engine of Envoy, takes a regular expression, and what it costs there.
//!
//! The engine itself is not at hand in a reconciler, so this accepts what is sure to be good: the
//! syntax that RE2 and the Rust crate `regex-syntax` share. Where the two differ (`[a&&b]`, `\u1234`,
//! the flag `x`, `\<`) the expression is refused, also if one of them would take it. Look-around and
//! back-references are in neither.
//!
//! Envoy 1.40 compiles expressions as Latin-1 and matches bytes: `é` is two characters there, and
//! `[é]` takes either byte. So only ASCII is accepted, written out or as `\x`, and no class of
//! Unicode. (Paths and query parameters come percent-encoded and are matched as they come.)
//!
//! The size of the compiled program is estimated from above. An expression over
//! [`MAX_PROGRAM_SIZE`] is refused, so a proxy whose own limit is that high or higher refuses none.

use super::Verdict;
use regex_syntax::ast::parse::ParserBuilder;
use regex_syntax::ast::{
    Assertion, AssertionKind, Ast, ClassBracketed, ClassSet, ClassSetItem, Flag, Flags,
    FlagsItemKind, GroupKind, HexLiteralKind, Literal, LiteralKind, Repetition, RepetitionKind,
    RepetitionRange,
};

/// Largest estimate of RE2 instructions that is accepted. Envoy's own limit, the runtime key
/// `re2.max_program_size.error_level`, has to be at least this plus what is put around an
/// expression (a path prefix), and its default, 100, is far below.
pub const MAX_PROGRAM_SIZE: u64 = 5_000;

/// Longest expression, in bytes.
const MAX_LENGTH: usize = 4096;
/// Deepest nesting.
const MAX_NESTING: u32 = 64;
/// Largest number of repetitions, nested ones multiplied (RE2: `kMaxRepeat`).
const MAX_REPEAT: u64 = 1_000;
const NO_UNICODE: &str = "classes of Unicode (`\\p`) are not known: the proxy matches bytes";
/// Instructions for any one byte, or for all but some.
const ANY: u64 = 8;
/// Instructions for a character or a range of a class, without regard to case.
const CLASS_ITEM: u64 = 4;
/// Instructions for a named class (`\w`, `[:alpha:]`).
const NAMED_CLASS: u64 = 10;

/// Whether a proxy takes the expression.
pub fn check(expression: &str) -> Verdict {
    if expression.is_empty() {
        return Err("must not be empty".into());
    }
    if !expression.is_ascii() {
        return Err("must have ASCII characters only: percent-encode others".into());
    }
    if expression.len() > MAX_LENGTH {
        return Err(format!("must have at most {MAX_LENGTH} bytes"));
    }
    let size = program_size(expression)
        .map_err(|why| format!("is not a regular expression of RE2: {why}"))?;
    if size > MAX_PROGRAM_SIZE {
        return Err(format!(
            "is too large: about {size} instructions of at most {MAX_PROGRAM_SIZE}; use smaller \
             repetitions or narrower classes"
        ));
    }
    Ok(())
}

/// An upper bound of the RE2 instructions of an expression.
fn program_size(expression: &str) -> Result<u64, String> {
    let ast = ParserBuilder::new()
        .nest_limit(MAX_NESTING)
        .build()
        .parse(expression)
        .map_err(|error| error.kind().to_string())?;
    // A few instructions of every program: anchors, match, failure.
    Ok(measure(&ast, 1)?.saturating_add(8))
}

/// The size of a part that stands under repetitions whose product is `repeated`.
fn measure(ast: &Ast, repeated: u64) -> Result<u64, String> {
    match ast {
        Ast::Empty(_) => Ok(1),
        Ast::Dot(_) => Ok(ANY),
        Ast::Flags(set) => flags(&set.flags).map(|()| 1),
        Ast::Literal(one) => literal(one),
        Ast::Assertion(assertion) => self::assertion(assertion),
        Ast::ClassUnicode(_) => Err(NO_UNICODE.into()),
        Ast::ClassPerl(_) => Ok(NAMED_CLASS),
        Ast::ClassBracketed(class) => bracketed(class),
        Ast::Repetition(repetition) => self::repetition(repetition, repeated),
        Ast::Group(group) => {
            match &group.kind {
                GroupKind::CaptureIndex(_) => {}
                GroupKind::CaptureName { name, .. } => capture_name(&name.name)?,
                GroupKind::NonCapturing(set) => flags(set)?,
            }
            Ok(measure(&group.ast, repeated)?.saturating_add(2))
        }
        Ast::Alternation(alternation) => sum(&alternation.asts, repeated, 1),
        Ast::Concat(concat) => sum(&concat.asts, repeated, 0),
    }
}

fn sum(parts: &[Ast], repeated: u64, each: u64) -> Result<u64, String> {
    parts.iter().try_fold(0_u64, |total, part| {
        Ok(total.saturating_add(measure(part, repeated)?.saturating_add(each)))
    })
}

fn repetition(repetition: &Repetition, repeated: u64) -> Result<u64, String> {
    if matches!(*repetition.ast, Ast::Repetition(_)) {
        return Err("two repetition operators in a row: put the first in a group".into());
    }
    let (times, extra) = match &repetition.op.kind {
        RepetitionKind::Range(RepetitionRange::AtLeast(n)) => (*n, 1),
        RepetitionKind::Range(RepetitionRange::Exactly(n) | RepetitionRange::Bounded(_, n)) => {
            (*n, 0)
        }
        _ => (1, 0),
    };
    let product = repeated.saturating_mul(u64::from(times.max(1)));
    if product > MAX_REPEAT {
        return Err(format!("more than {MAX_REPEAT} repetitions"));
    }
    let one = measure(&repetition.ast, product)?.saturating_add(2);
    Ok(one.saturating_mul(u64::from(times.saturating_add(extra).max(1))))
}

fn literal(literal: &Literal) -> Result<u64, String> {
    match literal.kind {
        LiteralKind::HexFixed(HexLiteralKind::UnicodeShort | HexLiteralKind::UnicodeLong)
        | LiteralKind::HexBrace(HexLiteralKind::UnicodeShort | HexLiteralKind::UnicodeLong) => {
            Err("`\\u` is not known: use `\\x`".into())
        }
        LiteralKind::Octal => Err("octal numbers are not known: use `\\x`".into()),
        _ if literal.c.is_ascii() => Ok(1),
        _ => Err("`\\x` may only stand for ASCII".into()),
    }
}

fn assertion(assertion: &Assertion) -> Result<u64, String> {
    match assertion.kind {
        AssertionKind::StartLine
        | AssertionKind::EndLine
        | AssertionKind::StartText
        | AssertionKind::EndText
        | AssertionKind::WordBoundary
        | AssertionKind::NotWordBoundary => Ok(1),
        _ => Err("`\\<`, `\\>` and `\\b{...}` are not known: use `\\b`".into()),
    }
}

fn bracketed(class: &ClassBracketed) -> Result<u64, String> {
    let ClassSet::Item(item) = &class.kind else {
        return Err("`&&`, `--` and `~~` in a class are not known".into());
    };
    let size = class_item(item)?;
    Ok(if class.negated {
        size.saturating_add(ANY)
    } else {
        size
    })
}

fn class_item(item: &ClassSetItem) -> Result<u64, String> {
    match item {
        ClassSetItem::Empty(_) => Ok(1),
        ClassSetItem::Literal(one) => literal(one).map(|_| CLASS_ITEM),
        ClassSetItem::Range(range) => {
            literal(&range.start)?;
            literal(&range.end)?;
            Ok(CLASS_ITEM)
        }
        ClassSetItem::Unicode(_) => Err(NO_UNICODE.into()),
        ClassSetItem::Perl(_) | ClassSetItem::Ascii(_) => Ok(NAMED_CLASS),
        ClassSetItem::Bracketed(_) => Err("a class in a class: escape `[` with `\\`".into()),
        ClassSetItem::Union(union) => union.items.iter().try_fold(0_u64, |total, item| {
            Ok(total.saturating_add(class_item(item)?))
        }),
    }
}

fn flags(flags: &Flags) -> Result<(), String> {
    for item in &flags.items {
        match item.kind {
            FlagsItemKind::Negation
            | FlagsItemKind::Flag(
                Flag::CaseInsensitive | Flag::MultiLine | Flag::DotMatchesNewLine | Flag::SwapGreed,
            ) => {}
            FlagsItemKind::Flag(_) => {
                return Err("an unknown flag: known are i, m, s and U".into());
            }
        }
    }
    Ok(())
}

fn capture_name(name: &str) -> Result<(), String> {
    if name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        Ok(())
    } else {
        Err("a group's name may have letters, digits and `_` only".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_both_engines_know_is_accepted() {
        for good in [
            "/users/[0-9]+",
            "/(a|b|)/c?.*",
            r"/v\d+(\.\d+)*/\w+\b",
            "(?i)abc",
            "(?i:abc)d",
            "(?P<id>[a-z_]+)",
            "[[:alpha:]-]+",
            "[^/]+",
            r"\x41\x{42}[\x43-\x44]",
            "a{3}b{2,}c{1,5}?",
            "^/a$",
            r"\_\-\/\.",
            "[]a]",
            "(a{10}){100}",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
    }

    #[test]
    fn what_re2_refuses_or_reads_otherwise_is_refused() {
        for bad in [
            "",
            "(",
            ")",
            "[a",
            "*a",
            "a**",
            "a{2}{3}",
            "a{1001}",
            "(a{100}){11}",
            "((a{10}){10}){11}",
            "a{2,1}",
            "(?=a)",
            "(?!a)",
            "(?<=a)b",
            r"(a)\1",
            r"\u0041",
            r"\<a",
            r"\b{start}",
            "(?x)a b",
            "[a&&b]",
            "[a[b]]",
            r"\p{Greek}",
            r"[\pL]",
            r"\xe9",
            r"\x{263a}",
            "/grüße",
            r"\Qa\E",
            r"\y",
            "[z-a]",
            "(?P<a>x)(?P<a>y)",
            "(?P<a.b>x)",
            "\\",
        ] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_explodes_is_refused() {
        for bad in [
            "[^a]{1000}".to_owned(),
            "([a-z]{10}){100}".to_owned(),
            "(.{1,100}){10}".to_owned(),
            "a".repeat(4097),
            format!("{}a{}", "(".repeat(100), ")".repeat(100)),
        ] {
            assert!(check(&bad).is_err(), "{bad}");
        }
    }
}
