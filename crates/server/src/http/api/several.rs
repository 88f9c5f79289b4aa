//! Several questions: together, or each by itself.

use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::Poll;

use slidegate::Decision;
use slidegate_http::Problem;

use crate::engine::{Ask, Caller, Pool, check_all as ask_all};
use crate::http::answer::{self, ANSWER_BYTES, DenialStatus, How};
use crate::http::ask::{AskBody, AsksBody, Question, parse};
use crate::http::json::Json;
use crate::http::problem::Refusal;
use crate::http::{HttpState, Reply};

/// All or nothing.
pub(super) async fn check_all(
    state: &HttpState,
    body: &[u8],
    how: How<'_>,
) -> Result<Reply, Refusal> {
    let settings = state.settings();
    let AsksBody { asks } = parse(body)?;
    check_count(&asks, settings.together_max)?;
    let plan = state.engine().plan();
    let find = |(index, ask)| {
        let question = AskBody::find(ask, &plan, settings.key_max);
        question.map_err(|refusal| refusal.of(&format_args!("asks[{index}]")))
    };
    let questions = asks.iter().enumerate().map(find).collect::<Result<Vec<_>, _>>()?;
    let asks: Vec<Ask<'_>> = questions.iter().map(Question::as_ask).collect();
    let answers = ask_all(&asks, how.caller).await;

    let mut judged = Vec::new();
    if how.denial == DenialStatus::TooMany {
        for (question, answer) in questions.iter().zip(&answers) {
            if question.limit.is_enforced(question.key) {
                judged.push(answer::judged(question.limit, question.tier, &answer.decision));
            }
        }
    }
    if let Some(problem) = Problem::of(&judged) {
        return Ok(answer::denied(problem, &judged, how.caller));
    }
    let mut json = Json::with_capacity(ANSWER_BYTES * (1 + answers.len()));
    json.open(b'{');
    json.name("allowed");
    json.bool(answers.iter().all(|answer| answer.decision.is_allowed()));
    json.name("answers");
    json.open(b'[');
    for (question, answer) in questions.iter().zip(&answers) {
        let Question { limit, tier, .. } = *question;
        answer::write(&mut json, limit, tier, &answer.decision, Some(answer.is_over), how.caller);
    }
    json.close(b']');
    json.close(b'}');
    Ok(answer::with_fields(json, &judged, false))
}

/// Each by itself. A policy or tier that is not there is an answer too; but if anything is malformed,
/// nothing is asked.
pub(super) async fn batch(
    state: &HttpState,
    body: &[u8],
    caller: Caller<'_>,
) -> Result<Reply, Refusal> {
    let settings = state.settings();
    let AsksBody { asks } = parse(body)?;
    check_count(&asks, settings.batch_max)?;
    let plan = state.engine().plan();
    let mut questions = Vec::with_capacity(asks.len());
    for (index, ask) in asks.iter().enumerate() {
        match ask.find(&plan, settings.key_max) {
            Err(refusal) if refusal.is_malformed() => {
                return Err(refusal.of(&format_args!("asks[{index}]")));
            }
            question => questions.push(question),
        }
    }
    let mut json = Json::with_capacity(ANSWER_BYTES * asks.len());
    json.open(b'{');
    json.name("answers");
    json.open(b'[');
    for some in questions.chunks(IN_FLIGHT_MAX) {
        let decisions = ask_each(some, caller).await;
        for (question, decision) in some.iter().zip(decisions) {
            match (question, decision) {
                (Ok(question), Some(decision)) => {
                    let Question { limit, tier, .. } = *question;
                    answer::write(&mut json, limit, tier, &decision, None, caller);
                }
                (Err(refusal), _) => refusal.write(&mut json, caller),
                // There is a decision for each question.
                (Ok(_), None) => json.null(),
            }
        }
    }
    json.close(b']');
    json.close(b'}');
    Ok(answer::plain(json))
}

/// Questions of one batch that are on their way to a store at once.
const IN_FLIGHT_MAX: usize = 64;

/// The decisions, in the order of the questions. Those of a store behind a network are waited for
/// side by side.
async fn ask_each(
    questions: &[Result<Question<'_>, Refusal>],
    caller: Caller<'_>,
) -> Vec<Option<Decision>> {
    let mut decisions = Vec::with_capacity(questions.len());
    let mut waiting = Vec::new();
    for (index, question) in questions.iter().enumerate() {
        decisions.push(match question {
            Ok(question) if matches!(question.limit.pool(), Pool::Memory(_)) => {
                Some(question.ask(caller).await)
            }
            Ok(question) => {
                waiting.push((index, Box::pin(question.ask(caller))));
                None
            }
            Err(_) => None,
        });
    }
    join(&mut waiting, |index, decision| decisions[index] = Some(decision)).await;
    decisions
}

/// Waits for all of them.
async fn join<F: Future>(
    waiting: &mut Vec<(usize, Pin<Box<F>>)>,
    mut put: impl FnMut(usize, F::Output),
) {
    poll_fn(|cx| {
        waiting.retain_mut(|(index, future)| match future.as_mut().poll(cx) {
            Poll::Ready(output) => {
                put(*index, output);
                false
            }
            Poll::Pending => true,
        });
        if waiting.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

impl<'a> Question<'a> {
    fn as_ask(&self) -> Ask<'a> {
        let Self { limit, key, tier, cost } = *self;
        Ask { limit, key, tier, cost }
    }
}

fn check_count(asks: &[AskBody<'_>], most: usize) -> Result<(), Refusal> {
    if (1..=most).contains(&asks.len()) {
        return Ok(());
    }
    let count = asks.len();
    Err(Refusal::malformed(format!("{count} asks are out of range: send 1 to {most} at a time")))
}
