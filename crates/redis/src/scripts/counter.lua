-- counter: two aligned windows, the current one whole, the previous one weighted by its overlap.
--
-- KEYS, ARGV and reply: see main.lua.
-- Stored, for each quota: window I6, start of the current window i6, previous I7, current I7. 37
-- bytes for one quota.
-- Cost: one GET, and one SET if something was taken. Numbers whose product passes 2^53 are divided
-- bit by bit, which takes some five microseconds.

windows[67] = function(kit)
  local HUGE, NEVER = kit.HUGE, kit.NEVER
  local pack, unpack = struct.pack, struct.unpack
  local STATE, STATE_BYTES = '<I6i6I7I7', 26
  local counter = {}

  local function rotate(q, tick)
    local passed = tick - q.start
    if passed >= q.window then
      q.previous = passed < 2 * q.window and q.current or 0
      q.current = 0
      q.start = tick - tick % q.window
    end
  end

  function counter.read(_, q, value, at)
    q.stored_window, q.start, q.previous, q.current = q.window, 0, 0, 0
    if value then
      q.stored_window, q.start, q.previous, q.current = unpack(STATE, value, at)
      at = at + STATE_BYTES
    end
    return at
  end

  function counter.advance(s, q, back)
    if q.stored_window ~= q.window or back > 0 then
      -- Another window, or a clock gone back: all that may still count does, as if it came now.
      q.start = s.now - s.now % q.window
      q.previous, q.current = 0, q.previous + q.current
    end
    q.previous, q.current = math.min(q.previous, HUGE), math.min(q.current, HUGE)
    rotate(q, s.now)
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
    if q.previous == 0 or over == q.window then
      return q.previous
    end
    local whole, rest = kit.muldiv(q.previous, over, q.window)
    return math.min(rest > 0 and whole + 1 or whole, q.previous)
  end

  -- The largest overlap at which `count` units, which are more than `room`, weigh no more than it. It is
  -- rounded down.
  local function overlap_for(room, count, window)
    return math.min((kit.muldiv(room, window, count)), window)
  end

  function counter.used(s, q)
    return 0, math.min(q.current + carried(s, q), HUGE)
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
    if room >= q.current then
      return left(s, q) - overlap_for(room - q.current, q.previous, q.window)
    end
    -- ... or in the next one, once this one does.
    return left(s, q) + q.window - overlap_for(room, q.current, q.window)
  end

  function counter.reset(s, q)
    local carry = carried(s, q)
    if carry > 0 then
      return left(s, q) - overlap_for(carry - 1, q.previous, q.window)
    end
    if q.current == 0 then
      return 0
    end
    return left(s, q) + q.window - overlap_for(q.current - 1, q.current, q.window)
  end

  function counter.take(_, q, date, cost)
    rotate(q, date)
    q.current = kit.add(q.current, cost)
    return q.start
  end

  function counter.charge(s, q, date, cost)
    if date >= q.start then
      counter.take(s, q, date, cost)
    elseif date + q.window >= q.start then
      q.previous = kit.add(q.previous, cost)
    end
  end

  function counter.give_back(_, q, tick, units)
    local given = 0
    if tick >= q.start then
      q.current, given = kit.take_off(q.current, units)
    elseif tick + q.window >= q.start then
      q.previous, given = kit.take_off(q.previous, units)
    end
    return given
  end

  function counter.clear(_, q)
    local found = q.current + q.previous > 0
    q.current, q.previous = 0, 0
    return found
  end

  function counter.write(s, q)
    return pack(STATE, q.window, q.start, q.previous, q.current), q.start + 2 * s.keep
  end

  return kit.small(67, STATE_BYTES, counter)
end
