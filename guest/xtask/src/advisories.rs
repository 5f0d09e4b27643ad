//! `cargo xtask advisories`: a snapshot of the RustSec advisory database, for checks without a
//! network. The snapshot has the advisories for the crates in `Cargo.lock`. It also has the names
//! of all crates with advisories, because a new dependency may make the selection incomplete.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};

use crate::build::{self, root, step, target};

/// The age of a snapshot in days above which a warning asks for a new one.
const MAX_AGE_DAYS: u64 = 120;
/// The folder below its database path in which cargo-deny 0.20 looks for the default database. The
/// digits are a hash of the URL. With another name, cargo-deny finds no database, and fails.
const DATABASE_FOLDER: &str = "advisory-db-3157b0e258782691";
/// The fields of an advisory that the snapshot keeps. cargo-deny needs them to match and to
/// describe it.
const FIELDS: [&str; 9] = [
    "id",
    "package",
    "date",
    "license",
    "informational",
    "withdrawn",
    "aliases",
    "patched",
    "unaffected",
];
/// The line before the fields of an advisory.
const BEGIN: &str = "```toml";
/// The line after the fields of an advisory.
const END: &str = "```";
/// The command that creates a new snapshot.
const RENEW: &str = "cargo xtask advisories DIR";

/// A snapshot of the advisory database.
#[derive(Debug, PartialEq, Eq)]
struct Snapshot {
    /// The commit of the database.
    commit: String,
    /// The date of the commit, as in 2026-01-31.
    date: String,
    /// The names of all crates with advisories, including those that the snapshot leaves out.
    names: BTreeSet<String>,
    /// The advisories for the selected crates, by id.
    advisories: BTreeMap<String, String>,
}

/// Returns the folder of the snapshot.
fn folder() -> PathBuf {
    root().join("guest/xtask/advisories")
}

/// Replaces the snapshot by one of the database in `database`, a git checkout.
pub(crate) fn renew(database: &Path) -> Result<()> {
    let crates = database.join("crates");
    ensure!(
        crates.is_dir(),
        "no advisory database in {}: the folder `crates` is missing",
        database.display()
    );
    let git = Command::new("git")
        .arg("-C")
        .arg(database)
        .args(["log", "--max-count=1", "--format=%H %cs"])
        .output()
        .context("git cannot be started")?;
    let version = String::from_utf8(git.stdout)?;
    let (commit, date) = version
        .trim()
        .split_once(' ')
        .with_context(|| format!("{} is not a git checkout", database.display()))?;
    let locked = locked_crates(&read(&root().join("Cargo.lock"))?);
    let (mut names, mut advisories) = (BTreeSet::new(), BTreeMap::new());
    for entry in std::fs::read_dir(&crates)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        for file in std::fs::read_dir(entry.path())? {
            let path = file?.path();
            if path.extension().is_none_or(|extension| extension != "md") {
                continue;
            }
            names.insert(name.clone());
            if locked.contains(&name) {
                let reduced = reduce(&read(&path)?)
                    .with_context(|| format!("not an advisory: {}", path.display()))?;
                let id = field(&reduced, "id").context("an advisory has no id")?.to_owned();
                advisories.insert(id, reduced);
            }
        }
    }
    let snapshot = Snapshot { commit: commit.to_owned(), date: date.to_owned(), names, advisories };
    let (list, text) = snapshot.files();
    std::fs::write(folder().join("crates.txt"), list)?;
    std::fs::write(folder().join("advisories.txt"), text)?;
    eprintln!("Wrote {} in {}.", snapshot.describe(), folder().display());
    Ok(())
}

/// Checks the dependencies against the snapshot with cargo-deny, whose program is `deny`. Needs no
/// network. Fails if the snapshot was not made for all crates in `Cargo.lock`.
pub(crate) fn check(deny: &Path) -> Result<()> {
    let snapshot = Snapshot::parse(
        &read(&folder().join("crates.txt"))?,
        &read(&folder().join("advisories.txt"))?,
    )?;
    let locked = locked_crates(&read(&root().join("Cargo.lock"))?);
    let missing = snapshot.missing(&locked);
    ensure!(
        missing.is_empty(),
        "the snapshot of advisories leaves out those for {}: run `{RENEW}`",
        missing.join(", ")
    );
    step!("Checking {}.", snapshot.describe());
    let age = snapshot.age_days(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())?;
    if age > MAX_AGE_DAYS {
        eprintln!("warning: the snapshot of advisories is {age} days old: run `{RENEW}`");
    }
    let path = target().join("advisories");
    snapshot.unpack(&path.join(DATABASE_FOLDER))?;
    // cargo-deny has no option for the path of the database.
    let rules = read(&root().join("deny.toml"))?;
    let table = "[advisories]\n";
    ensure!(rules.contains(table), "deny.toml has no table [advisories]");
    let configuration = path.join("deny.toml");
    let with_path = format!("{table}db-path = {:?}\n", path.display().to_string());
    std::fs::write(&configuration, rules.replacen(table, &with_path, 1))?;
    build::run(
        Command::new(deny)
            .current_dir(root())
            .args(["--workspace", "--offline", "--log-level", "warn", "--config"])
            .arg(&configuration)
            .args(["check", "advisories"]),
    )
    .context("the dependencies have advisories: update them, or add them to `ignore` in deny.toml")
}

impl Snapshot {
    /// Parses the files that [`Self::files`] returned.
    fn parse(list: &str, text: &str) -> Result<Self> {
        let mut parts = text.split(BEGIN);
        let header = parts.next().unwrap_or_default();
        let header_field = |name| {
            let value = field(header, name).map(str::to_owned);
            value
                .with_context(|| format!("the snapshot of advisories has no {name}: run `{RENEW}`"))
        };
        let advisories = parts.map(|part| {
            let id = field(part, "id").context("an advisory in the snapshot has no id")?;
            Ok((id.to_owned(), format!("{BEGIN}{}\n", part.trim_end())))
        });
        Ok(Self {
            commit: header_field("commit")?,
            date: header_field("date")?,
            names: list.lines().map(str::to_owned).collect(),
            advisories: advisories.collect::<Result<_>>()?,
        })
    }

    /// Returns the list of crates and the advisories as the contents of their files.
    fn files(&self) -> (String, String) {
        let list = self.names.iter().fold(String::new(), |list, name| list + name + "\n");
        let mut text = format!("commit = \"{}\"\ndate = \"{}\"\n", self.commit, self.date);
        for advisory in self.advisories.values() {
            let _ = write!(text, "\n{advisory}");
        }
        (list, text)
    }

    /// Returns the number of advisories and the version of the database, for people.
    fn describe(&self) -> String {
        let Self { commit, date, advisories, .. } = self;
        let short = commit.get(..10).unwrap_or(commit);
        format!("{} advisories, a snapshot of {date} (commit {short})", advisories.len())
    }

    /// Returns the names in `locked` whose advisories exist but are not part of the snapshot.
    fn missing(&self, locked: &BTreeSet<String>) -> Vec<String> {
        let selected: BTreeSet<_> =
            self.advisories.values().filter_map(|text| field(text, "package")).collect();
        let has_left_out =
            |name: &&String| self.names.contains(*name) && !selected.contains(name.as_str());
        locked.iter().filter(has_left_out).cloned().collect()
    }

    /// Returns the age of the snapshot in days at `now`, in seconds since 1970.
    fn age_days(&self, now: u64) -> Result<u64> {
        let numbers: Vec<u64> = self.date.split('-').filter_map(|part| part.parse().ok()).collect();
        let [year, month @ 1..=12, day] = numbers[..] else {
            bail!("the date of the snapshot of advisories is not a date: {}", self.date)
        };
        // Years begin in March here, so that the leap day is the last one of its year.
        let (years, months) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
        let days = years * 365 + years / 4 - years / 100 + years / 400 + (months * 153 + 2) / 5;
        // 1970-01-01 is day 719,468 in this count, whose first day is number 0.
        Ok((now / 86_400).saturating_sub((days + day).saturating_sub(719_469)))
    }

    /// Writes the advisories to `database` in the layout of the advisory database.
    fn unpack(&self, database: &Path) -> Result<()> {
        // An earlier snapshot may have advisories that were removed since.
        if database.exists() {
            std::fs::remove_dir_all(database)?;
        }
        let crates = database.join("crates");
        std::fs::create_dir_all(&crates)?;
        for (id, text) in &self.advisories {
            std::fs::write(crates.join(format!("{id}.md")), text)?;
        }
        // cargo-deny reads the time of this file, the last fetch, and no other file of git.
        std::fs::create_dir_all(database.join(".git"))?;
        std::fs::write(database.join(".git/FETCH_HEAD"), "")?;
        Ok(())
    }
}

/// Returns the fields and the title of an advisory. `None` if it is not one.
fn reduce(advisory: &str) -> Option<String> {
    let (_, text) = advisory.split_once(BEGIN)?;
    let (fields, description) = text.split_once(&format!("\n{END}"))?;
    let title = description.lines().find(|line| line.starts_with("# "))?;
    // Licences other than that of the database require a link to the source.
    let is_imported = field(fields, "license").is_some();
    let (mut kept, mut is_kept, mut depth) = (String::new(), false, 0_usize);
    for line in fields.lines() {
        // A value in brackets can continue on further lines.
        if depth == 0 {
            let name = line.split('=').next().unwrap_or_default().trim();
            is_kept = FIELDS.contains(&name)
                || (is_imported && name == "url")
                || matches!(name, "[advisory]" | "[versions]");
        }
        if is_kept {
            kept = kept + line + "\n";
        }
        if depth > 0 || line.contains('=') {
            depth = (depth + line.matches('[').count()).saturating_sub(line.matches(']').count());
        }
    }
    Some(format!("{BEGIN}\n{kept}{END}\n\n{title}\n"))
}

/// Returns the value of the first line `name = "value"`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (found, value) = line.split_once('=')?;
        value.trim().strip_prefix('"')?.split('"').next().filter(|_| found.trim() == name)
    })
}

/// Returns the names of the packages in the text of a `Cargo.lock`.
fn locked_crates(lock: &str) -> BTreeSet<String> {
    let name = |line: &str| Some(line.strip_prefix("name = \"")?.strip_suffix('"')?.to_owned());
    lock.lines().filter_map(name).collect()
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADVISORY: &str = r#"```toml
[advisory]
id = "RUSTSEC-2020-0001"
package = "one"
date = "2020-01-31"
url = "https://example.com/one"
references = [
    "https://example.com/[two]",
]
aliases = ["CVE-1"]

[affected.functions]
"one::two" = ["< 2.0.0"]

[versions]
patched = [
    ">= 1.2.0",
]
```

# One is unsound

It reads "id = 7".
"#;

    fn snapshot() -> Snapshot {
        let text = reduce(ADVISORY).unwrap();
        Snapshot {
            commit: "0123456789abcdef".to_owned(),
            date: "2026-03-01".to_owned(),
            names: ["one".to_owned(), "two".to_owned()].into(),
            advisories: [("RUSTSEC-2020-0001".to_owned(), text)].into(),
        }
    }

    #[test]
    fn advisories_keep_what_decides() {
        let expected = "```toml\n[advisory]\nid = \"RUSTSEC-2020-0001\"\npackage = \"one\"\n\
            date = \"2020-01-31\"\naliases = [\"CVE-1\"]\n[versions]\npatched = [\n    \
            \">= 1.2.0\",\n]\n```\n\n# One is unsound\n";
        assert_eq!(reduce(ADVISORY).unwrap(), expected);
        let imported = ADVISORY.replace("url =", "license = \"CC-BY-4.0\"\nurl =");
        assert!(reduce(&imported).unwrap().contains("url = \"https://example.com/one\""));
        assert_eq!(reduce("# No fields"), None);
    }

    #[test]
    fn snapshot_survives_its_files() {
        let (list, text) = snapshot().files();
        assert_eq!(Snapshot::parse(&list, &text).unwrap(), snapshot());
        assert!(Snapshot::parse(&list, "").is_err());
    }

    #[test]
    fn left_out_advisories_are_missing() {
        let locked = locked_crates("[[package]]\nname = \"one\"\n\n[[package]]\nname = \"two\"\n");
        assert_eq!(snapshot().missing(&locked), ["two"]);
        assert!(snapshot().missing(&["one".to_owned(), "three".to_owned()].into()).is_empty());
    }

    #[test]
    fn age_counts_days() {
        let at = |date: &str, now: u64| {
            Snapshot { date: date.to_owned(), ..snapshot() }.age_days(now).unwrap()
        };
        assert_eq!(at("1970-01-01", 0), 0);
        assert_eq!(at("1970-01-01", 86_400 * 3), 3);
        // 2024-03-01 is day 19,783 since 1970.
        assert_eq!(at("2024-02-28", 86_400 * 19_783), 2);
        assert_eq!(at("2023-12-31", 86_400 * 19_783), 61);
        assert!(Snapshot { date: "soon".to_owned(), ..snapshot() }.age_days(0).is_err());
    }
}
