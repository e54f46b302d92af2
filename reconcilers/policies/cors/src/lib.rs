//! The `cors` policy: which origins a browser may call from (Fetch standard, CORS protocol).
//!
//! ```yaml
//! type: cors
//! targetRefs: [{group: chiton.dev, kind: API, name: orders}]
//! default:
//!   allowOrigins: ["https://shop.example", "https://*.shop.example"]
//!   allowMethods: [GET, POST]
//!   allowHeaders: [content-type]
//!   maxAgeSeconds: 600
//! ```

use chiton_guest::ir::check::http::header_name;
use chiton_guest::ir::policy::{Cors as Settings, Effect};
use chiton_guest::{Context, Error, Policy};

/// The policy. Its settings are the effect itself.
pub struct Cors;

impl Policy for Cors {
    type Settings = Settings;
    const NAME: &'static str = "cors";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");

    fn effects(settings: Settings, _: &mut Context) -> Result<Vec<Effect>, Error> {
        if settings.allow_origins.is_empty() {
            return Err(Error::invalid("allowOrigins: name at least one origin"));
        }
        for origin in &settings.allow_origins {
            check_origin(origin)?;
        }
        // Any site could then act with the credentials of whoever visits it.
        if settings.allow_credentials && settings.allow_origins.iter().any(|origin| origin == "*") {
            return Err(Error::invalid(
                "allowCredentials: cannot be true while allowOrigins has `*`: name the origins",
            ));
        }
        for (field, names) in [
            ("allowMethods", &settings.allow_methods),
            ("allowHeaders", &settings.allow_headers),
            ("exposeHeaders", &settings.expose_headers),
        ] {
            for name in names {
                header_name(name).map_err(|e| Error::invalid(format!("{field}: {e}")))?;
            }
        }
        Ok(vec![Effect::Cors(settings)])
    }
}

/// `*`, or scheme, host and perhaps port, where the host may start with `*.`.
fn check_origin(origin: &str) -> Result<(), Error> {
    let host = ["https://", "http://"]
        .iter()
        .find_map(|scheme| origin.strip_prefix(scheme))
        .map(|host| host.strip_prefix("*.").unwrap_or(host));
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
    if origin == "*" || host.is_some_and(|host| !host.is_empty() && host.bytes().all(good)) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "allowOrigins: {origin:?} is not an origin: write `https://host`, `https://*.domain` or `*`"
    )))
}

chiton_guest::export!(Cors);

#[cfg(test)]
mod tests;
