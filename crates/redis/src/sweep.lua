-- sweep: gives a key without a TTL the one that its own content needs.
--
-- KEYS: the key. ARGV: microseconds of its tick.
-- Reply: 0 for nothing to do, 1 for a TTL that was set, 2 for a key whose units have all expired, which
-- is gone in a moment, 3 for content that is not ours. A key with a TTL is never changed.
-- Stored: see the algorithms in scripts/. All of them store their windows or the tick at which they are
-- empty, so this needs no policy.

local key, tick = KEYS[1], ARGV[1]
if redis.call('PTTL', key) ~= -1 then
  return 0
end
local value = redis.pcall('GET', key)
if type(value) == 'table' then
  -- Another type, or the user may not read it.
  return string.find(value.err, 'WRONGTYPE', 1, true) and 3 or value
end
local byte, unpack = string.byte, struct.unpack

-- Returns the tick at which the last unit has expired, or more.
local function last_tick()
  if value == '' then
    return 0
  end
  local version, kind, count = byte(value, 1, 3)
  if version == 2 and #value == 8 then
    return (unpack('<I7', value, 2))
  elseif version ~= 1 then
    return nil
  elseif kind == 76 then
    return (unpack('<i6', value, 4 + 6 * count))
  end
  local seen, last, at = unpack('<i6', value, 6), 0, 12
  for _ = 1, count do
    if kind == 71 then
      last, at = math.max(last, (unpack('<i6', value, at)) + 1), at + 13
    else
      local window, places = unpack('<I6I2', value, at)
      -- What is dated at the end of a window, or weighs on the next one.
      last = math.max(last, seen + 2 * window + 2)
      if kind == 83 then
        at = at + 22 + (places + 1) * byte(value, at + 21)
      else
        at = at + ({ [67] = 26, [70] = 19 })[kind]
      end
    end
  end
  return at == #value + 1 and last or nil
end

local is_ours, last = pcall(last_tick)
if not is_ours or not last then
  return 3
end
local time = redis.call('TIME')
local left = last * tick - (time[1] * 1000000 + time[2])
redis.call('PEXPIRE', key, string.format('%.0f', left > 0 and math.min(left / 1000 + 1000, 1e14) or 1))
return left > 0 and 1 or 2
