import { afterAll, beforeAll, beforeEach } from 'vitest'
import { onceAsked, startTestService, type TestService } from './service.ts'
import { type ScriptedUpstream, startUpstream } from './upstream.ts'

/** The upstream of the running test file. Its list of calls is emptied before each test. */
export let upstream: ScriptedUpstream
/** A service that sends requests for all models except the understudy to the upstream. */
export let service: TestService
/** A service with only the understudies. */
export let alone: TestService

/** Starts the services and the upstream for all tests of the calling file, and stops them at its end. */
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
