//! Settings from the environment and from flags, put over those of files.

mod reference;
mod reference_table;
mod variables;

use core::fmt;

pub(super) use reference::Reference;
pub(super) use variables::{flags, standard, variables};

/// The variables of a process, or of a test.
#[derive(Clone, Default)]
pub struct Environment {
    list: Vec<(String, String)>,
}

impl Environment {
    /// Those of this process. What is not UTF-8 is read as far as it is.
    pub fn of_process() -> Self {
        let text = |value: std::ffi::OsString| value.to_string_lossy().into_owned();
        std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect()
    }

    /// The value of a variable; an empty one is as good as none.
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
        // Values may be passwords, and most are none of ours.
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
