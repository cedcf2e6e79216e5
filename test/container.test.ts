import { execFileSync } from 'node:child_process'
import { chmodSync, copyFileSync, cpSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { projectFolder, spawnService } from './support/process.ts'
import { temporaryFolder } from './support/service.ts'

const dockerfile = readFileSync(join(projectFolder, 'Dockerfile'), 'utf8')

it('does what the Dockerfile does: production dependencies alone, a source that cannot be written, data elsewhere', async () => {
  const { path: folder, remove } = temporaryFolder()
  const data = temporaryFolder()
  onTestFinished(() => {
    execFileSync('chmod', ['-R', 'u+w', folder])
    remove()
    data.remove()
  })
  // Every COPY from the checkout, as the file has it.
  const copies = [...dockerfile.matchAll(/^COPY (?!--from)(.+) (\S+)$/gm)].flatMap(([, sources = '']) =>
    sources.split(' '),
  )
  expect(copies).toContain('src')
  for (const source of new Set(copies)) {
    const target = join(folder, source)
    mkdirSync(join(target, '..'), { recursive: true })
    cpSync(join(projectFolder, source), target, { recursive: true })
  }
  const install = /^RUN (npm ci .+)$/m.exec(dockerfile)?.[1] ?? ''
  expect(install).toBe('npm ci --omit=dev --omit=optional')
  // Offline where the cache has it all, as it has after the checkout's own npm ci.
  execFileSync('sh', ['-c', `${install} --prefer-offline`], { cwd: folder, stdio: 'ignore' })
  // The image brings Node 26; here it is the checkout's own.
  const node = join(folder, 'node')
  copyFileSync(process.execPath, node)
  chmodSync(node, 0o755)
  execFileSync('chmod', ['-R', 'a-w', folder])

  const [, ...command] = JSON.parse(/^CMD (.+)$/m.exec(dockerfile)?.[1] ?? '[]')
  const service = await spawnService(node, command, { folder, environment: { HOST: '0.0.0.0', DATA_DIR: data.path } })
  const headers = { authorization: `Bearer ${service.key}`, 'content-type': 'application/json' }
  const local = service.url.replace('0.0.0.0', '127.0.0.1')
  const plant = await fetch(`${local}/plants`, { method: 'POST', headers, body: '{"name": "Monstera"}' })
  expect(plant.status).toBe(200)
  const chat = await fetch(`${local}/chat/completions`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ model: 'understudy', character: 'Fern', messages: [{ role: 'user', content: 'Hello!' }] }),
  })
  expect(chat.status).toBe(200)
  expect(chat.headers.get('x-character')).toMatch(/^Fern@sha256:/)
  expect((await fetch(`${local}/docs/`)).status).toBe(200)
  expect((await fetch(`${local}/openapi.json`)).status).toBe(200)
}, 120_000)

it('keeps the container plain: no root, a volume for the data, a health check, one port', () => {
  expect(dockerfile.match(/^FROM .+$/gm)).toEqual(['FROM node:26-slim AS dependencies', 'FROM node:26-slim'])
  expect(dockerfile).toMatch(/^USER node$/m)
  expect(dockerfile).toMatch(/^VOLUME \/data$/m)
  expect(dockerfile).toMatch(/DATA_DIR=\/data/)
  expect(dockerfile).toMatch(/HOST=0\.0\.0\.0/)
  expect(dockerfile).toMatch(/^HEALTHCHECK /m)
  const compose = readFileSync(join(projectFolder, 'compose.yaml'), 'utf8')
  expect(compose).toContain('"3000:3000"')
  expect(compose).toMatch(/data:\/data/)
})
