//! Which lines of the scripts the tests of this module run.
//!
//! Lua reports a wrong name only when the line runs. So every line has to run, on a real server,
//! unless a comment that begins with `-- Never runs:` says why it cannot. Such a comment applies to
//! the lines behind it, up to the end of their block.

use core::cell::RefCell;
use core::fmt::Write;
use std::collections::BTreeSet;

use redis::Value;

use super::source::{Origin, SourceFile, origins, source_files, statements};
use super::{
    block, borders, charge, damage, leases, many, numbers, refund, refused, server_clock, together,
};

thread_local! {
    /// The numbers of the lines that ran, while they are recorded.
    static RECORDED: RefCell<Option<BTreeSet<u16>>> = const { RefCell::new(None) };
}

/// A line's number is that of its file times this, plus its place in the file.
const LINES_MAX: usize = 1000;

/// Runs the script and returns the numbers of its lines with the reply.
const BEGIN: &str = "local RAN = {}\nlocal function script()\n";
const END: &str = "
end
local done, reply = pcall(script)
local lines = {}
for line in pairs(RAN) do lines[#lines + 1] = line end
lines = table.concat(lines)
if type(reply) == 'table' and reply.err then return { lines, 0, reply.err } end
return { lines, done and 1 or 0, reply }
";

/// A script to be called, which records its lines if they are asked for.
pub(super) fn prepare(text: &str) -> redis::Script {
    let is_recorded = RECORDED.with_borrow(Option::is_some);
    if is_recorded { redis::Script::new(&instrument(text)) } else { redis::Script::new(text) }
}

/// The reply of a prepared script, or its error.
pub(super) fn record(value: Value) -> Result<Value, String> {
    RECORDED.with_borrow_mut(|recorded| {
        let Some(recorded) = recorded else { return Ok(value) };
        let (lines, done, reply): (Vec<u8>, bool, Value) = redis::from_redis_value(value).unwrap();
        recorded.extend(lines.chunks(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])));
        if done { Ok(reply) } else { Err(redis::from_redis_value(reply).unwrap()) }
    })
}

fn instrument(text: &str) -> String {
    let files = source_files();
    let origins = origins(text, &files);
    let mut instrumented = BEGIN.to_owned();
    for ((line, begins), origin) in text.lines().zip(statements(text)).zip(origins) {
        if let Some(origin) = origin.filter(|_| begins) {
            let [low, high] = number(&files, &origin).to_le_bytes();
            let _ = write!(instrumented, "RAN['\\{low:03}\\{high:03}']=1;");
        }
        instrumented.push_str(line);
        instrumented.push('\n');
    }
    instrumented + END
}

fn number(files: &[SourceFile], origin: &Origin) -> u16 {
    let file = files.iter().position(|file| file.name == origin.file).unwrap();
    assert!(origin.line < LINES_MAX);
    u16::try_from(file * LINES_MAX + origin.line).unwrap()
}

/// The lines of a file that a comment excuses, counted from one.
fn excused(file: &SourceFile) -> BTreeSet<usize> {
    let (mut excused, mut block) = (BTreeSet::new(), None);
    for (line, text) in file.text.lines().enumerate() {
        let indent = text.len() - text.trim_start().len();
        if text.trim_start().starts_with("-- Never runs:") {
            block = Some(indent);
        } else if block.is_some_and(|block| !text.is_empty() && indent < block) {
            block = None;
        }
        if block.is_some() {
            excused.insert(line + 1);
        }
    }
    excused
}

/// The tests that run the lines. They are run once more, so that one process sees all of them.
fn drive() {
    block::blocks_deny_and_keep_the_state();
    block::reset_of_an_unreadable_state_ends_the_block();
    borders::unit_of_the_last_tick_belongs_to_the_next_window();
    borders::refunds_of_units_that_have_gone_give_nothing();
    borders::bursts_that_expire_in_part_are_exact();
    borders::steady_load_is_exact();
    borders::another_window_writes_nothing_until_it_takes_units();
    borders::forgiving_takes_the_oldest_units_first();
    borders::forgiving_across_blocks_is_exact();
    borders::entries_at_the_border_of_a_block_are_refunded();
    borders::long_log_moves_with_the_clock();
    borders::index_continues_after_expired_records();
    charge::charges_with_an_age_count_as_if_recorded_in_time();
    charge::long_capped_log_is_exact_to_a_quantum();
    charge::charges_older_than_every_window_are_not_recorded();
    charge::charges_may_exceed_the_limit();
    charge::units_above_the_limit_join_the_newest_entry_as_in_memory();
    charge::units_join_the_newest_entry_of_a_long_log();
    damage::damaged_values_return_a_slidegate_error_or_a_reply();
    damage::log_damaged_at_any_byte_returns_a_slidegate_error_or_a_reply();
    damage::log_cut_anywhere_returns_a_slidegate_error_or_a_reply();
    damage::ticks_out_of_order_are_damaged();
    damage::code_that_runs_past_the_last_one_is_damaged();
    damage::forgiving_a_part_of_the_first_entry_needs_the_whole_index();
    damage::refund_from_a_block_with_too_small_a_sum_returns_the_units();
    damage::values_of_others_are_named();
    leases::a_lease_takes_what_fits_and_is_dated_ahead();
    leases::a_lease_is_given_back_and_moves_with_the_clock();
    many::batch_decides_like_single_calls();
    many::unreadable_key_is_sent_alone();
    numbers::debt_beyond_two_to_the_53_is_exact_in_a_log();
    numbers::capped_log_that_cannot_merge_collapses();
    numbers::counts_stop_at_two_to_the_53();
    numbers::large_products_are_exact();
    numbers::long_gaps_are_exact();
    refund::refunds_anywhere_in_a_log_are_exact();
    refund::refunds_in_an_uneven_log_are_exact();
    refund::long_logs_expire_and_wait_exactly();
    refund::refunds_next_to_long_gaps_are_exact();
    refused::full_server_is_reported_and_nothing_changes();
    refused::read_that_the_user_may_not_do_is_reported_as_the_server_does();
    refused::operations_that_an_algorithm_does_not_have_are_refused();
    refused::at_most_takes_what_fits();
    server_clock::every_write_leaves_a_ttl_that_outlives_what_counts();
    server_clock::all_scripts_run_on_the_servers_clock();
    together::all_or_nothing();
    together::shadow_keys_never_block_other_keys();
    together::rejects_a_key_that_is_named_twice();
    together::a_fault_in_one_key_leaves_the_others_as_they_were();
}

#[test]
fn every_line_of_every_script_runs() {
    RECORDED.set(Some(BTreeSet::new()));
    drive();
    let ran = RECORDED.take().unwrap();
    let files = source_files();
    let (mut never, mut stale, mut lines) = (Vec::new(), Vec::new(), 0);
    for file in &files {
        let excused = excused(file);
        for line in executable(file) {
            lines += 1;
            let origin = Origin { file: file.name.clone(), line };
            match (ran.contains(&number(&files, &origin)), excused.contains(&line)) {
                (false, false) => never.push(origin.to_string()),
                (true, true) => stale.push(origin.to_string()),
                _ => {}
            }
        }
    }
    assert!(lines > 900, "only {lines} lines were found");
    assert!(never.is_empty(), "{} of {lines} lines never ran: {}", never.len(), never.join(" "));
    assert!(stale.is_empty(), "lines marked as never run did: {}", stale.join(" "));
}

/// The lines of a file that begin with a statement, counted from one.
fn executable(file: &SourceFile) -> Vec<usize> {
    // The parts of a file that encloses another one are not Lua by themselves, the whole is.
    let lines = statements(&super::super::compose(&[&file.text]));
    let begins = lines.iter().enumerate().filter(|(_, begins)| **begins);
    begins.map(|(line, _)| line + 1).collect()
}
