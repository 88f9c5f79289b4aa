-- log: every unit in the window, exactly, at one to two bytes per request.
--
-- KEYS, ARGV and reply: see main.lua. ARGV's parameter is the maximum number of bytes of the codes.
--
-- Stored, in one string:
--   version B, algorithm B, number of cursors B, the window of each I6, tick until which the key
--   lives i6; these rarely change;
--   tick of the last entry i6, ticks from the latest time seen to that entry I3, epoch I2, end of
--   the codes I3, end of the spare bytes I3, units of the last entry I2, bytes of the tail and
--   phase of the index B (the phase is a multiple of 16);
--   for each cursor: byte I3, tick i6, units I7: the first entry that counts in its window, and the
--   units from there on. There is one per quota, and one for longer retention;
--   the tail, 12 bytes: the last codes, stored here so that header and new code are written at
--   once;
--   then the codes, as in crates/core/src/window/log/code.rs, and spare bytes;
--   then the index, see log_blocks.lua, if codes and spare bytes are 256 bytes or more.
-- A byte of 255 among the codes is padding: see log_refund.lua.
-- The last entry is open: it has no code until the next one is recorded and its gap is known. A
-- cursor at the end of the tail points to it. Positions are bytes from the start of the string;
-- those of the tail continue after the end of the codes.
--
-- A full tail is written into the spare bytes, as far as they suffice. Writing past the end of a
-- string would make Redis double its memory. Instead, when the spare bytes are used up, the current
-- entries are rewritten with a sixteenth more, and up to 64 bytes if the allocator would use them
-- anyway. If they take more than 7/8 of the cap, neighboring entries are merged at the later tick, by
-- the rules of crates/core/src/window/log/merge.rs: the limit is never exceeded, and requests are
-- denied early by less than the merged interval.
--
-- With debt, the units that count may exceed 2^53. Then HUGE is stored, and the sum is counted
-- again from the entries.
--
-- Cost: one GETRANGE of the start, more only if a cursor has to move beyond it. An allowed check
-- writes the header, and every few checks the tail. A denied check writes nothing, unless it passed
-- very many entries. The index skips whole blocks, so that refunds, waits and other windows do not
-- read all codes.

windows[76] = function(kit)
  local LOG, HUGE, NEVER = 76, kit.HUGE, kit.NEVER
  local call, pack, unpack = redis.call, struct.pack, struct.unpack
  local byte, sub, format = string.byte, string.sub, string.format
  local STATE, STATE_BYTES = '<i6i6I3I2I3I3I2B', 26
  local CURSOR, CURSOR_BYTES = '<I3i6I7', 16
  local codes, log = log_codes(kit), {}
  local CHUNK, TAIL_BYTES, OPEN_MAX, LEAD_MAX = 1024, 12, 65535, 16777215
  -- A denied check that passed this many entries saves its cursor.
  local WALK_MAX = 128
  -- The number of entries per page of the history.
  local PAGE = 512

  -- Returns units, gap and the position after the code at `place`. `s.text` is a part of the
  -- string, from byte `s.base` on, or the tail.
  local function code_at(s, place)
    local have = s.base + #s.text
    if place >= s.end_stored then
      s.text, s.base = s.tail, s.end_stored
    elseif place < s.base or (place + 18 > have and have < s.end_stored) then
      s.text = call('GETRANGE', s.key, format('%.0f', place),
        format('%.0f', math.min(place + CHUNK, s.end_stored) - 1))
      s.base = place
    end
    local at = place - s.base + 1
    local first = byte(s.text, at)
    if first and first < 192 then
      return 1, first, place + 1
    elseif first == 255 then
      return 0, 0, place + 1
    end
    local units, gap, bytes = codes.read(s.text, at)
    if place + bytes > s.stop then
      kit.fault('has a damaged code')
    end
    return units, gap, place + bytes
  end

  local blocks = log_blocks(kit, code_at)
  local squeeze_part, squeeze = log_merge(kit, codes, blocks, code_at)

  -- Moves a cursor past all entries at or before `now - window`, and past entries that refunds
  -- emptied.
  local function advance(s, c)
    local horizon = s.now - c.window
    if c.high == 0 and c.low == 0 then
      return
    end
    if s.last <= horizon then
      c.place, c.tick, c.high, c.low = s.stop, s.last, 0, 0
      return
    end
    if c.tick > horizon and c.place < s.stop and code_at(s, c.place) > 0 then
      return
    end
    local high, low = c.high, c.low
    c.place, c.tick = blocks.walk(s, c.place, c.tick, function(units, tick)
      return units > 0 and tick > horizon
    end, function(_, tick)
      return tick <= horizon
    end, function(units)
      high, low = kit.minus(high, low, units)
      s.walked = s.walked + 1
    end)
    c.high, c.low = high, low
  end

  -- Counts the units from a cursor on again, if their sum could not be stored.
  local function recount(s, c)
    local high, low = blocks.units_between(s, c.place, c.tick, s.stop)
    c.high, c.low = kit.plus(high, low, s.open)
  end

  local function new_cursors(s, like)
    -- The first cursors are those of the quotas.
    s.cursors = {}
    s.quotas = s.cursors
    for i = 1, s.count + (s.longest < s.keep and 1 or 0) do
      local window = s.windows[i] or s.keep
      local from = like(window)
      s.cursors[i] = {
        limit = s.limits[i],
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
      local window = unpack('<I6', text, 4 + (i - 1) * 6)
      local at = 4 + number * 6 + STATE_BYTES + (i - 1) * CURSOR_BYTES
      local place, tick, units = unpack(CURSOR, text, at)
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
    -- A new window starts at the position of the longest one, with all entries.
    new_cursors(s, function(window)
      return stored[window] or front
    end)
    s.moved = number ~= #s.cursors
  end

  local function read_head(s, text)
    kit.check_head(text, LOG)
    local number = byte(text, 3) or 10
    local tail_at = 3 + STATE_BYTES + number * (6 + CURSOR_BYTES)
    if number > 9 or #text < tail_at + TAIL_BYTES then
      kit.fault('is cut short')
    end
    local lead, pending
    s.lives, s.last, lead, s.epoch, s.end_stored, s.size, s.open, pending =
      unpack(STATE, text, 4 + number * 6)
    s.phase = pending - pending % 16
    pending = pending - s.phase
    s.seen, s.start, s.stop = s.last - lead, tail_at + TAIL_BYTES, s.end_stored + pending
    if
      pending > TAIL_BYTES
      or s.end_stored < s.start
      or s.size < s.end_stored
      or s.size > s.start + 65536
    then
      kit.fault('has a damaged header')
    end
    if #text < 256 and #text ~= s.size then
      kit.fault('is cut short')
    end
    s.tail = sub(text, tail_at + 1, tail_at + pending)
    return number
  end

  -- Shifts all ticks with the clock, so that no key is denied for more than a window.
  local function follow_clock(s)
    local back = s.seen - s.now
    if kit.gone_back(s) then
      s.last, s.lives = s.last - back, -1
      blocks.shift(s, back)
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
      s.start, s.stop, s.size, s.end_stored, s.phase = 0, 0, 0, 0, 0
      read_cursors(s, text, 0)
      return
    end
    local number = read_head(s, text)
    read_cursors(s, text, number)
    follow_clock(s)
    for _, c in ipairs(s.cursors) do
      advance(s, c)
    end
    s.changed = s.changed or s.walked > WALK_MAX
  end

  function log.used(_, c)
    return c.high, c.low
  end

  function log.retry(s, c, cost)
    if c.high == 0 and c.low + cost <= c.limit then
      return 0
    end
    if cost > c.limit then
      return NEVER
    end
    -- The entry whose expiry frees the last unit that is missing.
    local high, low = kit.minus(c.high, c.low, c.limit - cost)
    if high == 0 and low == 1 then
      return math.max(c.tick + c.window - s.now, 0)
    end
    local _, tick = blocks.walk(s, c.place, c.tick, function(units)
      return high == 0 and units >= low
    end, function(units)
      return high > 0 or units < low
    end, function(units)
      high, low = kit.minus(high, low, units)
    end)
    return math.max(tick + c.window - s.now, 0)
  end

  function log.reset(s, c)
    if c.high == 0 and c.low == 0 then
      return 0
    end
    return math.max(c.tick + c.window - s.now, 0)
  end

  -- Returns the cursor of the longest window, which includes all recorded units.
  local function front(s)
    local longest = s.cursors[1]
    for _, c in ipairs(s.cursors) do
      longest = c.window > longest.window and c or longest
    end
    return longest
  end

  -- Drops all codes.
  local function clear(s, last)
    s.last, s.seen, s.open = last, s.now, 0
    s.tail, s.stop, s.end_stored = '', s.start, s.start
    blocks.clear(s)
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
      append(s, codes.write(s.open, date - s.last))
      s.last, s.open = date, 0
    end
    local place = s.stop
    if s.open + cost >= HUGE then
      append(s, codes.write(s.open, 0))
      s.open = 0
    end
    s.open, s.seen = s.open + cost, s.now
    if s.open > OPEN_MAX then
      -- More units than the header can hold: all but one become an entry with the same tick.
      append(s, codes.write(s.open - 1, 0))
      s.open = 1
    end
    for _, c in ipairs(s.cursors) do
      if c.high == 0 and c.low == 0 then
        c.place, c.tick = place, s.last
      end
      c.high, c.low = kit.plus(c.high, c.low, cost)
    end
    return s.last
  end

  -- Units in the future come after all others.
  log.take_ahead = log.take

  local join

  -- Units that are older than the last entry are recorded with it: they count longer, never
  -- shorter. If they are alone, and the longest quota is used up without the newest entry, they join
  -- it, so that units above the limit take no memory.
  function log.charge(s, date, cost, is_alone)
    local longest = s.cursors[1]
    for i = 2, s.count do
      longest = s.cursors[i].window > longest.window and s.cursors[i] or longest
    end
    if is_alone and join(s, longest, date, cost) then
      return
    end
    log.take(s, date, cost)
    for _, c in ipairs(s.cursors) do
      advance(s, c)
    end
  end

  -- Reads all codes from the front into `s.text`, to be rewritten. With an index, only multiples of
  -- sixteen bytes are dropped.
  local function gather(s)
    if s.gathered then
      return
    end
    local from = front(s).place
    if #blocks.read(s) > 0 then
      from = from - (from - s.start) % 16
    end
    if from >= s.end_stored then
      s.text = sub(s.tail, from - s.end_stored + 1)
    else
      s.text = call('GETRANGE', s.key, format('%.0f', from), format('%.0f', s.end_stored - 1))
      if #s.text ~= s.end_stored - from then
        kit.fault('is cut short')
      end
      for _, edited in ipairs(s.edits or {}) do
        -- At or behind the front, which no edit passes.
        local bytes, at = edited.bytes, edited.place - from
        s.text = sub(s.text, 1, at) .. bytes .. sub(s.text, at + #bytes + 1)
      end
      s.text = s.text .. s.tail
    end
    blocks.drop(s, from - s.start)
    s.base, s.end_stored, s.tail, s.moved, s.gathered = from, s.stop, '', true, true
  end

  -- Moves all places, so that the codes begin at `start`.
  local function rebase(s, start)
    for _, c in ipairs(s.cursors) do
      c.place = c.place - s.base + start
    end
    s.start, s.base, s.stop = start, start, start + #s.text
    s.end_stored, s.tail = s.stop, ''
  end

  -- Puts every cursor at the front, with all there is, and moves it on from there.
  local function recut(s, place, tick, high, low)
    for _, c in ipairs(s.cursors) do
      c.place, c.tick, c.high, c.low = place, tick, high, low
      advance(s, c)
    end
  end

  local remove
  remove, join = log_refund(kit, codes, blocks, code_at, {
    OPEN_MAX = OPEN_MAX,
    front = front,
    advance = advance,
    gather = gather,
    rebase = rebase,
  })

  function log.give_back(s, tick, units)
    return tick + s.keep > s.now and remove(s, tick, tick, units) or 0
  end

  function log.forgive(s, units)
    return remove(s, s.now - s.longest + 1, HUGE, units)
  end

  -- Returns a page of the entries from a tick on, and whether there are more.
  function log.history(s)
    local c = s.cursors[1]
    for i = 2, s.count do
      c = s.cursors[i].window > c.window and s.cursors[i] or c
    end
    local entries, page_tick = {}, nil
    local function list(units, tick)
      if units > 0 and (tick >= s.at or s.at == 0) then
        entries[#entries + 1] = pack('<i7I7', tick, units)
        page_tick = tick
      end
    end
    local more = 0
    if c.high > 0 or c.low > 0 then
      local place, tick = blocks.before(s, s.at, c.place, c.tick)
      while place < s.stop and more == 0 do
        local units, gap, behind = code_at(s, place)
        if #entries >= PAGE and tick > page_tick then
          more = 1
        else
          list(units, tick)
          place, tick = behind, tick + gap
        end
      end
      if more == 0 then
        list(s.open, s.last)
      end
    end
    return pack('<I4', #entries) .. table.concat(entries) .. pack('<B', more)
  end

  -- Returns the position of the first code.
  local function start_for(number)
    return 3 + STATE_BYTES + number * (6 + CURSOR_BYTES) + TAIL_BYTES
  end

  -- A key that was reset is a header without cursors.
  function log.forget(s)
    local all = front(s)
    local found = all.high > 0 or all.low > 0
    s.cursors = {}
    s.start = start_for(0)
    clear(s, s.now)
    s.lives, s.moved = -1, true
    return found
  end

  local function head(s)
    local lead = math.min(math.max(s.last - s.seen, 0), LEAD_MAX)
    local parts = { pack('<BBB', 1, LOG, #s.cursors) }
    for _, c in ipairs(s.cursors) do
      parts[#parts + 1] = pack('<I6', c.window)
    end
    parts[#parts + 1] = pack(STATE, s.lives, s.last, lead, s.epoch, s.end_stored, s.size, s.open,
      #s.tail + s.phase)
    for _, c in ipairs(s.cursors) do
      parts[#parts + 1] = pack(CURSOR, c.place, c.tick, c.high > 0 and HUGE or c.low)
    end
    parts[#parts + 1] = s.tail
    return table.concat(parts)
  end

  -- Returns the length of a string with `used` bytes and spare ones. It uses the full size of the
  -- allocation (four sizes per power of two, minus what Redis stores with a string), but not so
  -- much that the front would be outside of the first read of a check.
  local function size_for(used, spare)
    local step, header = 16, used + spare > 252 and 6 or 4
    local bytes = used + spare + header
    while bytes > step * 8 do
      step = step * 2
    end
    local room = bytes + (-bytes) % step - header
    return math.max(used + spare, math.min(room, used + 64))
  end

  -- Drops the bytes before the front, together with their part of the index.
  local function trim(s)
    local from = front(s).place
    s.text, s.base = sub(s.text, from - s.base + 1), from
    blocks.clear(s)
  end

  -- Merges entries if there are too many.
  local function shrink(s)
    local function is_over()
      return #s.text * 8 > s.param * 7
    end
    if is_over() then
      local all = front(s)
      squeeze_part(s)
      recut(s, all.place, all.tick, all.high, all.low)
    end
    if is_over() then
      trim(s)
      rebase(s, s.start)
      local all = front(s)
      recut(s, s.base, squeeze(s, all), all.high, all.low)
      trim(s)
      rebase(s, s.start)
    end
  end

  -- Writes all codes again, with spare bytes and an index.
  local function rewrite(s, ttl)
    local start = start_for(#s.cursors)
    local size = start
    if #s.cursors == 0 then
      s.text, s.base = '', 0
      blocks.clear(s)
      rebase(s, start)
    else
      gather(s)
      if s.records == 0 then
        trim(s)
      end
      rebase(s, start)
      shrink(s)
      size = size_for(start + #s.text, math.max(8, (#s.text - #s.text % 16) / 16))
    end
    -- Not far beyond what makes entries merge, so that a part of them is enough. Above the cap only with
    -- debt of many times 2^53 units, which takes several codes.
    local most = math.min(s.param, (s.param - s.param % 8) / 8 * 7 + 512)
    s.size = math.max(math.min(size, s.start + most), s.stop)
    if s.size - s.start < blocks.INDEXED then
      blocks.clear(s)
    else
      blocks.extend(s, s.stop, front(s))
    end
    local index = sub(blocks.text(s), 1, blocks.count(s, s.size) * blocks.RECORD_BYTES)
    index = index .. string.rep('\0', blocks.count(s, s.size) * blocks.RECORD_BYTES - #index)
    local blank = string.rep('\0', TAIL_BYTES)
    local value = head(s) .. blank .. s.text .. string.rep('\0', s.size - s.stop) .. index
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
    local flush = #s.tail > TAIL_BYTES
    if s.moved or wasted or (flush and (s.stop > s.size or s.edits)) then
      s.writes = rewrite(s, ttl)
      return
    end
    s.writes = {}
    for _, edited in ipairs(s.edits or {}) do
      s.writes[#s.writes + 1] = { 'SETRANGE', s.key, format('%.0f', edited.place), edited.bytes }
    end
    if flush then
      if blocks.count(s, s.stop) > blocks.count(s, s.end_stored) then
        blocks.extend(s, s.stop, front(s))
      end
      s.writes[#s.writes + 1] = { 'SETRANGE', s.key, format('%.0f', s.end_stored), s.tail }
      s.end_stored, s.tail = s.stop, ''
    end
    if s.index_from then
      local from, to = (s.index_from - 1) * blocks.RECORD_BYTES, s.index_to * blocks.RECORD_BYTES
      s.writes[#s.writes + 1] =
        { 'SETRANGE', s.key, format('%.0f', s.size + from), sub(blocks.text(s), from + 1, to) }
    end
    s.writes[#s.writes + 1] = { 'SETRANGE', s.key, '0', head(s) }
    if ttl then
      s.writes[#s.writes + 1] = { 'PEXPIRE', s.key, ttl }
    end
  end

  return log
end
