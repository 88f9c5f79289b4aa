-- fixed: one window aligned to the epoch.
--
-- KEYS, ARGV and reply: see main.lua.
-- Stored, for each quota: window I6, start i6, count I7. 30 bytes for one quota.
-- Cost: one GET, and one SET if units were taken.

windows[70] = function(kit)
  local pack, unpack = struct.pack, struct.unpack
  local STATE, STATE_BYTES = '<I6i6I7', 19
  local fixed = {}

  local function rotate(q, tick)
    if tick - q.start >= q.window then
      q.start, q.count = tick - tick % q.window, 0
    end
  end

  function fixed.read(_, q, value, at)
    q.stored_window, q.start, q.count = q.window, 0, 0
    if value then
      q.stored_window, q.start, q.count = unpack(STATE, value, at)
      at = at + STATE_BYTES
    end
    return at
  end

  function fixed.advance(s, q, back)
    -- The window changed, or the clock went back: the units count as taken now.
    if q.stored_window ~= q.window or back > 0 then
      q.start = s.now - s.now % q.window
    end
    q.count = math.min(q.count, kit.HUGE)
    rotate(q, s.now)
  end

  function fixed.used(_, q)
    return 0, q.count
  end

  function fixed.retry(s, q, cost)
    if q.count + cost <= q.limit then
      return 0
    end
    return cost > q.limit and kit.NEVER or math.max(q.start + q.window - s.now, 0)
  end

  function fixed.reset(s, q)
    return q.count > 0 and math.max(q.start + q.window - s.now, 0) or 0
  end

  function fixed.take(_, q, date, cost)
    rotate(q, date)
    q.count = kit.add(q.count, cost)
    return q.start
  end

  -- Units of a window that has ended no longer count.
  function fixed.charge(s, q, date, cost)
    if date >= q.start then
      fixed.take(s, q, date, cost)
    end
  end

  function fixed.give_back(_, q, tick, units)
    local given = 0
    if tick >= q.start then
      q.count, given = kit.take_off(q.count, units)
    end
    return given
  end

  function fixed.clear(_, q)
    local found = q.count > 0
    q.count = 0
    return found
  end

  function fixed.write(s, q)
    return pack(STATE, q.window, q.start, q.count), q.start + s.keep
  end

  return kit.small(70, STATE_BYTES, fixed)
end
