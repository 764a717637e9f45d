//! From a tree to typed sections, with every fault found on the way.

mod deserializer;
mod error;

use serde::de::DeserializeOwned;

use self::error::Problem;
use super::{
    fault::{Fault, did_you_mean},
    path::Path,
    tree::Node,
};

/// Scalars that may hold a secret deserialize as a newtype of this name, so that no error shows what was given.
pub(super) const SECRET: &str = "secret";

/// Enough to see that it is some other file.
const FAULTS_MAX: usize = 100;

/// What came of reading a tree.
pub(super) struct Reading<T> {
    /// The value without its faulty parts; none where the root itself is at fault.
    pub(super) value: Option<T>,
    pub(super) faults: Vec<Fault>,
    /// Apart from keys that are not known the value is what was written: other checks mean something.
    pub(super) only_unknown_keys: bool,
}

/// Reads a whole tree. A faulty value is noted, taken out, and the reading begins again, so that one run finds all
/// faults. Values that were `found` faulty before are taken out first.
pub(super) fn read<T: DeserializeOwned>(original: &Node, found: Vec<Fault>) -> Reading<T> {
    let mut tree = original.clone();
    let (mut taken_out, mut misspelt): (Vec<Path>, Vec<Path>) = (Vec::new(), Vec::new());
    for fault in &found {
        tree.prune(fault.path());
        taken_out.push(fault.path().clone());
    }
    let mut only_unknown_keys = found.is_empty();
    let mut faults = found;
    loop {
        let error = match T::deserialize(&tree) {
            Ok(value) => return Reading { value: Some(value), faults, only_unknown_keys },
            Err(error) => error,
        };
        only_unknown_keys &= matches!(error.problem, Problem::UnknownKey { .. });
        let path = Path(error.path.iter().rev().cloned().collect());
        if let Problem::UnknownKey { key, allowed } = &error.problem
            && let Some(meant) = did_you_mean(key, allowed.iter().copied())
        {
            let mut sibling = path.clone();
            sibling.0.pop();
            misspelt.push(sibling.key(meant));
        }
        let missing = match error.problem {
            Problem::Missing(name) => Some(path.clone().key(name)),
            _ => None,
        };
        // A required key that is missing only because its own fault took it out has been told already.
        if !missing.as_ref().is_some_and(|key| taken_out.contains(key) || misspelt.contains(key)) {
            faults.push(Fault::new(path.clone(), original.locate(&path), error.message(original, &path)));
        }
        if !tree.prune(&path) || faults.len() >= FAULTS_MAX {
            return Reading { value: None, faults, only_unknown_keys };
        }
        taken_out.push(path);
    }
}
