-- The short cut of fixed: one key with one quota, without a function or a table. It is one pass that
-- `break` leaves where something is unusual; nothing has been written then, and main.lua and
-- fixed.lua take the long way. This is right only where that would come out the same.
--
-- KEYS, ARGV and reply: see main.lua. An operation marked by 64 may go this way.
-- Stored: see fixed.lua.
-- Cost: one GET, and one SET if something was taken.

repeat
  local op, cost, tick_us, limit, window = struct.unpack('<BI7I4I7I6', ARGV[i])
  if op < 64 then
    break
  end
  local rest = us % tick_us
  local now = (us - rest) / tick_us
  local magic, epoch, seen, span, start, count = 83457, 0, now, window, 0, 0
  local value = redis.pcall('GET', KEYS[i])
  if value then
    if #value ~= 30 then
      break
    end
    magic, epoch, seen, span, start, count = struct.unpack('<I3I2i6I6i6I7', value)
  else
    local low = now % 65536
    epoch = (low + (now - low) / 65536 * 40503) % 65536
  end
  -- Version 1, algorithm 70, one quota; a clock that has not gone back.
  if magic ~= 83457 or span ~= window or seen > now or count > 9007199254740991 then
    break
  end
  if now - start >= window then
    start, count = now - now % window, 0
  end
  local left = start + window - now
  if count + cost > limit or op == 67 then
    local wait = cost > limit and 9007199254740992 or count + cost > limit and left or 0
    reply = struct.pack('<I7BI7I7I7', us, wait == 0 and 1 or 0, count, wait, count > 0 and left or 0)
    break
  end
  local date = rest > 0 and now + 1 or now
  if date - start >= window or start > now then
    break
  end
  count = count + cost
  local ttl = window * tick_us / 1000 + SLACK
  local wrote = redis.pcall('SET', KEYS[i],
    struct.pack('<I3I2i6I6i6I7', magic, epoch, now, window, start, count), 'PX',
    string.format(ttl < 2147483648 and '%d' or '%.0f', ttl))
  if wrote.err then
    break
  end
  reply = struct.pack('<I7BI7I7I7I2', us, 2, count, left, date, epoch)
until true
