//! Everything that is wrong in a folder, a line each: `file:line: Kind namespace/name: what; what to do`.

use crate::modules::ModuleInfo;
use crate::runtime::offline::Offline;
use crate::status::ObjectStatus;
use crate::status::table::{is_problem, printable, problem};
use crate::watcher::files::Problem;
use chiton_ir::Condition;

/// What is wrong with files, then with objects, then with modules.
pub(super) fn problems(offline: &Offline) -> Vec<String> {
    let files = offline.problems.iter().map(ToString::to_string);
    let objects = offline.objects();
    let conditions = objects
        .iter()
        .flat_map(|object| of_object(object, &offline.problems));
    let classless = offline.without_class().map(|(gateway, class)| {
        let origin = gateway.origin.as_ref();
        let origin = origin.map(|it| format!("{}:{}: ", it.path.display(), it.line));
        format!(
            "{}{}: nobody serves it: there is no GatewayClass {class}; add it, or name one that is there",
            origin.unwrap_or_default(),
            gateway.key
        )
    });
    let modules = offline
        .refused
        .iter()
        .map(|module| of_module(module, offline.origin(&module.source)));
    files
        .chain(conditions)
        .chain(classless)
        .chain(modules)
        .map(|line| printable(&line))
        .collect()
}

/// What is wrong with an object, without what is said of its file already.
fn of_object(object: &ObjectStatus, files: &[Problem]) -> Vec<String> {
    let said = |condition: &Condition| {
        files
            .iter()
            .any(|problem| is_of(problem, object) && problem.reason == condition.message)
    };
    object
        .conditions
        .iter()
        .filter(|condition| is_problem(condition) && !said(condition))
        .map(|condition| format!("{}: {}", place(object), problem(condition)))
        .collect()
}

fn is_of(problem: &Problem, object: &ObjectStatus) -> bool {
    problem.object.as_ref().is_some_and(|key| {
        key.group == object.group
            && key.kind == object.kind
            && key.namespace == object.namespace
            && key.name == object.name
    })
}

fn of_module(module: &ModuleInfo, origin: Option<String>) -> String {
    let origin = origin
        .map(|origin| format!("{origin}: "))
        .unwrap_or_default();
    let version = if module.version.is_empty() {
        String::new()
    } else {
        format!(" {}", module.version)
    };
    format!(
        "{origin}{}: module {}{version}: {}",
        module.source, module.name, module.reason
    )
}

/// `file:line: Kind namespace/name`.
fn place(object: &ObjectStatus) -> String {
    let origin = object
        .origin
        .as_deref()
        .map(|origin| format!("{origin}: "))
        .unwrap_or_default();
    let slash = if object.namespace.is_empty() { "" } else { "/" };
    format!(
        "{origin}{} {}{slash}{}",
        object.kind, object.namespace, object.name
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn object(message: &str) -> ObjectStatus {
        ObjectStatus {
            group: "g".into(),
            kind: "K".into(),
            namespace: "default".into(),
            name: "n".into(),
            origin: Some("a.yaml:1".into()),
            module: String::new(),
            conditions: vec![Condition::fails("Accepted", "Invalid", message)],
            attached_routes: BTreeMap::new(),
            ancestors: Vec::new(),
        }
    }

    #[test]
    fn what_a_file_says_of_an_object_is_not_said_again() {
        let file = Problem {
            path: "a.yaml".into(),
            line: Some(1),
            object: Some(chiton_ir::ObjectRef::new("g", "K", "default", "n")),
            reason: "is too large".into(),
            advice: String::new(),
        };
        assert!(of_object(&object("is too large"), std::slice::from_ref(&file)).is_empty());
        assert_eq!(
            of_object(&object("is wrong"), &[file]),
            ["a.yaml:1: K default/n: Accepted=False (Invalid): is wrong"]
        );
    }
}
