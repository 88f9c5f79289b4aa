-- Makes a log smaller without over-admitting: neighboring entries become one entry at the later
-- tick. The rules are those of crates/core/src/window/log/merge.rs and take.rs.
--
-- KEYS, ARGV, stored and reply: none of its own, see log.lua.
-- Cost: a microsecond for four codes. Of a log of more than 6 KiB only the densest 2 KiB are merged, once
-- for every one or two KiB that are written, which takes about a millisecond.

local function log_merge(kit, codes, blocks, code_at)
  local HUGE = kit.HUGE
  -- A log with LONG blocks is long. PART of them are merged at a time.
  local LONG, PART = 48, 16

  -- Merges all entries from `place` to `stop` that fall into the same aligned stretch of `quantum`
  -- ticks, each dated at the last of them; the codes, and the tick of the first. Empty entries go. The
  -- entry at `stop` is of the tick `last`.
  local function merge(s, place, stop, first, last, quantum)
    local out, done_tick, done_units = {}, nil, 0
    local merged_first, group_tick, group_units = last, first, 0
    local function close(tick, units)
      if done_tick then
        out[#out + 1] = codes.write(done_units, tick - done_tick)
      else
        merged_first = tick
      end
      done_tick, done_units = tick, units
    end
    local tick = first
    while place < stop do
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
      -- Closes the last group against the entry behind it.
      close(last, 0)
    end
    return table.concat(out), merged_first
  end

  -- Merges all but the open units into one entry at the tick of the last, or more above 2^53 units.
  local function collapse(high, low)
    local out = {}
    if low > 0 then
      out[1] = codes.write(low, 0)
    end
    for _ = 1, high do
      out[#out + 1] = codes.write(HUGE - 1, 0) .. codes.write(1, 0)
    end
    return table.concat(out)
  end

  -- The quantum at which entries of up to six bytes are sure to take no more than half of the cap.
  local function quantum_for(s)
    local quantum = 1
    while quantum * s.param < s.keep * 12 do
      quantum = quantum * 2
    end
    return quantum
  end

  -- Merges the entries of the blocks that span the fewest ticks, if the log is long. What is gained is
  -- a number of whole blocks, so that the records behind them keep their bytes.
  local function squeeze_part(s)
    if s.records < LONG then
      return
    end
    local ticks, first = {}, 1
    for k = 1, s.records do
      ticks[k] = blocks.get(s, k)
      if k > PART and ticks[k] - ticks[k - PART] < ticks[first + PART] - ticks[first] then
        first = k - PART
      end
    end
    local tick, from = blocks.get(s, first)
    local last, to = blocks.get(s, first + PART)
    local text, merged_first = merge(s, from, to, tick, last, quantum_for(s))
    if merged_first > tick then
      text = codes.write(0, merged_first - tick) .. text
    end
    local gain = math.max(to - from - #text, 0)
    gain = gain - gain % blocks.BYTES
    text = text .. string.rep('\255', to - from - #text - gain)
    s.text = string.sub(s.text, 1, from - s.base) .. text .. string.sub(s.text, to - s.base + 1)
    s.stop = s.stop - gain
    s.end_stored = s.stop
    blocks.splice(s, first, first + PART, to - gain, gain)
  end

  -- Merges entries until no more than half of the cap is used, and says which tick the first has
  -- now. `s.text` has all codes from the front on, and `all` is the cursor there.
  local function squeeze(s, all)
    local first, high, low = all.tick, all.high, all.low
    local target, quantum = math.max(s.param / 2, 7), quantum_for(s)
    while #s.text > target and quantum <= s.keep * 2 do
      local text, merged_first = merge(s, s.base, s.stop, first, s.last, quantum)
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
    return first
  end

  return squeeze_part, squeeze
end
