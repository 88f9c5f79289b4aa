-- What every script begins with: names, limits of numbers, and the kit of shared functions.
--
-- A script is a clock, this file, one algorithm or all of them, and main.lua, composed by
-- script.rs. Its text never changes while a process runs; all that varies is in ARGV.
--
-- Numbers. Lua has doubles, which are exact for integers up to 2^53. So every number here is an
-- integer below that, or HUGE itself, which means "too large to represent". For integers
-- below 2^53 `a % b` is exact: a / b is off by less than 1 / b, so its floor is the true one.
--
-- Cost. The whole text runs on every call, and making a function takes as long as ten additions,
-- catching a local of the outside as long as another. So what is rarely needed is made within `make_kit`
-- and within the functions of `windows`, and these catch nothing.

-- Makers of the algorithms, by number.
local windows = {}

local function make_kit(micros, slack)
  local pack, unpack, byte, format = struct.pack, struct.unpack, string.byte, string.format
  local HUGE = 9007199254740992
  local kit = { us = micros, HUGE = HUGE, NEVER = HUGE, TICK_MAX = 140737488355327 }

  -- Gives up: main.lua turns it into an error reply, and nothing has been written yet.
  function kit.fault(text)
    error({ fault = text })
  end

  -- The same for a value that could not be read: it is another thing, or the user may not.
  function kit.unreadable(reply)
    local why = type(reply) == 'table' and reply.err
    if why and not string.find(why, 'WRONGTYPE', 1, true) then
      error({ err = why })
    end
    kit.fault('is not a string')
  end

  -- Version and algorithm, with which every value begins. A blocked key has version 2, then the tick at
  -- which the block ends I7: see main.lua.
  function kit.check_head(value, kind)
    if byte(value) == 2 and #value == 8 then
      error({ block = (unpack('<I7', value, 2)) })
    end
    if byte(value) ~= 1 then
      kit.fault('is of an unknown version')
    end
    if byte(value, 2) ~= kind then
      kit.fault('belongs to another algorithm')
    end
  end

  -- Sums that may pass 2^53 are pairs: high times 2^53, and low.
  function kit.plus(high, low, units)
    if low >= HUGE - units then
      return high + 1, low - (HUGE - units)
    end
    return high, low + units
  end

  function kit.minus(high, low, units)
    if units <= low then
      return high, low - units
    end
    if high <= 0 then
      kit.fault('holds fewer units than its entries')
    end
    return high - 1, low + (HUGE - units)
  end

  -- Quotient and rest of a * b / c, exactly. A quotient that passes 2^53 is only about right, and
  -- not below it.
  function kit.muldiv(a, b, c)
    local product = a * b
    if product < HUGE then
      local rest = product % c
      return (product - rest) / c, rest
    end
    local part = b % c
    local whole = (b - part) / c
    local quotient, rest, bit = 0, 0, HUGE / 2
    while bit >= 1 do
      quotient, rest = quotient * 2, rest * 2
      if rest >= c then
        quotient, rest = quotient + 1, rest - c
      end
      if a >= bit then
        a, quotient = a - bit, quotient + whole
        if rest >= c - part then
          quotient, rest = quotient + 1, rest - (c - part)
        else
          rest = rest + part
        end
      end
      bit = bit / 2
    end
    return quotient, rest
  end

  -- Milliseconds until `ticks` have passed, with the slack, as Redis wants them. Ends at some
  -- three thousand years.
  function kit.ttl(s, ticks)
    return format('%.0f', math.min(math.max(ticks, 0) * s.tick / 1000 + slack, 1e14))
  end

  -- The epoch of a new key: another one than that of a key which was lost.
  function kit.birth(now)
    local low = now % 65536
    return (low + (now - low) / 65536 * 40503) % 65536
  end

  -- Whether the clock has gone back since the key was written; then receipts are void.
  function kit.gone_back(s)
    if s.seen <= s.now then
      return false
    end
    s.epoch = (s.epoch + 1) % 65536
    s.seen = s.now
    s.changed = true
    return true
  end

  -- The sum of two counts, which stops at HUGE and stays there until the key is emptied.
  function kit.add(count, units)
    return math.min(count + units, HUGE)
  end

  -- A count without some units, and how many those were. A count that stopped gives nothing back.
  function kit.take_off(count, units)
    if count >= HUGE then
      return count, 0
    end
    local given = math.min(count, units)
    return count - given, given
  end

  -- Algorithms whose state is small keep it in one string, read and written whole:
  --   version B, algorithm B, number of quotas B, epoch I2, latest time seen i6,
  -- then the state of each quota.
  local SMALL, SMALL_BYTES = '<BBBI2i6', 11

  -- Reads such a string; nil if there is none. `least` is the fewest bytes of a quota's state.
  local function load(s, kind, least)
    local value = redis.pcall('GET', s.key)
    if not value or value == '' then
      s.epoch, s.seen, s.stored = kit.birth(s.now), s.now, 0
      return nil
    end
    if type(value) ~= 'string' then
      kit.unreadable(value)
    end
    kit.check_head(value, kind)
    if #value < SMALL_BYTES then
      kit.fault('is cut short')
    end
    local _, _, stored, epoch, seen = unpack(SMALL, value)
    if stored > 8 or #value < SMALL_BYTES + stored * least then
      kit.fault('is cut short')
    end
    s.epoch, s.seen, s.stored = epoch, seen, stored
    return value, SMALL_BYTES + 1
  end

  -- Such an algorithm. `of` has its functions for one quota `q`, which has a limit and a window:
  --   read(s, q, value, at): sets the state from the bytes at `at`, or an empty one without a value,
  --     and returns where the next state begins;
  --   advance(s, q, back): brings the state up to now; `back` is by how much the clock has gone back;
  --   used, retry, reset: see main.lua;
  --   take(s, q, date, cost): returns the tick of the units taken;
  --   give_back(s, q, tick, units): returns the number of units given back;
  --   forgive(s, q, units): the same without a tick, the oldest first, if units are of several ages;
  --   charge(s, q, date, cost): the same as take, for a date of up to `keep` ticks before now;
  --   clear(s, q): empties it, and returns true if it held anything;
  --   write(s, q): returns its bytes, and the tick until which they matter.
  function kit.small(kind, least, of)
    local window = { used = of.used, retry = of.retry, reset = of.reset }

    function window.open(s)
      local value, at = load(s, kind, least)
      local seen = s.seen
      local back = kit.gone_back(s) and seen - s.now or 0
      s.quotas = {}
      for i = 1, s.count do
        local q = { limit = s.limits[i], window = s.windows[i] }
        at = of.read(s, q, i <= s.stored and value or nil, at)
        of.advance(s, q, back)
        s.quotas[i] = q
      end
      if value and of.opened then
        of.opened(s)
      end
    end

    function window.take(s, date, cost)
      local tick = date
      for _, q in ipairs(s.quotas) do
        tick = math.max(tick, of.take(s, q, date, cost))
      end
      return tick
    end

    function window.charge(s, date, cost)
      for _, q in ipairs(s.quotas) do
        of.charge(s, q, date, cost)
      end
    end

    function window.give_back(s, tick, units)
      local most = 0
      for _, q in ipairs(s.quotas) do
        most = math.max(most, of.give_back(s, q, tick, units))
      end
      return math.min(most, units)
    end

    function window.forgive(s, units)
      local most = 0
      for _, q in ipairs(s.quotas) do
        local given
        if of.forgive then
          given = of.forgive(s, q, units)
        else
          given = of.give_back(s, q, kit.TICK_MAX, units)
        end
        most = math.max(most, given)
      end
      return math.min(most, units)
    end

    function window.forget(s)
      local found = false
      for _, q in ipairs(s.quotas) do
        found = of.clear(s, q) or found
      end
      return found
    end

    function window.save(s)
      local parts, idle = { pack(SMALL, 1, kind, s.count, s.epoch, s.now) }, s.now + s.keep
      for i, q in ipairs(s.quotas) do
        local matters
        parts[i + 1], matters = of.write(s, q)
        idle = math.max(idle, matters)
      end
      s.writes = { { 'SET', s.key, table.concat(parts), 'PX', kit.ttl(s, idle - s.now) } }
    end

    return window
  end

  return kit
end
