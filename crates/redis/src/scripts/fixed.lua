-- fixed: one window aligned to the epoch.
--
-- KEYS, ARGV and reply: see main.lua.
-- Stored, for each quota: window I6, tick of the latest unit i6, units of its window I7. 30 bytes for
-- one quota. Another window reads the same state.
-- Cost: one GET, and one SET if units were taken.

windows[70] = function(kit)
  local pack, unpack = struct.pack, struct.unpack
  local STATE, STATE_BYTES = '<I6i6I7', 19
  local fixed = {}

  -- Units that count at a tick.
  local function live(q, tick)
    return tick - q.start < q.window and q.count or 0
  end

  function fixed.read(_, q, value, at)
    q.last, q.count = 0, 0
    if value then
      local _
      _, q.last, q.count = unpack(STATE, value, at)
      at = at + STATE_BYTES
    end
    return at
  end

  function fixed.advance(s, q, back)
    -- The clock went back: the units count as taken now.
    if back > 0 then
      q.last = s.now
    end
    q.start, q.count = q.last - q.last % q.window, math.min(q.count, kit.HUGE)
  end

  function fixed.used(s, q)
    return 0, live(q, s.now)
  end

  function fixed.retry(s, q, cost)
    if live(q, s.now) + cost <= q.limit then
      return 0
    end
    return cost > q.limit and kit.NEVER or math.max(q.start + q.window - s.now, 0)
  end

  function fixed.reset(s, q)
    return q.count > 0 and math.max(q.start + q.window - s.now, 0) or 0
  end

  function fixed.take(_, q, date, cost)
    q.count, q.last = kit.add(live(q, date), cost), math.max(q.last, date)
    q.start = q.last - q.last % q.window
    return q.start
  end

  -- Units of a window that has ended no longer count.
  function fixed.charge(s, q, date, cost)
    if date >= q.start then
      fixed.take(s, q, date, cost)
    end
  end

  function fixed.give_back(s, q, tick, units)
    local given = 0
    if tick >= q.start and live(q, s.now) > 0 then
      q.count, given = kit.take_off(q.count, units)
    end
    return given
  end

  function fixed.clear(s, q)
    local found = live(q, s.now) > 0
    q.count = 0
    return found
  end

  function fixed.write(s, q)
    return pack(STATE, q.window, q.last, q.count), q.last + s.keep
  end

  return kit.small(70, STATE_BYTES, fixed)
end
