-- The part of the fixed window in small_quick.lua.

local magic, seen, last, _ = 83457, now, 0
used = 0
if value then
  if #value ~= 30 then
    break
  end
  magic, epoch, seen, _, last, used = struct.unpack('<I3I2i6I6i6I7', value)
end
-- Version 1, algorithm 70, one quota, and a clock that has not gone back.
if magic ~= 83457 or seen > now or used > 9007199254740991 then
  break
end
local start = last - last % window
if now - start >= window then
  start, used = now - now % window, 0
end
local left = start + window - now
if used + cost > limit or op == 67 then
  wait = cost > limit and 9007199254740992 or used + cost > limit and left or 0
  reset = used > 0 and left or 0
else
  if date - start >= window or start > now then
    break
  end
  used, reset, ttl = used + cost, left, window
  state = struct.pack('<I3I2i6I6i6I7', magic, epoch, now, window, date > last and date or last, used)
end
