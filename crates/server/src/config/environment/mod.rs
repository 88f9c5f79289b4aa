//! Settings from environment variables and flags, which override those of files.

mod reference;
mod reference_table;
mod variables;

use core::fmt;

pub(super) use reference::Reference;
pub(super) use variables::{flags, standard, variables};

/// The environment variables of a process, or of a test.
#[derive(Clone, Default)]
pub struct Environment {
    list: Vec<(String, String)>,
}

impl Environment {
    /// Returns the variables of this process. Invalid UTF-8 is replaced.
    pub fn of_process() -> Self {
        let text = |value: std::ffi::OsString| value.to_string_lossy().into_owned();
        std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect()
    }

    /// Returns the value of a variable. An empty value counts as absent.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.list.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(|(name, _)| name.as_str())
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values may be passwords, and most belong to other programs.
        f.debug_list().entries(self.names()).finish()
    }
}

impl FromIterator<(String, String)> for Environment {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(variables: I) -> Self {
        let mut list: Vec<_> = variables.into_iter().collect();
        list.sort();
        Self { list }
    }
}
