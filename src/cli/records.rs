//! Flat objects for programs: CSV, JSON lines, a JSON array.

use serde_json::Value as Json;

use super::{CliError, Format, out::Out};

/// Flat objects as CSV, JSON lines, or a JSON array.
pub(super) fn records(items: &[Json], out: &mut Out) -> Result<(), CliError> {
    match out.format {
        Format::Jsonl => items.iter().try_for_each(|item| out.line(&item.to_string())),
        Format::Csv => {
            let Some(head) = items.first().and_then(Json::as_object) else { return Ok(()) };
            let names: Vec<&String> = head.keys().collect();
            out.line(&names.iter().map(|name| field(name)).collect::<Vec<_>>().join(","))?;
            items.iter().try_for_each(|item| {
                let fields = names.iter().map(|name| match &item[name.as_str()] {
                    Json::Null => String::new(),
                    Json::String(text) => field(text),
                    Json::Array(list) => field(&list.iter().map(plain).collect::<Vec<_>>().join(" ")),
                    other => field(&other.to_string()),
                });
                out.line(&fields.collect::<Vec<_>>().join(","))
            })
        }
        _ => out.json(&items),
    }
}

fn plain(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// As RFC 4180 says.
fn field(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_fields_are_quoted_where_they_must_be() {
        assert_eq!(field("plain"), "plain");
        assert_eq!(field("a \"b\", c"), "\"a \"\"b\"\", c\"");
    }
}
