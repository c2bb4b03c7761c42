//! `ratelimit_config_check`, the checker of envoyproxy/ratelimit, by its name and flags.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// What the checker is called; a link of this name to `tidegate` is it.
const NAME: &str = "ratelimit_config_check";

/// The flags are not its own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}; usage: {NAME} -config_dir FOLDER [-merge_domain_configs]")]
pub struct Usage(String);

/// The same arguments, or those of `tidegate check` if the program is called by the checker's name.
pub(super) fn translated(
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<Vec<OsString>, Usage> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let mut all = arguments.iter();
    let name = all.next().and_then(|program| Path::new(program).file_name());
    if name == Some(OsStr::new(NAME)) { check(all) } else { Ok(arguments) }
}

fn check<'a>(mut arguments: impl Iterator<Item = &'a OsString>) -> Result<Vec<OsString>, Usage> {
    let (mut folder, mut merge) = (None, OsString::from("false"));
    while let Some(argument) = arguments.next() {
        match flag(argument)? {
            ("config_dir", None) => folder = arguments.next().cloned(),
            ("config_dir", Some(value)) => folder = Some(value.into()),
            ("merge_domain_configs", value) => merge = value.unwrap_or("true").into(),
            ("h" | "help", _) => return Err(Usage("asked for help".to_owned())),
            (other, _) => return Err(Usage(format!("unknown flag `-{}`", other.escape_debug()))),
        }
    }
    let folder = folder.ok_or_else(|| Usage("`-config_dir` is missing".to_owned()))?;
    let mut merges = OsString::from("--merge-domain-config=");
    merges.push(merge);
    Ok(vec![NAME.into(), "check".into(), merges, "--".into(), folder])
}

/// As Go reads a flag: one dash or two, its value after `=`.
fn flag(argument: &OsStr) -> Result<(&str, Option<&str>), Usage> {
    let text = argument.to_str().unwrap_or_default();
    let Some(flag) = text.strip_prefix("--").or_else(|| text.strip_prefix('-')) else {
        return Err(Usage(format!("found `{}`", argument.display())));
    };
    Ok(flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translate(line: &str) -> Result<String, String> {
        let arguments = translated(line.split(' ').map(OsString::from));
        let arguments = arguments.map_err(|error| error.to_string())?;
        Ok(arguments.join(OsStr::new(" ")).into_string().unwrap())
    }

    #[test]
    fn the_checkers_flags_become_those_of_check() {
        for (line, check) in [
            ("-config_dir /d", "--merge-domain-config=false -- /d"),
            ("--config_dir=/d", "--merge-domain-config=false -- /d"),
            ("-config_dir /d -merge_domain_configs", "--merge-domain-config=true -- /d"),
            ("-merge_domain_configs=F -config_dir -d", "--merge-domain-config=F -- -d"),
        ] {
            let expected = format!("ratelimit_config_check check {check}");
            assert_eq!(translate(&format!("/bin/ratelimit_config_check {line}")), Ok(expected));
        }
    }

    #[test]
    fn flags_that_are_not_its_own_are_refused() {
        for (line, why) in [
            ("-merge_domain_configs", "`-config_dir` is missing"),
            ("-config_dir", "`-config_dir` is missing"),
            ("-config_file /d", "unknown flag `-config_file`"),
            ("/d", "found `/d`"),
        ] {
            let error = translate(&format!("ratelimit_config_check {line}")).unwrap_err();
            assert!(error.starts_with(why) && error.contains("usage: "), "{error}");
        }
    }

    #[test]
    fn by_any_other_name_nothing_changes() {
        for line in ["/bin/ratelimit", "tidegate check -config_dir", "/ratelimit_config_check/t -x"]
        {
            assert_eq!(translate(line), Ok(line.to_owned()));
        }
    }
}
