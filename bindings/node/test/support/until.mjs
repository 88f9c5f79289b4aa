// Polls with a generous deadline: the machine of a test may be busy.

const DEADLINE_MS = 60_000
const POLL_MS = 10

export async function until(check, what) {
  const deadline = performance.now() + DEADLINE_MS
  for (;;) {
    const result = await check()
    if (result) return result
    if (performance.now() > deadline) throw new Error(`timed out: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
  }
}
