-- Makes a log smaller without letting anybody through: neighbors become one entry, dated at the
-- later. The rules of crates/core/src/window/log/merge.rs and take.rs.
--
-- KEYS, ARGV, stored and reply: none of its own, see log.lua.
-- Cost: reads all codes, some six milliseconds for 64 KiB of them, once in every half of the cap that
-- is written.

local function log_merge(kit, codes, code_at)
  local HUGE = kit.HUGE

  -- Merges all entries that fall into the same aligned stretch of `quantum` ticks, each dated at
  -- the last of them; the codes, and the tick of the first. Empty entries go.
  local function merge(s, first, quantum)
    local out, done_tick, done_units = {}, nil, 0
    local merged_first, group_tick, group_units = s.last, first, 0
    local function close(tick, units)
      if done_tick then
        out[#out + 1] = codes.write(done_units, tick - done_tick)
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
    local out = {}
    if low > 0 then
      out[1] = codes.write(low, 0)
    end
    for _ = 1, high do
      out[#out + 1] = codes.write(HUGE - 1, 0) .. codes.write(1, 0)
    end
    return table.concat(out)
  end

  -- Merges entries until no more than half of the cap is used, and says which tick the first has
  -- now. `s.text` has all codes from the front on, and `all` is the cursor there. The first quantum
  -- is that at which this is sure for entries of up to six bytes.
  return function(s, all)
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
    return first
  end
end
