import { createHash } from 'node:crypto'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import { followRedirect } from '../../../src/models/llama-cpp/download.ts'
import { createLlamaCppModel } from '../../../src/models/llama-cpp/llama-cpp.ts'
import { loadNodeLlamaCpp } from '../../../src/models/llama-cpp/node-llama-cpp.ts'
import { Queue } from '../../../src/models/llama-cpp/queue.ts'
import { readTask } from '../../../src/models/llama-cpp/request.ts'
import { findWeights } from '../../../src/models/llama-cpp/weights.ts'
import type { ModelRequest } from '../../../src/models/model.ts'
import type { CompletionRequest } from '../../../src/openai/completion-request.ts'
import { noProxies, type Proxies } from '../../../src/proxies.ts'
import { workAtOnce } from '../../../src/work/work.ts'
import { until } from '../../support/eventually.ts'
import { forwardProxyForThisTest } from '../../support/forward-proxy.ts'

/* The adapter without inference. Inference needs a package that is no dependency; its tests are in llama-cpp.inference.ts. */

const home = mkdtempSync(join(tmpdir(), 'conservatory-test-'))
afterAll(() => rmSync(home, { recursive: true }))
const newFolder = () => mkdtempSync(join(home, 'weights-'))

const weights = Buffer.concat([Buffer.from('GGUF'), Buffer.alloc(1_000_000, 'leaf')])
const digest = createHash('sha256').update(weights).digest('hex')
const never = new AbortController().signal

/** Collects the output for standard error. */
function capture(isTTY = false) {
  const texts: string[] = []
  return { isTTY, texts, write: (text: string) => texts.push(text) }
}

function find(
  model: string,
  folder: string,
  sha256?: string,
  more: { signal?: AbortSignal; isTTY?: boolean; proxies?: Proxies } = {},
) {
  const output = capture(more.isTTY)
  const settings = { adapter: 'llama.cpp' as const, model, ...(sha256 === undefined ? {} : { sha256 }) }
  return {
    output,
    file: findWeights(settings, { folder, signal: more.signal ?? never, output, proxies: noProxies, ...more }),
  }
}

/** A server of weights on loopback, which is closed at the end of the test. */
async function serve(answer: (request: IncomingMessage, response: ServerResponse) => void) {
  const requests: IncomingMessage[] = []
  const server = createServer((request, response) => {
    requests.push(request)
    answer(request, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  const address = server.address()
  const port = typeof address === 'object' ? address?.port : 0
  return { url: `http://127.0.0.1:${port}/tiny.gguf`, requests }
}

const whole = (_request: IncomingMessage, response: ServerResponse) =>
  void response.writeHead(200, { 'content-length': weights.length, etag: '"v1"' }).end(weights)

/** Sends the first half of the file, and then closes the connection. */
const half = (_request: IncomingMessage, response: ServerResponse) => {
  response.writeHead(200, { 'content-length': weights.length, etag: '"v1"' })
  response.write(weights.subarray(0, 500_000), () => response.socket?.end())
}

describe('the package', () => {
  test('that is missing is reported in one sentence, to the operator and in the reply', async () => {
    const sentence =
      'The package node-llama-cpp-missing, which runs models of the adapter llama.cpp, is not installed. ' +
      'Run: npm install --save-prod node-llama-cpp-missing'
    await expect(loadNodeLlamaCpp('node-llama-cpp-missing')).rejects.toThrow(sentence)
    const { url, requests } = await serve(whole)
    const settings = { adapter: 'llama.cpp' as const, model: url }
    const model = createLlamaCppModel(settings, newFolder(), { packageName: 'node-llama-cpp-missing' })
    for (let times = 0; times < 2; times += 1) {
      await expect(model.complete(ask({}), never)).rejects.toMatchObject({
        status: 503,
        code: 'model_unavailable',
        message: sentence,
      })
    }
    // Nothing is downloaded for a model that could not run.
    expect(requests.length).toBe(0)
    await model.close()
  })

  test('that is not node-llama-cpp is reported', async () => {
    await expect(loadNodeLlamaCpp('pino')).rejects.toThrow('Install version 3 of it.')
  })

  test('is an optional peer, which npm ci does not install', () => {
    const manifest = JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8'))
    expect(manifest.peerDependencies).toHaveProperty('node-llama-cpp')
    expect(manifest.peerDependenciesMeta['node-llama-cpp']).toEqual({ optional: true })
    for (const group of ['dependencies', 'devDependencies', 'optionalDependencies']) {
      expect(manifest[group]).not.toHaveProperty('node-llama-cpp')
    }
  })
})

describe('a path', () => {
  test('is absolute, or relative to the folder; a checksum is verified', async () => {
    const folder = newFolder()
    const file = join(folder, 'own.gguf')
    writeFileSync(file, weights)
    expect(await find(file, newFolder()).file).toBe(file)
    expect(await find('own.gguf', folder, digest).file).toBe(file)
  })

  test('to a wrong file is an error that says why, and the file stays', async () => {
    const folder = newFolder()
    const file = join(folder, 'own.gguf')
    writeFileSync(file, weights)
    await expect(find(file, folder, 'f'.repeat(64)).file).rejects.toThrow(
      `The file ${file} has the SHA-256 ${digest} instead of ${'f'.repeat(64)}.`,
    )
    writeFileSync(join(folder, 'page.gguf'), '<!doctype html>')
    await expect(find('page.gguf', folder).file).rejects.toThrow('page.gguf is not GGUF.')
    await expect(find('none.gguf', folder).file).rejects.toThrow('none.gguf cannot be read.')
    expect(readdirSync(folder).sort()).toEqual(['own.gguf', 'page.gguf'])
  })
})

describe('a download', () => {
  test('is made once, is checked, and leaves no partial file', async () => {
    const folder = join(newFolder(), 'not', 'there', 'yet')
    const { url, requests } = await serve(whole)
    const file = await find(url, folder, digest).file
    expect(readFileSync(file).equals(weights)).toBe(true)
    expect(await find(url, folder, digest).file).toBe(file)
    expect(readdirSync(folder)).toEqual([expect.stringMatching(/^[0-9a-f]{12}-tiny\.gguf$/)])
    expect(requests.length).toBe(1)
    // The request has no credentials of the service.
    expect(requests[0]?.headers.authorization).toBeUndefined()
  })

  test('is made once for two models with the same address', async () => {
    const folder = newFolder()
    const { url, requests } = await serve(whole)
    const [first, second] = await Promise.all([find(url, folder).file, find(url, folder, digest).file])
    expect(first).toBe(second)
    expect(requests.length).toBe(1)
  })

  test('of a file with a wrong checksum, or of an HTML page, leaves no file', async () => {
    const folder = newFolder()
    const { url } = await serve(whole)
    await expect(find(url, folder, 'a'.repeat(64)).file).rejects.toThrow(/has the SHA-256 .* instead of a+\./)
    const page = await serve((_request, response) => response.end('<!doctype html>Please log in'))
    await expect(find(page.url, folder).file).rejects.toThrow('is not GGUF.')
    expect(readdirSync(folder)).toEqual([])
  })

  test('goes through the proxy if one is set, and so does its redirect', async () => {
    const { url } = await serve((request, response) => {
      if (request.headers.host === 'files.example') whole(request, response)
      else response.writeHead(302, { location: 'http://files.example/tiny.gguf' }).end()
    })
    const proxy = await forwardProxyForThisTest(url)
    const proxies = { of: (asked: URL) => (asked.hostname.endsWith('.example') ? proxy.url : undefined) }
    const { file } = find('http://hub.example/tiny.gguf', newFolder(), digest, { proxies })
    expect(readFileSync(await file).equals(weights)).toBe(true)
    expect(proxy.asked.map(({ target }) => target)).toEqual([
      'http://hub.example/tiny.gguf',
      'http://files.example/tiny.gguf',
    ])
  })

  test('follows a few redirects, but none from https to http', async () => {
    const { url, requests } = await serve((request, response) => {
      if (request.url === '/tiny.gguf') response.writeHead(302, { location: '/storage/1?signature=x' }).end()
      else whole(request, response)
    })
    expect(existsSync(await find(url, newFolder(), digest).file)).toBe(true)
    expect(requests.map((request) => request.url)).toEqual(['/tiny.gguf', '/storage/1?signature=x'])

    const loop = await serve((_request, response) => response.writeHead(302, { location: '/tiny.gguf' }).end())
    await expect(find(loop.url, newFolder()).file).rejects.toThrow('redirects again and again.')
    expect(loop.requests.length).toBe(6)
    const file = await serve((_request, response) => response.writeHead(302, { location: 'file:///etc/passwd' }).end())
    await expect(find(file.url, newFolder()).file).rejects.toThrow('redirects to where a download is not followed.')

    const secure = new URL('https://hub.example/a')
    expect(followRedirect(secure, 'http://hub.example/b')).toBeNull()
    expect(followRedirect(secure, '//cdn.example/b')?.href).toBe('https://cdn.example/b')
    expect(followRedirect(new URL('http://hub.example/a'), 'https://cdn.example/b')?.protocol).toBe('https:')
  })

  test('that a server refuses, or does not answer, is an error that does not show the query of the address', async () => {
    const { url } = await serve((_request, response) => response.writeHead(403).end('secret'))
    const error = await find(`${url}?token=secret`, newFolder()).file.catch(String)
    expect(error).toBe(`Error: ${url} cannot be downloaded: its server answered 403.`)
    await expect(find('http://127.0.0.1:9/x.gguf', newFolder()).file).rejects.toThrow('cannot be reached.')
  })

  test('that breaks off is continued by the next attempt', async () => {
    const folder = newFolder()
    let times = 0
    const { url, requests } = await serve((request, response) => {
      times += 1
      if (times === 1) return half(request, response)
      const start = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? '')?.[1])
      const headers = { 'content-range': `bytes ${start}-${weights.length - 1}/${weights.length}`, etag: '"v1"' }
      response.writeHead(206, { ...headers, 'content-length': weights.length - start }).end(weights.subarray(start))
    })
    await expect(find(url, folder, digest).file).rejects.toThrow(
      'broke off; the next attempt continues it or starts again.',
    )
    expect(readFileSync(await find(url, folder, digest).file).equals(weights)).toBe(true)
    // The operating system may drop a part of the first half when the connection ends.
    const { range = '', 'if-range': version } = requests[1]?.headers ?? {}
    const [, start] = /^bytes=(\d+)-$/.exec(range) ?? []
    expect(Number(start)).toBeGreaterThan(0)
    expect(Number(start)).toBeLessThanOrEqual(500_000)
    expect(version).toBe('"v1"')
    expect(readdirSync(folder).length).toBe(1)
  })

  test('that broke off begins again if the file has changed, or has no strong ETag', async () => {
    for (const etag of ['"v2"', 'W/"v1"']) {
      const folder = newFolder()
      let times = 0
      const { url } = await serve((request, response) => {
        times += 1
        if (times === 1) return half(request, response)
        response.writeHead(200, { 'content-length': weights.length, etag }).end(weights)
      })
      await expect(find(url, folder, digest).file).rejects.toThrow('broke off')
      expect(readFileSync(await find(url, folder, digest).file).equals(weights)).toBe(true)
      expect(readdirSync(folder).length).toBe(1)
    }
  })

  test('stops when the service closes', async () => {
    const closing = new AbortController()
    const { url } = await serve((_request, response) => {
      response.writeHead(200, { 'content-length': weights.length }).write(weights.subarray(0, 1000))
      setTimeout(() => closing.abort(), 50)
    })
    const folder = newFolder()
    await expect(find(url, folder, undefined, { signal: closing.signal }).file).rejects.toThrow('aborted')
    expect(readdirSync(folder).every((name) => name.endsWith('.part'))).toBe(true)
  })

  test('shows its progress: a line for every tenth, or a bar', async () => {
    // Each tenth is sent after the line for the tenth before it; otherwise two tenths might arrive together.
    const inTenths = async (response: ServerResponse) => {
      response.writeHead(200, { 'content-length': weights.length })
      for (let tenth = 1; tenth <= 10; tenth++) {
        const [from = 0, to] = [tenth - 1, tenth].map((part) => Math.ceil((part * weights.length) / 10))
        response.write(weights.subarray(from, to))
        await until(() => lines.output.texts.length >= tenth)
      }
      response.end()
    }
    const tenths = await serve((_request, response) => void inTenths(response))
    const lines = find(tenths.url, newFolder())
    await lines.file
    expect(lines.output.texts.length).toBe(10)
    for (const [index, line] of lines.output.texts.entries()) {
      expect(line).toMatch(
        new RegExp(`^Downloading [0-9a-f]{12}-tiny\\.gguf: ${index + 1}\\d % of 1\\.0 MB, [\\d.]+ MB/s\\n$`),
      )
    }
    const { url } = await serve((_request, response) => void response.end(weights))
    const bar = find(url, newFolder(), undefined, { isTTY: true })
    await bar.file
    const last = bar.output.texts.at(-1)
    expect(last?.startsWith('\r')).toBe(true)
    expect(last).toContain(`[${'#'.repeat(30)}] 100 % of 1.0 MB`)
    expect(last?.endsWith('\n')).toBe(true)
  })
})

describe('the queue', () => {
  test('admits one request at a time, in the order of arrival, even if a waiting request leaves', async () => {
    const queue = new Queue(2)
    const order: string[] = []
    const leave = await queue.enter(never)
    const impatient = new AbortController()
    const gone = queue.enter(impatient.signal)
    const second = queue.enter(never).then((done) => {
      order.push('second')
      return done
    })
    await expect(queue.enter(never)).rejects.toMatchObject({ status: 503, code: 'model_busy' })
    impatient.abort()
    await expect(gone).rejects.toThrow('aborted')
    const third = queue.enter(never).then(() => order.push('third'))
    await new Promise((resolve) => setTimeout(resolve, 10))
    expect(order).toEqual([])
    leave()
    leave()
    const secondLeaves = await second
    expect(order).toEqual(['second'])
    secondLeaves()
    await third
    expect(order).toEqual(['second', 'third'])
  })

  test('of length 0 admits one request and lets no other wait', async () => {
    const queue = new Queue(0)
    const leave = await queue.enter(never)
    await expect(queue.enter(never)).rejects.toMatchObject({ headers: { 'retry-after': '1' } })
    leave()
    const again = await queue.enter(never)
    const closed = queue.close()
    again()
    await closed
  })
})

function ask(more: Partial<CompletionRequest> & Record<string, unknown>, characterName: string | null = null) {
  const messages: CompletionRequest['messages'] = [{ role: 'user', content: 'Hi' }]
  const request: ModelRequest = {
    body: { model: 'tiny', messages, ...more },
    persona: { name: characterName, card: null, userName: 'Ada' },
    work: workAtOnce(),
  }
  return request
}

describe('a request', () => {
  test('gets the defaults of llama.cpp, and may have parameters that OpenAI lacks, with the names of llama.cpp', () => {
    expect(readTask(ask({}))).toMatchObject({
      history: [{ type: 'user', text: 'Hi' }],
      sampling: { temperature: 0.8, topK: 40, topP: 0.95, minP: 0.05, customStopTriggers: [] },
      choices: 1,
      maxTokens: undefined,
    })
    const sent = { temperature: 0, top_p: 0.5, top_k: 7, min_p: 0, repeat_penalty: 1.1, presence_penalty: -1, n: 2 }
    expect(readTask(ask({ ...sent, seed: -1, stop: ['a', ''], max_tokens: 5, frequency_penalty: null }))).toMatchObject(
      {
        sampling: {
          temperature: 0,
          topP: 0.5,
          topK: 7,
          minP: 0,
          seed: 2 ** 32 - 1,
          repeatPenalty: { penalty: 1.1, presencePenalty: -1, frequencyPenalty: 0 },
          customStopTriggers: ['a'],
        },
        choices: 2,
        maxTokens: 5,
      },
    )
    expect(readTask(ask({ stop: 'x', max_completion_tokens: 3, max_tokens: 5 }))).toMatchObject({
      sampling: { customStopTriggers: ['x'] },
      maxTokens: 3,
    })
    const seeds = Array.from({ length: 5 }, () => readTask(ask({})).sampling.seed)
    expect(new Set(seeds).size).toBe(5)
  })

  test('becomes messages for a chat template: roles, parts and names are converted', () => {
    const messages: CompletionRequest['messages'] = [
      { role: 'system', content: 'You are Fern.' },
      { role: 'system', name: 'example_user', content: 'Water?' },
      { role: 'system', name: 'example_assistant', content: 'Yes!' },
      {
        role: 'developer',
        content: [
          { type: 'text', text: 'Be ' },
          { type: 'text', text: 'brief.' },
        ],
      },
      { role: 'user', name: 'Grace', content: 'Hello' },
      { role: 'assistant', name: 'Fern', content: null, refusal: 'No.' },
      { role: 'user', content: 'Why?' },
    ]
    expect(readTask(ask({ messages }, 'Fern')).history).toEqual([
      { type: 'system', text: 'You are Fern.' },
      { type: 'system', text: 'Ada: Water?' },
      { type: 'system', text: 'Fern: Yes!' },
      { type: 'system', text: 'Be brief.' },
      { type: 'user', text: 'Grace: Hello' },
      { type: 'model', response: ['No.'] },
      { type: 'user', text: 'Why?' },
    ])
  })

  test('that the model cannot take is a 400 that names the field', () => {
    const call = { id: 'call_1', type: 'function' as const, function: { name: 'water', arguments: '{}' } }
    const user = { role: 'user' as const, content: 'Hi' }
    const cases: readonly (readonly [Record<string, unknown>, string])[] = [
      [{ min_p: 2 }, 'min_p'],
      [{ top_k: 'many' }, 'top_k'],
      [{ repeat_penalty: 0 }, 'repeat_penalty'],
      [{ messages: [user, { role: 'assistant', content: null, tool_calls: [call] }] }, 'messages[1].tool_calls'],
      [{ messages: [{ role: 'tool', content: 'wet', tool_call_id: 'call_1' }] }, 'messages[0].role'],
      [{ messages: [{ role: 'user', content: [{ type: 'input_audio' }] }] }, 'messages[0].content[0]'],
    ]
    for (const [more, param] of cases) {
      expect(() => readTask(ask(more))).toThrow(expect.objectContaining({ status: 400, code: 'invalid_field', param }))
    }
  })
})
