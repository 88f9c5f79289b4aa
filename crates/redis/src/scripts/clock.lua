-- The clock: the server's, so that no client's plays a part. SLACK is the milliseconds by which a
-- key outlives what it holds.
local time = redis.call('TIME')
local us = time[1] * 1000000 + time[2]
local SLACK = 1000
