-- The short cut of log: the usual case without a detour.
--
-- One key with one quota, codes of one unit and one or two bytes, room for one more. Answers
-- nothing, and has done nothing, in all other cases: then main.lua and log.lua take the long way, and
-- this is right only where that would come out the same.
--
-- KEYS, ARGV and reply: see main.lua. Stored: see log.lua.
-- Cost: one GETRANGE of 128 bytes, sometimes another of 64; for an allowed check one or two
-- SETRANGEs, and a PEXPIRE once in a window. No table is made.

local LOG = 76

quick = function(key)
  local op, cost, _, _, kind, count, tick_us, keep, _, limit, window =
    unpack('<BI7I7I2BBI4I6I4I7I6', ARGV[1])
  if op > PEEK or kind ~= LOG or count ~= 1 or keep > window then
    return
  end
  local text = redis.pcall('GETRANGE', key, '0', '127')
  if #text < 58 then
    return
  end
  local version, stored, cursors, epoch, last, seen, open, stop, size, lives, span, from, tick, used =
    unpack('<BBBI2i6i6I7I3I3i6I6I3i6I7', text)
  local rest = us % tick_us
  local now = (us - rest) / tick_us
  if
    version ~= 1
    or stored ~= LOG
    or cursors ~= 1
    or span ~= window
    or seen > now
    or used >= HUGE
    or stop > size
    or size > 65594
    or (#text < 128 and #text ~= size)
  then
    return
  end

  local horizon = now - window
  if last <= horizon then
    used = 0
  elseif used > 0 and tick <= horizon then
    local codes, base = text, -1
    repeat
      if from >= stop then
        return
      end
      local code = byte(codes, from - base)
      if not code then
        codes = call('GETRANGE', key, format('%.0f', from), format('%.0f', from + 63))
        base = from - 1
        code = byte(codes)
      end
      if not code then
        return
      elseif code < 192 then
        tick, from = tick + code, from + 1
      elseif code < 252 then
        local low = byte(codes, from - base + 1)
        if not low then
          return
        end
        tick, from = tick + 192 + (code - 192) * 256 + low, from + 2
      else
        return
      end
      used = used - 1
    until tick > horizon
    -- A refund may have emptied the entry that it stands at now.
    local code = byte(codes, from - base)
    if from < stop and (not code or code > 252) or used < 1 then
      return
    end
  end

  local allowed, taken, units, retry = 0, 0, 0, 0
  if used + cost > limit then
    if cost > limit then
      retry = NEVER
    elseif cost - (limit - used) > 1 then
      return
    else
      retry = tick + window - now
    end
    epoch = 0
  elseif op == PEEK then
    allowed, epoch = 1, 0
  else
    local date, code = rest > 0 and now + 1 or now, ''
    if used == 0 then
      if size > 256 then
        return
      end
      last, open, stop, from, tick = date, 0, 58, 58, date
    elseif date > last then
      local gap = date - last
      if open ~= 1 or from * 2 > size + 116 then
        return
      elseif gap < 192 then
        code = char(gap)
      elseif gap < 15552 then
        local low = (gap - 192) % 256
        code = char(192 + (gap - 192 - low) / 256, low)
      else
        return
      end
      if stop + #code > size then
        return
      end
      last, open = date, 0
    end
    open, used = open + cost, used + cost
    local ttl
    if lives < last + window then
      lives = now + 2 * window
      ttl = format('%.0f', 2 * window * tick_us / 1000 + SLACK)
    end
    local head = pack('<BBBI2i6i6I7I3I3i6I6I3i6I7', 1, LOG, 1, epoch, last, now, open,
      stop + #code, size, lives, window, from, tick, used)
    if code == '' then
      call('SETRANGE', key, '0', head)
    elseif stop <= 122 then
      call('SETRANGE', key, '0', head .. sub(text, 59, stop) .. code)
    else
      call('SETRANGE', key, '0', head)
      call('SETRANGE', key, format('%.0f', stop), code)
    end
    if ttl then
      call('PEXPIRE', key, ttl)
    end
    allowed, taken, units = 1, last, cost
  end
  local reset = used > 0 and tick + window - now or 0
  return pack('<I7BI7I2I7BI7I7I7', us, allowed, taken, epoch, units, 0, used, retry, reset)
end
