//! Whatever is in the file: a configuration or an error, never a panic.

use proptest::prelude::*;

use super::{contract::EXAMPLE, load};

proptest! {
    #[test]
    fn any_text_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = load(&String::from_utf8_lossy(&bytes)).map_err(|errors| errors.to_string());
    }

    #[test]
    fn any_yaml_like_text_is_read_or_refused(text in r#"([a-z]{1,4}|database|url|brokers|sources|[-:{}\[\],&*!|>'"%@`#? \n]|\$\{env:|<<){0,60}"#) {
        let _ = load(&text).map_err(|errors| errors.to_string());
    }

    #[test]
    fn any_example_with_a_piece_changed_is_read_or_refused(at in 0..EXAMPLE.len(), len in 0usize..40, piece in r#"[ -~\n]{0,8}"#) {
        let (start, end) = (at, (at + len).min(EXAMPLE.len()));
        let text = format!("{}{piece}{}", &EXAMPLE[..start], &EXAMPLE[end..]);
        match load(&text) {
            Ok(config) => prop_assert!(!config.summary().is_empty()),
            Err(errors) => prop_assert!(errors.to_string().starts_with("dlo.yaml")),
        }
    }

    #[test]
    fn any_address_is_read_or_refused(text in r#"(amqp|amqps|postgres)://[a-z:@/?#%\[\]0-9.,{}€ ]{0,40}"#) {
        let yaml = serde_json::json!({ "database": { "url": "postgres://h" }, "brokers": { "r": { "rabbitmq": { "url": text } } } });
        let _ = load(&yaml.to_string()).map(|config| config.summary());
    }
}
