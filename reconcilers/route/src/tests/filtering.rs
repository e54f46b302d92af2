//! Filters of a rule and of a backend.

use super::*;
use chiton_guest::ir::route::{
    Filter, Header, HeaderChange, Mirror, PathChange, Redirect, Rewrite,
};

fn one_filter(yaml: &str) -> Filter {
    good(&format!("{{filters: [{yaml}]}}")).filters.remove(0)
}

fn header(name: &str, value: &str) -> Header {
    Header {
        name: name.into(),
        value: value.into(),
    }
}

#[test]
fn header_modifiers() {
    let found = one_filter(
        "{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-A, value: '1'}, {name: x-a, value: '2'}], add: [{name: X-B, value: b}], remove: [X-C, x-c]}}",
    );
    let change = HeaderChange {
        set: vec![header("x-a", "1")],
        add: vec![header("x-b", "b")],
        remove: vec!["x-c".into()],
    };
    assert_eq!(found, Filter::RequestHeaders(change));
    let found =
        one_filter("{type: ResponseHeaderModifier, responseHeaderModifier: {remove: [Server]}}");
    let change = HeaderChange {
        remove: vec!["server".into()],
        ..HeaderChange::default()
    };
    assert_eq!(found, Filter::ResponseHeaders(change));
}

#[test]
fn headers_that_may_not_be_modified() {
    for (change, field) in [
        ("{set: [{name: Host, value: a}]}", "set[0].name"),
        ("{set: [{name: ':path', value: a}]}", "set[0].name"),
        ("{add: [{name: 'a b', value: a}]}", "add[0].name"),
        (r#"{add: [{name: a, value: "x\r\ny: z"}]}"#, "add[0].value"),
        (r#"{set: [{name: a, value: "x\ny"}]}"#, "set[0].value"),
        (r#"{set: [{name: a, value: "x\0"}]}"#, "set[0].value"),
        ("{set: [{name: a, value: ''}]}", "set[0].value"),
        ("{remove: [host]}", "remove[0]"),
        ("{remove: ['']}", "remove[0]"),
    ] {
        for direction in ["request", "response"] {
            let upper = if direction == "request" {
                "Request"
            } else {
                "Response"
            };
            let yaml = format!(
                "{{filters: [{{type: {upper}HeaderModifier, {direction}HeaderModifier: {change}}}]}}"
            );
            let (reason, message) = bad(&yaml);
            assert_eq!(reason, "UnsupportedValue", "{yaml}");
            assert!(
                message.contains(&format!("filters[0].{direction}HeaderModifier.{field}: ")),
                "{message}"
            );
        }
    }
}

#[test]
fn redirects() {
    for (yaml, expected) in [
        (
            "{}",
            Redirect {
                status: 302,
                ..Redirect::default()
            },
        ),
        (
            "{scheme: https, hostname: a.com, port: 8443, statusCode: 301}",
            Redirect {
                scheme: Some("https".into()),
                hostname: Some("a.com".into()),
                port: Some(8443),
                path: None,
                status: 301,
            },
        ),
        (
            "{path: {type: ReplaceFullPath, replaceFullPath: /x/}, statusCode: 308}",
            Redirect {
                path: Some(PathChange::Full("/x/".into())),
                status: 308,
                ..Redirect::default()
            },
        ),
        (
            "{path: {type: ReplacePrefixMatch, replacePrefixMatch: /x/}, statusCode: 307}",
            Redirect {
                path: Some(PathChange::Prefix("/x".into())),
                status: 307,
                ..Redirect::default()
            },
        ),
        (
            "{statusCode: 303}",
            Redirect {
                status: 303,
                ..Redirect::default()
            },
        ),
    ] {
        let found = one_filter(&format!(
            "{{type: RequestRedirect, requestRedirect: {yaml}}}"
        ));
        assert_eq!(found, Filter::Redirect(expected), "{yaml}");
    }
}

#[test]
fn rewrites() {
    for (yaml, expected) in [
        (
            "{hostname: a.com}",
            Rewrite {
                hostname: Some("a.com".into()),
                path: None,
            },
        ),
        (
            "{path: {type: ReplaceFullPath, replaceFullPath: /x}}",
            Rewrite {
                hostname: None,
                path: Some(PathChange::Full("/x".into())),
            },
        ),
        (
            "{path: {type: ReplacePrefixMatch, replacePrefixMatch: ''}}",
            Rewrite {
                hostname: None,
                path: Some(PathChange::Prefix("/".into())),
            },
        ),
        (
            "{path: {type: ReplacePrefixMatch, replacePrefixMatch: /}}",
            Rewrite {
                hostname: None,
                path: Some(PathChange::Prefix("/".into())),
            },
        ),
    ] {
        let found = one_filter(&format!("{{type: URLRewrite, urlRewrite: {yaml}}}"));
        assert_eq!(found, Filter::Rewrite(expected), "{yaml}");
    }
}

#[test]
fn redirects_and_rewrites_that_are_not_valid() {
    for (yaml, field) in [
        (
            "{type: RequestRedirect, requestRedirect: {statusCode: 304}}",
            "statusCode",
        ),
        (
            "{type: RequestRedirect, requestRedirect: {port: 0}}",
            "port",
        ),
        (
            "{type: RequestRedirect, requestRedirect: {hostname: '*.a.com'}}",
            "hostname",
        ),
        (
            "{type: RequestRedirect, requestRedirect: {hostname: 10.0.0.1}}",
            "hostname",
        ),
        (
            "{type: URLRewrite, urlRewrite: {hostname: 'a b'}}",
            "hostname",
        ),
        (
            "{type: URLRewrite, urlRewrite: {path: {type: ReplaceFullPath}}}",
            "path",
        ),
        (
            "{type: URLRewrite, urlRewrite: {path: {type: ReplaceFullPath, replaceFullPath: x}}}",
            "path",
        ),
        (
            "{type: URLRewrite, urlRewrite: {path: {type: ReplaceFullPath, replaceFullPath: ''}}}",
            "path",
        ),
        (
            r#"{type: URLRewrite, urlRewrite: {path: {type: ReplaceFullPath, replaceFullPath: "/a\r\nb"}}}"#,
            "path",
        ),
        (
            "{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: x}}}",
            "path",
        ),
        (
            "{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replaceFullPath: /x}}}",
            "path",
        ),
    ] {
        let (reason, message) = bad(&format!("{{filters: [{yaml}]}}"));
        assert_eq!(reason, "UnsupportedValue", "{yaml}");
        assert!(
            message.contains(&format!(".{field}: ")),
            "{yaml}: {message}"
        );
    }
    let run = rules("[{filters: [{type: RequestRedirect, requestRedirect: {scheme: ftp}}]}]");
    let (reason, message) = said(&run, "g", "Accepted");
    assert_eq!(reason, "UnsupportedValue");
    assert!(
        message.contains("scheme: unknown variant `ftp`"),
        "{message}"
    );
    assert!(run.output.documents.is_empty());
}

#[test]
fn a_prefix_is_replaced_only_where_one_matched() {
    let filter = "{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /x}}}";
    for path in [
        "{type: Exact, value: /a}",
        "{type: RegularExpression, value: /a+}",
    ] {
        let (reason, _) = bad(&format!(
            "{{matches: [{{path: {path}}}, {{}}], filters: [{filter}]}}"
        ));
        assert_eq!(reason, "IncompatibleFilters", "{path}");
    }
    good(&format!(
        "{{matches: [{{path: {{value: /a}}}}, {{}}], filters: [{filter}]}}"
    ));
}

#[test]
fn filters_that_contradict_each_other() {
    let redirect = "{type: RequestRedirect, requestRedirect: {}}";
    let rewrite = "{type: URLRewrite, urlRewrite: {}}";
    let remove = "{type: RequestHeaderModifier, requestHeaderModifier: {remove: [a]}}";
    for yaml in [
        format!("{{filters: [{redirect}, {rewrite}]}}"),
        format!("{{filters: [{redirect}], backendRefs: [{{name: a, port: 1}}]}}"),
        format!("{{filters: [{redirect}, {redirect}]}}"),
        format!("{{filters: [{rewrite}, {rewrite}]}}"),
        format!("{{filters: [{remove}, {remove}]}}"),
    ] {
        assert_eq!(bad(&yaml).0, "IncompatibleFilters", "{yaml}");
    }
    let mirror = "{type: RequestMirror, requestMirror: {backendRef: {name: a, port: 1}}}";
    let rule = good(&format!("{{filters: [{mirror}, {mirror}, {rewrite}]}}"));
    assert_eq!(rule.filters.len(), 3);
}

#[test]
fn filters_must_have_the_field_of_their_type() {
    for (yaml, field) in [
        ("{type: RequestRedirect}", "requestRedirect"),
        ("{type: URLRewrite, requestRedirect: {}}", "requestRedirect"),
        (
            "{type: RequestHeaderModifier, requestHeaderModifier: {}, urlRewrite: {}}",
            "urlRewrite",
        ),
    ] {
        let (_, message) = bad(&format!("{{filters: [{yaml}]}}"));
        assert!(
            message.contains(&format!("filters[0].{field}: must")),
            "{yaml}: {message}"
        );
    }
}

#[test]
fn filters_that_are_not_supported_are_answered_with_500_not_skipped() {
    for yaml in [
        "{type: ExtensionRef, extensionRef: {group: a.io, kind: B, name: c}}",
        "{type: CORS, cors: {allowOrigins: ['*']}}",
    ] {
        let (reason, message) = bad(&format!("{{filters: [{yaml}]}}"));
        assert_eq!(reason, "UnsupportedValue");
        assert!(message.contains("not supported"), "{message}");
        let run = rules(&format!("[{{filters: [{yaml}]}}]"));
        assert_eq!(
            converted(&run).len(),
            1,
            "the rule stays, so that nothing wider serves it"
        );
    }
    let run = rules("[{filters: [{type: Teleport}]}]");
    assert_eq!(said(&run, "g", "Accepted").0, "UnsupportedValue");
}

#[test]
fn mirrors() {
    for (share, expected) in [
        ("", None),
        (", percent: 0", Some((0, 100))),
        (", percent: 42", Some((42, 100))),
        (", fraction: {numerator: 5}", Some((5, 100))),
        (", fraction: {numerator: 1, denominator: 3}", Some((1, 3))),
    ] {
        let found = one_filter(&format!(
            "{{type: RequestMirror, requestMirror: {{backendRef: {{name: m, namespace: other, port: 80}}{share}}}}}"
        ));
        let Filter::Mirror(Mirror { backend, fraction }) = found else {
            panic!("no mirror");
        };
        assert_eq!(fraction, expected, "{share}");
        assert_eq!(backend.object, ObjectRef::new("", "Service", "other", "m"));
        assert_eq!(backend.port, Some(80));
    }
    for mirror in [
        "{backendRef: {name: m, port: 80}, percent: 101}",
        "{backendRef: {name: m, port: 80}, percent: -1}",
        "{backendRef: {name: m, port: 80}, fraction: {numerator: 2, denominator: 1}}",
        "{backendRef: {name: m, port: 80}, fraction: {numerator: 0, denominator: 0}}",
        "{backendRef: {name: m, port: 80}, percent: 1, fraction: {numerator: 1}}",
        "{backendRef: {name: m}}",
    ] {
        let yaml = format!("{{filters: [{{type: RequestMirror, requestMirror: {mirror}}}]}}");
        assert_eq!(bad(&yaml).0, "UnsupportedValue", "{mirror}");
    }
}

#[test]
fn filters_of_a_backend_change_headers_only() {
    let rule = good(
        "{backendRefs: [{name: a, port: 80, filters: [{type: ResponseHeaderModifier, responseHeaderModifier: {add: [{name: X, value: v}]}}]}]}",
    );
    let change = HeaderChange {
        add: vec![header("x", "v")],
        ..HeaderChange::default()
    };
    assert_eq!(rule.backends[0].filters, [Filter::ResponseHeaders(change)]);
    for filter in [
        "{type: URLRewrite, urlRewrite: {hostname: a.com}}",
        "{type: RequestRedirect, requestRedirect: {}}",
        "{type: RequestMirror, requestMirror: {backendRef: {name: m, port: 80}}}",
    ] {
        let yaml = format!("{{backendRefs: [{{name: a, port: 80, filters: [{filter}]}}]}}");
        let (reason, message) = bad(&yaml);
        assert_eq!(reason, "UnsupportedValue");
        assert!(
            message.contains("backendRefs[0].filters[0].type: "),
            "{message}"
        );
    }
    let (_, message) = bad(
        "{backendRefs: [{name: a, port: 80, filters: [{type: RequestHeaderModifier, requestHeaderModifier: {remove: [host]}}]}]}",
    );
    assert!(
        message.contains("requestHeaderModifier.remove[0]"),
        "{message}"
    );
}
