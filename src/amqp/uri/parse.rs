//! The grammar of a broker address.

use std::time::Duration;

use percent_encoding::percent_decode_str;

use super::{AddressError, Auth, BrokerAddress, Password};

pub(super) fn address(text: &str) -> Result<BrokerAddress, AddressError> {
    let (scheme, rest) = text.split_once("://").ok_or(AddressError::Scheme)?;
    let tls = match scheme.to_ascii_lowercase().as_str() {
        "amqp" => false,
        "amqps" => true,
        _ => return Err(AddressError::Scheme),
    };
    if rest.contains('#') {
        return Err(AddressError::Fragment);
    }
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = match rest.split_once('/') {
        Some((authority, path)) => (authority, Some(path)),
        None => (rest, None),
    };
    // Else a password such as `12/ab` would make its user a host and its rest a virtual host that logs show.
    if query.contains('@') || path.is_some_and(|path| path.contains('@')) {
        return Err(AddressError::AtSign);
    }
    let (userinfo, host_and_port) = match authority.rsplit_once('@') {
        Some((userinfo, host)) => (Some(userinfo), host),
        None => (None, authority),
    };
    let (host, port) = host_and_port_of(host_and_port)?;
    let (user, password) = user_and_password(userinfo)?;
    let mut address = BrokerAddress {
        tls,
        host,
        port: port.unwrap_or(if tls { 5671 } else { 5672 }),
        user,
        password,
        vhost: vhost(path)?,
        auth: Auth::Plain,
        heartbeat_s: None,
        frame_max: None,
        channel_max: None,
        connection_timeout: None,
    };
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        option(&mut address, name, value)?;
    }
    Ok(address)
}

fn host_and_port_of(text: &str) -> Result<(String, Option<u16>), AddressError> {
    let (host, port) = match text.strip_prefix('[') {
        Some(bracketed) => {
            let (host, port) = bracketed.split_once(']').ok_or(AddressError::Ipv6)?;
            let port = if port.is_empty() { None } else { Some(port.strip_prefix(':').ok_or(AddressError::Port)?) };
            (host, port)
        }
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    if host.is_empty() {
        return Err(AddressError::NoHost);
    }
    let port = match port {
        None | Some("") => None,
        Some(port) => Some(port.parse().ok().filter(|port| *port != 0).ok_or(AddressError::Port)?),
    };
    Ok((decoded("host", host)?, port))
}

fn user_and_password(userinfo: Option<&str>) -> Result<(Option<String>, Option<Password>), AddressError> {
    let Some(userinfo) = userinfo.filter(|userinfo| !userinfo.is_empty()) else { return Ok((None, None)) };
    let (user, password) = match userinfo.split_once(':') {
        Some((user, password)) => (user, Some(Password(decoded("password", password)?))),
        None => (userinfo, None),
    };
    Ok((Some(decoded("user name", user)?), password))
}

fn vhost(path: Option<&str>) -> Result<String, AddressError> {
    let Some(path) = path else { return Ok("/".to_owned()) };
    if path.contains('/') {
        return Err(AddressError::VhostSlash);
    }
    let vhost = decoded("virtual host", path)?;
    if vhost.len() > 255 {
        return Err(AddressError::TooLong("virtual host", vhost.len()));
    }
    Ok(vhost)
}

fn option(address: &mut BrokerAddress, name: &str, value: &str) -> Result<(), AddressError> {
    fn number<T: std::str::FromStr>(name: &'static str, kind: &'static str, value: &str) -> Result<T, AddressError> {
        value.parse().map_err(|_| AddressError::Option(name, kind))
    }
    match name {
        "heartbeat" => address.heartbeat_s = Some(number("heartbeat", "seconds from 0 to 65535", value)?),
        "frame_max" => address.frame_max = Some(frame_max(number("frame_max", "a number of bytes", value)?)?),
        "channel_max" => address.channel_max = Some(number("channel_max", "a number from 0 to 65535", value)?),
        "connection_timeout" => {
            let timeout_ms = number("connection_timeout", "a number of milliseconds", value)?;
            address.connection_timeout = Some(Duration::from_millis(timeout_ms));
        }
        "auth_mechanism" => {
            address.auth = match value.to_ascii_lowercase().as_str() {
                "plain" => Auth::Plain,
                "external" => Auth::External,
                _ => return Err(AddressError::Option("auth_mechanism", "plain or external")),
            }
        }
        unknown => return Err(AddressError::UnknownOption(unknown.chars().take(40).collect())),
    }
    Ok(())
}

/// AMQP's own minimum; 0 is no limit.
fn frame_max(bytes: u32) -> Result<u32, AddressError> {
    match bytes {
        0 | 4096.. => Ok(bytes),
        _ => Err(AddressError::Option("frame_max", "0 or at least 4096 bytes")),
    }
}

fn decoded(part: &'static str, text: &str) -> Result<String, AddressError> {
    let escapes_are_whole = text.split('%').skip(1).all(|after| {
        let digits = after.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    });
    if !escapes_are_whole {
        return Err(AddressError::Percent(part));
    }
    let decoded = percent_decode_str(text).decode_utf8().map_err(|_| AddressError::NotUtf8(part))?;
    Ok(decoded.into_owned())
}
