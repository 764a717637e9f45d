//! `${env:NAME}` and `${file:PATH}` inside string values, after parsing: what they bring is text and never YAML.

use std::path::Path as FilePath;

use super::{
    Environment,
    fault::Fault,
    path::Path,
    tree::{At, Node, Value},
};

/// Expands every scalar of the tree; what cannot be expanded stays as written and is reported with its path.
/// Relative paths start `beside` the configuration file.
pub(super) fn expand(tree: &mut Node, env: Environment<'_>, beside: &FilePath) -> Vec<Fault> {
    let mut faults = Vec::new();
    let at = tree.at;
    Expander { env, beside }.node(tree, at, &Path::default(), &mut faults);
    faults
}

struct Expander<'a> {
    env: Environment<'a>,
    beside: &'a FilePath,
}

impl Expander<'_> {
    /// `at` is where the key stands, or the item of a list.
    fn node(&self, node: &mut Node, at: At, path: &Path, faults: &mut Vec<Fault>) {
        match &mut node.value {
            Value::Scalar(scalar) if scalar.text.contains("${") => match self.text(&scalar.text) {
                Ok(text) => scalar.written = Some(std::mem::replace(&mut scalar.text, text)),
                Err(message) => faults.push(Fault::new(path.clone(), at, message)),
            },
            Value::Scalar(_) | Value::Absent => {}
            Value::List(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    let at = item.at;
                    self.node(item, at, &path.clone().index(index), faults);
                }
            }
            Value::Map(entries) => {
                for entry in entries {
                    self.node(&mut entry.node, entry.at, &path.clone().key(&entry.key), faults);
                }
            }
        }
    }

    /// One pass: what a reference brings is not looked at again.
    fn text(&self, text: &str) -> Result<String, String> {
        let (mut out, mut rest) = (String::with_capacity(text.len()), text);
        while let Some(start) = rest.find("${") {
            let (before, reference) = (&rest[..start], &rest[start + 2..]);
            if let Some(before) = before.strip_suffix('$') {
                out.push_str(before);
                out.push_str("${");
                rest = reference;
                continue;
            }
            let (name, after) =
                reference.split_once('}').ok_or("`${` without its `}`; write `$${` where a plain `${` is meant")?;
            out.push_str(before);
            out.push_str(&self.reference(name)?);
            rest = after;
        }
        out.push_str(rest);
        Ok(out)
    }

    fn reference(&self, reference: &str) -> Result<String, String> {
        match reference.split_once(':') {
            Some(("env", name)) => {
                let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
                if !is_name {
                    return Err(
                        "`${env:…}` needs the name of an environment variable, letters, digits and _".to_owned()
                    );
                }
                (self.env)(name).ok_or_else(|| format!("the environment variable {name} is not set"))
            }
            Some(("file", path)) => self.file(path),
            // Not quoted: it may be a piece of a password.
            _ => Err("unknown `${…}`; allowed: ${env:NAME}, ${file:PATH}; write `$${` where a plain `${` is meant"
                .to_owned()),
        }
    }

    fn file(&self, path: &str) -> Result<String, String> {
        let full = self.beside.join(path);
        let bytes = std::fs::read(&full).map_err(|error| {
            format!("the file {} of ${{file:{path}}} cannot be read: {}", full.display(), reason(&error))
        })?;
        let text = String::from_utf8(bytes).map_err(|_| format!("the file {} is not UTF-8 text", full.display()))?;
        let end = text.strip_suffix('\n').map_or(text.as_str(), |text| text.strip_suffix('\r').unwrap_or(text));
        Ok(end.to_owned())
    }
}

/// The system's reason in words, without its error number.
pub(super) fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such file".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        std::io::ErrorKind::IsADirectory => "it is a directory".to_owned(),
        _ => error.to_string(),
    }
}
