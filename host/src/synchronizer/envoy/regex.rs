//! Regular expressions that are put together here. Which ones Envoy takes is said by
//! [`chiton_ir::check::regex`].

use regex_syntax::ast::{AssertionKind, Ast, parse::Parser};

/// The expression for text that is already at the start of something: without `^` and `\A` where
/// they can only be the first thing to match. `/api(?:^/x)` would never match.
pub fn without_start_anchors(expression: &str) -> String {
    let Ok(ast) = Parser::new().parse(expression) else {
        return expression.to_owned();
    };
    let mut spans = Vec::new();
    start_anchors(&ast, &mut spans);
    spans.sort_unstable();
    let mut kept = String::with_capacity(expression.len());
    let mut position = 0;
    for (start, end) in spans {
        kept.push_str(expression.get(position..start).unwrap_or_default());
        position = end;
    }
    kept.push_str(expression.get(position..).unwrap_or_default());
    kept
}

/// The expression that matches just this text.
pub fn escape(text: &str) -> String {
    regex_syntax::escape(text)
}

fn start_anchors(ast: &Ast, spans: &mut Vec<(usize, usize)>) {
    match ast {
        Ast::Assertion(assertion)
            if matches!(
                assertion.kind,
                AssertionKind::StartLine | AssertionKind::StartText
            ) =>
        {
            spans.push((assertion.span.start.offset, assertion.span.end.offset));
        }
        Ast::Group(group) => start_anchors(&group.ast, spans),
        Ast::Alternation(alternation) => {
            for branch in &alternation.asts {
                start_anchors(branch, spans);
            }
        }
        Ast::Concat(concat) => {
            // Flags take no room: what follows them is still the first thing to match.
            let first = concat.asts.iter().find(|ast| !matches!(ast, Ast::Flags(_)));
            if let Some(first) = first {
                start_anchors(first, spans);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_at_the_start_go_and_others_stay() {
        assert_eq!(without_start_anchors("^/a$"), "/a$");
        assert_eq!(without_start_anchors("^/a|(^/b|/c)"), "/a|(/b|/c)");
        assert_eq!(without_start_anchors(r"(?i)\A/a"), "(?i)/a");
        assert_eq!(without_start_anchors("a^b"), "a^b");
        assert_eq!(without_start_anchors("("), "(");
    }
}
