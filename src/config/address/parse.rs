//! Reads an address by hand before anything else does: URL libraries take a password with a `/`, `?`, `#` or `@` in
//! it for a host and a path without a word. No error quotes any of the text.

use percent_encoding::percent_decode_str;

use super::{Parts, Protocol};
use crate::config::scalar::Secret;

/// Characters that end the authority part or split it, and how to write them inside a password.
const SPECIAL: [(char, &str); 4] = [('/', "%2F"), ('?', "%3F"), ('#', "%23"), ('@', "%40")];

pub(super) fn parse<P: Protocol>(text: &str) -> Result<Parts, String> {
    if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err("the address holds white space or a line break; write %20 for a space".to_owned());
    }
    let (scheme, rest) = scheme::<P>(text)?;
    let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    refuse_split_password::<P>(rest, authority, tail)?;
    let (login, host_port) = authority.rsplit_once('@').map_or((None, authority), |(l, h)| (Some(l), h));
    let (user, password) = login.map_or(Ok((None, None)), self::login)?;
    let (host, port) = host_port_of::<P>(host_port)?;
    let (path, query) = tail.split_once('?').map_or((tail, None), |(path, query)| (path, Some(query)));
    Ok(Parts {
        scheme,
        user,
        password: password.map(Secret::new),
        host,
        port,
        path: path_of::<P>(path)?,
        query: query.map(str::to_owned),
    })
}

fn scheme<P: Protocol>(text: &str) -> Result<(String, &str), String> {
    let allowed = P::SCHEMES.iter().map(|scheme| format!("{scheme}://")).collect::<Vec<_>>().join(", ");
    let (scheme, rest) = text.split_once("://").ok_or_else(|| {
        let empty = if text.is_empty() { "the address is empty" } else { "the address has no scheme" };
        format!("{empty}; allowed: {}", P::ALLOWED)
    })?;
    let scheme = scheme.to_ascii_lowercase();
    if P::SCHEMES.contains(&scheme.as_str()) {
        return Ok((scheme, rest));
    }
    Err(match scheme.as_str() {
        "http" | "https" => format!("http:// is not the scheme of this address; allowed: {allowed}"),
        other if other.starts_with("postgres") => {
            format!("the scheme names a driver; leave what follows the `+` out; allowed: {allowed}")
        }
        _ => format!("the scheme is none of those allowed: {allowed}"),
    })
}

/// An `@` behind the authority means that something in front of it should have been encoded.
fn refuse_split_password<P: Protocol>(rest: &str, authority: &str, tail: &str) -> Result<(), String> {
    let suspicious = match tail.split_once('?') {
        // Query values may hold an `@`, a text that is no query was a password.
        Some((path, query)) => {
            path.contains('@') || query.split('&').any(|pair| pair.split('=').next().unwrap_or(pair).contains('@'))
        }
        None => tail.contains('@'),
    };
    if suspicious && P::PATH.is_some() {
        let host_is_plausible = authority.rsplit_once('@').is_some_and(|(_, host)| host_port_of::<P>(host).is_ok());
        if host_is_plausible {
            let path = P::PATH.unwrap_or_default();
            return Err(format!(
                "an `@` comes after a `/`, `?` or `#`: percent-encode the password (%2F for `/`, %3F for `?`, %23 for `#`, %40 for `@`, %25 for `%`), or write %40 for an `@` in the {path}"
            ));
        }
        let login = rest.rsplit_once('@').map_or(rest, |(login, _)| login);
        return Err(unencoded(login));
    }
    if tail.contains('#') {
        return Err("the address holds a `#`; where it belongs to the password or the path write %23".to_owned());
    }
    Ok(())
}

/// User and password, decoded.
fn login(login: &str) -> Result<(Option<String>, Option<String>), String> {
    if login.contains('@') {
        return Err(unencoded(login));
    }
    let (user, password) = login.split_once(':').map_or((login, None), |(user, password)| (user, Some(password)));
    let user = decode("user name", user)?;
    let password = password.map(|password| decode("password", password)).transpose()?;
    Ok((Some(user).filter(|user| !user.is_empty()), password.filter(|password| !password.is_empty())))
}

/// Names the part of `login` that holds what it must not, and how to write it.
fn unencoded(login: &str) -> String {
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    let (part, text) =
        if user.contains(SPECIAL.map(|(c, _)| c)) { ("user name", login) } else { ("password", password) };
    let mut found: Vec<String> =
        SPECIAL.iter().filter(|(c, _)| text.contains(*c)).map(|(c, code)| format!("{code} for `{c}`")).collect();
    if has_bare_percent(text) {
        found.push("%25 for `%`".to_owned());
    }
    format!("the {part} must be percent-encoded: write {}", found.join(", "))
}

fn has_bare_percent(text: &str) -> bool {
    let is_code = |code: &str| code.len() >= 2 && code.bytes().take(2).all(|b| b.is_ascii_hexdigit());
    text.split('%').skip(1).any(|code| !is_code(code))
}

fn decode(part: &str, text: &str) -> Result<String, String> {
    if has_bare_percent(text) {
        return Err(format!("the {part} must be percent-encoded: write %25 for `%`"));
    }
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map(|text| text.into_owned()).map_err(|_| format!("the {part} is not UTF-8 once its %-codes are decoded"))
}

fn host_port_of<P: Protocol>(text: &str) -> Result<(String, Option<u16>), String> {
    let (host, port) = match text.rfind(']') {
        Some(end) if text.starts_with('[') => {
            let (host, port) = text.split_at(end + 1);
            (host, port.strip_prefix(':').or(if port.is_empty() { None } else { Some(port) }))
        }
        _ => text.rsplit_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    if host.contains(',') || port.is_some_and(|port| port.contains(',')) {
        return Err("the address names several hosts; it must name one".to_owned());
    }
    if host.contains(':') && !host.starts_with('[') {
        return Err("the host is wrong; an IPv6 address stands in brackets, as in [::1]".to_owned());
    }
    let wrong_port = "the port is not a number from 1 to 65535 (or the password in front of it lacks its `@host`)";
    let port = match port {
        None | Some("") => None,
        Some(port) => Some(port.parse().ok().filter(|port| *port > 0).ok_or(wrong_port)?),
    };
    let is_socket = !P::NEEDS_HOST && (host.is_empty() || host.to_ascii_lowercase().starts_with("%2f"));
    if !is_socket && url::Host::parse(host).is_err() {
        let wrong = if host.is_empty() { "names no host" } else { "has a host that is no name and no IP address" };
        return Err(format!("the address {wrong}; allowed: {}", P::ALLOWED));
    }
    Ok((host.to_owned(), port))
}

fn path_of<P: Protocol>(path: &str) -> Result<String, String> {
    let Some(part) = P::PATH else { return Ok(path.to_owned()) };
    let inner = path.strip_prefix('/').unwrap_or(path);
    // Celery and its kin write `//` for the virtual host `/`.
    if inner == "/" && part == "virtual host" {
        return Ok("/%2F".to_owned());
    }
    if inner.contains('/') {
        return Err(format!("the {part} holds a `/`: write %2F"));
    }
    decode(part, inner)?;
    Ok(path.to_owned())
}
