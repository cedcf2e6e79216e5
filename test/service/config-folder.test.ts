import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { compileCache, conservatory } from '../support/command.ts'
import { spawnService } from '../support/process.ts'
import { temporaryFolder } from '../support/service.ts'
import { makeDatabase } from '../support/test-database.ts'

/** Makes two empty folders, and a function that writes a file into one of them. */
function twoFolders() {
  const { path, remove } = temporaryFolder()
  onTestFinished(remove)
  const settings = { CONFIG_DIR: join(path, 'config'), DATA_DIR: join(path, 'data') }
  const put = (place: keyof typeof settings, name: string, content: unknown): string => {
    const file = join(settings[place], name)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, JSON.stringify(content))
    return file
  }
  for (const folder of Object.values(settings)) mkdirSync(folder)
  return { path, settings, put }
}

function card(name: string, description: string) {
  return { spec: 'chara_card_v3', spec_version: '3.0', data: { name, description } }
}

function book(content: string) {
  return { entries: [{ keys: ['tea'], content, enabled: true, insertion_order: 1 }] }
}

const models = (name: string) => ({ models: { [name]: { adapter: 'understudy' } } })

/** Starts a service with both folders. `prompt` is the prompt of a character for a message that mentions tea. */
async function serving(settings: Readonly<Record<string, string>>) {
  const key = 'a-key-of-the-caller-0123456789'
  const service = await spawnService(process.execPath, ['src/main.ts'], {
    environment: { ...compileCache, ...settings, BOOTSTRAP_KEY: key },
  })
  const headers = { authorization: key, 'content-type': 'application/json' }
  const modelIds = async (): Promise<readonly string[]> => {
    const listed: { data: readonly { id: string }[] } = JSON.parse(
      await (await fetch(`${service.url}/models`, { headers })).text(),
    )
    return listed.data.map(({ id }) => id).filter((id) => !id.startsWith('character/'))
  }
  const prompt = async (character: string): Promise<string> => {
    const body = JSON.stringify({ model: 'default', character, messages: [{ role: 'user', content: 'Some tea?' }] })
    return (await fetch(`${service.url}/chat/prompt`, { method: 'POST', headers, body })).text()
  }
  return { service, modelIds, prompt }
}

const soon = { timeout: 20_000, interval: 100 }

describe('CONFIG_DIR', () => {
  test('comes before DATA_DIR for models, characters and lorebooks, also for files that change while it runs', async () => {
    const { path, settings, put } = twoFolders()
    put('DATA_DIR', 'models.json', models('of-data'))
    put('DATA_DIR', 'characters/moss.json', card('Moss', 'MOSS OF DATA'))
    put('DATA_DIR', 'characters/a-fir.json', card('Fir', 'FIR OF DATA'))
    put('DATA_DIR', 'lorebooks/tea.json', book('TEA OF DATA'))
    put('DATA_DIR', 'lorebooks/a.json', book('LORE OF DATA'))
    const ofConfig = put('CONFIG_DIR', 'characters/z-fir.json', card('Fir', 'FIR OF CONFIG'))
    put('CONFIG_DIR', 'characters/fern.json', card('Fern', 'FERN OF CONFIG'))
    const teaOfConfig = put('CONFIG_DIR', 'lorebooks/tea.json', book('TEA OF CONFIG'))
    const { service, modelIds, prompt } = await serving(settings)

    expect(await modelIds()).toEqual(['of-data'])
    const told = await prompt('Fir')
    expect(told).toContain('FIR OF CONFIG')
    expect(told).toContain('TEA OF CONFIG')
    expect(told).toContain('LORE OF DATA')
    expect(told).not.toMatch(/FIR OF DATA|TEA OF DATA/)
    expect(await prompt('Moss')).toContain('MOSS OF DATA')
    expect(await prompt('Fern')).toContain('FERN OF CONFIG')
    // The log reports each hidden file, with the file that hides it.
    await vi.waitFor(() => expect(service.stdout()).toContain(`It has the same name as ${teaOfConfig}, which`), soon)
    expect(service.stdout()).toContain(`It has the same name as ${ofConfig}, which`)

    put('CONFIG_DIR', 'characters/moss.json', card('Moss', 'MOSS OF CONFIG'))
    await vi.waitFor(async () => expect(await prompt('Moss')).toContain('MOSS OF CONFIG'), soon)
    rmSync(teaOfConfig)
    await vi.waitFor(async () => expect(await prompt('Fir')).toContain('TEA OF DATA'), soon)

    const reloaded = async (expected: RegExp, times: number) => {
      service.process.kill('SIGHUP')
      const lines = () => service.stdout().split('\n')
      await vi.waitFor(() => expect(lines().filter((line) => expected.test(line))).toHaveLength(times), soon)
    }
    put('CONFIG_DIR', 'models.json', models('of-config'))
    await reloaded(/the models have been read again/, 1)
    expect(await modelIds()).toEqual(['of-config'])
    // While the folder is gone for a moment, the models must stay as they were.
    rmSync(settings.CONFIG_DIR, { recursive: true })
    await reloaded(/CONFIG_DIR names.*the models cannot be read again/, 1)
    expect(await modelIds()).toEqual(['of-config'])
    put('CONFIG_DIR', 'characters/moss.json', card('Moss', 'MOSS AGAIN'))
    await reloaded(/the models have been read again/, 2)
    expect(await modelIds()).toEqual(['of-data'])
    expect(await prompt('Moss')).toContain('MOSS AGAIN')
    expect(readdirSync(path).toSorted()).toEqual(['config', 'data'])
  }, 60_000)

  test('is never written to: imports go to DATA_DIR, and replace nothing in CONFIG_DIR', async () => {
    const { path, settings, put } = twoFolders()
    // An import gives its files names of this form.
    const taken = put('CONFIG_DIR', `characters/${'0'.repeat(64)}.json`, card('Moss', 'of config'))
    const [fir, moss] = [join(path, 'fir.json'), join(path, 'moss.json')]
    writeFileSync(fir, JSON.stringify(card('Fir', 'new')))
    writeFileSync(moss, JSON.stringify(card('Moss', 'new')))
    const before = readFileSync(taken, 'utf8')
    await makeDatabase(settings.DATA_DIR)
    expect(await conservatory(['characters', 'import', fir], settings)).toMatchObject({ code: 0 })
    expect(readdirSync(join(settings.DATA_DIR, 'characters'))).toHaveLength(1)
    const refused = await conservatory(['characters', 'import', moss, '--replace'], settings)
    expect([refused.code, refused.stderr]).toEqual([
      1,
      `${moss}: There is a character "Moss" in ${taken} already. Remove that file first.\n`,
    ])
    expect(readFileSync(taken, 'utf8')).toBe(before)
    expect(readdirSync(settings.CONFIG_DIR, { recursive: true })).toHaveLength(2)
  })

  test.each([
    ['is not there', () => {}, /^CONFIG_DIR names \S+config, where there is no folder\. .+\n$/],
    [
      'is a file',
      (folder: string) => writeFileSync(folder, ''),
      /^CONFIG_DIR names \S+config, where there is no folder\. .+\n$/,
    ],
    [
      'has a folder for models.json, as a mount makes where there is no file',
      (folder: string) => mkdirSync(join(folder, 'models.json'), { recursive: true }),
      /^\S+config\/models\.json cannot be read: the system says EISDIR\. .+\n$/,
    ],
  ])('that %s stops the start in one sentence', async (_what, make, sentence) => {
    const { settings } = twoFolders()
    rmSync(settings.CONFIG_DIR, { recursive: true })
    make(settings.CONFIG_DIR)
    const ended = await conservatory([], { ...settings, PORT: '0' })
    expect([ended.code, ended.stdout]).toEqual([1, ''])
    expect(ended.stderr).toMatch(sentence)
    expect(existsSync(join(settings.DATA_DIR, 'conservatory.db'))).toBe(false)
  })
})
