/*
 * Tests with ten times as many runs as in `npm test`: kill -9, malformed requests, odd answers of upstreams, jobs that are ended,
 * and calls of several accounts, which must see only their own and shared data. The trial takes some ten minutes, and a night with
 * TEST_OFTEN=100.
 */
process.env['TEST_OFTEN'] ??= '10'
await import('../service/durability.test.ts')
await import('../service/robustness.test.ts')
await import('../chat/upstream.odd-answers.test.ts')
await import('../chat/sent-back.test.ts')
await import('../work/pool.test.ts')
await import('../characters/isolation.test.ts')
await import('../plants/isolation.test.ts')

export {}
