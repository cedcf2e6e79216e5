import { expect, onTestFinished } from 'vitest'
import { eventually } from './eventually.ts'
import { startSpawned } from './process.ts'

/** Starts a service that may have to wait before it listens. It is stopped at the end of the running test. */
export async function begin(environment: Readonly<Record<string, string>>) {
  const { service, listening } = await startSpawned(process.execPath, ['src/main.ts'], {
    environment: { LOG_LEVEL: 'silent', ...environment },
  })
  onTestFinished(service.close)
  // A service that ends before it listens rejects `listening`. Tests of that case check `exited`, so the rejection is ignored
  // here.
  listening.catch(() => {})
  const waits = () => eventually(() => expect(service.stderr()).toContain('The start waits for it'))
  return { ...service, listening, waits, told: () => service.stderr().split('The start waits for it').length - 1 }
}
