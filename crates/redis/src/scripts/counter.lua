-- counter: two aligned windows, the current one whole, the previous one weighted by its overlap.
--
-- KEYS, ARGV and reply: see main.lua.
-- Stored, for each quota: window I6, start of the current window i6, previous I7, current I7. 37
-- bytes for one quota.
-- Cost: one GET, and one SET if something was taken. Numbers whose product passes 2^53 are divided
-- bit by bit, which takes some five microseconds.

windows[67] = function(kit)
  local COUNTER, HUGE, NEVER = 67, kit.HUGE, kit.NEVER
  local pack, unpack = struct.pack, struct.unpack
  local counter = {}
  local STATE, STATE_BYTES = '<I6i6I7I7', 26

  local function rotate(s, i, tick)
    local window, passed = s.windows[i], tick - s.starts[i]
    if passed >= window then
      s.previous[i] = passed < 2 * window and s.current[i] or 0
      s.current[i] = 0
      s.starts[i] = tick - tick % window
    end
  end

  function counter.open(s)
    local value, at = kit.load(s, COUNTER, STATE_BYTES)
    local back = kit.gone_back(s)
    s.starts, s.previous, s.current = {}, {}, {}
    for i = 1, s.count do
      local window, start, previous, current = s.windows[i], 0, 0, 0
      if i <= s.stored then
        window, start, previous, current = unpack(STATE, value, at + (i - 1) * STATE_BYTES)
      end
      if window ~= s.windows[i] or back then
        -- Another window, or a clock gone back: all that may still count does, as if it came now.
        start = s.now - s.now % s.windows[i]
        previous, current = 0, previous + current
      end
      s.starts[i] = start
      s.previous[i], s.current[i] = math.min(previous, HUGE), math.min(current, HUGE)
      rotate(s, i, s.now)
    end
  end

  -- Ticks of the previous window that still overlap; all of it before the window has begun.
  local function overlap(s, i)
    local window = s.windows[i]
    return window - math.min(math.max(s.now - s.starts[i], 0), window)
  end

  -- Ticks until the current window ends; it may not have begun.
  local function left(s, i)
    return overlap(s, i) + math.max(s.starts[i] - s.now, 0)
  end

  -- What the previous window weighs, rounded up: down would let one unit too many through.
  local function carried(s, i)
    local previous, window, over = s.previous[i], s.windows[i], overlap(s, i)
    if previous == 0 or over == window then
      return previous
    end
    local whole, rest = kit.muldiv(previous, over, window)
    return math.min(rest > 0 and whole + 1 or whole, previous)
  end

  -- The largest overlap at which `count` units weigh no more than `room`, rounded down.
  local function overlap_for(room, count, window)
    if count <= room then
      return window
    end
    return math.min((kit.muldiv(room, window, count)), window)
  end

  function counter.used(s, i)
    return 0, math.min(s.current[i] + carried(s, i), HUGE)
  end

  function counter.retry(s, i, cost)
    local limit, window = s.limits[i], s.windows[i]
    local _, used = counter.used(s, i)
    if used + cost <= limit then
      return 0
    end
    if cost > limit then
      return NEVER
    end
    local room = limit - cost
    -- In this window, once the previous one weighs little enough ...
    if room >= s.current[i] then
      return left(s, i) - overlap_for(room - s.current[i], s.previous[i], window)
    end
    -- ... or in the next one, once this one does.
    return left(s, i) + window - overlap_for(room, s.current[i], window)
  end

  function counter.reset(s, i)
    local window, carry = s.windows[i], carried(s, i)
    if carry > 0 then
      return left(s, i) - overlap_for(carry - 1, s.previous[i], window)
    end
    local current = s.current[i]
    if current == 0 then
      return 0
    end
    return left(s, i) + window - overlap_for(current - 1, current, window)
  end

  function counter.take(s, date, cost)
    local tick = date
    for i = 1, s.count do
      rotate(s, i, date)
      s.current[i] = kit.add(s.current[i], cost)
      tick = math.max(tick, s.starts[i])
    end
    return tick
  end

  function counter.give_back(s, tick, units)
    local most = 0
    for i = 1, s.count do
      local given = 0
      if tick >= s.starts[i] then
        s.current[i], given = kit.take_off(s.current[i], units)
      elseif tick + s.windows[i] >= s.starts[i] then
        s.previous[i], given = kit.take_off(s.previous[i], units)
      end
      most = math.max(most, given)
    end
    return most
  end

  function counter.forget(s)
    local found = false
    for i = 1, s.count do
      found = found or s.current[i] + s.previous[i] > 0
      s.current[i], s.previous[i] = 0, 0
    end
    return found
  end

  function counter.save(s)
    local states, idle = {}, s.now + s.keep
    for i = 1, s.count do
      states[i] = pack(STATE, s.windows[i], s.starts[i], s.previous[i], s.current[i])
      idle = math.max(idle, s.starts[i] + 2 * s.keep)
    end
    kit.store(s, COUNTER, states, idle - s.now)
  end

  return counter
end
