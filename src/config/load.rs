//! Finds the configuration and reads it.

use std::{
    fmt,
    path::{Path as FilePath, PathBuf},
};

use super::{
    Config, ConfigErrors,
    check::{self, Checks},
    environment,
    expand::{self, expand},
    fault::Fault,
    path::Path,
    pending,
    read::{Reading, read},
    sources::Source,
    tree::{At, Node},
    yaml,
};

/// Looks up an environment variable.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// No configuration is larger; what is, is some other file.
const FILE_MAX: u64 = 4 << 20;

/// Where to look for the configuration.
pub struct LoadOptions<'a> {
    /// `-c FILE`; nothing else is looked at.
    pub file: Option<PathBuf>,
    pub env: Environment<'a>,
    /// Files that are tried in this order when neither `-c` nor `DLO_CONFIG` names one.
    pub usual_files: Vec<PathBuf>,
}

/// How a configuration came to be. Two configurations with the same content are equal wherever they are from.
#[derive(Clone, Debug, Default)]
pub(super) struct Loaded {
    pub(super) file: Option<String>,
    pub(super) warnings: Vec<String>,
}

impl PartialEq for Loaded {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl LoadOptions<'static> {
    /// As the command line does: the process's environment and working directory.
    #[must_use]
    pub fn of_process(file: Option<PathBuf>) -> Self {
        Self {
            file,
            env: &|name| std::env::var(name).ok(),
            usual_files: vec!["dlo.yaml".into(), "/etc/dlo/dlo.yaml".into()],
        }
    }
}

impl fmt::Debug for LoadOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, env: _, usual_files } = self;
        f.debug_struct("LoadOptions").field("file", file).field("usual_files", usual_files).finish_non_exhaustive()
    }
}

impl LoadOptions<'_> {
    fn find(&self) -> Option<PathBuf> {
        let named = || (self.env)("DLO_CONFIG").filter(|name| !name.is_empty()).map(PathBuf::from);
        let usual = || self.usual_files.iter().find(|file| file.exists()).cloned();
        self.file.clone().or_else(named).or_else(usual)
    }
}

impl Config {
    /// Finds, reads and checks the configuration: `-c FILE`, else `DLO_CONFIG`, else a usual place, else the
    /// environment alone.
    pub fn load(options: &LoadOptions<'_>) -> Result<Self, ConfigErrors> {
        match options.find() {
            Some(file) => {
                let name = file.display().to_string();
                let text = read_file(&file).map_err(|fault| ConfigErrors::new(Some(&name), vec![fault]))?;
                let beside = file.parent().unwrap_or_else(|| FilePath::new(""));
                Self::from_text(&text, &name, options.env, beside)
            }
            None => {
                let tree = environment::read(options.env).map_err(|faults| ConfigErrors::new(None, faults))?;
                Self::from_tree(&tree, None, Vec::new(), FilePath::new(""))
            }
        }
    }

    /// Reads the text of a file called `name`; relative paths in it start in the folder `beside`.
    pub fn from_text(text: &str, name: &str, env: Environment<'_>, beside: &FilePath) -> Result<Self, ConfigErrors> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut tree = yaml::parse(text).map_err(|fault| ConfigErrors::new(Some(name), vec![fault]))?;
        let faults = expand(&mut tree, env, beside);
        Self::from_tree(&tree, Some(name), faults, beside)
    }

    fn from_tree(tree: &Node, file: Option<&str>, found: Vec<Fault>, beside: &FilePath) -> Result<Self, ConfigErrors> {
        let Reading { value, mut faults, only_unknown_keys } = read::<Self>(tree, found);
        let Some(mut config) = value else { return Err(ConfigErrors::new(file, faults)) };
        for tls in config.brokers.values_mut().filter_map(|b| b.tls_mut()).chain(config.database.tls.as_mut()) {
            tls.resolve(beside);
        }
        let mut checks = Checks::new(tree);
        // After faults of other kinds the value is not what was written, and its checks would mislead.
        if only_unknown_keys {
            check::check(&config, &mut checks);
        }
        faults.append(&mut checks.faults);
        if !faults.is_empty() {
            return Err(ConfigErrors::new(file, faults));
        }
        config.sources.iter_mut().for_each(Source::spell_out);
        checks.warnings.extend(pending::warnings(tree));
        let warnings = checks.warnings.iter().map(|warning| warning.line(file)).collect();
        config.loaded = Loaded { file: file.map(str::to_owned), warnings };
        Ok(config)
    }
}

impl Config {
    /// For `dlo run`, which without a source would capture nothing and not say so.
    pub fn require_sources(&self) -> Result<(), ConfigErrors> {
        if !self.sources.is_empty() {
            return Ok(());
        }
        let message = match &self.loaded.file {
            Some(_) => {
                "`sources` is empty, so nothing would be captured; the smallest one: { name: orders, broker: rabbit, exchange: dlo, queue: dlo.dead-letters }"
            }
            None => "no source: set DLO_RABBITMQ_URL, or DLO_KAFKA_BROKERS and DLO_KAFKA_TOPICS, or write a dlo.yaml",
        };
        Err(ConfigErrors::new(self.file(), vec![Fault::new(Path::default(), At::Unknown, message)]))
    }
}

fn read_file(file: &FilePath) -> Result<String, Fault> {
    let fault = |message: String| Fault::new(Path::default(), At::Unknown, message);
    let unreadable = |error: std::io::Error| fault(format!("cannot be read: {}", expand::reason(&error)));
    if std::fs::metadata(file).map_err(unreadable)?.len() > FILE_MAX {
        return Err(fault("is larger than 4 MiB; this is no configuration".to_owned()));
    }
    let bytes = std::fs::read(file).map_err(unreadable)?;
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = before.split(|b| *b == b'\n').count();
        let column = before.iter().rev().take_while(|b| **b != b'\n').count() + 1;
        Fault::new(Path::default(), At::Line { line, column }, "is not UTF-8 text from here on")
    })
}
