//! YAML text to a tree. Scalars stay the text they are: what a queue called `on` or `007` means is for its key to say.

use std::collections::HashMap;

use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span, Tag, options};

use super::{
    fault::Fault,
    path::Path,
    tree::{At, Entry, Node, Scalar, Value},
};

/// More values than any configuration has; a bomb of aliases stops here.
const NODES_MAX: usize = 100_000;

/// Never quotes the text: a line that does not parse may hold a password.
pub(super) fn parse(text: &str) -> Result<Node, Fault> {
    let parser = Parser::new_from_str_with_options(text, options! { emit_unresolved_aliases: true });
    let mut builder = Builder { text, events: parser, anchors: HashMap::new(), nodes: 0 };
    builder.document()
}

struct Builder<'a, I> {
    text: &'a str,
    events: I,
    anchors: HashMap<usize, Node>,
    nodes: usize,
}

impl<'a, I: Iterator<Item = Result<(Event<'a>, Span), ScanError>>> Builder<'a, I> {
    fn document(&mut self) -> Result<Node, Fault> {
        let mut root = None;
        while let Some((event, at)) = self.next()? {
            match event {
                Event::StreamStart | Event::StreamEnd | Event::DocumentEnd | Event::DocumentStart(..) => {}
                _ if root.is_some() => return Err(fault(at, "a second document begins here; one file holds one")),
                event => root = Some(self.node(event, at)?),
            }
        }
        let nothing = || Node { at: At::Unknown, value: Value::Map(Vec::new()) };
        Ok(root.filter(|root| !root.is_null()).unwrap_or_else(nothing))
    }

    fn next(&mut self) -> Result<Option<(Event<'a>, At)>, Fault> {
        match self.events.next() {
            None => Ok(None),
            Some(Ok((event, span))) => Ok(Some((event, place(span.start.line(), span.start.col())))),
            Some(Err(error)) => {
                let at = place(error.marker().line(), error.marker().col());
                let line = self.text.lines().nth(error.marker().line().saturating_sub(1)).unwrap_or_default();
                let hint = if line.contains("${") { "; put a value with `${…}` in quotes" } else { "" };
                Err(fault(at, &format!("this is not YAML: {}{hint}", error.info())))
            }
        }
    }

    fn expect_next(&mut self) -> Result<(Event<'a>, At), Fault> {
        self.next()?.ok_or_else(|| fault(At::Unknown, "this is not YAML: it ends too early"))
    }

    fn node(&mut self, event: Event<'a>, at: At) -> Result<Node, Fault> {
        self.count(1, at)?;
        let (anchor, value) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let plain = style == ScalarStyle::Plain && !forces_text(tag.as_deref(), at)?;
                (anchor, Value::Scalar(Scalar { text: text.into_owned(), plain, written: None }))
            }
            Event::SequenceStart(_, anchor, tag) => {
                forces_text(tag.as_deref(), at)?;
                (anchor, self.list()?)
            }
            Event::MappingStart(_, anchor, tag) => {
                forces_text(tag.as_deref(), at)?;
                (anchor, self.map()?)
            }
            Event::Alias(id) => return self.alias(id, at),
            Event::UnresolvedAlias(_) => {
                return Err(fault(at, "`*` begins an alias here, and no such anchor is above; put the text in quotes"));
            }
            _ => return Err(fault(at, "this is not YAML: a value is missing")),
        };
        let node = Node { at, value };
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn list(&mut self) -> Result<Value, Fault> {
        let mut items = Vec::new();
        loop {
            match self.expect_next()? {
                (Event::SequenceEnd, _) => return Ok(Value::List(items)),
                (event, at) => items.push(self.node(event, at)?),
            }
        }
    }

    fn map(&mut self) -> Result<Value, Fault> {
        let (mut entries, mut merged): (Vec<Entry>, Vec<Entry>) = (Vec::new(), Vec::new());
        loop {
            let (event, at) = match self.expect_next()? {
                (Event::MappingEnd, _) => break,
                key => key,
            };
            let key = match self.node(event, at)?.value {
                Value::Scalar(scalar) => scalar,
                _ => return Err(fault(at, "a key must be a text")),
            };
            let (event, value_at) = self.expect_next()?;
            let node = self.node(event, value_at)?;
            if key.plain && key.text == "<<" {
                merged.extend(merge(node)?);
            } else if entries.iter().any(|entry| entry.key == key.text) {
                return Err(Fault::new(Path::default().key(&key.text), at, "this key is given twice"));
            } else {
                entries.push(Entry { key: key.text, at, node });
            }
        }
        for entry in merged {
            if !entries.iter().any(|own| own.key == entry.key) {
                entries.push(entry);
            }
        }
        Ok(Value::Map(entries))
    }

    fn alias(&mut self, id: usize, at: At) -> Result<Node, Fault> {
        let anchored = self.anchors.get(&id).cloned();
        let node = anchored.ok_or_else(|| fault(at, "this alias refers to a value that contains it"))?;
        self.count(size(&node), at)?;
        Ok(Node { at, value: node.value })
    }

    fn count(&mut self, nodes: usize, at: At) -> Result<(), Fault> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes > NODES_MAX {
            Err(fault(at, "more than 100000 values; this is no configuration"))
        } else {
            Ok(())
        }
    }
}

/// What `<<` brings into a section: another section, or a list of them, the first of which wins.
fn merge(node: Node) -> Result<Vec<Entry>, Fault> {
    match node.value {
        Value::Map(entries) => Ok(entries),
        Value::List(items) => Ok(items.into_iter().map(merge).collect::<Result<Vec<_>, _>>()?.concat()),
        Value::Scalar(_) | Value::Absent => Err(fault(node.at, "`<<` takes a section or a list of sections")),
    }
}

/// Whether a tag makes a plain scalar a text. Tags of applications mean nothing here.
fn forces_text(tag: Option<&Tag>, at: At) -> Result<bool, Fault> {
    match tag {
        None => Ok(false),
        Some(tag) if tag.is_yaml_core_schema() && !tag.is_yaml_core_schema_tag("binary") => {
            Ok(tag.is_yaml_core_schema_tag("str"))
        }
        Some(_) => Err(fault(at, "`!` begins a tag here, and none is known; put the text in quotes")),
    }
}

fn size(node: &Node) -> usize {
    match &node.value {
        Value::Scalar(_) | Value::Absent => 1,
        Value::List(items) => 1 + items.iter().map(size).sum::<usize>(),
        Value::Map(entries) => 1 + entries.iter().map(|entry| size(&entry.node)).sum::<usize>(),
    }
}

fn place(line: usize, column_from_zero: usize) -> At {
    At::Line { line, column: column_from_zero + 1 }
}

fn fault(at: At, message: &str) -> Fault {
    Fault::new(Path::default(), at, message)
}
