-- fixed: one window aligned to the epoch.
--
-- KEYS, ARGV and reply: see main.lua.
-- Stored, for each quota: window I6, start i6, count I7. 30 bytes for one quota.
-- Cost: one GET, and one SET if something was taken.

windows[70] = function(kit)
  local FIXED, HUGE, NEVER = 70, kit.HUGE, kit.NEVER
  local pack, unpack = struct.pack, struct.unpack
  local fixed = {}
  local STATE, STATE_BYTES = '<I6i6I7', 19

  local function rotate(s, i, tick)
    local window = s.windows[i]
    if tick - s.starts[i] >= window then
      s.starts[i], s.counts[i] = tick - tick % window, 0
    end
  end

  function fixed.open(s)
    local value, at = kit.load(s, FIXED, STATE_BYTES)
    local back = kit.gone_back(s)
    s.starts, s.counts = {}, {}
    for i = 1, s.count do
      local window, start, count = s.windows[i], 0, 0
      if i <= s.stored then
        window, start, count = unpack(STATE, value, at + (i - 1) * STATE_BYTES)
      end
      -- Another window, or a clock gone back: the units count as if they came now.
      if window ~= s.windows[i] or back then
        start = s.now - s.now % s.windows[i]
      end
      s.starts[i], s.counts[i] = start, math.min(count, HUGE)
      rotate(s, i, s.now)
    end
  end

  function fixed.used(s, i)
    return 0, s.counts[i]
  end

  function fixed.retry(s, i, cost)
    if s.counts[i] + cost <= s.limits[i] then
      return 0
    end
    if cost > s.limits[i] then
      return NEVER
    end
    return math.max(s.starts[i] + s.windows[i] - s.now, 0)
  end

  function fixed.reset(s, i)
    if s.counts[i] == 0 then
      return 0
    end
    return math.max(s.starts[i] + s.windows[i] - s.now, 0)
  end

  function fixed.take(s, date, cost)
    local tick = date
    for i = 1, s.count do
      rotate(s, i, date)
      s.counts[i] = kit.add(s.counts[i], cost)
      tick = math.max(tick, s.starts[i])
    end
    return tick
  end

  function fixed.give_back(s, tick, units)
    local most = 0
    for i = 1, s.count do
      if tick >= s.starts[i] then
        local given
        s.counts[i], given = kit.take_off(s.counts[i], units)
        most = math.max(most, given)
      end
    end
    return most
  end

  function fixed.forget(s)
    local found = false
    for i = 1, s.count do
      found = found or s.counts[i] > 0
      s.counts[i] = 0
    end
    return found
  end

  function fixed.save(s)
    local states, idle = {}, s.now + s.keep
    for i = 1, s.count do
      states[i] = pack(STATE, s.windows[i], s.starts[i], s.counts[i])
      idle = math.max(idle, s.starts[i] + s.keep)
    end
    kit.store(s, FIXED, states, idle - s.now)
  end

  return fixed
end
