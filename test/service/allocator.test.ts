import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { spawnService } from '../support/process.ts'

const name = 'MALLOC_MMAP_THRESHOLD_'

/** Starts a service. @returns its settings of the allocator and of V8, read from the environment of its process */
async function settingsOf(environment: Readonly<Record<string, string>>): Promise<readonly (string | undefined)[]> {
  const service = await spawnService(process.execPath, ['--no-deprecation', 'src/main.ts'], { environment })
  // Node prints no warning of an experimental feature.
  expect(service.stderr()).not.toContain('Warning')
  const read = (file: string) => readFileSync(`/proc/${service.process.pid}/${file}`, 'utf8').split('\0')
  expect(read('cmdline').slice(1, 3)).toEqual(['--no-deprecation', expect.stringMatching(/src\/main\.ts$/)])
  const settingOf = (wanted: string) =>
    read('environ')
      .find((line) => line.startsWith(`${wanted}=`))
      ?.slice(wanted.length + 1)
  return [settingOf(name), settingOf('NODE_OPTIONS')]
}

const options = '--max-semi-space-size=16 --disable-warning=ExperimentalWarning'

it.runIf(process.platform === 'linux')(
  'a service takes little memory for new objects and returns large buffers to the system, unless the operator sets otherwise',
  async () => {
    expect(await settingsOf({})).toEqual(['1048576', options])
    expect(await settingsOf({ [name]: '1000000' })).toEqual(['1000000', options])
    const wanted = '--max-semi-space-size=64'
    expect(await settingsOf({ NODE_OPTIONS: wanted })).toEqual(['1048576', `${options} ${wanted}`])
  },
)
