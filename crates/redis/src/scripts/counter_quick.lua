-- The short cut of counter: one key with one quota and products below 2^53, without a function or a
-- table. It is one pass that `break` leaves where something is unusual; nothing has been written
-- then, and main.lua and counter.lua take the long way. This is right only where that would come out
-- the same.
--
-- KEYS, ARGV and reply: see main.lua. An operation marked by 64 may go this way.
-- Stored: see counter.lua.
-- Cost: one GET, and one SET if something was taken.

repeat
  local op, cost, tick_us, limit, window = struct.unpack('<BI7I4I7I6', ARGV[i])
  if op < 64 or limit * window > 4503599627370496 then
    break
  end
  local rest = us % tick_us
  local now = (us - rest) / tick_us
  local magic, epoch, seen, span, start, previous, current = 82689, 0, now, window, 0, 0, 0
  local value = redis.pcall('GET', KEYS[i])
  if value then
    if #value ~= 37 then
      break
    end
    magic, epoch, seen, span, start, previous, current = struct.unpack('<I3I2i6I6i6I7I7', value)
  else
    local low = now % 65536
    epoch = (low + (now - low) / 65536 * 40503) % 65536
  end
  -- Version 1, algorithm 67, one quota; a clock that has not gone back; no debt.
  if
    magic ~= 82689
    or span ~= window
    or seen > now
    or start > now
    or previous > limit
    or current > limit
  then
    break
  end
  local passed = now - start
  if passed >= window then
    previous, current, start = passed < 2 * window and current or 0, 0, now - now % window
    passed = now - start
  end
  -- What the previous window weighs, rounded up.
  local left = window - passed
  local carry = previous * left + window - 1
  carry = (carry - carry % window) / window
  local used = current + carry
  local taken = used + cost <= limit and op ~= 67
  local date = rest > 0 and now + 1 or now
  if taken then
    if date - start >= window then
      break
    end
    current, used = current + cost, used + cost
  end
  local reset = 0
  if carry > 0 then
    local room = (carry - 1) * window
    reset = left - (room - room % previous) / previous
  elseif current > 0 then
    local room = (current - 1) * window
    reset = left + window - (room - room % current) / current
  end
  if taken then
    local ttl = 2 * window * tick_us / 1000 + SLACK
    local wrote = redis.pcall('SET', KEYS[i],
      struct.pack('<I3I2i6I6i6I7I7', magic, epoch, now, window, start, previous, current), 'PX',
      string.format(ttl < 2147483648 and '%d' or '%.0f', ttl))
    if wrote.err then
      break
    end
    reply = struct.pack('<I7BI7I7I7I2', us, 2, used, reset, date, epoch)
    break
  end
  local wait = 0
  if cost > limit then
    wait = 9007199254740992
  elseif used + cost > limit then
    local room = limit - cost
    if room >= current then
      -- In this window, once the previous one weighs little enough ...
      local share = (room - current) * window
      wait = left - (share - share % previous) / previous
    else
      -- ... or in the next one, once this one does.
      local share = room * window
      wait = left + window - (share - share % current) / current
    end
  end
  reply = struct.pack('<I7BI7I7I7', us, wait == 0 and 1 or 0, used, wait, reset)
until true
