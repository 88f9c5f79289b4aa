-- The short cut of log: the usual case without a detour.
--
-- One key with one quota, an exact log, entries of one unit and gaps of one or two bytes. It is one
-- pass that `break` leaves in all other cases; nothing has been written then, and main.lua and
-- log.lua take the long way. This is right only where that would come out the same.
--
-- KEYS, ARGV and reply: see main.lua. An operation marked by 64 may go this way.
-- Stored: see log.lua. With one cursor, the tail is at byte 51 and the codes begin at byte 59.
-- Cost: one GETRANGE of 128 bytes, sometimes another of 64; for an allowed check one SETRANGE, in
-- every few another, and a PEXPIRE once in a window. No table and no function is made, which would
-- take longer than all the rest.

repeat
  local op, cost, tick_us, limit, window, cap = struct.unpack('<BI7I4I7I6I4', ARGV[1])
  if op < 64 then
    break
  end
  local key = KEYS[1]
  local text = redis.pcall('GETRANGE', key, '0', '127')
  if #text < 59 then
    break
  end
  local magic, epoch, last, lead, open, stop, size, lives, pending, span, from, tick, used =
    struct.unpack('<I3I2i6I3I2I3I3i6BI6I3i6I7', text)
  local rest = us % tick_us
  local now = (us - rest) / tick_us
  -- Version 1, algorithm 76, one cursor; a clock that has not gone back; a string that is whole.
  if
    magic ~= 84993
    or span ~= window
    or last - lead > now
    or used > 9007199254740991
    or stop > size
    or size > 65595
    or pending > 8
    or (#text < 128 and #text ~= size)
  then
    break
  end

  -- The cursor passes what has expired.
  local horizon = now - window
  if last <= horizon then
    used = 0
  elseif used > 0 and tick <= horizon then
    local byte, codes, base, to = string.byte, text, -1, stop
    while true do
      if from >= to and to == stop then
        base, codes, to = stop - 52, text, stop + pending
      end
      if from >= to then
        break
      end
      local code, low = byte(codes, from - base, from - base + 1)
      if not low and from + 1 < stop then
        local ends = string.format('%.0f', from + 63)
        codes, base = redis.call('GETRANGE', key, string.format('%.0f', from), ends), from - 1
        code, low = byte(codes, 1, 2)
      end
      if tick > horizon then
        -- It stands here now, unless a refund has emptied the entry.
        used = code == 254 and -1 or used
        break
      elseif code and code < 192 then
        tick, from, used = tick + code, from + 1, used - 1
      elseif code and code < 252 and low then
        tick, from, used = tick + 192 + (code - 192) * 256 + low, from + 2, used - 1
      else
        used = -1
        break
      end
    end
    if used < 1 or tick <= horizon then
      break
    end
  end

  if used + cost > limit or op == 67 then
    local wait = 0
    if cost > limit then
      wait = 9007199254740992
    elseif cost > limit - used then
      if cost - (limit - used) > 1 then
        break
      end
      wait = tick + window - now
    end
    return struct.pack('<I7BI7I7I7', us, wait == 0 and 1 or 0, used, wait,
      used > 0 and tick + window - now or 0)
  end

  -- It is taken: the entry before gets its code, and a new one is open.
  local date, tail = rest > 0 and now + 1 or now, string.sub(text, 52, 51 + pending)
  if used == 0 then
    if size > 256 then
      break
    end
    last, open, stop, from, tick, tail = date, 0, 59, 59, date, ''
  elseif date > last then
    local gap = date - last
    if open ~= 1 or gap > 15551 or from * 2 > size + 118 then
      break
    elseif gap < 192 then
      tail = tail .. string.char(gap)
    else
      local low = (gap - 192) % 256
      tail = tail .. string.char(192 + (gap - 192 - low) / 256, low)
    end
    last, open = date, 0
  end
  open, used = open + cost, used + cost
  if open > 65535 then
    break
  end

  local full = #tail > 8 and stop + #tail > size
  local codes
  if full then
    -- Written anew, see log.lua.
    codes = redis.call('GETRANGE', key, string.format('%.0f', from), string.format('%.0f', stop - 1))
    if from >= stop or #codes ~= stop - from or (#codes + #tail) * 8 > cap * 7 then
      break
    end
    codes, from, stop, tail = codes .. tail, 59, 59 + #codes + #tail, ''
    local bytes, step = stop + 20 + (#codes - #codes % 16) / 16, 16
    while bytes > step * 8 do
      step = step * 2
    end
    size = math.min(bytes + (-bytes) % step - (bytes > 256 and 6 or 4), 59 + cap)
  elseif #tail > 8 then
    redis.call('SETRANGE', key, string.format('%.0f', stop), tail)
    stop, tail = stop + #tail, ''
  end
  local dies
  if lives < last + window then
    lives = now + 2 * window
    dies = string.format('%.0f', 2 * window * tick_us / 1000 + SLACK)
  end
  local head = struct.pack('<I3I2i6I3I2I3I3i6BI6I3i6I7', magic, epoch, last, last - now, open, stop,
    size, lives, #tail, window, from, tick, used) .. tail
  if full then
    local spare = string.rep('\0', size - stop)
    redis.call('SET', key, head .. '\0\0\0\0\0\0\0\0' .. codes .. spare, 'KEEPTTL')
  else
    redis.call('SETRANGE', key, '0', head)
  end
  if dies then
    redis.call('PEXPIRE', key, dies)
  end
  return struct.pack('<I7BI7I7I7I7I2I7', us, 2, used, 0, tick + window - now, last, epoch, cost)
until true
