-- log: every unit in the window, exactly, at about a byte a request.
--
-- KEYS, ARGV and reply: see main.lua. ARGV's parameter is the most bytes the codes may take.
--
-- Stored, in one string:
--   version B, algorithm B, number of cursors B, epoch I2, tick of the last entry i6, latest time
--   seen i6, units of the last entry I7, end of the codes I3, bytes of the string I3, tick up to
--   which the key surely lives i6;
--   for each cursor: window I6, byte I3, tick i6, units I7: the first entry that counts in that
--   window, and the units from there on. One a quota, and one for what must be kept longer;
--   then the codes, those of crates/core/src/window/log/code.rs, and spare bytes.
-- The last entry is open: it has no code until the next one comes and its gap is known. A cursor
-- at the end of the codes stands at it. Places are bytes from the beginning of the string.
--
-- Codes are written into the spare bytes. To write behind the end of a string would make Redis
-- double its memory; instead, when the spare bytes are used up, the entries that still count are
-- written anew with an eighth more. If those take more than 7/8 of the cap, neighbours are merged
-- into one entry dated at the later, by the rules of crates/core/src/window/log/merge.rs: never
-- over, denied early by less than the stretch that was merged.
--
-- Units that count may sum up to more than 2^53 by debt. Then HUGE is stored, and who needs the sum
-- reads all entries.
--
-- Cost: one GETRANGE of the beginning, more only if a cursor has to move beyond it. An allowed
-- check writes the header and a code, by one SETRANGE if all codes are short, by two otherwise. A
-- denied one writes nothing. Refunds of another than the last entry read and write all codes.

local LOG_HEAD, LOG_HEAD_BYTES = '<BBBI2i6i6I7I3I3i6', 36
local LOG_CURSOR, LOG_CURSOR_BYTES = '<I6I3i6I7', 22

windows[LOG] = function(kit)
  local log = {}
  local CHUNK = 1024
  -- A denied check that had to pass so many entries saves where it stands.
  local WALK_MAX = 128

  -- The code of an entry; the same bytes as in crates/core/src/window/log/code.rs.
  function log.code(units, gap)
    local head = ''
    if units ~= 1 then
      head = char(254)
      while units >= 128 do
        local low = units % 128
        head = head .. char(128 + low)
        units = (units - low) / 128
      end
      head = head .. char(units)
    end
    if gap < 192 then
      return head .. char(gap)
    elseif gap < 15552 then
      local low = (gap - 192) % 256
      return head .. char(192 + (gap - 192 - low) / 256, low)
    elseif gap < 16777216 then
      return head .. char(252) .. pack('<I3', gap)
    end
    return head .. char(253) .. pack('<I6', gap)
  end

  -- Units, gap and bytes of the code at character `at` of a text that has it whole.
  function log.decode(text, at)
    local units, first, from = 1, byte(text, at), at
    if first == 254 then
      local place = 1
      units = 0
      repeat
        at = at + 1
        first = byte(text, at)
        if not first or place >= HUGE then
          kit.fault('has a damaged code')
        end
        units, place = units + first % 128 * place, place * 128
      until first < 128
      at = at + 1
      first = byte(text, at)
    end
    if first and first < 192 and units < HUGE then
      return units, first, at - from + 1
    end
    local bytes = first and first >= 192 and (first < 252 and 1 or first == 252 and 3 or first == 253 and 6)
    if not bytes or #text < at + bytes or units >= HUGE then
      kit.fault('has a damaged code')
    elseif bytes == 1 then
      return units, 192 + (first - 192) * 256 + byte(text, at + 1), at - from + 2
    end
    local gap = unpack(bytes == 3 and '<I3' or '<I6', text, at + 1)
    return units, gap, at - from + 1 + bytes
  end

  -- Units, gap and the place behind the code at `place`. `s.text` is a part of the string, from
  -- byte `s.base` on.
  local function code_at(s, place)
    local at = place - s.base + 1
    local have = s.base + #s.text
    if at < 1 or (place + 18 > have and have < s.end_stored) then
      s.text = call('GETRANGE', s.key, format('%.0f', place),
        format('%.0f', math.min(place + CHUNK, s.end_stored) - 1))
      s.base, at = place, 1
    end
    local first = byte(s.text, at)
    if first and first < 192 and place < s.stop then
      return 1, first, place + 1
    end
    local units, gap, bytes = log.decode(s.text, at)
    if place + bytes > s.stop then
      kit.fault('has a damaged code')
    end
    return units, gap, place + bytes
  end

  -- Moves a cursor past everything at or before `now - window`, and past what refunds emptied.
  local function advance(s, c)
    local horizon = s.now - c.window
    if c.high == 0 and c.low == 0 then
      return
    end
    if s.last <= horizon then
      c.place, c.tick, c.high, c.low = s.stop, s.last, 0, 0
      return
    end
    local place, tick, high, low = c.place, c.tick, c.high, c.low
    while place < s.stop do
      local units, gap, behind = code_at(s, place)
      if units > 0 and tick > horizon then
        break
      end
      if units <= low then
        low = low - units
      else
        high, low = kit.minus(high, low, units)
      end
      place, tick = behind, tick + gap
      s.walked = s.walked + 1
    end
    c.place, c.tick, c.high, c.low = place, tick, high, low
  end

  -- The units from a cursor on, for one that could not tell them.
  local function recount(s, c)
    local place, high, low = c.place, kit.plus(0, 0, s.open)
    while place < s.stop do
      local units, _, behind = code_at(s, place)
      high, low = kit.plus(high, low, units)
      place = behind
    end
    c.high, c.low = high, low
  end

  local function new_cursors(s, like)
    s.cursors = {}
    for i = 1, s.count + (s.longest < s.keep and 1 or 0) do
      local window = s.windows[i] or s.keep
      local from = like(window)
      s.cursors[i] = {
        window = window,
        place = from.place,
        tick = from.tick,
        high = from.high,
        low = from.low,
      }
    end
  end

  local function read_cursors(s, text, number)
    local stored, front = {}, { window = 0, place = s.stop, tick = s.last, high = 0, low = 0 }
    for i = 1, number do
      local at = LOG_HEAD_BYTES + 1 + (i - 1) * LOG_CURSOR_BYTES
      local window, place, tick, units = unpack(LOG_CURSOR, text, at)
      local c = { window = window, place = place, tick = tick, high = 0, low = units }
      if place < s.start or place > s.stop then
        kit.fault('has a damaged cursor')
      end
      if units >= HUGE then
        recount(s, c)
      end
      stored[window] = c
      front = window > front.window and c or front
    end
    -- A window that was not there before starts where the longest one does: with all there is.
    new_cursors(s, function(window)
      return stored[window] or front
    end)
    s.moved = number ~= #s.cursors
  end

  local function read_head(s, text)
    if #text < LOG_HEAD_BYTES then
      kit.fault('is cut short')
    end
    local version, kind, number
    version, kind, number, s.epoch, s.last, s.seen, s.open, s.stop, s.size, s.lives =
      unpack(LOG_HEAD, text)
    if version ~= 1 then
      kit.fault('is of an unknown version')
    end
    if kind ~= LOG then
      kit.fault('belongs to another algorithm')
    end
    s.start = LOG_HEAD_BYTES + number * LOG_CURSOR_BYTES
    if number > 9 or s.stop < s.start or s.size < s.stop or s.size > s.start + 65536 then
      kit.fault('has a damaged header')
    end
    if #text < s.start or (#text < 256 and #text ~= s.size) or s.open >= HUGE then
      kit.fault('is cut short')
    end
    return number
  end

  -- All ticks move with the clock, so that nobody is locked out for more than a window.
  local function follow_clock(s)
    local back = s.seen - s.now
    if kit.gone_back(s) then
      s.last, s.lives = s.last - back, -1
      for _, c in ipairs(s.cursors) do
        c.tick = c.tick - back
      end
    end
  end

  function log.open(s)
    local text = redis.pcall('GETRANGE', s.key, '0', '255')
    if type(text) ~= 'string' then
      kit.unreadable(text)
    end
    s.text, s.base, s.tail, s.walked, s.longest = text, 0, '', 0, 0
    for i = 1, s.count do
      s.longest = math.max(s.longest, s.windows[i])
    end
    if text == '' then
      s.epoch, s.last, s.seen, s.open, s.lives = kit.birth(s.now), s.now, s.now, 0, -1
      s.start, s.stop, s.size, s.end_stored = 0, 0, 0, 0
      read_cursors(s, text, 0)
      return
    end
    local number = read_head(s, text)
    s.end_stored = s.stop
    read_cursors(s, text, number)
    follow_clock(s)
    for _, c in ipairs(s.cursors) do
      advance(s, c)
    end
    s.changed = s.changed or s.walked > WALK_MAX
  end

  function log.used(s, i)
    local c = s.cursors[i]
    return c.high, c.low
  end

  function log.retry(s, i, cost)
    local c, limit = s.cursors[i], s.limits[i]
    if c.high == 0 and c.low + cost <= limit then
      return 0
    end
    if cost > limit then
      return NEVER
    end
    -- The entry whose expiry frees the last unit that is in the way.
    local place, tick = c.place, c.tick
    local high, low = kit.minus(c.high, c.low, limit - cost)
    if high == 0 and low == 1 then
      return math.max(tick + c.window - s.now, 0)
    end
    while place < s.stop do
      local units, gap, behind = code_at(s, place)
      if high == 0 and units >= low then
        break
      end
      high, low = kit.minus(high, low, units)
      place, tick = behind, tick + gap
    end
    return math.max(tick + c.window - s.now, 0)
  end

  function log.reset(s, i)
    local c = s.cursors[i]
    if c.high == 0 and c.low == 0 then
      return 0
    end
    return math.max(c.tick + c.window - s.now, 0)
  end

  function log.room(s, i)
    local c = s.cursors[i]
    return c.high == 0 and math.max(s.limits[i] - c.low, 0) or 0
  end

  -- The cursor of the longest window, which has all that is on record.
  local function front(s)
    local longest = s.cursors[1]
    for _, c in ipairs(s.cursors) do
      longest = c.window > longest.window and c or longest
    end
    return longest
  end

  -- Forgets all codes.
  local function clear(s, last)
    s.last, s.open, s.tail, s.stop, s.end_stored = last, 0, '', s.start, s.start
    for _, c in ipairs(s.cursors) do
      c.place, c.tick, c.high, c.low = s.start, last, 0, 0
    end
  end

  local function append(s, code)
    s.tail = s.tail .. code
    s.stop = s.stop + #code
  end

  function log.take(s, date, cost)
    local all = front(s)
    if all.high == 0 and all.low == 0 then
      clear(s, date)
      s.moved = s.moved or s.size > 256
    elseif date > s.last then
      append(s, log.code(s.open, date - s.last))
      s.last, s.open = date, 0
    end
    if s.open + cost >= HUGE then
      append(s, log.code(s.open, 0))
      s.open = 0
    end
    s.open = s.open + cost
    for _, c in ipairs(s.cursors) do
      if c.high == 0 and c.low == 0 then
        c.place, c.tick = s.stop, s.last
      end
      c.high, c.low = kit.plus(c.high, c.low, cost)
    end
    return s.last
  end

  -- Units dated ahead stand behind all others.
  log.take_ahead = log.take

  -- Reads all codes from the front on into `s.text`, to be written anew.
  local function gather(s)
    if s.gathered then
      return
    end
    local from = front(s).place
    if from >= s.end_stored then
      s.text = sub(s.tail, from - s.end_stored + 1)
    else
      s.text = call('GETRANGE', s.key, format('%.0f', from), format('%.0f', s.end_stored - 1))
      if #s.text ~= s.end_stored - from then
        kit.fault('is cut short')
      end
      s.text = s.text .. s.tail
    end
    s.base, s.end_stored, s.tail, s.moved, s.gathered = from, s.stop, '', true, true
  end

  -- Puts every cursor at the front, with all there is, and moves it on from there.
  local function recut(s, tick, high, low)
    for _, c in ipairs(s.cursors) do
      c.place, c.tick, c.high, c.low = s.base, tick, high, low
      advance(s, c)
    end
  end

  -- Takes up to `units` off the first entry at or after `tick` that has any. A merged entry is
  -- dated later than what went into it, so "at or after" finds it.
  local function give_back_once(s, all, tick, units)
    local place, here, before = s.base, all.tick, nil
    while place < s.stop do
      local there, gap, behind = code_at(s, place)
      if here >= tick and there > 0 then
        local given = math.min(there, units)
        local from, code = place, nil
        if given < there then
          code = log.code(there - given, gap)
        elseif before then
          from, code = before.place, log.code(before.units, before.gap + gap)
        else
          -- The first entry: the log now starts at the second.
          code, all.tick = '', here + gap
        end
        s.text = sub(s.text, 1, from - s.base) .. code .. sub(s.text, behind - s.base + 1)
        s.stop = s.base + #s.text
        s.end_stored = s.stop
        return given
      end
      before = { place = place, units = there, gap = gap }
      place, here = behind, here + gap
    end
    local given = math.min(s.open, units)
    s.open = s.open - given
    return given
  end

  function log.give_back(s, tick, units)
    local all = front(s)
    if tick + s.keep <= s.now or tick > s.last or (all.high == 0 and all.low == 0) then
      return 0
    end
    if tick == s.last and units <= s.open then
      -- What is open needs no code. An open entry may have no units.
      s.open = s.open - units
      for _, c in ipairs(s.cursors) do
        if c.high > 0 or c.low > 0 then
          c.high, c.low = kit.minus(c.high, c.low, units)
        end
      end
      return units
    end
    gather(s)
    local left = units
    repeat
      local given = give_back_once(s, all, tick, left)
      left = left - given
    until left == 0 or given == 0
    local high, low = kit.minus(all.high, all.low, units - left)
    recut(s, all.tick, high, low)
    return units - left
  end

  function log.history(s)
    local longest = s.cursors[1]
    for i = 1, s.count do
      local c = s.cursors[i]
      longest = c.window > longest.window and c or longest
    end
    local entries, place, tick = {}, longest.place, longest.tick
    if longest.high > 0 or longest.low > 0 then
      while place < s.stop do
        local units, gap, behind = code_at(s, place)
        if units > 0 then
          entries[#entries + 1] = pack('<i7I7', tick, units)
        end
        place, tick = behind, tick + gap
      end
      if s.open > 0 then
        entries[#entries + 1] = pack('<i7I7', s.last, s.open)
      end
    end
    return pack('<I4', #entries) .. table.concat(entries)
  end

  -- What is left of a key that was forgotten is a header without cursors.
  function log.forget(s)
    local all = front(s)
    local found = all.high > 0 or all.low > 0
    s.cursors = {}
    s.start = LOG_HEAD_BYTES
    clear(s, s.now)
    s.lives, s.moved = -1, true
    return found
  end

  -- Merges all entries that fall into the same aligned stretch of `quantum` ticks, each dated at
  -- the last of them; the codes, and the tick of the first. Empty entries go.
  local function merge(s, first, quantum)
    local out, done_tick, done_units = {}, nil, 0
    local merged_first, group_tick, group_units = s.last, first, 0
    local function close(tick, units)
      if done_tick then
        out[#out + 1] = log.code(done_units, tick - done_tick)
      else
        merged_first = tick
      end
      done_tick, done_units = tick, units
    end
    local place, tick = s.base, first
    while place < s.stop do
      local units, gap, behind = code_at(s, place)
      if units > 0 then
        local same = tick - tick % quantum == group_tick - group_tick % quantum
        if group_units > 0 and (not same or group_units + units >= HUGE) then
          close(group_tick, group_units)
          group_units = 0
        end
        group_tick, group_units = tick, group_units + units
      end
      place, tick = behind, tick + gap
    end
    if group_units > 0 then
      close(group_tick, group_units)
      -- Closes the last group against the open entry.
      close(s.last, 0)
    end
    return table.concat(out), merged_first
  end

  -- All but the open units become one entry at the tick of the last; more only beyond 2^53 units.
  local function collapse(high, low)
    local codes = {}
    if low > 0 then
      codes[1] = log.code(low, 0)
    end
    for _ = 1, high do
      codes[#codes + 1] = log.code(HUGE - 1, 0) .. log.code(1, 0)
    end
    return table.concat(codes)
  end

  -- Merges entries until no more than half of the cap is used. The first quantum is that at which
  -- this is sure for entries of up to six bytes.
  local function squeeze(s)
    local all = front(s)
    local first, high, low = all.tick, all.high, all.low
    local target, quantum = math.max(s.param / 2, 7), 1
    while quantum * s.param < s.keep * 12 do
      quantum = quantum * 2
    end
    while #s.text > target and quantum <= s.keep * 2 do
      local text, merged_first = merge(s, first, quantum)
      if #text < #s.text then
        s.text, first = text, merged_first
        s.stop = s.base + #text
        s.end_stored = s.stop
      end
      quantum = quantum * 2
    end
    if #s.text > target then
      s.text = collapse(kit.minus(high, low, s.open))
      first, s.stop = s.last, s.base + #s.text
      s.end_stored = s.stop
    end
    recut(s, first, high, low)
  end

  local function head(s)
    local parts = { pack(LOG_HEAD, 1, LOG, #s.cursors, s.epoch, s.last, s.now, s.open, s.stop,
      s.size, s.lives) }
    for _, c in ipairs(s.cursors) do
      local units = c.high > 0 and HUGE or c.low
      parts[#parts + 1] = pack(LOG_CURSOR, c.window, c.place, c.tick, units)
    end
    return table.concat(parts)
  end

  -- Drops what lies before the front.
  local function trim(s)
    local from = front(s).place
    s.text, s.base = sub(s.text, from - s.base + 1), from
  end

  -- Writes all anew, with an eighth of spare bytes.
  local function rewrite(s, ttl)
    local start, spare = LOG_HEAD_BYTES + #s.cursors * LOG_CURSOR_BYTES, 0
    if #s.cursors == 0 then
      s.text = ''
    else
      gather(s)
      trim(s)
      if #s.text * 8 > s.param * 7 then
        squeeze(s)
        trim(s)
      end
      spare = math.max(16, (#s.text - #s.text % 8) / 8)
    end
    for _, c in ipairs(s.cursors) do
      c.place = c.place - s.base + start
    end
    s.stop = start + #s.text
    s.size = math.min(s.stop + spare, start + s.param)
    local value = head(s) .. s.text .. string.rep('\0', s.size - s.stop)
    if ttl then
      return { { 'SET', s.key, value, 'PX', ttl } }
    end
    return { { 'SET', s.key, value, 'KEEPTTL' } }
  end

  function log.save(s)
    local ttl
    if s.lives < s.last + s.keep then
      s.lives = math.max(s.now, s.last - s.keep) + 2 * s.keep
      ttl = kit.ttl(s, s.lives - s.now)
    end
    local wasted = #s.cursors > 0 and front(s).place * 2 > s.size + 2 * s.start
    if s.moved or s.stop > s.size or wasted then
      s.writes = rewrite(s, ttl)
      return
    end
    s.writes = { { 'SETRANGE', s.key, '0', head(s) } }
    if s.tail ~= '' then
      s.writes[2] = { 'SETRANGE', s.key, format('%.0f', s.end_stored), s.tail }
    end
    if ttl then
      s.writes[#s.writes + 1] = { 'PEXPIRE', s.key, ttl }
    end
  end

  return log
end
