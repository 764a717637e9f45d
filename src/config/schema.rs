//! The JSON Schema of the configuration file, from the same structs that read it.

use schemars::{Schema, generate::SchemaSettings, transform::transform_subschemas};
use serde_json::{Value as Json, json};

use super::Config;

/// For editors and CI; `dlo schema` prints it.
#[must_use]
pub fn schema() -> Json {
    let settings = SchemaSettings::draft2020_12().with_transform(admit_references);
    let mut schema: Json = settings.into_generator().into_root_schema_for::<Config>().into();
    if let Json::Object(schema) = &mut schema {
        schema.insert("title".to_owned(), json!("dlo.yaml"));
    }
    schema
}

/// `${env:NAME}` may stand where a number, a word of a list or a text of a certain form is expected.
fn admit_references(schema: &mut Schema) {
    const FORMS: [&str; 8] = ["type", "format", "pattern", "enum", "const", "minimum", "maximum", "minLength"];
    // From the inside out: what is added here needs no visit.
    transform_subschemas(&mut admit_references, schema);
    let Some(object) = schema.as_object_mut() else { return };
    if let Some(Json::Array(words)) = object.get_mut("oneOf").filter(|words| are_words(words)) {
        words.push(json!({ "type": "string", "pattern": REFERENCE }));
        return;
    }
    let is = |kind: &str| object.get("type").is_some_and(|given| given == kind || has(given, kind));
    let is_form = object.contains_key("enum") || object.contains_key("pattern");
    if !(is("integer") || is("number") || is("boolean") || is("string") && is_form) {
        return;
    }
    let mut form = serde_json::Map::new();
    for name in FORMS {
        form.extend(object.remove(name).map(|value| (name.to_owned(), value)));
    }
    object.insert("anyOf".to_owned(), json!([form, { "type": "string", "pattern": REFERENCE }]));
}

const REFERENCE: &str = r"\$\{(env|file):[^}]+\}";

fn has(list: &Json, value: &str) -> bool {
    list.as_array().is_some_and(|list| list.iter().any(|item| item == value))
}

/// Whether these are the words of a list, each with its description.
fn are_words(alternatives: &Json) -> bool {
    let is_word = |item: &Json| item.get("const").is_some() || item.get("anyOf").is_some();
    alternatives
        .as_array()
        .is_some_and(|all| all.iter().any(|item| item.get("const").is_some()) && all.iter().all(is_word))
}
