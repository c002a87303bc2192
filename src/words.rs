//! Macros for options that are read and written as text, including options with a fixed set of named
//! values, and lists of names as text.

/// Joins names as alternatives: `a, b or c`.
pub fn either(words: &[&str]) -> String {
    match words {
        [others @ .., last] if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => words.concat(),
    }
}

/// Declares an enum whose variants are read and written under fixed names, such as the values of an option.
#[doc(hidden)]
#[macro_export]
macro_rules! word_option {
    ($(#[$doc:meta])* $name:ident, $what:literal { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $word)] $variant),+ }

        impl $name {
            /// The names of all values; the first is the default.
            #[doc(hidden)]
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// Returns the name of the value, as text and files spell it.
            #[doc(hidden)]
            pub const fn word(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.word())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::error::Error;
            fn from_str(text: &str) -> $crate::error::Result<Self> {
                match text {
                    $($word => Ok($name::$variant),)+
                    _ => Err($crate::error::Error::usage(format!(
                        "{} '{text}' is not one of {}", $what, Self::WORDS.join(", ")
                    ))),
                }
            }
        }
    };
}

/// Stores a type that is written as text and parsed from it as that text (`#[serde(try_from = "String", into = "String")]`).
macro_rules! stored_as_text {
    ($name:ident) => {
        impl TryFrom<String> for $name {
            type Error = $crate::error::Error;

            fn try_from(text: String) -> $crate::error::Result<Self> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> String {
                value.to_string()
            }
        }
    };
}

pub(crate) use {stored_as_text, word_option};
