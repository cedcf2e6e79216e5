import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { spawnService } from '../support/process.ts'

const name = 'MALLOC_MMAP_THRESHOLD_'

/** What a service says its allocator's setting is, where the system tells of a process's environment. */
async function settingOf(environment: Readonly<Record<string, string>>): Promise<string | undefined> {
  const service = await spawnService(process.execPath, ['--no-deprecation', 'src/main.ts'], { environment })
  // Other than the address it says nothing on stderr at a second start: no warning of a new function of Node's.
  expect(service.stderr()).not.toContain('Warning')
  const read = (file: string) => readFileSync(`/proc/${service.process.pid}/${file}`, 'utf8').split('\0')
  expect(read('cmdline').slice(1, 3)).toEqual(['--no-deprecation', expect.stringMatching(/src\/main\.ts$/)])
  return read('environ')
    .find((line) => line.startsWith(`${name}=`))
    ?.slice(name.length + 1)
}

it.runIf(process.platform === 'linux')(
  'a service has large buffers given back to the system, unless its operator set something else',
  async () => {
    expect(await settingOf({})).toBe('1048576')
    expect(await settingOf({ [name]: '1000000' })).toBe('1000000')
  },
)
