//! Checks of header changes that Envoy, or HTTP itself, would refuse.
//!
//! Envoy refuses a configuration that sets, adds or removes `host` or a pseudo header
//! (`:authority`, `:path`, …), and a value with CR, LF or NUL. Single names and values are checked
//! by [`chiton_ir::check::http`], where the host draws the same line.

use crate::Error;
use chiton_ir::check::http::{header_value, modifiable_header};
use chiton_ir::policy::Effect;
use chiton_ir::route::{Header, HeaderChange};

/// The effect that sets one request header, checked.
pub fn set_request_header(name: &str, value: &str) -> Result<Effect, Error> {
    set(name, value).map(Effect::RequestHeaders)
}

/// The effect that sets one response header, checked.
pub fn set_response_header(name: &str, value: &str) -> Result<Effect, Error> {
    set(name, value).map(Effect::ResponseHeaders)
}

fn set(name: &str, value: &str) -> Result<HeaderChange, Error> {
    let change = HeaderChange {
        set: vec![Header {
            name: name.to_owned(),
            value: value.to_owned(),
        }],
        ..HeaderChange::default()
    };
    check_change(&change).map_err(|problem| Error::invalid(format!("header {name}: {problem}")))?;
    Ok(change)
}

/// Checks all of a change: names, values, and that no name stands twice in one part (names are
/// compared without case). The error has the path in the change: `set[0].name: may not be …`.
pub fn check_change(change: &HeaderChange) -> Result<(), String> {
    check_headers("set", &change.set)?;
    check_headers("add", &change.add)?;
    for (index, name) in change.remove.iter().enumerate() {
        modifiable_header(name).map_err(|problem| format!("remove[{index}]: {problem}"))?;
    }
    check_once("remove", change.remove.iter())
}

fn check_headers(part: &str, headers: &[Header]) -> Result<(), String> {
    for (index, Header { name, value }) in headers.iter().enumerate() {
        modifiable_header(name).map_err(|problem| format!("{part}[{index}].name: {problem}"))?;
        header_value(value).map_err(|problem| format!("{part}[{index}].value: {problem}"))?;
    }
    check_once(part, headers.iter().map(|header| &header.name))
}

fn check_once<'a>(part: &str, names: impl Iterator<Item = &'a String>) -> Result<(), String> {
    let mut names: Vec<String> = names.map(|name| name.to_ascii_lowercase()).collect();
    names.sort_unstable();
    for pair in names.windows(2) {
        if let [name, next] = pair
            && name == next
        {
            return Err(format!("{part}: names {name} twice: name it once"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn setting(name: &str, value: &str) -> HeaderChange {
        HeaderChange {
            set: vec![Header {
                name: name.into(),
                value: value.into(),
            }],
            ..HeaderChange::default()
        }
    }

    #[test]
    fn names_and_values_are_checked_where_they_stand() {
        assert_eq!(check_change(&setting("x-a", "täglich, \"x\"")), Ok(()));
        for (name, value, place) in [
            ("Host", "a", "set[0].name: "),
            (":path", "a", "set[0].name: "),
            ("a b", "a", "set[0].name: "),
            ("x-a", "a\r\nb: c", "set[0].value: "),
            ("x-a", "\0", "set[0].value: "),
        ] {
            let error = check_change(&setting(name, value)).expect_err("refused");
            assert!(error.starts_with(place), "{error}");
        }
        let remove = HeaderChange {
            remove: vec!["x-a".into(), "host".into()],
            ..HeaderChange::default()
        };
        let error = check_change(&remove).expect_err("refused");
        assert!(error.starts_with("remove[1]: "), "{error}");
    }

    #[test]
    fn a_name_stands_once_in_each_part() {
        let mut change = setting("x-a", "1");
        change.add.clone_from(&change.set);
        change.remove.push("x-a".into());
        assert_eq!(check_change(&change), Ok(()));
        change.set.extend(setting("X-A", "2").set);
        let error = check_change(&change).expect_err("named twice");
        assert_eq!(error, "set: names x-a twice: name it once");
    }

    #[test]
    fn a_header_effect_is_checked() {
        let effect = set_response_header("x-a", "1").expect("an effect");
        assert_eq!(effect, Effect::ResponseHeaders(setting("x-a", "1")));
        let Err(Error::Invalid(condition)) = set_request_header("x-a", "1\n") else {
            panic!("a line end is refused");
        };
        assert!(condition.message.starts_with("header x-a: set[0].value: "));
    }
}
