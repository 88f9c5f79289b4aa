-- The fast path of the log, for the usual case.
--
-- One key with one quota, entries of few units, and gaps of up to three bytes. It is one pass that
-- `break` leaves in all other cases, also when the server refuses to write. Nothing that counts has
-- been written then, and main.lua and log.lua decide. The fast path must decide exactly as they
-- would.
--
-- KEYS, ARGV and reply: see main.lua. Only an operation marked by 64 may be decided here.
-- Stored: see log.lua. With one cursor, the changing part starts at byte 15, the tail at byte 51
-- and the codes at byte 63.
-- Cost: one GETRANGE of 128 bytes, sometimes another of 64; for an allowed check one SETRANGE,
-- every few checks another, and a PEXPIRE once per window. No table and no function is created,
-- which would take longer than everything else.

repeat
  local op, cost, tick_us, limit, window = struct.unpack('<BI7I4I7I6', ARGV[i])
  -- Check, shadow and peek, and a charge that is recorded now.
  if op < 64 or (op > 67 and op ~= 69) then
    break
  end
  local quota = limit
  if op == 69 then
    limit = math.huge
  end
  local key = KEYS[i]
  local text = redis.pcall('GETRANGE', key, '0', '127')
  local rest = us % tick_us
  local now = (us - rest) / tick_us
  if text == '' and cost <= limit and cost < 65536 and op ~= 67 then
    -- A new key, with space for its first codes.
    local low, date = now % 65536, rest > 0 and now + 1 or now
    local epoch = (low + (now - low) / 65536 * 40503) % 65536
    local ttl = 2 * window * tick_us / 1000 + SLACK
    local wrote = redis.pcall('SET', key, struct.pack('<I3I6i6i6I3I2I3I3I2BI3i6I7c25', 84993, window,
      now + 2 * window, date, date - now, epoch, 63, 76, cost, 0, 63, date, cost,
      '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'),
      'PX', string.format(ttl < 2147483648 and '%d' or '%.0f', ttl))
    if wrote.err then
      break
    end
    reply = op == 69 and struct.pack('<I7I7', us, cost)
      or struct.pack('<I7BI7I7I7I2', us, 2, cost, date + window - now, date, epoch)
    break
  elseif #text < 63 then
    break
  end
  -- Neighboring fields are read as one number, which is cheaper than reading both.
  local magic, span, lives, last, lead_epoch, stop_size, open_from, tick, used =
    struct.unpack('<I3I6i6i6I5I6I6i6I7', text)
  local lead = lead_epoch % 16777216
  -- Version 1, algorithm 76, one cursor, and a clock that has not gone back.
  if magic ~= 84993 or span ~= window or last - lead > now or used > 9007199254740991 then
    break
  end
  local horizon = now - window

  -- Nothing has expired, and no unit fits: denied, without further reads.
  if tick > horizon and used == limit and cost == 1 and used > 0 then
    local wait = tick + window - now
    reply = struct.pack('<I7BI7I7I7', us, 0, used, wait, wait)
    break
  end

  local stop, open, pending = stop_size % 16777216, open_from % 65536, open_from % 16777216
  local size, from = (stop_size - stop) / 16777216, (open_from - pending) / 16777216
  pending = (pending - open) / 65536
  local phase = pending - pending % 16
  pending = pending - phase
  if from < 63 or stop > size or size > 65599 or pending > 12 or (#text < 128 and #text ~= size) then
    break
  end

  -- The cursor passes expired entries.
  if last <= horizon then
    used = 0
  elseif used > 0 and tick <= horizon then
    local byte, codes, base, to, most = string.byte, text, -1, stop, from + 512
    while true do
      if from >= to and to == stop then
        base, codes, to = stop - 52, text, stop + pending
      end
      if from >= to then
        break
      elseif from > most then
        -- Whole blocks may have expired.
        used = -1
        break
      end
      local code, low, third, fourth = byte(codes, from - base, from - base + 3)
      if not fourth and from + 3 < stop then
        codes, base = redis.call('GETRANGE', key, from, from + 63), from - 1
        code, low, third, fourth = byte(codes, 1, 4)
      end
      local units, bytes = 1, 1
      if code == 254 and third then
        units, bytes, code, low = low, 3, third, fourth
      elseif code == 255 then
        -- Bytes that a refund left.
        units, code = 0, 0
      end
      if tick > horizon and units > 0 then
        break
      elseif units > 127 or not code or code > 252 or (code > 191 and not low) then
        used = -1
        break
      elseif code == 252 then
        if bytes > 1 or not fourth then
          used = -1
          break
        end
        code, bytes = low + third * 256 + fourth * 65536, 4
      elseif code > 191 then
        code, bytes = 192 + (code - 192) * 256 + low, bytes + 1
      end
      tick, from, used = tick + code, from + bytes, used - units
    end
    if used < 1 or tick <= horizon then
      break
    end
  end

  if op == 69 and (used + cost > 9007199254740991 or used - open >= quota) then
    -- Above the limit, units join the newest entry: see log.lua.
    break
  elseif used + cost > limit or op == 67 then
    local wait = 0
    if cost > limit then
      wait = 9007199254740992
    elseif cost > limit - used then
      if cost - (limit - used) > 1 then
        break
      end
      wait = tick + window - now
    end
    reply = struct.pack('<I7BI7I7I7', us, wait == 0 and 1 or 0, used, wait,
      used > 0 and tick + window - now or 0)
    break
  end

  -- Allowed: the entry before gets its code, and a new one is open.
  local date, tail, code = rest > 0 and now + 1 or now, '', ''
  if used == 0 then
    if size > 256 then
      break
    end
    last, open, stop, pending, from, tick = date, 0, 63, 0, 63, date
  elseif date > last then
    local gap = date - last
    if open > 127 or gap > 16777215 or from * 2 > size + 126 then
      break
    elseif gap < 192 then
      code = string.char(gap)
    elseif gap > 15551 then
      code = struct.pack('<BI3', 252, gap)
    else
      local low = (gap - 192) % 256
      code = string.char(192 + (gap - 192 - low) / 256, low)
    end
    if open ~= 1 then
      code = string.char(254, open) .. code
    end
    last, open = date, 0
  end
  open, used = open + cost, used + cost
  if open > 65535 then
    break
  end

  local full, codes = false, nil
  if pending > 0 then
    tail = string.sub(text, 52, 51 + pending)
  end
  pending = pending + #code
  if pending > 12 then
    codes = tail .. code
    local free, fits = size - stop, pending
    full = fits > free
    if full and size < 319 then
      -- Writes the codes that fit if the tail has room for the others.
      local byte, after = string.byte, 1
      fits = 0
      while after <= free do
        local first = byte(codes, after)
        if first == 254 then
          after = after + 1
          while (byte(codes, after) or 0) > 127 do
            after = after + 1
          end
          after = after + 1
          first = byte(codes, after) or 0
        end
        local bytes = first == 253 and 7 or first == 252 and 4 or first > 191 and first < 252 and 2 or 1
        after = after + bytes
        if after > free + 1 then
          break
        end
        fits = after - 1
      end
      full = pending - fits > 12
    end
    if full then
      -- Rewritten, see log.lua.
      local cap = struct.unpack('<I4', ARGV[i], 26)
      local before = from < stop and redis.call('GETRANGE', key, from, stop - 1) or ''
      if #before ~= stop - from or (#before + pending) * 8 > cap * 7 then
        break
      end
      codes, from = before .. codes, 63
      stop = 63 + #codes
      local spare, step = math.max(8, (#codes - #codes % 16) / 16), 16
      local header = stop + spare > 252 and 6 or 4
      local whole = stop + spare + header
      while whole > step * 8 do
        step = step * 2
      end
      local room = math.min(whole + (-whole) % step - header, stop + 64)
      size = math.min(math.max(stop + spare, room), 63 + cap)
      if size > 318 then
        -- With an index.
        break
      end
      phase, tail = 0, ''
    else
      if size > 318 and (stop - 63 + phase) % 128 + pending > 127 then
        -- The index gets another record.
        break
      elseif type(redis.pcall('SETRANGE', key, stop, string.sub(codes, 1, fits))) == 'table' then
        break
      end
      stop, tail = stop + fits, string.sub(codes, fits + 1)
    end
    pending, code = #tail, ''
  end

  local dies = lives < last + window
  local state = struct.pack('<i6I5I6I6i6I7c0c0', last, lead_epoch - lead + last - now,
    stop + size * 16777216, open + (pending + phase) * 65536 + from * 16777216, tick, used, tail, code)
  if full or dies then
    lives = dies and now + 2 * window or lives
    state = struct.pack('<I3I6i6', magic, window, lives) .. state
  end
  if full then
    local blank = string.rep('\0', 12)
    codes = codes .. string.rep('\0', size - stop)
    if redis.pcall('SET', key, state .. blank .. codes, 'KEEPTTL').err then
      break
    end
  elseif type(redis.pcall('SETRANGE', key, dies and '0' or '15', state)) == 'table' then
    break
  end
  if dies then
    local ttl = 2 * window * tick_us / 1000 + SLACK
    redis.call('PEXPIRE', key, string.format(ttl < 2147483648 and '%d' or '%.0f', ttl))
  end
  reply = op == 69 and struct.pack('<I7I7', us, cost)
    or struct.pack('<I7BI7I7I7I2', us, 2, used, tick + window - now, last,
      (lead_epoch - lead) / 16777216)
until true
