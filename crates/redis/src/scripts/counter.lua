-- counter: two aligned windows, the current one whole, the previous one weighted by its overlap.
--
-- KEYS, ARGV and reply: see main.lua.
-- Stored, for each quota: window I6, tick of the latest unit i6, units of the window before that tick's
-- I7, and of that tick's I7. 37 bytes for one quota.
-- Cost: one GET, and one SET if something was taken. Numbers whose product passes 2^53 are divided
-- bit by bit, which takes some five microseconds.

windows[67] = function(kit)
  local HUGE, NEVER = kit.HUGE, kit.NEVER
  local pack, unpack = struct.pack, struct.unpack
  local STATE, STATE_BYTES = '<I6i6I7I7', 26
  local counter = {}

  -- Sets the counts as they are at a tick: the start of the current window, and the units of the
  -- window before it and of itself.
  local function view(q, tick)
    local start = q.last - q.last % q.window
    local passed = tick - start
    q.start, q.before, q.during = start, q.previous, q.current
    if passed >= q.window then
      q.start, q.during = tick - tick % q.window, 0
      q.before = passed < 2 * q.window and q.current or 0
    end
  end

  function counter.read(_, q, value, at)
    q.stored_window, q.last, q.previous, q.current = q.window, 0, 0, 0
    if value then
      q.stored_window, q.last, q.previous, q.current = unpack(STATE, value, at)
      at = at + STATE_BYTES
    end
    return at
  end

  function counter.advance(s, q, back)
    if back > 0 then
      -- The clock went back: the units count as taken now.
      q.last = s.now
    end
    if q.stored_window ~= q.window or back > 0 then
      -- Another window: all units count as taken with the latest one. Dated at the time of the check,
      -- they would be dated again by every denied check.
      q.previous, q.current = 0, q.previous + q.current
    end
    q.previous, q.current = math.min(q.previous, HUGE), math.min(q.current, HUGE)
    view(q, s.now)
  end

  -- Ticks of the previous window that still overlap; all of it before the window has begun.
  local function overlap(s, q)
    return q.window - math.min(math.max(s.now - q.start, 0), q.window)
  end

  -- Ticks until the current window ends; it may not have begun.
  local function left(s, q)
    return overlap(s, q) + math.max(q.start - s.now, 0)
  end

  -- The weight of the previous window, rounded up: down would let one unit too many through.
  local function carried(s, q)
    local over = overlap(s, q)
    if q.before == 0 or over == q.window then
      return q.before
    end
    local whole, rest = kit.muldiv(q.before, over, q.window)
    return math.min(rest > 0 and whole + 1 or whole, q.before)
  end

  -- The largest overlap at which `count` units, which are more than `room`, weigh no more than it. It is
  -- rounded down.
  local function overlap_for(room, count, window)
    return math.min((kit.muldiv(room, window, count)), window)
  end

  function counter.used(s, q)
    return 0, math.min(q.during + carried(s, q), HUGE)
  end

  function counter.retry(s, q, cost)
    local _, used = counter.used(s, q)
    if used + cost <= q.limit then
      return 0
    end
    if cost > q.limit then
      return NEVER
    end
    local room = q.limit - cost
    -- In this window, once the previous one weighs little enough ...
    if room >= q.during then
      return left(s, q) - overlap_for(room - q.during, q.before, q.window)
    end
    -- ... or in the next one, once this one does.
    return left(s, q) + q.window - overlap_for(room, q.during, q.window)
  end

  function counter.reset(s, q)
    local carry = carried(s, q)
    if carry > 0 then
      return left(s, q) - overlap_for(carry - 1, q.before, q.window)
    end
    if q.during == 0 then
      return 0
    end
    return left(s, q) + q.window - overlap_for(q.during - 1, q.during, q.window)
  end

  function counter.take(_, q, date, cost)
    view(q, date)
    q.previous, q.current, q.last = q.before, kit.add(q.during, cost), math.max(q.last, date)
    view(q, date)
    return q.start
  end

  function counter.charge(s, q, date, cost)
    local start = q.last - q.last % q.window
    if date >= start then
      counter.take(s, q, date, cost)
    elseif date + q.window >= start then
      q.previous = kit.add(q.previous, cost)
    end
  end

  function counter.give_back(s, q, tick, units)
    local given = 0
    local start = q.last - q.last % q.window
    local passed = s.now - start
    if tick >= start and passed < 2 * q.window then
      q.current, given = kit.take_off(q.current, units)
    elseif tick < start and tick + q.window >= start and passed < q.window then
      q.previous, given = kit.take_off(q.previous, units)
    end
    view(q, s.now)
    return given
  end

  function counter.forgive(s, q, units)
    local given = counter.give_back(s, q, q.last - q.last % q.window - 1, units)
    return given + counter.give_back(s, q, kit.TICK_MAX, units - given)
  end

  function counter.clear(_, q)
    local found = q.before + q.during > 0
    q.current, q.previous = 0, 0
    return found
  end

  function counter.write(s, q)
    return pack(STATE, q.window, q.last, q.previous, q.current), q.last + 2 * s.keep
  end

  return kit.small(67, STATE_BYTES, counter)
end
