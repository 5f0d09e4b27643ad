//! Answers of an upstream that name no request: errors under the id `null` (JSON-RPC 2.0, section
//! 5), and damaged answers. The requests that they answer are found by exclusion.

/// The maximum number of answers without an id that are recorded.
const MAX_REASONS: usize = 64;

/// The answers without an id on one connection, and the requests that they may answer. Requests are
/// identified by numbers that increase in the order of sending.
#[derive(Debug, Default)]
pub(crate) struct UnattributedAnswers {
    /// For each answer without an id, the reason why it is not a valid response.
    reasons: Vec<String>,
    /// The number of the next request when the latest answer without an id arrived. Only earlier
    /// requests may belong to such an answer.
    next: u64,
    /// The number of the next request when the last notification was sent. `None` if a later
    /// request was answered: the upstream has then read the notification and accepted it.
    notified: Option<u64>,
}

impl UnattributedAnswers {
    /// Records that a notification was sent, which has no answer. Some servers reject a
    /// notification with an error without an id. `next` is the number of the next request.
    pub(crate) fn notified(&mut self, next: u64) {
        self.notified = Some(next);
    }

    /// Records that a request was answered under its id.
    pub(crate) fn answered(&mut self, request: u64) {
        self.notified = self.notified.filter(|next| request < *next);
    }

    /// Records that a request was abandoned. Removes the latest answer without an id, which may
    /// have belonged to it.
    pub(crate) fn abandoned(&mut self, request: u64) {
        if request < self.next {
            self.reasons.pop();
        }
    }

    /// Records an answer without an id. `next` is the number of the next request.
    pub(crate) fn received(&mut self, reason: String, next: u64) {
        if self.notified.is_none() && self.reasons.len() < MAX_REASONS {
            self.reasons.push(reason);
            self.next = next;
        }
    }

    /// Assigns the answers without an id to requests, and removes these answers. `in_flight` yields
    /// the numbers of all requests in flight. Candidates are those sent before the latest answer
    /// without an id.
    ///
    /// Returns the numbers of all candidates and the joined reasons. `None` if there are no
    /// candidates, or more candidates than answers, because some of them then have no answer yet.
    pub(crate) fn resolve(
        &mut self,
        in_flight: impl Iterator<Item = u64>,
    ) -> Option<(Vec<u64>, String)> {
        if self.reasons.is_empty() {
            return None;
        }
        let candidates: Vec<u64> = in_flight.filter(|request| *request < self.next).collect();
        if candidates.len() > self.reasons.len() {
            return None;
        }
        let reasons = std::mem::take(&mut self.reasons).join("; ");
        (!candidates.is_empty()).then_some((candidates, reasons))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_found_by_exclusion() {
        let mut answers = UnattributedAnswers::default();
        answers.received("a".to_owned(), 3);
        assert_eq!(answers.resolve([0, 1, 2].into_iter()), None);
        // A later request is none of those.
        assert_eq!(answers.resolve([1, 2, 3].into_iter()), None);
        answers.received("b".to_owned(), 3);
        assert_eq!(answers.resolve([1, 2, 3].into_iter()), Some((vec![1, 2], "a; b".to_owned())));
        assert_eq!(answers.resolve([3].into_iter()), None);
    }

    #[test]
    fn abandoned_request_may_be_the_one() {
        let mut answers = UnattributedAnswers::default();
        answers.received("a".to_owned(), 2);
        answers.abandoned(0);
        assert_eq!(answers.resolve([1].into_iter()), None);
    }

    #[test]
    fn complaints_about_notifications_fail_no_request() {
        let mut answers = UnattributedAnswers::default();
        answers.notified(1);
        answers.answered(0);
        answers.received("a".to_owned(), 2);
        assert_eq!(answers.resolve([1].into_iter()), None);
        answers.answered(1);
        answers.received("b".to_owned(), 3);
        assert_eq!(answers.resolve([2].into_iter()), Some((vec![2], "b".to_owned())));
    }
}
