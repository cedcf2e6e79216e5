/*
 * Installs the packages as the Dockerfile does, in a folder of this machine, and runs the service from that folder.
 */
import { execFileSync } from 'node:child_process'
import { chmodSync, copyFileSync, cpSync, globSync, lstatSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { Type } from '@sinclair/typebox'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { loadTokenizer } from '../../src/models/tokenizer.ts'
import { readCompletion, readStream, textOfStream } from '../support/chat.ts'
import { compileCache } from '../support/command.ts'
import { checkoutPaths, isInImage } from '../support/image-files.ts'
import { checked } from '../support/operations.ts'
import { projectFolder, spawnService } from '../support/process.ts'
import { replay } from '../support/replay.ts'
import { temporaryFolder } from '../support/service.ts'
import { upstreamForThisTest } from '../support/upstream.ts'

const dockerfile = readFileSync(join(projectFolder, 'Dockerfile'), 'utf8')
const [, ...command] = checked(Type.Array(Type.String()), JSON.parse(/^CMD (.+)$/m.exec(dockerfile)?.[1] ?? '[]'))

/** The maximum size of the image's `/app`, in megabytes of 10^6 bytes. */
const maxMegabytes = 75

describe('what the Dockerfile installs', () => {
  const { path: folder, remove } = temporaryFolder()
  const node = join(folder, 'node')

  beforeAll(() => {
    // Copies the files that a build of the image gets from the checkout.
    const copies = checkoutPaths().filter(isInImage)
    expect(copies).toContain('src/entry.ts')
    for (const path of copies) cpSync(join(projectFolder, path), join(folder, path), { verbatimSymlinks: true })
    const [install = '', prune = ''] = [...dockerfile.matchAll(/^RUN (n.+)$/gm)].map(([, line]) => line ?? '')
    expect(install).toBe('npm ci --omit=dev --omit=optional')
    expect(prune).toMatch(/^node ops\/prune\.ts node_modules "linux-/)
    // This works offline, because npm ci in the checkout has filled npm's cache.
    execFileSync('sh', ['-c', `${install} --prefer-offline`], {
      cwd: folder,
      env: { ...process.env, ...compileCache },
      stdio: 'ignore',
    })
    const platform = `${process.platform}-${process.arch}`
    execFileSync(process.execPath, ['ops/prune.ts', 'node_modules', platform], { cwd: folder, stdio: 'pipe' })
    // The image has its own Node. Here the Node of the checkout takes its place.
    copyFileSync(process.execPath, node)
    chmodSync(node, 0o755)
    execFileSync('chmod', ['-R', 'a-w', folder])
  }, 120_000)

  afterAll(() => {
    execFileSync('chmod', ['-R', 'u+w', folder])
    remove()
  })

  it(`has at most ${maxMegabytes} MB`, () => {
    const files = globSync('{*,*/**}', { cwd: folder }).filter((file) => file !== 'node')
    const bytes = files.map((file) => lstatSync(join(folder, file)).size)
    expect(bytes.reduce((sum, size) => sum + size, 0)).toBeLessThan(maxMegabytes * 1e6)
  })

  it('has every package that the sources need, except node-llama-cpp, which operators add', () => {
    // These modules are not loaded, because loading them starts the service or the work of a thread.
    const entries = ['main.ts', 'entry.ts', join('storage', 'checkpoint.ts')].map((name) => join('src', name))
    // Modules for browsers are not loaded either. Below, the whole page is read, with its libraries.
    const isForNode = (file: string) => !file.includes(join('page', 'browser')) && !entries.includes(file)
    const sources = globSync('src/**/*.ts', { cwd: folder }).filter(isForNode)
    const texts = sources.map((file) => readFileSync(join(folder, file), 'utf8'))
    const loadedLate = texts
      .flatMap((text) => [...text.matchAll(/\bimport\('([^'.][^']*)'\)/g)])
      .map(([, name]) => name)
    expect(loadedLate).toContain('gpt-tokenizer/encodingParams/constants')
    const names = [...new Set([...loadedLate, '@ai-sdk/anthropic', '@ai-sdk/google'])]
    const all = [...names, ...sources.map((file) => pathToFileURL(join(folder, file)).href)]
    expect(all.length).toBeGreaterThan(200)
    // A file of that folder reads the page, so that the packages of that folder are used.
    const page = pathToFileURL(join(folder, 'src', 'page', 'contents.ts')).href
    const script = `for (const name of ${JSON.stringify(all)}) await import(name)
      const { readPage } = await import(${JSON.stringify(page)})
      const { files } = await readPage()
      if (files.filter(({ path }) => path.startsWith('libraries/')).length < 9) throw new Error('The page lacks a library.')`
    execFileSync(node, ['--input-type=module', '--eval', script], { cwd: folder, stdio: 'pipe' })
  }, 60_000)

  it('runs the service from a read-only folder, with its data in another folder', async () => {
    const upstream = await upstreamForThisTest(replay('anthropic/text.json'), replay('google/text.json'))
    const [data, config] = [temporaryFolder(), temporaryFolder()]
    onTestFinished(() => {
      data.remove()
      config.remove()
    })
    const shared = { apiKey: 'canary-key-1234567890', baseUrl: upstream.url }
    const models = {
      understudy: { adapter: 'understudy' },
      claude: { ...shared, adapter: '@ai-sdk/anthropic', model: 'claude-sonnet-4-5' },
      gemini: { ...shared, adapter: '@ai-sdk/google', model: 'gemini-2.5-flash' },
    }
    writeFileSync(join(config.path, 'models.json'), JSON.stringify({ models }))
    const environment = { HOST: '0.0.0.0', DATA_DIR: data.path, CONFIG_DIR: config.path }
    const service = await spawnService(node, command, { folder, environment })
    const url = service.url.replace('0.0.0.0', '127.0.0.1')
    const headers = { authorization: `Bearer ${service.key}`, 'content-type': 'application/json' }
    const post = (path: string, body: object) =>
      fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) })
    const chat = (body: object) =>
      post('/chat/completions', { character: 'Fern', messages: [{ role: 'user', content: 'Hello!' }], ...body })

    expect((await post('/plants', { name: 'Monstera' })).status).toBe(200)
    const whole = await chat({ model: 'understudy' })
    expect([whole.status, whole.headers.get('x-character')]).toEqual([200, expect.stringMatching(/^Fern@sha256:/)])
    const { choices, usage } = await readCompletion(whole)
    const { count } = await loadTokenizer()
    expect(usage?.completion_tokens).toBe(count(choices[0]?.message.content ?? ''))
    expect(usage?.prompt_tokens).toBeGreaterThan(1000)
    expect(textOfStream(await readStream(await chat({ model: 'understudy', stream: true })))).not.toBe('')
    for (const model of ['claude', 'gemini']) {
      const { choices } = await readCompletion(await chat({ model }))
      expect([model, choices[0]?.message.content]).toEqual([model, 'Yellow leaves? Most likely too much water.'])
    }
    const page = await (await fetch(`${url}/docs/`)).text()
    const [, script = ''] = /<script[^>]*\ssrc="([^"]*)"/.exec(page) ?? []
    expect((await (await fetch(new URL(script, `${url}/docs/`))).text()).length).toBeGreaterThan(1_000_000)
    expect((await fetch(`${url}/openapi.json`)).status).toBe(200)
  }, 60_000)
})
