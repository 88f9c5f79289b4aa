-- segments: a window cut into n sub-windows, a ring of n + 1 counts and their sum. The oldest,
-- partly covered segment counts whole.
--
-- KEYS, ARGV and reply: see main.lua. ARGV's parameter is n.
-- Stored, for each quota: window I6, n I2, tick of the latest unit i6, sum I7, bytes of a count B
-- (1, 2, 4 or 7), then n + 1 counts. Segment k is at k modulo n + 1. 33 bytes and the ring for one
-- quota.
-- Cost: one GET, and one SET if something was taken, so that the whole ring goes to replicas: keep
-- n small. What has expired is subtracted from the sum and overwritten when its place is needed.

windows[83] = function(kit)
  local HUGE = kit.HUGE
  local pack, unpack, sub = struct.pack, struct.unpack, string.sub
  local segments = {}
  local STATE, STATE_BYTES = '<I6I2i6I7B', 22
  local WIDTHS = { [1] = '<B', [2] = '<I2', [4] = '<I4', [7] = '<I7' }

  local function width_for(count)
    if count < 256 then
      return 1
    elseif count < 65536 then
      return 2
    elseif count < 4294967296 then
      return 4
    end
    return 7
  end

  local function div(a, b)
    return (a - a % b) / b
  end

  local function get(q, segment)
    return (unpack(q.form, q.ring, (segment % q.places) * q.width + 1))
  end

  -- Writes `bytes` over the counts from a place on; they do not run past the end.
  local function overwrite(q, place, bytes)
    local at = place * q.width
    q.ring = sub(q.ring, 1, at) .. bytes .. sub(q.ring, at + #bytes + 1)
  end

  local function widen(q, width)
    local counts = {}
    for place = 0, q.places - 1 do
      counts[place + 1] = pack(WIDTHS[width], (unpack(q.form, q.ring, place * q.width + 1)))
    end
    q.width, q.form, q.ring = width, WIDTHS[width], table.concat(counts)
  end

  local function add(q, segment, units)
    local count = kit.add(get(q, segment), units)
    if width_for(count) > q.width then
      widen(q, width_for(count))
    end
    overwrite(q, segment % q.places, pack(q.form, count))
  end

  -- Calls `each` with every segment that has units and the count of it, from `from` to `to`, until
  -- it says to stop. Skips the empty ones in one step.
  local function filled(q, from, to, each)
    local segment = from
    while segment <= to do
      local place = segment % q.places
      local found = string.find(q.ring, '[^%z]', place * q.width + 1)
      if not found then
        segment = segment + q.places - place
      else
        segment = segment + div(found - 1, q.width) - place
        if segment <= to and each(segment, get(q, segment)) then
          return
        end
        segment = segment + 1
      end
    end
  end

  -- The first segment that has a tick later than `now - window`.
  local function kept(q, now)
    return div(math.max(now + 1 - q.window, 0), q.length)
  end

  local function newest(q)
    return div(q.last, q.length)
  end

  local function recount(q)
    local sum = 0
    filled(q, q.oldest, newest(q), function(_, count)
      sum = kit.add(sum, count)
    end)
    q.sum = sum
  end

  local function expire(q, now)
    local first = math.min(kept(q, now), newest(q) + 1)
    if q.sum == 0 or first <= q.oldest then
      return
    end
    local gone = 0
    filled(q, q.oldest, first - 1, function(_, count)
      gone = gone + count
    end)
    q.oldest = first
    if q.sum >= HUGE then
      recount(q)
    else
      q.sum = q.sum - gone
    end
    if q.sum < 0 then
      kit.fault('holds fewer units than its segments')
    end
  end

  -- All units count as recorded at `tick`.
  local function renew(q, tick, units)
    q.width = width_for(units)
    q.form = WIDTHS[q.width]
    q.ring = string.rep('\0', q.places * q.width)
    q.last, q.sum = tick, units
    q.oldest = newest(q)
    if units > 0 then
      add(q, q.oldest, units)
    end
  end

  function segments.read(s, q, value, at)
    q.places = s.param + 1
    q.length = div(q.window + s.param - 1, s.param)
    if not value then
      renew(q, s.now, 0)
      return at
    end
    if #value < at + STATE_BYTES - 1 then
      kit.fault('is cut short')
    end
    local window, count, last, sum, width = unpack(STATE, value, at)
    local form, bytes = WIDTHS[width], (count + 1) * width
    at = at + STATE_BYTES
    if not form or count > 1024 or #value < at + bytes - 1 then
      kit.fault('is cut short')
    end
    sum = math.min(sum, HUGE)
    if window ~= q.window or count + 1 ~= q.places then
      -- Another window: all units count as recorded with the latest one. Dated at the time of the check,
      -- they would be dated again by every denied check.
      renew(q, math.max(last, 0), sum)
    else
      q.width, q.form, q.last, q.sum = width, form, math.max(last, 0), sum
      q.ring = sub(value, at, at + bytes - 1)
      -- It was brought up to the time it was written at, so that older ones are no part of it.
      q.oldest = math.max(newest(q) + 1 - q.places, kept(q, s.seen), 0)
    end
    return at + bytes
  end

  function segments.advance(s, q, back)
    if back > 0 then
      renew(q, s.now, q.sum)
    end
    expire(q, s.now)
  end

  function segments.used(_, q)
    return 0, q.sum
  end

  -- Ticks until a segment counts no more.
  local function until_gone(s, q, segment)
    return math.max((segment + 1) * q.length - 1 + q.window - s.now, 0)
  end

  function segments.retry(s, q, cost)
    if q.sum + cost <= q.limit then
      return 0
    end
    if cost > q.limit then
      return kit.NEVER
    end
    local over, wait = q.sum - (q.limit - cost), 0
    filled(q, q.oldest, newest(q), function(segment, count)
      wait = until_gone(s, q, segment)
      over = over - count
      return over <= 0
    end)
    return wait
  end

  function segments.reset(s, q)
    local wait = 0
    if q.sum > 0 then
      filled(q, q.oldest, newest(q), function(segment)
        wait = until_gone(s, q, segment)
        return true
      end)
    end
    return wait
  end

  -- Makes `segment` the newest: the places from the newest so far on are emptied. What was there has
  -- expired, as no unit is dated more than a tick ahead.
  local function open_segment(q, segment)
    local from, to = newest(q) + 1, math.min(segment, newest(q) + q.places)
    if q.sum == 0 then
      q.ring, q.oldest = string.rep('\0', #q.ring), segment
      return
    end
    for next_one = from, to do
      overwrite(q, next_one % q.places, string.rep('\0', q.width))
    end
  end

  function segments.take(_, q, date, cost)
    local latest = math.max(date, q.last)
    open_segment(q, div(latest, q.length))
    q.last = latest
    add(q, newest(q), cost)
    q.sum = kit.add(q.sum, cost)
    return latest
  end

  -- A segment that the ring has no place for counts as the oldest that it has.
  function segments.charge(s, q, date, cost)
    local segment = div(math.max(date, 0), q.length)
    if q.sum == 0 then
      q.last = math.max(date, 0)
    end
    if q.sum == 0 or segment > newest(q) then
      segments.take(s, q, date, cost)
    elseif segment >= kept(q, s.now) then
      add(q, math.max(segment, q.oldest), cost)
      q.last, q.sum = math.max(q.last, date), kit.add(q.sum, cost)
    end
  end

  function segments.give_back(_, q, tick, units)
    local segment = div(tick, q.length)
    if segment > newest(q) or segment < q.oldest or q.sum == 0 then
      return 0
    end
    local count, given = kit.take_off(get(q, segment), units)
    overwrite(q, segment % q.places, pack(q.form, count))
    if q.sum >= HUGE then
      recount(q)
    else
      q.sum = q.sum - given
    end
    return given
  end

  function segments.forgive(s, q, units)
    local left = units
    filled(q, q.oldest, newest(q), function(segment)
      left = left - segments.give_back(s, q, segment * q.length, left)
      return left == 0
    end)
    return units - left
  end

  function segments.clear(s, q)
    local found = q.sum > 0
    renew(q, s.now, 0)
    return found
  end

  -- A segment, which counts whole, is at most a window long.
  function segments.write(s, q)
    local head = pack(STATE, q.window, q.places - 1, q.last, q.sum, q.width)
    return head .. q.ring, q.last + 2 * s.keep
  end

  return kit.small(83, STATE_BYTES, segments)
end
