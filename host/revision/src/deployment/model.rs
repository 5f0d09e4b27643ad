//! Model tests: loom runs every order in which the operations of two or three threads can happen.

use std::sync::Arc;

use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::thread;

use super::{DeploymentTable, Numbered, Withdrawal};

/// The maximum number of retained revisions.
const KEEP: usize = 2;

struct Model(u64);

impl Numbered for Model {
    fn number(&self) -> u64 {
        self.0
    }
}

type Table = DeploymentTable<Model, Model>;

/// Returns a table in which the revisions up to `last` were deployed one after the other.
fn table(last: u64) -> Arc<Table> {
    let table = Table::new(Arc::new(Model(1)));
    (2..=last).for_each(|number| deploy(&table, number));
    Arc::new(table)
}

fn deploy(table: &Table, number: u64) {
    let permit = table.begin_change();
    let revision = Arc::new(Model(number));
    table.keep(&permit, &revision, KEEP);
    table.activate(&permit, &revision, true);
}

/// Withdraws a revision as a failed call does, which never waits. Returns true if that rolled back.
fn fail(table: &Table, number: u64) -> bool {
    let Some(permit) = table.try_begin_change() else { return false };
    matches!(table.withdraw(&permit, number), Some(Withdrawal::Active { .. }))
}

fn promote(table: &Table, judged: u64) {
    let permit = table.begin_change();
    if let Some(trial) = table.promotable(&permit, Some(judged)) {
        table.keep(&permit, &trial, KEEP);
        table.activate(&permit, &trial, true);
    }
}

fn active(table: &Table) -> u64 {
    table.current().active.number()
}

#[test]
fn failures_roll_back_once() {
    loom::model(|| {
        let (table, rollbacks) = (table(3), Arc::new(AtomicUsize::new(0)));
        let fail_once = |table: Arc<Table>, rollbacks: Arc<AtomicUsize>| {
            move || rollbacks.fetch_add(usize::from(fail(&table, 3)), Ordering::SeqCst)
        };
        let other = thread::spawn(fail_once(Arc::clone(&table), Arc::clone(&rollbacks)));
        fail_once(Arc::clone(&table), Arc::clone(&rollbacks))();
        other.join().unwrap();
        assert_eq!((rollbacks.load(Ordering::SeqCst), active(&table)), (1, 2));
    });
}

#[test]
fn failure_of_one_revision_spares_the_next() {
    loom::model(|| {
        let table = table(2);
        let deploying = Arc::clone(&table);
        let other = thread::spawn(move || deploy(&deploying, 3));
        let is_rolled_back = fail(&table, 2);
        other.join().unwrap();
        let current = table.current();
        assert_eq!(current.active.number(), 3);
        // A revision that was rolled back is never used again.
        let standby = current.standby.as_ref().map(|standby| standby.number());
        assert_eq!(standby, Some(if is_rolled_back { 1 } else { 2 }));
    });
}

#[test]
fn requests_have_one_live_revision() {
    loom::model(|| {
        let (table, is_over) = (table(2), Arc::new(AtomicBool::new(false)));
        let (failing, over) = (Arc::clone(&table), Arc::clone(&is_over));
        let other = thread::spawn(move || {
            if fail(&failing, 2) {
                over.store(true, Ordering::SeqCst);
            }
            deploy(&failing, 3);
        });
        let was_over = is_over.load(Ordering::SeqCst);
        let current = table.current_full();
        let (active, standby) = (current.active.number(), current.standby.as_ref());
        assert!(!was_over || active != 2, "a revision was used after its rollback");
        assert!(standby.is_none_or(|standby| standby.number() < active));
        other.join().unwrap();
        // The request still has the revision that began it, also if it was replaced meanwhile.
        assert_eq!(current.active.number(), active);
        let kept = table.kept();
        assert!(
            kept.len() <= KEEP && kept.iter().any(|(kept, sound)| kept.number() == 3 && *sound)
        );
    });
}

#[test]
fn verdict_promotes_only_its_trial() {
    loom::model(|| {
        let table = table(1);
        table.begin_trial(&table.begin_change(), Arc::new(Model(2)));
        let deploying = Arc::clone(&table);
        let other = thread::spawn(move || {
            let permit = deploying.begin_change();
            deploying.end_trial(&permit, 2);
            deploying.begin_trial(&permit, Arc::new(Model(3)));
        });
        promote(&table, 2);
        other.join().unwrap();
        assert_ne!(active(&table), 3, "a revision became active without a verdict");
        assert_eq!(table.current().trial.as_ref().map(|trial| trial.number()), Some(3));
    });
}

#[test]
fn failure_withdraws_a_trial_or_its_promotion() {
    loom::model(|| {
        let table = table(1);
        table.begin_trial(&table.begin_change(), Arc::new(Model(2)));
        let failing = Arc::clone(&table);
        let other = thread::spawn(move || failing.withdraw(&failing.begin_change(), 2).is_some());
        promote(&table, 2);
        assert!(other.join().unwrap());
        assert_eq!((active(&table), table.current().trial.is_none()), (1, true));
    });
}

#[test]
fn discarded_revision_is_no_standby() {
    loom::model(|| {
        let table = table(2);
        table.discard(&table.begin_change(), 1);
        assert!(table.current().standby.is_none());
        deploy(&table, 3);
        // Only a standby is replaced.
        table.discard(&table.begin_change(), 3);
        let current = table.current();
        let standby = current.standby.as_ref().map(|standby| standby.number());
        assert_eq!((current.active.number(), standby), (3, Some(2)));
    });
}
