-- What every script begins with: names and whole-number arithmetic. Twin: src/algorithm/arithmetic.rs.
--
-- A script is this, the files of the algorithms that its call needs, and `single.lua` or `group.lua`: Redis
-- makes every function anew at each call, so there are few. Numbers are doubles, whole and exact below 2^53:
-- no product is taken before it is known to fit.

local TAKE, PEEK, REFUND = 0, 1, 2
local MAX = 9007199254740991 -- 2^53 - 1: most hits, longest wait
local NONE = 9007199254740992 -- no wait
local MAX_STORED = 17179869184 -- 2^34: most hits that a sliding counter or a bucket stores

local max, min, unpack_struct, pack = math.max, math.min, struct.unpack, struct.pack

-- By number: {decide, format, size} if the state is one packed string, else {decide, nil, load, store}.
-- decide(state, L, W, B, count_denied, charge, hits, now) answers state, allowed, remaining, wait, reset,
-- before, after. A state that must be stored comes back as a new table; tables of state never change.
local algorithms = {}

-- Quotient and remainder of a * b / c, for a, c < 2^45 and b < 2^53. A quotient from 2^53 on is inexact, and
-- so large that it never matters by how much.
local function mul_div(a, b, c)
  if c == 0 then
    return NONE, 0
  end
  local product = a * b
  if product <= MAX then
    local remainder = product % c
    return (product - remainder) / c, remainder
  end
  local digits, n = {}, 0
  while b > 0 do
    n = n + 1
    digits[n] = b % 128
    b = (b - digits[n]) / 128
  end
  local quotient, remainder = 0, 0
  for i = n, 1, -1 do
    local rest = remainder * 128 + a * digits[i]
    remainder = rest % c
    quotient = quotient * 128 + (rest - remainder) / c
  end
  return quotient, remainder
end

-- How long `whole + fraction / W` hits take at L per W, rounded up: cdiv(whole * W + fraction, L).
local function time_to_drip(whole, fraction, L, W)
  local quotient, remainder = mul_div(W, whole, L)
  local more, rest = mul_div(remainder + fraction, 1, L)
  return quotient + more + (rest > 0 and 1 or 0)
end
