//! What becomes of documents.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
use super::*;
use crate::watcher::files::parse;

fn read(text: &str) -> Contents {
    let path = Path::new("a.yaml");
    contents(path, parse::documents(path, text.as_bytes()).unwrap())
}

fn one(text: &str) -> Arc<Object> {
    let all = read(text);
    assert_eq!(all.objects.len(), 1, "{all:?}");
    all.objects[0].clone()
}

fn body(text: &str) -> String {
    let object = one(text);
    assert_eq!(object.problem, None);
    String::from_utf8(object.body.to_vec()).unwrap()
}

#[test]
fn bodies_are_canonical() {
    let text = "
kind: HTTPRoute
apiVersion: gateway.networking.k8s.io/v1
spec: {z: 1, a: {d: 2, c: 3}}
status: {x: 1}
metadata:
  resourceVersion: '7'
  managedFields: []
  name: r
  labels: {b: '1'}
";
    assert_eq!(
        body(text),
        r#"{"apiVersion":"gateway.networking.k8s.io/v1","kind":"HTTPRoute","metadata":{"labels":{"b":"1"},"name":"r","namespace":"default"},"spec":{"a":{"c":3,"d":2},"z":1}}"#
    );
    let object = one(text);
    assert_eq!(object.key.to_string(), "HTTPRoute default/r");
    assert_eq!(object.key.group, "gateway.networking.k8s.io");
    assert_eq!(object.labels.get("b").unwrap().as_str(), "1");
    assert_eq!(object.origin.as_ref().unwrap().line, 2);
}

#[test]
fn versions_are_no_part_of_the_identity() {
    let beta = one(
        "{apiVersion: gateway.networking.k8s.io/v1beta1, kind: ReferenceGrant, metadata: {name: a}}",
    );
    let v1 = one(
        "{apiVersion: gateway.networking.k8s.io/v1, kind: ReferenceGrant, metadata: {name: a}}",
    );
    assert_eq!(beta.key, v1.key);
    assert_eq!(beta.problem, None);
}

#[test]
fn an_unsupported_version_is_a_problem_and_an_unknown_kind_is_not() {
    let object = one("{apiVersion: chiton.dev/v9, kind: API, metadata: {name: a}}");
    assert!(
        object
            .problem
            .as_ref()
            .unwrap()
            .contains("chiton.dev/v1alpha1")
    );
    assert!(object.body.is_empty());
    let object = one("{apiVersion: x.example/v9, kind: Thing, metadata: {name: 'a:B'}}");
    assert_eq!(object.problem, None);
}

#[test]
fn cluster_scoped_kinds_have_no_namespace() {
    let object = one(
        "{apiVersion: gateway.networking.k8s.io/v1, kind: GatewayClass, metadata: {name: a, namespace: b}}",
    );
    assert_eq!(object.key.namespace, "");
    assert!(!String::from_utf8_lossy(&object.body).contains("namespace"));
}

#[test]
fn lists_are_flattened() {
    let all = read(
        "
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Service, metadata: {name: a}}
- apiVersion: gateway.networking.k8s.io/v1
  kind: HTTPRouteList
  items:
  - metadata: {name: b}
",
    );
    let names: Vec<_> = all.objects.iter().map(|o| o.key.to_string()).collect();
    assert_eq!(names, ["Service default/a", "HTTPRoute default/b"]);
    assert_eq!(all.problems, []);
}

#[test]
fn secrets_get_their_string_data() {
    assert_eq!(
        body(
            "{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {a: eA==, b: eQ==}, stringData: {a: hello}}"
        ),
        r#"{"apiVersion":"v1","data":{"a":"aGVsbG8=","b":"eQ=="},"kind":"Secret","metadata":{"name":"a","namespace":"default"}}"#
    );
    let object = one("{apiVersion: v1, kind: Secret, metadata: {name: a}, stringData: {a: 1}}");
    assert!(object.problem.as_ref().unwrap().contains("quotes"));
}

#[test]
fn namespaces_get_their_label() {
    let object = one("{apiVersion: v1, kind: Namespace, metadata: {name: a, labels: null}}");
    assert_eq!(object.labels.get(NAMESPACE_LABEL).unwrap().as_str(), "a");
    assert_eq!(object.body, implicit_namespace("a").body);
    assert_eq!(object.labels, implicit_namespace("a").labels);
}

#[test]
fn names_that_are_none_are_problems_of_the_object() {
    for name in ["\"a\\0b\"", "Ünicode", "UPPER", "-a", "a/b"] {
        let text = format!(
            "{{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {{name: {name}}}}}"
        );
        let all = read(&text);
        let object = &all.objects[0];
        assert!(object.problem.is_some(), "{name}");
        assert_eq!(all.problems.len(), 1);
        assert_eq!(all.problems[0].object.as_ref(), Some(&object.key.to_ref()));
        assert!(!all.problems[0].to_string().contains('\0'));
    }
    let object = one("{apiVersion: v1, kind: Secret, metadata: {name: a, namespace: A.b}}");
    assert!(object.problem.is_some());
}

#[test]
fn documents_without_an_identity_are_problems_of_the_file() {
    for (text, word) in [
        ("[1]", "not a Kubernetes object"),
        ("{kind: A, metadata: {name: a}}", "apiVersion"),
        ("{apiVersion: v1, metadata: {name: a}}", "kind"),
        ("{apiVersion: 1, kind: A, metadata: {name: a}}", "quotes"),
        ("{apiVersion: v1, kind: A}", "metadata"),
        ("{apiVersion: v1, kind: A, metadata: {}}", "metadata.name"),
        (
            "{apiVersion: v1, kind: A, metadata: {name: ''}}",
            "metadata.name",
        ),
        ("{apiVersion: v1, kind: A, metadata: {name: 1}}", "quotes"),
        (
            "{apiVersion: v1, kind: A, metadata: {generateName: a-}}",
            "generateName",
        ),
        (
            "{apiVersion: v1, kind: A, metadata: {name: a, namespace: 1}}",
            "quotes",
        ),
    ] {
        let all = read(&format!(
            "{{apiVersion: v1, kind: Good, metadata: {{name: x}}}}\n---\n{text}"
        ));
        assert_eq!(all.objects.len(), 1, "{text}");
        assert_eq!(all.problems.len(), 1, "{text}");
        assert_eq!(all.problems[0].line, Some(3), "{text}");
        assert!(
            all.problems[0].to_string().contains(word),
            "{:?}",
            all.problems
        );
    }
}

#[test]
fn labels_must_be_strings() {
    for labels in ["{a: 1}", "[a]", "{a: {b: c}}"] {
        let object = one(&format!(
            "{{apiVersion: v1, kind: Service, metadata: {{name: a, labels: {labels}}}}}"
        ));
        assert!(object.problem.is_some(), "{labels}");
    }
}

#[test]
fn objects_have_a_largest_size() {
    let sized = |kind: &str, bytes: usize| {
        one(&format!(
            "{{apiVersion: v1, kind: {kind}, metadata: {{name: a}}, data: {{a: \"{}\"}}}}",
            "x".repeat(bytes)
        ))
    };
    assert_eq!(sized("Secret", MAX_OBJECT_BYTES - 200).problem, None);
    assert!(sized("Secret", MAX_OBJECT_BYTES).problem.is_some());
    assert_eq!(sized("ConfigMap", MAX_OBJECT_BYTES).problem, None);
    let large = sized("ConfigMap", MAX_CONFIG_MAP_BYTES);
    assert!(large.problem.as_ref().unwrap().contains("1572864"));
    assert!(large.body.is_empty());
}
