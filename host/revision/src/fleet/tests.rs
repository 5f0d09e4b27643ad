//! Tests of the board.

use super::*;

const FIELD: &str = "rollback-r";

fn record() -> Record {
    Record { reason: "r".to_owned(), by: "a".to_owned(), at: 1, target: Target::default() }
}

fn board(names: &[&str]) -> Vec<(String, bytes::Bytes)> {
    let value = bytes::Bytes::from(serde_json::to_vec(&record()).unwrap());
    names.iter().map(|name| ((*name).to_owned(), value.clone())).collect()
}

#[test]
fn forgotten_rollback_is_not_written() {
    let mut state = BoardState::default();
    state.pending.push((FIELD.to_owned(), record()));
    state.pending.push(("rollback-other".to_owned(), record()));
    state.forget(ROLLBACK, |id| id == "r");
    assert_eq!(state.pending, [("rollback-other".to_owned(), record())]);
    assert!(state.removed.is_empty());
}

#[test]
fn rollback_forgotten_during_an_exchange_is_removed() {
    let mut state = BoardState { in_flight: vec![FIELD.to_owned()], ..Default::default() };
    state.forget(ROLLBACK, |id| id == "r");
    state.read(&board(&[FIELD, "rollback-other"]));
    assert_eq!(state.rollbacks.keys().collect::<Vec<_>>(), ["other"]);
    assert_eq!(state.removed, [FIELD]);
    // The exchange may also have failed.
    let mut state = BoardState { in_flight: vec![FIELD.to_owned()], ..Default::default() };
    state.forget(ROLLBACK, |id| id == "r");
    state.retry(vec![(FIELD.to_owned(), record())], Vec::new());
    assert!(state.pending.is_empty() && state.in_flight.is_empty());
}

#[test]
fn forgotten_promotion_is_not_written() {
    let mut state = BoardState::default();
    state.pending.push(("promotion-r".to_owned(), record()));
    state.pending.push((FIELD.to_owned(), record()));
    state.forget(PROMOTION, |id| id != "s");
    assert_eq!(state.pending, [(FIELD.to_owned(), record())]);
}

#[test]
fn target_that_was_rolled_back_is_followed() {
    let target = |id: &str| Target { id: id.to_owned(), ..Target::default() };
    let to = |id: &str| Record { target: target(id), ..record() };
    let fleet = FleetState::default();
    fleet.state().rollbacks.extend([("r".to_owned(), to("t")), ("t".to_owned(), to("s"))]);
    assert_eq!(fleet.next_target("r", &to("t")), Some(target("s")));
    // A refused deployment is not repeated, until another target replaces it.
    assert_eq!(fleet.next_target("r", &to("t")), None);
    fleet.state().rollbacks.insert("s".to_owned(), to("q"));
    assert_eq!(fleet.next_target("r", &to("t")), Some(target("q")));
    fleet.state().rollbacks.insert("q".to_owned(), to("r"));
    assert_eq!(fleet.next_target("r", &to("t")), None);
}
