//! From [`super::model`] to Envoy's messages.
