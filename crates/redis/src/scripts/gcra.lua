-- gcra: the generic cell rate algorithm, a bucket of `limit` units that refills evenly.
--
-- KEYS, ARGV and reply: see main.lua.
-- Stored, for each quota: the tick at which the bucket is full again i6, and the rest of a tick in
-- parts of the limit I7. 24 bytes for one quota.
-- Cost: one GET, and one SET if something was taken.
--
-- How far full lies ahead is a number of up to a hundred bits, ticks times the limit. It is kept
-- as whole ticks and parts of the limit, a number of two digits to the base of the limit, so that
-- nothing but kit.muldiv sees a large product. A unit is `window` of its parts.

windows[71] = function(kit)
  local HUGE, NEVER = kit.HUGE, kit.NEVER
  local pack, unpack = struct.pack, struct.unpack
  local STATE, STATE_BYTES = '<i6I7', 13
  local TICK_MAX = kit.TICK_MAX
  -- Far from what a step of the clock adds.
  local NEXT_EPOCH = 27285
  local gcra = {}

  function gcra.read(_, q, value, at)
    -- Under a limit of zero nothing is taken, and what other limits took refills at one per window.
    q.rate = math.max(q.limit, 1)
    q.full_at, q.parts = 0, 0
    if value then
      q.full_at, q.parts = unpack(STATE, value, at)
      at = at + STATE_BYTES
    end
    return at
  end

  function gcra.advance(s, q, back)
    q.full_at = q.full_at - back
    if q.parts >= q.rate then
      -- The limit has changed: rounded up to a whole tick, which may deny early.
      q.full_at, q.parts = q.full_at + 1, 0
    end
    q.was_full_at, q.was_parts = q.full_at, q.parts
    if q.full_at < s.now then
      q.full_at, q.parts = s.now, 0
    end
  end

  -- If everything taken before has been refilled, receipts for it are void: they would give back
  -- what others take from now on.
  function gcra.opened(s)
    for _, q in ipairs(s.quotas) do
      if q.full_at > s.now or q.parts > 0 then
        return
      end
    end
    s.epoch = (s.epoch + NEXT_EPOCH) % 65536
  end

  -- Whole units in ticks and parts, rounded up, and the parts of the last one.
  local function units_in(q, ticks, parts)
    local window = q.window
    local units, rest = kit.muldiv(ticks, q.rate, window)
    local more = parts % window
    units, rest = units + (parts - more) / window, rest + more
    if rest >= window then
      units, rest = units + 1, rest - window
    end
    if rest > 0 then
      return units + 1, rest
    end
    return units, units > 0 and window or 0
  end

  -- Ticks and parts of what is taken now, and `cost` units more.
  local function with(s, q, cost)
    local ticks, rate = q.full_at - s.now, q.rate
    local more, parts = kit.muldiv(cost, q.window, rate)
    if q.parts >= rate - parts then
      return ticks + more + 1, q.parts - (rate - parts)
    end
    return ticks + more, q.parts + parts
  end

  function gcra.used(s, q)
    local units = units_in(q, q.full_at - s.now, q.parts)
    return 0, math.min(units, HUGE)
  end

  function gcra.retry(s, q, cost)
    if cost > q.limit then
      return NEVER
    end
    local ticks, parts = with(s, q, cost)
    if ticks < q.window then
      return 0
    end
    return ticks - q.window + (parts > 0 and 1 or 0)
  end

  function gcra.reset(s, q)
    local _, over = units_in(q, q.full_at - s.now, q.parts)
    -- One more whole unit is available once the last one, which may have begun to refill, is.
    local rest = over % q.rate
    return (over - rest) / q.rate + (rest > 0 and 1 or 0)
  end

  function gcra.take(s, q, date, cost)
    local ticks, parts = with(s, q, cost)
    q.full_at, q.parts = math.min(s.now + ticks, TICK_MAX), parts
    return date
  end

  -- If the bucket is full now, it was taken from when it became full, or at the date of the units if
  -- that is later: a part may have been refilled since.
  function gcra.charge(s, q, date, cost)
    if q.full_at == s.now and q.parts == 0 then
      q.full_at, q.parts = math.min(date, s.now), 0
      if q.was_full_at >= date then
        q.full_at, q.parts = q.was_full_at, q.was_parts
      end
    end
    gcra.take(s, q, date, cost)
    gcra.advance(s, q, 0)
  end

  -- What has been refilled since is not given back: it would come out of what others took meanwhile.
  -- That amount is computed as if the bucket had been full before, so it may be too large.
  function gcra.give_back(s, q, tick, units)
    local ticks, parts = kit.muldiv(units, q.window, q.rate)
    ticks = ticks - math.max(s.now - tick, 0)
    if ticks < 0 then
      return 0
    end
    local ahead = q.full_at - s.now
    if ticks > ahead or (ticks == ahead and parts > q.parts) then
      ticks, parts = ahead, q.parts
    end
    if q.parts >= parts then
      q.full_at, q.parts = q.full_at - ticks, q.parts - parts
    else
      q.full_at, q.parts = q.full_at - ticks - 1, q.parts - parts + q.rate
    end
    return (units_in(q, ticks, parts))
  end

  function gcra.clear(s, q)
    local found = q.full_at > s.now or q.parts > 0
    q.full_at, q.parts = s.now, 0
    return found
  end

  function gcra.write(_, q)
    return pack(STATE, q.full_at, q.parts), q.full_at + 1
  end

  local window = kit.small(71, STATE_BYTES, gcra)

  -- Units dated ahead are taken then: until then nothing of them is refilled.
  function window.take_ahead(s, date, cost)
    for _, q in ipairs(s.quotas) do
      if q.full_at < date then
        q.full_at, q.parts = date, 0
      end
    end
    return window.take(s, date, cost)
  end

  return window
end
