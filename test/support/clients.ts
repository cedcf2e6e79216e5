import { afterAll, beforeAll, beforeEach } from 'vitest'
import { onceAsked, startTestService, type TestService } from './service.ts'
import { type ScriptedUpstream, startUpstream } from './upstream.ts'

/** The upstream of the test file that runs; it forgets its calls before each test. */
export let upstream: ScriptedUpstream
/** A service whose ids go to the upstream, but for the understudy's. */
export let service: TestService
/** One with the understudies alone. */
export let alone: TestService

/** Starts what clients are tried with, for all tests of the file that calls this; it ends with them. */
export function servicesForClientsForThisFile(): void {
  beforeAll(async () => {
    upstream = await startUpstream()
    service = await startTestService({}, onceAsked(upstream.url))
    alone = await startTestService()
  })

  beforeEach(() => {
    upstream.calls.length = 0
  })

  afterAll(async () => {
    await service?.close()
    await alone?.close()
    await upstream?.close()
  })
}
