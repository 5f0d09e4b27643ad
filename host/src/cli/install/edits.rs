//! The edit of one client file, before and after it is written.

use std::path::{Path, PathBuf};

use context_guard_install::{
    Document, FileState, Guard, Journal, Location, Plan, ServerState, UndoResult, read_file,
    replace_servers, undo, wrap,
};

use super::gateway::GatewayPlan;

/// The kind of edit that the command line selects.
pub(super) enum Action {
    Wrap(Guard),
    Gateway(Box<GatewayPlan>),
    Undo,
}

impl Action {
    pub(super) fn writes_gateway(&self) -> bool {
        matches!(self, Self::Gateway(plan) if plan.is_new())
    }

    /// Writes the gateway file if it does not exist.
    pub(super) fn write_gateway(&self) -> anyhow::Result<()> {
        match self {
            Self::Gateway(plan) => plan.write(),
            _ => Ok(()),
        }
    }
}

/// The result of planning an edit.
pub(super) enum Outcome {
    Plan(Plan),
    Undo(UndoResult),
    Failed(String),
}

/// A server that remains as it is, with the reason.
pub(super) struct Unchanged {
    pub(super) name: String,
    pub(super) reason: String,
}

/// The edit of one file.
pub(super) struct FileEdit {
    pub(super) location: Location,
    pub(super) outcome: Outcome,
    pub(super) unchanged: Vec<Unchanged>,
    /// The names of all servers in the file.
    pub(super) names: Vec<String>,
    /// The names of the servers to which `--undo` is limited. `None` for all.
    pub(super) undone_names: Option<Vec<String>>,
    /// True if the file has no member with servers, also if it cannot be parsed.
    is_unrelated: bool,
    pub(super) state: Option<FileState>,
    /// The backup of the file. `None` before the file was written, and after an undo.
    pub(super) backup: Option<PathBuf>,
    /// The backups of undone edits whose bytes the file does not have again.
    pub(super) remaining_backups: Vec<PathBuf>,
}

impl FileEdit {
    /// Reads a file and plans its edit. An error is part of the result, because the other files can
    /// still be edited.
    pub(super) fn plan(
        location: Location,
        action: &Action,
        names: &[String],
        roots: &[&Path],
        journal: &Journal,
    ) -> Self {
        let mut edit = Self {
            location,
            outcome: Outcome::Failed(String::new()),
            unchanged: Vec::new(),
            names: Vec::new(),
            undone_names: (!names.is_empty()).then(|| names.to_vec()),
            is_unrelated: false,
            state: None,
            backup: None,
            remaining_backups: Vec::new(),
        };
        edit.outcome = match edit.try_plan(action, names, roots, journal) {
            Ok(outcome) => outcome,
            Err(error) => Outcome::Failed(error.to_string()),
        };
        edit
    }

    fn try_plan(
        &mut self,
        action: &Action,
        names: &[String],
        roots: &[&Path],
        journal: &Journal,
    ) -> context_guard_install::Result<Outcome> {
        let client = self.location.client;
        let state = read_file(&self.location.path, roots)?;
        let is_settings = self.location.path.ends_with("settings.json");
        if is_settings && !Document::may_have_servers(client, &state.bytes) {
            self.is_unrelated = true;
        }
        let document = Document::parse(client, &state.bytes)?;
        let is_selected = |name: &str| names.is_empty() || names.iter().any(|one| one == name);
        let servers = document.servers();
        self.names = servers.iter().map(|server| server.name.clone()).collect();
        let outcome = match action {
            Action::Wrap(guard) => Outcome::Plan(wrap(&document, guard, &is_selected)?),
            Action::Gateway(gateway) => {
                let path = &self.location.path;
                let endpoint = gateway.endpoint();
                let is_replaced =
                    |server: &context_guard_install::Server<'_>| gateway.has(path, server);
                Outcome::Plan(replace_servers(&document, &endpoint, &is_replaced)?)
            }
            Action::Undo => {
                let steps = journal.steps(&state.target)?;
                // The servers that a gateway replaced are not in the file.
                let removed = steps.iter().flat_map(|step| &step.record.removed);
                self.names.extend(removed.map(|server| server.name.clone()));
                let selected = (!names.is_empty()).then_some(names);
                Outcome::Undo(undo(client, &state.bytes, &steps, selected)?)
            }
        };
        let changed: Vec<&str> = match &outcome {
            Outcome::Plan(plan) => plan.changes.iter().map(|change| change.name.as_str()).collect(),
            Outcome::Undo(undone) => undone.restored.iter().map(String::as_str).collect(),
            Outcome::Failed(_) => Vec::new(),
        };
        let is_undo = matches!(action, Action::Undo);
        let is_left = |name: &String| match &outcome {
            Outcome::Undo(undone) => undone.left.iter().any(|(left, _)| left == name),
            _ => false,
        };
        for server in servers.iter().filter(|server| !changed.contains(&server.name.as_str())) {
            let reason = match &server.state {
                _ if !is_selected(&server.name) => continue,
                _ if is_left(&server.name) => continue,
                ServerState::Guarded(stdio) if is_undo => match stdio.guarded_command() {
                    Some(_) => {
                        format!("guarded by hand: add --server {} to unwrap it", server.name)
                    }
                    None => "guarded by hand: remove the guard by hand".to_owned(),
                },
                _ if is_undo => continue,
                ServerState::Guarded(_) => match action {
                    Action::Gateway(gateway) => {
                        gateway.difference(&self.location.path, server).to_owned()
                    }
                    _ => "guarded already".to_owned(),
                },
                ServerState::Gateway(_) => "a gateway".to_owned(),
                ServerState::Unsupported(reason) => reason.clone(),
                ServerState::Remote | ServerState::Stdio(_) => match action {
                    Action::Gateway(gateway) => {
                        gateway.difference(&self.location.path, server).to_owned()
                    }
                    _ => "remote: `install --gateway` guards it".to_owned(),
                },
            };
            self.unchanged.push(Unchanged { name: server.name.clone(), reason });
        }
        self.state = Some(state);
        Ok(outcome)
    }

    /// Returns true if the file contains settings of an editor, and no servers.
    pub(super) fn is_unrelated(&self) -> bool {
        let is_settings = self.location.path.ends_with("settings.json");
        self.is_unrelated || is_settings && self.names.is_empty() && !self.is_failed()
    }

    /// Returns the path of the file with all links resolved. `None` if it was not read.
    pub(super) fn target(&self) -> Option<&PathBuf> {
        self.state.as_ref().map(|state| &state.target)
    }

    /// Returns true if the file cannot be edited.
    pub(super) fn is_failed(&self) -> bool {
        matches!(self.outcome, Outcome::Failed(_))
    }

    /// Returns true if the edit writes the file.
    pub(super) fn is_change(&self) -> bool {
        match &self.outcome {
            Outcome::Plan(plan) => !plan.changes.is_empty(),
            Outcome::Undo(undone) => !undone.restored.is_empty(),
            Outcome::Failed(_) => false,
        }
    }
}
