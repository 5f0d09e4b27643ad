//! Rate limits that several gateways share: the generic cell rate algorithm (GCRA) in one script,
//! with the clock of the server.

use std::time::Duration;

use redis::Pipeline;

use super::script_of_key;
use crate::RateGrant;

/// Admits as many of `ARGV[3]` requests as the limit allows, after `ARGV[4]` were returned.
/// `KEYS[1]` is the theoretical arrival time of the caller in microseconds. `ARGV[1]` is the time
/// between two requests, and `ARGV[2]` the tolerance, both in microseconds.
///
/// Numbers of Lua have 53 bits, which hold microseconds since 1970 until the year 2255. `%.0f`
/// writes all their digits.
const SCRIPT: &str = r"
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local interval, tolerance, count = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local unspent = tonumber(ARGV[4])
local arrival = tonumber(redis.call('GET', KEYS[1])) or now
arrival = arrival - unspent * interval
if arrival < now then arrival = now end
local granted = 0
local room = now + tolerance - arrival
if room >= 0 then granted = math.min(count, math.floor(room / interval) + 1) end
if granted > 0 or unspent > 0 then
  arrival = arrival + granted * interval
  local lifetime = math.ceil((arrival - now) / 1000) + 1000
  redis.call('SET', KEYS[1], string.format('%.0f', arrival), 'PX', lifetime)
end
local wait = 0
if granted < count then wait = math.max(1, arrival - tolerance - now) end
return {granted, math.floor(wait)}
";

/// Returns the commands that admit requests of the caller with the key `key` on the server.
pub(super) fn command(
    key: &str,
    interval: Duration,
    tolerance: Duration,
    count: u32,
    unspent: u32,
) -> Pipeline {
    let mut script = script_of_key(SCRIPT, key);
    script.arg(micros(interval).max(1)).arg(micros(tolerance)).arg(count).arg(unspent);
    script
}

/// Converts the result of the script: the number of admitted requests, and the time to wait in
/// microseconds.
pub(super) fn grant((granted, wait): (u32, u64)) -> RateGrant {
    RateGrant { granted, wait: Duration::from_micros(wait) }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
