-- The counter's part of small_quick.lua, for products below 2^53.

if limit * window > 4503599627370496 then
  break
end
local magic, seen, span, last, previous, current = 82689, now, window, 0, 0, 0
if value then
  if #value ~= 37 then
    break
  end
  magic, epoch, seen, span, last, previous, current = struct.unpack('<I3I2i6I6i6I7I7', value)
end
local start = last - last % window
-- Version 1, algorithm 67, one quota, and a clock that has not gone back.
if magic ~= 82689 or span ~= window or seen > now or start > now then
  break
end
-- No debt.
if previous > limit or current > limit then
  break
end
local passed = now - start
if passed >= window then
  previous, current, start = passed < 2 * window and current or 0, 0, now - now % window
  passed = now - start
end
-- The weight of the previous window, rounded up.
local left = window - passed
local carry = previous * left + window - 1
carry = (carry - carry % window) / window
used = current + carry
if cost > limit then
  wait = 9007199254740992
elseif used + cost > limit then
  local room = limit - cost
  if room >= current then
    -- In this window, when the weight of the previous one is low enough ...
    local share = (room - current) * window
    wait = left - (share - share % previous) / previous
  else
    -- ... or in the next one, when the weight of this one is.
    local share = room * window
    wait = left + window - (share - share % current) / current
  end
elseif op ~= 67 then
  if date - start >= window then
    break
  end
  current, used, ttl = current + cost, used + cost, 2 * window
  state = struct.pack('<I3I2i6I6i6I7I7', magic, epoch, now, window, date > last and date or last,
    previous, current)
end
reset = 0
if carry > 0 then
  local room = (carry - 1) * window
  reset = left - (room - room % previous) / previous
elseif current > 0 then
  local room = (current - 1) * window
  reset = left + window - (room - room % current) / current
end
