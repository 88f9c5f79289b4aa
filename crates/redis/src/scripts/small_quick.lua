-- The fast path of the algorithms with a small state: one key with one quota, without a function or a
-- table. It is one pass that `break` leaves where something is unusual. Nothing has been written
-- then, and main.lua decides. It must decide exactly as main.lua would.
--
-- KEYS, ARGV and reply: see main.lua. Only an operation marked by 64 may be decided here.
-- Stored: see the algorithm.
-- Cost: one GET, and one SET if something was taken.
--
-- The algorithm's part, in the place of ALGORITHM, sets `used` and `reset`, `wait` if it denies, and
-- `state` and `ttl`, in ticks, if it takes.

repeat
  local op, cost, tick_us, limit, window = struct.unpack('<BI7I4I7I6', ARGV[i])
  if op < 64 then
    break
  end
  local rest = us % tick_us
  local now = (us - rest) / tick_us
  local date = rest > 0 and now + 1 or now
  local value = redis.pcall('GET', KEYS[i])
  -- The epoch of a new key, see prelude.lua.
  local low = now % 65536
  local epoch = (low + (now - low) / 65536 * 40503) % 65536
  local wait, used, reset, state, ttl = 0
  -- ALGORITHM
  if state then
    ttl = ttl * tick_us / 1000 + SLACK
    local format = ttl < 2147483648 and '%d' or '%.0f'
    if redis.pcall('SET', KEYS[i], state, 'PX', string.format(format, ttl)).err then
      break
    end
    reply = struct.pack('<I7BI7I7I7I2', us, 2, used, reset, date, epoch)
  else
    reply = struct.pack('<I7BI7I7I7', us, wait == 0 and 1 or 0, used, wait, reset)
  end
until true
