-- The part of GCRA in small_quick.lua, for products below 2^53.

local full = limit * window
if full > 2251799813685248 then
  break
end
local magic, seen, full_at, parts = 83713, now, now, 0
if value then
  if #value ~= 24 then
    break
  end
  magic, epoch, seen, full_at, parts = struct.unpack('<I3I2i6i6I7', value)
  if full_at < now or (full_at == now and parts == 0) then
    -- Everything has been refilled: earlier receipts are void.
    epoch, full_at, parts = (epoch + 27285) % 65536, now, 0
  end
end
-- Version 1, algorithm 71, one quota, a clock that has not gone back, and no debt.
if magic ~= 83713 or seen > now or full_at - now > window or parts >= limit then
  break
end
-- The time until the bucket is full, in ticks times the limit: a unit is `window` of these.
local ahead = (full_at - now) * limit + parts
if cost > limit then
  wait = 9007199254740992
elseif ahead + cost * window > full then
  wait = ahead + cost * window - full + limit - 1
  wait = (wait - wait % limit) / limit
elseif op ~= 67 then
  ahead, ttl = ahead + cost * window, window + 1
  parts = ahead % limit
  state = struct.pack('<I3I2i6i6I7', magic, epoch, now, now + (ahead - parts) / limit, parts)
end
used, reset = 0, 0
if ahead > 0 then
  used = ahead + window - 1
  used = (used - used % window) / window
  -- One more whole unit is available when the last one, which may be partly refilled, is.
  reset = ahead - (used - 1) * window + limit - 1
  reset = (reset - reset % limit) / limit
end
