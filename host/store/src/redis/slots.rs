//! Shared permits (slots) for requests in flight of several gateways. One script divides them, with
//! the clock of the server.

use redis::Pipeline;

use super::{millis, script_of_key};
use crate::{SlotGrant, SlotRequest};

/// Replaces the slots of the gateway `ARGV[1]`, which has `ARGV[2]` requests in flight and
/// `ARGV[3]` that wait, and asks for `ARGV[4]` spare slots. `ARGV[5]` is the limit, and `ARGV[6]`
/// the lifetime in milliseconds. `KEYS[1]` is a hash with a field for each gateway: the slots that
/// it holds, the time at which they return, and its demand.
///
/// A demand above the limit is divided by max-min fairness: each gateway gets its demand, but at
/// most one slot more than the level. If the level is below one slot, a gateway that has held one
/// gets none this time, so that the slot rotates. Requests in flight count even beyond the level.
const SCRIPT: &str = r"
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local holder, used, waiting = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local spare, limit, lifetime = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local demand = used + waiting
local before, others, lacking, total, holds, demands = 0, 0, 0, demand, {}, {demand}
local fields = redis.call('HGETALL', KEYS[1])
for index = 1, #fields, 2 do
  local held, ends, wanted = string.match(fields[index + 1], '^(%d+) (%d+) (%d+)$')
  if not held or tonumber(ends) <= now then
    redis.call('HDEL', KEYS[1], fields[index])
  elseif fields[index] == holder then
    before = tonumber(held)
  else
    others = others + held
    total = total + wanted
    lacking = lacking + math.max(0, wanted - held)
    holds[#holds + 1] = tonumber(held)
    demands[#demands + 1] = tonumber(wanted)
  end
end
local slots, contended = demand + spare, 0
if lacking > 0 then slots, contended = demand, 1 end
if total > limit then
  table.sort(demands)
  local left, level = limit, 0
  for index, wanted in ipairs(demands) do
    level = math.floor(left / (#demands - index + 1))
    if wanted > level then break end
    left = left - wanted
  end
  local rest = limit
  for _, wanted in ipairs(demands) do rest = rest - math.min(wanted, level) end
  for _, held in ipairs(holds) do rest = rest - math.max(0, held - level) end
  if rest > 0 and (level > 0 or before == 0) then level = level + 1 end
  slots = math.min(demand, level)
end
slots = math.max(0, math.min(slots, limit - others))
local held = math.max(used, slots)
if held == 0 and demand == 0 then
  redis.call('HDEL', KEYS[1], holder)
else
  local field = string.format('%.0f %.0f %.0f', held, now + lifetime, demand)
  redis.call('HSET', KEYS[1], holder, field)
  redis.call('PEXPIRE', KEYS[1], lifetime)
end
return {slots, contended}
";

/// Returns the commands that replace the slots of a gateway in the hash with the key `key`.
pub(super) fn command(key: &str, request: &SlotRequest) -> Pipeline {
    let SlotRequest { holder, used, waiting, spare, limit, lifetime } = request;
    let mut script = script_of_key(SCRIPT, key);
    script.arg(holder).arg(used).arg(waiting).arg(spare).arg(limit).arg(millis(*lifetime));
    script
}

/// Converts the result of the script: the number of slots, and 1 if other gateways lack slots.
pub(super) fn grant((slots, contended): (u32, u32)) -> SlotGrant {
    SlotGrant { slots, is_contended: contended == 1 }
}
