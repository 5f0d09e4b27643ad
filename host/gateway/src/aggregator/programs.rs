//! The tool `context_guard_run`, with which models run programs over tools and stored answers.

mod arguments;
mod calls;
mod declarations;
mod definition;
mod host;
mod names;
mod notes;
mod report;
mod results;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::mpsc;

use self::arguments::RunArguments;
use self::definition::DEFINITION;
pub(super) use self::definition::RUN_TOOL;
use self::host::ChannelHost;
use self::notes::{CallNotes, ProgramRequest};
use self::report::RunReport;
use self::results::result_channel;
use super::Aggregator;
use super::client::Origin;
use super::lists::ProgramTool;
use crate::code::{Program, RunError, RunLimits, Sandbox};
use crate::config::CodeSettings;
use crate::engine::CallContext;
use crate::exchange::NextStep;
use crate::fair_queue::{FairQueue, Shares};
use crate::message::Head;
use crate::protocol_mode::ProtocolMode;
use crate::reply;
use crate::tasks::{GuardInput, run_blocking};
use crate::telemetry::Outcome;

/// The maximum size of the value that a program returns, in bytes.
const MAX_VALUE_BYTES: u32 = 16 << 20;
/// The maximum total size of the texts that a program logs, in bytes.
const MAX_LOG_BYTES: usize = 2_000;
/// The maximum number of runs that wait for a permit.
const MAX_WAITING: usize = 1_024;
/// The maximum number of calls of a program that run at the same time. Their answers may be in
/// memory before the program has room for them.
const MAX_RUNNING_CALLS: usize = 16;
/// The time after its deadline in which a run may end by itself, before it is abandoned.
const GRACE: Duration = Duration::from_millis(30);

/// The sandbox for programs, and its settings.
pub(super) struct Programs {
    sandbox: Option<Arc<Sandbox>>,
    settings: CodeSettings,
    /// Limits the number of programs that run at the same time.
    places: Arc<FairQueue>,
}

impl Programs {
    /// Creates the tool. It is disabled without a sandbox.
    pub(super) fn new(settings: &CodeSettings, sandbox: Option<Arc<Sandbox>>) -> Self {
        // A program may hold its place for its whole time limit.
        let places = Shares::halves(settings.concurrency);
        Self {
            sandbox: sandbox.filter(|_| settings.enabled),
            settings: settings.clone(),
            places: FairQueue::new(places, Shares::defaults(MAX_WAITING)),
        }
    }

    /// Returns true if the tool is listed and may be called.
    pub(super) fn is_enabled(&self) -> bool {
        self.sandbox.is_some()
    }

    /// Returns the tool for a list of tools. `None` if it is disabled.
    pub(super) fn tool(&self) -> Option<ProgramTool> {
        let tool = ProgramTool { definition: DEFINITION, is_only: self.settings.only };
        self.is_enabled().then_some(tool)
    }
}

/// Ends a run when this value is dropped, for example because the client cancels its request.
struct EndOnDrop(Arc<AtomicBool>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Aggregator {
    /// Answers a call of `context_guard_run`.
    pub(super) async fn run_program(
        &self,
        origin: &Origin<'_>,
        head: &Head<'_>,
        request: &[u8],
    ) -> Vec<u8> {
        let mut exchange = self.forwarder.begin(origin, None, request);
        // The guard takes its own arguments, such as a budget.
        let next =
            run_blocking(&self.filter, &origin.client.caller, GuardInput::Request(request), || {
                exchange.on_request_uncached(&self.filter, request)
            });
        let changed = match next.await {
            NextStep::Answer(answer, decision) => {
                exchange.record(&self.recorder, Some(&decision), answer.len(), Outcome::Passed);
                return answer;
            }
            NextStep::Forward(changed) => changed,
        };
        let report = match RunArguments::parse(changed.as_deref().unwrap_or(request)) {
            Err(reason) => RunReport::refused(reason),
            Ok(arguments) if !arguments.declare.is_empty() => {
                let estimate = async |report: &RunReport| {
                    let response = reply::result(head.raw_id(), &report.to_result());
                    let input = GuardInput::Response(&response);
                    run_blocking(&self.filter, &origin.client.caller, input, || {
                        exchange.estimate(&self.filter, &response)
                    })
                    .await
                };
                self.declare(origin, &arguments.declare, estimate).await
            }
            Ok(arguments) => self.execute(origin, &arguments, &exchange.context).await,
        };
        let response = reply::result(head.raw_id(), &report.to_result());
        let guarded = run_blocking(
            &self.filter,
            &origin.client.caller,
            GuardInput::Response(&response),
            || exchange.on_response(&self.filter, &response),
        )
        .await;
        let returned = guarded.decision.as_ref().map_or(0, |decision| decision.estimated_tokens);
        let kept_out = report.tokens.saturating_sub(returned);
        let answer = guarded.shaped.unwrap_or(response);
        let is_stateless = origin.client.mode == ProtocolMode::Stateless;
        let answer = report.with_meta(answer, kept_out, is_stateless);
        exchange.kept_out = kept_out;
        let decision = guarded.decision.as_ref();
        exchange.record(&self.recorder, decision, answer.len(), guarded.outcome);
        answer
    }

    /// Runs a program until it ends, or abandons it after its deadline and [`GRACE`]. `context` is
    /// the call context of the client's request.
    async fn execute(
        &self,
        origin: &Origin<'_>,
        arguments: &RunArguments,
        context: &CallContext,
    ) -> RunReport {
        let Some(sandbox) = self.programs.sandbox.clone() else {
            return RunReport::refused("programs are not enabled here".to_owned());
        };
        let deadline = Instant::now() + arguments.timeout;
        // The time in the queue counts.
        let entered = self.programs.places.enter(&origin.client.caller, 1);
        let place = match tokio::time::timeout_at(deadline.into(), entered).await {
            Ok(Ok(place)) => place,
            Ok(Err(_)) | Err(_) => {
                return RunReport::refused("too many programs run now: try again soon".to_owned());
            }
        };
        let notes = CallNotes::new(arguments.max_calls);
        let inner = Origin { parent: &context.request_id, ..*origin };
        let cancelled = Arc::new(AtomicBool::new(false));
        let _end = EndOnDrop(Arc::clone(&cancelled));
        let (to_task, mut requests) = mpsc::unbounded_channel();
        let (to_program, ended) = result_channel();
        let filter = Arc::clone(&self.filter);
        let host = ChannelHost::new(to_task, ended, filter, context.clone(), Arc::clone(&notes));
        let limits = RunLimits {
            deadline,
            cancelled,
            memory_bytes: self.programs.settings.memory_bytes,
            value_bytes: MAX_VALUE_BYTES,
            log_bytes: MAX_LOG_BYTES,
        };
        let (program, input) = (arguments.code.clone(), arguments.input.clone());
        let (cursors, principal) = (arguments.cursors.clone(), Arc::clone(&origin.client.scope));
        let started_ms = self.filter.revisions().services().now_ms();
        let mut run = tokio::task::spawn_blocking(move || {
            let program = Program {
                source: &program,
                input: &input,
                cursors: &cursors,
                principal: &principal,
                started_ms,
            };
            let outcome = sandbox.run(program, &limits, Box::new(host));
            // Other programs wait until the thread is free, even if its client has gone.
            drop(place);
            outcome
        });
        let (mut running, mut listing) = (FuturesUnordered::new(), FuturesUnordered::new());
        let mut queued = VecDeque::new();
        let outcome = loop {
            // A program that does not read its results gets no more of them.
            let is_full = to_program.is_full();
            while !is_full
                && running.len() < MAX_RUNNING_CALLS
                && let Some(call) = queued.pop_front()
            {
                running.push(self.program_call(&inner, call, &notes));
            }
            tokio::select! {
                ended = &mut run => break ended.ok(),
                Some(request) = requests.recv() => match request {
                    ProgramRequest::Call(call) => queued.push_back(call),
                    ProgramRequest::Names { server, reply } => {
                        let inner = &inner;
                        listing.push(async move {
                            // The program may have ended.
                            let _ = reply.send(self.program_names(inner, &server).await);
                        });
                    }
                },
                Some(()) = listing.next(), if !listing.is_empty() => {}
                Some(result) = running.next(), if !is_full && !running.is_empty() => {
                    to_program.send(result);
                }
                () = to_program.taken(), if is_full => {}
                () = tokio::time::sleep_until((deadline + GRACE).into()) => break None,
            }
        };
        match outcome {
            Some(outcome) => RunReport::of_run(outcome, &notes),
            None => RunReport::failed(&RunError::Deadline, &notes),
        }
    }
}
