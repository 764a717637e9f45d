use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> BrokerAddress {
    text.parse().expect("an address")
}

fn error(text: &str) -> AddressError {
    text.parse::<BrokerAddress>().expect_err("not an address")
}

#[test]
fn every_part_is_read() {
    let address = parse(
        "amqps://me:secret@rabbit.example:1234/v?heartbeat=10&frame_max=131072&channel_max=7&connection_timeout=1500&auth_mechanism=EXTERNAL",
    );
    assert_eq!(
        address,
        BrokerAddress {
            tls: true,
            host: "rabbit.example".into(),
            port: 1234,
            user: Some("me".into()),
            password: Some(Password::new("secret")),
            vhost: "v".into(),
            auth: Auth::External,
            heartbeat_s: Some(10),
            frame_max: Some(131_072),
            channel_max: Some(7),
            connection_timeout: Some(Duration::from_millis(1500)),
        }
    );
}

#[test]
fn vhosts_follow_the_specification() {
    for (text, vhost) in [
        ("amqp://h", "/"),
        ("amqp://h?heartbeat=1", "/"),
        ("amqp://h/", ""),
        ("amqp://h/%2f", "/"),
        ("amqp://h/%2F", "/"),
        ("amqp://h/a%2fb", "a/b"),
        ("amqp://h/%C3%A4%20%C3%B6", "ä ö"),
        ("amqp://h/ä ö", "ä ö"),
        ("amqp://h/%2e%2e", ".."),
        ("amqp://h/a+b", "a+b"),
    ] {
        assert_eq!(parse(text).vhost, vhost, "{text}");
    }
    assert_eq!(error("amqp://h/a/b"), AddressError::VhostSlash);
    assert_eq!(error("amqp://h//"), AddressError::VhostSlash);
    assert_eq!(error(&format!("amqp://h/{}", "v".repeat(256))), AddressError::TooLong("virtual host", 256));
    assert!(parse("amqp://h/").vhost_hint().is_some());
    assert!(parse("amqp://h").vhost_hint().is_none());
}

#[test]
fn passwords_may_hold_anything() {
    for password in ["p@ss:w/rd%#?", "100%25", "пароль", "", " ", "&=+;"] {
        let text = format!("amqp://u%40x:{}@h:1/v", utf8_percent_encode(password, NON_ALPHANUMERIC));
        let address = parse(&text);
        assert_eq!(address.credentials(), Ok(("u@x", password)));
        assert_eq!(address.to_lapin().expect("has a user").authority.userinfo.password, password);
    }
    // What a person may paste as it is.
    assert_eq!(parse("amqp://u:пар:оль@b@h").credentials(), Ok(("u", "пар:оль@b")));
}

#[test]
fn a_password_that_is_not_encoded_is_named_not_repeated() {
    for (text, expected) in [
        ("amqp://u:p@ss:w/rd%#?@h", AddressError::Fragment),
        ("amqp://u:p@ss:w/rd@h", AddressError::AtSign),
        ("amqp://u:12/ss:w@h", AddressError::AtSign),
        ("amqp://u:12?ss:w@h", AddressError::AtSign),
        ("amqp://u:p:ss:w", AddressError::Port),
        ("amqp://u:100%@h", AddressError::Percent("password")),
        ("amqp://u:%ff@h", AddressError::NotUtf8("password")),
    ] {
        let error = error(text);
        assert_eq!(error, expected, "{text}");
        assert!(!error.to_string().contains("ss:w"));
    }
}

#[test]
fn nothing_falls_back_to_guest_or_localhost() {
    assert_eq!(parse("amqp://h").user, None);
    assert_eq!(parse("amqp://h").credentials(), Err(AddressError::NoUser));
    assert_eq!(parse("amqp://h").to_lapin(), Err(AddressError::NoUser));
    assert_eq!(parse("amqp://me@h").credentials(), Ok(("me", "")));
    assert_eq!(error("amqp://"), AddressError::NoHost);
    assert_eq!(error("amqp:///v"), AddressError::NoHost);
    assert_eq!(error("amqp://u:p@:5672"), AddressError::NoHost);
}

#[test]
fn hosts_and_ports() {
    let address = parse("amqp://u:p@[::1]:5673/v");
    assert_eq!((address.host.as_str(), address.port), ("::1", 5673));
    assert_eq!(address.to_string(), "amqp://u@[::1]:5673/v");
    assert_eq!(parse("amqp://[::1]").port, 5672);
    assert_eq!(parse("amqps://h").port, 5671);
    assert_eq!(parse("AMQP://h:").port, 5672);
    assert_eq!(error("amqp://[::1"), AddressError::Ipv6);
    assert_eq!(error("amqp://h:0"), AddressError::Port);
    assert_eq!(error("amqp://h:65536"), AddressError::Port);
    assert_eq!(error("http://h"), AddressError::Scheme);
    assert_eq!(error("h:5672"), AddressError::Scheme);
}

#[test]
fn options_are_checked() {
    assert_eq!(error("amqp://h?hearbeat=3"), AddressError::UnknownOption("hearbeat".into()));
    assert_eq!(error("amqp://h?heartbeat=x"), AddressError::Option("heartbeat", "seconds from 0 to 65535"));
    assert_eq!(error("amqp://h?frame_max=100"), AddressError::Option("frame_max", "0 or at least 4096 bytes"));
    assert_eq!(error("amqp://h?auth_mechanism=amqplain"), AddressError::Option("auth_mechanism", "plain or external"));
}

#[test]
fn nothing_printed_holds_the_password() {
    let address = parse("amqp://me:hunter2@h/v");
    assert!(!format!("{address} {address:?} {:?}", address.password).contains("hunter2"));
}

proptest! {
    #[test]
    fn any_names_and_passwords_go_through_percent_encoding(user in ".{1,20}", password in ".{0,40}", vhost in ".{0,20}") {
        let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let address = parse(&format!("amqp://{}:{}@h/{}", encoded(&user), encoded(&password), encoded(&vhost)));
        prop_assert_eq!(address.credentials(), Ok((user.as_str(), password.as_str())));
        prop_assert_eq!(address.vhost, vhost);
    }

    #[test]
    fn any_text_is_an_address_or_refused(text in "(amqps?://)?[a-z@:/?#%\\[\\]&=0-9ä]{0,40}") {
        let _ = text.parse::<BrokerAddress>();
    }
}
