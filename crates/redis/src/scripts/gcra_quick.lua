-- The short cut of gcra: one key with one quota and products below 2^53, without a function or a
-- table. It is one pass that `break` leaves where something is unusual; nothing has been written
-- then, and main.lua and gcra.lua take the long way. This is right only where that would come out the
-- same.
--
-- KEYS, ARGV and reply: see main.lua. An operation marked by 64 may go this way.
-- Stored: see gcra.lua.
-- Cost: one GET, and one SET if something was taken.

repeat
  local op, cost, tick_us, limit, window = struct.unpack('<BI7I4I7I6', ARGV[i])
  local full = limit * window
  if op < 64 or full > 2251799813685248 then
    break
  end
  local rest = us % tick_us
  local now = (us - rest) / tick_us
  local magic, epoch, seen, full_at, parts = 83713, 0, now, now, 0
  local value = redis.pcall('GET', KEYS[i])
  if value then
    if #value ~= 24 then
      break
    end
    magic, epoch, seen, full_at, parts = struct.unpack('<I3I2i6i6I7', value)
    if full_at < now or (full_at == now and parts == 0) then
      -- All has been refilled: receipts from before are void.
      epoch, full_at, parts = (epoch + 27285) % 65536, now, 0
    end
  else
    local low = now % 65536
    epoch = (low + (now - low) / 65536 * 40503) % 65536
  end
  -- Version 1, algorithm 71, one quota; a clock that has not gone back; no debt.
  if magic ~= 83713 or seen > now or full_at - now > window or parts >= limit then
    break
  end
  -- How far full lies ahead, in ticks times the limit: a unit is `window` of these.
  local ahead = (full_at - now) * limit + parts
  local taken = cost <= limit and ahead + cost * window <= full and op ~= 67
  if taken then
    ahead = ahead + cost * window
  end
  local used = ahead + window - 1
  used = (used - used % window) / window
  local reset = 0
  if ahead > 0 then
    -- One more whole unit is there once the last one, which may have begun to refill, is.
    reset = ahead - (used - 1) * window + limit - 1
    reset = (reset - reset % limit) / limit
  end
  if taken then
    parts = ahead % limit
    local ticks = (ahead - parts) / limit
    local ttl = (window + 1) * tick_us / 1000 + SLACK
    local wrote = redis.pcall('SET', KEYS[i],
      struct.pack('<I3I2i6i6I7', magic, epoch, now, now + ticks, parts), 'PX',
      string.format(ttl < 2147483648 and '%d' or '%.0f', ttl))
    if wrote.err then
      break
    end
    reply = struct.pack('<I7BI7I7I7I2', us, 2, used, reset, rest > 0 and now + 1 or now, epoch)
    break
  end
  local wait = 0
  if cost > limit then
    wait = 9007199254740992
  elseif ahead + cost * window > full then
    wait = ahead + cost * window - full + limit - 1
    wait = (wait - wait % limit) / limit
  end
  reply = struct.pack('<I7BI7I7I7', us, wait == 0 and 1 or 0, used, wait, reset)
until true
