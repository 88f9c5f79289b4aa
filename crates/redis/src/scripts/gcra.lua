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
  local GCRA, HUGE, NEVER = 71, kit.HUGE, kit.NEVER
  local pack, unpack = struct.pack, struct.unpack
  local gcra = {}
  local STATE, STATE_BYTES = '<i6I7', 13
  local TICK_MAX = 140737488355327
  -- Far from what a step of the clock adds.
  local NEXT_EPOCH = 27285

  -- What was taken before has all been refilled: receipts for it are void, or they would give back
  -- what somebody takes from now on.
  local function refill(s)
    for i = 1, s.count do
      if s.full_at[i] > s.now or s.parts[i] > 0 then
        return
      end
    end
    s.epoch = (s.epoch + NEXT_EPOCH) % 65536
  end

  function gcra.open(s)
    local value, at = kit.load(s, GCRA, STATE_BYTES)
    local seen = s.seen
    local back = kit.gone_back(s) and seen - s.now or 0
    s.full_at, s.parts = {}, {}
    for i = 1, s.count do
      local full_at, parts = s.now, 0
      if i <= s.stored then
        full_at, parts = unpack(STATE, value, at + (i - 1) * STATE_BYTES)
        full_at = full_at - back
      end
      if full_at < s.now or (full_at == s.now and parts == 0) then
        full_at, parts = s.now, 0
      elseif parts >= s.limits[i] then
        -- The limit has changed; to the safe side, a whole tick.
        full_at, parts = full_at + 1, 0
      end
      s.full_at[i], s.parts[i] = full_at, parts
    end
    if value then
      refill(s)
    end
  end

  -- Whole units in ticks and parts, rounded up, and the parts of the last one.
  local function units_in(s, i, ticks, parts)
    local window = s.windows[i]
    local units, rest = kit.muldiv(ticks, s.limits[i], window)
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
  local function with(s, i, ticks, cost)
    local limit = s.limits[i]
    local more, parts = kit.muldiv(cost, s.windows[i], limit)
    if s.parts[i] >= limit - parts then
      return ticks + more + 1, s.parts[i] - (limit - parts)
    end
    return ticks + more, s.parts[i] + parts
  end

  function gcra.used(s, i)
    local units = units_in(s, i, s.full_at[i] - s.now, s.parts[i])
    return 0, math.min(units, HUGE)
  end

  function gcra.retry(s, i, cost)
    if cost > s.limits[i] then
      return NEVER
    end
    local ticks, parts = with(s, i, s.full_at[i] - s.now, cost)
    if ticks < s.windows[i] then
      return 0
    end
    return ticks - s.windows[i] + (parts > 0 and 1 or 0)
  end

  function gcra.reset(s, i)
    local _, over = units_in(s, i, s.full_at[i] - s.now, s.parts[i])
    -- One more whole unit is there once the last one, which may have begun to refill, is.
    local rest = over % s.limits[i]
    return (over - rest) / s.limits[i] + (rest > 0 and 1 or 0)
  end

  -- Units that fit now.
  function gcra.room(s, i)
    local _, used = gcra.used(s, i)
    return math.max(s.limits[i] - used, 0)
  end

  function gcra.take(s, date, cost)
    for i = 1, s.count do
      local ticks, parts = with(s, i, s.full_at[i] - s.now, cost)
      s.full_at[i], s.parts[i] = math.min(s.now + ticks, TICK_MAX), parts
    end
    return date
  end

  -- Units dated ahead are taken then: until then nothing of them is refilled.
  function gcra.take_ahead(s, date, cost)
    for i = 1, s.count do
      if s.full_at[i] < date then
        s.full_at[i], s.parts[i] = date, 0
      end
    end
    return gcra.take(s, date, cost)
  end

  -- What has been refilled since is not given back: it would come out of what somebody took
  -- meanwhile. How much that is is told as if the bucket had been full before, to the safe side.
  local function give_back(s, i, tick, units)
    local limit = s.limits[i]
    local ticks, parts = kit.muldiv(units, s.windows[i], limit)
    ticks = ticks - math.max(s.now - tick, 0)
    if ticks < 0 then
      return 0
    end
    local ahead = s.full_at[i] - s.now
    if ticks > ahead or (ticks == ahead and parts > s.parts[i]) then
      ticks, parts = ahead, s.parts[i]
    end
    if s.parts[i] >= parts then
      s.full_at[i], s.parts[i] = s.full_at[i] - ticks, s.parts[i] - parts
    else
      s.full_at[i], s.parts[i] = s.full_at[i] - ticks - 1, s.parts[i] - parts + limit
    end
    return (units_in(s, i, ticks, parts))
  end

  function gcra.give_back(s, tick, units)
    local most = 0
    for i = 1, s.count do
      most = math.max(most, give_back(s, i, tick, units))
    end
    return math.min(most, units)
  end

  function gcra.forget(s)
    local found = false
    for i = 1, s.count do
      found = found or s.full_at[i] > s.now or s.parts[i] > 0
      s.full_at[i], s.parts[i] = s.now, 0
    end
    return found
  end

  function gcra.save(s)
    local states, idle = {}, s.now + s.keep
    for i = 1, s.count do
      states[i] = pack(STATE, s.full_at[i], s.parts[i])
      idle = math.max(idle, s.full_at[i] + 1)
    end
    kit.store(s, GCRA, states, idle - s.now)
  end

  return gcra
end
