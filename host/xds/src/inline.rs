//! Route configurations for clients that do not know VHDS: with their virtual hosts in them.

use crate::resource::version_of;
use crate::snapshot::Entry;
use prost::bytes::Buf;
use std::sync::Arc;

/// Field numbers of `envoy.config.route.v3.RouteConfiguration`.
const VIRTUAL_HOSTS: usize = 2;
const VHDS: usize = 9;

/// The wire type of a length-delimited field.
const DELIMITED: usize = 2;

/// The route configuration with these virtual hosts, and without `vhds`. What it consists of is not
/// decoded: fields that this version of Envoy's API does not know come through. Its version is a
/// hash of the versions of its parts.
pub(crate) fn inline<'a>(
    route_config: &Entry,
    virtual_hosts: impl Iterator<Item = &'a Arc<Entry>> + Clone,
) -> Entry {
    const AROUND: usize = 8;
    let length = virtual_hosts.clone().map(|host| host.body.len() + AROUND);
    let mut body = Vec::with_capacity(route_config.body.len() + length.sum::<usize>());
    copy_without(&route_config.body, VHDS, &mut body);
    let mut versions = format!("{}\n", route_config.version);
    for host in virtual_hosts {
        put_varint(VIRTUAL_HOSTS << 3 | DELIMITED, &mut body);
        put_varint(host.body.len(), &mut body);
        body.extend_from_slice(&host.body);
        versions.extend([&*host.name, "\n", &*host.version, "\n"]);
    }
    Entry {
        name: route_config.name.clone(),
        version: version_of(versions.as_bytes()).into(),
        body: body.into(),
    }
}

/// Copies a message without one of its fields. What is no message is copied from there on as it is:
/// its reader will say so.
fn copy_without(message: &[u8], field: usize, into: &mut Vec<u8>) {
    let mut rest = message;
    while !rest.is_empty() {
        let Some((number, length)) = first_field(rest) else {
            break;
        };
        let (copied, after) = rest.split_at(length);
        if number != field {
            into.extend_from_slice(copied);
        }
        rest = after;
    }
    into.extend_from_slice(rest);
}

/// Number and length of the field that a message starts with; none if it does not start with one.
fn first_field(message: &[u8]) -> Option<(usize, usize)> {
    let mut rest = message;
    let key = prost::decode_length_delimiter(&mut rest).ok()?;
    let value = match key & 7 {
        0 => {
            let before = rest.len();
            let mut after = rest;
            prost::decode_length_delimiter(&mut after).ok()?;
            before - after.len()
        }
        1 => 8,
        DELIMITED => prost::decode_length_delimiter(&mut rest).ok()?,
        5 => 4,
        _ => return None,
    };
    let length = (message.len() - rest.remaining()).checked_add(value)?;
    (length <= message.len()).then_some((key >> 3, length))
}

fn put_varint(value: usize, into: &mut Vec<u8>) {
    // Writing into a Vec fails at no length that fits into memory.
    let _ = prost::encode_length_delimiter(value, into);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use envoy_types::pb::envoy::config::route::v3::{RouteConfiguration, Vhds, VirtualHost};
    use envoy_types::pb::google::protobuf::{BoolValue, UInt32Value};
    use prost::Message;

    fn entry(name: &str, body: Vec<u8>) -> Arc<Entry> {
        Arc::new(Entry {
            name: name.into(),
            version: version_of(&body).into(),
            body: body.into(),
        })
    }

    fn host(name: &str) -> Arc<Entry> {
        let message = VirtualHost {
            name: name.to_owned(),
            domains: vec!["x".repeat(200)],
            ..VirtualHost::default()
        };
        entry(name, message.encode_to_vec())
    }

    fn base(unknown: &[u8]) -> Arc<Entry> {
        let message = RouteConfiguration {
            name: "r".to_owned(),
            vhds: Some(Vhds::default()),
            validate_clusters: Some(BoolValue { value: true }),
            max_direct_response_body_size_bytes: Some(UInt32Value { value: 300 }),
            most_specific_header_mutations_wins: true,
            ..RouteConfiguration::default()
        };
        let mut body = message.encode_to_vec();
        body.extend_from_slice(unknown);
        entry("r", body)
    }

    #[test]
    fn a_whole_route_configuration_has_its_virtual_hosts_and_no_vhds() {
        let hosts = [host("r/a"), host("r/b")];
        let whole = inline(&base(&[]), hosts.iter());
        let message = RouteConfiguration::decode(whole.body).unwrap();
        let expected = RouteConfiguration {
            vhds: None,
            virtual_hosts: ["r/a", "r/b"]
                .map(|name| VirtualHost::decode(host(name).body.clone()).unwrap())
                .to_vec(),
            ..RouteConfiguration::decode(base(&[]).body.clone()).unwrap()
        };
        assert_eq!(message, expected);
    }

    #[test]
    fn the_version_follows_every_part_and_nothing_else() {
        let version = |base: &Arc<Entry>, hosts: &[Arc<Entry>]| inline(base, hosts.iter()).version;
        let plain = base(&[]);
        let one = version(&plain, &[host("r/a")]);
        assert_eq!(one, version(&plain, &[host("r/a")]));
        assert_ne!(one, version(&plain, &[host("r/b")]));
        assert_ne!(one, version(&plain, &[]));
        assert_ne!(one, version(&base(&[0x98, 0x06, 1]), &[host("r/a")]));
    }

    #[test]
    fn unknown_fields_and_what_is_no_message_come_through() {
        // Field 99 as a varint, as eight and as four bytes; then a length that is too long.
        let unknown = [
            0x98, 0x06, 0x96, 0x01, 0x99, 0x06, 1, 2, 3, 4, 5, 6, 7, 8, 0x9d, 0x06, 1, 2, 3, 4,
        ];
        for rubbish in [&[][..], &[0x4a, 0x7f, 1], &[0x4b], &[0xff]] {
            let tail = [&unknown, rubbish].concat();
            let whole = inline(&base(&tail), [].iter());
            assert!(whole.body.ends_with(&tail), "{rubbish:?}");
        }
    }
}
