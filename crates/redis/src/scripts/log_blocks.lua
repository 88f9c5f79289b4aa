-- The index of a long log: the positions of its blocks, so that a tick is found and expired entries
-- are skipped without reading every code.
--
-- KEYS, ARGV and reply: see log.lua.
-- Stored: after the codes and their spare bytes, one record for every 128 bytes of these. Record k
-- describes the first code that starts at or after byte 128 * k - phase: its tick i6, its distance
-- from that byte I2, and the units of all codes since the record before I5 (2^40 - 1 for more: then
-- they are read). A log with space for less than 256 bytes of codes has no index.
-- Cost: reading the index takes two microseconds, finding a tick in it another two. Changed records are
-- kept in a table until the index is written, because changing a string copies it.

local function log_blocks(kit, code_at)
  local pack, unpack, sub, format = struct.pack, struct.unpack, string.sub, string.format
  local BLOCK, INDEXED, RECORD, RECORD_BYTES, MANY = 128, 256, '<i6I2I5', 13, 1099511627775
  local blocks = { BYTES = BLOCK, INDEXED = INDEXED, RECORD_BYTES = RECORD_BYTES }

  -- Returns the number of records between the start of the codes and a position.
  function blocks.count(s, place)
    local bytes = place - s.start + s.phase
    return s.size - s.start < INDEXED and 0 or (bytes - bytes % BLOCK) / BLOCK
  end

  -- Reads the index once.
  local function read(s)
    if not s.index then
      local number = s.size > 0 and blocks.count(s, s.size) or 0
      s.index, s.edited = '', {}
      if number > 0 then
        s.index = redis.call('GETRANGE', s.key, format('%.0f', s.size),
          format('%.0f', s.size + number * RECORD_BYTES - 1))
        if #s.index ~= number * RECORD_BYTES then
          kit.fault('is cut short')
        end
      end
      s.records = blocks.count(s, s.end_stored)
    end
    return s.index
  end
  blocks.read = read

  -- Returns tick, position and units of a record.
  function blocks.get(s, k)
    local index, record = read(s), s.edited[k]
    local tick, beyond, units = unpack(RECORD, record or index, record and 1 or (k - 1) * RECORD_BYTES + 1)
    local place = s.start + k * BLOCK - s.phase + beyond
    if place > s.stop then
      kit.fault('has a damaged index')
    end
    return tick, place, units
  end

  local function set(s, k, tick, place, units)
    s.edited[k] = pack(RECORD, tick, place - (s.start + k * BLOCK - s.phase), math.min(units, MANY))
    s.index_from, s.index_to = math.min(s.index_from or k, k), math.max(s.index_to or k, k)
  end

  -- Returns the index with all changes.
  function blocks.text(s)
    local index, edited = read(s), s.edited
    if next(edited) then
      local parts = {}
      for k = 1, #index / RECORD_BYTES do
        parts[k] = edited[k] or sub(index, (k - 1) * RECORD_BYTES + 1, k * RECORD_BYTES)
      end
      s.index, s.edited = table.concat(parts), {}
    end
    return s.index
  end

  -- Returns the first record after `place`, or the number of records plus one.
  local function after(s, place)
    read(s)
    local low, high = 1, s.records + 1
    while low < high do
      local middle = low + high
      middle = (middle - middle % 2) / 2
      local _, there = blocks.get(s, middle)
      if there > place then
        high = middle
      else
        low = middle + 1
      end
    end
    return low
  end

  -- Returns the position and tick from which a search for the first entry at or after `tick` can
  -- start, not before `place`, and with an entry before it on the way.
  function blocks.before(s, tick, place, here)
    read(s)
    local low, high = 0, s.records
    while low < high do
      local middle = low + high + 1
      middle = (middle - middle % 2) / 2
      if blocks.get(s, middle) < tick then
        low = middle
      else
        high = middle - 1
      end
    end
    if low > 0 then
      local found, there = blocks.get(s, low)
      if there > place then
        return there, found
      end
    end
    return place, here
  end

  -- Walks over entries until `stops(units, tick, place)` is true for one of them. Returns its
  -- position and tick. Calls `pass(units, place)` for each entry before it. A block is skipped at
  -- once if `skips(units, tick, place)` is true for its units, and for the tick and the position
  -- after it; `pass` then gets its record too.
  function blocks.walk(s, place, tick, stops, skips, pass)
    local k, border = nil, nil
    if s.end_stored - place > BLOCK then
      k = after(s, place - 1)
      if k <= s.records then
        local _, first = blocks.get(s, k)
        border = first
      end
    end
    while place < s.stop do
      if place == border then
        border, k = nil, k + 1
        if k <= s.records then
          local next_tick, next_place, units = blocks.get(s, k)
          border = next_place
          if units < MANY and skips(units, next_tick, next_place) then
            pass(units, place, k)
            place, tick = next_place, next_tick
          end
        end
      else
        local units, gap, behind = code_at(s, place)
        if stops(units, tick, place) then
          break
        end
        pass(units, place)
        place, tick = behind, tick + gap
      end
    end
    return place, tick
  end

  -- Returns the units between two positions.
  function blocks.units_between(s, from, tick, to)
    local high, low = 0, 0
    blocks.walk(s, from, tick, function(_, _, place)
      return place >= to
    end, function(_, _, place)
      return place <= to
    end, function(units)
      high, low = kit.plus(high, low, units)
    end)
    return high, low
  end

  -- Removes units from the record of the block with the code at `place`.
  function blocks.take_off(s, place, units)
    local k = after(s, place)
    if k <= s.records then
      local tick, there, sum = blocks.get(s, k)
      if sum < MANY then
        set(s, k, tick, there, math.max(sum - units, 0))
      end
    end
  end

  -- Makes the units of the block with the code at `place` unknown.
  function blocks.forget_units(s, place)
    local k = after(s, place)
    if k <= s.records then
      local tick, there = blocks.get(s, k)
      set(s, k, tick, there, MANY)
    end
  end

  -- Moves the records from `from` to `to`, included, to the latter, which has this tick.
  function blocks.move(s, from, to, tick)
    local k = after(s, from - 1)
    while k <= s.records do
      local _, place, units = blocks.get(s, k)
      if place > to then
        break
      end
      set(s, k, tick, to, units)
      k = k + 1
    end
  end

  -- Moves the records at or after a position by some bytes.
  function blocks.slide(s, place, bytes)
    for k = after(s, place - 1), s.records do
      local tick, there, units = blocks.get(s, k)
      set(s, k, tick, there + bytes, units)
    end
  end

  -- Marks a block as empty.
  function blocks.empty(s, k)
    local tick, place = blocks.get(s, k)
    set(s, k, tick, place, 0)
  end

  -- Shifts all ticks back.
  function blocks.shift(s, back)
    read(s)
    for k = 1, s.records do
      local tick, place, units = blocks.get(s, k)
      set(s, k, tick - back, place, units)
    end
  end

  -- Removes the index.
  function blocks.clear(s)
    s.index, s.edited, s.records, s.phase, s.index_from, s.index_to = '', {}, 0, 0, nil, nil
  end

  -- Drops the records of the first `bytes`, a multiple of sixteen, because the phase has four bits.
  function blocks.drop(s, bytes)
    local index = blocks.text(s)
    if index == '' then
      return
    end
    local phase = (s.phase + bytes) % BLOCK
    local dropped = (s.phase + bytes - phase) / BLOCK
    s.index, s.phase = sub(index, dropped * RECORD_BYTES + 1), phase
    s.records = math.max(s.records - dropped, 0)
  end

  -- Writes the records between two of them again, after what lies there became shorter by some blocks
  -- and the second one begins at `place` now.
  function blocks.splice(s, first, second, place, gain)
    local index, records = blocks.text(s), s.records - gain / BLOCK
    s.index, s.records = sub(index, 1, first * RECORD_BYTES), first
    local tick, from = blocks.get(s, first)
    blocks.extend(s, place, { place = from, tick = tick })
    s.index, s.records = blocks.text(s) .. sub(index, second * RECORD_BYTES + 1), records
  end

  -- Adds the records of what has been written since, up to `stop`. `from` is the first entry there is.
  function blocks.extend(s, stop, from)
    read(s)
    local number = blocks.count(s, stop)
    local place, tick = from.place, from.tick
    if s.records > 0 then
      tick, place = blocks.get(s, s.records)
      if place < from.place then
        place, tick = from.place, from.tick
      end
    end
    local sum = 0
    s.index = s.index .. string.rep('\0', math.max(0, number * RECORD_BYTES - #s.index))
    while s.records < number do
      if place >= s.start + (s.records + 1) * BLOCK - s.phase then
        s.records = s.records + 1
        set(s, s.records, tick, place, sum)
        sum = 0
      else
        local units, gap, behind = code_at(s, place)
        place, tick, sum = behind, tick + gap, sum + units
      end
    end
  end

  return blocks
end
