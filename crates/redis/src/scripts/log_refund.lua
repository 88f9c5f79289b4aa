-- Refunds units of a log, and joins units above the limit to its newest entry. Codes are changed in
-- place, so that nothing else has to move.
--
-- KEYS, ARGV and reply: see log.lua.
-- Stored: an entry that loses some of its units keeps its length, because the bytes of its units
-- are padded. An entry that loses all of them is replaced by padding bytes of 255, and its gap is
-- added to that of the entry before it.
-- Cost: reads the index and a block, and writes a code and a record. Only a gap that needs more bytes
-- than there are makes it copy all codes and update the index: about a microsecond per record.

local function log_refund(kit, codes, blocks, code_at, own)
  local sub = string.sub
  -- The maximum number of entries that the search for one with units passes.
  local FIND_MAX = 2048

  -- Overwrites bytes at a position, in the codes and in the tail.
  local function edit(s, place, bytes)
    local stored = math.max(math.min(s.end_stored - place, #bytes), 0)
    if stored > 0 then
      s.edits[#s.edits + 1] = { place = place, bytes = sub(bytes, 1, stored) }
    end
    if stored < #bytes then
      -- No code may be partly in the tail.
      s.moved = s.moved or stored > 0
      local at = place + stored - s.end_stored
      s.tail = sub(s.tail, 1, at) .. sub(bytes, stored + 1) .. sub(s.tail, at + #bytes - stored + 1)
    end
  end

  -- Replaces the codes between two positions. Those after them do not move, unless the new ones are
  -- longer. Then everything is rewritten.
  local function replace(s, from, to, code, to_tick)
    local room = to - from
    blocks.move(s, from + 1, to, to_tick)
    if #code <= room then
      edit(s, from, code .. string.rep('\255', room - #code))
      return
    end
    local more = #code - room
    blocks.slide(s, to, more)
    own.gather(s)
    s.text = sub(s.text, 1, from - s.base) .. code .. sub(s.text, to - s.base + 1)
    for _, c in ipairs(s.cursors) do
      c.place = c.place >= to and c.place + more or c.place
    end
    own.rebase(s, s.start)
  end

  -- Removes the entries after one up to a position: that one gets their gap, and nothing else
  -- moves. A gap above 15551 or 2^24 may need more bytes than there are.
  local function erase(s, previous, to, gap, to_tick)
    replace(s, previous.place, to, codes.write(previous.units, previous.gap + gap), to_tick)
  end

  -- Returns the first entry at or after `tick` that has units: its position and tick, the entry
  -- before it, and whether it is the first of all.
  local function find(s, all, tick)
    local place, here = blocks.before(s, tick, all.place, all.tick)
    local previous, is_first, steps = nil, place == all.place, 0
    while place < s.stop and steps < FIND_MAX do
      local units, gap, behind = code_at(s, place)
      if units > 0 and here >= tick then
        return place, here, previous, is_first
      elseif units > 0 or gap > 0 then
        previous, is_first = { place = place, units = units, gap = gap }, false
      end
      place, here, steps = behind, here + gap, steps + 1
    end
    return s.stop, s.last, previous, is_first
  end

  -- Returns the last code before the newest entry with units, and its units.
  local function newest(s, all)
    local place, tick = blocks.before(s, s.last, all.place, all.tick)
    local before, code, newest_tick, sum = nil, nil, nil, 0
    local function see(units, here)
      if units > 0 and here == newest_tick then
        sum = sum + units
      elseif units > 0 then
        before, newest_tick, sum = code, here, units
      end
    end
    while place < s.stop do
      local units, gap, behind = code_at(s, place)
      see(units, tick)
      if units > 0 or gap > 0 then
        code = { place = place, units = units, tick = tick }
      end
      place, tick = behind, tick + gap
    end
    see(s.open, s.last)
    return before, sum
  end

  -- Joins units to the newest entry, which moves to `date`, if quota `c` is used up without it.
  -- Otherwise returns false and does nothing.
  local function join(s, c, date, cost)
    local most = math.max(c.limit, 1)
    if s.edits or (c.high == 0 and c.low <= most) then
      return false
    end
    local previous, units = newest(s, own.front(s))
    local high, low = kit.minus(c.high, c.low, units)
    if not previous or units >= kit.HUGE or (high == 0 and low < most) then
      return false
    end
    date = math.max(date, s.last)
    local total = math.min(units + cost, kit.HUGE - 1)
    local code = codes.write(previous.units, date - previous.tick)
    local place = previous.place + #code
    s.open = total
    if total > own.OPEN_MAX then
      code, s.open = code .. codes.write(total - 1, 0), 1
    end
    s.edits = {}
    -- The units of the block have to be read, because they include those of the entry.
    blocks.forget_units(s, previous.place)
    replace(s, previous.place, s.stop, code, date)
    s.last, s.seen = date, s.now
    for _, cursor in ipairs(s.cursors) do
      if cursor.place > previous.place then
        cursor.place, cursor.tick = math.min(place, s.stop), date
      end
      -- The entry had left the windows that count nothing.
      local more = cursor.high == 0 and cursor.low == 0 and total or total - units
      cursor.high, cursor.low = kit.plus(cursor.high, cursor.low, more)
    end
    return true
  end

  -- Removes up to `units` of the entries from tick `first` to tick `latest`, oldest first. The units of a
  -- receipt whose entry was merged into a later one are not found: if they were forgiven, that entry has
  -- the units of other requests.
  local function give_back(s, first, latest, units)
    local all = own.front(s)
    if
      units == 0
      or first > s.last
      or (all.high == 0 and all.low == 0)
    then
      return 0
    end
    s.edits = {}
    if first == s.last and units <= s.open then
      -- Open units need no code. An open entry may have no units.
      s.open = s.open - units
      for _, c in ipairs(s.cursors) do
        if c.high > 0 or c.low > 0 then
          c.high, c.low = kit.minus(c.high, c.low, units)
        end
      end
      return units
    end

    -- Whole entries, then a part of one, then the open units.
    local from, from_tick, previous, is_first = find(s, all, first)
    if from_tick > latest then
      return 0
    end
    local left, ranges = units, {}
    local to, to_tick = blocks.walk(s, from, from_tick, function(there, tick)
      return left == 0 or there > left or tick > latest
    end, function(there, tick)
      return left > 0 and there <= left and tick <= latest
    end, function(there, place, block)
      left = left - there
      if there > 0 then
        ranges[#ranges + 1] = { place = place, units = there, block = block }
      end
    end)
    local whole, part = units - left, 0
    if left > 0 and to < s.stop and to_tick <= latest then
      local there, gap, behind = code_at(s, to)
      edit(s, to, codes.write(there - left, gap, behind - to))
      blocks.take_off(s, to, left)
      part, left = left, 0
    end
    local open = s.last <= latest and math.min(s.open, left) or 0
    s.open = s.open - open

    for _, c in ipairs(s.cursors) do
      if c.high > 0 or c.low > 0 then
        if c.place <= from then
          c.high, c.low = kit.minus(c.high, c.low, whole)
        elseif c.place < to then
          -- At most `units`, so the sum needs no second number.
          local _, low = blocks.units_between(s, c.place, c.tick, to)
          c.high, c.low = kit.minus(c.high, c.low, low)
        end
        c.high, c.low = kit.minus(c.high, c.low, open + (c.place <= to and part or 0))
        if c.place >= from and c.place < to or (is_first and c.place < from) then
          c.place, c.tick = to, to_tick
        end
      end
    end
    if to > from and not is_first then
      for _, range in ipairs(ranges) do
        if range.block then
          blocks.empty(s, range.block)
        else
          blocks.take_off(s, range.place, range.units)
        end
      end
      erase(s, previous, to, to_tick - from_tick, to_tick)
    end
    for _, c in ipairs(s.cursors) do
      own.advance(s, c)
    end
    return units - left + open
  end

  return give_back, join
end
